//! The way to a directory in which loads run.

use std::io;
use std::path::Path;

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
    as_user(user, || inside.metadata().map(drop)).map_err(|source| match user {
        Some(user) if source.kind() == io::ErrorKind::PermissionDenied => RunError::MayNotEnter {
            user: user.name.clone(),
            target: target.into(),
            source,
        },
        _ => RunError::Io {
            path: target.into(),
            source,
        },
    })
}

/// Refuses a path, as it was written, that leads through a link which somebody else than root and the loads' user can
/// replace.
pub(super) fn check_links(path: &Path, user: Option<&User>) -> Result<(), RunError> {
    let Some(trusted) = trusted(user) else {
        return Ok(());
    };
    path_trust::check_links(path, trusted).map_err(|error| refusal(path, user, error))
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
    match error {
        WayError::Unusable { path, source } => RunError::Io { path, source },
        WayError::Danger { at, danger } => RunError::Untrusted {
            target: target.into(),
            above: at,
            suggests: danger.user(),
            owner: danger.who(),
            runner: user.map_or_else(|| "root".into(), |user| user.name.clone()),
        },
    }
}
