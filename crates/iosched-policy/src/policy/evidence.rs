//! Whether what a rule of the policy was measured on is still what is there.

use iosched_machine::device::Device;
use iosched_machine::facts;
use iosched_machine::host::Host;
use iosched_sim::scheduler::KernelVersion;
use serde::Serialize;

use crate::policy::file::Evidence;

/// Evidence that does not describe this machine any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stale {
    /// `kernel`, `model` or `firmware`.
    pub what: &'static str,
    /// When it was measured.
    pub measured: String,
    /// Now.
    pub now: String,
}

/// What of the evidence is not so any more. Of the kernel the first two numbers count, and the third where a stable
/// release changed a rule.
pub(crate) fn stale(host: &Host, device: &Device, evidence: &Evidence) -> Vec<Stale> {
    let sysfs = host.sysfs();
    let firmware = facts::firmware(&sysfs, &device.name);
    [
        ("kernel", &evidence.kernel, host.kernel_release()),
        ("model", &evidence.model, device.model.clone()),
        ("firmware", &evidence.firmware, firmware),
    ]
    .into_iter()
    .filter_map(|(what, measured, now)| {
        let (measured, now) = (measured.clone()?, now.unwrap_or_default());
        let series = |release: &str| KernelVersion::parse(release).filter(|_| what == "kernel");
        let is_same = match (series(&measured), series(&now)) {
            (Some(measured), Some(now)) => measured.is_of_series(now) && measured.is_like(now),
            _ => measured.trim() == now.trim(),
        };
        (!is_same).then_some(Stale {
            what,
            measured,
            now,
        })
    })
    .collect()
}
