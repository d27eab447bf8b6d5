//! `iosched manual`: the manual pages, made from the command line's own definition. Hidden: the
//! scripts that make packages use it.

use std::path::PathBuf;

use clap::{Args, Command};
use iosched_machine::failure::exit;

use super::{Outcome, boxed};
use crate::files;

/// Arguments of `iosched manual`.
#[derive(Debug, Args)]
pub(crate) struct ManualArgs {
    /// Where the pages are put: iosched.1, iosched-list.1 …
    directory: PathBuf,
}

/// Writes a page for the command and one for each of its commands.
pub(crate) fn run(args: &ManualArgs, command: Command) -> Outcome {
    let directory = &args.directory;
    files::directory(directory).map_err(boxed)?;
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
        let rendered = clap_mangen::Man::new(page).render(&mut text);
        rendered.expect("memory takes it");
        files::write(&path, &text).map_err(boxed)?;
    }
    Ok(exit::OK)
}
