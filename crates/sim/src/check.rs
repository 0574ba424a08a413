//! Were all promises kept? One pass that sorts the lines by job and fence, one over the jobs.
//!
//! Fences tell the story without clocks: an assignment raises a job's fence by one, a settle leaves it, a node loss
//! raises it by one. So whether a late settle overtook a node loss is read from the numbers that follow, never from
//! which line stands first in which file.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
};

use turnwise_core::State;

use crate::history::{HarnessEvent, History, Line, NodeEvent};

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub violations: Vec<Violation>,
    pub counts: Counts,
}

/// How much of what there was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Acknowledged submits.
    pub submitted: usize,
    /// Jobs that ended so, by the store's listing, or by the trace where the store keeps none.
    pub success: usize,
    pub failed: usize,
    pub cancelled: usize,
    pub incarnations: usize,
    pub starts: usize,
    pub effects: usize,
    /// Accepted ends of runs.
    pub settles: usize,
    /// Refused ones.
    pub stale: usize,
    /// Jobs taken from lost nodes, or so wished.
    pub node_lost: usize,
    /// Jobs that began more than once.
    pub ran_twice: usize,
    /// Jobs whose task returned more than once.
    pub effects_twice: usize,
    /// Runs whose assignment is in no trace, because its dispatcher died, or the database could not tell it.
    pub untraced_assigns: usize,
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    LostJob { job: String },
    NotEnded { job: String, state: State },
    NeverEnded { job: String },
    ListedTwice { job: String },
    WrongEnd { job: String, settled: State, listed: State },
    UnexplainedEnd { job: String, listed: State },
    SettledTwice { job: String, fence: i64 },
    ZombieAccepted { job: String, fence: i64, newer: i64 },
    RefusedAndAccepted { job: String, fence: i64 },
    StaleWithoutReason { job: String, fence: i64 },
    NeverAssigned { job: String, fence: i64 },
    OutOfOrder { job: String, fence: i64, first: &'static str, then: &'static str },
    RanElsewhere { job: String, fence: i64, assigned_to: String, by: String },
    AssignedTwice { job: String, fence: i64 },
    FenceWentBack { job: String, from: i64, to: i64 },
    StartedTwice { job: String, fence: i64 },
    SuccessWithoutEffect { job: String, fence: i64 },
    SlotLeaked { job: String, fence: i64, incarnation: String },
    SlotsExceeded { incarnation: String, slots: u32, running: usize },
    LeaseLeaked { running: u64 },
    NodeLeaked { nodes: u64, living: usize },
}

/// Checks everything that can be seen in `history`. What needs a line that nobody wrote (no listing at the end, no
/// dispatcher's trace) is not checked.
pub fn check(history: &History) -> Report {
    let run = Run::gather(history);
    let mut violations = run.seen_on_the_way.clone();
    let mut counts = run.counts;
    let mut jobs: Vec<_> = run.jobs.iter().collect();
    jobs.sort_unstable_by_key(|(id, _)| **id);
    for (id, job) in jobs {
        run.check_end(id, job, &mut violations, &mut counts);
        for (&fence, tenure) in &job.tenures {
            if !job.taken_back {
                run.check_assignment(id, fence, tenure, &mut violations, &mut counts);
                run.check_order(id, fence, tenure, &mut violations);
                run.check_settle(id, job, fence, tenure, &mut violations);
            }
            run.check_slot(id, fence, tenure, &mut violations);
        }
        let times = |happened: fn(&Tenure<'_>) -> bool| job.tenures.values().filter(|tenure| happened(tenure)).count();
        counts.ran_twice += usize::from(times(|tenure| !tenure.starts.is_empty()) > 1);
        counts.effects_twice += usize::from(times(|tenure| tenure.effect.is_some()) > 1);
    }
    run.check_rest(&mut violations);
    Report { violations, counts }
}

/// The lines of a run, by job and fence and by incarnation.
#[derive(Default)]
struct Run<'a> {
    jobs: HashMap<&'a str, JobRecord<'a>>,
    incarnations: HashMap<&'a str, Life>,
    /// The incarnation that a node's name stands for at the moment.
    current: HashMap<&'a str, &'a str>,
    rest: Vec<(u64, u64)>,
    /// The store's listing is there.
    listed: bool,
    /// A dispatcher's trace is there.
    dispatched: bool,
    outage: bool,
    counts: Counts,
    seen_on_the_way: Vec<Violation>,
}

#[derive(Default)]
struct JobRecord<'a> {
    submitted: bool,
    /// A person interfered.
    decided: bool,
    /// How a dispatcher wanted to end it without a run.
    unrun: Vec<State>,
    /// A failover took back commits: its fences were given out twice, and what was told of it may not be so any more.
    taken_back: bool,
    /// All of it was taken back, once.
    gone: bool,
    listed: Option<State>,
    tenures: BTreeMap<i64, Tenure<'a>>,
    /// The last fence each dispatcher gave it.
    last_assigned: HashMap<&'a str, i64>,
}

