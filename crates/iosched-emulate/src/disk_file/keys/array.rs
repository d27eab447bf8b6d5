//! The keys of an array: its members, how they share the data, and the controller's cache.

use iosched_sim::disk::array::{ArrayParameters, ControllerCache, Level};
use iosched_sim::disk::{Model, ModelKind, Parameters};
use iosched_sim::units::{Bytes, Sectors};
use serde::{Deserialize, Serialize};

use super::File;
use crate::disk_file::values::{Wrong, count, time};

/// Several drives as one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArrayKeys {
    level: Level,
    chunk_bytes: u64,
    rotational: bool,
    command_ms: f64,
    link_bytes_per_second: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unequal_members: bool,
    cache: Option<CacheKeys>,
    #[serde(default)]
    member: Vec<MemberKeys>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheKeys {
    size_bytes: u64,
    battery: bool,
    hit_ms: f64,
    high_permille: u64,
    low_permille: u64,
    destage_depth: usize,
    destage_age_ms: f64,
    read_ahead_bytes: u64,
}

/// So many drives alike: by the name of one that comes with the program, or as its file would say.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MemberKeys {
    count: usize,
    model: Option<String>,
    drive: Option<Box<File>>,
}

impl ArrayKeys {
    pub(super) fn of(array: &ArrayParameters) -> ArrayKeys {
        let mut member: Vec<MemberKeys> = Vec::new();
        let mut last: Option<&Model> = None;
        for model in &array.members {
            match member.last_mut().filter(|_| last == Some(model)) {
                Some(keys) => keys.count += 1,
                None => member.push(MemberKeys::of(model)),
            }
            last = Some(model);
        }
        ArrayKeys {
            level: array.level,
            chunk_bytes: array.chunk.to_bytes().as_u64(),
            rotational: array.rotational,
            command_ms: array.command.as_millis_f64(),
            link_bytes_per_second: array.link,
            unequal_members: !are_equal(&array.members),
            cache: array.cache.as_ref().map(CacheKeys::of),
            member,
        }
    }

    /// The array of these keys; it has all the room of its members unless a capacity is given.
    pub(super) fn parameters(
        self,
        capacity: Option<Sectors>,
        queue_depth: usize,
    ) -> Result<ArrayParameters, Wrong> {
        let chunk = count("chunk_bytes", self.chunk_bytes, 4096, 16 << 20)?;
        if !chunk.is_multiple_of(4096) {
            return Err(Wrong::new(
                "chunk_bytes",
                "is no whole number of 4096-byte blocks",
            ));
        }
        let members = members(self.member)?;
        let level = self.level;
        if !level.takes(members.len()) {
            let (number, least) = (members.len(), level.least_members());
            let even = if level == Level::Raid10 {
                ", an even number"
            } else {
                ""
            };
            let what = format!("has {number} in all, and this level takes {least} or more{even}");
            return Err(Wrong::new("member", what));
        }
        if !self.unequal_members && !are_equal(&members) {
            let what = "has drives of different kinds or sizes: `unequal_members = true` says that this is meant \
                        (the smallest decides what each holds)";
            return Err(Wrong::new("member", what));
        }
        let mut array = ArrayParameters {
            level,
            members,
            chunk: Bytes::new(chunk).to_sectors(),
            capacity: Sectors::ZERO,
            queue_depth,
            rotational: self.rotational,
            command: time("command_ms", self.command_ms)?,
            link: self
                .link_bytes_per_second
                .map(|rate| count("link_bytes_per_second", rate, 1 << 20, 1 << 40))
                .transpose()?,
            cache: None,
        };
        array.capacity = room(&array, capacity)?;
        if let Some(keys) = &self.cache {
            let cache = keys.cache(array.capacity.to_bytes());
            array.cache = Some(cache.map_err(|wrong| wrong.within("cache"))?);
        }
        Ok(array)
    }
}

fn are_equal(members: &[Model]) -> bool {
    members.windows(2).all(|pair| pair[0] == pair[1])
}

fn room(array: &ArrayParameters, asked: Option<Sectors>) -> Result<Sectors, Wrong> {
    let room = array.room();
    match asked {
        Some(asked) if asked > room => {
            let what = format!(
                "hold {} in all, and capacity_bytes is more",
                room.to_bytes()
            );
            Err(Wrong::new("member", what))
        }
        None if room == Sectors::ZERO => Err(Wrong::new("member", "holds less than one chunk")),
        asked => Ok(asked.unwrap_or(room)),
    }
}

