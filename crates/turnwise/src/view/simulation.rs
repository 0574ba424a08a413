//! What becomes of the backlog: how long the jobs of each group will wait, as things are or if something else were set.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use turnwise_core::{
    GroupName, JobHead, JobId, TaskName, Timestamp,
    scheduler::{Future, Input, Output},
    settings::Settings,
    spread::Spread,
};

use super::{STARTS, View, due, opened};
use crate::{Error, Turnwise};

/// How far a simulation looks.
#[derive(Debug, Clone, Copy)]
struct Look {
    /// At most so many starts, and those that happen at once.
    starts: usize,
    /// Starts up to so long from now.
    ahead: Duration,
}

const LOOK: Look = Look { starts: STARTS, ahead: Duration::from_secs(30 * 86_400) };

/// What becomes of the backlog with the present settings, and with changed ones.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Comparison {
    /// With the present settings and slots.
    pub before: Simulation,
    /// With the changed ones.
    pub after: Simulation,
}

/// What becomes of the backlog if every job takes as long as its task usually does and nothing new is submitted. It looks at the
/// next 200,000 starts, and not further than 30 days ahead.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Simulation {
    /// Groups with jobs that are not in a node's hands.
    pub groups: BTreeMap<GroupName, Waits>,
    /// All groups together.
    pub all: Waits,
    /// Slots of all nodes that live.
    pub slots: u32,
    /// From now to where it stopped looking: all starts until then were looked at. To the last start of all if it is complete.
    pub looked: Duration,
    /// `false`: it goes on beyond what was looked at.
    pub complete: bool,
    /// Tasks that have never run: a run of them is counted as a moment.
    pub guessed: BTreeSet<TaskName>,
}

/// How long jobs wait from now on (from their due time, if that is later): those whose start was looked at.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Waits {
    /// Waiting now.
    pub jobs: usize,
    /// Those whose start was looked at. The others start later, if the simulation is not complete; or they wait for a person, or for a
    /// node that is not there.
    pub starts: usize,
    /// From now to the first start.
    pub first: Option<Duration>,
    /// The mean wait of those that start; zero if none does, as all of these.
    pub mean: Duration,
    /// Half of those that start wait no longer.
    pub p50: Duration,
    /// 95 of 100 that start wait no longer.
    pub p95: Duration,
    /// The longest wait of those that start.
    pub longest: Duration,
    /// From now to the end of the last run.
    pub end: Duration,
}

impl Turnwise {
    /// What becomes of the backlog with the present settings and slots, and with `change` made to the settings and `slots` in the
    /// fleet. Nothing is changed.
    ///
    /// [`Error::Store`] if the database does not answer. Nothing is changed: a repeat is safe.
    pub async fn simulate(&self, slots: Option<u32>, change: impl FnOnce(&mut Settings)) -> Result<Comparison, Error> {
        let view = self.scheduler_view().await?;
        let mut changed = view.settings.clone();
        change(&mut changed);
        let before = view.simulate(None, &view.settings);
        let after = view.simulate(slots, &changed);
        Ok(Comparison { before, after })
    }
}

impl View {
    /// What becomes of the backlog with these settings, on a fleet with so many slots (`None`: as it is).
    pub fn simulate(&self, slots: Option<u32>, settings: &Settings) -> Simulation {
        self.look_ahead(slots, settings, LOOK)
    }

    fn look_ahead(&self, slots: Option<u32>, settings: &Settings, look: Look) -> Simulation {
        let nodes = slots.map_or_else(|| self.inputs.nodes.clone(), |slots| self.fleet_of(slots));
        let mut closed = self.closed.clone();
        // Another schedule: it changes due times, so the scheduler reads the jobs again.
        if closed.handle(self.now, Input::Settings(settings.clone())).contains(&Output::ReadAgain) {
            let at_rest = self.inputs.heads.iter().filter(|head| !head.state.assigned()).cloned().collect();
            closed.handle(self.now, Input::Jobs(at_rest));
            closed.handle(self.now, Input::Loading(false));
        }
        let (scheduler, picks) = opened(&closed, self.now, nodes.clone());
        let mut course = Course::of(self, settings);
        let heads: HashMap<JobId, &JobHead> = self.inputs.heads.iter().map(|head| (head.id, head)).collect();
        for head in picks.iter().filter_map(|pick| heads.get(&pick.job)) {
            course.start(head, self.now, self.cost(head));
        }
        let mut future = Future::of(scheduler, self.now);
        let (complete, looked) = loop {
            if course.starts >= look.starts {
                break (false, course.last);
            }
            match future.next() {
                None => break (true, course.last),
                Some(start) if start.at.since(self.now) > look.ahead => break (false, look.ahead),
                Some(start) => {
                    if let Some(head) = heads.get(&start.job) {
                        course.start(head, start.at, start.runs_for);
                    }
                }
            }
        };
        let (groups, all) = course.summed_up();
        let slots = nodes.iter().map(|node| node.slots).sum();
        Simulation { groups, all, slots, looked, complete, guessed: self.never_ran() }
    }

    /// Tasks of the backlog that have never run.
    fn never_ran(&self) -> BTreeSet<TaskName> {
        let at_rest = self.inputs.heads.iter().filter(|head| !head.state.assigned());
        let unknown = at_rest.filter(|head| !self.costs.contains_key(&(head.queue.clone(), head.task.clone())));
        unknown.map(|head| head.task.clone()).collect()
    }
}

