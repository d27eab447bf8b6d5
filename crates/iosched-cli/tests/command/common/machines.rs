//! The copied machines of `tests/machines/`, and what a command prints on each of them.

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn machines() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines")
}

/// Does something on each of them; snapshots that are taken meanwhile lie beside its tree.
pub(crate) fn on_each_machine(check: impl Fn(&Path)) {
    let mut seen = 0;
    for machine in fs::read_dir(machines()).unwrap() {
        let root = machine.unwrap().path();
        if !root.is_dir() {
            continue;
        }
        seen += 1;
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(&root);
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| check(&root));
    }
    assert_eq!(seen, 11, "machines in tests/machines");
}
