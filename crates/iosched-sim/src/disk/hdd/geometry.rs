//! Where on the platters a sector lies: zones, bands, tracks, and the angle at which it passes.
//!
//! Sectors are laid out track after track. A *band* is a group of neighbouring cylinders: its tracks
//! are filled on one surface, then on the next one in the other direction (serpentine), before the
//! next band begins. A band of one cylinder is the classic layout, where the head changes fastest.
//! Each track begins a little later on the turn than the one before it (skew), so that a drive that
//! reads on has time to get there. Some sectors at the end of each unit may be kept as spares.

use super::parameters::{ExactZone, HddParameters, HeadOrder, Layout, Spares, ZoneSpec};
use super::seek::Scale;
use crate::units::{Nanos, Sector, Sectors, Time};

/// A part of a turn, in units of 2^-32 of it. Arithmetic wraps, as angles do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Angle(pub(super) u32);

impl Angle {
    /// How far it is from here on to `other`, in the direction of rotation.
    pub(super) fn until(self, other: Angle) -> Angle {
        Angle(other.0.wrapping_sub(self.0))
    }

    pub(super) fn plus(self, other: Angle) -> Angle {
        Angle(self.0.wrapping_add(other.0))
    }

    fn times(self, factor: u64) -> Angle {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "whole turns are dropped on purpose"
        )]
        let product = u64::from(self.0).wrapping_mul(factor) as u32;
        Angle(product)
    }
}

/// The turning platter: which angle is under the heads when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spindle {
    turn: u64,
    /// In units of 2^-64.
    turns_per_nano: u64,
    /// Angle under the heads at the beginning of the run.
    phase: Angle,
}

impl Spindle {
    pub(super) fn new(turn: Nanos, phase: Angle) -> Spindle {
        assert!((1..1 << 30).contains(&turn.as_nanos()), "a turn of {turn}");
        Spindle {
            turn: turn.as_nanos(),
            turns_per_nano: u64::MAX / turn.as_nanos(),
            phase,
        }
    }

    pub(super) fn turn(self) -> Nanos {
        Nanos::new(self.turn)
    }

    #[expect(clippy::cast_possible_truncation, reason = "less than a whole turn")]
    pub(super) fn angle_at(self, time: Time) -> Angle {
        Angle((((time.as_nanos() % self.turn) << 32) / self.turn) as u32).plus(self.phase)
    }

    /// How long the platter takes for this angle.
    pub(super) fn time_of(self, angle: Angle) -> Nanos {
        Nanos::new((u64::from(angle.0) * self.turn) >> 32)
    }

    /// The angle that passes in this time, to a few units.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "whole turns are dropped on purpose"
    )]
    pub(super) fn angle_about(self, time: Nanos) -> Angle {
        let turns = u128::from(time.as_nanos()) * u128::from(self.turns_per_nano);
        Angle((turns >> 32) as u32)
    }

    /// The angle that passes in this time, rounded up.
    #[expect(clippy::cast_possible_truncation, reason = "less than a whole turn")]
    pub(super) fn angle_in(self, time: Nanos) -> Angle {
        Angle((((time.as_nanos() % self.turn) << 32).div_ceil(self.turn)) as u32)
    }
}

/// A place on the platters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) cylinder: u32,
    pub(super) head: u32,
    /// Where on the turn the sector begins.
    pub(super) angle: Angle,
    /// How long one sector takes to pass, in units of 2^-32 of a turn.
    pub(super) sector_angle: Angle,
    /// Sectors of the host from the beginning of the track to this one.
    pub(super) passed_on_track: u64,
    /// Sectors of the host from this one (included) to the end of its track.
    pub(super) left_on_track: u64,
}

#[derive(Debug)]
struct Zone {
    first_sector: u64,
    first_cylinder: u32,
    sectors_per_track: u64,
    sector_angle: Angle,
    /// Angle of the zone's first sector.
    angle: Angle,
    /// Skew from track to track on one surface of a band.
    track_skew: Angle,
    /// Skew over all tracks of a surface in a band, with the change to the next surface.
    surface_skew: Angle,
    /// Skew over a whole band, with the change to the next band.
    band_skew: Angle,
    /// Sectors before the first one of the host.
    unused: u64,
    /// The unit at whose end spares are kept, if it is not the whole zone.
    unit: Option<Unit>,
}

/// A stretch of the medium with spares at its end.
#[derive(Debug, Clone, Copy)]
struct Unit {
    /// All its sectors.
    all: u64,
    /// Those of the host.
    used: u64,
}

