//! Where on the platters a sector lies: zones, bands, tracks, and the angle at which it passes.
//!
//! Sectors are laid out track after track. A *band* is a group of neighbouring cylinders: its tracks
//! are filled on one surface, then on the next one in the other direction (serpentine), before the
//! next band begins. A band of one cylinder is the classic layout, where the head changes fastest.
//! Each track begins a little later on the turn than the one before it (skew), so that a drive that
//! reads on has time to get there. Some sectors at the end of each unit may be kept as spares.

use super::parameters::HeadOrder;
use super::turn::{Angle, Spindle, part_of_turn};
use crate::reciprocal::Divisor;
use crate::units::{Nanos, Sector, Sectors};

/// A track, and an angle on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) cylinder: u32,
    pub(super) head: u32,
    /// Where on the turn the sector begins.
    pub(super) angle: Angle,
}

/// A place on the platters: a sector with what is around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlatterPosition {
    pub(super) spot: Spot,
    /// How long one sector takes to pass, in units of 2^-32 of a turn.
    pub(super) sector_angle: Angle,
    /// Sectors of the host from the beginning of the track to this one.
    pub(super) passed_on_track: u64,
    /// Sectors of the host from this one (included) to the end of its track.
    pub(super) left_on_track: u64,
}

#[derive(Debug)]
pub(super) struct Zone {
    pub(super) first_sector: u64,
    pub(super) first_cylinder: u32,
    pub(super) sectors_per_track: Divisor,
    pub(super) sector_angle: Angle,
    /// Angle of the zone's first sector.
    pub(super) angle: Angle,
    /// Skew from track to track on one surface of a band.
    pub(super) track_skew: Angle,
    /// Skew over all tracks of a surface in a band, with the change to the next surface.
    pub(super) surface_skew: Angle,
    /// Skew over a whole band, with the change to the next band.
    pub(super) band_skew: Angle,
    /// Sectors before the first one of the host.
    pub(super) unused: u64,
    /// The unit at whose end spares are kept, if it is not the whole zone.
    pub(super) unit: Option<Unit>,
}

/// A stretch of the medium with spares at its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    /// All its sectors.
    pub(super) all: u64,
    /// Those of the host.
    pub(super) used: Divisor,
}

/// The layout of one drive.
#[derive(Debug)]
pub(super) struct Geometry {
    pub(super) zones: ZoneMap,
    pub(super) surfaces: u64,
    /// Cylinders in a band.
    pub(super) band: Divisor,
    pub(super) band_tracks: Divisor,
    pub(super) cylinders: u32,
    pub(super) heads: HeadOrder,
}

/// The zones by sector.
#[derive(Debug)]
pub(super) struct ZoneMap {
    zones: Vec<Zone>,
    /// For each stretch of 2^`shift` sectors the zone that its first sector lies in.
    by_stretch: Vec<u16>,
    shift: u32,
}

impl ZoneMap {
    /// At least so many stretches for each zone: seldom do two zones begin in one.
    const STRETCHES_PER_ZONE: u64 = 16;

    pub(super) fn new(zones: Vec<Zone>, capacity: Sectors) -> ZoneMap {
        let wanted = Self::STRETCHES_PER_ZONE * zones.len() as u64;
        let shift = (capacity.as_u64() / wanted).max(1).ilog2();
        let mut zone = 0;
        let by_stretch = (0..=capacity.as_u64() >> shift).map(|stretch| {
            let begins = |zone: &Zone| zone.first_sector <= stretch << shift;
            while zones.get(zone + 1).is_some_and(begins) {
                zone += 1;
            }
            u16::try_from(zone).expect("there are not so many zones")
        });
        ZoneMap {
            by_stretch: by_stretch.collect(),
            shift,
            zones,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a few stretches for each zone"
    )]
    fn at(&self, sector: Sector) -> &Zone {
        let mut zone = self.by_stretch[(sector.as_u64() >> self.shift) as usize] as usize;
        let begins = |zone: &Zone| zone.first_sector <= sector.as_u64();
        while self.zones.get(zone + 1).is_some_and(begins) {
            zone += 1;
        }
        &self.zones[zone]
    }
}

impl Geometry {
    pub(super) fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// The part of a turn that a sector of the densest zone takes.
    pub(super) fn least_sector_angle(&self) -> Angle {
        let angles = self.zones.zones.iter().map(|zone| zone.sector_angle);
        angles.min().expect("a drive has zones")
    }

    pub(super) fn place(&self, sector: Sector) -> PlatterPosition {
        self.place_in_line(sector)
    }

    /// The same for what each command goes through: a place that is handed back in memory, in pieces,
    /// cannot be copied before the last piece has arrived there.
    #[inline(always)]
    pub(super) fn place_in_line(&self, sector: Sector) -> PlatterPosition {
        let zone = self.zones.at(sector);
        let sectors_before = sector.as_u64() - zone.first_sector;
        let used = sectors_before + zone.unused;
        let (offset, left_in_unit) = match zone.unit {
            None => (used, u64::MAX),
            Some(unit) => {
                let (units, in_unit) = unit.used.divide(used);
                (units * unit.all + in_unit, unit.used.get() - in_unit)
            }
        };
        let (track, on_track) = zone.sectors_per_track.divide(offset);
        let (band, in_band) = self.band_tracks.divide(track);
        let (surface, along) = self.band.divide(in_band);
        let in_band_cylinder = if surface % 2 == 0 {
            along
        } else {
            self.band.get() - 1 - along
        };
        let in_zone = to_u32(band * self.band.get() + in_band_cylinder);
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
        let angle = zone
            .angle
            .plus(zone.band_skew.times(band))
            .plus(zone.surface_skew.times(surface))
            .plus(zone.track_skew.times(along))
            .plus(part_of_turn(on_track, zone.sectors_per_track));
        PlatterPosition {
            spot: Spot {
                cylinder,
                head: to_u32(head),
                angle,
            },
            sector_angle: zone.sector_angle,
            // A zone may begin within a track, behind sectors that are not the host's.
            passed_on_track: on_track.min(sectors_before),
            left_on_track: (zone.sectors_per_track.get() - on_track).min(left_in_unit),
        }
    }
}

