//! Reads that are stale: of jobs that ended in this process meanwhile.
//!
//! A page or news show how things were when they were read. What ended in this process meanwhile is reported to the scheduler at
//! once, and never again: by a stale read a job that ended would come back as one in a node's hands, and a job that waits for it
//! would wait for ever. Both are read once more.

use std::collections::HashSet;

use turnwise_core::{JobHead, JobId, scheduler::Settled};

#[derive(Debug, Default)]
pub(super) struct StaleReads {
    /// What has ended for good since the oldest read that is not taken in yet was asked for, or longer.
    ended: Vec<JobId>,
    /// Ends before those.
    forgotten: u64,
    unsure: Vec<JobId>,
}

/// How many ends had been seen when something was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark(u64);

impl StaleReads {
    pub(super) fn see_ends(&mut self, ends: &[Settled]) {
        self.ended.extend(ends.iter().filter(|end| end.rest.is_none()).map(|end| end.id));
    }

    /// Jobs of lost nodes, which may have ended.
    pub(super) fn see_taken(&mut self, jobs: &[JobId]) {
        self.ended.extend(jobs);
    }

    pub(super) fn mark(&self) -> Mark {
        Mark(self.forgotten + self.ended.len() as u64)
    }

    /// Nothing is being read that was asked for before; `None`: nothing at all.
    pub(super) fn nothing_is_read(&mut self, before: Option<Mark>) {
        let over = before.map_or(self.ended.len() as u64, |Mark(mark)| mark.saturating_sub(self.forgotten));
        let over = usize::try_from(over).unwrap_or(usize::MAX).min(self.ended.len());
        self.ended.drain(..over);
        self.forgotten += over as u64;
    }

    /// Takes out of what was read what may be stale.
    pub(super) fn sift(&mut self, heads: &mut Vec<JobHead>) {
        let ids = || heads.iter().map(|head| head.id);
        let (Some(first), Some(last)) = (ids().min(), ids().max()) else { return };
        // Ids grow with time: what ended is, as a rule, older than all that is read.
        let any_waits = heads.iter().any(|head| head.awaits.is_some());
        let concerned = |id: &JobId| any_waits || (first..=last).contains(id);
        let ended: HashSet<JobId> = self.ended.iter().copied().filter(concerned).collect();
        if ended.is_empty() {
            return;
        }
        let is_stale = |head: &JobHead| {
            let awaits = head.awaits.iter().flat_map(|awaits| &awaits.open);
            ended.contains(&head.id) || awaits.into_iter().any(|id| ended.contains(id))
        };
        self.unsure.extend(heads.extract_if(.., |head| is_stale(head)).map(|head| head.id));
    }

    pub(super) fn has_unsure(&self) -> bool {
        !self.unsure.is_empty()
    }

    pub(super) fn take_unsure(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.unsure)
    }
}

#[cfg(test)]
mod tests {
    use turnwise_core::{
        Fence, GroupName, JobState, OnFailure, Priority, QueueName, TaskName, Timestamp, after::Awaits, scheduler::Rest,
    };

    use super::*;

    fn id(number: u8) -> JobId {
        JobId::from_parts(u64::from(number), [0; 10])
    }

    fn head(number: u8, awaits: &[u8]) -> JobHead {
        let open: Vec<_> = awaits.iter().copied().map(id).collect();
        let awaits = Awaits { on_failure: OnFailure::Run, open, ended_badly: None };
        JobHead {
            id: id(number),
            seq: number.into(),
            task: TaskName::new("t").unwrap(),
            queue: QueueName::default(),
            group: GroupName::default(),
            priority: Priority::default(),
            state: JobState::Running,
            due: None,
            fence: Fence(1),
            crashes: 0,
            node: None,
            key: None,
            submitted_at: Timestamp::MIN,
            expires: None,
            args_bytes: 0,
            awaits: (!awaits.open.is_empty()).then(|| Box::new(awaits)),
        }
    }

    fn end(number: u8, rest: Option<Rest>) -> Settled {
        Settled { id: id(number), fence: Fence(1), ran: None, rest, failed: false, well: true, error: None }
    }

    fn sifted(reads: &mut StaleReads, mut heads: Vec<JobHead>) -> (Vec<JobId>, Vec<JobId>) {
        reads.sift(&mut heads);
        (heads.iter().map(|head| head.id).collect(), reads.take_unsure())
    }

    #[test]
    fn what_ended_since_is_read_again_and_so_is_what_waits_for_it() {
        let mut reads = StaleReads::default();
        let heads = || vec![head(3, &[]), head(4, &[1]), head(5, &[2]), head(6, &[])];
        assert_eq!(sifted(&mut reads, heads()), ([3, 4, 5, 6].map(id).to_vec(), vec![]));
        let rest = Rest { stuck: false, due: None, crashes: 0, next: None };
        reads.see_ends(&[end(1, None), end(3, None), end(6, Some(rest))]);
        assert_eq!(sifted(&mut reads, heads()), ([5, 6].map(id).to_vec(), [3, 4].map(id).to_vec()));
        let mark = reads.mark();
        reads.see_taken(&[id(2)]);
        reads.nothing_is_read(Some(mark));
        assert_eq!(sifted(&mut reads, heads()), ([3, 4, 6].map(id).to_vec(), vec![id(5)]), "ends since the mark");
        reads.nothing_is_read(Some(mark));
        assert_eq!(sifted(&mut reads, heads()), ([3, 4, 6].map(id).to_vec(), vec![id(5)]), "they stay");
        reads.nothing_is_read(None);
        assert_eq!(sifted(&mut reads, heads()), ([3, 4, 5, 6].map(id).to_vec(), vec![]));
    }
}