/// The layout of one drive.
#[derive(Debug)]
pub(super) struct Geometry {
    zones: Vec<Zone>,
    surfaces: u64,
    /// Cylinders in a band.
    band: u64,
    cylinders: u32,
    heads: HeadOrder,
}

impl Geometry {
    /// The layout of a drive of this capacity. A drive made smaller than it is has fewer cylinders
    /// (and, when very small, fewer surfaces), bands smaller in proportion, and the same zones.
    pub(super) fn new(parameters: &HddParameters, spindle: Spindle) -> Geometry {
        match &parameters.layout {
            Layout::Proportional {
                cylinders,
                band,
                track_switch,
                zones,
            } => {
                let shape = Shape {
                    nominal: u64::from(*cylinders),
                    band: u64::from(*band),
                    track_switch: *track_switch,
                };
                proportional(parameters, spindle, &shape, &zones.list())
            }
            Layout::Exact {
                zones,
                heads,
                spares,
            } => exact(parameters, zones, *heads, *spares),
        }
    }

    pub(super) fn cylinders(&self) -> u32 {
        self.cylinders
    }

    fn zone(&self, sector: Sector) -> &Zone {
        let after = self
            .zones
            .partition_point(|zone| zone.first_sector <= sector.as_u64());
        &self.zones[after - 1]
    }

    pub(super) fn place(&self, sector: Sector) -> Place {
        let zone = self.zone(sector);
        let used = sector.as_u64() - zone.first_sector + zone.unused;
        let (offset, left_in_unit) = match zone.unit {
            None => (used, u64::MAX),
            Some(unit) => {
                let (units, in_unit) = (used / unit.used, used % unit.used);
                (units * unit.all + in_unit, unit.used - in_unit)
            }
        };
        let (track, on_track) = (
            offset / zone.sectors_per_track,
            offset % zone.sectors_per_track,
        );
        let (band, in_band) = (
            track / (self.band * self.surfaces),
            track % (self.band * self.surfaces),
        );
        let (surface, along) = (in_band / self.band, in_band % self.band);
        let in_band_cylinder = if surface % 2 == 0 {
            along
        } else {
            self.band - 1 - along
        };
        let in_zone = to_u32(band * self.band + in_band_cylinder);
        let cylinder = zone.first_cylinder + in_zone;
        let backwards = match self.heads {
            HeadOrder::Rising => false,
            HeadOrder::AlternatingInZone => in_zone % 2 == 1,
            HeadOrder::Alternating => cylinder % 2 == 1,
        };
        let head = if backwards {
            self.surfaces - 1 - surface
        } else {
            surface
        };
        Place {
            cylinder,
            head: to_u32(head),
            angle: zone
                .angle
                .plus(zone.band_skew.times(band))
                .plus(zone.surface_skew.times(surface))
                .plus(zone.track_skew.times(along))
                .plus(part_of_turn(on_track, zone.sectors_per_track)),
            sector_angle: zone.sector_angle,
            passed_on_track: on_track,
            left_on_track: (zone.sectors_per_track - on_track).min(left_in_unit),
        }
    }
}

/// What a proportional layout has besides its zones.
struct Shape {
    nominal: u64,
    band: u64,
    track_switch: Nanos,
}