/// A job in somebody's hands under one fence.
#[derive(Default)]
struct Tenure<'a> {
    assigns: Vec<Assigned<'a>>,
    starts: Vec<Mark<'a>>,
    effect: Option<Mark<'a>>,
    settles: Vec<(Mark<'a>, State)>,
    stale: Option<Mark<'a>>,
    given_up: bool,
    node_lost: Vec<State>,
}

/// Which incarnation wrote a line, and which line of the record it is.
#[derive(Clone, Copy)]
struct Mark<'a> {
    by: &'a str,
    line: usize,
}

struct Assigned<'a> {
    mark: Mark<'a>,
    to: &'a str,
}

#[derive(Default)]
struct Life {
    slots: Option<u32>,
    running: HashSet<(String, i64)>,
    led: bool,
    left: bool,
    /// Killed, or declared lost and joined anew.
    gone: bool,
}

impl<'a> Run<'a> {
    fn gather(history: &'a History) -> Self {
        let mut run = Self::default();
        for (line, entry) in history.lines.iter().enumerate() {
            match entry {
                Line::Node { node, incarnation, event } => run.node_line(node, Mark { by: incarnation, line }, event),
                Line::Harness(event) => run.harness_line(event),
            }
        }
        run.counts.incarnations = run.incarnations.len();
        run
    }

    fn harness_line(&mut self, event: &'a HarnessEvent) {
        match event {
            HarnessEvent::Submit { job } => {
                self.job(job).submitted = true;
                self.counts.submitted += 1;
            }
            HarnessEvent::Decide { job } => self.job(job).decided = true,
            HarnessEvent::Kill { killed } => self.life(killed).gone = true,
            HarnessEvent::Outage => self.outage = true,
            HarnessEvent::TakenBack { job, gone } => {
                let job = self.job(job);
                job.taken_back = true;
                job.gone |= gone;
            }
            HarnessEvent::End { job, state } => {
                self.listed = true;
                if self.job(job).listed.replace(*state).is_some() {
                    self.seen_on_the_way.push(Violation::ListedTwice { job: job.clone() });
                }
            }
            HarnessEvent::Rest { running, nodes } => self.rest.push((*running, *nodes)),
        }
    }

    fn node_line(&mut self, node: &'a str, mark: Mark<'a>, event: &'a NodeEvent) {
        match event {
            NodeEvent::Join { slots } => {
                if let Some(earlier) = self.current.insert(node, mark.by) {
                    self.life(earlier).gone = true;
                }
                self.life(mark.by).slots = Some(*slots);
            }
            NodeEvent::Lead { .. } => {
                self.dispatched = true;
                self.life(mark.by).led = true;
            }
            NodeEvent::Assign { job, fence, to } => {
                self.dispatched = true;
                self.tenure(job, *fence).assigns.push(Assigned { mark, to });
                let record = self.job(job);
                let earlier = record.last_assigned.insert(mark.by, *fence).filter(|_| !record.taken_back);
                if let Some(from) = earlier.filter(|from| from > fence) {
                    self.seen_on_the_way.push(Violation::FenceWentBack { job: job.clone(), from, to: *fence });
                }
            }
            NodeEvent::Start { job, fence } => {
                self.counts.starts += 1;
                self.tenure(job, *fence).starts.push(mark);
                let life = self.life(mark.by);
                life.running.insert((job.clone(), *fence));
                let running = life.running.len();
                if let Some(slots) = life.slots.filter(|slots| running > *slots as usize) {
                    let incarnation = mark.by.to_owned();
                    self.seen_on_the_way.push(Violation::SlotsExceeded { incarnation, slots, running });
                }
            }
            NodeEvent::Effect { job, fence } => {
                self.counts.effects += 1;
                self.tenure(job, *fence).effect = Some(mark);
                self.free_slot(mark.by, job, *fence);
            }
            NodeEvent::Interrupt { job, fence } => self.free_slot(mark.by, job, *fence),
            NodeEvent::Settle { job, fence, state } => {
                self.counts.settles += 1;
                self.tenure(job, *fence).settles.push((mark, *state));
                self.free_slot(mark.by, job, *fence);
            }
            NodeEvent::Stale { job, fence } => {
                self.counts.stale += 1;
                self.tenure(job, *fence).stale = Some(mark);
                self.free_slot(mark.by, job, *fence);
            }
            NodeEvent::GiveUp { job, fence } => {
                self.tenure(job, *fence).given_up = true;
                self.free_slot(mark.by, job, *fence);
            }
            NodeEvent::NodeLost { job, fence, state, lost: _ } => {
                self.counts.node_lost += 1;
                self.tenure(job, *fence).node_lost.push(*state);
            }
            NodeEvent::Unrun { job, fence: _, state } => self.job(job).unrun.push(*state),
            NodeEvent::Leave { .. } => self.life(mark.by).left = true,
        }
    }

