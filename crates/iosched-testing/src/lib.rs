//! What the tests of several crates share: a mount namespace of their own ([`world!`]), loop devices, copied
//! machines ([`machine_tree`]), what may be written ([`refusal_matrix`]), an account of [`memory`], older kernels
//! ([`kernel`]), readers to be fuzzed ([`fuzz`]), and one way to say that something is lacking.
//!
//! Only for tests: other crates have it as a dev-dependency, or with their features `fuzz` and `testing`.

pub mod fuzz;
pub mod kernel;
pub mod loop_device;
pub mod machine_tree;
pub mod memory;
pub mod mounts;
pub mod refusal_matrix;
pub mod shell;
pub mod world;

use std::time::{Duration, Instant};

/// Says that a test cannot run here because it needs something. `scripts/run-tests` counts such a test as
/// skipped, and with `IOSCHED_TEST_REQUIRE=all` as failed unless set-up could not install what it needs.
#[expect(
    clippy::print_stderr,
    reason = "the way by which a test tells the runner"
)]
pub fn lacks(what: &str) {
    eprintln!("SKIPPED: needs {what}");
}

/// Waits until something is so; false if it is not after ten minutes, which no machine is too slow for.
pub fn wait_until(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(600);
    while Instant::now() < end {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    is_so()
}

/// True if we are root with a world of its own; says what lacks otherwise.
pub fn is_root() -> bool {
    if !rustix::process::geteuid().is_root() {
        lacks("root");
        return false;
    }
    let is_refused = world::is_refused();
    if is_refused {
        lacks("root that may make mount namespaces (CAP_SYS_ADMIN)");
    }
    !is_refused
}
