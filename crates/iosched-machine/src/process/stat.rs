//! `/proc/PID/stat` (`proc_pid_stat(5)`): whose child a process is, and when it started.

use crate::host::Host;

/// What we want to know of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// Its parent; 0 where that is outside of our pid namespace.
    pub parent: i32,
    /// Clock ticks from boot to its start: with its number, tells it from every other process of this boot.
    pub start_ticks: u64,
    /// It has ended, and its parent has not asked how. With more than one thread only the first has.
    pub is_zombie: bool,
    /// A signal stopped it.
    pub(super) is_stopped: bool,
    /// Its threads, with those that have ended and are still there.
    pub(super) threads: u32,
    /// `PF_*` of the kernel's `linux/sched.h`.
    pub(super) flags: u64,
}

impl ProcessStat {
    /// Of this process; `None` if there is none.
    pub fn read(host: &Host, pid: impl Into<i64>) -> Option<ProcessStat> {
        ProcessStat::read_below(host, &pid.into().to_string())
    }

    /// Of the process that has this directory in `/proc`: its number, or `self`.
    pub(super) fn read_below(host: &Host, directory: &str) -> Option<ProcessStat> {
        let path = host.proc(&format!("{directory}/stat"));
        // Processes are the running machine's: a copied tree is asked for none, and what stands there is the kernel's.
        let text = std::fs::read(path).ok()?;
        ProcessStat::parse(&String::from_utf8_lossy(&text))
    }

    /// Fields 3, 4, 9, 20 and 22. The command (field 2) may hold anything, so count from its closing parenthesis.
    fn parse(stat: &str) -> Option<ProcessStat> {
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        Some(ProcessStat {
            is_zombie: matches!(state, "Z" | "X"),
            is_stopped: state == "T",
            parent: fields.next()?.parse().ok()?,
            flags: fields.nth(4)?.parse().ok()?,
            threads: fields.nth(10)?.parse().ok()?,
            start_ticks: fields.nth(1)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_from_the_end_of_the_command_whatever_it_is_called() {
        let fields = (5..22).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        for (state, is_zombie) in [("S", false), ("Z", true)] {
            let stat = ProcessStat::parse(&format!("7 (a) b) {state} 3 {fields} 4711 9\n"));
            let expected = ProcessStat {
                parent: 3,
                start_ticks: 4711,
                is_zombie,
                is_stopped: false,
                threads: 20,
                flags: 9,
            };
            assert_eq!(stat, Some(expected));
        }
        assert_eq!(ProcessStat::parse("7 (a) S 3"), None);
    }

    #[test]
    fn a_process_is_one_whatever_bytes_its_name_has() {
        let dir = tempfile::tempdir().unwrap();
        let process = dir.path().join("proc/7");
        std::fs::create_dir_all(&process).unwrap();
        let fields = (5..22).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        let text = [b"7 (\xff\xfe) S 3 ", fields.as_bytes(), b" 4711 9\n"].concat();
        std::fs::write(process.join("stat"), text).unwrap();
        let stat = ProcessStat::read(&Host::at(dir.path()), 7);
        assert_eq!(stat.map(|stat| stat.start_ticks), Some(4711));
    }
}
