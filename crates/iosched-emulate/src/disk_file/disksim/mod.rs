//! Disk models from the parameter files of DiskSim 4.0: a `.diskspecs` file with the `.model` and
//! `.seek` files that it names.
//!
//! Follows what DiskSim's manual and its program say of each parameter. A parameter that our model
//! has not is refused by name unless it has the value that means nothing; what is left out all the
//! same is listed in the model. `docs/disk-models.md` has the table of names.

mod syntax;

use std::fmt::Display;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use iosched_machine::foreign;
use iosched_sim::disk::hdd::seek::SeekCurve;
use iosched_sim::disk::hdd::{
    After, ExactZone, HddParameters, HeadOrder, Layout, LinkRates, Overheads, ReadAhead, Reading,
    ScatteredWrite, SettleAfter, Spares, WriteSettle, Writing,
};
use iosched_sim::disk::{DriveQueue, Model, Parameters};
use iosched_sim::units::{Bytes, Nanos, Sectors};
use syntax::{Block, Value};

use super::DiskFileError;

/// Milliseconds that the bus takes for a block, which DiskSim has in another file (`.parv`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BusTimes {
    /// For a block read.
    pub read_ms: f64,
    /// For a block written.
    pub write_ms: f64,
}

const LEAVES_OUT: &[&str] = &[
    "slipped and remapped sectors (their number counts, not their places)",
    "the write water mark, the minimum seek delay, disconnects between the data of one command",
    "that a prefetch stops at the end of a sector only",
];

/// Parameters of DiskSim that the model has not, with the value that means nothing.
const REFUSED_UNLESS: &[(&str, f64)] = &[
    ("Per-request overhead time", 0.0),
    ("Time scale for overheads", 1.0),
    ("Allow almost read hits", 0.0),
    ("Allow sneaky full read hits", 0.0),
    ("Allow sneaky partial read hits", 0.0),
    ("Allow sneaky intermediate read hits", 0.0),
    ("Allow write prebuffering", 0.0),
    ("Preseeking level", 0.0),
    ("Minimum read-ahead (blks)", 0.0),
    ("Set watermark by reqsize", 1.0),
];

/// More than any file of ours may say, so that it is refused there; as bytes still a number.
const MOST_SECTORS: u64 = u64::MAX >> 10;

/// A model from a `.diskspecs` file.
pub fn convert(path: &Path, bus: Option<BusTimes>) -> Result<Model, DiskFileError> {
    let drive = File::read(path)?;
    let model = drive.named_file("Model", "source ")?;
    let model = File::read(&model)?;
    let name = path
        .file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let zones = zones(&model)?;
    let surfaces = whole(&model, "Number of data surfaces")?;
    let Layout::Exact {
        zones: laid,
        spares,
        ..
    } = &zones
    else {
        unreachable!("the layout of a file is exact")
    };
    let sectors = laid.iter().map(|zone| zone.sectors(surfaces, *spares));
    let sectors = sectors.fold(0, u64::saturating_add).min(MOST_SECTORS);
    let hdd = parameters(&drive, &model, zones, Sectors::new(sectors), bus)?;
    let model = Model {
        summary: format!("{} rpm, from the parameters extracted for DiskSim", hdd.rpm),
        sources: vec![source(&drive, &model)?],
        leaves_out: LEAVES_OUT.iter().copied().map(str::to_owned).collect(),
        parameters: Parameters::Hdd(hdd),
        name,
    };
    // What a file of ours may not say, none of theirs may make us say.
    super::parse(&super::to_toml(&model), path)
}

fn source(drive: &File, model: &File) -> Result<String, DiskFileError> {
    let mut files = vec![drive.name(), model.name()];
    if mechanics(model)?.word("Seek type")? == "extracted" {
        files.push(mechanics(model)?.word("Full seek curve")?);
    }
    Ok(format!(
        "DiskSim 4.0's parameter files {}",
        files.join(", ")
    ))
}

fn parameters(
    drive: &File,
    model: &File,
    layout: Layout,
    capacity: Sectors,
    bus: Option<BusTimes>,
) -> Result<HddParameters, DiskFileError> {
    for (name, nothing) in REFUSED_UNLESS {
        let value = drive.number(name)?;
        if value.to_bits() != nothing.to_bits() {
            let what = format!("is {value}; only {nothing} is simulated");
            return Err(drive.wrong(name, what));
        }
    }
    let mechanics = mechanics(model)?;
    let settle = mechanics.number("Add. write settling delay")?;
    Ok(HddParameters {
        capacity,
        rpm: whole(&mechanics, "Rotation speed (in rpms)")?,
        surfaces: whole(model, "Number of data surfaces")?,
        layout,
        seek: seek(model, &mechanics)?,
        write_settle: WriteSettle {
            #[expect(clippy::cast_possible_truncation, reason = "a time in milliseconds")]
            nanos: (settle * 1e6).round() as i64,
            after: SettleAfter::EveryMove,
        },
        head_switch: mechanics.time("Head switch time")?,
        overheads: overheads(drive)?,
        link: link(drive, bus)?,
        queue_depth: whole(drive, "Max queue length")?,
        order: order(drive)?,
        age_limit: Nanos::from_millis(500),
        reading: reading(drive)?,
        writing: writing(drive)?,
        write_cache: drive.number("Fast write level")? > 0.0,
    })
}

