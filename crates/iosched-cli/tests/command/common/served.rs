//! An emulated disk with a scheduler of ours inside, where every command finds it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{answer, can_emulate, has_fio, iosched, text, whole_queue};

/// Removed when dropped.
pub(crate) struct ServedDisk {
    /// `loop3`.
    pub(crate) name: String,
}

impl ServedDisk {
    /// One of 64 MiB, to be measured with fio; says what lacks otherwise.
    pub(crate) fn new(model: &str, scheduler: &str) -> Option<ServedDisk> {
        if !can_emulate() || !has_fio() {
            return None;
        }
        let output = iosched()
            .args(["emulate", "create", model, "--size", "64M"])
            .args(["--scheduler", scheduler])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let node = text(&output.stdout);
        let name = node.trim().strip_prefix("/dev/").unwrap().to_owned();
        Some(ServedDisk { name })
    }

    /// What `emulate list` says of it.
    pub(crate) fn status(&self) -> Value {
        let list = answer(&["emulate", "list", "--json"]);
        let list: Value = serde_json::from_slice(&list.stdout).unwrap();
        let mut disks = list.as_array().unwrap().iter();
        let ours = disks.find(|disk| disk["device"] == self.name.as_str());
        ours.unwrap_or_else(|| panic!("{} is not in {list}", self.name))
            .clone()
    }

    /// What stands inside.
    pub(crate) fn inside(&self) -> String {
        self.status()["scheduler"].as_str().unwrap().to_owned()
    }

    /// Every readable file of its queue, but for what the kernel finds out when mkfs asks for it, and what stands inside.
    pub(crate) fn state(&self) -> BTreeMap<String, String> {
        let mut state = whole_queue(&self.name);
        state.remove("write_zeroes_max_bytes");
        state.insert("inside".into(), self.inside());
        state
    }
}

impl Drop for ServedDisk {
    fn drop(&mut self) {
        let _ = answer(&["emulate", "remove", "--force", &self.name]);
    }
}
