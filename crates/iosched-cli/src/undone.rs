//! What became, or would become, of what a run had changed, in words.

use iosched_switch::Difference;
use iosched_switch::journal::{Foreseen, Resolution, Undone};

/// What would become of one thing, in words.
pub(crate) fn foretell(foreseen: &Foreseen) -> String {
    match foreseen {
        Foreseen::Restored {
            device,
            differences,
        } if differences.is_empty() => {
            format!("{device}: is as before")
        }
        Foreseen::Restored {
            device,
            differences,
        } => {
            let back: Vec<String> = differences
                .iter()
                .map(|one| format!("{} {} back to {}", name(one), one.found, one.expected))
                .collect();
            format!("{device}: {}", back.join(", "))
        }
        Foreseen::Unknown { thing, cause } => format!("{thing}: cannot be told: {cause}"),
        Foreseen::DatabasesDropped { server } => {
            format!("would drop our databases on the server {server}")
        }
        Foreseen::As(resolution) => resolved(resolution, Tense::Would),
    }
}

/// What became of one thing, in words.
pub(crate) fn describe(undone: &Undone) -> String {
    match undone {
        Undone::Restored { device, scheduler } => {
            format!("{device}: as before ({scheduler}), every setting read back")
        }
        Undone::RestoredExcept { device, adjusted } => {
            let except: Vec<String> = adjusted
                .iter()
                .map(|a| format!("{} is {}, was {}", a.tunable, a.got, a.asked))
                .collect();
            format!("{device}: as before but for {}", except.join("; "))
        }
        Undone::Failed { thing, cause } => format!("{thing}: not put back: {cause}"),
        Undone::DatabasesDropped { names } => format!("dropped {}", names.join(", ")),
        Undone::As(resolution) => resolved(resolution, Tense::Done),
    }
}

/// The tunable's name, or `scheduler`.
fn name(difference: &Difference) -> &str {
    let file = difference.file.trim_start_matches("queue/");
    file.trim_start_matches("iosched/")
}

#[derive(Clone, Copy)]
enum Tense {
    Would,
    Done,
}

fn resolved(resolution: &Resolution, tense: Tense) -> String {
    let kept = match tense {
        Tense::Would => "would be kept in the journal",
        Tense::Done => "kept in the journal",
    };
    match (resolution, tense) {
        (Resolution::Gone { device }, _) => format!("{device}: gone, nothing to put back"),
        (Resolution::Rebooted { device }, _) => {
            format!("{device}: the machine was booted since, the kernel set it up anew")
        }
        (
            Resolution::SetSince {
                device,
                differences,
            },
            _,
        ) => {
            let one = |one: &Difference| {
                format!(", {} is {}, not {}", name(one), one.found, one.expected)
            };
            let how: String = differences.iter().map(one).collect();
            format!("{device}: set by somebody else since{how}: left alone")
        }
        (Resolution::NotMounted { directory, mount }, _) => format!(
            "{}: {kept}: {} is not mounted on {}",
            directory.display(),
            mount.source.display(),
            mount.mount_point.display()
        ),
        (Resolution::Away { device, label }, _) => format!(
            "{device}: {kept}: the disk that may have our file system {label} is not there, or does not answer"
        ),
        (Resolution::Removed { directory }, Tense::Would) => {
            format!("would remove {}", directory.display())
        }
        (Resolution::Removed { directory }, Tense::Done) => {
            format!("removed {}", directory.display())
        }
        (Resolution::FileSystemRemoved { device, kind }, Tense::Would) => format!(
            "{device}: would unmount our {} file system and erase its signature, if nothing else is in it",
            kind.name()
        ),
        (Resolution::FileSystemRemoved { device, kind }, Tense::Done) => format!(
            "{device}: our {} file system unmounted, its signature erased",
            kind.name()
        ),
        (Resolution::FileSystemUnmounted { device, label }, Tense::Would) => format!(
            "{device}: would unmount what was our file system {label}, and leave what is there now"
        ),
        (Resolution::FileSystemUnmounted { device, label }, Tense::Done) => format!(
            "{device}: what was our file system {label} is unmounted; what is there now was left"
        ),
        (Resolution::ProcessesEnded { names }, Tense::Would) => {
            format!("would end {}", names.join(", "))
        }
        (Resolution::ProcessesEnded { names }, Tense::Done) => {
            format!("ended what its load had left running: {}", names.join(", "))
        }
    }
}
