//! What makes one hard disk differ from another.

use serde::{Deserialize, Deserializer};

use super::seek::SeekCurve;
use crate::disk::values::{Millis, Rate, bytes, number, some_bytes, some_whole, whole};
use crate::disk::{DriveQueue, Interface};
use crate::units::{Bytes, Nanos, Sectors};

/// The parameters of a hard disk: `[hdd]` of a model's file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HddParameters {
    /// With [`Layout::Exact`], its size is the whole of the layout or less: a smaller drive has fewer cylinders.
    #[serde(skip)]
    pub interface: Interface,
    /// Turns per minute.
    #[serde(deserialize_with = "whole::<_, _, 60, 100_000>")]
    pub rpm: u32,
    /// Surfaces in use.
    #[serde(deserialize_with = "whole::<_, _, 1, 64>")]
    pub surfaces: u32,
    /// Order of those that need the arm.
    pub order: DriveQueue,
    /// With [`DriveQueue::ShortestAccessFirst`], none waits longer than this while others pass.
    #[serde(rename = "age_limit_ms", default = "half_a_second")]
    pub age_limit: Millis,
    /// Change of surface without a move.
    #[serde(rename = "head_switch_ms")]
    pub head_switch: Millis,
    /// What settling on a track for writing takes longer than for reading, in nanoseconds; some drives were measured to
    /// settle faster for writing.
    #[serde(rename = "write_settle_ms", deserialize_with = "signed_millis")]
    pub write_settle: i64,
    /// After which moves.
    #[serde(default)]
    pub write_settle_after: SettleAfter,
    /// The wire to the host.
    #[serde(rename = "link_bytes_per_second")]
    pub link: Rate,
    /// The same for data written, if it differs.
    #[serde(rename = "link_write_bytes_per_second")]
    pub link_write: Option<Rate>,
    /// Times of the electronics.
    pub overheads: Overheads,
    /// How the drive reads.
    pub reading: Reading,
    /// How the drive writes.
    pub writing: Writing,
    /// Time of a read seek by distance.
    pub seek: SeekCurve,
    /// Where the sectors lie.
    pub layout: Layout,
}

fn half_a_second() -> Millis {
    Millis(Nanos::from_millis(500))
}

#[expect(clippy::cast_possible_truncation, reason = "bounded")]
fn signed_millis<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    number::<D, -1_000, 1_000>(from).map(|millis| (millis * 1e6).round() as i64)
}

/// Where the sectors lie.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "LayoutKeys")]
pub enum Layout {
    /// Zones in proportion to the size, skews as the times of switches demand.
    Proportional {
        /// Cylinders of the drive in its nominal size: what the seek curve and the band refer to.
        cylinders: u32,
        /// Cylinders in a band of the serpentine layout; 1 for the classic one.
        band: u32,
        /// Skew between tracks of a surface: at least one cylinder's seek. The skew between
        /// surfaces is the head switch.
        track_switch: Millis,
        /// Zones, outside first.
        zones: Vec<ZoneSpec>,
    },
    /// Zones and skews as measured on a drive; cylinder by cylinder, head by head.
    Exact {
        /// Zones in order of address.
        zones: Vec<ExactZone>,
        /// In which order the heads of a cylinder follow.
        heads: HeadOrder,
        /// What spare sectors are kept for.
        spares: Spares,
    },
}

const MOST_CYLINDERS: u64 = 100_000_000;
const MOST_SECTORS: u64 = 100_000;

/// `[hdd.layout]` of a file: the keys of either layout.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LayoutKeys {
    #[serde(default, deserialize_with = "some_whole::<_, _, 1, MOST_CYLINDERS>")]
    cylinders: Option<u32>,
    #[serde(default, deserialize_with = "some_whole::<_, _, 1, 100_000>")]
    band_cylinders: Option<u32>,
    track_switch_ms: Option<Millis>,
    even: Option<EvenZones>,
    zone: Option<Vec<ZoneSpec>>,
    heads: Option<HeadOrder>,
    spares: Option<String>,
    #[serde(default, deserialize_with = "some_whole::<_, _, 1, MOST_CYLINDERS>")]
    range_cylinders: Option<u32>,
    measured_zone: Option<Vec<ExactZone>>,
}

