//! The part that can be exchanged: how bios get from a process to the disk.
//!
//! What lies on both sides of it is the same for every kind of block layer: processes submit bios and
//! wait for accesses (`process`), and a disk takes commands and completes them (`drive`). A path
//! reaches both, the agenda and the onlooker through the [`Host`].

use super::access::AccessId;
use super::host::Host;
use crate::request::Bio;
use crate::units::Time;

/// A kernel's way from a bio to a command.
///
/// Processes are named by their index among the host's.
pub(super) trait Path {
    /// The process is about to submit several bios: they are held back until it [`Path::unplug`]s.
    fn plug(&mut self, process: usize);

    /// A bio of the access is submitted: merged, made a request, or blocked until there is a free
    /// request.
    fn submit(&mut self, host: &mut Host<'_>, now: Time, process: usize, bio: &Bio, of: AccessId);

    /// What was acknowledged is to be on the medium of a disk with a volatile cache. The access has
    /// no sectors, and is answered when that is so.
    fn flush(&mut self, host: &mut Host<'_>, now: Time, process: usize, of: AccessId);

    /// There are so many asynchronous requests that writeback is to hold back.
    fn is_congested(&self) -> bool;

    /// What the process held back goes on its way.
    fn unplug(&mut self, host: &mut Host<'_>, now: Time, process: usize);

    /// True if the process sleeps because there was no free request for a bio of its.
    fn is_blocked(&self, process: usize) -> bool;

    /// The process was woken: bios for which there was no free request are tried again.
    fn resume(&mut self, host: &mut Host<'_>, now: Time, process: usize);

    /// The command with this tag is completed.
    fn completed(&mut self, host: &mut Host<'_>, now: Time, tag: u64);

    /// A worker runs the queue, as was planned.
    fn run_queue(&mut self, _host: &mut Host<'_>, _now: Time) {}

    /// This processor is through with a step of its work, as was planned.
    fn processed(&mut self, _host: &mut Host<'_>, _now: Time, _processor: usize) {}

    /// When it wants [`Path::timer`] to be called.
    fn next_timer(&self) -> Option<Time>;

    /// Its timer fired.
    fn timer(&mut self, host: &mut Host<'_>, now: Time);

    /// The process ended.
    fn exited(&mut self, host: &mut Host<'_>, now: Time, process: usize);
}