fn members(keys: Vec<MemberKeys>) -> Result<Vec<Model>, Wrong> {
    const MOST: usize = 256;
    // Each drive has its own copy of what the file says of it.
    const MOST_TEXT: usize = 64 << 20;
    // Each die has its own queue: more take gigabytes.
    const MOST_DIES: usize = 256 << 10;
    if keys.is_empty() {
        let what = "is missing: an array has members, each [[array.member]] with count and model";
        return Err(Wrong::new("member", what));
    }
    let mut members = Vec::new();
    let mut dies = 0;
    for (index, keys) in keys.into_iter().enumerate() {
        let within = |wrong: Wrong| wrong.within(&format!("member.{index}"));
        let number = count("count", keys.count, 1, MOST).map_err(within)?;
        let all = members.len() + number;
        if all > MOST {
            let what =
                format!("has {all} drives up to this one, and an array has {MOST} at the most");
            return Err(within(Wrong::new("count", what)));
        }
        let text = keys.text_bytes();
        if text.saturating_mul(number) > MOST_TEXT {
            let what = format!(
                "is {number}, each with {} of text, and all can have {}",
                Bytes::new(text as u64),
                Bytes::new(MOST_TEXT as u64)
            );
            return Err(within(Wrong::new("count", what)));
        }
        let model = keys.drive().map_err(within)?;
        if let Parameters::Ssd(ssd) = &model.parameters {
            dies += ssd.dies * number;
        }
        if dies > MOST_DIES {
            let what =
                format!("has {dies} dies up to this one, and all can have {MOST_DIES} together");
            return Err(within(Wrong::new("count", what)));
        }
        members.extend(std::iter::repeat_n(model, number));
    }
    Ok(members)
}

impl MemberKeys {
    fn of(model: &Model) -> MemberKeys {
        let is_ours = Model::named(&model.name).is_ok_and(|ours| ours == *model);
        MemberKeys {
            count: 1,
            model: is_ours.then(|| model.name.clone()),
            drive: (!is_ours).then(|| Box::new(File::of(model))),
        }
    }

    /// How long what the file says of the drive is.
    fn text_bytes(&self) -> usize {
        let text = self.drive.as_ref().map(toml::to_string);
        text.map_or(0, |text| text.map_or(0, |text| text.len()))
    }

    fn drive(self) -> Result<Model, Wrong> {
        // What every kind of drive can be made as; 256 of the largest are still a number of bytes.
        const LEAST: u64 = 16 << 20;
        const MOST: u64 = 64 << 40;
        let drive = match (self.model, self.drive) {
            (Some(name), None) => Model::named(&name).map_err(|error| {
                let own = "a drive of your own is written out as [array.member.drive]";
                Wrong::new("model", format!("is `{name}`: {error}; {own}"))
            })?,
            (None, Some(file)) => file.model().map_err(|wrong| wrong.within("drive"))?,
            _ => {
                let what = "is followed by either model (a name) or [array.member.drive] (as a file of its own)";
                return Err(Wrong::new("count", what));
            }
        };
        if drive.capacity().as_u64() < LEAST {
            let (has, least) = (drive.capacity(), Bytes::new(LEAST));
            return Err(Wrong::new(
                "count",
                format!("is of drives of {has}: members hold {least} or more"),
            ));
        }
        if drive.capacity().as_u64() > MOST {
            let (has, most) = (drive.capacity(), Bytes::new(MOST));
            return Err(Wrong::new(
                "count",
                format!("is of drives of {has}: members hold {most} or less"),
            ));
        }
        if drive.kind() == ModelKind::Array {
            return Err(Wrong::new(
                "model",
                "is an array itself: members are drives",
            ));
        }
        Ok(drive)
    }
}

impl CacheKeys {
    fn of(cache: &ControllerCache) -> CacheKeys {
        CacheKeys {
            size_bytes: cache.size.as_u64(),
            battery: cache.battery,
            hit_ms: cache.hit.as_millis_f64(),
            high_permille: cache.high_permille,
            low_permille: cache.low_permille,
            destage_depth: cache.destage_depth,
            destage_age_ms: cache.destage_age.as_millis_f64(),
            read_ahead_bytes: cache.read_ahead.as_u64(),
        }
    }

    fn cache(&self, capacity: Bytes) -> Result<ControllerCache, Wrong> {
        let size = count("size_bytes", self.size_bytes, 1 << 20, 1 << 40)?;
        if size > capacity.as_u64() {
            let what = format!(
                "is {}, more than the {capacity} that it is for",
                Bytes::new(size)
            );
            return Err(Wrong::new("size_bytes", what));
        }
        let high = count("high_permille", self.high_permille, 1, 1000)?;
        Ok(ControllerCache {
            size: Bytes::new(size),
            battery: self.battery,
            hit: time("hit_ms", self.hit_ms)?,
            high_permille: high,
            low_permille: count("low_permille", self.low_permille, 0, high)?,
            destage_depth: count("destage_depth", self.destage_depth, 1, 1024)?,
            destage_age: time("destage_age_ms", self.destage_age_ms)?,
            read_ahead: count("read_ahead_bytes", self.read_ahead_bytes, 0, 1 << 30)
                .map(Bytes::new)?,
        })
    }
}