/// The time in which `sectors` pass at this place.
pub(super) fn passing_time(spindle: Spindle, place: &PlatterPosition, sectors: Sectors) -> Nanos {
    let angle = u64::from(place.sector_angle.0) * sectors.as_u64();
    // More than one turn never passes within a track.
    Nanos::new((angle * spindle.turn().as_nanos()) >> 32)
}

pub(super) fn to_u32(number: u64) -> u32 {
    u32::try_from(number).expect("cylinders and heads fit in 32 bits")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::presets;
    use super::super::parameters::{ExactZone, Spares};
    use super::*;
    use crate::disk::hdd::{HddParameters, Layout};

    fn geometry(mib: u64, surfaces: u32, band: u32) -> Geometry {
        let mut parameters = presets::hdd("hdd-7200-fifo");
        parameters.interface.capacity = Sectors::new(mib * 2048);
        parameters.surfaces = surfaces;
        if let Layout::Proportional {
            band: cylinders, ..
        } = &mut parameters.layout
        {
            *cylinders = band;
        }
        Geometry::new(&parameters, Spindle::new(parameters.turn(), Angle(0)))
    }

    #[test]
    fn bands_run_out_on_one_surface_and_back_on_the_next() {
        let drive = geometry(4_000_000, 10, 128);
        let spt = 3072;
        let track = |number: u64| drive.place(Sector::new(number * spt)).spot;
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
            track_skew_sectors: 2.0,
            cylinder_skew_sectors: 5.0,
            offset_sectors: 1.0,
            unused_sectors: 3,
            spares: 1,
        };
        let inner = ExactZone {
            first_cylinder: 4,
            last_cylinder: 5,
            sectors_per_track: 8,
            unused_sectors: 0,
            ..zone
        };
        let zones = vec![zone, inner];
        let total: u64 = zones.iter().map(|zone| zone.sectors(4, spares)).sum();
        let mut parameters = HddParameters {
            surfaces: 4,
            layout: Layout::Exact {
                zones,
                heads,
                spares,
            },
            ..presets::hdd("hdd-7200-fifo")
        };
        parameters.interface.capacity = Sectors::new(capacity.unwrap_or(total));
        Geometry::new(&parameters, Spindle::new(parameters.turn(), Angle(0)))
    }

    #[test]
    fn a_measured_layout_skips_unused_sectors_spares_and_missing_cylinders() {
        let at = |drive: &Geometry, sector| {
            let place = drive.place(Sector::new(sector));
            (
                place.spot.cylinder,
                place.spot.head,
                place.passed_on_track,
                place.left_on_track,
            )
        };
        let drive = measured(HeadOrder::Rising, Spares::SectorsPerTrack, None);
        assert_eq!(at(&drive, 0), (0, 0, 0, 6));
        assert_eq!(at(&drive, 5), (0, 0, 5, 1));
        assert_eq!(at(&drive, 6), (0, 1, 0, 9));
        // 12 tracks of 9 less 3 unused: the second zone begins, in cylinder 4.
        assert_eq!(at(&drive, 105), (4, 0, 0, 7));
        let drive = measured(HeadOrder::Alternating, Spares::SectorsPerZone, None);
        assert_eq!(at(&drive, 37), (1, 3, 0, 10), "back in the second cylinder");
        let smaller = measured(HeadOrder::Rising, Spares::SectorsPerZone, Some(60));
        assert!(smaller.cylinders() < 5, "{}", smaller.cylinders());
        assert_eq!(at(&smaller, 59).0, smaller.cylinders() - 1);
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
            prop_assert!(place.spot.cylinder < drive.cylinders());
            prop_assert!(place.spot.head < surfaces);
            prop_assert!(place.left_on_track >= 1);
            let next = sector + place.left_on_track;
            if next <= last {
                let next = drive.place(Sector::new(next));
                let step = place.spot.cylinder.abs_diff(next.spot.cylinder);
                let limit = u32::try_from(drive.band.get()).unwrap();
                prop_assert!(step <= limit, "{place:?} {next:?}");
                if place.spot.head != next.spot.head && next.spot.head != 0 {
                    prop_assert_eq!(step, 0);
                }
            }
        }

        #[test]
        fn every_sector_of_a_measured_layout_has_a_place_of_its_own(
            heads in prop::sample::select(vec![HeadOrder::Rising, HeadOrder::Alternating, HeadOrder::AlternatingInZone]),
            spares in prop::sample::select(vec![
                Spares::None, Spares::TracksPerZone, Spares::SectorsPerTrack,
                Spares::SectorsPerRange { cylinders: 1 }, Spares::SectorsPerZone,
            ]),
            capacity in prop::option::of(30..120_u64),
        ) {
            let drive = measured(heads, spares, capacity);
            let mut places = std::collections::BTreeSet::new();
            for sector in 0..capacity.unwrap_or(120) {
                let place = drive.place(Sector::new(sector));
                prop_assert!(place.spot.cylinder < drive.cylinders() && place.spot.head < 4);
                prop_assert!(place.passed_on_track <= sector);
                prop_assert!(places.insert((place.spot.cylinder, place.spot.head, place.passed_on_track)));
            }
        }
    }
}
