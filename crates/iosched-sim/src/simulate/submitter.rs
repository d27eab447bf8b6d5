//! What a process has on its way to the block layer: requests that its plug holds back, and bios that
//! sleep with it.

use std::collections::VecDeque;

use super::access::AccessId;
use super::host::Host;
use crate::request::{Bio, RequestId, Requests};
use crate::trace::kernel::Action;
use crate::units::{Sectors, Time};

/// A request of this length ends a plug.
const PLUG_LENGTH: Sectors = Sectors::new(256); // 128 KiB

/// See the [module's page](self).
#[derive(Debug, Default)]
pub(super) struct Submitter {
    /// Requests that it holds back, in the order of their submission.
    pub(super) plug: Vec<RequestId>,
    pub(super) plugged: bool,
    /// Bios that wait for a request to be had.
    pub(super) blocked: VecDeque<(Bio, AccessId)>,
}

impl Submitter {
    /// Holds a request of this process back.
    pub(super) fn hold(&mut self, host: &mut Host<'_>, now: Time, process: usize, id: RequestId) {
        if self.plug.is_empty() {
            host.tell_plug(now, Action::Plugged, process);
        }
        self.plug.push(id);
    }

    /// True if the process sleeps because there was no free request for a bio of its.
    pub(super) fn is_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// One for each process.
    pub(super) fn many(processes: usize) -> Vec<Submitter> {
        (0..processes).map(|_| Submitter::default()).collect()
    }

    /// True if the process sleeps until there is a request of this kind.
    pub(super) fn waits_for(&self, sync: bool) -> bool {
        let first = self.blocked.front();
        first.is_some_and(|(bio, _)| bio.sync == sync)
    }

    /// True if the plug is to be let go before it takes one more: it holds `most`, or a long one.
    pub(super) fn is_full(&self, requests: &Requests, most: usize) -> bool {
        let last = self.plug.last();
        let long = last.is_some_and(|&last| requests[last].length >= PLUG_LENGTH);
        self.plug.len() >= most || long
    }
}
