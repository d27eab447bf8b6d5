//! What other machines measured of drives that are alike: the narrowest of model, family and class of which enough is known
//! on this kernel series. Kernels are not mixed: what is known of others is named, and not used.

use std::collections::BTreeSet;

use iosched_evidence::dataset::RowFilter;
use iosched_evidence::drive;
use iosched_evidence::pool::{Finding, Groups, Level, Question};
use iosched_evidence::row::{Row, Source, Text};
use iosched_machine::device::{Device, Inventory, Kind};
use iosched_machine::host::Host;
use iosched_stats::Interval;
use serde::Serialize;

use super::{LoadClass, Proposed};

/// What is known from other machines of a disk.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Elsewhere {
    /// What they say; none if too little is known on this kernel series.
    pub known: Option<Known>,
    /// Machines that measured anything of such drives on this series.
    pub machines: usize,
    /// Other series on which enough is known of such drives.
    pub other_kernels: Vec<Text>,
}

/// What enough machines say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Known {
    /// Of which drives, under what, and what they found.
    #[serde(flatten)]
    pub finding: Finding,
    /// Its schedulers to take, as this disk has them.
    pub proposed: Vec<Proposed>,
    /// How many times as good the first of them that the disk offers is as the active scheduler: what the next machine may
    /// expect. None if it is that, or if too few machines measured both.
    pub against_active: Option<Interval>,
}

impl Known {
    /// The schedulers that the disk offers, if it has another one that is surely worse on this machine, too; none if it is
    /// not known to be.
    pub(super) fn should(&self) -> Option<Vec<String>> {
        let is_better = self.against_active.is_some_and(|ratio| ratio.lower > 1.0);
        let offered = self.proposed.iter().filter(|proposed| proposed.is_offered);
        is_better.then(|| offered.map(|proposed| proposed.scheduler.clone()).collect())
    }

    /// True if the active scheduler was measured, so that no rule of thumb is needed to judge it.
    pub(super) fn judges(&self, active: &str) -> bool {
        let is_active = |arm: &str| scheduler_of(arm) == active;
        let measured = self.finding.arms.iter().filter(|arm| arm.ratio.is_some());
        is_active(&self.finding.reference) || measured.into_iter().any(|arm| is_active(&arm.arm))
    }
}

/// The evidence that there is for the disks of a machine.
#[derive(Debug)]
pub struct Evidence<'a> {
    groups: Groups<'a>,
    /// The kernel's series.
    series: String,
}

/// What of a dataset says something of the disks of a machine, used for something.
pub fn wanted(inventory: &Inventory, used_for: LoadClass) -> RowFilter {
    RowFilter {
        classes: Some(inventory.devices.iter().map(class).collect()),
        measured: Some(used_for),
    }
}

fn class(device: &Device) -> String {
    drive::class(
        &device.transport.to_string(),
        device.rotational,
        device.is_virtual(),
    )
}

/// The groups of a disk, from the narrowest; none of a drive whose media are taken out.
fn groups_of(device: &Device) -> Vec<(Level, Text)> {
    if matches!(device.kind, Kind::Optical | Kind::Floppy) {
        return Vec::new();
    }
    let model = drive::tidy(device.model.as_deref().unwrap_or_default());
    let class = class(device);
    let of = |level: Level| Some((level, level.of_drive(&model, &class)?));
    Level::ALL.into_iter().filter_map(of).collect()
}

