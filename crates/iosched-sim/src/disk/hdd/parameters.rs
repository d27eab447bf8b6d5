//! What makes one hard disk differ from another.

use serde::{Deserialize, Serialize};

use super::seek::SeekCurve;
use crate::disk::DriveQueue;
use crate::units::{Bytes, Nanos, Sectors};

/// The parameters of a hard disk.
#[derive(Debug, Clone, PartialEq)]
pub struct HddParameters {
    /// Size. With [`Layout::Exact`], the whole of it or less: a smaller drive has fewer cylinders.
    pub capacity: Sectors,
    /// Turns per minute.
    pub rpm: u32,
    /// Surfaces in use.
    pub surfaces: u32,
    /// Where the sectors lie.
    pub layout: Layout,
    /// Time of a read seek by distance.
    pub seek: SeekCurve,
    /// What settling on a track for writing takes longer.
    pub write_settle: WriteSettle,
    /// Change of surface without a move.
    pub head_switch: Nanos,
    /// Times of the electronics.
    pub overheads: Overheads,
    /// The wire to the host.
    pub link: LinkRates,
    /// Commands taken at a time.
    pub queue_depth: usize,
    /// Order of those that need the arm.
    pub order: DriveQueue,
    /// With [`DriveQueue::ShortestAccessFirst`], none waits longer than this while others pass.
    pub age_limit: Nanos,
    /// How the drive reads.
    pub reading: Reading,
    /// How the drive writes.
    pub writing: Writing,
    /// Writes are acknowledged in the cache.
    pub write_cache: bool,
}

/// Where the sectors lie.
#[derive(Debug, Clone, PartialEq)]
pub enum Layout {
    /// Zones in proportion to the size, skews as the times of switches demand.
    Proportional {
        /// Cylinders of the drive in its nominal size: what the seek curve and the band refer to.
        cylinders: u32,
        /// Cylinders in a band of the serpentine layout; 1 for the classic one.
        band: u32,
        /// Skew between tracks of a surface: at least one cylinder's seek. The skew between
        /// surfaces is the head switch.
        track_switch: Nanos,
        /// Zones, outside first.
        zones: Zones,
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

/// Cylinders with the same number of sectors on each track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpec {
    /// How many cylinders; on a drive made smaller, the zone's share of them.
    pub cylinders: u32,
    /// Sectors on each track.
    pub sectors_per_track: u32,
}

/// The zones of a drive in proportion, from the outside to the inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Zones {
    /// Zones of equal width, sectors per track falling evenly.
    Even {
        /// How many zones.
        count: u32,
        /// Sectors per track in the first.
        outer: u32,
        /// Sectors per track in the last.
        inner: u32,
    },
    /// As listed.
    Table(Vec<ZoneSpec>),
}

impl Zones {
    pub(super) fn list(&self) -> Vec<ZoneSpec> {
        match self {
            Zones::Table(zones) => zones.clone(),
            &Zones::Even {
                count,
                outer,
                inner,
            } => (0..count)
                .map(|index| ZoneSpec {
                    cylinders: 1,
                    sectors_per_track: outer - (outer - inner) * index / (count - 1).max(1),
                })
                .collect(),
        }
    }
}

/// A zone as measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExactZone {
    /// Its first cylinder.
    pub first_cylinder: u32,
    /// Its last cylinder.
    pub last_cylinder: u32,
    /// Sectors on each track.
    pub sectors_per_track: u32,
    /// Skew from one track to the next of the same cylinder, in sectors.
    pub track_skew: f64,
    /// Skew from the last track of a cylinder to the first of the next, in sectors.
    pub cylinder_skew: f64,
    /// Where on the turn the zone's first sector begins, in sectors.
    pub offset: f64,
    /// Sectors at the zone's beginning that hold no data of the host.
    pub unused: u32,
    /// Spares: tracks of the zone, or sectors of each unit that [`Spares`] names.
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
            Spares::SectorsPerCylinder => spare * self.cylinders(),
            Spares::SectorsPerRange { cylinders } => {
                spare * (self.cylinders() / u64::from(cylinders))
            }
            Spares::SectorsPerZone => spare,
        };
        let all = tracks.saturating_mul(u64::from(self.sectors_per_track));
        all.saturating_sub(spares.saturating_add(u64::from(self.unused)))
    }
}

