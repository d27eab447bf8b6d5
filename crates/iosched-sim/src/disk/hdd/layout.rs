//! How a drive's parameters become zones with their places and skews.

use super::geometry::{Geometry, Unit, Zone, ZoneMap, to_u32};
use super::parameters::{ExactZone, HddParameters, HeadOrder, Layout, Spares, ZoneSpec};
use super::seek::Scale;
use super::turn::{Angle, Spindle, angle_of_sectors, part_of_turn};
use crate::reciprocal::Divisor;
use crate::units::Nanos;

/// What a proportional layout has besides its zones.
struct Shape {
    nominal: u64,
    band: u64,
    track_switch: Nanos,
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
                    track_switch: **track_switch,
                };
                proportional(parameters, spindle, &shape, zones)
            }
            Layout::Exact {
                zones,
                heads,
                spares,
            } => exact(parameters, zones, *heads, *spares),
        }
    }
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
    let sectors = parameters.interface.capacity.as_u64();
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
            sectors_per_track: Divisor::new(spt),
            sector_angle: part_of_turn(1, Divisor::new(spt)),
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
        zones: ZoneMap::new(laid, parameters.interface.capacity),
        surfaces,
        band: Divisor::new(band),
        band_tracks: Divisor::new(band * surfaces),
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
            Nanos::new(parameters.write_settle.max(0).unsigned_abs())
        } else {
            Nanos::ZERO
        };
        let move_between_bands = parameters.seek.time(scale.nominal(to_u32(step)));
        let between_bands = move_between_bands.max(shape.track_switch) + settle;
        let track = spindle.angle_in(shape.track_switch);
        let within_surface = track.times(band - 1);
        let surface = within_surface.plus(spindle.angle_in(*parameters.head_switch));
        let over_band = surface
            .times(surfaces - 1)
            .plus(within_surface)
            .plus(spindle.angle_in(between_bands.max(*parameters.head_switch)));
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
    let capacity = parameters.interface.capacity.as_u64();
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
            zone.unused_sectors = to_u32(scaled(u64::from(zone.unused_sectors)));
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
        zones: ZoneMap::new(laid, parameters.interface.capacity),
        surfaces: u64::from(surfaces),
        band: Divisor::new(1),
        band_tracks: Divisor::new(u64::from(surfaces)),
        cylinders: next_cylinder,
        heads,
    }
}

fn exact_zone(zone: &ExactZone, first_sector: u64, surfaces: u32, spares: Spares) -> Zone {
    let spt = u64::from(zone.sectors_per_track);
    let unit = spares.unit(spt, surfaces.into()).map(|all| Unit {
        all,
        used: Divisor::new(all - u64::from(zone.spares)),
    });
    let skew = |sectors: f64| angle_of_sectors(sectors, zone.sectors_per_track);
    let surface_skew = skew(zone.track_skew_sectors);
    Zone {
        first_sector,
        first_cylinder: zone.first_cylinder,
        sectors_per_track: Divisor::new(spt),
        sector_angle: part_of_turn(1, Divisor::new(spt)),
        angle: skew(zone.offset_sectors),
        track_skew: Angle::default(), // a band has one cylinder
        surface_skew,
        band_skew: surface_skew
            .times(u64::from(surfaces) - 1)
            .plus(skew(zone.cylinder_skew_sectors)),
        unused: u64::from(zone.unused_sectors),
        unit,
    }
}
