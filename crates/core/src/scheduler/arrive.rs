//! Jobs come, come to rest and go.

use std::time::Duration;

use super::{
    LOCKED_FIRST, LOCKED_LONGEST, Reply, Scheduler, Settled,
    lanes::{Lane, Rank},
    rows::{Extra, Ties, clamp},
    table::Index,
};
use crate::{
    after::Verdict,
    backlog::{New, Place, Slot},
    calendar::GivenTime,
    job::{Fence, JobHead, JobId, JobState},
    settings::{OnError, Pause},
    time::Timestamp,
};

impl Scheduler {
    pub(super) fn take_in(&mut self, now: Timestamp, head: &mut JobHead) {
        self.take_in_for(now, head, false);
    }

    /// `pays`: a job in a node's hands costs what it would if it had been picked here just now.
    pub(super) fn take_in_for(&mut self, now: Timestamp, head: &mut JobHead, pays: bool) {
        let queue = self.queue(now, &head.queue);
        head.due = self.due_of(queue, GivenTime::from(&*head));
        let due = head.due.unwrap_or(Timestamp::MAX);
        let stuck = head.state == JobState::Stuck;
        let mut ran_in = None;
        if let Some(slot) = self.backlog.find(head.id) {
            let (fence, place) = (self.backlog.fence(slot), self.backlog.place(slot));
            // Within one fence a job goes from a node's hands to rest and never back, so older news is recognised. A pick is in
            // flight to the store, and the store's reply will be newer than a row that still is as it was picked.
            let older = match place {
                Place::Picked => true,
                Place::Assigned => false,
                _ => head.state.assigned(),
            };
            let same = !head.state.assigned()
                && !matches!(place, Place::Assigned | Place::Manual)
                && head.due.is_some()
                && self.extras.get(&slot).is_none_or(|extra| extra.locked == 0)
                && (self.backlog.due(slot), self.backlog.stuck(slot)) == (clamp(due), stuck);
            // The store's reply to the pick is still to come.
            let picked = place == Place::Picked && head.state.assigned() && head.fence == fence.next();
            if head.fence < fence || (head.fence == fence && (older || same)) || picked {
                return;
            }
            let in_flight = matches!(place, Place::Picked | Place::Assigned);
            ran_in = (in_flight && head.fence.edits() > fence.edits()).then(|| self.queue_of(slot));
            self.drop_slot(now, slot);
        }
        let task = self.task(now, &head.task);
        let kind = self.kind(queue, task);
        let group = self.group(queue, &head.group, now);
        let key = head.key.as_ref().map(|key| self.key(now, key));
        let slot = self.backlog.insert(New {
            id: head.id,
            seq: head.seq,
            fence: head.fence,
            due,
            priority: head.priority.get(),
            stuck,
            kind,
            group,
        });
        let owner = self.groups[group].owner;
        self.count_job(queue, owner);
        self.count(slot, Ties { kind, queue, task, group, owner, key });
        if self.queues[queue].jobs == 1 && self.queues[queue].settings.sealed.is_some() {
            // The queue was finished until now, or seemed so while this job was placed anew: queues that wait for it wait again.
            self.refresh_queues_after(now, queue);
        }
        let JobHead { crashes, expires, args_bytes, .. } = *head;
        if key.is_some() || crashes > 0 || expires.is_some() || args_bytes > 0 || ran_in.is_some() {
            self.extras.insert(slot, Extra { key, crashes, locked: 0, expires, args_bytes, ran_in });
        }
        if head.state.assigned() {
            let seat = head.node.and_then(|node| self.fleet.find(node));
            let ties = self.ties(slot);
            let charged = if pays { self.pay(now, ties) } else { Duration::ZERO };
            self.enter_flight(now, slot, ties, seat, Place::Assigned, charged);
            self.refresh_queue(now, queue);
            self.refresh_limited(now, ties.owner);
        } else {
            let begun = head.fence.was_assigned() && self.queues[queue].serial();
            match head.awaits.take() {
                Some(awaits) if awaits.verdict() != Verdict::Run => self.wait_for_jobs(slot, *awaits),
                _ => self.put_to_rest(now, slot, head.due, begun),
            }
        }
    }