/// Spreads the capacity over the zones in the drive's proportions.
fn proportional(
    parameters: &HddParameters,
    spindle: Spindle,
    shape: &Shape,
    zones: &[ZoneSpec],
) -> Geometry {
    let total_weight: u64 = zones.iter().map(|zone| u64::from(zone.cylinders)).sum();
    let weighted: u64 = zones
        .iter()
        .map(|zone| u64::from(zone.cylinders) * u64::from(zone.sectors_per_track))
        .sum();
    let sectors = parameters.capacity.as_u64();
    let tracks = (sectors * total_weight).div_ceil(weighted);
    // A smaller drive keeps its surfaces as long as there are some cylinders for each zone.
    let surfaces = u64::from(parameters.surfaces).min((tracks / (4 * zones.len() as u64)).max(1));
    let cylinders = tracks.div_ceil(surfaces);
    let band = (shape.band * cylinders.min(shape.nominal) / shape.nominal).max(1);
    let skews = Skews::new(parameters, spindle, shape, surfaces, band, cylinders);

    let mut laid = Vec::with_capacity(zones.len());
    let mut first_sector = 0;
    let mut bands_done = 0;
    let mut weight_done = 0;
    let all_bands = cylinders.div_ceil(band);
    for (index, zone) in zones.iter().enumerate() {
        weight_done += u64::from(zone.cylinders);
        let last = index + 1 == zones.len();
        let mut bands = (all_bands * weight_done / total_weight).saturating_sub(bands_done);
        let spt = u64::from(zone.sectors_per_track);
        let per_band = band * surfaces * spt;
        if last {
            bands = bands.max((sectors.saturating_sub(first_sector)).div_ceil(per_band));
        }
        if bands == 0 {
            continue;
        }
        laid.push(Zone {
            first_sector,
            first_cylinder: to_u32(bands_done * band),
            sectors_per_track: spt,
            sector_angle: part_of_turn(1, spt),
            angle: skews.band.times(bands_done),
            track_skew: skews.track,
            surface_skew: skews.surface,
            band_skew: skews.band,
            unused: 0,
            unit: None,
        });
        first_sector += bands * per_band;
        bands_done += bands;
    }
    Geometry {
        zones: laid,
        surfaces,
        band,
        cylinders: to_u32(bands_done * band),
        heads: HeadOrder::Rising,
    }
}

/// The skews that the times of switches demand.
struct Skews {
    track: Angle,
    surface: Angle,
    band: Angle,
}

impl Skews {
    fn new(
        parameters: &HddParameters,
        spindle: Spindle,
        shape: &Shape,
        surfaces: u64,
        band: u64,
        cylinders: u64,
    ) -> Skews {
        // From the last track of a band to the first of the next: one cylinder if the number of
        // surfaces is odd, back over the whole band if it is even.
        let step = if surfaces % 2 == 1 { 1 } else { band };
        let scale = Scale::new(to_u32(shape.nominal), to_u32(cylinders));
        let settle = if step > 1 {
            Nanos::new(parameters.write_settle.nanos.max(0).unsigned_abs())
        } else {
            Nanos::ZERO
        };
        let move_between_bands = parameters.seek.time(scale.nominal(to_u32(step)));
        let between_bands = move_between_bands.max(shape.track_switch) + settle;
        let track = spindle.angle_in(shape.track_switch);
        let within_surface = track.times(band - 1);
        let surface = within_surface.plus(spindle.angle_in(parameters.head_switch));
        let over_band = surface
            .times(surfaces - 1)
            .plus(within_surface)
            .plus(spindle.angle_in(between_bands.max(parameters.head_switch)));
        Skews {
            track,
            surface,
            band: over_band,
        }
    }
}

/// The zones as measured; on a smaller drive, each with its share of the cylinders.
fn exact(
    parameters: &HddParameters,
    zones: &[ExactZone],
    heads: HeadOrder,
    spares: Spares,
) -> Geometry {
    let surfaces = parameters.surfaces;
    let sectors = |zone: &ExactZone| zone.sectors(surfaces, spares);
    let total: u64 = zones.iter().map(sectors).sum();
    let capacity = parameters.capacity.as_u64();
    assert!(capacity <= total, "zones of {total} sectors for {capacity}");
    let scaled = |number: u64| {
        let product = u128::from(number) * u128::from(capacity);
        u64::try_from((product + u128::from(total) / 2) / u128::from(total)).expect("not larger")
    };
    let whole = zones
        .iter()
        .all(|zone| scaled(zone.cylinders()) == zone.cylinders());
    let mut laid: Vec<Zone> = Vec::with_capacity(zones.len());
    let (mut first_sector, mut next_cylinder) = (0, 0);
    for (index, zone) in zones.iter().enumerate() {
        let mut zone = *zone;
        if !whole {
            zone.unused = to_u32(scaled(u64::from(zone.unused)));
            let mut cylinders = scaled(zone.cylinders()).max(1);
            loop {
                zone.first_cylinder = next_cylinder;
                zone.last_cylinder = to_u32(u64::from(next_cylinder) + cylinders - 1);
                // Rounding and spares may leave too little: the last zone makes up for it.
                let enough = first_sector + sectors(&zone) >= capacity;
                if index + 1 < zones.len() || enough {
                    break;
                }
                cylinders += 1;
            }
        }
        laid.push(exact_zone(&zone, first_sector, surfaces, spares));
        first_sector += sectors(&zone);
        next_cylinder = zone.last_cylinder + 1;
    }
    Geometry {
        zones: laid,
        surfaces: u64::from(surfaces),
        band: 1,
        cylinders: next_cylinder,
        heads,
    }
}