impl TryFrom<LayoutKeys> for Layout {
    type Error = &'static str;

    fn try_from(keys: LayoutKeys) -> Result<Layout, &'static str> {
        let is_measured =
            keys.heads.is_some() || keys.spares.is_some() || keys.range_cylinders.is_some();
        let zones = match (keys.even, keys.zone, keys.measured_zone) {
            (None, None, Some(zones)) => {
                if keys.cylinders.is_some()
                    || keys.band_cylinders.is_some()
                    || keys.track_switch_ms.is_some()
                {
                    return Err(
                        "measured_zone says it all: no cylinders, bands and switches besides",
                    );
                }
                if !zones.is_sorted_by(|a, b| a.last_cylinder < b.first_cylinder)
                    || zones
                        .iter()
                        .any(|zone| zone.last_cylinder < zone.first_cylinder)
                {
                    return Err("measured_zone: cylinders rise, and no zone lies in another");
                }
                let spares = match keys.spares.as_deref().unwrap_or("none") {
                    "none" => Spares::None,
                    "tracks-per-zone" => Spares::TracksPerZone,
                    "sectors-per-track" => Spares::SectorsPerTrack,
                    "sectors-per-cylinder" => Spares::SectorsPerRange { cylinders: 1 },
                    "sectors-per-range" => Spares::SectorsPerRange {
                        cylinders: keys.range_cylinders.ok_or("range_cylinders is missing")?,
                    },
                    "sectors-per-zone" => Spares::SectorsPerZone,
                    _ => {
                        return Err(
                            "spares: none, tracks-per-zone, or sectors-per-track, -cylinder, -range, -zone",
                        );
                    }
                };
                return Ok(Layout::Exact {
                    zones,
                    heads: keys.heads.unwrap_or_default(),
                    spares,
                });
            }
            _ if is_measured => {
                return Err("heads, spares and range_cylinders come with measured_zone only");
            }
            (Some(even), None, None)
                if even.inner_sectors_per_track <= even.outer_sectors_per_track =>
            {
                even.list()
            }
            (Some(_), None, None) => return Err("even: inner tracks hold no more than outer ones"),
            (None, Some(zones), None) if !zones.is_empty() => zones,
            _ => return Err("one of even, zone and measured_zone is needed"),
        };
        Ok(Layout::Proportional {
            cylinders: keys.cylinders.ok_or("cylinders is missing")?,
            band: keys.band_cylinders.unwrap_or(1),
            track_switch: keys.track_switch_ms.ok_or("track_switch_ms is missing")?,
            zones,
        })
    }
}

/// Cylinders with the same number of sectors on each track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpec {
    /// How many cylinders; on a drive made smaller, the zone's share of them.
    #[serde(deserialize_with = "whole::<_, _, 1, MOST_CYLINDERS>")]
    pub cylinders: u32,
    /// Sectors on each track.
    #[serde(deserialize_with = "whole::<_, _, 1, MOST_SECTORS>")]
    pub sectors_per_track: u32,
}

/// Zones of equal width, sectors per track falling evenly.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EvenZones {
    #[serde(deserialize_with = "whole::<_, _, 1, 1000>")]
    zones: u32,
    #[serde(deserialize_with = "whole::<_, _, 1, MOST_SECTORS>")]
    outer_sectors_per_track: u32,
    #[serde(deserialize_with = "whole::<_, _, 1, MOST_SECTORS>")]
    inner_sectors_per_track: u32,
}

impl EvenZones {
    fn list(&self) -> Vec<ZoneSpec> {
        let (outer, inner) = (self.outer_sectors_per_track, self.inner_sectors_per_track);
        let per_track = |index| outer - (outer - inner) * index / (self.zones - 1).max(1);
        let zone = |index| ZoneSpec {
            cylinders: 1,
            sectors_per_track: per_track(index),
        };
        (0..self.zones).map(zone).collect()
    }
}

