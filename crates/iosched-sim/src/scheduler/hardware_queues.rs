//! Which hardware queue takes what a CPU submits.

/// The hardware queues of a device, shared out over the machine's CPUs: each has a run of CPUs that
/// follow one another (Linux `blk_mq_map_queues`), and there are no more of them than CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HardwareQueues {
    cpus: usize,
    queues: usize,
}

impl HardwareQueues {
    /// A single one, for all CPUs.
    pub(crate) const ONE: HardwareQueues = HardwareQueues { cpus: 1, queues: 1 };

    /// So many, for so many CPUs; at least one of each.
    pub(crate) fn new(queues: usize, cpus: usize) -> HardwareQueues {
        let cpus = cpus.max(1);
        HardwareQueues {
            cpus,
            queues: queues.clamp(1, cpus),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.queues
    }

    /// How many CPUs there are.
    pub(crate) fn cpus(&self) -> usize {
        self.cpus
    }

    /// The one that takes what this CPU submits.
    pub fn of_cpu(&self, cpu: u16) -> usize {
        if self.queues == 1 {
            return 0;
        }
        self.of_cpu_among_several(cpu)
    }

    #[inline(never)]
    fn of_cpu_among_several(&self, cpu: u16) -> usize {
        usize::from(cpu) % self.cpus * self.queues / self.cpus
    }
}

#[cfg(test)]
mod tests {
    use super::HardwareQueues;

    #[test]
    fn cpus_that_follow_one_another_share_a_queue() {
        let queues = |queues, cpus: u16| {
            let all = HardwareQueues::new(queues, cpus.into());
            (0..cpus).map(|cpu| all.of_cpu(cpu)).collect::<Vec<_>>()
        };
        assert_eq!(queues(1, 3), [0, 0, 0]);
        assert_eq!(queues(2, 5), [0, 0, 0, 1, 1]);
        assert_eq!(queues(4, 4), [0, 1, 2, 3]);
        assert_eq!(queues(128, 2), [0, 1], "no more than CPUs");
    }
}
