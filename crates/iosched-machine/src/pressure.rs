//! I/O pressure: the time in which tasks waited for I/O (PSI).
//!
//! Follows `Documentation/accounting/psi.rst` (Linux 6.12). Kernels built without it, and those
//! before 4.20, have none.

use crate::host::Host;
use crate::lossy;

/// Totals since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    /// At least one task waited, µs.
    pub some_us: u64,
    /// All tasks that had something to do waited, µs.
    pub full_us: u64,
}

impl Pressure {
    /// Reads `/proc/pressure/io`, if there is one.
    pub fn read(host: &Host) -> Option<Pressure> {
        parse(&lossy::read(host.proc("pressure/io")).ok()?)
    }

    /// The same of memory.
    pub fn of_memory(host: &Host) -> Option<Pressure> {
        parse(&lossy::read(host.proc("pressure/memory")).ok()?)
    }
}

pub(crate) fn parse(text: &str) -> Option<Pressure> {
    let total = |kind: &str| {
        text.lines()
            .find(|line| line.starts_with(kind))?
            .rsplit_once("total=")?
            .1
            .parse()
            .ok()
    };
    Some(Pressure {
        some_us: total("some ")?,
        full_us: total("full ")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read() {
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=123\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=45\n";
        assert_eq!(
            parse(text),
            Some(Pressure {
                some_us: 123,
                full_us: 45
            })
        );
    }
}