impl<'a> Evidence<'a> {
    /// What rows say of the disks of a machine, used for something.
    pub fn of(
        rows: &'a [Row],
        host: &Host,
        inventory: &Inventory,
        used_for: LoadClass,
    ) -> Evidence<'a> {
        let wanted: BTreeSet<(Level, Text)> =
            inventory.devices.iter().flat_map(groups_of).collect();
        let is_wanted = |question: &Question| {
            question.source == Source::Measured
                && *question.load_class == *used_for.name()
                && wanted.contains(&(question.level, question.drive.clone()))
        };
        let version = host.kernel_version();
        Evidence {
            groups: Groups::of(rows, is_wanted),
            series: version.map_or(String::new(), |version| version.to_string()),
        }
    }

    /// What it says of a disk; none if it has nothing of such drives.
    pub(super) fn on(
        &mut self,
        device: &Device,
        active: &str,
        offered: &[String],
    ) -> Option<Elsewhere> {
        let mut elsewhere = Elsewhere {
            known: None,
            machines: 0,
            other_kernels: Vec::new(),
        };
        let mut is_there = false;
        for (level, drive) in groups_of(device) {
            let is_of_drive =
                |question: &&Question| question.level == level && question.drive == drive;
            let questions: Vec<Question> = self
                .groups
                .questions()
                .filter(is_of_drive)
                .cloned()
                .collect();
            is_there |= !questions.is_empty();
            let (here, others): (Vec<_>, Vec<_>) = questions
                .into_iter()
                .partition(|question| *question.kernel == *self.series);
            // By several objectives: the one that most machines have measured.
            let mut here: Vec<(usize, Question)> = here
                .into_iter()
                .map(|question| (self.groups.machines(&question), question))
                .collect();
            here.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
            elsewhere.machines = here
                .first()
                .map_or(0, |(machines, _)| *machines)
                .max(elsewhere.machines);
            if elsewhere.known.is_none() {
                elsewhere.known = here
                    .iter()
                    .find_map(|(_, question)| self.known(question, active, offered));
            }
            for question in others {
                let is_known = self
                    .groups
                    .finding(&question)
                    .is_some_and(|found| found.is_known());
                if is_known && !elsewhere.other_kernels.contains(&question.kernel) {
                    elsewhere.other_kernels.push(question.kernel);
                }
            }
        }
        is_there.then_some(elsewhere)
    }

    fn known(&mut self, question: &Question, active: &str, offered: &[String]) -> Option<Known> {
        let finding = self.groups.finding(question).filter(Finding::is_known)?;
        let mut proposed: Vec<Proposed> = Vec::new();
        for arm in &finding.take {
            let scheduler = scheduler_of(arm);
            if proposed.iter().all(|other| other.scheduler != scheduler) {
                proposed.push(Proposed {
                    scheduler: scheduler.to_owned(),
                    is_offered: offered.iter().any(|offered| offered == scheduler),
                });
            }
        }
        let is_offered = |arm: &&Text| offered.iter().any(|name| name == scheduler_of(arm));
        let best = finding
            .take
            .iter()
            .find(is_offered)
            .filter(|arm| scheduler_of(arm) != active);
        let against_active = best.and_then(|arm| self.groups.compare(question, arm, active));
        Some(Known {
            against_active: against_active.and_then(|pooled| Some(pooled.prediction?.exp())),
            finding,
            proposed,
        })
    }
}

/// The scheduler of an arm, whose tunables stand behind it.
fn scheduler_of(arm: &str) -> &str {
    arm.split(':').next().unwrap_or(arm)
}

#[cfg(test)]
mod tests {
    use iosched_evidence::dataset::{self, Dataset};
    use iosched_evidence::fixture::{Fleet, Size};
    use iosched_machine::device::testing::machine;

    use super::*;

    /// A fleet of NVMe drives under two classes of loads: a machine with such drives has the rows of its class of loads decoded,
    /// one without them none.
    #[test]
    fn no_row_is_decoded_that_says_nothing_of_the_machine_and_its_loads() {
        let size = Size {
            machines: 700,
            models: 4,
            loads: 2,
        };
        let rows = Fleet::new(1, size).rows;
        let dir = tempfile::tempdir().unwrap();
        dataset::add(dir.path(), &dataset::pseudonyms(dir.path()).unwrap(), &rows).unwrap();
        let decoded = |name: &str, used_for: LoadClass| {
            let inventory = Inventory::read(&machine(name)).unwrap();
            let read = Dataset::read(dir.path(), &wanted(&inventory, used_for)).unwrap();
            assert_eq!(read.decoded, read.rows.len() as u64);
            read.decoded
        };
        let of_load = rows.len() as u64 / 2;
        assert_eq!(decoded("workstation", LoadClass::General), of_load);
        assert_eq!(decoded("workstation", LoadClass::Database), of_load);
        assert_eq!(decoded("workstation", LoadClass::Desktop), 0);
        assert_eq!(decoded("legacy-4.4", LoadClass::General), 0);
    }
}
