//! Whether a device may be written: the one decision, which everything that writes to a raw device asks.
//!
//! It is asked when a run is planned, when a record is resumed, and again with the device claimed, right
//! before the first write (before mkfs too), and for what an emulated disk is to stand over. What the user
//! gave up the first time is kept in the record, so that later answers compare with it.
//!
//! What is looked at:
//!
//! - who uses the device: [`refusals`], among them the processes that have it open for writing. That is
//!   final.
//! - what is on it: signatures, by name, UUID and a digest of the superblock; where there is none,
//!   whether sampled blocks are zero. Who names the device again may give that up.
//! - whether it is the device that was given up: [`Identity`].
//!
//! What the run itself wrote is its own. After an orderly end the record has the [`Content`] that the run left,
//! and any other is somebody else's. A run that was killed left no such note: then blocks that are not zero are
//! taken for its own, and signatures are not.
//!
//! A disk that is only read, and is nobody else's meanwhile, is asked about by [`may_read_alone`].
//!
//! What it answers in each case is in `iosched_testing::refusal_matrix`, from which `results/refusals.md` has its tables.

use std::fmt;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::identity::{Identity, Recognition};
use super::refusals::{Refusal, refusals};
use super::users::User;
use super::{Blocks, Device, Signature, blocks, content, find_to_change};
use crate::command_line::{Remedy, quoted_path};
use crate::failure::{Failure, Remediable, exit};
use crate::host::Host;
use crate::visible::lines_of_error;

/// What the user said about the data on a raw device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Consent {
    /// Nothing: it may not be written.
    #[default]
    No,
    /// `--destroy-data`: it may be written if it holds nothing.
    ToWrite,
    /// `--destroy-data=DEVICE`: it may be written although it holds something.
    Named(String),
}

/// A wish to write.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// What writes: `load random-write`, `--mkfs`.
    pub what: &'a str,
    /// What the user said.
    pub consent: &'a Consent,
    /// When it is asked.
    pub occasion: Occasion<'a>,
}

/// When it is asked whether a device may be written.
#[derive(Debug, Clone, Copy)]
pub enum Occasion<'a> {
    /// A run is planned: nothing was given up before.
    Start,
    /// A run goes on, days later perhaps.
    Resume {
        /// What was given up; `None` in a record from before this was kept.
        given_up: Option<&'a GivenUp>,
        /// What the run left, if it came to an orderly end.
        left: Option<&'a Content>,
    },
    /// The device is open exclusively, and the next step writes. The user's word was taken before.
    Claimed {
        /// What was given up a moment ago.
        given_up: &'a GivenUp,
    },
}

/// What the user gave up: which device, and what was on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenUp {
    /// Its kernel name then.
    pub device: String,
    /// By what it is known again.
    pub identity: Identity,
    /// What was on it.
    pub content: Content,
}

/// What is on a device, as far as it can be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// On it and on its partitions.
    pub signatures: Vec<Signature>,
    /// Samples.
    pub blocks: Blocks,
}

/// Why a device may not be written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum MayNotWrite {
    #[error("{what} writes, and {device} is a raw device whose data it would destroy")]
    NotAllowed { what: String, device: String },
    /// Another device was named the second time.
    #[error("--destroy-data names {named}, and the target is {device}")]
    NamedAnother {
        device: String,
        /// The argument as the user wrote it.
        named: String,
    },
    /// It holds something, or is in use.
    #[error(fmt = refused)]
    Refused {
        device: String,
        reasons: Vec<Reason>,
    },
    /// It is only to be read, and somebody may change it meanwhile.
    #[error(fmt = not_alone)]
    NotAlone {
        device: String,
        reasons: Vec<Reason>,
    },
    #[error("refusing to write to {device}: it is not the disk that was given up ({difference})")]
    AnotherDisk { device: String, difference: String },
    #[error("refusing to write to {device}: it cannot be read")]
    Unreadable {
        device: String,
        #[source]
        source: io::Error,
    },
}

/// A reason not to write to a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Whenever it is asked.
    Always(Refusal),
    /// It has come, or has changed, since the device was given up.
    Since(Refusal),
    /// Nothing proves that it is the device that was given up.
    NotRecognised {
        /// Kernel name.
        device: String,
    },
    /// The record does not say what was given up.
    NotRecorded,
}

impl Reason {
    /// True if it goes away when the user names the device again.
    fn can_be_overruled(&self) -> bool {
        match self {
            Reason::Always(refusal) | Reason::Since(refusal) => refusal.can_be_overruled(),
            Reason::NotRecognised { .. } | Reason::NotRecorded => true,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Always(refusal) => refusal.fmt(f),
            Reason::Since(Refusal::Data { device, .. }) => {
                write!(
                    f,
                    "{device} holds other data than when it was last given up or left"
                )
            }
            Reason::Since(refusal) => {
                write!(f, "{refusal}, new or changed since the device was given up")
            }
            Reason::NotRecognised { device } => write!(
                f,
                "nothing proves that {device} is the disk that was given up: it has no serial number, \
                 and it was attached again since"
            ),
            Reason::NotRecorded => {
                f.write_str("the record does not say what was given up: an older iosched wrote it")
            }
        }
    }
}

