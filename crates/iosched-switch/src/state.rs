//! The whole state of a queue: read, compared, put back.

use std::collections::BTreeMap;

use iosched_machine::sysfs::{Sysfs, is_of_attribute};
use serde::{Deserialize, Serialize};

use super::arm::write_rank;
use super::error::{SwitchError, io_error};
use super::offered::active;
use super::{Adjusted, SETTINGS, inside, is_tunable, switch, value};

/// Everything of a queue that a switch of scheduler changes, or that an arm may set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueState {
    /// The active scheduler.
    pub scheduler: String,
    /// The scheduler of ours that stands inside, with its tunables, where the disk is served with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<String>,
    /// `queue/nr_requests`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nr_requests: Option<String>,
    /// The files of `queue/iosched/` that can be set: others are statistics, which change by themselves.
    pub tunables: BTreeMap<String, String>,
    /// The readable ones of `SETTINGS`.
    pub settings: BTreeMap<String, String>,
}

/// What [`Difference::file`] says of the scheduler of ours inside, which has no file there.
const SERVED: &str = "scheduler inside";

/// One file that differs between two states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Below `/sys/block/<device>/`; or `scheduler inside`, of a disk that is served with one.
    pub file: String,
    /// In the state that was expected.
    pub expected: String,
    /// In the state that was found.
    pub found: String,
}

impl QueueState {
    /// The oldest schema of the journal and the history whose programs put back all of this: those of 1 do not know
    /// of schedulers inside a disk, and would leave the one that they found there.
    pub fn schema(&self) -> u32 {
        if self.served.is_some() { 2 } else { 1 }
    }

    /// The scheduler that decides: the one inside, where the disk is served with one and the kernel's queue has `none`.
    pub fn deciding(&self) -> String {
        match &self.served {
            Some(served) if self.scheduler == "none" => format!("served/{served}"),
            _ => self.scheduler.clone(),
        }
    }

    /// Reads the whole state of a device.
    pub fn read(sysfs: &Sysfs, device: &str) -> Result<QueueState, SwitchError> {
        let scheduler = active(sysfs, device)?;
        let failed = |file: &str, source| io_error(device, file, source);
        let read = |file: &str| {
            let file = format!("queue/{file}");
            let value = sysfs.read_or_absent(device, &file);
            value.map_err(|source| failed(&file, source))
        };
        let read_all = |names: Vec<String>, below: &str| {
            let mut values = BTreeMap::new();
            for name in names {
                if let Some(value) = read(&format!("{below}{name}"))? {
                    values.insert(name, value);
                }
            }
            Ok::<_, SwitchError>(values)
        };
        let names = sysfs.try_list(device, "queue/iosched");
        let mut names = names.map_err(|source| failed("queue/iosched", source))?;
        names.retain(|name| is_tunable(sysfs, device, name));
        Ok(QueueState {
            scheduler,
            served: inside::found(sysfs, device),
            nr_requests: read("nr_requests")?,
            tunables: read_all(names, "iosched/")?,
            settings: read_all(SETTINGS.iter().map(ToString::to_string).collect(), "")?,
        })
    }

    /// Sets this state, as it was read before, and reads it back. What could not be put back
    /// exactly is returned; an error means that even the scheduler is not as wanted.
    pub fn restore(&self, sysfs: &Sysfs, device: &str) -> Result<Vec<Adjusted>, SwitchError> {
        if active(sysfs, device)? != self.scheduler {
            switch(sysfs, device, &self.scheduler)?;
        }
        if let Some(served) = &self.served
            && inside::found(sysfs, device).as_ref() != Some(served)
        {
            inside::put(sysfs, device, served)?;
        }
        let mut failed = None;
        for (file, value) in self.files_in_order() {
            let is_there = sysfs.read_if_present(device, &file).as_ref() == Some(value);
            let written = if self.served.is_some() && file == "queue/nr_requests" {
                inside::set_requests(sysfs, device, value)
            } else if is_there {
                Ok(())
            } else {
                sysfs.write(device, &file, value::chosen(value))
            };
            if let Err(source) = written {
                // What the kernel does not take is seen in the comparison below.
                if !is_of_attribute(&source) && failed.is_none() {
                    failed = Some(io_error(device, &file, source));
                }
            }
        }
        let found = QueueState::read(sysfs, device)?;
        let differences = self.differences(&found);
        if let Some(error) = failed.filter(|_| !differences.is_empty()) {
            return Err(error);
        }
        Ok(differences
            .into_iter()
            .map(|difference| Adjusted {
                device: device.into(),
                tunable: difference.file,
                asked: difference.expected,
                got: difference.found,
            })
            .collect())
    }