    /// An unfinished job out of nodes' hands: ready when due, else waiting for its time or for a person. In a serial
    /// queue a job that has begun holds the line, unless it is stuck and the line goes on without it.
    pub(super) fn put_to_rest(&mut self, now: Timestamp, slot: Slot, due: Option<Timestamp>, begun: bool) {
        let queue = self.queue_of(slot);
        let holds = begun && !(self.backlog.stuck(slot) && self.queues[queue].settings.on_error != OnError::Block);
        let other = self.queues[queue].begun;
        self.watch_expiry(slot);
        if holds && other.is_none_or(|other| self.backlog.by_seq(slot, other)) {
            self.queues[queue].begun = Some(slot);
            // Several had begun, before the queue was serial: the first of them holds the line, the others stand in it.
            if let Some(other) =
                other.filter(|&other| self.backlog.place(other) == Place::Ready && !self.is_suspect(other))
            {
                let backlog = &self.backlog;
                self.queues[queue].line.push(other, |a, b| backlog.by_seq(a, b));
            }
        }
        match due {
            None => {
                self.backlog.set_place(slot, Place::Manual);
                self.refresh_queue(now, queue);
            }
            Some(due) if due > now => {
                self.put_future(slot);
                self.refresh_queue(now, queue);
            }
            Some(_) => self.put_ready(now, slot),
        }
    }

    fn put_future(&mut self, slot: Slot) {
        self.backlog.set_place(slot, Place::Future);
        self.times.put_future(&self.backlog, slot);
    }

    pub(super) fn put_ready(&mut self, now: Timestamp, slot: Slot) {
        self.backlog.set_place(slot, Place::Ready);
        let (kind, group) = self.backlog.kind_and_group(slot);
        let (queue, class) = (self.kinds[kind].queue, self.kinds[kind].class());
        if self.is_suspect(slot) {
            self.suspects.add(slot);
            return;
        }
        if self.queues[queue].serial() {
            let backlog = &self.backlog;
            if self.queues[queue].begun != Some(slot) {
                self.queues[queue].line.push(slot, |a, b| backlog.by_seq(a, b));
            }
            return self.refresh_queue(now, queue);
        }
        let rank = Rank::of(&self.backlog, slot);
        let lanes = &mut self.groups[group].lanes;
        match lanes.as_mut_slice().iter_mut().find(|lane| (lane.kind, lane.rank) == (kind, rank)) {
            Some(lane) => lane.push(&mut self.backlog, slot),
            None => {
                let mut lane = Lane::new(kind, rank);
                lane.push(&mut self.backlog, slot);
                lanes.push(lane);
            }
        }
        if !self.groups[group].entered.as_slice().iter().any(|entered| entered.class == class) {
            self.refresh_group(now, group);
        }
    }

    pub(super) fn forget(&mut self, now: Timestamp, id: JobId) {
        if let Some(slot) = self.backlog.find(id) {
            self.drop_slot(now, slot);
        }
        self.awaited_ended(now, id, false);
    }

    /// The job is gone, or about to be placed anew: gives back whatever it held.
    pub(super) fn drop_slot(&mut self, now: Timestamp, slot: Slot) {
        let ties = self.ties(slot);
        match self.backlog.place(slot) {
            Place::Picked => self.leave_flight(now, slot, ties, None),
            Place::Assigned => {
                let used = self.used_so_far(now, slot);
                self.leave_flight(now, slot, ties, used);
            }
            Place::Reserved => self.unreserve(now, slot),
            _ => {}
        }
        self.drop_tied(now, slot, ties);
    }

    /// The same for a job that is in no node's hands.
    fn drop_tied(&mut self, now: Timestamp, slot: Slot, ties: Ties) {
        let Ties { queue, owner, .. } = ties;
        let in_line = self.queues[queue].begun == Some(slot);
        if in_line {
            self.queues[queue].begun = None;
            // The job that holds the line is in no heap, unless it is among the suspects.
            if self.backlog.place(slot) == Place::Ready && !self.is_suspect(slot) {
                self.backlog.set_place(slot, Place::Manual);
            }
        }
        self.uncount(slot, ties);
        self.extras.remove(&slot);
        self.waits.forget(self.backlog.id(slot));
        self.backlog.remove(slot);
        self.uncount_job(queue, owner);
        if self.finished(queue) {
            self.refresh_queues_after(now, queue);
        }
        if in_line {
            self.refresh_queue(now, queue);
        }
    }

