//! The promises, one function each.

use turnwise_core::{Fence, JobState};

use super::{
    Counts, Violation,
    record::{JobRecord, Lines, Mark, Tenure},
};

impl Lines<'_> {
    /// Every acknowledged job reaches exactly one end, and the store lists it with that end.
    pub(super) fn check_end(
        &self,
        id: &str,
        job: &JobRecord<'_>,
        violations: &mut Vec<Violation>,
        counts: &mut Counts,
    ) {
        let name = || id.to_owned();
        let settled = job.tenures.values().rev().flat_map(|tenure| &tenure.settles).map(|(_, state)| *state);
        let settled = settled.into_iter().find(|state| state.finished());
        let lost = || job.tenures.values().flat_map(|tenure| &tenure.node_lost).copied().find(|state| state.finished());
        match job.listed.or(settled).or_else(lost) {
            Some(JobState::Success) => counts.success += 1,
            Some(JobState::Failed) => counts.failed += 1,
            Some(JobState::Cancelled) => counts.cancelled += 1,
            _ => {}
        }
        match (job.listed, settled) {
            (None, _) if job.gone => {}
            (None, _) if self.listed && job.submitted => violations.push(Violation::LostJob { job: name() }),
            (None, None) if !self.listed && job.submitted && lost().is_none() => {
                violations.push(Violation::NeverEnded { job: name() });
            }
            (Some(state), settled) if !state.finished() && (settled.is_none() || job.taken_back) => {
                let not_ended = job.submitted.then(|| Violation::NotEnded { job: name(), state });
                violations.extend(not_ended);
            }
            (Some(listed), Some(settled)) if listed != settled && !job.decided && !job.taken_back => {
                violations.push(Violation::WrongEnd { job: name(), settled, listed });
            }
            (Some(listed), None) if !job.decided && !job.taken_back && !self.explains(job, listed) => {
                violations.push(Violation::UnexplainedEnd { job: name(), listed });
            }
            _ => {}
        }
    }

    /// A finished job without an accepted settle: its node was lost for good with it, or died before it could write that down.
    pub(super) fn explains(&self, job: &JobRecord<'_>, listed: JobState) -> bool {
        let Some(last) = job.tenures.values().next_back() else { return job.unrun.contains(&listed) };
        last.node_lost.contains(&listed) || last.given_up || last.holder().is_some_and(|holder| self.is_gone(holder))
    }

    /// Every run had been assigned to the incarnation that ran it, once.
    pub(super) fn check_assignment(
        &self,
        id: &str,
        fence: i64,
        tenure: &Tenure<'_>,
        violations: &mut Vec<Violation>,
        counts: &mut Counts,
    ) {
        let job = || id.to_owned();
        if tenure.assigns.len() > 1 {
            violations.push(Violation::AssignedTwice { job: job(), fence });
        }
        if tenure.starts.len() > 1 {
            violations.push(Violation::StartedTwice { job: job(), fence });
        }
        let Some(runner) = tenure.runner() else { return };
        match tenure.assigns.first() {
            Some(assigned) if assigned.to != runner => violations.push(Violation::RanElsewhere {
                job: job(),
                fence,
                assigned_to: assigned.to.to_owned(),
                by: runner.to_owned(),
            }),
            Some(_) => {}
            None if !self.dispatched => {}
            None if self.untraced_to(runner) => counts.untraced_assigns += 1,
            None => violations.push(Violation::NeverAssigned { job: job(), fence }),
        }
    }

    /// Assign, start, effect, end: in this order, as far as one process wrote them.
    pub(super) fn check_order(&self, id: &str, fence: i64, tenure: &Tenure<'_>, violations: &mut Vec<Violation>) {
        let mut previous: Option<(&'static str, Mark<'_>)> = None;
        // A dispatcher writes an assignment down when it is answered. If the answer is late, the node may have begun before.
        let assigned = tenure.assigns.first().filter(|_| !self.outage).map(|assigned| assigned.mark);
        let steps = [
            ("assign", assigned),
            ("start", tenure.starts.first().copied()),
            ("effect", tenure.effect),
            ("settle", tenure.settles.first().map(|(mark, _)| *mark).or(tenure.stale)),
        ];
        for (then, mark) in steps {
            let Some(mark) = mark else { continue };
            if let Some((first, earlier)) = previous
                && earlier.by == mark.by
                && earlier.line > mark.line
            {
                violations.push(Violation::OutOfOrder { job: id.to_owned(), fence, first, then });
            }
            previous = Some((then, mark));
        }
        let succeeded = tenure.settles.iter().any(|(_, state)| *state == JobState::Success);
        if succeeded && (tenure.effect.is_none() || tenure.starts.is_empty()) {
            violations.push(Violation::SuccessWithoutEffect { job: id.to_owned(), fence });
        }
    }

    /// At most one end is accepted per fence, none once the fence has moved on, and only old fences are refused.
    pub(super) fn check_settle(
        &self,
        id: &str,
        job: &JobRecord<'_>,
        fence: i64,
        tenure: &Tenure<'_>,
        found: &mut Vec<Violation>,
    ) {
        let name = || id.to_owned();
        let newer = job.tenures.range(fence + 1..).next().map(|(newer, _)| *newer);
        if tenure.settles.len() > 1 {
            found.push(Violation::SettledTwice { job: name(), fence });
        }
        if let (Some((_, state)), Some(newer)) = (tenure.settles.first(), newer) {
            // After an accepted settle the next assignment is the next number; a missing one was the node loss. Edits do not count.
            let assignments = Fence(newer).assignments() - Fence(fence).assignments();
            let loss_was_written = !tenure.node_lost.is_empty() && assignments > 1;
            let ran_on = state.finished() && !(job.decided && *state != JobState::Success);
            if loss_was_written || ran_on {
                found.push(Violation::ZombieAccepted { job: name(), fence, newer });
            }
        }
        if tenure.stale.is_some() && !tenure.settles.is_empty() {
            found.push(Violation::RefusedAndAccepted { job: name(), fence });
        }
        let reason = newer.is_some() || !tenure.node_lost.is_empty() || job.decided;
        if let Some(stale) = tenure.stale
            && !reason
            && !self.untraced_to(stale.by)
        {
            found.push(Violation::StaleWithoutReason { job: name(), fence });
        }
    }

    /// A run that began has ended, was refused or was taken over, or went down with its node.
    pub(super) fn check_slot(&self, id: &str, fence: i64, tenure: &Tenure<'_>, violations: &mut Vec<Violation>) {
        let reported = !tenure.settles.is_empty() || tenure.stale.is_some() || tenure.given_up;
        let over = reported || !tenure.node_lost.is_empty();
        if let Some(start) = tenure.starts.first()
            && !over
            && !self.is_gone(start.by)
        {
            let incarnation = start.by.to_owned();
            violations.push(Violation::SlotLeaked { job: id.to_owned(), fence, incarnation });
        }
    }

    pub(super) fn check_rest(&self, violations: &mut Vec<Violation>) {
        let living = self.incarnations.values().filter(|life| life.slots.is_some() && !life.left && !life.gone).count();
        for &(running, nodes) in &self.rest {
            if running > 0 {
                violations.push(Violation::LeaseLeaked { running });
            }
            if nodes > living as u64 {
                violations.push(Violation::NodeLeaked { nodes, living });
            }
        }
    }
}
