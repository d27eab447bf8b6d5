//! What other machines measured of drives that are alike: the narrowest of model, family and class of which enough is known
//! on this kernel series. Kernels are not mixed.

use std::collections::{BTreeMap, BTreeSet};

use iosched_evidence::drive;
use iosched_evidence::pool::{Answer, Finding, Groups, Level, Price, Question, SideNumber};
use iosched_evidence::row::{Row, Source, Text};
use iosched_machine::device::{Device, DeviceKind, Inventory};
use iosched_machine::host::Host;
use iosched_stats::Interval;
use serde::Serialize;

use super::LoadClass;

/// What is known from other machines of a disk.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Elsewhere {
    /// What they say; none if too little is known on this kernel series.
    pub known: Option<Known>,
    /// Machines that measured anything of such drives on this series.
    pub machines: usize,
}

/// What enough machines say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Known {
    /// Of which drives, under what, and what they found.
    #[serde(flatten)]
    pub finding: Finding,
    /// What may be taken, the best by its mean first.
    pub proposed: Vec<ProposedArm>,
    /// The ratio to the active scheduler of the first of them that the disk offers.
    pub against_active: Option<Interval>,
    /// What machines say of the same drives by other objectives, where that is something else.
    pub otherwise: Vec<Otherwise>,
}

/// An arm that other machines found good.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProposedArm {
    /// The scheduler with its tunables, as `tune --arms` takes them.
    pub arm: Text,
    /// The scheduler alone.
    pub scheduler: String,
    /// The disk offers it.
    pub is_offered: bool,
    /// How many times as good it is as the active scheduler: what the next machine may expect. None if it is that scheduler
    /// itself, or if too few machines measured both.
    pub against_active: Option<Interval>,
    /// In what it is worse than the active scheduler, beside what decides, where that is proven or large; than the finding's
    /// reference where it is that scheduler itself, or where no machine compared them so.
    pub prices: Vec<Price>,
}

impl ProposedArm {
    /// Whether p99 latency is surely much longer under it than under the active scheduler.
    fn has_surely_long_latencies(&self, active: &str) -> bool {
        let mut prices = self.prices.iter();
        prices.any(|price| {
            price.number == SideNumber::P99 && *price.against == *active && price.is_surely_large()
        })
    }
}

/// What another objective says of the same drives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Otherwise {
    /// Which.
    pub objective: Text,
    /// How many machines measured it.
    pub machines: usize,
    /// Whether it tells arms apart.
    pub answer: Answer,
    /// What may be taken by it, the best first.
    pub proposed: Vec<Text>,
    /// Arms of the first objective that are worse than the active scheduler by this one (by the interval of the mean).
    pub against: Vec<Text>,
}

impl Known {
    /// The arms that the disk offers and that are each surely better on this machine, too, than the active scheduler, worse by
    /// no objective, and without a p99 latency that is surely much longer; none if the disk has one of the best, or none is known to be better.
    pub(super) fn should(&self, active: &str) -> Option<Vec<String>> {
        if self.proposed.iter().any(|arm| arm.scheduler == active) {
            return None;
        }
        let is_worse = |arm: &ProposedArm| {
            self.otherwise
                .iter()
                .any(|it| it.against.contains(&arm.arm))
        };
        let is_better = |arm: &&ProposedArm| {
            arm.is_offered && arm.against_active.is_some_and(|ratio| ratio.lower > 1.0)
        };
        let better = self.proposed.iter().filter(is_better);
        let better = better.filter(|arm| !is_worse(arm) && !arm.has_surely_long_latencies(active));
        let better: Vec<String> = better.map(|arm| arm.arm.to_string()).collect();
        (!better.is_empty()).then_some(better)
    }

    /// The ratios of these arms to the active scheduler, as far as they are known.
    pub(super) fn expected_of(&self, arms: &[String]) -> BTreeMap<String, Interval> {
        let asked = self
            .proposed
            .iter()
            .filter(|arm| arms.contains(&arm.arm.to_string()));
        let ratios = asked.filter_map(|arm| Some((arm.arm.to_string(), arm.against_active?)));
        ratios.collect()
    }

    /// True if the active scheduler was measured as it comes, or is one of the best as it was tuned: no rule of thumb is
    /// needed to judge it.
    pub(super) fn judges(&self, active: &str) -> bool {
        let has = |arm: &str| arm == active;
        let measured = self.finding.arms.iter().filter(|arm| arm.ratio.is_some());
        has(&self.finding.reference)
            || measured.into_iter().any(|arm| has(&arm.arm))
            || self.proposed.iter().any(|arm| arm.scheduler == active)
    }

