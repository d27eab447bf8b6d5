//! Rules of thumb: what people who make kernels, distributions and disks say of a class of disks, from whom it is, and
//! why one may doubt it.
//!
//! The first rule that holds for a disk counts. results/rules-of-thumb.md shows the table; a test keeps the two alike.

use iosched_evidence::load_class::LoadClass;
use iosched_machine::device::{Device, DeviceKind, Member, Transport};
use iosched_sim::scheduler::KernelVersion;
use iosched_switch::only_in_order;
use serde::Serialize;

/// What a rule says for a load class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    /// Take this one.
    Take(&'static str),
    /// Take no other: with another one, writes fail.
    Only(&'static str),
    /// The sources disagree, and these are what they name.
    OneOf(&'static [&'static str]),
    /// Nothing.
    Unknown,
}

/// Where a rule is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Who says it.
    pub who: &'static str,
    /// What it says.
    pub what: &'static str,
    /// Where to read it.
    pub url: &'static str,
}

/// A rule of thumb.
#[derive(Debug)]
pub(crate) struct Rule {
    /// What it is called in `--json` and in results/rules-of-thumb.md.
    pub name: &'static str,
    /// For which disks.
    pub of: &'static str,
    holds: fn(&Seen<'_>) -> bool,
    /// For a load of which nothing is known.
    general: Says,
    /// Where a load class has something else.
    but: &'static [(LoadClass, Says)],
    /// The cause, as a clause of the message.
    pub because: &'static str,
    /// Why it may be wrong.
    pub doubt: &'static str,
    /// Where it is from.
    pub sources: &'static [Source],
}

/// What is known of a disk without measuring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    /// As sysfs describes it.
    pub device: &'a Device,
    /// Version of the kernel.
    pub kernel: Option<KernelVersion>,
}