fn mechanics(model: &File) -> Result<File, DiskFileError> {
    let mechanics = model.block("Mechanical Model")?;
    let error = mechanics.number("Percent error in rpms")?;
    if error != 0.0 {
        let what = format!("is {error}; only 0 is simulated");
        return Err(model.wrong("Percent error in rpms", what));
    }
    Ok(mechanics)
}

fn order(drive: &File) -> Result<DriveQueue, DiskFileError> {
    let scheduler = drive.block("Scheduler")?;
    match whole::<u32>(&scheduler, "Scheduling policy")? {
        1 => Ok(DriveQueue::Fifo),
        // Shortest positioning time first, with and without the buffer's contents.
        6 | 7 => Ok(DriveQueue::ShortestAccessFirst),
        other => {
            let what = format!(
                "is {other}; only 1 (first come first served), 6 and 7 (shortest positioning first) are simulated"
            );
            Err(drive.wrong("Scheduling policy", what))
        }
    }
}

fn link(drive: &File, bus: Option<BusTimes>) -> Result<LinkRates, DiskFileError> {
    let bulk = drive.number("Bulk sector transfer time")?;
    let rate = |bus_ms: f64| {
        let slower = bulk.max(bus_ms);
        if slower <= 0.0 || !slower.is_finite() {
            let what = "is 0: the time is that of the bus, in a .parv file (Read block transfer time, \
                        Write block transfer time); give it with --bus-ms";
            return Err(drive.wrong("Bulk sector transfer time", what));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and no link is that fast"
        )]
        Ok((512_000.0 / slower).round() as u64)
    };
    Ok(LinkRates {
        read: rate(bus.map_or(0.0, |bus| bus.read_ms))?,
        write: rate(bus.map_or(0.0, |bus| bus.write_ms))?,
    })
}

fn overheads(drive: &File) -> Result<Overheads, DiskFileError> {
    let after = |what: &str| {
        Ok::<_, DiskFileError>(After {
            read: drive.time(&format!("{what} over. after read"))?,
            write: drive.time(&format!("{what} over. after write"))?,
        })
    };
    let disconnects = drive.number("Never disconnect")? == 0.0;
    let reselect = if disconnects {
        drive.time("First reselect overhead")?
    } else {
        Nanos::ZERO
    };
    let preparation = drive.time("Data preparation overhead")?;
    let scattered = if disconnects && drive.number("Extra write disconnect")? > 0.0 {
        let command = drive.time("Extradisc command overhead")?;
        let away = drive.time("Extradisc disconnect overhead")?
            + drive.time("Extradisc inter-disconnect delay")?;
        Some(ScatteredWrite {
            arm: command + drive.time("Extradisc seek delta")?,
            data: command + away + reselect + preparation,
        })
    } else {
        None
    };
    Ok(Overheads {
        read_hit: after("Read hit")?,
        read_miss: after("Read miss")?,
        write_hit: after("Write hit")?,
        write_miss: after("Write miss")?,
        scattered_write: scattered,
        reselect,
        data_preparation: preparation,
        read_completion: drive.time("Read completion overhead")?,
        write_completion: drive.time("Write completion overhead")?,
    })
}

fn reading(drive: &File) -> Result<Reading, DiskFileError> {
    let segments: usize = whole(drive, "Number of buffer segments")?;
    let for_writes = usize::from(drive.number("Use separate write segment")? > 0.0);
    let segment = blocks(drive, "Segment size (in blks)")?;
    let most = blocks(drive, "Maximum read-ahead (blks)")?;
    let most = if most == Bytes::ZERO { segment } else { most };
    let ahead = match whole::<u32>(drive, "Buffer continuous read")? {
        0 => ReadAhead::Distance(Bytes::ZERO),
        1 => ReadAhead::WithinTrack(most),
        3 => ReadAhead::Distance(most),
        4 => ReadAhead::TrackByTrack,
        other => {
            let what = format!("is {other}; only 0, 1, 3 and 4 are simulated");
            return Err(drive.wrong("Buffer continuous read", what));
        }
    };
    let caches = drive.number("Enable caching in buffer")? > 0.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share"
    )]
    let permille = (drive.number("High (read) water mark")?.clamp(0.0, 1.0) * 1000.0) as u32;
    Ok(Reading {
        segments: if caches {
            segments - for_writes.min(segments - 1)
        } else {
            0
        },
        segment,
        ahead,
        threshold_permille: permille,
        keeps_passing: drive.number("Read any free blocks")? > 0.0,
        zero_latency: drive.number("Immediate buffer read")? > 0.0,
    })
}

