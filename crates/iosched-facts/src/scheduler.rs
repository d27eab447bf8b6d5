//! What is known of each scheduler without running it: its tunables, its kernels, its other names.

use std::sync::OnceLock;

use crate::kernel::BlockLayer;

mod known;

/// A tunable as the kernel shows it in `queue/iosched/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunableInfo {
    /// Its file's name.
    pub name: &'static str,
    /// Unit of its value, empty for counts and switches.
    pub unit: &'static str,
    /// Its value in a fresh kernel.
    pub default: i64,
    /// The same on a rotational disk, where that is another value.
    pub rotational: Option<i64>,
    /// The least that it takes.
    pub min: i64,
    /// The most that it takes.
    pub max: i64,
    /// What it does, in a sentence without its full stop.
    pub what: &'static str,
    /// Kernels keep it in ticks, and show the nearest that these give: 124 ms for 125 at 250 ticks per second.
    pub in_ticks: bool,
}

impl TunableInfo {
    /// Name, unit, default, least and greatest value.
    pub const fn new(
        name: &'static str,
        unit: &'static str,
        default: i64,
        min: i64,
        max: i64,
    ) -> TunableInfo {
        TunableInfo {
            name,
            unit,
            default,
            rotational: None,
            min,
            max,
            what: "",
            in_ticks: false,
        }
    }

    /// Adds what it does, in a sentence without its full stop.
    #[must_use]
    pub const fn what(self, what: &'static str) -> TunableInfo {
        TunableInfo { what, ..self }
    }

    /// Says that it begins with another value on a rotational disk.
    #[must_use]
    pub const fn rotational(self, default: i64) -> TunableInfo {
        TunableInfo {
            rotational: Some(default),
            ..self
        }
    }

    /// Says that kernels keep it in ticks.
    #[must_use]
    pub const fn in_ticks(self) -> TunableInfo {
        TunableInfo {
            in_ticks: true,
            ..self
        }
    }

    /// 0 or 1.
    pub const fn switch(name: &'static str, default: i64) -> TunableInfo {
        TunableInfo::new(name, "", default, 0, 1)
    }

    /// It is on or off: 1 or 0.
    pub fn is_switch(&self) -> bool {
        (self.min, self.max) == (0, 1)
    }
}

/// What is known of a scheduler.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a question of its own"
)]
pub struct SchedulerFacts {
    /// Its name in the kernel.
    pub name: &'static str,
    /// What it does, in half a line.
    pub summary: &'static str,
    /// The block layer that it belongs to.
    pub block_layer: BlockLayer,
    /// Its tunables in the kernel's order.
    pub tunables: &'static [TunableInfo],
    /// The scheduler of the multi-queue block layer that took its place in Linux 5.0, if it has gone.
    pub successor: Option<&'static str>,
    /// Another name by which the multi-queue block layer takes it (`elevator_alias`).
    pub alias: Option<&'static str>,
    /// The option of the kernel's configuration that builds it, where distributions leave it out.
    pub kernel_option: Option<&'static str>,
    /// It alone keeps the order of writes to a zoned disk, on kernels that leave that to a scheduler
    /// ([`Rule::ZonesAreLocked`](crate::kernel::rules::Rule)).
    pub locks_zones: bool,
    /// Linux itself does not have it: some distributions' kernels do.
    pub out_of_tree: bool,
    /// There is no elevator: who submits a request issues it, if the device has room.
    pub direct: bool,
    /// It turns write-back throttling off (`wbt_disable_default`).
    pub disables_wbt: bool,
}

impl SchedulerFacts {
    /// A multi-queue scheduler without tunables, for which the kernel does nothing special. Name and summary are each
    /// scheduler's own.
    pub const PLAIN: SchedulerFacts = SchedulerFacts {
        name: "",
        summary: "",
        block_layer: BlockLayer::MultiQueue,
        tunables: &[],
        successor: None,
        alias: None,
        kernel_option: None,
        locks_zones: false,
        out_of_tree: false,
        direct: false,
        disables_wbt: false,
    };
}

pub use known::{ADIOS, BFQ, CFQ, DEADLINE, KPP, KYBER, MQ_DEADLINE, NONE, NOOP};

/// The kernel's schedulers, and those of patches to it.
static OF_THE_KERNEL: [&SchedulerFacts; 9] = [
    &NOOP,
    &DEADLINE,
    &CFQ,
    &NONE,
    &MQ_DEADLINE,
    &KYBER,
    &BFQ,
    &ADIOS,
    &KPP,
];

/// Those of the program that uses this library.
static REGISTERED: OnceLock<Vec<&'static SchedulerFacts>> = OnceLock::new();

/// Adds schedulers to [`schedulers`], once, before anything is looked up.
///
/// # Panics
/// If a name is taken, or if it is called twice.
pub fn register(schedulers: Vec<&'static SchedulerFacts>) {
    for (at, new) in schedulers.iter().enumerate() {
        let mut others = OF_THE_KERNEL.iter().chain(&schedulers[..at]);
        assert!(
            others.all(|other| other.name != new.name),
            "two schedulers are called {}",
            new.name
        );
    }
    let registered = REGISTERED.set(schedulers);
    assert!(registered.is_ok(), "schedulers are registered once");
}

/// All schedulers that are known: the kernel's, then those that were [registered](register).
pub fn schedulers() -> impl Iterator<Item = &'static SchedulerFacts> {
    let registered = REGISTERED.get().map_or(&[][..], Vec::as_slice);
    OF_THE_KERNEL.iter().chain(registered).copied()
}

/// Those that are compared where nobody names any: all but those that Linux itself does not have.
pub fn usual() -> impl Iterator<Item = &'static SchedulerFacts> {
    schedulers().filter(|scheduler| !scheduler.out_of_tree)
}

/// The scheduler of this name.
pub fn find(name: &str) -> Option<&'static SchedulerFacts> {
    schedulers().find(|scheduler| scheduler.name == name)
}