    /// The files below `/sys/block/<device>/` and their values, in the order of writing.
    fn files_in_order(&self) -> impl Iterator<Item = (String, &String)> {
        let nr_requests = self
            .nr_requests
            .iter()
            .map(|value| ("queue/nr_requests".to_owned(), value));
        let mut tunables: Vec<_> = self
            .tunables
            .iter()
            // One variable under two names: the finer unit wins.
            .filter(|(name, _)| {
                *name != "slice_idle" || !self.tunables.contains_key("slice_idle_us")
            })
            .map(|(name, value)| (format!("queue/iosched/{name}"), value))
            .collect();
        tunables.sort_by_key(|(file, _)| write_rank(file));
        let settings = SETTINGS
            .iter()
            .filter_map(|&name| Some((format!("queue/{name}"), self.settings.get(name)?)));
        nr_requests.chain(tunables).chain(settings)
    }

    /// What of the queue itself differs in `found`, the scheduler and its tunables aside, and is not in `asked`: what the
    /// kernel did of itself.
    pub fn side_effects(
        &self,
        found: &QueueState,
        asked: &BTreeMap<String, String>,
    ) -> Vec<Difference> {
        let of_queue = |state: &QueueState| QueueState {
            scheduler: String::new(),
            served: None,
            tunables: BTreeMap::new(),
            ..state.clone()
        };
        let mut effects = of_queue(self).differences(&of_queue(found));
        effects.retain(|effect| !asked.contains_key(effect.file.trim_start_matches("queue/")));
        effects
    }

    /// The files in which `found` differs from this state.
    pub fn differences(&self, found: &QueueState) -> Vec<Difference> {
        let mut differences = Vec::new();
        let mut compare = |file: String, expected: Option<&String>, found: Option<&String>| {
            if expected != found {
                let shown = |value: Option<&String>| value.map_or("(absent)".into(), Clone::clone);
                differences.push(Difference {
                    file,
                    expected: shown(expected),
                    found: shown(found),
                });
            }
        };
        compare(SERVED.into(), self.served.as_ref(), found.served.as_ref());
        compare(
            "queue/scheduler".into(),
            Some(&self.scheduler),
            Some(&found.scheduler),
        );
        if self.scheduler != found.scheduler {
            // Everything else differs because of it.
            return differences;
        }
        compare(
            "queue/nr_requests".into(),
            self.nr_requests.as_ref(),
            found.nr_requests.as_ref(),
        );
        for (directory, ours, theirs) in [
            ("queue/iosched", &self.tunables, &found.tunables),
            ("queue", &self.settings, &found.settings),
        ] {
            let names: std::collections::BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
            for name in names {
                compare(
                    format!("{directory}/{name}"),
                    ours.get(name),
                    theirs.get(name),
                );
            }
        }
        differences
    }
}

