//! What a disk model is before it is a machine: its name, its parameters, their sources, and how to
//! make the machine from them.
//!
//! A model is a TOML file ([`Model::parse`]), whether it comes with the program (`models/`) or is a user's own: what a
//! file can say is what the parameters' fields are. Units are part of the keys' names; `examples/disk-models.md` lists all
//! keys.

use std::num::NonZeroU32;

use iosched_facts::Problem;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::array::{Array, ArrayParameters};
use super::hdd::{Hdd, HddParameters};
use super::simple::{SimpleDisk, SimpleParameters};
use super::slowed::SlowedDown;
use super::ssd::{Ssd, SsdParameters};
use super::values::whole;
use super::{DiskModel, DriveQueue, Interface};
use crate::units::{Bytes, Sectors};

/// A disk model. In a record or a message it is the text of its file, so that its reader needs no file.
#[derive(Debug, Clone)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// What it is, in half a line.
    pub summary: String,
    /// Where its parameters come from, one per group of parameters.
    pub sources: Vec<String>,
    /// What a real one does and this one does not.
    pub leaves_out: Vec<String>,
    /// The numbers.
    pub parameters: Parameters,
    /// Its file.
    pub(super) text: String,
}

/// Two are the same if they say the same, however their files are written.
impl PartialEq for Model {
    fn eq(&self, other: &Model) -> bool {
        self.name == other.name
            && self.summary == other.summary
            && self.sources == other.sources
            && self.leaves_out == other.leaves_out
            && self.parameters == other.parameters
    }
}

/// The numbers that make a model.
#[expect(
    clippy::large_enum_variant,
    reason = "there are a dozen of them, and not in a queue"
)]
#[derive(Debug, Clone, PartialEq)]
pub enum Parameters {
    /// Platters and an arm.
    Hdd(HddParameters),
    /// Flash.
    Ssd(SsdParameters),
    /// A rule for the service time, no drive.
    Simple(SimpleParameters),
    /// Several drives as one.
    Array(ArrayParameters),
}

/// A model's file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(deserialize_with = "name")]
    name: String,
    summary: String,
    #[serde(deserialize_with = "texts")]
    source: Vec<String>,
    #[serde(deserialize_with = "texts")]
    leaves_out: Vec<String>,
    #[serde(default, deserialize_with = "some_sectors")]
    capacity_bytes: Option<Sectors>,
    #[serde(deserialize_with = "whole::<_, _, 1, 1024>")]
    queue_depth: usize,
    #[serde(default)]
    write_cache: bool,
    #[serde(default, deserialize_with = "hdd")]
    hdd: Option<HddParameters>,
    ssd: Option<SsdParameters>,
    simple: Option<SimpleParameters>,
    #[serde(default, deserialize_with = "array")]
    array: Option<ArrayParameters>,
}

fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if (1..=60).contains(&name.len()) && name.chars().all(is_plain) {
        return Ok(name);
    }
    let message = "a name has letters, digits, dots, dashes and underscores, up to 60";
    Err(D::Error::custom(message))
}

fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    let says_something = texts.iter().any(|text| !text.trim().is_empty());
    let texts = says_something.then_some(texts);
    texts.ok_or_else(|| D::Error::custom("it must say something"))
}

fn some_sectors<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Sectors>, D::Error> {
    let bytes = whole::<D, u64, { 1 << 20 }, { 1 << 56 }>(from)?;
    if bytes.is_multiple_of(512) {
        Ok(Some(Bytes::new(bytes).to_sectors()))
    } else {
        let message = format!("{bytes} is no whole number of 512-byte sectors");
        Err(D::Error::custom(message))
    }
}

fn hdd<'de, D: Deserializer<'de>>(from: D) -> Result<Option<HddParameters>, D::Error> {
    let parameters = HddParameters::deserialize(from)?;
    parameters.check().map_err(D::Error::custom)?;
    Ok(Some(parameters))
}

fn array<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ArrayParameters>, D::Error> {
    let parameters = ArrayParameters::deserialize(from)?;
    parameters.check().map_err(D::Error::custom)?;
    Ok(Some(parameters))
}