/// A zone as measured.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExactZone {
    /// Its first cylinder.
    #[serde(deserialize_with = "whole::<_, _, 0, MOST_CYLINDERS>")]
    pub first_cylinder: u32,
    /// Its last cylinder.
    #[serde(deserialize_with = "whole::<_, _, 0, MOST_CYLINDERS>")]
    pub last_cylinder: u32,
    /// Sectors on each track.
    #[serde(deserialize_with = "whole::<_, _, 1, MOST_SECTORS>")]
    pub sectors_per_track: u32,
    /// Skew from one track to the next of the same cylinder, in sectors.
    #[serde(deserialize_with = "number::<_, 0, 100_000>")]
    pub track_skew_sectors: f64,
    /// Skew from the last track of a cylinder to the first of the next, in sectors.
    #[serde(deserialize_with = "number::<_, 0, 100_000>")]
    pub cylinder_skew_sectors: f64,
    /// Where on the turn the zone's first sector begins, in sectors.
    #[serde(default, deserialize_with = "number::<_, 0, 100_000>")]
    pub offset_sectors: f64,
    /// Sectors at the zone's beginning that hold no data of the host.
    #[serde(default)]
    pub unused_sectors: u32,
    /// Spares: tracks of the zone, or sectors of each unit that [`Spares`] names.
    #[serde(default)]
    pub spares: u32,
}

impl ExactZone {
    pub(super) fn cylinders(&self) -> u64 {
        u64::from(self.last_cylinder.saturating_sub(self.first_cylinder)) + 1
    }

    /// Sectors that hold data of the host; of a zone larger than any, the largest number.
    pub fn sectors(&self, surfaces: u32, spares: Spares) -> u64 {
        let tracks = self.cylinders().saturating_mul(u64::from(surfaces));
        let spare = u64::from(self.spares);
        let spares = match spares {
            Spares::None => 0,
            Spares::TracksPerZone => spare * u64::from(self.sectors_per_track),
            Spares::SectorsPerTrack => spare.saturating_mul(tracks),
            Spares::SectorsPerRange { cylinders } => {
                spare * (self.cylinders() / u64::from(cylinders))
            }
            Spares::SectorsPerZone => spare,
        };
        let all = tracks.saturating_mul(u64::from(self.sectors_per_track));
        all.saturating_sub(spares.saturating_add(u64::from(self.unused_sectors)))
    }
}

/// In which order the heads of a cylinder follow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadOrder {
    /// From the first to the last in each cylinder.
    #[default]
    Rising,
    /// Back in every other cylinder of a zone, so that no head changes between cylinders.
    AlternatingInZone,
    /// Back in every cylinder with an odd number.
    Alternating,
}

/// At the end of which unit sectors (or tracks) are kept in reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spares {
    /// None.
    None,
    /// Tracks at the end of each zone.
    TracksPerZone,
    /// Sectors at the end of each track.
    SectorsPerTrack,
    /// Sectors at the end of each group of cylinders.
    SectorsPerRange {
        /// Cylinders in a group.
        cylinders: u32,
    },
    /// Sectors at the end of each zone.
    SectorsPerZone,
}

impl Spares {
    /// Sectors of the unit at whose end spares are kept, if it is not the whole zone.
    pub(super) fn unit(self, track: u64, surfaces: u64) -> Option<u64> {
        match self {
            Spares::None | Spares::TracksPerZone | Spares::SectorsPerZone => None,
            Spares::SectorsPerTrack => Some(track),
            Spares::SectorsPerRange { cylinders } => Some(track * surfaces * u64::from(cylinders)),
        }
    }
}

/// After which moves a head settles longer for writing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettleAfter {
    /// Moves over more than one cylinder.
    #[default]
    LongMoves,
    /// Every move, also a change of surface.
    EveryMove,
}

