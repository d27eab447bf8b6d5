//! The command `iosched`.

fn main() -> std::process::ExitCode {
    iosched_cli::run_with(&[])
}
