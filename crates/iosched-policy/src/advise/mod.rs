//! What each disk should have, said without measuring: from what was measured on this machine before, from what other
//! machines measured of such drives ([`elsewhere`]), and from `rules` of thumb. Nothing is changed.
//!
//! The answers are kept apart, because they are worth different things: a measurement here holds for this disk under its
//! load, one elsewhere for drives that are alike, with a prediction interval; a rule of thumb is what others say of such
//! disks. What simulations say ([`simulated`]) stands beside them and decides nothing.

pub mod elsewhere;
pub(crate) mod rules;
pub mod simulated;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use iosched_evidence::dataset;
use iosched_machine::command_line;
use iosched_machine::device::{Device, DeviceKind, Inventory, Role, User};
use iosched_machine::failure::Problem;
use iosched_machine::host::Host;
use iosched_sim::scheduler::KernelVersion;
use iosched_stats::Interval;
use serde::Serialize;

pub use iosched_evidence::load_class::LoadClass;

use self::elsewhere::Elsewhere;
pub use self::elsewhere::Evidence;
pub use self::rules::Source;
pub(crate) use self::rules::{Rule, Says, Seen};
use self::simulated::Simulated;
use crate::policy::evidence::{self, Stale};
use crate::policy::file::{self, Policy};
use crate::policy::matching::{self, KnownDisk};
use crate::policy::wanted;
use crate::policy::writers::{self, SCHEDULER, Writer, Writers};

/// What can be said of one disk.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// Kernel name.
    pub device: String,
    /// The directory on it that the user named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// What the device says that it is.
    pub model: Option<String>,
    /// In bytes.
    pub size_bytes: u64,
    /// The scheduler that it has.
    pub active: String,
    /// Those that it can have now.
    pub offered: Vec<String>,
    /// Who sets its scheduler at boot; nobody leaves it to the kernel.
    pub set_by: Option<Writer>,
    /// What was measured on it, and is kept in the policy.
    pub measured_here: Option<Measured>,
    /// What other machines measured of such drives; none where there is nothing of the kind.
    pub measured_elsewhere: Option<Elsewhere>,
    /// What is said of such disks.
    pub rule_of_thumb: RuleOfThumb,
    /// What simulated machines found on a disk model of this kind: no measurement, and nothing differs from it.
    pub simulated: Option<Simulated>,
    /// What it should have, where it has something else.
    pub differs: Option<Differs>,
    /// The command that measures which is best; none where there is nothing to settle.
    pub to_settle: Option<Command>,
}

/// That a disk has another scheduler than it should.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Differs {
    /// Each of these would do, with its tunables where it has any.
    pub should: Vec<String>,
    /// By what.
    pub by: Basis,
}

/// What is said of a disk that has another scheduler than it should, in brief.
#[derive(Debug, Clone, PartialEq)]
pub struct Differing {
    /// Each of these would do, with its tunables where it has any.
    pub should: Vec<String>,
    /// How many times as good as the active scheduler this machine may expect those of them that others measured beside it.
    pub expected: BTreeMap<String, Interval>,
}

/// What an answer rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A measurement on this machine.
    MeasuredHere,
    /// Measurements of other machines on such drives.
    MeasuredElsewhere,
    /// What others say of such disks.
    RuleOfThumb,
}

/// A command to be run by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Command {
    /// As a shell takes it.
    pub line: String,
    /// It makes files of its own in a directory, and removes them; otherwise it only reads.
    pub writes_files: bool,
}

/// A measurement that the policy rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Measured {
    /// The rule of the policy.
    pub rule: String,
    /// What was best.
    pub arm: String,
    /// Why, as the policy has it.
    pub why: Option<String>,
    /// Where its record is.
    pub record: Option<PathBuf>,
    /// What it rests on and has changed since.
    pub stale: Vec<Stale>,
    /// Nothing was kept of what it was measured on: whether it still holds cannot be told.
    pub is_unchecked: bool,
    /// The rule is for this disk by its identity, not for all that are like it.
    pub is_of_this_disk: bool,
    #[serde(skip)]
    scheduler: String,
}