    /// The arms to measure where the best is tuned: `tune` by itself compares schedulers as they come.
    pub(super) fn arms_to_measure(&self, active: &str) -> Vec<String> {
        let offered = self.proposed.iter().filter(|arm| arm.is_offered);
        let arms: Vec<String> = offered.map(|arm| arm.arm.to_string()).collect();
        if arms.iter().all(|arm| scheduler_of(arm) == arm) {
            return Vec::new();
        }
        let mut all = vec![active.to_owned()];
        all.extend(arms.into_iter().filter(|arm| arm != active));
        all
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
pub fn wanted(inventory: &Inventory, used_for: LoadClass) -> impl Fn(&Row) -> bool + use<> {
    let classes: BTreeSet<String> = inventory.devices.iter().map(class).collect();
    move |row| {
        row.source == Source::Measured
            && *row.load_class == *used_for.name()
            && classes.contains(&row.class())
    }
}

fn class(device: &Device) -> String {
    drive::class(
        &device.transport.to_string(),
        device.rotational,
        device.is_virtual(),
    )
}

/// Groups of drives: how much alike, which, and of what class.
type Drives = (Level, Text, Text);

/// The groups of a disk, from the narrowest; none of a drive whose media are taken out.
fn groups_of(device: &Device) -> Vec<Drives> {
    if matches!(device.kind, DeviceKind::Optical | DeviceKind::Floppy) {
        return Vec::new();
    }
    let model = drive::tidy(device.model.as_deref().unwrap_or_default());
    let class = class(device);
    let of = |level: Level| {
        let drive = level.of_drive(&model, &class)?;
        Some((level, drive, Text::from(&*class)))
    };
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
        let wanted: BTreeSet<Drives> = inventory.devices.iter().flat_map(groups_of).collect();
        let is_wanted = |question: &Question| {
            question.source == Source::Measured
                && *question.load_class == *used_for.name()
                && wanted.contains(&drives_of(question))
        };
        let version = host.kernel_version();
        Evidence {
            groups: Groups::of(rows, is_wanted),
            // Of 6.12.43 as rows have it: 6.12.
            series: version.map_or(String::new(), |version| {
                let version = version.to_string();
                version.split('.').take(2).collect::<Vec<_>>().join(".")
            }),
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
        };
        let mut is_there = false;
        // Those of the narrowest group that compares schedulers at all, and of the narrowest that knows the active one.
        let mut narrowest: Option<Vec<Finding>> = None;
        let mut knowing: Option<Vec<Finding>> = None;
        for group in groups_of(device) {
            let is_of_drive = |question: &&Question| drives_of(question) == group;
            let questions = self.groups.questions().filter(is_of_drive);
            let questions: Vec<Question> = questions.cloned().collect();
            is_there |= !questions.is_empty();
            let here: Vec<Question> = questions
                .into_iter()
                .filter(|question| *question.kernel == *self.series)
                .collect();
            let machines = here.iter().map(|question| self.groups.machines(question));
            elsewhere.machines = machines.max().unwrap_or(0).max(elsewhere.machines);
            if knowing.is_none() {
                let found = here.iter().filter_map(|it| self.groups.finding(it));
                let found: Vec<Finding> = found.filter(compares_schedulers).collect();
                if found.iter().any(|finding| is_judged(finding, active)) {
                    knowing = Some(found);
                } else if narrowest.is_none() && !found.is_empty() {
                    narrowest = Some(found);
                }
            }
        }
        elsewhere.known = knowing
            .or(narrowest)
            .and_then(|found| self.known(found, active, offered));
        is_there.then_some(elsewhere)
    }

    /// What the findings of one group say, each by another objective: the one that most machines have measured answers, and
    /// the others stand beside it where they say something else.
    fn known(
        &mut self,
        mut found: Vec<Finding>,
        active: &str,
        offered: &[String],
    ) -> Option<Known> {
        found.sort_by(|a, b| {
            let machines = b.machines.cmp(&a.machines);
            let is_judged = || is_judged(b, active).cmp(&is_judged(a, active));
            machines
                .then_with(is_judged)
                .then_with(|| a.question.cmp(&b.question))
        });
        let mut found = found.into_iter();
        let finding = found.next()?;
        let proposed = finding.candidates().iter().map(|arm| {
            let scheduler = scheduler_of(arm);
            let is_active = scheduler == active;
            let pooled = (!is_active)
                .then(|| self.groups.compare(&finding.question, arm, active))
                .flatten();
            ProposedArm {
                arm: arm.clone(),
                scheduler: scheduler.to_owned(),
                is_offered: offered.iter().any(|offered| offered == scheduler),
                against_active: pooled.and_then(|pooled| Some(pooled.prediction?.exp())),
                prices: prices(&self.groups, &finding, arm, active),
            }
        });
        let proposed: Vec<ProposedArm> = proposed.collect();
        let otherwise = found.filter(|other| other.candidates() != finding.candidates());
        let otherwise = otherwise.map(|other| {
            let is_worse = |arm: &&ProposedArm| {
                let pooled = self.groups.compare(&other.question, &arm.arm, active);
                pooled.is_some_and(|pooled| pooled.mean.upper < 0.0)
            };
            let worse = proposed.iter().filter(is_worse);
            Otherwise {
                against: worse.map(|arm| arm.arm.clone()).collect(),
                proposed: other.candidates().to_vec(),
                objective: other.question.objective,
                machines: other.machines,
                answer: other.answer,
            }
        });
        let otherwise = otherwise.collect();
        let first = proposed.iter().find(|arm| arm.is_offered);
        Some(Known {
            against_active: first.and_then(|arm| arm.against_active),
            finding,
            proposed,
            otherwise,
        })
    }
}

/// What an arm costs, beside the active scheduler where machines compared them so.
fn prices(groups: &Groups<'_>, finding: &Finding, arm: &str, active: &str) -> Vec<Price> {
    let others = [active, &finding.reference];
    let others = others.into_iter().filter(|other| *other != arm);
    let mut found = others.filter_map(|other| groups.prices(&finding.question, arm, other));
    found.next().unwrap_or_default()
}

fn drives_of(question: &Question) -> Drives {
    (
        question.level,
        question.drive.clone(),
        question.class.clone(),
    )
}

/// The arms of which enough is known.
fn known_arms(finding: &Finding) -> impl Iterator<Item = &Text> {
    let measured = finding.arms.iter().filter(|arm| arm.ratio.is_some());
    std::iter::once(&finding.reference).chain(measured.map(|arm| &arm.arm))
}

/// False where variants of one scheduler alone were compared, which says nothing of the others.
fn compares_schedulers(finding: &Finding) -> bool {
    let schedulers: BTreeSet<&str> = known_arms(finding).map(|arm| scheduler_of(arm)).collect();
    finding.is_known() && schedulers.len() > 1
}

/// Whether the active scheduler is one of those that were compared.
fn is_judged(finding: &Finding, active: &str) -> bool {
    known_arms(finding).any(|arm| scheduler_of(arm) == active)
}

/// The scheduler of an arm, whose tunables stand behind it.
fn scheduler_of(arm: &str) -> &str {
    arm.split(':').next().unwrap_or(arm)
}

#[cfg(test)]
mod tests {
    use iosched_evidence::fixture::{Fleet, Size};
    use iosched_machine::device::fixture::machine;