impl File {
    /// The model that it describes. What is wrong begins with its key.
    pub(super) fn model(self) -> Result<Model, String> {
        let mut parameters = match (self.hdd, self.ssd, self.simple, self.array) {
            (Some(hdd), None, None, None) => Parameters::Hdd(hdd),
            (None, Some(ssd), None, None) => Parameters::Ssd(ssd),
            (None, None, Some(simple), None) => Parameters::Simple(simple),
            (None, None, None, Some(array)) => Parameters::Array(array),
            _ => {
                return Err(
                    "name is followed by one of [hdd], [ssd], [simple] and [array]".to_owned(),
                );
            }
        };
        let room = match &parameters {
            Parameters::Hdd(hdd) => hdd.measured_sectors(),
            Parameters::Array(array) => Some(array.room()),
            Parameters::Ssd(_) | Parameters::Simple(_) => None,
        };
        let capacity = self
            .capacity_bytes
            .or(room)
            .ok_or("capacity_bytes is missing")?;
        let write_cache = self.write_cache && !matches!(parameters, Parameters::Simple(_));
        *parameters.interface_mut() = Interface {
            capacity,
            queue_depth: self.queue_depth,
            write_cache,
        };
        let wrong = match &parameters {
            Parameters::Hdd(_) if self.queue_depth > 256 => {
                "queue_depth of a hard disk is 256 at the most"
            }
            Parameters::Hdd(hdd) if !hdd.fits() => {
                "capacity_bytes is more than such a layout can hold"
            }
            Parameters::Array(_) if self.write_cache => {
                "write_cache is the drives' own, volatile one, which is off in an array: see [array.cache]"
            }
            Parameters::Array(array) if capacity > array.room() || capacity == Sectors::ZERO => {
                "capacity_bytes is not what the members hold in whole chunks, or less"
            }
            Parameters::Array(array) if array.cache_size() > capacity.to_bytes() => {
                "array.cache.size_bytes is more than the array"
            }
            _ => {
                return Ok(Model {
                    name: self.name,
                    summary: self.summary,
                    sources: self.source,
                    leaves_out: self.leaves_out,
                    parameters,
                    text: String::new(),
                });
            }
        };
        Err(wrong.to_owned())
    }
}

impl Parameters {
    fn interface(&self) -> &Interface {
        match self {
            Parameters::Hdd(hdd) => &hdd.interface,
            Parameters::Ssd(ssd) => &ssd.interface,
            Parameters::Simple(simple) => &simple.interface,
            Parameters::Array(array) => &array.interface,
        }
    }

    fn interface_mut(&mut self) -> &mut Interface {
        match self {
            Parameters::Hdd(hdd) => &mut hdd.interface,
            Parameters::Ssd(ssd) => &mut ssd.interface,
            Parameters::Simple(simple) => &mut simple.interface,
            Parameters::Array(array) => &mut array.interface,
        }
    }
}

/// Texts that are longer are no models: each of 256 drives of an array may hold a copy.
const LONGEST_TEXT: usize = 256 << 10;

impl Model {
    /// The model that the text of a file describes.
    ///
    /// # Errors
    /// Line and cause, if there is no such model.
    pub fn parse(text: &str) -> Result<Model, String> {
        if text.len() > LONGEST_TEXT {
            return Err("too large for a disk model".to_owned());
        }
        let at_line = |at: usize, message: &str| {
            let number = text[..at].matches('\n').count();
            let line: String = text
                .lines()
                .nth(number)
                .unwrap_or("")
                .chars()
                .take(60)
                .collect();
            format!("line {}, `{line}`: {message}", number + 1)
        };
        let file: File = toml::from_str(text).map_err(|error| {
            let message = error.message().trim_end().replace('\n', ", ");
            at_line(error.span().map_or(0, |at| at.start), &message)
        })?;
        let mut model = file.model().map_err(|message| {
            let key = message.split([' ', '.']).next().unwrap_or(&message);
            let at = text.match_indices(key).map(|(at, _)| at);
            let mut line_starts =
                at.filter(|&at| text[..at].ends_with('\n') || text[..at].ends_with('['));
            at_line(line_starts.next().unwrap_or(0), &message)
        })?;
        text.clone_into(&mut model.text);
        Ok(model)
    }