/// What the electronics take for a command, besides the link. Some times differ after a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overheads {
    /// Until a read that the buffer answers sends its data.
    #[serde(rename = "read_hit_ms")]
    pub read_hit: Millis,
    /// The same after a write.
    #[serde(rename = "read_hit_after_write_ms")]
    pub read_hit_after_write: Option<Millis>,
    /// Until the arm leaves for a read.
    #[serde(rename = "read_miss_ms")]
    pub read_miss: Millis,
    /// The same after a write.
    #[serde(rename = "read_miss_after_write_ms")]
    pub read_miss_after_write: Option<Millis>,
    /// Until a write that the cache takes wants its data.
    #[serde(rename = "write_hit_ms")]
    pub write_hit: Millis,
    /// The same after a write.
    #[serde(rename = "write_hit_after_write_ms")]
    pub write_hit_after_write: Option<Millis>,
    /// Until a write that goes to the medium wants its data, and the arm leaves for it.
    #[serde(rename = "write_miss_ms")]
    pub write_miss: Millis,
    /// The same after a write.
    #[serde(rename = "write_miss_after_write_ms")]
    pub write_miss_after_write: Option<Millis>,
    /// Until the arm leaves for a write right after a write elsewhere, where a drive takes longer for that.
    #[serde(rename = "scattered_write_arm_ms")]
    pub scattered_write_arm: Option<Millis>,
    /// Until the data of such a write come.
    #[serde(rename = "scattered_write_data_ms")]
    pub scattered_write_data: Option<Millis>,
    /// Until the host has the bus again, when a command waited for the arm.
    #[serde(rename = "reselect_ms", default)]
    pub reselect: Millis,
    /// Before data pass.
    #[serde(rename = "data_preparation_ms", default)]
    pub data_preparation: Millis,
    /// From the last data of a read to its completion.
    #[serde(rename = "read_completion_ms", default)]
    pub read_completion: Millis,
    /// From the end of a write to its completion.
    #[serde(rename = "write_completion_ms", default)]
    pub write_completion: Millis,
}

/// How the drive reads.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// Segments of the read buffer.
    #[serde(deserialize_with = "whole::<_, _, 0, 4096>")]
    pub segments: usize,
    /// Length of one.
    #[serde(rename = "segment_bytes", deserialize_with = "bytes::<_, 0>")]
    pub segment: Bytes,
    /// How far the drive reads on behind a read.
    #[serde(default)]
    pub ahead: ReadAhead,
    /// The distance.
    #[serde(rename = "ahead_bytes", default, deserialize_with = "some_bytes")]
    pub ahead_distance: Option<Bytes>,
    /// Share of a read, in thousandths, that is in the buffer before its data are sent.
    #[serde(default, deserialize_with = "whole::<_, _, 0, 1000>")]
    pub threshold_permille: u32,
    /// A read begins with whatever sector of the track comes first: what passes before it goes
    /// into the buffer.
    #[serde(default)]
    pub keeps_passing: bool,
    /// A read may begin in its middle (zero-latency access).
    #[serde(default)]
    pub zero_latency: bool,
}

/// How far a drive reads on behind a read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAhead {
    /// [`Reading::ahead_distance`].
    #[default]
    Distance,
    /// This far, but not beyond the track.
    WithinTrack,
    /// To the end of the track, and over the next one for a stream that began before this track.
    TrackByTrack,
}

/// How the drive writes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Writing {
    /// Sectors of a write that are in the buffer before the medium takes the first.
    #[serde(default, deserialize_with = "whole::<_, _, 0, 0x10_0000>")]
    pub threshold_sectors: u64,
    /// What was written can be read from the buffer.
    #[serde(default)]
    pub keeps_written: bool,
    /// A write may begin in its middle (zero-latency access).
    #[serde(default)]
    pub zero_latency: bool,
    /// Room in the write cache.
    #[serde(rename = "cache_bytes", deserialize_with = "bytes::<_, 0>")]
    pub cache: Bytes,
    /// Separate stretches that it can hold.
    #[serde(deserialize_with = "whole::<_, _, 1, 65_536>")]
    pub cache_stretches: usize,
    /// Rest before the cache is written back.
    #[serde(rename = "destage_delay_ms")]
    pub destage_delay: Millis,
    /// Data older than this are written back in turn with commands.
    #[serde(rename = "destage_age_ms")]
    pub destage_age: Millis,
}

