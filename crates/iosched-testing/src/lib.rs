//! What the tests of several crates share: a mount namespace per test, and one way to say that something
//! is lacking.
//!
//! `scripts/run-tests` starts each test in a process of its own, several side by side; `cargo test` starts
//! each in a thread. Both hold here: [`world::enter`] works per thread.

pub mod loop_device;
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