    /// The text of its file.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Serialize for Model {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Model {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Model, D::Error> {
        let text = String::deserialize(deserializer)?;
        Model::parse(&text).map_err(D::Error::custom)
    }
}

/// Departures from a model as it is described. `Default` departs in nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelOptions {
    /// Another size, a whole number of 4096-byte blocks.
    pub size: Option<Bytes>,
    /// Another queue depth.
    pub queue_depth: Option<usize>,
    /// Another order inside the drive.
    pub order: Option<DriveQueue>,
    /// Write cache on or off.
    pub write_cache: Option<bool>,
    /// All that the disk does takes this many times as long.
    pub slow_down: Option<NonZeroU32>,
    /// Where chance comes from: same seed, same times.
    pub seed: u64,
}

impl Model {
    /// What a kernel would find in `queue/rotational`.
    pub fn rotational(&self) -> bool {
        match &self.parameters {
            Parameters::Hdd(_) => true,
            Parameters::Ssd(_) => false,
            Parameters::Simple(simple) => simple.rotational,
            Parameters::Array(array) => array.rotational,
        }
    }

    /// Its size unless another is asked for.
    pub fn capacity(&self) -> Bytes {
        self.parameters.interface().capacity.to_bytes()
    }

    /// Its queue depth unless another is asked for.
    pub fn queue_depth(&self) -> usize {
        self.parameters.interface().queue_depth
    }

    /// True if it has a volatile write cache that is on unless asked otherwise.
    pub fn write_cache(&self) -> bool {
        self.parameters.interface().write_cache
    }

    /// Order in which the drive serves its queue, if it has one to choose.
    pub fn order(&self) -> Option<DriveQueue> {
        match &self.parameters {
            Parameters::Hdd(hdd) => Some(hdd.order),
            Parameters::Ssd(_) | Parameters::Simple(_) | Parameters::Array(_) => None,
        }
    }

    /// Makes the machine, with departures.
    ///
    /// A hard disk made smaller keeps its zones, its seek range (one cylinder stays one, the whole
    /// way stays the whole way) and its speeds: a short disk with the times of the long one.
    pub fn build(&self, options: &ModelOptions) -> Result<Box<dyn DiskModel>, Problem> {
        self.check(options)?;
        let disk = self.build_as_fast(options);
        Ok(match options.slow_down {
            Some(factor) if factor.get() > 1 => Box::new(SlowedDown::new(disk, factor)),
            _ => disk,
        })
    }

    fn build_as_fast(&self, options: &ModelOptions) -> Box<dyn DiskModel> {
        let mut parameters = self.parameters.clone();
        let interface = parameters.interface_mut();
        let capacity = options.size.map(Bytes::to_sectors);
        interface.capacity = capacity.unwrap_or(interface.capacity);
        interface.queue_depth = options.queue_depth.unwrap_or(interface.queue_depth);
        interface.write_cache = options.write_cache.unwrap_or(interface.write_cache);
        match parameters {
            Parameters::Hdd(mut hdd) => {
                hdd.order = options.order.unwrap_or(hdd.order);
                Box::new(Hdd::new(hdd, options.seed))
            }
            Parameters::Ssd(ssd) => Box::new(Ssd::new(ssd, options.seed)),
            Parameters::Simple(simple) => Box::new(SimpleDisk::new(simple.interface, simple.rule)),
            Parameters::Array(array) => Box::new(Array::new(array, options.seed)),
        }
    }

    /// The largest size that it can be given.
    pub fn largest(&self) -> Bytes {
        match self.parameters {
            // There are no more platters.
            Parameters::Hdd(_) | Parameters::Array(_) => self.capacity(),
            Parameters::Ssd(_) | Parameters::Simple(_) => Bytes::from_gib(64 << 10),
        }
    }