impl Rule {
    /// The rule for a disk.
    pub(crate) fn of(seen: &Seen<'_>) -> &'static Rule {
        let rule = RULES.iter().find(|rule| (rule.holds)(seen));
        rule.expect("the last rule holds for every disk")
    }

    pub(crate) fn says(&self, class: LoadClass) -> Says {
        let special = self.but.iter().find(|(of, _)| *of == class);
        special.map_or(self.general, |(_, says)| *says)
    }
}

const KERNEL_DEFAULT: Source = Source {
    who: "Linux",
    what: "mq-deadline is the default where a device has one hardware queue, none where it has several",
    url: "https://github.com/torvalds/linux/blob/v6.12/block/elevator.c",
};
const RHEL: Source = Source {
    who: "RHEL 10 guide",
    what: "mq-deadline suits most uses, bfq desktops; NVMe is to stay at none",
    url: "https://docs.redhat.com/en/documentation/red_hat_enterprise_linux/10/html/monitoring_and_managing_system_status_and_performance/setting-the-disk-scheduler",
};
const SUSE: Source = Source {
    who: "SUSE's 60-io-scheduler.rules",
    what: "bfq for rotational disks with one hardware queue; hands off zoned disks",
    url: "https://documentation.suse.com/sled/15-SP6/html/SLED-all/cha-tuning-io.html",
};
const RHEL_GUESTS: Source = Source {
    who: "RHEL 7 virtualization guide",
    what: "noop often helps guests, since the host sees the requests of all; not with iSCSI or a passed-through device; \
           deadline on the host",
    url: "https://access.redhat.com/documentation/en-us/red_hat_enterprise_linux/7/html/virtualization_tuning_and_optimization_guide/sect-virtualization_tuning_optimization_guide-io-scheduler-guest",
};
const ICPE: Source = Source {
    who: "Ren et al., ICPE 2024",
    what: "on fast NVMe drives schedulers cost up to 63 % of the throughput; kyber and bfq cut p99 by up to 99 % beside \
           interfering loads",
    url: "https://doi.org/10.1145/3629526.3645053",
};
const POP_OS: Source = Source {
    who: "Pop!_OS",
    what: "kyber for NVMe and SATA flash, against stutter of the desktop; bfq for hard disks",
    url: "https://github.com/pop-os/default-settings/pull/149",
};
const CACHY_OS: Source = Source {
    who: "CachyOS",
    what: "from none to kyber for NVMe, back after regressions in benchmarks, and to kyber again",
    url: "https://github.com/CachyOS/CachyOS-Settings/pull/220",
};
const SYSTEMD: Source = Source {
    who: "systemd's discussion of bfq as default",
    what: "its author recommends bfq for SD cards and eMMC; closed without data",
    url: "https://github.com/systemd/systemd/pull/13321",
};
const ZONE_LOCKING: Source = Source {
    who: "Linux 4.16",
    what: "mq-deadline: Introduce zone locking support",
    url: "https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/commit/?id=5700f69178e91a6b21250049b86148ed5e9550c1",
};

const ZONE_PLUGS: Source = Source {
    who: "Linux 6.10",
    what: "the block layer orders the writes to a zone itself (zone write plugging)",
    url: "https://github.com/torvalds/linux/blob/v6.10/block/blk-zoned.c",
};

const OPEN_ZFS: Source = Source {
    who: "OpenZFS",
    what: "it has an I/O scheduler of its own, and set noop or none on whole disks by itself up to 0.8",
    url: "https://openzfs.github.io/openzfs-docs/Performance%20and%20Tuning/ZIO%20Scheduler.html",
};

/// All rules, in the order in which they are asked.
pub(crate) static RULES: &[Rule] = &[
    Rule {
        name: "zoned-write-order",
        of: "zoned disks, Linux 4.16 to 6.9",
        holds: |seen| only_in_order(seen.device.zoned.as_deref(), seen.kernel).is_some(),
        general: Says::Only("mq-deadline"),
        but: &[],
        because: "a zone takes writes in order only, and in these kernels mq-deadline alone keeps them so",
        doubt: "none about the order; how fast it is, is another question",
        sources: &[ZONE_LOCKING, ZONE_PLUGS],
    },
    Rule {
        name: "zoned",
        of: "zoned disks on other kernels",
        holds: |seen| seen.device.zoned.is_some(),
        general: Says::OneOf(&["mq-deadline", "none"]),
        but: &[],
        because: "since Linux 6.10 the block layer orders the writes to a zone itself, under any scheduler; mq-deadline sorts by sector",
        doubt: "nobody has compared schedulers since",
        sources: &[SUSE, ZONE_PLUGS],
    },
    Rule {
        name: "zfs",
        of: "members of ZFS pools",
        holds: |seen| seen.device.member.as_ref().is_some_and(Member::is_zfs),
        general: Says::Take("none"),
        but: &[],
        because: "ZFS sorts its requests and limits how many of each kind a disk has at a time",
        doubt: "what else uses the disk, beside the pool, is sorted by nobody",
        sources: &[OPEN_ZFS],
    },
    Rule {
        name: "loop",
        of: "loop devices",
        holds: |seen| seen.device.kind == DeviceKind::Loop,
        general: Says::Take("none"),
        but: &[],
        because: "the disk that holds the file schedules the same requests again",
        doubt: "the processes are known above the loop device only: bfq tells them apart there and not below",
        sources: &[Source {
            who: "Linux 5.14",
            what: "loop: Select I/O scheduler 'none' from inside add_disk()",
            url: "https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/log/drivers/block/loop.c?h=v5.14",
        }],
    },
    Rule {
        name: "memory",
        of: "memory, and disks served by a program or another machine (pmem, zram, nbd, rbd)",
        holds: |seen| {
            matches!(
                seen.device.kind,
                DeviceKind::Memory
                    | DeviceKind::Zram
                    | DeviceKind::Network
                    | DeviceKind::Zvol
                    | DeviceKind::Drbd
                    | DeviceKind::Bcache
            )
        },
        general: Says::Unknown,
        but: &[],
        because: "what serves it can be anything",
        doubt: "no source is known",
        sources: &[],
    },
    Rule {
        name: "optical",
        of: "CD, DVD and BD drives, floppies",
        holds: |seen| matches!(seen.device.kind, DeviceKind::Optical | DeviceKind::Floppy),
        general: Says::Unknown,
        but: &[],
        because: "one reader at a time leaves nothing to choose between",
        doubt: "no source is known",
        sources: &[],
    },
    Rule {
        name: "virtual",
        of: "disks of a hypervisor (virtio, Xen, Hyper-V, VMware, EBS)",
        holds: |seen| seen.device.is_virtual(),
        general: Says::Take("none"),
        but: &[],
        because: "the host schedules the requests of all its guests, and knows the disk below",
        doubt: "sources disagree (mq-deadline is common, too), and a guest's processes are known in the guest only",
        sources: &[RHEL_GUESTS, KERNEL_DEFAULT],
    },
    Rule {
        name: "san",
        of: "disks on a storage network (Fibre Channel, NVMe-oF), and multipath maps",
        holds: |seen| {
            seen.device.kind == DeviceKind::Multipath
                || matches!(
                    seen.device.transport,
                    Transport::FibreChannel | Transport::NvmeFabrics
                )
        },
        general: Says::Take("none"),
        but: &[],
        because: "the array orders the requests of all its hosts behind a cache",
        doubt: "said of flash arrays; an array of hard disks may do better with mq-deadline",
        sources: &[Source {
            who: "Pure Storage",
            what: "noop, today's none, for FlashArray",
            url: "https://support.purestorage.com/Solutions/Linux/Linux_Reference/Linux_Recommended_Settings",
        }],
    },
    Rule {
        name: "iscsi",
        of: "disks over iSCSI",
        holds: |seen| seen.device.transport == Transport::Iscsi,
        general: Says::OneOf(&["mq-deadline", "none"]),
        but: &[],
        because: "the target may be an array with a cache, or one disk",
        doubt: "what stands behind it is not seen from here",
        sources: &[RHEL_GUESTS, KERNEL_DEFAULT],
    },
    Rule {
        name: "raid-controller",
        of: "volumes of a RAID controller",
        holds: |seen| is_raid_volume(seen.device),
        general: Says::OneOf(&["none", "mq-deadline"]),
        but: &[],
        because: "the controller has a cache, knows its disks and orders their requests",
        doubt: "from one drive type each; a controller gives no process its share, as bfq does",
        sources: &[
            Source {
                who: "Dell",
                what: "none for NVMe drives behind PERC: mq-deadline costs small I/O",
                url: "https://www.dell.com/support/kbdoc/000443257",
            },
            Source {
                who: "F. Eigler",
                what: "noop faster than cfq on a PERC 5/i with hard disks (one run each)",
                url: "http://web.elastic.org/~fche/blog4/posts/blog-0314",
            },
        ],
    },
    Rule {
        name: "slow-flash",
        of: "USB sticks, SD cards and eMMC",
        holds: |seen| {
            let is_usb = seen.device.transport == Transport::Usb;
            seen.device.transport == Transport::Mmc || (is_usb && seen.device.removable)
        },
        general: Says::Take("bfq"),
        but: &[],
        because: "the disk is slow and takes few requests at once: who writes a lot keeps all others waiting",
        doubt: "sticks are taken for slow because most are; the discussion that it rests on ended without data",
        sources: &[SYSTEMD],
    },
    Rule {
        name: "usb-disk",
        of: "other disks over USB",
        holds: |seen| seen.device.transport == Transport::Usb,
        general: Says::OneOf(&["mq-deadline", "bfq"]),
        but: &[],
        because: "a case for a drive tells little of the drive: whether it rotates, how much it takes at once",
        doubt: "bfq helps a slow drive, and a minute's hang with it was reported of a fast one",
        sources: &[
            KERNEL_DEFAULT,
            Source {
                who: "CachyOS, issue 50",
                what: "bfq made a SATA drive in a USB case hang",
                url: "https://github.com/CachyOS/CachyOS-Settings/issues/50",
            },
        ],
    },
    Rule {
        name: "nvme",
        of: "NVMe drives",
        holds: |seen| seen.device.transport == Transport::Nvme,
        general: Says::Take("none"),
        but: &[
            (LoadClass::Desktop, Says::OneOf(&["none", "kyber"])),
            (LoadClass::Vm, Says::OneOf(&["none", "kyber"])),
        ],
        because: "the drive takes hundreds of requests at once, and a scheduler costs processor time for each",
        doubt: "where several loads compete, kyber holds read latency down; distributions went back and forth without data",
        sources: &[ICPE, RHEL, KERNEL_DEFAULT, POP_OS, CACHY_OS],
    },
    Rule {
        name: "hard-disk",
        of: "hard disks (SATA, SAS, SCSI)",
        holds: |seen| is_scsi(seen.device) && seen.device.rotational == Some(true),
        general: Says::OneOf(&["mq-deadline", "bfq"]),
        but: &[
            (LoadClass::Database, Says::Take("mq-deadline")),
            (LoadClass::Desktop, Says::Take("bfq")),
            (LoadClass::Vm, Says::Take("mq-deadline")),
        ],
        because: "bfq gives each process its turn at a disk that seeks; mq-deadline sorts all requests and bounds their \
                  wait",
        doubt: "whether the disk rotates is what it reports; figures are rare, and mostly of single runs",
        sources: &[SUSE, RHEL, RHEL_GUESTS, KERNEL_DEFAULT],
    },
    Rule {
        name: "flash",
        of: "flash drives (SATA, SAS, SCSI, UFS)",
        holds: |seen| {
            seen.device.transport == Transport::Ufs
                || (is_scsi(seen.device) && seen.device.rotational == Some(false))
        },
        general: Says::Take("mq-deadline"),
        but: &[
            (LoadClass::Database, Says::OneOf(&["mq-deadline", "none"])),
            (LoadClass::Desktop, Says::OneOf(&["bfq", "kyber"])),
        ],
        because: "it takes some 32 requests at once (SATA) or a few hundred (SAS): enough that writes delay reads",
        doubt: "distributions differ (mq-deadline, bfq, kyber), and none has published figures with intervals",
        sources: &[KERNEL_DEFAULT, RHEL, POP_OS],
    },
    Rule {
        name: "unknown",
        of: "all others",
        holds: |_| true,
        general: Says::Unknown,
        but: &[],
        because: "it says too little of itself to know what it is",
        doubt: "no source is known",
        sources: &[],
    },
];

fn is_scsi(device: &Device) -> bool {
    let is_on_bus = matches!(
        device.transport,
        Transport::Sata | Transport::Sas | Transport::Scsi
    );
    device.kind == DeviceKind::Disk && is_on_bus
}

/// True of what a controller makes of its disks, by its driver or by what it calls the volume.
fn is_raid_volume(device: &Device) -> bool {
    const MODELS: [&str; 7] = [
        "LOGICAL VOLUME",
        "Logical Disk", // 3ware 5000 to 8000
        "3ware",
        "PERC ",
        "ServeRAID",
        "MR9",
        "RAID",
    ];
    const VENDORS: [&str; 2] = ["3ware", "AMCC"]; // AMCC bought 3ware
    let model = device.model.as_deref().unwrap_or_default();
    let vendor = device.vendor.as_deref().unwrap_or_default();
    device.transport == Transport::RaidController
        || VENDORS.contains(&vendor)
        || MODELS.iter().any(|known| model.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::matching;
    use crate::system_config::testing::{Disk, machine};

    #[test]
    fn disks_of_controllers_and_hypervisors_are_known_by_what_they_call_themselves() {
        for (device, vendor, model, rule) in [
            ("sda", "3ware", "Logical Disk 00", "raid-controller"),
            ("sda", "ATA", "3ware Logical Disk", "raid-controller"),
            ("sda", "AMCC", "9650SE-4LP DISK", "raid-controller"),
            ("sda", "AIX", "VDASD", "virtual"),
            ("sda", "IBM", "VDASD NVDISK", "virtual"),
            ("nvme0n1", "", "nvme_card-pd", "virtual"),
            ("nvme0n1", "", "nvme_card", "unknown"),
            ("sda", "ATA", "ACME 4000", "unknown"),
        ] {
            let disk = Disk::new(device)
                .file("device/vendor", vendor)
                .file("device/model", model);
            let (_dir, host) = machine(&[disk]);
            let disk = &matching::disks(&host).unwrap()[0];
            let seen = Seen {
                device: &disk.device,
                kernel: None,
            };
            assert_eq!(Rule::of(&seen).name, rule, "{vendor} {model}");
        }
    }

    #[test]
    fn every_rule_but_the_unknown_ones_has_a_source_and_every_name_is_once() {
        let mut names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
        for rule in RULES {
            let knows = LoadClass::ALL
                .iter()
                .any(|&class| rule.says(class) != Says::Unknown);
            assert_eq!(knows, !rule.sources.is_empty(), "{}", rule.name);
            assert!(!rule.because.is_empty() && !rule.doubt.is_empty());
        }
    }

    /// A row of the table in results/rules-of-thumb.md.
    fn row(rule: &Rule) -> String {
        let says = |class| match rule.says(class) {
            Says::Take(name) => name.to_owned(),
            Says::Only(name) => format!("only {name}"),
            Says::OneOf(names) => names.join(" or "),
            Says::Unknown => "unknown".to_owned(),
        };
        let cells = LoadClass::ALL.map(says).join(" | ");
        format!("| `{}` | {} | {cells} |", rule.name, rule.of)
    }

    #[test]
    fn the_documented_table_is_this_one() {
        let documented = include_str!("../../../../results/rules-of-thumb.md");
        let rows: Vec<&str> = documented
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        let expected: Vec<String> = RULES.iter().map(row).collect();
        assert_eq!(rows, expected, "write these rows:\n{}", expected.join("\n"));
        for rule in RULES {
            for text in [rule.because, rule.doubt] {
                assert!(documented.contains(text), "{}: {text}", rule.name);
            }
            for source in rule.sources {
                assert!(documented.contains(source.url), "{}", source.url);
                assert!(documented.contains(source.what), "{}", source.what);
            }
        }
    }
}