    fn job(&mut self, id: &'a str) -> &mut JobRecord<'a> {
        self.jobs.entry(id).or_default()
    }

    fn tenure(&mut self, job: &'a str, fence: i64) -> &mut Tenure<'a> {
        self.job(job).tenures.entry(fence).or_default()
    }

    fn life(&mut self, incarnation: &'a str) -> &mut Life {
        self.incarnations.entry(incarnation).or_default()
    }

    fn free_slot(&mut self, by: &'a str, job: &str, fence: i64) {
        self.life(by).running.remove(&(job.to_owned(), fence));
    }

    /// Gone without a good-bye: the last it did may be in no trace.
    fn is_gone(&self, incarnation: &str) -> bool {
        self.incarnations.get(incarnation).is_some_and(|life| life.gone && !life.left)
    }

    /// Whether something may have been dispatched to `node` that no trace tells of.
    fn untold_to(&self, node: &str) -> bool {
        self.outage || self.incarnations.iter().any(|(id, life)| *id != node && life.led && self.is_gone(id))
    }

    /// Every acknowledged job reaches exactly one end, and the store lists it with that end.
    fn check_end(&self, id: &str, job: &JobRecord<'_>, violations: &mut Vec<Violation>, counts: &mut Counts) {
        let name = || id.to_owned();
        let settled = job.tenures.values().rev().flat_map(|tenure| &tenure.settles).map(|(_, state)| *state);
        let settled = settled.into_iter().find(|state| state.finished());
        let lost = || job.tenures.values().flat_map(|tenure| &tenure.node_lost).copied().find(|state| state.finished());
        match job.listed.or(settled).or_else(lost) {
            Some(State::Success) => counts.success += 1,
            Some(State::Failed) => counts.failed += 1,
            Some(State::Cancelled) => counts.cancelled += 1,
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

    /// A finished job without an accepted settle: its node was lost for good with it, or died before it could tell.
    fn explains(&self, job: &JobRecord<'_>, listed: State) -> bool {
        let Some(last) = job.tenures.values().next_back() else { return job.unrun.contains(&listed) };
        last.node_lost.contains(&listed) || last.given_up || last.holder().is_some_and(|holder| self.is_gone(holder))
    }

    /// Whatever ran had been given to the one who ran it, once.
    fn check_assignment(
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
            None if self.untold_to(runner) => counts.untraced_assigns += 1,
            None => violations.push(Violation::NeverAssigned { job: job(), fence }),
        }
    }

    /// Assign, start, effect, end: in this order, as far as one process wrote them.
    fn check_order(&self, id: &str, fence: i64, tenure: &Tenure<'_>, violations: &mut Vec<Violation>) {
        let mut previous: Option<(&'static str, Mark<'_>)> = None;
        // A dispatcher whose assignment was not answered writes it down when it is, and its node may have begun by then.
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
        let succeeded = tenure.settles.iter().any(|(_, state)| *state == State::Success);
        if succeeded && (tenure.effect.is_none() || tenure.starts.is_empty()) {
            violations.push(Violation::SuccessWithoutEffect { job: id.to_owned(), fence });
        }
    }

    /// At most one end is accepted per fence, none once the fence has moved on, and only old fences are refused.
    fn check_settle(&self, id: &str, job: &JobRecord<'_>, fence: i64, tenure: &Tenure<'_>, found: &mut Vec<Violation>) {
        let name = || id.to_owned();
        let newer = job.tenures.range(fence + 1..).next().map(|(newer, _)| *newer);
        if tenure.settles.len() > 1 {
            found.push(Violation::SettledTwice { job: name(), fence });
        }
        if let (Some((_, state)), Some(newer)) = (tenure.settles.first(), newer) {
            // After an accepted settle the next assignment is the next number; a missing one was the node loss.
            let loss_was_written = !tenure.node_lost.is_empty() && newer > fence + 1;
            let ran_on = state.finished() && !(job.decided && *state != State::Success);
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
            && !self.untold_to(stale.by)
        {
            found.push(Violation::StaleWithoutReason { job: name(), fence });
        }
    }

    /// A run that began has ended, was refused or was taken over, or went down with its node.
    fn check_slot(&self, id: &str, fence: i64, tenure: &Tenure<'_>, violations: &mut Vec<Violation>) {
        let told = !tenure.settles.is_empty() || tenure.stale.is_some() || tenure.given_up;
        let over = told || !tenure.node_lost.is_empty();
        if let Some(start) = tenure.starts.first()
            && !over
            && !self.is_gone(start.by)
        {
            let incarnation = start.by.to_owned();
            violations.push(Violation::SlotLeaked { job: id.to_owned(), fence, incarnation });
        }
    }

    fn check_rest(&self, violations: &mut Vec<Violation>) {
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

impl Tenure<'_> {
    /// Who ran it, or wrote about it as if it had.
    fn runner(&self) -> Option<&str> {
        let settled = self.settles.first().map(|(mark, _)| mark);
        self.starts.first().or(self.effect.as_ref()).or(settled).or(self.stale.as_ref()).map(|mark| mark.by)
    }

    fn holder(&self) -> Option<&str> {
        self.runner().or(self.assigns.first().map(|assigned| assigned.to))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.violations {
            writeln!(f, "violation: {violation}")?;
        }
        writeln!(f, "{}", self.counts)?;
        match self.violations.len() {
            0 => writeln!(f, "every promise was kept"),
            n => writeln!(f, "{n} violations"),
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { submitted, success, failed, cancelled, incarnations, starts, effects, settles, stale, .. } = self;
        let Counts { node_lost, ran_twice, effects_twice, untraced_assigns, .. } = self;
        write!(f, "{submitted} submitted: {success} success, {failed} failed, {cancelled} cancelled; ")?;
        write!(
            f,
            "{incarnations} incarnations, {starts} starts, {effects} effects, {settles} settled, {stale} stale, "
        )?;
        write!(
            f,
            "{node_lost} taken from lost nodes; {ran_twice} jobs began twice, {effects_twice} took effect twice"
        )?;
        match untraced_assigns {
            0 => Ok(()),
            n => write!(f, "; {n} assignments in no trace"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Violation::*;
        match self {
            LostJob { job } => write!(f, "job {job} was acknowledged and is not in the store"),
            NotEnded { job, state } => write!(f, "job {job} was acknowledged and is still {state} at the end"),
            NeverEnded { job } => write!(f, "job {job} was acknowledged and no end of it was accepted"),
            ListedTwice { job } => write!(f, "job {job} is listed twice"),
            WrongEnd { job, settled, listed } => write!(f, "job {job} ended in {settled} and is listed as {listed}"),
            UnexplainedEnd { job, listed } => write!(f, "job {job} is listed as {listed}, and no run ended so"),
            SettledTwice { job, fence } => write!(f, "job {job}: two ends were accepted under fence {fence}"),
            ZombieAccepted { job, fence, newer } => {
                write!(f, "job {job}: an end under fence {fence} was accepted although fence {newer} was given out")
            }
            RefusedAndAccepted { job, fence } => {
                write!(f, "job {job}: an end under fence {fence} was refused and one was accepted")
            }
            StaleWithoutReason { job, fence } => {
                write!(f, "job {job}: an end under fence {fence} was refused, and nothing is newer")
            }
            NeverAssigned { job, fence } => write!(f, "job {job} ran under fence {fence} and was never assigned so"),
            OutOfOrder { job, fence, first, then } => {
                write!(f, "job {job}, fence {fence}: {then} stands before {first}")
            }
            RanElsewhere { job, fence, assigned_to, by } => {
                write!(f, "job {job}, fence {fence}: assigned to {assigned_to}, run by {by}")
            }
            AssignedTwice { job, fence } => write!(f, "job {job} was assigned twice under fence {fence}"),
            FenceWentBack { job, from, to } => write!(f, "job {job}: its fence went back from {from} to {to}"),
            StartedTwice { job, fence } => write!(f, "job {job} was started twice under fence {fence}"),
            SuccessWithoutEffect { job, fence } => {
                write!(f, "job {job}, fence {fence}: success of a task that did not run")
            }
            SlotLeaked { job, fence, incarnation } => {
                write!(f, "job {job}, fence {fence}: began on {incarnation}, which lives, and never ended")
            }
            SlotsExceeded { incarnation, slots, running } => {
                write!(f, "{incarnation} ran {running} jobs at a time in {slots} slots")
            }
            LeaseLeaked { running } => write!(f, "{running} jobs are in somebody's hands at rest"),
            NodeLeaked { nodes, living } => write!(f, "the store knows {nodes} nodes at rest, {living} live"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"
        {"event":"submit","job":"a","at":"2030-01-01T00:00:00Z"}
        {"event":"submit","job":"b"}
        n1 {"event":"join","slots":1}
        n1 {"event":"lead","epoch":1}
        n1 {"event":"assign","job":"a","fence":1,"to":"n1"}
        n1 {"event":"assign","job":"b","fence":1,"to":"n2"}
        n1 {"event":"start","job":"a","fence":1,"task":"t"}
        n2 {"event":"join","slots":1}
        n2 {"event":"start","job":"b","fence":1,"task":"t"}
        n2 {"event":"lead","epoch":2}
        n2 {"event":"node_lost","job":"a","fence":1,"lost":"n1","state":"waiting"}
        n2 {"event":"effect","job":"b","fence":1}
        n2 {"event":"settle","job":"b","fence":1,"state":"success"}
        n2 {"event":"assign","job":"a","fence":3,"to":"n2"}
        n2 {"event":"start","job":"a","fence":3,"task":"t"}
        n2 {"event":"effect","job":"a","fence":3}
        n2 {"event":"settle","job":"a","fence":3,"state":"success"}
        n1 {"event":"effect","job":"a","fence":1}
        n1 {"event":"stale","job":"a","fence":1}
        n1 {"event":"leave","held":0}
        n2 {"event":"leave","held":0}
        {"event":"end","job":"a","state":"success"}
        {"event":"end","job":"b","state":"success"}
        {"event":"rest","running":0,"nodes":0}
    "#;

    /// `n1 {…}` is a line of the incarnation n1 of the node n1; `x:n1 {…}` one of the node x.
    fn history(record: &str) -> History {
        let line = |line: &str| match line.trim().split_once(" {") {
            Some((author, rest)) if !line.trim().starts_with('{') => {
                let (node, incarnation) = author.split_once(':').unwrap_or((author, author));
                format!("{{\"node\":\"{node}\",\"incarnation\":\"{incarnation}\",{rest}\n")
            }
            _ => format!("{}\n", line.trim()),
        };
        History::parse("record", &record.lines().map(line).collect::<String>()).unwrap()
    }

    fn violations(record: &str) -> Vec<Violation> {
        check(&history(record)).violations
    }

    /// The clean record with one line more, one less or one changed.
    fn with(extra: &str) -> String {
        format!("{RECORD}{extra}\n")
    }
    fn without(part: &str) -> String {
        change(part, None)
    }
    fn changed(part: &str, to: &str) -> String {
        change(part, Some(to))
    }
    fn change(part: &str, to: Option<&str>) -> String {
        assert_eq!(RECORD.lines().filter(|line| line.contains(part)).count(), 1, "{part}");
        let edit =
            |line: &str| if line.contains(part) { to.map(|to| line.replace(part, to)) } else { Some(line.to_owned()) };
        RECORD.lines().filter_map(edit).map(|line| line + "\n").collect()
    }

    fn a() -> String {
        "a".to_owned()
    }

    #[test]
    fn a_clean_run_with_a_zombie_passes_and_is_counted() {
        let report = check(&history(RECORD));
        assert_eq!(report.violations, []);
        let counts = Counts {
            submitted: 2,
            success: 2,
            incarnations: 2,
            starts: 3,
            effects: 3,
            settles: 2,
            stale: 1,
            node_lost: 1,
            ran_twice: 1,
            effects_twice: 1,
            ..Counts::default()
        };
        assert_eq!(report.counts, counts);
        assert!(
            report.to_string().ends_with("1 jobs began twice, 1 took effect twice\nevery promise was kept\n"),
            "{report}"
        );
    }

    #[test]
    fn an_acknowledged_job_that_is_not_listed_is_lost() {
        assert_eq!(violations(&with(r#"{"event":"submit","job":"c"}"#)), [Violation::LostJob { job: "c".into() }]);
    }

    #[test]
    fn an_acknowledged_job_that_still_waits_has_not_ended() {
        let record =
            with("{\"event\":\"submit\",\"job\":\"c\"}\n{\"event\":\"end\",\"job\":\"c\",\"state\":\"stuck\"}");
        assert_eq!(violations(&record), [Violation::NotEnded { job: "c".into(), state: State::Stuck }]);
    }

    #[test]
    fn without_a_listing_the_trace_tells_who_never_ended() {
        let unlisted = |record: String| {
            record.lines().filter(|line| !line.contains("\"end\"")).fold(String::new(), |all, line| all + line + "\n")
        };
        assert_eq!(violations(&unlisted(RECORD.to_owned())), []);
        let record = unlisted(changed(
            r#""settle","job":"a","fence":3,"state":"success""#,
            r#""settle","job":"a","fence":3,"state":"waiting""#,
        ));
        assert_eq!(violations(&record), [Violation::NeverEnded { job: a() }]);
    }

    #[test]
    fn a_job_is_listed_once() {
        assert_eq!(
            violations(&with(r#"{"event":"end","job":"a","state":"success"}"#)),
            [Violation::ListedTwice { job: a() }]
        );
    }

    #[test]
    fn a_job_is_listed_with_the_end_that_was_accepted() {
        let record = changed(r#""end","job":"a","state":"success""#, r#""end","job":"a","state":"failed""#);
        let wrong = Violation::WrongEnd { job: a(), settled: State::Success, listed: State::Failed };
        assert_eq!(violations(&record), [wrong]);
        let record = changed(r#""end","job":"a","state":"success""#, r#""end","job":"a","state":"waiting""#);
        let wrong = Violation::WrongEnd { job: a(), settled: State::Success, listed: State::Waiting };
        assert_eq!(violations(&record), [wrong]);
    }

    #[test]
    fn an_end_without_a_run_is_explained_only_by_a_death_or_a_person() {
        let ended = "{\"event\":\"submit\",\"job\":\"c\"}\n{\"event\":\"end\",\"job\":\"c\",\"state\":\"failed\"}\n";
        let unexplained = Violation::UnexplainedEnd { job: "c".into(), listed: State::Failed };
        assert_eq!(violations(&with(ended)), [unexplained]);
        let person = format!("{ended}{{\"event\":\"decide\",\"job\":\"c\"}}");
        assert_eq!(violations(&with(&person)), []);
        let poison = format!(
            "{ended}n2 {{\"event\":\"node_lost\",\"job\":\"c\",\"fence\":5,\"lost\":\"n1\",\"state\":\"failed\"}}"
        );
        assert_eq!(violations(&with(&poison)), []);
        let killed = concat!(
            "n3 {\"event\":\"join\",\"slots\":1}\n",
            "n2 {\"event\":\"assign\",\"job\":\"c\",\"fence\":5,\"to\":\"n3\"}\n",
            "n3 {\"event\":\"start\",\"job\":\"c\",\"fence\":5}\n",
        );
        let record = with(&format!("{ended}{killed}{{\"event\":\"kill\",\"killed\":\"n3\"}}"));
        assert_eq!(violations(&record), []);
    }

    #[test]
    fn one_fence_has_one_accepted_end() {
        let again = r#"n2 {"event":"settle","job":"a","fence":3,"state":"success"}"#;
        assert_eq!(violations(&with(again)), [Violation::SettledTwice { job: a(), fence: 3 }]);
    }

    #[test]
    fn a_zombies_success_is_found_out() {
        let record = changed(r#""stale","job":"a","fence":1"#, r#""settle","job":"a","fence":1,"state":"success""#);
        assert_eq!(violations(&record), [Violation::ZombieAccepted { job: a(), fence: 1, newer: 3 }]);
    }

    #[test]
    fn a_zombies_retry_is_found_out_by_the_fence_that_follows() {
        let late = r#""settle","job":"a","fence":1,"state":"stuck""#;
        let record = changed(r#""stale","job":"a","fence":1"#, late);
        assert_eq!(violations(&record), [Violation::ZombieAccepted { job: a(), fence: 1, newer: 3 }]);
        // Had the settle come before the node loss, the next assignment would have had the next number.
        let in_time = record.replace("\"fence\":3", "\"fence\":2");
        assert_eq!(violations(&in_time), []);
    }

    #[test]
    fn a_finished_job_runs_again_only_if_a_person_said_so() {
        let again = |state| {
            format!(
                r#"
                {{"event":"submit","job":"a"}}
                n1 {{"event":"start","job":"a","fence":1}}
                n1 {{"event":"effect","job":"a","fence":1}}
                n1 {{"event":"settle","job":"a","fence":1,"state":"{state}"}}
                n1 {{"event":"start","job":"a","fence":2}}
                n1 {{"event":"effect","job":"a","fence":2}}
                n1 {{"event":"settle","job":"a","fence":2,"state":"success"}}
                "#
            )
        };
        let zombie = Violation::ZombieAccepted { job: a(), fence: 1, newer: 2 };
        let decided = |state| again(state) + r#"{"event":"decide","job":"a"}"#;
        assert_eq!(violations(&again("stuck")), []);
        assert_eq!(violations(&again("failed")), std::slice::from_ref(&zombie));
        assert_eq!(violations(&decided("failed")), []);
        assert_eq!(violations(&decided("success")), [zombie]);
    }

    #[test]
    fn an_end_is_refused_or_accepted_not_both() {
        let refused = r#"n2 {"event":"stale","job":"b","fence":1}"#;
        let found = violations(&with(refused));
        assert!(found.contains(&Violation::RefusedAndAccepted { job: "b".into(), fence: 1 }), "{found:?}");
    }

    #[test]
    fn only_an_old_fence_is_refused() {
        let record = changed(r#""settle","job":"a","fence":3,"state":"success""#, r#""stale","job":"a","fence":3"#);
        let found = violations(&record);
        assert!(found.contains(&Violation::StaleWithoutReason { job: a(), fence: 3 }), "{found:?}");
    }

    #[test]
    fn whatever_ran_was_assigned() {
        let record = without(r#""assign","job":"b""#);
        assert_eq!(violations(&record), [Violation::NeverAssigned { job: "b".into(), fence: 1 }]);
    }

    #[test]
    fn an_assignment_may_be_untold_when_its_dispatcher_died_or_the_database_was_cut_off() {
        let record = without(r#""assign","job":"b""#);
        let killed =
            record.lines().filter(|line| !line.contains("n1 {\"event\":\"leave\"")).collect::<Vec<_>>().join("\n")
                + "\n{\"event\":\"kill\",\"killed\":\"n1\"}\n";
        let report = check(&history(&killed));
        assert_eq!((report.violations, report.counts.untraced_assigns), (vec![], 1));
        assert_eq!(violations(&format!("{record}{{\"event\":\"outage\"}}")), []);
        // What the dead one assigned to itself it wrote down before it started.
        let own = killed
            .lines()
            .filter(|line| !line.contains(r#""assign","job":"a","fence":1"#))
            .collect::<Vec<_>>()
            .join("\n");
        assert_eq!(violations(&own), [Violation::NeverAssigned { job: a(), fence: 1 }]);
    }

    #[test]
    fn without_a_dispatchers_trace_assignments_are_not_asked_for() {
        let silent = RECORD
            .lines()
            .filter(|line| !line.contains("assign") && !line.contains("lead"))
            .collect::<Vec<_>>()
            .join("\n");
        assert_eq!(violations(&silent), []);
    }

    #[test]
    fn a_process_assigns_before_it_starts_and_starts_before_it_ends() {
        let moved = |part: &str| {
            let line = RECORD.lines().find(|line| line.contains(part)).unwrap();
            without(part) + line + "\n"
        };
        let out_of_order = |fence, first, then| Violation::OutOfOrder { job: a(), fence, first, then };
        let found = violations(&moved(r#""assign","job":"a","fence":3"#));
        assert_eq!(found, [out_of_order(3, "assign", "start")]);
        let found = violations(&moved(r#""start","job":"a","fence":3"#));
        assert_eq!(found, [out_of_order(3, "start", "effect")]);
        let found = violations(&moved(r#""effect","job":"a","fence":3"#));
        assert_eq!(found, [out_of_order(3, "effect", "settle")]);
    }

    #[test]
    fn a_job_runs_where_it_was_assigned() {
        let record = changed(r#""assign","job":"b","fence":1,"to":"n2""#, r#""assign","job":"b","fence":1,"to":"n1""#);
        let elsewhere =
            Violation::RanElsewhere { job: "b".into(), fence: 1, assigned_to: "n1".into(), by: "n2".into() };
        assert_eq!(violations(&record), [elsewhere]);
    }

    #[test]
    fn a_fence_is_given_out_once() {
        let again = r#"n2 {"event":"assign","job":"a","fence":3,"to":"n2"}"#;
        assert_eq!(violations(&with(again)), [Violation::AssignedTwice { job: a(), fence: 3 }]);
    }

    #[test]
    fn fences_only_grow() {
        let back = r#"n2 {"event":"assign","job":"a","fence":2,"to":"n2"}"#;
        assert_eq!(violations(&with(back)), [Violation::FenceWentBack { job: a(), from: 3, to: 2 }]);
    }

    #[test]
    fn a_job_starts_once_under_one_fence() {
        let record = changed(
            r#"n2 {"event":"effect","job":"b","fence":1}"#,
            "n2 {\"event\":\"start\",\"job\":\"b\",\"fence\":1}\nn2 {\"event\":\"effect\",\"job\":\"b\",\"fence\":1}",
        );
        assert_eq!(violations(&record), [Violation::StartedTwice { job: "b".into(), fence: 1 }]);
    }

    #[test]
    fn success_needs_a_run() {
        let found = violations(&without(r#""effect","job":"b""#));
        assert_eq!(found, [Violation::SuccessWithoutEffect { job: "b".into(), fence: 1 }]);
        let found = violations(&without(r#""start","job":"b""#));
        assert_eq!(found, [Violation::SuccessWithoutEffect { job: "b".into(), fence: 1 }]);
    }

    #[test]
    fn a_run_that_never_ended_on_a_living_node_is_a_leak() {
        let begun = concat!(
            "n2 {\"event\":\"assign\",\"job\":\"c\",\"fence\":1,\"to\":\"n2\"}\n",
            "n2 {\"event\":\"start\",\"job\":\"c\",\"fence\":1}\n",
        );
        let leaked = Violation::SlotLeaked { job: "c".into(), fence: 1, incarnation: "n2".into() };
        assert_eq!(violations(&with(begun)), [leaked]);
        let elsewhere =
            begun.replace("n2 {\"event\":\"start", "n3 {\"event\":\"start").replace("\"to\":\"n2\"", "\"to\":\"n3\"");
        let killed = format!("{elsewhere}{{\"event\":\"kill\",\"killed\":\"n3\"}}");
        assert_eq!(violations(&with(&killed)), []);
    }

    #[test]
    fn a_run_that_was_going_on_when_its_node_was_lost_is_no_leak() {
        let lost = concat!(
            "n3:x {\"event\":\"join\",\"slots\":1}\n",
            "n2 {\"event\":\"assign\",\"job\":\"c\",\"fence\":1,\"to\":\"x\"}\n",
            "n3:x {\"event\":\"start\",\"job\":\"c\",\"fence\":1}\n",
        );
        let leaked = Violation::SlotLeaked { job: "c".into(), fence: 1, incarnation: "x".into() };
        assert_eq!(violations(&with(lost)), [leaked]);
        assert_eq!(violations(&with(&format!("{lost}n3:y {{\"event\":\"join\",\"slots\":1}}"))), []);
    }

    #[test]
    fn a_node_runs_no_more_jobs_than_it_has_slots() {
        let record = changed(
            r#"n2 {"event":"effect","job":"b","fence":1}"#,
            concat!(
                "n2 {\"event\":\"assign\",\"job\":\"c\",\"fence\":1,\"to\":\"n2\"}\n",
                "n2 {\"event\":\"start\",\"job\":\"c\",\"fence\":1}\n",
                "n2 {\"event\":\"effect\",\"job\":\"c\",\"fence\":1}\n",
                "n2 {\"event\":\"settle\",\"job\":\"c\",\"fence\":1,\"state\":\"waiting\"}\n",
                "n2 {\"event\":\"effect\",\"job\":\"b\",\"fence\":1}",
            ),
        );
        assert_eq!(violations(&record), [Violation::SlotsExceeded { incarnation: "n2".into(), slots: 1, running: 2 }]);
    }

    #[test]
    fn a_run_that_was_stopped_has_left_its_slot_before_its_end_is_written() {
        let interrupt = "n2 {\"event\":\"interrupt\",\"job\":\"c\",\"fence\":1}\n";
        let begun = concat!(
            "n2 {\"event\":\"assign\",\"job\":\"c\",\"fence\":1,\"to\":\"n2\"}\n",
            "n2 {\"event\":\"start\",\"job\":\"c\",\"fence\":1}\n",
        );
        let start = r#"n2 {"event":"start","job":"b","fence":1,"task":"t"}"#;
        let settle = "n2 {\"event\":\"settle\",\"job\":\"c\",\"fence\":1,\"state\":\"waiting\"}\n";
        let record = |stopped: &str| changed(start, &format!("{begun}{stopped}{start}")) + settle;
        assert_eq!(violations(&record(interrupt)), []);
        let exceeded = Violation::SlotsExceeded { incarnation: "n2".into(), slots: 1, running: 2 };
        assert!(violations(&record("")).contains(&exceeded));
    }

    #[test]
    fn a_node_that_gives_up_does_not_know_how_it_ended() {
        let begun = concat!(
            "{\"event\":\"submit\",\"job\":\"c\"}\n",
            "n2 {\"event\":\"assign\",\"job\":\"c\",\"fence\":1,\"to\":\"n2\"}\n",
            "n2 {\"event\":\"start\",\"job\":\"c\",\"fence\":1}\n",
            "{\"event\":\"end\",\"job\":\"c\",\"state\":\"failed\"}\n",
        );
        assert_eq!(violations(&with(begun)).len(), 2, "no end, and a run that never ended");
        let given_up = format!("{begun}n2 {{\"event\":\"give_up\",\"job\":\"c\",\"fence\":1}}");
        assert_eq!(violations(&with(&given_up)), []);
    }

    #[test]
    fn what_a_failover_took_back_is_excused_and_nothing_else() {
        let gone = r#"{"event":"taken_back","job":"c","gone":true}"#;
        let submitted = r#"{"event":"submit","job":"c"}"#;
        assert_eq!(violations(&with(&format!("{submitted}\n{gone}"))), []);
        let changed_only = gone.replace("true", "false");
        let lost = [Violation::LostJob { job: "c".into() }];
        assert_eq!(violations(&with(&format!("{submitted}\n{changed_only}"))), lost);
        // Its end was taken back: it runs again, under a fence that was used before, and must end again.
        let again = |end: &str| {
            let lines = [
                r#"{"event":"taken_back","job":"a","gone":false}"#,
                r#"n2 {"event":"assign","job":"a","fence":1,"to":"n2"}"#,
                r#"n2 {"event":"start","job":"a","fence":1}"#,
                r#"n2 {"event":"effect","job":"a","fence":1}"#,
                r#"n2 {"event":"settle","job":"a","fence":1,"state":"failed"}"#,
            ];
            let at_the_end =
                changed(r#""end","job":"a","state":"success""#, &format!(r#""end","job":"a","state":"{end}""#));
            format!("{at_the_end}{}\n", lines.join("\n"))
        };
        assert_eq!(violations(&again("failed")), []);
        assert_eq!(violations(&again("waiting")), [Violation::NotEnded { job: a(), state: State::Waiting }]);
        // Of another job nothing is excused.
        let another = again("failed").replace(r#""taken_back","job":"a""#, r#""taken_back","job":"b""#);
        assert!(!violations(&another).is_empty());
    }

    #[test]
    fn at_rest_nobody_holds_a_job() {
        let record = changed(r#""rest","running":0"#, r#""rest","running":2"#);
        assert_eq!(violations(&record), [Violation::LeaseLeaked { running: 2 }]);
    }

    #[test]
    fn at_rest_the_store_knows_the_living_only() {
        let record = changed(r#""running":0,"nodes":0"#, r#""running":0,"nodes":1"#);
        assert_eq!(violations(&record), [Violation::NodeLeaked { nodes: 1, living: 0 }]);
        let alive =
            record.lines().filter(|line| !line.contains("n2 {\"event\":\"leave\"")).collect::<Vec<_>>().join("\n");
        assert_eq!(violations(&alive), []);
        assert_eq!(
            violations(&format!("{alive}\n{{\"event\":\"kill\",\"killed\":\"n2\"}}")),
            [Violation::NodeLeaked { nodes: 1, living: 0 }]
        );
    }
}
