//! Where on the platters a sector lies: zones, bands, tracks, and the angle at which it passes.
//!
//! Sectors are laid out track after track. A *band* is a group of neighbouring cylinders: its tracks
//! are filled on one surface, then on the next one in the other direction (serpentine), before the
//! next band begins. A band of one cylinder is the classic layout, where the head changes fastest.
//! Each track begins a little later on the turn than the one before it (skew), so that a drive that
//! reads on has time to get there.

use super::HddParameters;
use crate::units::{Nanos, Sector, Sectors, Time};

/// A part of a turn, in units of 2^-32 of it. Arithmetic wraps, as angles do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Angle(pub(super) u32);

impl Angle {
    /// How far it is from here on to `other`, in the direction of rotation.
    pub(super) fn until(self, other: Angle) -> Angle {
        Angle(other.0.wrapping_sub(self.0))
    }

    fn plus(self, other: Angle) -> Angle {
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
    /// Angle under the heads at the beginning of the run.
    phase: Angle,
}

impl Spindle {
    pub(super) fn new(turn: Nanos, phase: Angle) -> Spindle {
        assert!((1..1 << 30).contains(&turn.as_nanos()), "a turn of {turn}");
        Spindle {
            turn: turn.as_nanos(),
            phase,
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "less than a whole turn")]
    pub(super) fn angle_at(self, time: Time) -> Angle {
        Angle((((time.as_nanos() % self.turn) << 32) / self.turn) as u32).plus(self.phase)
    }

    /// How long the platter takes for this angle.
    pub(super) fn time_of(self, angle: Angle) -> Nanos {
        Nanos::new((u64::from(angle.0) * self.turn) >> 32)
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
    /// Sectors from this one (included) to the end of its track.
    pub(super) left_on_track: u64,
}

#[derive(Debug)]
struct Zone {
    first_sector: u64,
    first_cylinder: u32,
    sectors_per_track: u64,
    /// Angle of the zone's first sector.
    angle: Angle,
}

/// The layout of one drive.
#[derive(Debug)]
pub(super) struct Geometry {
    zones: Vec<Zone>,
    surfaces: u64,
    /// Cylinders in a band.
    band: u64,
    cylinders: u32,
    /// Skew from track to track on one surface.
    track_skew: Angle,
    /// Skew over all tracks of a surface in a band, with the change to the next surface.
    surface_skew: Angle,
    /// Skew over a whole band, with the change to the next band.
    band_skew: Angle,
}

impl Geometry {
    /// Spreads `capacity` over the zones in the drive's proportions. A drive made smaller than it
    /// is has fewer cylinders (and, when very small, fewer surfaces), bands smaller in proportion,
    /// and the same zones.
    pub(super) fn new(parameters: &HddParameters, spindle: Spindle) -> Geometry {
        let zones = parameters.zones.list();
        let total_weight: u64 = zones.iter().map(|zone| u64::from(zone.cylinders)).sum();
        let weighted: u64 = zones
            .iter()
            .map(|zone| u64::from(zone.cylinders) * u64::from(zone.sectors_per_track))
            .sum();
        let sectors = parameters.capacity.as_u64();
        let tracks = (sectors * total_weight).div_ceil(weighted);
        // A smaller drive keeps its surfaces as long as there are some cylinders for each zone.
        let surfaces =
            u64::from(parameters.surfaces).min((tracks / (4 * zones.len() as u64)).max(1));
        let cylinders = tracks.div_ceil(surfaces);
        let nominal = u64::from(parameters.cylinders);
        let band = (u64::from(parameters.band) * cylinders.min(nominal) / nominal).max(1);

        let mut geometry = Geometry {
            zones: Vec::with_capacity(zones.len()),
            surfaces,
            band,
            cylinders: 0,
            track_skew: Angle::default(),
            surface_skew: Angle::default(),
            band_skew: Angle::default(),
        };
        geometry.set_skews(parameters, spindle, cylinders);
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
            geometry.zones.push(Zone {
                first_sector,
                first_cylinder: to_u32(bands_done * band),
                sectors_per_track: spt,
                angle: geometry.band_skew.times(bands_done),
            });
            first_sector += bands * per_band;
            bands_done += bands;
        }
        geometry.cylinders = to_u32(bands_done * band);
        geometry
    }

    fn set_skews(&mut self, parameters: &HddParameters, spindle: Spindle, cylinders: u64) {
        // From the last track of a band to the first of the next: one cylinder if the number of
        // surfaces is odd, back over the whole band if it is even.
        let step = if self.surfaces % 2 == 1 { 1 } else { self.band };
        let scale = super::seek::Scale::new(parameters.cylinders, to_u32(cylinders));
        let between_bands = parameters
            .seek
            .time(scale.nominal(to_u32(step)))
            .max(parameters.track_switch)
            + if step > 1 {
                parameters.write_settle
            } else {
                Nanos::ZERO
            };
        self.track_skew = spindle.angle_in(parameters.track_switch);
        let within_surface = self.track_skew.times(self.band - 1);
        self.surface_skew = within_surface.plus(spindle.angle_in(parameters.head_switch));
        self.band_skew = self
            .surface_skew
            .times(self.surfaces - 1)
            .plus(within_surface)
            .plus(spindle.angle_in(between_bands.max(parameters.head_switch)));
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
        let offset = sector.as_u64() - zone.first_sector;
        let (track, on_track) = (
            offset / zone.sectors_per_track,
            offset % zone.sectors_per_track,
        );
        let (band, in_band) = (
            track / (self.band * self.surfaces),
            track % (self.band * self.surfaces),
        );
        let (head, along) = (in_band / self.band, in_band % self.band);
        let in_band_cylinder = if head % 2 == 0 {
            along
        } else {
            self.band - 1 - along
        };
        let sector_angle = sector_angle(zone.sectors_per_track);
        Place {
            cylinder: zone.first_cylinder + to_u32(band * self.band + in_band_cylinder),
            head: to_u32(head),
            angle: zone
                .angle
                .plus(self.band_skew.times(band))
                .plus(self.surface_skew.times(head))
                .plus(self.track_skew.times(along))
                .plus(part_of_turn(on_track, zone.sectors_per_track)),
            sector_angle,
            left_on_track: zone.sectors_per_track - on_track,
        }
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

fn sector_angle(sectors_per_track: u64) -> Angle {
    part_of_turn(1, sectors_per_track)
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
        let capacity = Sectors::new(mib * 2048);
        let parameters = HddParameters {
            capacity,
            surfaces,
            band,
            ..presets::hdd_7200()
        };
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
    }
}