/// In which order the heads of a cylinder follow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Sectors at the end of each cylinder.
    SectorsPerCylinder,
    /// Sectors at the end of each group of cylinders.
    SectorsPerRange {
        /// Cylinders in a group.
        cylinders: u32,
    },
    /// Sectors at the end of each zone.
    SectorsPerZone,
}

/// What settling on a track for writing takes longer than for reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteSettle {
    /// How much, in nanoseconds; some drives were measured to settle faster for writing.
    pub nanos: i64,
    /// After which moves.
    pub after: SettleAfter,
}

/// After which moves a head settles longer for writing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettleAfter {
    /// Moves over more than one cylinder.
    #[default]
    LongMoves,
    /// Every move, also a change of surface.
    EveryMove,
}

/// A time that depends on the command before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct After {
    /// After a read.
    pub read: Nanos,
    /// After a write.
    pub write: Nanos,
}

impl After {
    /// The same after both.
    pub(crate) const fn both(time: Nanos) -> After {
        After {
            read: time,
            write: time,
        }
    }
}

/// What the electronics take for a command, besides the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overheads {
    /// Until a read that the buffer answers sends its data.
    pub read_hit: After,
    /// Until the arm leaves for a read.
    pub read_miss: After,
    /// Until a write that the cache takes wants its data.
    pub write_hit: After,
    /// Until a write that goes to the medium wants its data, and the arm leaves for it.
    pub write_miss: After,
    /// A write right after a write elsewhere, where a drive takes longer for that.
    pub scattered_write: Option<ScatteredWrite>,
    /// Until the host has the bus again, when a command waited for the arm.
    pub reselect: Nanos,
    /// Before data pass.
    pub data_preparation: Nanos,
    /// From the last data of a read to its completion.
    pub read_completion: Nanos,
    /// From the end of a write to its completion.
    pub write_completion: Nanos,
}

/// Times of a write right after a write elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScatteredWrite {
    /// Until the arm leaves for it.
    pub arm: Nanos,
    /// Until its data come.
    pub data: Nanos,
}

/// The wire to the host, bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkRates {
    /// Of data read.
    pub read: u64,
    /// Of data written.
    pub write: u64,
}

/// How the drive reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Segments of the read buffer.
    pub segments: usize,
    /// Length of one.
    pub segment: Bytes,
    /// How far the drive reads on behind a read.
    pub ahead: ReadAhead,
    /// Share of a read, in thousandths, that is in the buffer before its data are sent.
    pub threshold_permille: u32,
    /// A read begins with whatever sector of the track comes first: what passes before it goes
    /// into the buffer.
    pub keeps_passing: bool,
    /// A read may begin in its middle (zero-latency access).
    pub zero_latency: bool,
}

/// How far a drive reads on behind a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadAhead {
    /// This far.
    Distance(Bytes),
    /// This far, but not beyond the track.
    WithinTrack(Bytes),
    /// To the end of the track, and over the next one for a stream that began before this track.
    TrackByTrack,
}

/// How the drive writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writing {
    /// Sectors of a write that are in the buffer before the medium takes the first.
    pub threshold: Sectors,
    /// What was written can be read from the buffer.
    pub keeps_written: bool,
    /// A write may begin in its middle (zero-latency access).
    pub zero_latency: bool,
    /// Room in the write cache.
    pub cache: Bytes,
    /// Separate stretches that it can hold.
    pub cache_stretches: usize,
    /// Rest before the cache is written back.
    pub destage_delay: Nanos,
    /// Data older than this are written back in turn with commands.
    pub destage_age: Nanos,
}

impl HddParameters {
    /// Time of one turn.
    pub(crate) fn turn(&self) -> Nanos {
        Nanos::new(60_000_000_000 / u64::from(self.rpm))
    }

    /// True if a drive of this capacity has so few cylinders that they can be numbered.
    pub fn fits(&self) -> bool {
        let Layout::Proportional { band, zones, .. } = &self.layout else {
            return true;
        };
        let zones = zones.list();
        let sum = |of: fn(&ZoneSpec) -> u128| zones.iter().map(of).sum::<u128>();
        let weights = sum(|zone| zone.cylinders.into());
        let weighted = sum(|zone| u128::from(zone.cylinders) * u128::from(zone.sectors_per_track));
        let tracks = (u128::from(self.capacity.as_u64()) * weights).div_ceil(weighted.max(1));
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