fn refused(device: &str, reasons: &[Reason], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    list(f, &format!("refusing to write to {device}:"), reasons)
}

fn not_alone(device: &str, reasons: &[Reason], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    list(
        f,
        &format!("refusing to serve {device}, even to be read:"),
        reasons,
    )
}

fn list(f: &mut fmt::Formatter<'_>, first: &str, reasons: &[Reason]) -> fmt::Result {
    let details = reasons.iter().map(|reason| format!("- {reason}"));
    lines_of_error(f, first, details)
}

impl MayNotWrite {
    /// Where a file system on the device is mounted and can be written.
    fn mount_point(&self) -> Option<&Path> {
        let MayNotWrite::Refused { reasons, .. } = self else {
            return None;
        };
        reasons.iter().find_map(|reason| match reason {
            Reason::Always(Refusal::Used(User::Mount {
                mount_point,
                is_read_only: false,
                ..
            })) => Some(mount_point.as_path()),
            _ => None,
        })
    }

    /// The option that allows it nevertheless; `None` if nothing does.
    pub fn way_out(&self) -> Option<String> {
        match self {
            MayNotWrite::NotAllowed { .. } => Some("--destroy-data".to_owned()),
            MayNotWrite::Refused { device, reasons }
                if reasons.iter().all(Reason::can_be_overruled) =>
            {
                Some(format!("--destroy-data={device}"))
            }
            _ => None,
        }
    }
}

impl From<MayNotWrite> for Remediable {
    fn from(error: MayNotWrite) -> Remediable {
        Remediable::of(&error)
    }
}

impl Failure for MayNotWrite {
    fn hint(&self) -> Option<String> {
        Some(match self {
            MayNotWrite::NotAllowed { device, .. } => format!(
                "name a directory on it instead, or allow it with --destroy-data if nothing on {device} is needed"
            ),
            MayNotWrite::NamedAnother { device, .. } => {
                format!("nothing was written; is {device} the one that you mean?")
            }
            MayNotWrite::Refused { device, .. } => {
                if let Some(option) = self.way_out() {
                    format!("if all of that may be destroyed, name the device again: {option}")
                } else {
                    let example = self.mount_point().map(quoted_path);
                    let example = example.map_or(String::new(), |at| format!(", as {at}"));
                    format!(
                        "name a directory on {device} as the target{example}, or take {device} out of use first"
                    )
                }
            }
            MayNotWrite::NotAlone { device, .. } => format!("take {device} out of use first"),
            MayNotWrite::AnotherDisk { device, .. } => format!(
                "nothing was written; see what it is: iosched list -v {device}; a new run can measure it"
            ),
            MayNotWrite::Unreadable { .. } => return None,
        })
    }

    fn remedy(&self) -> Option<Remedy> {
        self.way_out().map(Remedy::With)
    }

    fn exit_code(&self) -> u8 {
        exit::UNSAFE
    }
}

impl GivenUp {
    /// The device as it is now.
    fn read(host: &Host, device: &Device, signatures: Vec<Signature>) -> io::Result<GivenUp> {
        Ok(GivenUp {
            device: device.name.clone(),
            identity: Identity::of(host, device),
            content: Content {
                signatures,
                blocks: read_blocks(host, device)?,
            },
        })
    }
}

impl Content {
    fn has(&self, signature: &Signature) -> bool {
        let mut known = self.signatures.iter();
        known.any(|then| signature.is_unchanged_since(then))
    }

    /// What is on a device of this machine now.
    pub fn read(host: &Host, device: &Device) -> io::Result<Content> {
        let mut signatures = content(&device.node())?;
        for partition in &device.partitions {
            signatures.extend(content(&Device::read(host, partition)?.node())?);
        }
        Ok(Content {
            signatures,
            blocks: read_blocks(host, device)?,
        })
    }
}

/// In a copied tree there is nothing to read, and nobody writes.
fn read_blocks(host: &Host, device: &Device) -> io::Result<Blocks> {
    if host.is_live() {
        blocks(&device.node())
    } else {
        Ok(Blocks::Zero)
    }
}

/// The rule when a raw device may be written: the user said so; the device is the one that was given up, if
/// one was; nobody uses it; and it holds nothing but what was given up and what the run wrote, unless the user
/// named it a second time. Returns what is given up by this.
///
/// # Errors
/// It may not; nothing was written.
pub fn may_write(host: &Host, device: &Device, write: &Write<'_>) -> Result<GivenUp, MayNotWrite> {
    let is_claimed = matches!(write.occasion, Occasion::Claimed { .. });
    if !is_claimed {
        check_consent(host, device, write)?;
    }
    let refusals = refusals(host, device, is_claimed);
    let signatures = refusals.iter().filter_map(Refusal::signature).cloned();
    let now = GivenUp::read(host, device, signatures.collect()).map_err(|source| {
        MayNotWrite::Unreadable {
            device: device.name.clone(),
            source,
        }
    })?;
    let mut reasons = unrecognised(device, &now, write.occasion)?;
    reasons.extend(
        refusals
            .into_iter()
            .filter_map(|refusal| against(refusal, write.occasion)),
    );
    reasons.extend(against_data(device, &now.content, write.occasion));
    let is_named = matches!(write.consent, Consent::Named(_));
    if reasons.is_empty() || (is_named && reasons.iter().all(Reason::can_be_overruled)) {
        return Ok(now);
    }
    Err(MayNotWrite::Refused {
        device: device.name.clone(),
        reasons,
    })
}