    use super::*;

    /// A row of a machine of this number: how many times as good an arm is as another on the workstation's NVMe drive.
    fn row(number: usize, arm: &str, against: &str, ratio: f64) -> Row {
        Row {
            record: format!("{number:032x}").into(),
            machine: format!("{number:016x}").into(),
            model: NVME.into(),
            transport: "nvme".into(),
            rotational: Some(false),
            kernel: "6.12.4".into(),
            load_class: "general".into(),
            arm: arm.into(),
            against: against.into(),
            log_ratio: ratio.ln(),
            standard_error: 0.01,
            ..example()
        }
    }

    const NVME: &str = "Samsung SSD 980 PRO 1TB";

    fn example() -> Row {
        let size = Size {
            machines: 1,
            models: 1,
            loads: 1,
        };
        Fleet::new(1, size).rows.remove(0)
    }

    /// What rows say of the workstation's NVMe drive, where this scheduler is active.
    fn on_nvme(rows: &[Row], active: &str) -> Known {
        let host = machine("workstation");
        let inventory = Inventory::read(&host).unwrap();
        let devices = &inventory.devices;
        let device = devices.iter().find(|it| it.name == "nvme0n1").unwrap();
        let offered = ["none", "mq-deadline", "kyber", "bfq"].map(str::to_owned);
        let mut device = device.clone();
        device.model = Some(NVME.to_owned());
        let mut evidence = Evidence::of(rows, &host, &inventory, LoadClass::General);
        evidence
            .on(&device, active, &offered)
            .unwrap()
            .known
            .unwrap()
    }

    fn each(ratios: &[f64], arm: &str, against: &str) -> Vec<Row> {
        let rows = ratios.iter().enumerate();
        rows.map(|(number, ratio)| row(number, arm, against, *ratio))
            .collect()
    }

    #[test]
    fn an_arm_that_is_good_as_it_was_tuned_is_proposed_with_its_tunables() {
        let tuned = each(
            &[1.30, 1.31, 1.29, 1.3, 1.3, 1.32],
            "bfq:low_latency=0",
            "none",
        );
        let plain = each(&[0.5, 0.51, 0.49, 0.5, 0.52, 0.5], "bfq", "none");
        let known = on_nvme(&[tuned, plain].concat(), "none");
        assert_eq!(
            known.should("none"),
            Some(vec!["bfq:low_latency=0".to_owned()])
        );
        assert!(known.proposed[0].is_offered);
        assert_eq!(known.arms_to_measure("none"), ["none", "bfq:low_latency=0"]);
    }