fn writing(drive: &File) -> Result<Writing, DiskFileError> {
    let segments: u64 = whole(drive, "Maximum number of write segments")?;
    let apart = drive.number("Use separate write segment")? > 0.0;
    // DiskSim's program has this number; it has no parameter for it.
    let threshold = if drive.number("Extra write disconnect")? > 0.0 {
        10
    } else {
        0
    };
    Ok(Writing {
        threshold: Sectors::new(threshold),
        keeps_written: !apart && drive.number("Allow read hits on write data")? > 0.0,
        zero_latency: drive.number("Immediate buffer write")? > 0.0,
        cache: Bytes::new(blocks(drive, "Segment size (in blks)")?.as_u64() * segments),
        cache_stretches: whole(drive, "Maximum number of write segments")?,
        destage_delay: Nanos::ZERO,
        destage_age: Nanos::from_secs(2),
    })
}

fn seek(model: &File, mechanics: &File) -> Result<SeekCurve, DiskFileError> {
    match mechanics.word("Seek type")?.as_str() {
        "extracted" => seek_table(&model.beside(&mechanics.word("Full seek curve")?)),
        kind @ ("hpl" | "hplplus10") => {
            let values = mechanics.numbers("HPL seek equation values")?;
            let &[knee, a, b, c, e, single] = values.as_slice() else {
                return Err(model.wrong("HPL seek equation values", "are not six numbers"));
            };
            let first = match kind {
                "hplplus10" => mechanics.numbers("First ten seek times")?,
                // DiskSim takes another parameter for it.
                _ if single.to_bits() == (-1.0_f64).to_bits() => Vec::new(),
                _ => vec![mechanics.number("Single cylinder seek time")?],
            };
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a number of cylinders"
            )]
            let knee = knee.max(2.0) as u32;
            Ok(SeekCurve::Fit {
                first,
                a,
                b,
                knee,
                c,
                e,
            })
        }
        other => {
            let what = format!("is {other}; only extracted, hpl and hplplus10 are simulated");
            Err(model.wrong("Seek type", what))
        }
    }
}

/// Lines `distance, milliseconds`, after one that says how many.
fn seek_table(path: &Path) -> Result<SeekCurve, DiskFileError> {
    let text = read(path)?;
    let mut table = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some((distance, millis)) = line.split_once(',') else {
            continue;
        };
        let pair = (distance.trim().parse(), millis.trim().parse::<f64>());
        let (Ok(distance), Ok(millis)) = pair else {
            return Err(content(path, index + 1, "is no `distance, milliseconds`"));
        };
        let rises = table.last().is_none_or(|&(last, _)| last < distance);
        if !rises || !(0.0..=1000.0).contains(&millis) {
            return Err(content(
                path,
                index + 1,
                "has a distance that does not rise, or no seek time",
            ));
        }
        table.push((distance, Nanos::from_millis_f64(millis)));
    }
    if table.len() < 2 {
        return Err(content(path, 1, "has fewer than two seek times"));
    }
    Ok(SeekCurve::Table(table))
}

fn zones(model: &File) -> Result<Layout, DiskFileError> {
    let layout = model.block("Layout Model")?;
    let scheme: u32 = whole(&layout, "Sparing scheme used")?;
    let spares = match scheme {
        0 => Spares::None,
        1 => Spares::TracksPerZone,
        2 => Spares::SectorsPerCylinder,
        3 => Spares::SectorsPerTrack,
        8 => Spares::SectorsPerRange {
            cylinders: whole::<NonZero<u32>>(&layout, "Rangesize for sparing")?.get(),
        },
        7 | 9 => Spares::SectorsPerZone,
        other => {
            let what = format!("is {other}; only 0, 1, 2, 3, 7, 8 and 9 are simulated");
            return Err(model.wrong("Sparing scheme used", what));
        }
    };
    let heads = match whole::<u32>(&layout, "LBN-to-PBN mapping scheme")? {
        0 => HeadOrder::Rising,
        1 => HeadOrder::AlternatingInZone,
        2 => HeadOrder::Alternating,
        other => {
            let what = format!("is {other}; only 0, 1 and 2 are simulated");
            return Err(model.wrong("LBN-to-PBN mapping scheme", what));
        }
    };
    let Some(Value::List(blocks)) = layout.block.get("Zones") else {
        return Err(model.wrong("Zones", "is no list"));
    };
    let mut zones = Vec::with_capacity(blocks.len());
    for block in blocks {
        let Value::Block(block) = block else {
            return Err(model.wrong("Zones", "holds what is no zone"));
        };
        zones.push(zone(&model.part(block.clone()), scheme)?);
    }
    Ok(Layout::Exact {
        zones,
        heads,
        spares,
    })
}

