//! The keys of a hard disk.

use iosched_sim::disk::DriveQueue;
use iosched_sim::disk::hdd::seek::SeekCurve;
use iosched_sim::disk::hdd::{HddParameters, Overheads, ZoneSpec, Zones};
use iosched_sim::units::Bytes;
use serde::{Deserialize, Serialize};

use super::keys::{Common, Wrong, between, count, rate, time};

/// A hard disk.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HddKeys {
    rpm: u32,
    surfaces: u32,
    order: Order,
    age_limit_ms: f64,
    head_switch_ms: f64,
    write_settle_ms: f64,
    link_bytes_per_second: u64,
    overheads: OverheadKeys,
    buffer: BufferKeys,
    cache: CacheKeys,
    seek: SeekKeys,
    layout: LayoutKeys,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Order {
    Fifo,
    ShortestAccessFirst,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "keys name their unit")]
struct OverheadKeys {
    read_hit_ms: f64,
    read_miss_ms: f64,
    write_hit_ms: f64,
    write_miss_ms: f64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BufferKeys {
    segments: usize,
    segment_bytes: u64,
    read_ahead_bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheKeys {
    bytes: u64,
    stretches: usize,
    destage_delay_ms: f64,
    destage_age_ms: f64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeekKeys {
    table_ms: Option<Vec<(u32, f64)>>,
    fit: Option<FitKeys>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FitKeys {
    single_ms: f64,
    a_ms: f64,
    b_ms: f64,
    knee_cylinders: Option<u32>,
    c_ms: Option<f64>,
    e_ms: Option<f64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LayoutKeys {
    cylinders: u32,
    band_cylinders: u32,
    track_switch_ms: f64,
    even: Option<EvenKeys>,
    zone: Option<Vec<ZoneKeys>>,
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
struct ZoneKeys {
    cylinders: u32,
    sectors_per_track: u32,
}

impl HddKeys {
    pub(super) fn of(hdd: &HddParameters) -> HddKeys {
        HddKeys {
            rpm: hdd.rpm,
            surfaces: hdd.surfaces,
            order: match hdd.order {
                DriveQueue::Fifo => Order::Fifo,
                DriveQueue::ShortestAccessFirst => Order::ShortestAccessFirst,
            },
            age_limit_ms: hdd.age_limit.as_millis_f64(),
            head_switch_ms: hdd.head_switch.as_millis_f64(),
            write_settle_ms: hdd.write_settle.as_millis_f64(),
            link_bytes_per_second: hdd.link,
            overheads: OverheadKeys {
                read_hit_ms: hdd.overheads.read_hit.as_millis_f64(),
                read_miss_ms: hdd.overheads.read_miss.as_millis_f64(),
                write_hit_ms: hdd.overheads.write_hit.as_millis_f64(),
                write_miss_ms: hdd.overheads.write_miss.as_millis_f64(),
            },
            buffer: BufferKeys {
                segments: hdd.segments,
                segment_bytes: hdd.segment.as_u64(),
                read_ahead_bytes: hdd.read_ahead.as_u64(),
            },
            cache: CacheKeys {
                bytes: hdd.cache.as_u64(),
                stretches: hdd.cache_stretches,
                destage_delay_ms: hdd.destage_delay.as_millis_f64(),
                destage_age_ms: hdd.destage_age.as_millis_f64(),
            },
            seek: SeekKeys::of(&hdd.seek),
            layout: LayoutKeys::of(hdd),
        }
    }

    pub(super) fn parameters(&self, common: &Common) -> Result<HddParameters, Wrong> {
        let overheads = &self.overheads;
        let parameters = HddParameters {
            capacity: common.capacity,
            queue_depth: count("queue_depth", common.queue_depth, 1, 256)?,
            write_cache: common.write_cache,
            rpm: count("rpm", self.rpm, 60, 100_000)?,
            surfaces: count("surfaces", self.surfaces, 1, 64)?,
            order: match self.order {
                Order::Fifo => DriveQueue::Fifo,
                Order::ShortestAccessFirst => DriveQueue::ShortestAccessFirst,
            },
            age_limit: time("age_limit_ms", self.age_limit_ms)?,
            head_switch: time("head_switch_ms", self.head_switch_ms)?,
            write_settle: time("write_settle_ms", self.write_settle_ms)?,
            link: rate("link_bytes_per_second", self.link_bytes_per_second)?,
            overheads: Overheads {
                read_hit: time("overheads.read_hit_ms", overheads.read_hit_ms)?,
                read_miss: time("overheads.read_miss_ms", overheads.read_miss_ms)?,
                write_hit: time("overheads.write_hit_ms", overheads.write_hit_ms)?,
                write_miss: time("overheads.write_miss_ms", overheads.write_miss_ms)?,
            },
            segments: count("buffer.segments", self.buffer.segments, 0, 4096)?,
            segment: bytes("buffer.segment_bytes", self.buffer.segment_bytes)?,
            read_ahead: bytes("buffer.read_ahead_bytes", self.buffer.read_ahead_bytes)?,
            cache: bytes("cache.bytes", self.cache.bytes)?,
            cache_stretches: count("cache.stretches", self.cache.stretches, 1, 65_536)?,
            destage_delay: time("cache.destage_delay_ms", self.cache.destage_delay_ms)?,
            destage_age: time("cache.destage_age_ms", self.cache.destage_age_ms)?,
            seek: self.seek.curve().map_err(|wrong| wrong.within("seek"))?,
            cylinders: count("layout.cylinders", self.layout.cylinders, 1, 100_000_000)?,
            band: count(
                "layout.band_cylinders",
                self.layout.band_cylinders,
                1,
                100_000,
            )?,
            track_switch: time("layout.track_switch_ms", self.layout.track_switch_ms)?,
            zones: self
                .layout
                .zones()
                .map_err(|wrong| wrong.within("layout"))?,
        };
        check(&parameters)?;
        Ok(parameters)
    }
}

/// What single values do not show.
fn check(hdd: &HddParameters) -> Result<(), Wrong> {
    let one_cylinder = hdd.seek.time(1.0);
    if one_cylinder > hdd.track_switch {
        let what = format!(
            "is {}, shorter than the seek over one cylinder, {one_cylinder}",
            hdd.track_switch
        );
        return Err(Wrong::new("layout.track_switch_ms", what));
    }
    Ok(())
}

fn bytes(key: &str, bytes: u64) -> Result<Bytes, Wrong> {
    count(key, bytes, 0, 1 << 40).map(Bytes::new)
}

impl SeekKeys {
    fn of(curve: &SeekCurve) -> SeekKeys {
        match curve {
            SeekCurve::Table(table) => SeekKeys {
                table_ms: Some(
                    table
                        .iter()
                        .map(|&(distance, time)| (distance, time.as_millis_f64()))
                        .collect(),
                ),
                fit: None,
            },
            &SeekCurve::Fit {
                single,
                a,
                b,
                knee,
                c,
                e,
            } => SeekKeys {
                table_ms: None,
                fit: Some(FitKeys {
                    single_ms: single,
                    a_ms: a,
                    b_ms: b,
                    knee_cylinders: (knee < u32::MAX).then_some(knee),
                    c_ms: (knee < u32::MAX).then_some(c),
                    e_ms: (knee < u32::MAX).then_some(e),
                }),
            },
        }
    }

    fn curve(&self) -> Result<SeekCurve, Wrong> {
        match (&self.table_ms, &self.fit) {
            (Some(table), None) => seek_table(table),
            (None, Some(fit)) => fit.curve().map_err(|wrong| wrong.within("fit")),
            _ => Err(Wrong::new(
                "table_ms",
                "or [hdd.seek.fit] is needed, and only one of them",
            )),
        }
    }
}

fn seek_table(table: &[(u32, f64)]) -> Result<SeekCurve, Wrong> {
    if table.len() < 2 {
        return Err(Wrong::new(
            "table_ms",
            "needs at least two pairs [cylinders, ms]",
        ));
    }
    let mut curve = Vec::with_capacity(table.len());
    let mut last = 0;
    for (index, &(distance, millis)) in table.iter().enumerate() {
        if distance <= last {
            let what = format!("has a distance of {distance} after {last}: distances rise, from 1");
            return Err(Wrong::new(&format!("table_ms.{index}"), what));
        }
        curve.push((distance, time(&format!("table_ms.{index}.1"), millis)?));
        last = distance;
    }
    Ok(SeekCurve::Table(curve))
}

impl FitKeys {
    fn curve(&self) -> Result<SeekCurve, Wrong> {
        const LONGEST_MS: f64 = 1_000.0;
        let (knee, c, e) = match (self.knee_cylinders, self.c_ms, self.e_ms) {
            (None, None, None) => (u32::MAX, 0.0, 0.0),
            (Some(knee), Some(c), Some(e)) => (knee, c, e),
            _ => {
                return Err(Wrong::new(
                    "knee_cylinders",
                    "comes with both c_ms and e_ms, or not at all",
                ));
            }
        };
        Ok(SeekCurve::Fit {
            single: between("single_ms", self.single_ms, 0.0, LONGEST_MS)?,
            a: between("a_ms", self.a_ms, 0.0, LONGEST_MS)?,
            b: between("b_ms", self.b_ms, 0.0, LONGEST_MS)?,
            knee: count("knee_cylinders", knee, 2, u32::MAX)?,
            c: between("c_ms", c, 0.0, LONGEST_MS)?,
            e: between("e_ms", e, 0.0, LONGEST_MS)?,
        })
    }
}

impl LayoutKeys {
    fn of(hdd: &HddParameters) -> LayoutKeys {
        let (even, zone) = match &hdd.zones {
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
            Zones::Table(zones) => {
                let keys = |zone: &ZoneSpec| ZoneKeys {
                    cylinders: zone.cylinders,
                    sectors_per_track: zone.sectors_per_track,
                };
                (None, Some(zones.iter().map(keys).collect()))
            }
        };
        LayoutKeys {
            cylinders: hdd.cylinders,
            band_cylinders: hdd.band,
            track_switch_ms: hdd.track_switch.as_millis_f64(),
            even,
            zone,
        }
    }

    fn zones(&self) -> Result<Zones, Wrong> {
        const MOST_SECTORS: u32 = 100_000;
        match (&self.even, &self.zone) {
            (Some(even), None) => {
                let outer = count(
                    "even.outer_sectors_per_track",
                    even.outer_sectors_per_track,
                    1,
                    MOST_SECTORS,
                )?;
                Ok(Zones::Even {
                    count: count("even.zones", even.zones, 1, 1000)?,
                    outer,
                    inner: count(
                        "even.inner_sectors_per_track",
                        even.inner_sectors_per_track,
                        1,
                        outer,
                    )?,
                })
            }
            (None, Some(zones)) if !zones.is_empty() => {
                let mut table = Vec::with_capacity(zones.len());
                for (index, zone) in zones.iter().enumerate() {
                    let key = |name: &str| format!("zone.{index}.{name}");
                    table.push(ZoneSpec {
                        cylinders: count(&key("cylinders"), zone.cylinders, 1, 100_000_000)?,
                        sectors_per_track: count(
                            &key("sectors_per_track"),
                            zone.sectors_per_track,
                            1,
                            MOST_SECTORS,
                        )?,
                    });
                }
                Ok(Zones::Table(table))
            }
            _ => Err(Wrong::new(
                "cylinders",
                "is followed by [hdd.layout.even] or by [[hdd.layout.zone]]",
            )),
        }
    }
}
