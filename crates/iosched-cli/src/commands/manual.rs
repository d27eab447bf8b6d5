//! `iosched manual`: the manual pages, made from the command line's own definition. Hidden: packages
//! and `make install` use it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use iosched_machine::failure::{Failure, exit};

use super::{Outcome, boxed};

/// Arguments of `iosched manual`.
#[derive(Debug, Args)]
pub(crate) struct ManualArgs {
    /// Where the pages are put: iosched.1, iosched-list.1 …
    directory: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write the manual pages to {}", directory.display())]
struct ManualError {
    directory: PathBuf,
    source: io::Error,
}

impl Failure for ManualError {
    fn exit_code(&self) -> u8 {
        exit::BAD_FILE
    }
}

/// Writes a page for the command and one for each of its commands.
pub(crate) fn run(args: &ManualArgs, command: Command) -> Outcome {
    write_pages(&args.directory, command).map_err(|source| {
        boxed(ManualError {
            directory: args.directory.clone(),
            source,
        })
    })?;
    Ok(exit::OK)
}

fn write_pages(directory: &Path, command: Command) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let name = command.get_name().to_owned();
    let pages: Vec<Command> = command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set())
        .map(|sub| {
            // A page is found by one word: iosched-list.
            let page: &'static str = format!("{name}-{}", sub.get_name()).leak();
            sub.clone().name(page)
        })
        .collect();
    for page in pages.into_iter().chain([command]) {
        let path = directory.join(format!("{}.1", page.get_name()));
        let mut text = Vec::new();
        clap_mangen::Man::new(page).render(&mut text)?;
        fs::write(path, text)?;
    }
    Ok(())
}
