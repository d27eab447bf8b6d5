//! The keys of a hard disk's layout: in proportion, or as measured.

use iosched_sim::disk::hdd::{ExactZone, HeadOrder, Layout, Spares, ZoneSpec, Zones};
use iosched_sim::units::{Bytes, Sectors};
use serde::{Deserialize, Serialize};

use super::values::{Wrong, between, count, time};

const MOST_CYLINDERS: u32 = 100_000_000;
const MOST_SECTORS: u32 = 100_000;

/// Where the sectors lie.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LayoutKeys {
    cylinders: Option<u32>,
    band_cylinders: Option<u32>,
    track_switch_ms: Option<f64>,
    heads: Option<HeadOrder>,
    spares: Option<SpareKind>,
    range_cylinders: Option<u32>,
    even: Option<EvenKeys>,
    zone: Option<Vec<ZoneSpec>>,
    measured_zone: Option<Vec<MeasuredZoneKeys>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EvenKeys {
    zones: u32,
    outer_sectors_per_track: u32,
    inner_sectors_per_track: u32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasuredZoneKeys {
    first_cylinder: u32,
    last_cylinder: u32,
    sectors_per_track: u32,
    track_skew_sectors: f64,
    cylinder_skew_sectors: f64,
    #[serde(default)]
    offset_sectors: f64,
    #[serde(default)]
    unused_sectors: u32,
    #[serde(default)]
    spares: u32,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SpareKind {
    None,
    TracksPerZone,
    SectorsPerTrack,
    SectorsPerCylinder,
    SectorsPerRange,
    SectorsPerZone,
}

impl LayoutKeys {
    pub(super) fn of(layout: &Layout) -> LayoutKeys {
        match layout {
            Layout::Proportional {
                cylinders,
                band,
                track_switch,
                zones,
            } => {
                let (even, zone) = zone_keys(zones);
                LayoutKeys {
                    cylinders: Some(*cylinders),
                    band_cylinders: Some(*band),
                    track_switch_ms: Some(track_switch.as_millis_f64()),
                    even,
                    zone,
                    ..LayoutKeys::default()
                }
            }
            Layout::Exact {
                zones,
                heads,
                spares,
            } => {
                let (spares, range_cylinders) = spare_keys(*spares);
                LayoutKeys {
                    heads: Some(*heads),
                    spares: Some(spares),
                    range_cylinders,
                    measured_zone: Some(zones.iter().map(MeasuredZoneKeys::of).collect()),
                    ..LayoutKeys::default()
                }
            }
        }
    }

    /// The size of a layout as measured.
    pub(super) fn measured_capacity(&self, surfaces: u32) -> Option<Bytes> {
        let zones = self.measured_zone.as_ref()?;
        let spares = self.kind_of_spares().ok()?;
        let mut sectors = 0_u64;
        for (index, keys) in zones.iter().enumerate() {
            let zone = keys.zone(index).ok()?;
            sectors = sectors.saturating_add(zone.sectors(surfaces, spares));
        }
        Some(Sectors::new(sectors).to_bytes())
    }

    pub(super) fn layout(&self, surfaces: u32, capacity: Sectors) -> Result<Layout, Wrong> {
        match &self.measured_zone {
            Some(zones) => self.measured(zones, surfaces, capacity),
            None => self.proportional(),
        }
    }

    fn proportional(&self) -> Result<Layout, Wrong> {
        for (key, given) in [
            ("heads", self.heads.is_some()),
            ("spares", self.spares.is_some()),
            ("range_cylinders", self.range_cylinders.is_some()),
        ] {
            if given {
                return Err(Wrong::new(
                    key,
                    "comes with [[hdd.layout.measured_zone]] only",
                ));
            }
        }
        let missing = |key| Wrong::new(key, "is missing");
        let cylinders = self.cylinders.ok_or_else(|| missing("cylinders"))?;
        let track_switch = self.track_switch_ms;
        let track_switch = track_switch.ok_or_else(|| missing("track_switch_ms"))?;
        Ok(Layout::Proportional {
            cylinders: count("cylinders", cylinders, 1, MOST_CYLINDERS)?,
            band: count(
                "band_cylinders",
                self.band_cylinders.unwrap_or(1),
                1,
                100_000,
            )?,
            track_switch: time("track_switch_ms", track_switch)?,
            zones: self.zones()?,
        })
    }

    fn zones(&self) -> Result<Zones, Wrong> {
        let sectors = |key: &str, value, most| count(key, value, 1, most);
        match (&self.even, &self.zone) {
            (Some(even), None) => {
                let outer = even.outer_sectors_per_track;
                let outer = sectors("even.outer_sectors_per_track", outer, MOST_SECTORS)?;
                let inner = even.inner_sectors_per_track;
                Ok(Zones::Even {
                    count: count("even.zones", even.zones, 1, 1000)?,
                    outer,
                    inner: sectors("even.inner_sectors_per_track", inner, outer)?,
                })
            }
            (None, Some(zones)) if !zones.is_empty() => {
                for (index, zone) in zones.iter().enumerate() {
                    let key = |name: &str| format!("zone.{index}.{name}");
                    count(&key("cylinders"), zone.cylinders, 1, MOST_CYLINDERS)?;
                    let per_track = zone.sectors_per_track;
                    sectors(&key("sectors_per_track"), per_track, MOST_SECTORS)?;
                }
                Ok(Zones::Table(zones.clone()))
            }
            _ => {
                let what = "is followed by one of [hdd.layout.even], [[hdd.layout.zone]] and \
                            [[hdd.layout.measured_zone]]";
                Err(Wrong::new("cylinders", what))
            }
        }
    }

    fn measured(
        &self,
        keys: &[MeasuredZoneKeys],
        surfaces: u32,
        capacity: Sectors,
    ) -> Result<Layout, Wrong> {
        let proportional = self.cylinders.is_some()
            || self.band_cylinders.is_some()
            || self.track_switch_ms.is_some()
            || self.even.is_some()
            || self.zone.is_some();
        if proportional {
            let what = "says it all: no other zones, cylinders, bands and switches besides";
            return Err(Wrong::new("measured_zone", what));
        }
        let spares = self.kind_of_spares()?;
        let mut zones: Vec<ExactZone> = Vec::with_capacity(keys.len());
        let mut total = 0;
        for (index, keys) in keys.iter().enumerate() {
            let zone = keys.zone(index)?;
            if let Some(before) = zones.last()
                && zone.first_cylinder <= before.last_cylinder
            {
                let what = format!(
                    "lies in the zone before, which ends at {}",
                    before.last_cylinder
                );
                let key = format!("measured_zone.{index}.first_cylinder");
                return Err(Wrong::new(&key, what));
            }
            let unit = unit_sectors(&zone, surfaces, spares);
            let sectors = zone.sectors(surfaces, spares);
            if sectors == 0 || unit.is_some_and(|unit| unit <= u64::from(zone.spares)) {
                let key = format!("measured_zone.{index}.spares");
                return Err(Wrong::new(&key, "and unused sectors leave none for data"));
            }
            total += sectors;
            zones.push(zone);
        }
        if capacity.as_u64() > total || total == 0 {
            let what = format!("hold {total} sectors, fewer than the capacity");
            return Err(Wrong::new("measured_zone", what));
        }
        Ok(Layout::Exact {
            zones,
            heads: self.heads.unwrap_or_default(),
            spares,
        })
    }

    fn kind_of_spares(&self) -> Result<Spares, Wrong> {
        Ok(match self.spares.unwrap_or(SpareKind::None) {
            SpareKind::None => Spares::None,
            SpareKind::TracksPerZone => Spares::TracksPerZone,
            SpareKind::SectorsPerTrack => Spares::SectorsPerTrack,
            SpareKind::SectorsPerCylinder => Spares::SectorsPerCylinder,
            SpareKind::SectorsPerZone => Spares::SectorsPerZone,
            SpareKind::SectorsPerRange => {
                let missing = || Wrong::new("range_cylinders", "is missing");
                let cylinders = self.range_cylinders.ok_or_else(missing)?;
                Spares::SectorsPerRange {
                    cylinders: count("range_cylinders", cylinders, 1, MOST_CYLINDERS)?,
                }
            }
        })
    }
}

/// Sectors of the unit at whose end spares are kept, if it is not the whole zone.
fn unit_sectors(zone: &ExactZone, surfaces: u32, spares: Spares) -> Option<u64> {
    let track = u64::from(zone.sectors_per_track);
    let cylinder = track * u64::from(surfaces);
    match spares {
        Spares::None | Spares::TracksPerZone | Spares::SectorsPerZone => None,
        Spares::SectorsPerTrack => Some(track),
        Spares::SectorsPerCylinder => Some(cylinder),
        Spares::SectorsPerRange { cylinders } => Some(cylinder * u64::from(cylinders)),
    }
}

fn zone_keys(zones: &Zones) -> (Option<EvenKeys>, Option<Vec<ZoneSpec>>) {
    match zones {
        &Zones::Even {
            count,
            outer,
            inner,
        } => {
            let even = EvenKeys {
                zones: count,
                outer_sectors_per_track: outer,
                inner_sectors_per_track: inner,
            };
            (Some(even), None)
        }
        Zones::Table(zones) => (None, Some(zones.clone())),
    }
}

fn spare_keys(spares: Spares) -> (SpareKind, Option<u32>) {
    match spares {
        Spares::None => (SpareKind::None, None),
        Spares::TracksPerZone => (SpareKind::TracksPerZone, None),
        Spares::SectorsPerTrack => (SpareKind::SectorsPerTrack, None),
        Spares::SectorsPerCylinder => (SpareKind::SectorsPerCylinder, None),
        Spares::SectorsPerRange { cylinders } => (SpareKind::SectorsPerRange, Some(cylinders)),
        Spares::SectorsPerZone => (SpareKind::SectorsPerZone, None),
    }
}

impl MeasuredZoneKeys {
    fn of(zone: &ExactZone) -> MeasuredZoneKeys {
        MeasuredZoneKeys {
            first_cylinder: zone.first_cylinder,
            last_cylinder: zone.last_cylinder,
            sectors_per_track: zone.sectors_per_track,
            track_skew_sectors: zone.track_skew,
            cylinder_skew_sectors: zone.cylinder_skew,
            offset_sectors: zone.offset,
            unused_sectors: zone.unused,
            spares: zone.spares,
        }
    }

    fn zone(&self, index: usize) -> Result<ExactZone, Wrong> {
        let key = |name: &str| format!("measured_zone.{index}.{name}");
        let last = count(
            &key("last_cylinder"),
            self.last_cylinder,
            self.first_cylinder,
            MOST_CYLINDERS,
        )?;
        let skew = |name: &str, sectors| {
            let most = f64::from(MOST_SECTORS);
            between(&key(name), sectors, 0.0, most)
        };
        Ok(ExactZone {
            first_cylinder: self.first_cylinder,
            last_cylinder: last,
            sectors_per_track: count(
                &key("sectors_per_track"),
                self.sectors_per_track,
                1,
                MOST_SECTORS,
            )?,
            track_skew: skew("track_skew_sectors", self.track_skew_sectors)?,
            cylinder_skew: skew("cylinder_skew_sectors", self.cylinder_skew_sectors)?,
            offset: skew("offset_sectors", self.offset_sectors)?,
            unused: self.unused_sectors,
            spares: self.spares,
        })
    }
}