/// A rule, as it is for one disk and one load class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleOfThumb {
    /// Its name.
    pub rule: &'static str,
    /// For which disks.
    pub of: &'static str,
    /// What for.
    pub load_class: LoadClass,
    /// What to take: several where the sources disagree, none where nothing is known.
    pub take: Vec<Proposed>,
    /// With another one, writes fail.
    pub is_required: bool,
    /// The cause, as a clause of the message.
    pub because: &'static str,
    /// Why it may be wrong.
    pub doubt: &'static str,
    /// Where it is from.
    pub sources: &'static [Source],
}

/// A scheduler that a rule names, under the name that it has on this kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Proposed {
    /// Its name here.
    pub scheduler: String,
    /// The disk offers it; otherwise its module is not loaded, or the kernel lacks it.
    pub is_offered: bool,
}

/// All disks of a machine whose scheduler can be chosen, loop devices left out: they are asked for by name.
pub fn disks(
    host: &Host,
    class: LoadClass,
    policy: &Policy,
    evidence: &mut Evidence<'_>,
) -> Result<Vec<Advice>, Problem> {
    let machine = Machine::read(host)?;
    let known = matching::disks(host)?;
    let all = known
        .iter()
        .map(|disk| machine.advise(disk, None, class, policy, evidence));
    Ok(all.collect())
}

/// One disk by its kernel name, and a directory on it if the user named one; nothing where there is no scheduler to choose.
pub fn disk(
    host: &Host,
    name: &str,
    directory: Option<&str>,
    class: LoadClass,
    policy: &Policy,
    evidence: &mut Evidence<'_>,
) -> Result<Option<Advice>, Problem> {
    let machine = Machine::read(host)?;
    let disk = matching::known(host, name)?;
    let is_scheduled = machine.inventory.role(&disk.device) == Role::Schedules;
    Ok(is_scheduled.then(|| machine.advise(&disk, directory, class, policy, evidence)))
}

/// Disks that have another scheduler than they should, by kernel name, with what they should have for a load of which
/// nothing is known. What cannot be read of the policy is not counted.
pub fn differing(host: &Host, inventory: &Inventory) -> HashMap<String, Differing> {
    let policy = file::read(host).ok().flatten();
    let policy = policy.map(|(policy, _)| policy).unwrap_or_default();
    let is_measured = policy.rules.iter().any(is_of_measurement);
    let known = is_measured.then(|| matching::disks(host).unwrap_or_default());
    let kernel = host.kernel_version();
    // What cannot be read of the evidence is not counted either: `advise` says so.
    let at = host.path(Path::new(dataset::DEFAULT));
    let rows = dataset::read(&at, elsewhere::wanted(inventory, LoadClass::General));
    let rows = rows.ok().flatten().unwrap_or_default();
    let mut evidence = Evidence::of(&rows, host, inventory, LoadClass::General);
    let disks = inventory.devices.iter().filter(|device| {
        device.kind != DeviceKind::Loop && inventory.role(device) == Role::Schedules
    });
    let differing = disks.filter_map(|device| {
        let known = known.iter().flatten();
        let known = known.clone().find(|known| known.device.name == device.name);
        let measured = known.and_then(|disk| measured(host, &policy, disk));
        device.schedulers.active()?;
        let judged = Judged::of(device, kernel, LoadClass::General, measured, &mut evidence);
        let differs = judged.differs?;
        let elsewhere = judged.elsewhere;
        let known = elsewhere.and_then(|elsewhere| elsewhere.known);
        let expected = known
            .filter(|_| differs.by == Basis::MeasuredElsewhere)
            .map(|known| known.expected_of(&differs.should));
        let differing = Differing {
            should: differs.should,
            expected: expected.unwrap_or_default(),
        };
        Some((device.name.clone(), differing))
    });
    differing.collect()
}

/// What is asked of all disks.
struct Machine<'a> {
    host: &'a Host,
    inventory: Inventory,
    kernel: Option<KernelVersion>,
    writers: Writers<'a>,
}

