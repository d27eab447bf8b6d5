//! Accesses of an open loop: each is made at its time, whatever the disk does.
//!
//! When more wait than there is [room] for, the trace's clock stands still until there is, and the account
//! says for how long.

use super::engine::Simulation;
use super::event_queue::PlannedEvent;
use super::room::{self, is_full};
use crate::block_layer::RequestQueue;
use crate::units::Time;

impl<Q: RequestQueue> Simulation<'_, Q> {
    pub(super) fn plan_arrival(&mut self) {
        if let Some((time, _)) = self.arrivals.due() {
            self.host.plan(time, PlannedEvent::Arrival);
        }
    }

    /// Makes what is due. Accesses of one process at one time are made in one go.
    #[inline(never)]
    pub(super) fn arrive(&mut self, now: Time) {
        while let Some((_, process)) = self.arrivals.due().filter(|(time, _)| *time <= now) {
            if is_full(self.host.accesses.unanswered()) {
                self.arrivals.is_held = true;
                return;
            }
            self.first.get_or_insert(now);
            self.host.processes[process].begin(now);
            let arrival = self.arrivals.take();
            let (accesses, bios) = self.host.accesses.unanswered();
            let bios = bios + self.host.bios_of(arrival.access.length);
            let goes_on = self.arrivals.due().is_some_and(|(time, other)| {
                time <= now && other == process && !is_full((accesses + 1, bios))
            });
            if goes_on {
                self.queue.plug(process);
            }
            self.submit(now, process, arrival.access);
            if !goes_on {
                self.queue.unplug(&mut self.host, now, process);
            }
        }
        if self.arrivals.next.is_some() {
            self.plan_arrival();
        } else {
            self.end_arrivals(now);
        }
    }

    /// After an answer there may be room again.
    #[inline]
    pub(super) fn go_on_with_room(&mut self, now: Time) {
        if self.arrivals.is_held {
            self.arrive_if_there_is_room(now);
        }
        if self.room.has_waiting() {
            self.wake_those_with_room(now);
        }
    }

    /// No more processes are woken than there is room for, if each makes an access of one bio.
    #[inline(never)]
    fn wake_those_with_room(&mut self, now: Time) {
        for _ in 0..room::left(self.host.accesses.unanswered()) {
            let Some(process) = self.room.take(now) else {
                return;
            };
            self.host.processes[process].waits_for_room = false;
            self.host.wake_at(now, process);
        }
    }

    #[inline(never)]
    fn arrive_if_there_is_room(&mut self, now: Time) {
        if !is_full(self.host.accesses.unanswered()) {
            self.arrivals.is_held = false;
            if let Some((time, _)) = self.arrivals.due() {
                self.arrivals.held_back += now.saturating_since(time);
                self.host.plan(now, PlannedEvent::Arrival);
            }
        }
    }

    /// Nothing more comes: who waits for nothing ends.
    fn end_arrivals(&mut self, now: Time) {
        for index in 0..self.host.processes.len() {
            if self.host.processes[index].end_arrivals() {
                self.host.wake_at(now, index);
            }
        }
    }
}