    #[test]
    fn each_scheduler_that_a_disk_should_have_is_surely_better_itself() {
        let kyber = each(&[1.30; 8], "kyber", "none");
        let spread = [0.4, 2.5, 0.5, 2.0, 1.0, 1.0, 0.7, 1.43].map(|off| 1.25 * off);
        let bfq = each(&spread, "bfq", "none");
        let known = on_nvme(&[kyber, bfq].concat(), "none");
        let proposed: Vec<&str> = known.proposed.iter().map(|arm| &*arm.arm).collect();
        assert_eq!(proposed, ["kyber", "bfq"], "{known:?}");
        assert_eq!(known.should("none"), Some(vec!["kyber".to_owned()]));
    }

    #[test]
    fn variants_of_one_scheduler_do_not_hide_what_is_known_of_more_drives() {
        let variants = each(&[1.02; 5], "bfq:low_latency=0", "bfq");
        let of_others = (100..109).map(|number| Row {
            model: "OTHER 1TB".into(),
            ..row(number, "bfq", "none", 0.5)
        });
        let rows: Vec<Row> = variants.into_iter().chain(of_others).collect();
        let known = on_nvme(&rows, "bfq");
        assert_eq!(known.finding.question.level, Level::Class, "{known:?}");
        assert_eq!(known.should("bfq"), Some(vec!["none".to_owned()]));
    }

    #[test]
    fn what_the_same_model_does_behind_another_bridge_says_nothing_whatever_else_the_machine_has() {
        let here = each(&[1.3; 6], "kyber", "none");
        let over_usb = (10..16).map(|number| Row {
            transport: "usb".into(),
            ..row(number, "kyber", "none", 0.5)
        });
        let rows: Vec<Row> = here.into_iter().chain(over_usb).collect();
        let known = on_nvme(&rows, "none");
        assert_eq!(known.finding.machines, 6);
        assert_eq!(known.should("none"), Some(vec!["kyber".to_owned()]));
    }

    #[test]
    fn objectives_that_say_otherwise_are_named_and_none_of_them_is_overruled() {
        let by = |objective: &str, ratio: f64| {
            let rows = each(&[ratio; 6], "kyber", "none").into_iter();
            rows.map(|row| Row {
                objective: objective.into(),
                ..row
            })
            .collect::<Vec<_>>()
        };
        let known = on_nvme(&[by("p99", 1.3), by("throughput", 0.8)].concat(), "none");
        let [other] = &known.otherwise[..] else {
            panic!("{known:?}")
        };
        assert_eq!(
            (&*other.objective, &*other.proposed),
            ("throughput", &["none".into()][..])
        );
        assert_eq!(known.should("none"), None, "{known:?}");
        let known = on_nvme(&[by("p99", 1.3), by("throughput", 1.2)].concat(), "none");
        assert!(known.otherwise.is_empty(), "{known:?}");
        assert_eq!(known.should("none"), Some(vec!["kyber".to_owned()]));
    }

    #[test]
    fn what_an_arm_costs_beside_the_active_one_is_there_and_long_latencies_are_nothing_to_change_for()
     {
        let rows_of = |p99: f64, against: &str| {
            let rows = each(&[1.5; 6], "bfq", against).into_iter();
            let rows = rows.map(|row| Row {
                p99_ratio: Some(p99),
                cpu_ratio: Some(1.3),
                ..row
            });
            rows.collect::<Vec<_>>()
        };
        let numbers = |known: &Known| {
            let prices = known.proposed[0].prices.iter();
            let prices = prices.map(|price| (price.number, price.against.to_string()));
            prices.collect::<Vec<_>>()
        };
        let both = |against: &str| {
            let against = || against.to_owned();
            vec![(SideNumber::P99, against()), (SideNumber::Cpu, against())]
        };
        let known = on_nvme(&rows_of(12.0, "none"), "none");
        assert_eq!(numbers(&known), both("none"));
        assert_eq!(known.should("none"), None, "{known:?}");
        let known = on_nvme(&rows_of(1.2, "none"), "none");
        assert_eq!(numbers(&known), both("none"));
        assert_eq!(known.should("none"), Some(vec!["bfq".to_owned()]));
        // Where the active one was not compared, or is that arm, the one that all are compared with.
        for active in ["kyber", "bfq"] {
            let known = on_nvme(&rows_of(12.0, "none"), active);
            assert_eq!(numbers(&known), both("none"), "{active}");
        }
    }
}