impl Machine<'_> {
    fn read(host: &Host) -> Result<Machine<'_>, Problem> {
        Ok(Machine {
            host,
            inventory: Inventory::read(host).map_err(|error| matching::not_listed(&error))?,
            kernel: host.kernel_version(),
            writers: Writers::of(host),
        })
    }

    fn advise(
        &self,
        disk: &KnownDisk,
        directory: Option<&str>,
        class: LoadClass,
        policy: &Policy,
        evidence: &mut Evidence<'_>,
    ) -> Advice {
        let writers = self.writers.at_boot(disk);
        let set_by = writers::winner(&writers, SCHEDULER);
        let set_by = set_by.or_else(|| writers::may_set(&writers, SCHEDULER).last());
        let measured = measured(self.host, policy, disk);
        let device = &disk.device;
        let active = device.schedulers.active().unwrap_or_default();
        let judged = Judged::of(device, self.kernel, class, measured, evidence);
        let is_required = judged.rule_of_thumb.is_required;
        let known = judged
            .elsewhere
            .as_ref()
            .and_then(|elsewhere| elsewhere.known.as_ref());
        let arms = known
            .map(|known| known.arms_to_measure(active))
            .unwrap_or_default();
        Advice {
            set_by: set_by.cloned(),
            to_settle: (!is_required && device.kind != DeviceKind::Optical).then(|| {
                let directory = directory.map(str::to_owned);
                to_settle(
                    device,
                    directory.or_else(|| self.directory_on(device)),
                    class,
                    &arms,
                )
            }),
            device: device.name.clone(),
            directory: directory.map(str::to_owned),
            model: device.model.clone(),
            size_bytes: device.size_bytes,
            active: active.to_owned(),
            offered: device.schedulers.offered().to_vec(),
            simulated: (!is_required)
                .then(|| Simulated::of(device, judged.rule, class, device.schedulers.offered()))
                .flatten(),
            measured_here: judged.measured,
            measured_elsewhere: judged.elsewhere,
            rule_of_thumb: judged.rule_of_thumb,
            differs: judged.differs,
        }
    }

    /// Where the largest file system that stands on this disk alone or with others is mounted and can be written.
    fn directory_on(&self, device: &Device) -> Option<String> {
        let above = self.inventory.above(device);
        let mounts = above
            .iter()
            .filter(|above| above.kind != DeviceKind::Loop || above.name == device.name);
        let mounts = mounts.flat_map(|above| {
            let users = self.inventory.usage.direct(&above.name).iter();
            users.filter_map(move |user| match user {
                User::Mount {
                    mount_point,
                    fs_type,
                    is_read_only: false,
                    ..
                } if !READ_ONLY.contains(&fs_type.as_str()) => {
                    Some((above.size_bytes, mount_point.to_str()?))
                }
                _ => None,
            })
        });
        // Of several mounts of one file system, the first.
        let largest = mounts.reduce(|best, next| if next.0 > best.0 { next } else { best });
        largest.map(|(_, at)| at.to_owned())
    }
}

/// A file system on the disk is measured in a directory; a bare disk is only read. No arms are all that it offers.
fn to_settle(
    device: &Device,
    directory: Option<String>,
    class: LoadClass,
    arms: &[String],
) -> Command {
    let loads: &[&str] = match class {
        LoadClass::General => &[],
        LoadClass::Database => &["pgbench"],
        LoadClass::Desktop => &["desktop"],
        LoadClass::Files => &["mixed"],
        LoadClass::Backup => &["readers-vs-writer"],
        LoadClass::Vm => &["mixed", "fairness"],
    };
    let mut words = vec!["iosched".to_owned(), "tune".to_owned()];
    let writes_files = directory.is_some();
    match directory {
        Some(directory) => {
            words.push(directory);
            words.extend(
                loads
                    .iter()
                    .flat_map(|load| ["--load".to_owned(), (*load).to_owned()]),
            );
        }
        None => words.push(device.name.clone()),
    }
    words.extend(
        arms.iter()
            .flat_map(|arm| ["--arms".to_owned(), arm.clone()]),
    );
    Command {
        line: command_line::joined(&words),
        writes_files,
    }
}