/// The rule when a device may be read by one alone: nobody uses it, or can write to it. What it holds is no
/// reason, and neither is that it takes no writes.
///
/// # Errors
/// Somebody does.
pub fn may_read_alone(host: &Host, device: &Device, is_claimed: bool) -> Result<(), MayNotWrite> {
    let refusals = refusals(host, device, is_claimed).into_iter();
    let uses = refusals.filter(|refusal| {
        !refusal.can_be_overruled() && !matches!(refusal, Refusal::ReadOnly { .. })
    });
    let reasons: Vec<Reason> = uses.map(Reason::Always).collect();
    if reasons.is_empty() {
        return Ok(());
    }
    Err(MayNotWrite::NotAlone {
        device: device.name.clone(),
        reasons,
    })
}

/// A name that is given is a name to be checked, whether or not it would be needed.
fn check_consent(host: &Host, device: &Device, write: &Write<'_>) -> Result<(), MayNotWrite> {
    match write.consent {
        Consent::ToWrite => Ok(()),
        // Nobody is shown the option that allows it while the device is in use.
        Consent::No => {
            let uses = refusals(host, device, false).into_iter();
            let uses = uses.filter(|refusal| !refusal.can_be_overruled());
            let reasons: Vec<Reason> = uses.map(Reason::Always).collect();
            let device = device.name.clone();
            if reasons.is_empty() {
                let what = write.what.to_owned();
                return Err(MayNotWrite::NotAllowed { what, device });
            }
            Err(MayNotWrite::Refused { device, reasons })
        }
        Consent::Named(name) => match find_to_change(host, name) {
            Ok(named) if named.number == device.number => Ok(()),
            _ => Err(MayNotWrite::NamedAnother {
                device: device.name.clone(),
                named: name.clone(),
            }),
        },
    }
}

/// What speaks against taking the device for the one that was given up.
fn unrecognised(
    device: &Device,
    now: &GivenUp,
    occasion: Occasion<'_>,
) -> Result<Vec<Reason>, MayNotWrite> {
    let then = match occasion {
        Occasion::Start => return Ok(Vec::new()),
        Occasion::Resume { given_up: None, .. } => return Ok(vec![Reason::NotRecorded]),
        Occasion::Resume {
            given_up: Some(then),
            ..
        }
        | Occasion::Claimed { given_up: then } => then,
    };
    match then.identity.recognise(&now.identity) {
        Recognition::Another(difference) => Err(MayNotWrite::AnotherDisk {
            device: device.name.clone(),
            difference,
        }),
        Recognition::Same => Ok(Vec::new()),
        // A moment ago it was looked at. A kernel that counts attachments would tell if it left since.
        Recognition::Unknown
            if matches!(occasion, Occasion::Claimed { .. })
                && then.identity.diskseq == now.identity.diskseq =>
        {
            Ok(Vec::new())
        }
        Recognition::Unknown => Ok(vec![Reason::NotRecognised {
            device: device.name.clone(),
        }]),
    }
}

/// What was on the device when it was last looked at, if it was.
fn known(occasion: Occasion<'_>) -> Option<&Content> {
    match occasion {
        Occasion::Start => None,
        Occasion::Resume { given_up, left } => left.or(given_up.map(|then| &then.content)),
        Occasion::Claimed { given_up } => Some(&given_up.content),
    }
}

/// A refusal speaks against the write unless it is a signature that was given up.
fn against(refusal: Refusal, occasion: Occasion<'_>) -> Option<Reason> {
    let Some(signature) = refusal.signature() else {
        return Some(Reason::Always(refusal));
    };
    match known(occasion) {
        None => Some(Reason::Always(refusal)),
        Some(known) if known.has(signature) => None,
        Some(_) => Some(Reason::Since(refusal)),
    }
}

/// Data speak against the write, too, unless they were given up, or may be what the run wrote.
fn against_data(device: &Device, now: &Content, occasion: Occasion<'_>) -> Option<Reason> {
    if now.blocks == Blocks::Zero {
        return None;
    }
    let refusal = Refusal::Data {
        device: device.name.clone(),
        blocks: now.blocks.clone(),
    };
    match (occasion, known(occasion)) {
        (_, None) if !now.signatures.is_empty() => None, // the signature says it
        (_, None) => Some(Reason::Always(refusal)),
        (Occasion::Resume { left: None, .. }, Some(_)) => None, // the run was killed
        (_, Some(known)) if known.blocks == now.blocks => None,
        (_, Some(_)) => Some(Reason::Since(refusal)),
    }
}