fn exact_zone(zone: &ExactZone, first_sector: u64, surfaces: u32, spares: Spares) -> Zone {
    let spt = u64::from(zone.sectors_per_track);
    let per_cylinder = spt * u64::from(surfaces);
    let all = match spares {
        Spares::None | Spares::TracksPerZone | Spares::SectorsPerZone => None,
        Spares::SectorsPerTrack => Some(spt),
        Spares::SectorsPerCylinder => Some(per_cylinder),
        Spares::SectorsPerRange { cylinders } => Some(per_cylinder * u64::from(cylinders)),
    };
    let unit = all.map(|all| Unit {
        all,
        used: all - u64::from(zone.spares),
    });
    let skew = |sectors: f64| angle_of_sectors(sectors, zone.sectors_per_track);
    let surface_skew = skew(zone.track_skew);
    Zone {
        first_sector,
        first_cylinder: zone.first_cylinder,
        sectors_per_track: spt,
        sector_angle: part_of_turn(1, spt),
        angle: skew(zone.offset),
        track_skew: Angle::default(), // a band has one cylinder
        surface_skew,
        band_skew: surface_skew
            .times(u64::from(surfaces) - 1)
            .plus(skew(zone.cylinder_skew)),
        unused: u64::from(zone.unused),
        unit,
    }
}

/// The time in which `sectors` pass at this place.
pub(super) fn passing_time(spindle: Spindle, place: &Place, sectors: Sectors) -> Nanos {
    let angle = u64::from(place.sector_angle.0) * sectors.as_u64();
    // More than one turn never passes within a track.
    Nanos::new((angle * spindle.turn) >> 32)
}

#[expect(clippy::cast_possible_truncation, reason = "less than a whole turn")]
fn part_of_turn(sectors: u64, sectors_per_track: u64) -> Angle {
    Angle(((sectors << 32) / sectors_per_track) as u32)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a turn"
)]
fn angle_of_sectors(sectors: f64, sectors_per_track: u32) -> Angle {
    let share = (sectors / f64::from(sectors_per_track)).rem_euclid(1.0);
    Angle((share * 4_294_967_296.0) as u64 as u32)
}