impl QueueState {
    /// This state with a change from `before` to `after` taken back: what the change did not touch stays as it is now. None
    /// if something that it did touch is neither as before nor as after it: somebody has set that since.
    pub fn taken_back(&self, before: &QueueState, after: &QueueState) -> Option<QueueState> {
        let one = |now: Option<&String>, before: Option<&String>, after: Option<&String>| {
            let kept = if before == after { now } else { before };
            let is_ours = before == after || now == before || now == after;
            is_ours.then(|| kept.cloned())
        };
        let all = |of: fn(&QueueState) -> &BTreeMap<String, String>| {
            let (now, before, after) = (of(self), of(before), of(after));
            let names = now.keys().chain(before.keys()).chain(after.keys());
            let mut values = BTreeMap::new();
            for name in names {
                let value = one(now.get(name), before.get(name), after.get(name))?;
                values.extend(value.map(|value| (name.clone(), value)));
            }
            Some(values)
        };
        let scheduler = |of: &QueueState| Some(of.scheduler.clone());
        let (now, then, later) = (scheduler(self), scheduler(before), scheduler(after));
        Some(QueueState {
            scheduler: one(now.as_ref(), then.as_ref(), later.as_ref())??,
            served: one(
                self.served.as_ref(),
                before.served.as_ref(),
                after.served.as_ref(),
            )?,
            nr_requests: one(
                self.nr_requests.as_ref(),
                before.nr_requests.as_ref(),
                after.nr_requests.as_ref(),
            )?,
            tunables: all(|state| &state.tunables)?,
            settings: all(|state| &state.settings)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_change_did_not_touch_stays_and_what_somebody_set_since_is_his() {
        let state = |scheduler: &str, tunable: &str, read_ahead: &str| QueueState {
            scheduler: scheduler.into(),
            tunables: [(tunable.to_owned(), "8".to_owned())].into(),
            settings: [("read_ahead_kb".to_owned(), read_ahead.to_owned())].into(),
            ..QueueState::default()
        };
        let (before, after) = (
            state("kyber", "read_lat", "128"),
            state("bfq", "slice", "128"),
        );
        let now = state("bfq", "slice", "4096");
        let back = now.taken_back(&before, &after);
        assert_eq!(back, Some(state("kyber", "read_lat", "4096")));
        let theirs = state("none", "", "128").taken_back(&before, &after);
        assert_eq!(theirs, None);
        let mut tuned = after.clone();
        tuned.tunables.insert("slice".into(), "0".into());
        assert_eq!(tuned.taken_back(&before, &after), None);
    }

    #[test]
    fn states_are_written_scheduler_depth_tunables_settings_throttling() {
        let state = QueueState {
            scheduler: "bfq".into(),
            served: None,
            nr_requests: Some("64".into()),
            tunables: [
                ("slice_idle", "8"),
                ("slice_idle_us", "8000"),
                ("strict_guarantees", "1"),
            ]
            .map(|(name, value)| (name.into(), value.into()))
            .into(),
            settings: [
                ("wbt_lat_usec", "0"),
                ("read_ahead_kb", "128"),
                ("iostats", "1"),
            ]
            .map(|(name, value)| (name.into(), value.into()))
            .into(),
        };
        let files: Vec<String> = state.files_in_order().map(|(file, _)| file).collect();
        assert_eq!(
            files,
            [
                "queue/nr_requests",
                "queue/iosched/strict_guarantees",
                "queue/iosched/slice_idle_us",
                "queue/iostats",
                "queue/read_ahead_kb",
                "queue/wbt_lat_usec",
            ]
        );
    }

    #[test]
    fn a_changed_scheduler_hides_what_differs_because_of_it() {
        let state = |scheduler: &str, depth: &str| QueueState {
            scheduler: scheduler.into(),
            nr_requests: Some(depth.into()),
            ..QueueState::default()
        };
        let differences = state("none", "128").differences(&state("bfq", "256"));
        assert_eq!(differences.len(), 1);
        assert_eq!(differences[0].file, "queue/scheduler");
        let differences = state("none", "128").differences(&state("none", "64"));
        assert_eq!(differences[0].file, "queue/nr_requests");
    }

    #[test]
    fn another_scheduler_inside_is_another_state() {
        let state = |served: &str| QueueState {
            scheduler: "none".into(),
            served: Some(served.into()),
            ..QueueState::default()
        };
        let differences = state("cfq").differences(&state("deadline"));
        assert_eq!(differences.len(), 1);
        assert_eq!(differences[0].file, "scheduler inside");
        assert_eq!(state("cfq").deciding(), "served/cfq");
        assert_eq!(state("cfq").differences(&state("cfq")), []);
    }
}