impl HddParameters {
    /// Time of one turn.
    pub(crate) fn turn(&self) -> Nanos {
        Nanos::new(60_000_000_000 / u64::from(self.rpm))
    }

    /// What single values do not show, but for the size.
    pub(crate) fn check(&self) -> Result<(), String> {
        if (self.reading.ahead == ReadAhead::TrackByTrack) == self.reading.ahead_distance.is_some()
        {
            return Err(
                "reading.ahead_bytes is missing, or stands beside track-by-track".to_owned(),
            );
        }
        let overheads = &self.overheads;
        if overheads.scattered_write_arm.is_some() != overheads.scattered_write_data.is_some() {
            return Err(
                "overheads.scattered_write_arm_ms and scattered_write_data_ms come together"
                    .to_owned(),
            );
        }
        if let SeekCurve::Fit(fit) = &self.seek
            && fit.knee_cylinders.is_some() != (fit.c_ms > 0.0 || fit.e_ms > 0.0)
        {
            return Err("seek.fit: knee_cylinders, c_ms and e_ms come together".to_owned());
        }
        match &self.layout {
            Layout::Proportional { track_switch, .. } => {
                let one = self.seek.time(1.0);
                if one > track_switch.0 {
                    return Err(format!(
                        "layout.track_switch_ms is {}, shorter than the seek over one cylinder, {one}",
                        track_switch.0
                    ));
                }
            }
            Layout::Exact { zones, spares, .. } => {
                let leaves_none = |zone: &ExactZone| {
                    let unit = spares.unit(zone.sectors_per_track.into(), self.surfaces.into());
                    zone.sectors(self.surfaces, *spares) == 0
                        || unit.is_some_and(|unit| unit <= u64::from(zone.spares))
                };
                if let Some(zone) = zones.iter().find(|zone| leaves_none(zone)) {
                    return Err(format!(
                        "layout.measured_zone: spares and unused sectors of the zone from cylinder {} on leave none for data",
                        zone.first_cylinder
                    ));
                }
            }
        }
        Ok(())
    }

    /// The size of a layout as measured.
    pub(crate) fn measured_sectors(&self) -> Option<Sectors> {
        let Layout::Exact { zones, spares, .. } = &self.layout else {
            return None;
        };
        let each = zones
            .iter()
            .map(|zone| zone.sectors(self.surfaces, *spares));
        Some(Sectors::new(each.fold(0, u64::saturating_add)))
    }

    /// True if a drive of this layout can have this capacity: its cylinders can be numbered.
    pub(crate) fn fits(&self) -> bool {
        let Layout::Proportional { band, zones, .. } = &self.layout else {
            return self.measured_sectors() >= Some(self.interface.capacity);
        };
        let sum = |of: fn(&ZoneSpec) -> u128| zones.iter().map(of).sum::<u128>();
        let weights = sum(|zone| zone.cylinders.into());
        let weighted = sum(|zone| u128::from(zone.cylinders) * u128::from(zone.sectors_per_track));
        let tracks =
            (u128::from(self.interface.capacity.as_u64()) * weights).div_ceil(weighted.max(1));
        let cylinders = tracks.div_ceil(self.surfaces.into());
        // Every zone has whole bands.
        let rounded_up = u128::from(*band) * (zones.len() as u128 + 1);
        cylinders + rounded_up <= u128::from(u32::MAX)
    }

    /// Cylinders that the seek curve refers to.
    pub(crate) fn cylinders(&self) -> u32 {
        match &self.layout {
            Layout::Proportional { cylinders, .. } => *cylinders,
            Layout::Exact { zones, .. } => {
                let last = zones.iter().map(|zone| zone.last_cylinder).max();
                last.map_or(0, |last| last + 1)
            }
        }
    }
}