fn zone(zone: &File, scheme: u32) -> Result<ExactZone, DiskFileError> {
    let spares = match (scheme, zone.block.get("slips")) {
        // As many as were slipped.
        (7, Some(Value::List(slips))) => u32::try_from(slips.len()).unwrap_or(u32::MAX),
        _ => whole(zone, "Number of spares")?,
    };
    Ok(ExactZone {
        first_cylinder: whole(zone, "First cylinder number")?,
        last_cylinder: whole(zone, "Last cylinder number")?,
        sectors_per_track: whole(zone, "Blocks per track")?,
        track_skew: zone.number("Skew for track switch")?,
        cylinder_skew: zone.number("Skew for cylinder switch")?,
        offset: zone.number("Offset of first block")?,
        unused: whole(zone, "Empty space at zone front")?,
        spares,
    })
}

/// A number of 512-byte blocks.
fn blocks(file: &File, name: &str) -> Result<Bytes, DiskFileError> {
    Ok(Sectors::new(u64::from(whole::<u32>(file, name)?)).to_bytes())
}

/// A whole number, which may be written with decimals.
fn whole<N: TryFrom<u32>>(file: &File, name: &str) -> Result<N, DiskFileError> {
    let number = file.number(name)?;
    let in_range = number >= 0.0 && number <= f64::from(u32::MAX) && number.fract() == 0.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked"
    )]
    let number = in_range.then_some(number as u32).map(N::try_from);
    number
        .and_then(Result::ok)
        .ok_or_else(|| file.wrong(name, "is no whole number that can be"))
}

/// A parameter file, or a block of one.
struct File {
    path: PathBuf,
    block: Block,
}

impl File {
    fn read(path: &Path) -> Result<File, DiskFileError> {
        let block = syntax::first_block(&read(path)?);
        Ok(File {
            path: path.to_owned(),
            block: block.map_err(|(line, what)| content(path, line, &what))?,
        })
    }

    fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.path.with_file_name(name)
    }

    fn part(&self, block: Block) -> File {
        File {
            path: self.path.clone(),
            block,
        }
    }

    fn wrong(&self, name: &str, what: impl Display) -> DiskFileError {
        let text = foreign::read_text(&self.path).unwrap_or_default();
        let line = text.lines().position(|line| line.contains(name));
        content(
            &self.path,
            line.map_or(1, |line| line + 1),
            &format!("`{name}` {what}"),
        )
    }

    fn word(&self, name: &str) -> Result<String, DiskFileError> {
        match self.block.get(name) {
            Some(Value::Text(text)) => Ok(text.clone()),
            _ => Err(self.wrong(name, "is missing")),
        }
    }

    fn number(&self, name: &str) -> Result<f64, DiskFileError> {
        let number = self.word(name)?.parse().ok();
        let number = number.filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| self.wrong(name, "is no number"))
    }

    fn numbers(&self, name: &str) -> Result<Vec<f64>, DiskFileError> {
        let Some(Value::List(values)) = self.block.get(name) else {
            return Err(self.wrong(name, "is no list"));
        };
        let number = |value: &Value| match value {
            Value::Text(text) => text.parse().ok(),
            _ => None,
        };
        let numbers: Option<Vec<f64>> = values.iter().map(number).collect();
        numbers.ok_or_else(|| self.wrong(name, "holds what is no number"))
    }

    fn time(&self, name: &str) -> Result<Nanos, DiskFileError> {
        let millis = self.number(name)?;
        if (0.0..=60_000.0).contains(&millis) {
            Ok(Nanos::from_millis_f64(millis))
        } else {
            Err(self.wrong(name, "is no time in milliseconds"))
        }
    }

    fn block(&self, name: &str) -> Result<File, DiskFileError> {
        match self.block.get(name) {
            Some(Value::Block(block)) => Ok(self.part(block.clone())),
            _ => Err(self.wrong(name, "is missing")),
        }
    }

    /// The file that a value names after a word.
    fn named_file(&self, name: &str, word: &str) -> Result<PathBuf, DiskFileError> {
        let value = self.word(name)?;
        let file = value.strip_prefix(word);
        file.map(|file| self.beside(file))
            .ok_or_else(|| self.wrong(name, format!("does not say `{word}FILE`")))
    }
}

fn read(path: &Path) -> Result<String, DiskFileError> {
    foreign::read_text(path).map_err(|error| DiskFileError::Read {
        path: path.to_owned(),
        why: error.to_string(),
    })
}

fn content(path: &Path, line: usize, message: &str) -> DiskFileError {
    DiskFileError::Content {
        path: path.to_owned(),
        line,
        column: 1,
        message: message.to_owned(),
    }
}
