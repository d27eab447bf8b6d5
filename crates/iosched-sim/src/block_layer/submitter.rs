//! A process as the block layer sees it: the requests in its plug, and the bios that it sleeps with until
//! there is a request or tag for them.

use std::collections::VecDeque;

use super::{Outputs, Token, trace_plug};
use crate::request::{Action, Bio, RequestId, Requests};
use crate::scheduler::TagLimit;
use crate::units::{Sectors, Time};

/// A request of this length ends a plug.
const PLUG_LENGTH: Sectors = Sectors::new(256); // 128 KiB

#[derive(Debug, Default)]
pub(super) struct Submitter {
    /// Where it runs.
    pub(super) cpu: u16,
    /// Requests that it holds back, in the order of their submission.
    pub(super) plug: Vec<RequestId>,
    pub(super) plugged: bool,
    /// Bios that wait for a free request.
    pub(super) blocked: VecDeque<(Bio, Token)>,
    /// Which tags the first of them may have.
    pub(super) tag_limit: Option<TagLimit>,
}

impl Submitter {
    /// Holds a request of this process back.
    pub(super) fn hold(
        &mut self,
        out: &mut impl Outputs,
        now: Time,
        process: usize,
        id: RequestId,
    ) {
        if self.plug.is_empty() {
            trace_plug(out, now, Action::Plugged, process);
        }
        self.plug.push(id);
    }

    /// True if the process sleeps because there was no free request for one of its bios.
    pub(super) fn is_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// One for each process; these are dealt out over so many CPUs.
    pub(super) fn many(processes: usize, cpus: usize) -> Vec<Submitter> {
        let on_cpu = |process: usize| Submitter {
            cpu: u16::try_from(process % cpus).unwrap_or(u16::MAX),
            ..Submitter::default()
        };
        (0..processes).map(on_cpu).collect()
    }

    /// True if the process sleeps until there is a request of this kind.
    pub(super) fn waits_for(&self, sync: bool) -> bool {
        let first = self.blocked.front();
        first.is_some_and(|(bio, _)| bio.sync == sync)
    }

    /// True if the plug is to be let go before it takes one more: it holds `most`, or this one of it is long.
    pub(super) fn is_full(
        &self,
        requests: &Requests,
        most: usize,
        looked_at: Option<RequestId>,
    ) -> bool {
        let long = looked_at.is_some_and(|id| requests[id].length >= PLUG_LENGTH);
        self.plug.len() >= most || long
    }
}