/// What the three sources say of a disk for one use, and whether it has something else.
struct Judged {
    rule: &'static Rule,
    rule_of_thumb: RuleOfThumb,
    measured: Option<Measured>,
    elsewhere: Option<Elsewhere>,
    differs: Option<Differs>,
}

impl Judged {
    fn of(
        device: &Device,
        kernel: Option<KernelVersion>,
        class: LoadClass,
        measured: Option<Measured>,
        evidence: &mut Evidence<'_>,
    ) -> Judged {
        let rule = Rule::of(&Seen { device, kernel });
        let offered = device.schedulers.offered();
        let active = device.schedulers.active().unwrap_or_default();
        let rule_of_thumb = RuleOfThumb::of(rule, class, offered);
        let elsewhere = evidence.on(device, active, offered);
        let differs = differs(
            active,
            offered,
            measured.as_ref(),
            elsewhere.as_ref(),
            &rule_of_thumb,
        );
        Judged {
            rule,
            rule_of_thumb,
            measured,
            elsewhere,
            differs,
        }
    }
}

/// File systems that nothing can be written to.
const READ_ONLY: [&str; 4] = ["squashfs", "iso9660", "erofs", "udf"];

impl RuleOfThumb {
    fn of(rule: &Rule, class: LoadClass, offered: &[String]) -> RuleOfThumb {
        let says = rule.says(class);
        let names: &[&str] = match &says {
            Says::Take(name) | Says::Only(name) => std::slice::from_ref(name),
            Says::OneOf(names) => names,
            Says::Unknown => &[],
        };
        RuleOfThumb {
            rule: rule.name,
            of: rule.of,
            load_class: class,
            take: names
                .iter()
                .filter_map(|name| proposed(name, offered))
                .collect(),
            is_required: matches!(says, Says::Only(_)),
            because: rule.because,
            doubt: rule.doubt,
            sources: rule.sources,
        }
    }
}

/// A scheduler under the name that this disk has for it: the single-queue block layer's were called otherwise, and
/// bfq comes from cfq. Nothing where that path has nothing of the kind.
fn proposed(name: &str, offered: &[String]) -> Option<Proposed> {
    let here = if iosched_switch::is_single_queue(offered) {
        iosched_switch::old_name(name)?
    } else {
        name
    };
    Some(Proposed {
        scheduler: here.to_owned(),
        is_offered: offered.iter().any(|offered| offered == here),
    })
}

/// What the policy has for this disk, if that was measured.
fn measured(host: &Host, policy: &Policy, disk: &KnownDisk) -> Option<Measured> {
    let wanted = wanted::wanted(policy, std::slice::from_ref(disk)).pop()?;
    let rule = &policy.rules[wanted.rule];
    if !is_of_measurement(rule) {
        return None;
    }
    let stale = rule.evidence.as_ref();
    Some(Measured {
        rule: rule.name.clone(),
        arm: wanted.arm.to_string(),
        why: rule.why.clone(),
        record: rule.record.clone(),
        stale: stale.map_or_else(Vec::new, |is| evidence::stale(host, &disk.device, is)),
        is_unchecked: rule
            .evidence
            .as_ref()
            .is_none_or(|is| *is == file::Evidence::default()),
        is_of_this_disk: rule.matching.is_of_identity(),
        scheduler: wanted.arm.scheduler.clone(),
    })
}

fn is_of_measurement(rule: &file::Rule) -> bool {
    rule.record.is_some() || rule.evidence.is_some()
}

