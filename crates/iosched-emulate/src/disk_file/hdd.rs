//! The keys of a hard disk.

use iosched_sim::disk::DriveQueue;
use iosched_sim::disk::hdd::seek::SeekCurve;
use iosched_sim::disk::hdd::{
    After, HddParameters, Layout, LinkRates, Overheads, ReadAhead, Reading, ScatteredWrite,
    SettleAfter, WriteSettle, Writing,
};
use iosched_sim::units::{Bytes, Nanos, Sectors};
use serde::{Deserialize, Serialize};

use super::layout::LayoutKeys;
use super::values::{Common, Wrong, between, count, rate, time};

/// A hard disk.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HddKeys {
    rpm: u32,
    surfaces: u32,
    order: DriveQueue,
    #[serde(default = "default_age_limit")]
    age_limit_ms: f64,
    head_switch_ms: f64,
    write_settle_ms: f64,
    #[serde(default)]
    write_settle_after: SettleAfter,
    link_bytes_per_second: u64,
    link_write_bytes_per_second: Option<u64>,
    overheads: OverheadKeys,
    reading: ReadingKeys,
    writing: WritingKeys,
    seek: SeekKeys,
    layout: LayoutKeys,
}

fn default_age_limit() -> f64 {
    500.0
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "keys name their unit")]
struct OverheadKeys {
    read_hit_ms: f64,
    read_hit_after_write_ms: Option<f64>,
    read_miss_ms: f64,
    read_miss_after_write_ms: Option<f64>,
    write_hit_ms: f64,
    write_hit_after_write_ms: Option<f64>,
    write_miss_ms: f64,
    write_miss_after_write_ms: Option<f64>,
    scattered_write_arm_ms: Option<f64>,
    scattered_write_data_ms: Option<f64>,
    #[serde(default)]
    reselect_ms: f64,
    #[serde(default)]
    data_preparation_ms: f64,
    #[serde(default)]
    read_completion_ms: f64,
    #[serde(default)]
    write_completion_ms: f64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadingKeys {
    segments: usize,
    segment_bytes: u64,
    #[serde(default)]
    ahead: Ahead,
    ahead_bytes: Option<u64>,
    #[serde(default)]
    threshold_permille: u32,
    #[serde(default)]
    keeps_passing: bool,
    #[serde(default)]
    zero_latency: bool,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Ahead {
    #[default]
    Distance,
    WithinTrack,
    TrackByTrack,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WritingKeys {
    #[serde(default)]
    threshold_sectors: u64,
    #[serde(default)]
    keeps_written: bool,
    #[serde(default)]
    zero_latency: bool,
    cache_bytes: u64,
    cache_stretches: usize,
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
    first_ms: Vec<f64>,
    a_ms: f64,
    b_ms: f64,
    knee_cylinders: Option<u32>,
    c_ms: Option<f64>,
    e_ms: Option<f64>,
}

impl HddKeys {
    pub(super) fn of(hdd: &HddParameters) -> HddKeys {
        HddKeys {
            rpm: hdd.rpm,
            surfaces: hdd.surfaces,
            order: hdd.order,
            age_limit_ms: hdd.age_limit.as_millis_f64(),
            head_switch_ms: hdd.head_switch.as_millis_f64(),
            write_settle_ms: hdd.write_settle.nanos as f64 / 1e6,
            write_settle_after: hdd.write_settle.after,
            link_bytes_per_second: hdd.link.read,
            link_write_bytes_per_second: (hdd.link.write != hdd.link.read)
                .then_some(hdd.link.write),
            overheads: OverheadKeys::of(&hdd.overheads),
            reading: ReadingKeys::of(&hdd.reading),
            writing: WritingKeys::of(&hdd.writing),
            seek: SeekKeys::of(&hdd.seek),
            layout: LayoutKeys::of(&hdd.layout),
        }
    }

    /// The size that follows from a layout as measured.
    pub(super) fn measured_capacity(&self) -> Option<Bytes> {
        self.layout.measured_capacity(self.surfaces)
    }

    pub(super) fn parameters(&self, common: &Common) -> Result<HddParameters, Wrong> {
        let surfaces = count("surfaces", self.surfaces, 1, 64)?;
        let layout = self.layout.layout(surfaces, common.capacity);
        let read_rate = rate("link_bytes_per_second", self.link_bytes_per_second)?;
        let write_rate = self.link_write_bytes_per_second.unwrap_or(read_rate);
        let parameters = HddParameters {
            capacity: common.capacity,
            queue_depth: count("queue_depth", common.queue_depth, 1, 256)?,
            write_cache: common.write_cache,
            rpm: count("rpm", self.rpm, 60, 100_000)?,
            surfaces,
            order: self.order,
            age_limit: time("age_limit_ms", self.age_limit_ms)?,
            head_switch: time("head_switch_ms", self.head_switch_ms)?,
            write_settle: WriteSettle {
                nanos: signed_time("write_settle_ms", self.write_settle_ms)?,
                after: self.write_settle_after,
            },
            link: LinkRates {
                read: read_rate,
                write: rate("link_write_bytes_per_second", write_rate)?,
            },
            overheads: self
                .overheads
                .overheads()
                .map_err(|wrong| wrong.within("overheads"))?,
            reading: self
                .reading
                .reading()
                .map_err(|wrong| wrong.within("reading"))?,
            writing: self
                .writing
                .writing()
                .map_err(|wrong| wrong.within("writing"))?,
            seek: self.seek.curve().map_err(|wrong| wrong.within("seek"))?,
            layout: layout.map_err(|wrong| wrong.within("layout"))?,
        };
        check(&parameters)?;
        Ok(parameters)
    }
}

/// What single values do not show.
fn check(hdd: &HddParameters) -> Result<(), Wrong> {
    if !hdd.fits() {
        let what = format!(
            "is {}, and cannot be above what 2^32 cylinders of this layout hold",
            hdd.capacity.to_bytes().as_u64()
        );
        return Err(Wrong::new("capacity_bytes", what));
    }
    let one_cylinder = hdd.seek.time(1.0);
    match &hdd.layout {
        Layout::Proportional { track_switch, .. } if one_cylinder > *track_switch => {
            let what = format!(
                "is {track_switch}, shorter than the seek over one cylinder, {one_cylinder}"
            );
            Err(Wrong::new("layout.track_switch_ms", what))
        }
        _ => Ok(()),
    }
}

fn bytes(key: &str, bytes: u64) -> Result<Bytes, Wrong> {
    count(key, bytes, 0, 1 << 40).map(Bytes::new)
}

#[expect(clippy::cast_possible_truncation, reason = "checked")]
fn signed_time(key: &str, millis: f64) -> Result<i64, Wrong> {
    Ok((between(key, millis, -1_000.0, 1_000.0)? * 1e6).round() as i64)
}

impl OverheadKeys {
    fn of(overheads: &Overheads) -> OverheadKeys {
        let ms = |time: Nanos| time.as_millis_f64();
        let other = |after: After| (after.write != after.read).then(|| after.write.as_millis_f64());
        let scattered = overheads.scattered_write;
        OverheadKeys {
            read_hit_ms: ms(overheads.read_hit.read),
            read_hit_after_write_ms: other(overheads.read_hit),
            read_miss_ms: ms(overheads.read_miss.read),
            read_miss_after_write_ms: other(overheads.read_miss),
            write_hit_ms: ms(overheads.write_hit.read),
            write_hit_after_write_ms: other(overheads.write_hit),
            write_miss_ms: ms(overheads.write_miss.read),
            write_miss_after_write_ms: other(overheads.write_miss),
            scattered_write_arm_ms: scattered.map(|times| ms(times.arm)),
            scattered_write_data_ms: scattered.map(|times| ms(times.data)),
            reselect_ms: ms(overheads.reselect),
            data_preparation_ms: ms(overheads.data_preparation),
            read_completion_ms: ms(overheads.read_completion),
            write_completion_ms: ms(overheads.write_completion),
        }
    }

    fn overheads(&self) -> Result<Overheads, Wrong> {
        let after = |key: &str, read: f64, write: Option<f64>| {
            Ok(After {
                read: time(&format!("{key}_ms"), read)?,
                write: time(&format!("{key}_after_write_ms"), write.unwrap_or(read))?,
            })
        };
        let scattered = match (self.scattered_write_arm_ms, self.scattered_write_data_ms) {
            (None, None) => None,
            (Some(arm), Some(data)) => Some(ScatteredWrite {
                arm: time("scattered_write_arm_ms", arm)?,
                data: time("scattered_write_data_ms", data)?,
            }),
            _ => {
                let what = "comes with scattered_write_data_ms, or not at all";
                return Err(Wrong::new("scattered_write_arm_ms", what));
            }
        };
        Ok(Overheads {
            read_hit: after("read_hit", self.read_hit_ms, self.read_hit_after_write_ms)?,
            read_miss: after(
                "read_miss",
                self.read_miss_ms,
                self.read_miss_after_write_ms,
            )?,
            write_hit: after(
                "write_hit",
                self.write_hit_ms,
                self.write_hit_after_write_ms,
            )?,
            write_miss: after(
                "write_miss",
                self.write_miss_ms,
                self.write_miss_after_write_ms,
            )?,
            scattered_write: scattered,
            reselect: time("reselect_ms", self.reselect_ms)?,
            data_preparation: time("data_preparation_ms", self.data_preparation_ms)?,
            read_completion: time("read_completion_ms", self.read_completion_ms)?,
            write_completion: time("write_completion_ms", self.write_completion_ms)?,
        })
    }
}

impl ReadingKeys {
    fn of(reading: &Reading) -> ReadingKeys {
        let (ahead, ahead_bytes) = match reading.ahead {
            ReadAhead::Distance(distance) => (Ahead::Distance, Some(distance)),
            ReadAhead::WithinTrack(distance) => (Ahead::WithinTrack, Some(distance)),
            ReadAhead::TrackByTrack => (Ahead::TrackByTrack, None),
        };
        ReadingKeys {
            segments: reading.segments,
            segment_bytes: reading.segment.as_u64(),
            ahead,
            ahead_bytes: ahead_bytes.map(Bytes::as_u64),
            threshold_permille: reading.threshold_permille,
            keeps_passing: reading.keeps_passing,
            zero_latency: reading.zero_latency,
        }
    }

    fn reading(&self) -> Result<Reading, Wrong> {
        let distance = self.ahead_bytes.map(|value| bytes("ahead_bytes", value));
        let ahead = match (self.ahead, distance.transpose()?) {
            (Ahead::Distance, Some(distance)) => ReadAhead::Distance(distance),
            (Ahead::WithinTrack, Some(distance)) => ReadAhead::WithinTrack(distance),
            (Ahead::TrackByTrack, None) => ReadAhead::TrackByTrack,
            (Ahead::TrackByTrack, Some(_)) => {
                return Err(Wrong::new(
                    "ahead_bytes",
                    "means nothing with track-by-track",
                ));
            }
            (Ahead::Distance | Ahead::WithinTrack, None) => {
                return Err(Wrong::new("ahead_bytes", "is missing"));
            }
        };
        Ok(Reading {
            segments: count("segments", self.segments, 0, 4096)?,
            segment: bytes("segment_bytes", self.segment_bytes)?,
            ahead,
            threshold_permille: count("threshold_permille", self.threshold_permille, 0, 1000)?,
            keeps_passing: self.keeps_passing,
            zero_latency: self.zero_latency,
        })
    }
}

impl WritingKeys {
    fn of(writing: &Writing) -> WritingKeys {
        WritingKeys {
            threshold_sectors: writing.threshold.as_u64(),
            keeps_written: writing.keeps_written,
            zero_latency: writing.zero_latency,
            cache_bytes: writing.cache.as_u64(),
            cache_stretches: writing.cache_stretches,
            destage_delay_ms: writing.destage_delay.as_millis_f64(),
            destage_age_ms: writing.destage_age.as_millis_f64(),
        }
    }

    fn writing(&self) -> Result<Writing, Wrong> {
        let threshold = count("threshold_sectors", self.threshold_sectors, 0, 1 << 20)?;
        Ok(Writing {
            threshold: Sectors::new(threshold),
            keeps_written: self.keeps_written,
            zero_latency: self.zero_latency,
            cache: bytes("cache_bytes", self.cache_bytes)?,
            cache_stretches: count("cache_stretches", self.cache_stretches, 1, 65_536)?,
            destage_delay: time("destage_delay_ms", self.destage_delay_ms)?,
            destage_age: time("destage_age_ms", self.destage_age_ms)?,
        })
    }
}

impl SeekKeys {
    fn of(curve: &SeekCurve) -> SeekKeys {
        match curve {
            SeekCurve::Table(table) => {
                let pairs = table
                    .iter()
                    .map(|&(distance, time)| (distance, time.as_millis_f64()));
                SeekKeys {
                    table_ms: Some(pairs.collect()),
                    fit: None,
                }
            }
            SeekCurve::Fit {
                first,
                a,
                b,
                knee,
                c,
                e,
            } => {
                let has_knee = *knee < u32::MAX;
                SeekKeys {
                    table_ms: None,
                    fit: Some(FitKeys {
                        first_ms: first.clone(),
                        a_ms: *a,
                        b_ms: *b,
                        knee_cylinders: has_knee.then_some(*knee),
                        c_ms: has_knee.then_some(*c),
                        e_ms: has_knee.then_some(*e),
                    }),
                }
            }
        }
    }

    fn curve(&self) -> Result<SeekCurve, Wrong> {
        match (&self.table_ms, &self.fit) {
            (Some(table), None) => seek_table(table),
            (None, Some(fit)) => fit.curve().map_err(|wrong| wrong.within("fit")),
            _ => {
                let what = "or [hdd.seek.fit] is needed, and only one of them";
                Err(Wrong::new("table_ms", what))
            }
        }
    }
}

/// The longest move that a table or a fit may give.
const LONGEST_MOVE_MS: f64 = 1_000.0;

fn seek_table(table: &[(u32, f64)]) -> Result<SeekCurve, Wrong> {
    if table.len() < 2 {
        let what = "needs at least two pairs [cylinders, ms]";
        return Err(Wrong::new("table_ms", what));
    }
    let mut curve = Vec::with_capacity(table.len());
    let mut last = 0;
    for (index, &(distance, millis)) in table.iter().enumerate() {
        if distance <= last {
            let what = format!("has a distance of {distance} after {last}: distances rise, from 1");
            return Err(Wrong::new(&format!("table_ms.{index}"), what));
        }
        let millis = between(&format!("table_ms.{index}.1"), millis, 0.0, LONGEST_MOVE_MS)?;
        curve.push((distance, Nanos::from_millis_f64(millis)));
        last = distance;
    }
    Ok(SeekCurve::Table(curve))
}

impl FitKeys {
    fn curve(&self) -> Result<SeekCurve, Wrong> {
        let (knee, c, e) = match (self.knee_cylinders, self.c_ms, self.e_ms) {
            (None, None, None) => (u32::MAX, 0.0, 0.0),
            (Some(knee), Some(c), Some(e)) => (knee, c, e),
            _ => {
                let what = "comes with both c_ms and e_ms, or not at all";
                return Err(Wrong::new("knee_cylinders", what));
            }
        };
        let part = |key: &str, millis: f64| between(key, millis, 0.0, LONGEST_MOVE_MS);
        for (index, &millis) in self.first_ms.iter().enumerate() {
            part(&format!("first_ms.{index}"), millis)?;
        }
        Ok(SeekCurve::Fit {
            first: self.first_ms.clone(),
            a: part("a_ms", self.a_ms)?,
            b: part("b_ms", self.b_ms)?,
            knee: count("knee_cylinders", knee, 2, u32::MAX)?,
            c: part("c_ms", c)?,
            e: part("e_ms", e)?,
        })
    }
}
