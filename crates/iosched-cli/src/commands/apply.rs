//! `iosched apply`: bring the policy file into force.

use clap::Args;
use iosched_machine::failure::{Problem, exit};
use iosched_policy::persist::deploy::{DeployOptions, Deployment, Request};
use iosched_policy::policy::file;

use super::Outcome;
use super::persist::{HowArgs, deploy, finish_undo};
use crate::output::Output;

/// Arguments of `iosched apply`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched apply --dry-run     what differs, and what would be written
  iosched apply --yes         after an edit of /etc/iosched/policy.toml

A rule of the policy (docs/keep.md has all of it):
  [[rule]]
  name = \"archive\"
  match = { model = \"ACME 4000*\", min_size = \"4T\" }
  scheduler = \"bfq\"
  tunables = { low_latency = 0 }")]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    how: HowArgs,
}

/// Runs `iosched apply`.
pub(crate) fn run(args: &ApplyArgs, output: &Output) -> Outcome {
    let host = args.how.host();
    finish_undo(&host, &args.how, output)?;
    if file::read(&host)?.is_none() {
        let message = format!("there is no policy: {} does not exist", file::PATH);
        return Err(Problem::new(exit::NO_SUCH_DEVICE, message)
            .hint("write one, or begin with `iosched persist DEVICE SCHEDULER`")
            .into());
    }
    let options = DeployOptions {
        initramfs: args.how.initramfs,
        ..DeployOptions::default()
    };
    let plan = || Deployment::plan(&host, Request::Policy, options);
    deploy(&host, &plan, None, &args.how, output)
}