    fn check(&self, options: &ModelOptions) -> Result<(), Problem> {
        let wrong = |what: String| Err(Problem::usage(format!("{} {what}", self.name)));
        let max_size = self.largest();
        let (min_size, max_depth) = match self.parameters {
            // Below that a zone is less than a track.
            Parameters::Hdd(_) => (Bytes::from_mib(16), 256),
            _ => (Bytes::from_mib(1), 1024),
        };
        if let Some(size) = options.size {
            if size < min_size || size > max_size {
                return wrong(format!(
                    "cannot be {size} large: it can have {min_size} to {max_size}"
                ));
            }
            let bytes = size.as_u64();
            if !bytes.is_multiple_of(4096) {
                return wrong(format!(
                    "cannot be {bytes} bytes large: sizes are whole numbers of 4096 bytes"
                ));
            }
        }
        if let Some(depth) = options.queue_depth
            && (depth == 0 || depth > max_depth)
        {
            return wrong(format!(
                "cannot have a queue depth of {depth}: it can have 1 to {max_depth}"
            ));
        }
        if options.order.is_some() && self.order().is_none() {
            return wrong("has no order of its own to choose".to_owned());
        }
        let is_drive = matches!(self.parameters, Parameters::Hdd(_) | Parameters::Ssd(_));
        if options.write_cache == Some(true) && !is_drive {
            return wrong("has no write cache".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::models;

    fn error(text: &str) -> String {
        Model::parse(text).unwrap_err()
    }

    /// The file of a model with one thing replaced.
    fn changed(model: &str, from: &str, to: &str) -> String {
        let model = Model::named(model).unwrap();
        let text = model.text();
        assert!(text.contains(from), "{from} is not in\n{text}");
        text.replacen(from, to, 1)
    }

    #[test]
    fn every_model_that_comes_with_the_program_has_the_name_that_it_is_known_by() {
        for model in models() {
            assert_eq!(Model::named(&model.name).unwrap(), model);
            let kept =
                serde::de::value::StringDeserializer::<toml::de::Error>::new(model.text.clone());
            assert_eq!(Model::deserialize(kept).unwrap(), model);
            assert!(model.build(&ModelOptions::default()).is_ok());
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (from, to, expected) in [
            (
                "rpm = 10045",
                "rpn = 10045",
                "`rpn = 10045`: unknown field `rpn`",
            ),
            (
                "head_switch_ms = 0.6",
                "head_switch_us = 600",
                "unknown field `head_switch_us`",
            ),
            (
                "head_switch_ms = 0.6",
                "head_switch_ms = \"600 us\"",
                "invalid type: string",
            ),
            (
                "head_switch_ms = 0.6",
                "head_switch_ms = -0.6",
                "-0.6 is not between 0 and 60000",
            ),
            (
                "surfaces = 12",
                "surfaces = 0",
                "`surfaces = 0`: 0 is not between 1 and 64",
            ),
            (
                "name = \"hdd-10k\"",
                "name = \"a b\"",
                "line 1, `name = \"a b\"`: a name has letters",
            ),
            (
                "track_switch_ms = 0.9",
                "track_switch_ms = 0.1",
                "`[hdd]`: layout.track_switch_ms is 100.0 µs, shorter",
            ),
            (
                "knee_cylinders",
                "#",
                "`[hdd]`: seek.fit: knee_cylinders, c_ms and e_ms come together",
            ),
            ("ahead_bytes", "#", "reading.ahead_bytes is missing"),
            (
                "[hdd.layout.even]",
                "[[hdd.layout.measured_zone]]",
                "line 6",
            ),
            ("capacity_bytes", "#", "capacity_bytes is missing"),
            (
                "capacity_bytes = ",
                "capacity_bytes = 999999",
                "`: capacity_bytes is more than such a layout can hold",
            ),
            (
                "[hdd]",
                "[simple]\nrotational = true\nservice_ms = 1.0\n\n[hdd]",
                "one of [hdd], [ssd], [simple]",
            ),
        ] {
            let said = error(&changed("hdd-10k", from, to));
            assert!(
                said.starts_with("line ") && said.contains(expected),
                "{to}: {said}"
            );
        }
        assert!(error("name = \"x\"\n=").starts_with("line 2, `=`: "));
        assert!(error("").contains("missing field `name`"));
    }

    const ONE: &str = "[[array.member]]\ncount = 8\nmodel = \"hdd-15k\"\n";

    #[test]
    fn an_array_that_cannot_be_is_refused_with_the_reason() {
        let many = ONE.replace('8', "200").repeat(3);
        let unequal = format!("{ONE}{}", ONE.replace("15k", "7200"));
        for (from, to, expected) in [
            (ONE, "", "missing field `member`"),
            ("count = 8", "count = 7", "an even number"),
            ("count = 8", "count = 2", "takes 4 or more"),
            (
                "chunk_bytes = 65536",
                "chunk_bytes = 0",
                "0 is not between 4096",
            ),
            (
                "chunk_bytes = 65536",
                "chunk_bytes = 5000",
                "no whole number of 4096-byte blocks",
            ),
            (
                "size_bytes = 536870912",
                "size_bytes = 1000000000000",
                "more than the array",
            ),
            (
                "low_permille = 200",
                "low_permille = 900",
                "cache.low_permille is above",
            ),
            (
                "model = \"hdd-15k\"",
                "model = \"hdd-16k\"",
                "no disk model is called `hdd-16k`",
            ),
            (
                "model = \"hdd-15k\"",
                "model = \"mine.toml\"",
                "written out as [array.member.drive]",
            ),
            (ONE, &many, "600 drives in all"),
            (
                "model = \"hdd-15k\"",
                "model = \"raid10-15k\"",
                "is an array itself",
            ),
            (
                "capacity_bytes = ",
                "capacity_bytes = 9",
                "what the members hold",
            ),
            (
                "write_cache = false",
                "write_cache = true",
                "write_cache is the drives' own",
            ),
            (
                ONE,
                &unequal,
                "`unequal_members = true` says that this is meant",
            ),
        ] {
            let said = error(&changed("raid10-15k", from, to));
            assert!(said.contains(expected), "{to}: {said}");
        }
        let meant = changed("raid10-15k", ONE, &unequal);
        let meant = meant.replacen("[array.cache]", "unequal_members = true\n[array.cache]", 1);
        assert!(Model::parse(&meant).is_ok());
    }

    /// An array of 256 flash drives of this size and so many dies each, which no name tells.
    fn flash_array(bytes: u64, dies: u64) -> String {
        let drive = changed(
            "ssd-sata",
            "capacity_bytes = 1000204886016",
            &format!("capacity_bytes = {bytes}"),
        );
        let drive = drive.replace("dies = 16", &format!("dies = {dies}"));
        let drive = drive.replace("[ssd]", "[array.member.drive.ssd]");
        let array = changed("raid10-15k", "capacity_bytes", "#");
        let array = array.replace("count = 8", "count = 256");
        array.replace(
            "model = \"hdd-15k\"",
            &format!("[array.member.drive]\n{drive}"),
        )
    }

    #[test]
    fn an_array_of_the_largest_members_can_be_built_and_one_of_larger_ones_is_refused() {
        const MOST: u64 = 64 << 40;
        let largest = Model::parse(&flash_array(MOST, 1024)).unwrap();
        assert_eq!(largest.capacity().as_u64(), 128 * MOST);
        assert!(largest.build(&ModelOptions::default()).is_ok());
        assert!(error(&flash_array(2 * MOST, 16)).contains("members hold 16 MiB to 64 TiB"));
        assert!(error(&flash_array(8 << 20, 16)).contains("members hold 16 MiB to 64 TiB"));
        assert!(error(&flash_array(MOST, 65_536)).contains("65536 is not between 1 and 1024"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,400}", cut in 0..4000_usize, insert in "[-=\\[\\]0-9a-z.\"\n]{0,8}") {
            let _ = Model::parse(&text);
            let model = Model::named("hdd-10k").unwrap();
            let mut text = model.text().to_owned();
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            text.insert_str(places[cut % places.len()], &insert);
            let _ = Model::parse(&text);
        }
    }
}
