//! `iosched apply`: bring the policy file into force.

use clap::Args;
use iosched_machine::failure::{Failure, exit};
use iosched_policy::persist::deploy::{DeployOptions, Deployment};
use iosched_policy::policy::file;

use super::persist::{HowArgs, deploy, finish_undo};
use super::{Outcome, boxed};
use crate::output::Output;

/// Arguments of `iosched apply`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched apply --dry-run     what differs, and what would be written
  iosched apply --yes         after an edit of /etc/iosched/policy.toml

A rule of the policy (docs/persist.md has all of it):
  [[rule]]
  name = \"archive\"
  match = { model = \"ACME 4000*\", min_size = \"4T\" }
  scheduler = \"bfq\"
  tunables = { low_latency = 0 }")]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    how: HowArgs,
}

/// There is nothing to apply.
#[derive(Debug, thiserror::Error)]
#[error("there is no policy: {} does not exist", file::PATH)]
struct NoPolicy;

impl Failure for NoPolicy {
    fn hint(&self) -> Option<String> {
        Some("write one, or begin with `iosched persist DEVICE SCHEDULER`".into())
    }

    fn exit_code(&self) -> u8 {
        exit::NO_SUCH_DEVICE
    }
}

/// Runs `iosched apply`.
pub(crate) fn run(args: &ApplyArgs, output: &Output) -> Outcome {
    let host = args.how.host();
    finish_undo(&host, &args.how, output)?;
    if file::read(&host).map_err(boxed)?.is_none() {
        return Err(boxed(NoPolicy));
    }
    let options = DeployOptions {
        initramfs: args.how.initramfs,
        ..DeployOptions::default()
    };
    let deployment = Deployment::plan(&host, None, options).map_err(boxed)?;
    deploy(&host, &deployment, Vec::new(), None, &args.how, output)
}