/// The starts that were looked at so far.
struct Course<'a> {
    now: Timestamp,
    settings: &'a Settings,
    groups: BTreeMap<GroupName, Starts>,
    starts: usize,
    /// From now to the last of them.
    last: Duration,
}

/// Those of a group.
#[derive(Default)]
struct Starts {
    jobs: usize,
    first: Option<Duration>,
    waits: Vec<Duration>,
    end: Duration,
}

impl<'a> Course<'a> {
    fn of(view: &View, settings: &'a Settings) -> Self {
        let mut groups: BTreeMap<GroupName, Starts> = BTreeMap::new();
        for head in view.inputs.heads.iter().filter(|head| !head.state.assigned()) {
            groups.entry(head.group.clone()).or_default().jobs += 1;
        }
        Self { now: view.now, settings, groups, starts: 0, last: Duration::ZERO }
    }

    fn start(&mut self, head: &JobHead, at: Timestamp, runs_for: Duration) {
        let due = due(self.settings, head).map_or(self.now, |due| due.max(self.now));
        let (in_, end) = (at.since(self.now), at.plus(runs_for).since(self.now));
        let group = self.groups.entry(head.group.clone()).or_default();
        group.first = group.first.or(Some(in_));
        group.waits.push(at.since(due));
        group.end = group.end.max(end);
        self.starts += 1;
        self.last = self.last.max(in_);
    }

    /// By group, and all together.
    fn summed_up(self) -> (BTreeMap<GroupName, Waits>, Waits) {
        let mut all = Starts::default();
        for starts in self.groups.values() {
            all.jobs += starts.jobs;
            all.first = all.first.into_iter().chain(starts.first).min();
            all.waits.extend(&starts.waits);
            all.end = all.end.max(starts.end);
        }
        (self.groups.into_iter().map(|(group, starts)| (group, starts.into())).collect(), all.into())
    }
}

impl From<Starts> for Waits {
    fn from(Starts { jobs, first, waits, end }: Starts) -> Self {
        let Spread { count, mean, p50, p95, longest } = Spread::of(waits);
        Self { jobs, starts: count, first, mean, p50, p95, longest, end }
    }
}

/// For the file of all shapes.
#[cfg(test)]
impl Simulation {
    pub(crate) fn example() -> Self {
        let waits = [40, 60].map(Duration::from_millis);
        let (first, end) = (Some(waits[0]), Duration::from_millis(900));
        let all: Waits = Starts { jobs: 3, first, waits: waits.into(), end }.into();
        let groups = [(GroupName::stored("acme".into()), all.clone())].into();
        Self { groups, all, slots: 4, looked: waits[1], complete: false, guessed: BTreeSet::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobRequest;

    /// A view of a hundred jobs of `flood` and five of `quiet`, all due, of a task that no run is known of.
    async fn flooded() -> View {
        let turnwise = Turnwise::open("memory:").await.unwrap();
        for (group, count) in [("flood", 100), ("quiet", 5)] {
            for _ in 0..count {
                turnwise.submit(JobRequest::new("noop", &()).group(group)).await.unwrap();
            }
        }
        turnwise.scheduler_view().await.unwrap()
    }

    #[tokio::test]
    async fn a_simulation_tells_what_part_of_a_group_waits_how_long() {
        let view = flooded().await;
        let run = turnwise_core::estimate::UNKNOWN_COST;
        let simulation = view.simulate(Some(1), &view.settings);
        // They take turns until the five of quiet have run; one runs at a time, so the last of 105 waits for 104 runs.
        let of = |group: &str| &simulation.groups[&group.parse().unwrap()];
        let (all, flood, quiet) = (&simulation.all, of("flood"), of("quiet"));
        assert_eq!((all.jobs, all.starts, simulation.complete), (105, 105, true));
        assert_eq!((all.p50, all.p95, all.longest), (run * 52, run * 99, run * 104));
        assert_eq!((all.mean, all.end, simulation.looked), (run * 52, run * 105, run * 104));
        assert_eq!((flood.p50, flood.p95, flood.longest), (run * 54, run * 99, run * 104));
        assert!(quiet.p50 < run * 8 && quiet.p95 == quiet.longest && quiet.p95 < run * 12, "{quiet:?}");
    }

    #[tokio::test]
    async fn a_simulation_that_is_cut_off_tells_how_far_it_looked() {
        let view = flooded().await;
        let run = turnwise_core::estimate::UNKNOWN_COST;
        let look = |slots: u32, look: Look| view.look_ahead(Some(slots), &view.settings, look);
        let ten = look(1, Look { starts: 10, ..LOOK });
        assert_eq!((ten.complete, ten.all.jobs, ten.all.starts), (false, 105, 10));
        assert_eq!((ten.looked, ten.all.longest), (run * 9, run * 9), "of what was looked at");
        let soon = look(1, Look { ahead: run * 5 + run / 2, ..LOOK });
        assert_eq!((soon.complete, soon.all.starts, soon.looked), (false, 6, run * 5 + run / 2));
        // More start at once than a look has room for: none is looked at that starts later.
        let at_once = look(20, Look { starts: 10, ..LOOK });
        assert_eq!((at_once.complete, at_once.all.starts, at_once.looked), (false, 20, Duration::ZERO));
    }
}
