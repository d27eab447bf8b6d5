//! What the tests of several crates share: a mount namespace of their own ([`world!`]), loop devices, what may
//! be written ([`refusal_matrix`]), an account of [`memory`], and one way to say that something is lacking.
//!
//! Only for tests: no other crate depends on it.

pub mod loop_device;
pub mod memory;
pub mod refusal_matrix;
pub mod shell;
pub mod world;

/// Says that a test cannot run here because it needs something. `scripts/run-tests` counts such a test as
/// skipped, and with `IOSCHED_TEST_REQUIRE=all` as failed unless set-up could not install what it needs.
#[expect(
    clippy::print_stderr,
    reason = "the way by which a test tells the runner"
)]
pub fn lacks(what: &str) {
    eprintln!("SKIPPED: needs {what}");
}

/// True if we are root; says so otherwise.
pub fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        lacks("root");
    }
    is_root
}