/// What the disk should have and has not. What keeps the data whole goes before any measurement; one that does not hold
/// any more leaves it to what was measured elsewhere, and that, where it does not know the active scheduler, to the rule; what
/// a disk does not offer is nothing that it differs from.
fn differs(
    active: &str,
    offered: &[String],
    measured: Option<&Measured>,
    elsewhere: Option<&Elsewhere>,
    rule: &RuleOfThumb,
) -> Option<Differs> {
    let is_offered = |name: &String| offered.contains(name);
    let holds = measured.filter(|measured| {
        measured.stale.is_empty() && is_offered(&measured.scheduler) && !rule.is_required
    });
    let (should, by) = if let Some(measured) = holds {
        (vec![measured.scheduler.clone()], Basis::MeasuredHere)
    } else if let Some(known) = elsewhere
        .and_then(|elsewhere| elsewhere.known.as_ref())
        .filter(|known| known.judges(active) && !rule.is_required)
    {
        (
            known.should(active).unwrap_or_default(),
            Basis::MeasuredElsewhere,
        )
    } else {
        let names = rule.take.iter().map(|proposed| proposed.scheduler.clone());
        (names.filter(is_offered).collect(), Basis::RuleOfThumb)
    };
    let is_so = should.iter().any(|name| name == active);
    (!is_so && !should.is_empty()).then_some(Differs { should, by })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosched_machine::device::fixture::machine;

    fn of(machine_name: &str, class: LoadClass) -> Vec<Advice> {
        let host = machine(machine_name);
        let inventory = Inventory::read(&host).unwrap();
        let mut nothing = Evidence::of(&[], &host, &inventory, class);
        disks(&host, class, &Policy::default(), &mut nothing).unwrap()
    }

    #[test]
    fn a_single_queue_disk_is_advised_no_scheduler_of_the_other_block_layer() {
        let host = machine("legacy-4.4");
        let device = iosched_machine::device::find(&host, "sda").unwrap();
        let kernel = Some(KernelVersion::new(4, 19));
        let seen = Seen {
            device: &device,
            kernel,
        };
        let taken = |class, offered: &str| {
            let offered: Vec<String> = offered.split(' ').map(str::to_owned).collect();
            let rule = RuleOfThumb::of(Rule::of(&seen), class, &offered);
            let takes = rule.take.into_iter();
            takes
                .map(|take| (take.scheduler, take.is_offered))
                .collect::<Vec<_>>()
        };
        let is = |name: &str, is_offered| (name.to_owned(), is_offered);
        for (class, offered, expected) in [
            (
                LoadClass::General,
                "noop deadline cfq",
                vec![is("deadline", true), is("cfq", true)],
            ),
            // cfq may be a module that is not loaded; bfq cannot come to this disk.
            (
                LoadClass::General,
                "noop deadline",
                vec![is("deadline", true), is("cfq", false)],
            ),
            (LoadClass::Desktop, "noop deadline", vec![is("cfq", false)]),
            (LoadClass::Database, "noop cfq", vec![is("deadline", false)]),
            (
                LoadClass::General,
                "mq-deadline none",
                vec![is("mq-deadline", true), is("bfq", false)],
            ),
        ] {
            assert_eq!(taken(class, offered), expected, "{class:?} {offered}");
        }
        assert_eq!(proposed("kyber", &["noop".to_owned()]), None);
    }

    #[test]
    fn what_a_disk_does_not_offer_is_named_so_and_nothing_differs_from_it() {
        let disks = of("zoned", LoadClass::Desktop);
        let flash = disks.iter().find(|disk| disk.device == "sda").unwrap();
        assert!(flash.rule_of_thumb.take.iter().all(|take| !take.is_offered));
        assert_eq!(flash.differs, None);
    }

    #[test]
    fn a_zoned_disk_of_an_older_kernel_is_to_keep_its_order_whatever_it_is_for() {
        for class in LoadClass::ALL {
            let disks = of("zoned", class);
            let rule = |name: &str| {
                let disk = disks.iter().find(|disk| disk.device == name).unwrap();
                (disk.rule_of_thumb.rule, disk.rule_of_thumb.is_required)
            };
            assert_eq!(rule("sdb"), ("zoned-write-order", true));
            assert_eq!(rule("sdc"), ("zoned-write-order", true));
            assert!(
                disks
                    .iter()
                    .all(|disk| disk.device == "sda" || disk.to_settle.is_none())
            );
        }
    }
}
