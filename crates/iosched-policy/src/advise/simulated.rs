//! What simulated machines found on the disk model that stands for a disk: the set that ships with the program. It is no
//! measurement and judges no disk; where nothing else is known it says what a measurement may find.

use iosched_evidence::pool::{Finding, Groups, Level, Price, Question};
use iosched_evidence::simulated;
use iosched_machine::device::Device;
use serde::Serialize;

use super::{LoadClass, Proposed, Rule, proposed};

/// What is known of a disk model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Simulated {
    /// Of which model, under what, and what was found.
    #[serde(flatten)]
    pub finding: Finding,
    /// Its schedulers to take, as the disk has them.
    pub proposed: Vec<Proposed>,
    /// In what they are worse than the finding's reference, beside what decides, where that is proven or large.
    pub prices: Vec<Price>,
}

impl Simulated {
    /// What stands for a disk of this rule; none where no disk model does, and where it has the single-queue layer's schedulers,
    /// which are not simulated there.
    pub(super) fn of(
        device: &Device,
        rule: &Rule,
        class: LoadClass,
        offered: &[String],
    ) -> Option<Simulated> {
        if iosched_switch::is_single_queue(offered) {
            return None;
        }
        let model = model_of(device, rule)?;
        let is_wanted = |question: &Question| {
            question.level == Level::Model
                && *question.drive == *model
                && *question.load_class == *class.name()
        };
        let mut groups = Groups::of(simulated::rows(), is_wanted);
        let mut findings = groups.findings().into_iter();
        let finding = findings.find(Finding::is_known)?;
        let take = || finding.candidates().iter();
        let prices = take().filter(|arm| **arm != finding.reference);
        let prices = prices
            .filter_map(|arm| groups.prices(&finding.question, arm, &finding.reference))
            .flatten();
        Some(Simulated {
            prices: prices.collect(),
            proposed: take().filter_map(|arm| proposed(arm, offered)).collect(),
            finding,
        })
    }
}

/// The disk model that stands for a disk: of a kind that is modelled, and whose commands the disk alone orders.
fn model_of(device: &Device, rule: &Rule) -> Option<&'static str> {
    /// SATA's native command queueing.
    const QUEUES: u32 = 31;
    Some(match rule.name {
        "hard-disk" if device.queue_depth.is_some_and(|depth| depth < QUEUES) => "hdd-7200-fifo",
        "hard-disk" => "hdd-7200",
        "flash" => "ssd-sata",
        "nvme" => "ssd-nvme",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use iosched_evidence::row::Source;
    use iosched_machine::device::Inventory;
    use iosched_machine::device::fixture::machine;

    use super::*;
    use crate::advise::Seen;

    #[test]
    fn disks_whose_commands_something_else_orders_have_no_model_and_the_others_that_of_their_kind()
    {
        let mut models: BTreeMap<&str, BTreeMap<Option<&str>, u32>> = BTreeMap::new();
        for name in iosched_testing::machine_tree::names() {
            let host = machine(&name);
            let inventory = Inventory::read(&host).unwrap();
            for device in &inventory.devices {
                let kernel = host.kernel_version();
                let rule = Rule::of(&Seen { device, kernel });
                let model = model_of(device, rule);
                let of_rule = models.entry(rule.name).or_default();
                *of_rule.entry(model).or_default() += 1;
                let found = Simulated::of(device, rule, LoadClass::General, &[]);
                assert_eq!(found.is_some(), model.is_some());
                assert!(
                    found.is_none_or(|found| found.finding.question.source == Source::Simulated)
                );
            }
        }
        let of = |rule: &str| models[rule].keys().copied().collect::<Vec<_>>();
        assert_eq!(of("nvme"), [Some("ssd-nvme")]);
        assert_eq!(of("flash"), [Some("ssd-sata")]);
        assert!(of("hard-disk").contains(&Some("hdd-7200")));
        for rule in [
            "virtual",
            "usb-disk",
            "loop",
            "optical",
            "zoned-write-order",
        ] {
            assert_eq!(of(rule), [None], "{rule}");
        }
    }
}
