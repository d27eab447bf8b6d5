//! The copied machines of `tests/machines/`, and what a command prints on each of them.

use std::path::Path;

use iosched_testing::machine_tree;

/// Does something on each of them; snapshots that are taken meanwhile lie beside its text.
pub(crate) fn on_each_machine(check: impl Fn(&Path)) {
    for name in machine_tree::names() {
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(machine_tree::texts().join(&name));
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| check(&machine_tree::tree(&name)));
    }
}
