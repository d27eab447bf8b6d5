//! The readers in the `fuzz` modules of the crates, guided by coverage: `scripts/fuzz`. The variable `IOSCHED_FUZZ_TARGET` names one,
//! so that all are in one program, which is linked once.

#![no_main]

use std::sync::OnceLock;

use iosched_testing::fuzz::Target;
use iosched_testing::memory::{Counting, most_during};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static TARGET: OnceLock<Target> = OnceLock::new();

fn named() -> Target {
    let name = std::env::var("IOSCHED_FUZZ_TARGET").expect("IOSCHED_FUZZ_TARGET names a target");
    let mut all = [
        iosched_emulate::fuzz::TARGETS,
        iosched_evidence::fuzz::TARGETS,
        iosched_experiment::fuzz::TARGETS,
        iosched_machine::fuzz::TARGETS,
        iosched_policy::fuzz::TARGETS,
        iosched_report::fuzz::TARGETS,
    ]
    .into_iter()
    .flatten();
    let target = all.find(|target| target.name == name);
    *target.unwrap_or_else(|| panic!("there is no target {name}"))
}

fuzz_target!(
    init: { TARGET.get_or_init(named); },
    |bytes: &[u8]| {
        let target = TARGET.get_or_init(named);
        let most = most_during(|| (target.read)(bytes));
        let bound = target.most_memory(bytes.len());
        assert!(most <= bound, "{} bytes took {most} bytes of memory; {bound} are promised", bytes.len());
    }
);
