//! The way to a directory in which loads run.

use std::io;
use std::path::Path;

use iosched_machine::command_line::Remedy;
use iosched_machine::failure::{Problem, Remediable, exit};
use iosched_machine::path_trust::{self, Trusted, WayError};
use iosched_machine::process::{User, as_user};

use super::RunError;

/// Refuses a directory on the way to which somebody else than root and the loads' user may rename, or that this
/// user cannot enter. Loads that run as ourselves are refused only if we are root: others risk no more than what
/// they own.
pub(super) fn check(target: &Path, user: Option<&User>) -> Result<(), RunError> {
    let Some(trusted) = trusted(user) else {
        return Ok(());
    };
    path_trust::check_way(target, trusted).map_err(|error| refusal(target, user, error))?;
    let inside = target.join(".");
    as_user(user, || inside.metadata().map(drop)).map_err(|error| match user {
        Some(user) if error.kind() == io::ErrorKind::PermissionDenied => {
            let user = &user.name;
            let message = format!("{user} may not enter {}: {error}", target.display());
            let hint = format!(
                "let {user} enter each directory of that path (chmod o+x), or choose another one"
            );
            Problem::new(exit::NOT_PERMITTED, message).hint(hint).into()
        }
        _ => RunError::io(target, &error),
    })
}

/// Refuses a path, as it was written, that leads through a link which somebody else than root and the loads' user can
/// replace.
pub(super) fn check_links(path: &Path, user: Option<&User>) -> Result<(), RunError> {
    let Some(trusted) = trusted(user) else {
        return Ok(());
    };
    let checked = path_trust::check_written(path, trusted)
        .and_then(|()| path_trust::check_links(path, trusted));
    checked.map_err(|error| refusal(path, user, error))
}

/// Nothing where we are not root.
fn trusted(user: Option<&User>) -> Option<Trusted> {
    let is_root = rustix::process::geteuid().is_root();
    is_root.then(|| Trusted {
        runner: user.map_or(0, |user| user.uid),
        invoker: None,
    })
}

fn refusal(target: &Path, user: Option<&User>, error: WayError) -> RunError {
    let (above, danger) = match error {
        WayError::Unusable { path, source } => return RunError::io(&path, &source),
        WayError::Danger { at, danger } => (at, danger),
    };
    let (above, suggests) = (above.display(), danger.user());
    let message = format!(
        "refusing to run loads as {} in {}: {} may change {above} and could lead them to other files",
        user.map_or("root", |user| &user.name),
        target.display(),
        danger.who(),
    );
    let hint = match &suggests {
        Some(user) => format!("run them as that user: --user {user}"),
        None => {
            format!("take that right away (chmod go-w {above}), or run them as a user: --user NAME")
        }
    };
    RunError::Untrusted(Remediable {
        problem: Problem::new(exit::UNSAFE, message).hint(hint),
        remedy: suggests.map(|user| Remedy::With(format!("--user={user}"))),
    })
}