fn to_u32(number: u64) -> u32 {
    u32::try_from(number).expect("cylinders and heads fit in 32 bits")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::presets;
    use super::*;

    fn geometry(mib: u64, surfaces: u32, band: u32) -> Geometry {
        let mut parameters = HddParameters {
            capacity: Sectors::new(mib * 2048),
            surfaces,
            ..presets::hdd_7200()
        };
        if let Layout::Proportional {
            band: cylinders, ..
        } = &mut parameters.layout
        {
            *cylinders = band;
        }
        Geometry::new(&parameters, Spindle::new(parameters.turn(), Angle(0)))
    }

    #[test]
    fn the_nominal_drive_has_about_its_published_cylinders() {
        // 7725.7 million sectors on 310 194 cylinders; zones here are of even width.
        let drive = geometry(7_725_700_000 / 2048, 10, 128);
        let ratio = f64::from(drive.cylinders()) / 310_194.0;
        assert!((0.98..1.1).contains(&ratio), "{}", drive.cylinders());
    }

    #[test]
    fn bands_run_out_on_one_surface_and_back_on_the_next() {
        let drive = geometry(4_000_000, 10, 128);
        let spt = 3072;
        let track = |number: u64| drive.place(Sector::new(number * spt));
        assert_eq!((track(0).cylinder, track(0).head), (0, 0));
        assert_eq!((track(127).cylinder, track(127).head), (127, 0));
        assert_eq!((track(128).cylinder, track(128).head), (127, 1));
        assert_eq!((track(255).cylinder, track(255).head), (0, 1));
        assert_eq!((track(1280).cylinder, track(1280).head), (128, 0));
    }

    /// Two zones of 3 and 2 cylinders with 4 surfaces, 10 and 8 sectors per track.
    fn measured(heads: HeadOrder, spares: Spares, capacity: Option<u64>) -> Geometry {
        let zone = ExactZone {
            first_cylinder: 0,
            last_cylinder: 2,
            sectors_per_track: 10,
            track_skew: 2.0,
            cylinder_skew: 5.0,
            offset: 1.0,
            unused: 3,
            spares: 1,
        };
        let inner = ExactZone {
            first_cylinder: 4,
            last_cylinder: 5,
            sectors_per_track: 8,
            unused: 0,
            ..zone
        };
        let zones = vec![zone, inner];
        let total: u64 = zones.iter().map(|zone| zone.sectors(4, spares)).sum();
        let parameters = HddParameters {
            capacity: Sectors::new(capacity.unwrap_or(total)),
            surfaces: 4,
            layout: Layout::Exact {
                zones,
                heads,
                spares,
            },
            ..presets::hdd_7200()
        };
        Geometry::new(&parameters, Spindle::new(parameters.turn(), Angle(0)))
    }

    #[test]
    fn a_measured_layout_skips_unused_sectors_spares_and_missing_cylinders() {
        let at = |drive: &Geometry, sector| {
            let place = drive.place(Sector::new(sector));
            (
                place.cylinder,
                place.head,
                place.passed_on_track,
                place.left_on_track,
            )
        };
        let drive = measured(HeadOrder::Rising, Spares::SectorsPerTrack, None);
        assert_eq!(at(&drive, 0), (0, 0, 3, 6));
        assert_eq!(at(&drive, 6), (0, 1, 0, 9));
        // 12 tracks of 9 less 3 unused: the second zone begins, in cylinder 4.
        assert_eq!(at(&drive, 105), (4, 0, 0, 7));
        let drive = measured(HeadOrder::Alternating, Spares::SectorsPerZone, None);
        assert_eq!(at(&drive, 37), (1, 3, 0, 10), "back in the second cylinder");
        let smaller = measured(HeadOrder::Rising, Spares::SectorsPerZone, Some(60));
        assert!(smaller.cylinders() < 5, "{}", smaller.cylinders());
        assert_eq!(at(&smaller, 59).0, smaller.cylinders() - 1);
    }

    #[test]
    fn skews_are_counted_in_sectors_of_the_zone() {
        let drive = measured(HeadOrder::Rising, Spares::None, None);
        let angle = |sector| f64::from(drive.place(Sector::new(sector)).angle.0) / 2_f64.powi(32);
        let close = |angle: f64, sectors: f64| (angle - sectors / 10.0).abs() < 1e-6;
        // Offset 1, three unused; then one track switch; then a whole cylinder and its switch.
        assert!(close(angle(0), 4.0), "{}", angle(0));
        assert!(close(angle(7), 3.0), "{}", angle(7));
        assert!(
            close(angle(37), (1.0 + 3.0 * 2.0 + 5.0) % 10.0),
            "{}",
            angle(37)
        );
    }

    proptest! {
        #[test]
        fn neighbouring_tracks_are_neighbours_and_none_lies_outside(
            mib in 16..200_000_u64,
            surfaces in 1..12_u32,
            band in prop::sample::select(vec![1_u32, 16, 128]),
            at in 0.0..1.0_f64,
        ) {
            let drive = geometry(mib, surfaces, band);
            let last = mib * 2048 - 1;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let sector = (at * last as f64) as u64;
            let place = drive.place(Sector::new(sector));
            prop_assert!(place.cylinder < drive.cylinders());
            prop_assert!(place.head < surfaces);
            prop_assert!(place.left_on_track >= 1);
            let next = sector + place.left_on_track;
            if next <= last {
                let next = drive.place(Sector::new(next));
                let step = place.cylinder.abs_diff(next.cylinder);
                let limit = u32::try_from(drive.band).unwrap();
                prop_assert!(step <= limit, "{place:?} {next:?}");
                if place.head != next.head && next.head != 0 {
                    prop_assert_eq!(step, 0);
                }
            }
        }

        #[test]
        fn every_sector_of_a_measured_layout_has_a_place_of_its_own(
            heads in prop::sample::select(vec![HeadOrder::Rising, HeadOrder::Alternating, HeadOrder::AlternatingInZone]),
            spares in prop::sample::select(vec![
                Spares::None, Spares::TracksPerZone, Spares::SectorsPerTrack,
                Spares::SectorsPerCylinder, Spares::SectorsPerRange { cylinders: 1 }, Spares::SectorsPerZone,
            ]),
            capacity in prop::option::of(30..120_u64),
        ) {
            let drive = measured(heads, spares, capacity);
            let mut places = std::collections::BTreeSet::new();
            for sector in 0..capacity.unwrap_or(120) {
                let place = drive.place(Sector::new(sector));
                prop_assert!(place.cylinder < drive.cylinders() && place.head < 4);
                prop_assert!(places.insert((place.cylinder, place.head, place.passed_on_track)));
            }
        }
    }
}
