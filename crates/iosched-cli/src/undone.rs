//! What became, or would become, of what a run had changed, in words.

use iosched_experiment::journal::{Foreseen, Undone};

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
                .map(|one| {
                    let name = one
                        .file
                        .trim_start_matches("queue/")
                        .trim_start_matches("iosched/");
                    format!("{name} {} back to {}", one.found, one.expected)
                })
                .collect();
            format!("{device}: {}", back.join(", "))
        }
        Foreseen::Gone { device } => format!("{device}: gone, nothing to put back"),
        Foreseen::Rebooted { device } => {
            format!("{device}: the machine was booted since, the kernel set it up anew")
        }
        Foreseen::ChangedSince { device, scheduler } => {
            format!("{device}: {}", set_since(scheduler))
        }
        Foreseen::Unknown { thing, cause } => format!("{thing}: cannot be told: {cause}"),
        Foreseen::Removed { directory } => format!("would remove {}", directory.display()),
        Foreseen::NotMounted { directory, mount } => format!(
            "{}: would be kept in the journal: {} is not mounted on {}",
            directory.display(),
            mount.source.display(),
            mount.mount_point.display()
        ),
        Foreseen::Away { device, label } => format!(
            "{device}: would be kept in the journal: the disk that may have our file system {label} is not there, or does not answer"
        ),
        Foreseen::FileSystemRemoved { device, kind } => format!(
            "{device}: would unmount our {} file system and erase its signature, if nothing else is in it",
            kind.name()
        ),
        Foreseen::FileSystemUnmounted { device, label } => format!(
            "{device}: would unmount what was our file system {label}, and leave what is there now"
        ),
        Foreseen::ProcessesEnded { names } => format!("would end {}", names.join(", ")),
        Foreseen::DatabasesDropped { server } => {
            format!("would drop our databases on the server {server}")
        }
    }
}

fn set_since(scheduler: &str) -> String {
    format!("set by somebody else meanwhile ({scheduler}), left alone")
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
        Undone::Gone { device } => format!("{device}: gone, nothing to put back"),
        Undone::Rebooted { device } => {
            format!("{device}: the machine was booted since, the kernel set it up anew")
        }
        Undone::ChangedSince { device, scheduler } => {
            format!("{device}: {}", set_since(scheduler))
        }
        Undone::Failed { thing, cause } => format!("{thing}: not put back: {cause}"),
        Undone::Removed { directory } => format!("removed {}", directory.display()),
        Undone::NotMounted { directory, mount } => format!(
            "{}: kept in the journal: {} is not mounted on {}",
            directory.display(),
            mount.source.display(),
            mount.mount_point.display()
        ),
        Undone::Away { device, label } => format!(
            "{device}: kept in the journal: the disk that may have our file system {label} is not there, or does not answer"
        ),
        Undone::FileSystemRemoved { device, kind } => format!(
            "{device}: our {} file system unmounted, its signature erased",
            kind.name()
        ),
        Undone::FileSystemUnmounted { device, label } => format!(
            "{device}: what was our file system {label} is unmounted; what is there now was left"
        ),
        Undone::ProcessesEnded { names } => {
            format!("ended what its load had left running: {}", names.join(", "))
        }
        Undone::DatabasesDropped { names } => format!("dropped {}", names.join(", ")),
    }
}