    pub(super) fn settle(&mut self, now: Timestamp, settled: Settled) {
        let (is_error, counted) = (settled.is_error(), settled.counted());
        let Settled { id, fence, ran, rest, failed: _, well, error } = settled;
        let Some(slot) = self.backlog.find(id) else {
            if rest.is_none() {
                self.awaited_ended(now, id, well);
            }
            return;
        };
        let ties = self.ties(slot);
        if let Some(ran) = ran {
            self.learn(ties.kind, ran);
        }
        let known = self.backlog.fence(slot);
        if known > fence && !known.only_edited_since(fence) {
            return;
        }
        if known > fence {
            // A person has edited the job since, and the scheduler has read it like that. Its queue may be another one now.
            let ran_in = self.extras.get(&slot).and_then(|extra| extra.ran_in);
            if let Some(queue) = ran_in.filter(|_| is_error) {
                self.pause_on_error(now, queue, id);
            }
            return;
        }
        let queue = ties.queue;
        let in_flight = matches!(self.backlog.place(slot), Place::Picked | Place::Assigned);
        if is_error {
            self.pause_on_error(now, queue, id);
        }
        if rest.is_some() && self.backlog.place(slot) == Place::Picked && fence.only_edited_since(known) {
            // The job was read at rest before this report came, and was picked again: the report is already known.
            return;
        }
        if in_flight {
            let used = ran.or_else(|| self.used_so_far(now, slot).filter(|_| self.node_is_lost(slot)));
            self.count_end(now, slot, counted, used, error);
            self.leave_flight(now, slot, ties, used);
        } else if rest.is_none() {
            self.count_end(now, slot, counted, None, error);
        }
        let Some(rest) = rest else {
            if in_flight {
                self.drop_tied(now, slot, ties)
            } else {
                self.drop_slot(now, slot)
            }
            return self.awaited_ended(now, id, well);
        };
        if !in_flight {
            // Reported twice, or late; what the scheduler knows of the job is at least as new.
            return;
        }
        if ran.is_some() {
            self.has_begun(slot);
        }
        if fence.edits() > known.edits() {
            // A person has edited it since it came to rest. Its row follows with the same news, and says which queue it is in now;
            // until then no node gets it, and its old queue is not finished.
            return self.put_to_rest(now, slot, None, self.queues[queue].serial());
        }
        self.uncount(slot, ties);
        if let Some(task) = &rest.next {
            let task = self.task(now, task);
            let kind = self.kind(queue, task);
            self.backlog.set_kind(slot, kind);
        }
        self.backlog.set_fence(slot, fence);
        self.backlog.set_stuck(slot, rest.stuck);
        self.count(slot, Ties { kind: self.backlog.kind(slot), ..ties });
        self.backlog.set_due(slot, rest.due.unwrap_or(Timestamp::MAX));
        if rest.crashes > 0 || self.extras.contains_key(&slot) {
            let extra = self.extras.entry(slot).or_default();
            extra.crashes = rest.crashes;
            extra.locked = 0;
        }
        self.put_to_rest(now, slot, rest.due, self.queues[queue].serial());
    }

    /// A queue that is set to pause on an error starts nothing more from here on; the caller writes the pause to the store.
    fn pause_on_error(&mut self, now: Timestamp, at: Index, job: JobId) {
        let queue = &mut self.queues[at];
        if queue.settings.on_error == OnError::Pause && queue.settings.paused.is_none() {
            queue.settings.paused = Some(Pause { since: now, reason: None });
            self.pauses.push((queue.name.clone(), job));
            self.refresh_queue(now, at);
        }
    }

    /// `picked`: the fence of the pick that is answered. The job may have come to rest since and been picked again. Then that
    /// pick is still in flight, and keeps its places until its own reply comes, whatever the reply to the earlier one is.
    pub(super) fn reply(&mut self, now: Timestamp, id: JobId, picked: Fence, reply: Reply) {
        let is_meant = |slot: &Slot| (self.backlog.place(*slot), self.backlog.fence(*slot)) == (Place::Picked, picked);
        let Some(slot) = self.backlog.find(id).filter(is_meant) else { return };
        match reply {
            Reply::Assigned(fence) => {
                self.count_start(now, slot);
                self.backlog.set_fence(slot, fence);
                self.backlog.set_place(slot, Place::Assigned);
                if let Some(extra) = self.extras.get_mut(&slot) {
                    extra.locked = 0;
                }
            }
            Reply::Locked => {
                let extra = self.extras.entry(slot).or_default();
                extra.locked = extra.locked.saturating_add(1);
                let wait = LOCKED_FIRST.saturating_mul(1 << extra.locked.min(10)).min(LOCKED_LONGEST);
                self.leave_flight(now, slot, self.ties(slot), None);
                // Its old due time is not kept: a job that was locked does not go first again, but by its new time.
                self.backlog.set_due(slot, now.plus(wait));
                // In a serial queue it keeps its place: no job behind it begins meanwhile.
                let holds = self.queues[self.queue_of(slot)].serial();
                self.put_to_rest(now, slot, Some(now.plus(wait)), holds);
            }
            Reply::Changed(mut head) => {
                self.drop_slot(now, slot);
                self.take_in(now, &mut head);
            }
            Reply::Gone => self.forget(now, id),
        }
    }

    pub(super) fn release_due(&mut self, now: Timestamp) {
        while let Some(slot) = self.times.take_due(&mut self.backlog, now) {
            self.put_ready(now, slot);
        }
    }
}
