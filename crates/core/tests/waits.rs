//! Jobs that wait for jobs: which job runs after which, and which do not run at all.

mod table;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use table::{Table, at, head, node};
use turnwise_core::{
    Fence, JobHead, JobId, JobState, OnFailure, QueueName,
    after::{Awaits, Verdict},
    scheduler::{Input, Output, Pick, Reply, Rest, Scheduler, Settled},
    settings::{Concurrency, QueueSettings, Settings},
    turn::Scheme,
    why::Gate,
};

fn id(number: i64) -> JobId {
    head(number, "g").id
}

fn awaiting(number: i64, open: &[i64], on_failure: OnFailure) -> JobHead {
    let awaits = Awaits { on_failure, open: open.iter().copied().map(id).collect(), ended_badly: None };
    JobHead { awaits: Some(Box::new(awaits)), ..head(number, "g") }
}

fn ended(number: i64, well: bool) -> Input {
    let fence = Fence(i64::MAX);
    Input::Settled(vec![Settled { id: id(number), fence, ran: None, rest: None, failed: !well, well, error: None }])
}

fn reviews(outputs: &[Output]) -> Vec<JobId> {
    let review = |output: &Output| match output {
        Output::Review(jobs) => jobs.clone(),
        _ => Vec::new(),
    };
    outputs.iter().flat_map(review).collect()
}

#[test]
fn a_job_begins_when_the_last_of_those_it_waits_for_has_ended() {
    let mut table = Table::new(Scheme::default(), vec![node(1, 5, &["t"])]);
    table.tell(Input::Jobs(vec![awaiting(3, &[1, 2], OnFailure::Fail), head(1, "g"), head(2, "g")]));
    assert_eq!(table.order.len(), 2, "it is not among those that begin at once");
    assert!(table.tell(ended(1, true)).is_empty());
    assert_eq!(table.tell(ended(2, true)).len(), 1);
    assert_eq!(table.order[2].job, id(3));
}

#[test]
fn the_end_of_a_job_that_the_scheduler_never_knew_counts() {
    let mut table = Table::one_slot();
    table.tell(Input::Jobs(vec![awaiting(3, &[1], OnFailure::Fail)]));
    assert_eq!(table.tell(ended(1, true)).len(), 1);
}

#[test]
fn rest_is_no_end() {
    let mut table = Table::one_slot();
    table.tell(Input::Jobs(vec![head(1, "g"), awaiting(2, &[1], OnFailure::Run)]));
    let pick = table.order[0].clone();
    let rest = Rest { stuck: true, due: None, crashes: 0, next: None };
    assert!(table.settle(&pick, std::time::Duration::from_secs(1), Some(rest)).is_empty());
    assert_eq!(table.scheduler.pending().awaiting, 1);
}

#[test]
fn a_bad_end_makes_those_that_care_be_read_again_and_not_picked() {
    let mut table = Table::one_slot();
    let jobs = vec![
        awaiting(2, &[1], OnFailure::Fail),
        awaiting(3, &[1, 9], OnFailure::Cancel),
        awaiting(4, &[1], OnFailure::Run),
    ];
    table.tell(Input::Jobs(jobs));
    let mut outputs = table.scheduler.handle(table.now, ended(1, false));
    assert_eq!(reviews(&outputs), [id(2), id(3)]);
    assert!(outputs.iter().any(|output| matches!(output, Output::Assign(picks) if picks[0].job == id(4))));
    outputs = table.scheduler.handle(table.now, ended(9, true));
    assert_eq!(reviews(&outputs), [], "what else it waited for does not matter any more");
    let read = awaiting(2, &[], OnFailure::Fail);
    outputs = table.scheduler.handle(table.now, Input::Jobs(vec![read]));
    assert_eq!(reviews(&outputs), [], "by the store it may run after all");
    assert_eq!(table.scheduler.pending().awaiting + table.scheduler.pending().ready, 3);
}

#[test]
fn one_that_comes_in_with_a_bad_end_is_reviewed_at_once() {
    let mut table = Table::one_slot();
    let mut bad = awaiting(2, &[3], OnFailure::Fail);
    bad.awaits.as_mut().unwrap().ended_badly = Some((id(1), JobState::Cancelled));
    let outputs = table.scheduler.handle(table.now, Input::Jobs(vec![bad]));
    assert_eq!(reviews(&outputs), [id(2)]);
    assert!(!table.scheduler.pending().drained(), "something is still to be done about it");
    table.scheduler.handle(table.now, Input::Gone(vec![id(2)]));
    assert!(table.scheduler.is_empty());
}

#[test]
fn a_job_that_is_gone_without_a_report_is_not_taken_for_well() {
    let mut table = Table::one_slot();
    table.tell(Input::Jobs(vec![awaiting(2, &[1], OnFailure::Fail)]));
    let outputs = table.scheduler.handle(table.now, Input::Gone(vec![id(1)]));
    assert_eq!(reviews(&outputs), [id(2)]);
}

#[test]
fn a_job_that_waits_keeps_its_time_and_expires() {
    let mut table = Table::one_slot();
    let later = JobHead { due: Some(at(50)), ..awaiting(2, &[1], OnFailure::Fail) };
    let short = JobHead { expires: Some(at(20)), ..awaiting(3, &[1], OnFailure::Fail) };
    table.tell(Input::Jobs(vec![later, short]));
    let outputs = table.scheduler.handle(at(20), Input::Tick);
    assert!(outputs.contains(&Output::Expire(vec![id(3)])), "{outputs:?}");
    table.now = at(30);
    assert!(table.tell(ended(1, true)).is_empty(), "one is not due, the other is to end");
    table.now = at(50);
    assert_eq!(table.tell(Input::Tick)[0].job, id(2));
}

#[test]
fn in_a_serial_queue_it_comes_into_line_by_its_number_when_it_may() {
    let mut table = Table::one_slot();
    let mut settings = Settings::default();
    let serial = QueueSettings { concurrency: Concurrency::Serial, ..QueueSettings::default() };
    settings.queues.insert(QueueName::default(), serial);
    table.tell(Input::Settings(settings));
    table.tell(Input::Jobs(vec![awaiting(1, &[2], OnFailure::Fail), head(2, "g"), head(3, "g"), head(4, "g")]));
    assert_eq!(table.drain(), [2, 1, 3, 4]);
}

#[test]
fn a_sealed_queue_is_not_finished_while_something_of_it_waits() {
    let mut table = Table::one_slot();
    let (first, second) = (QueueName::new("first").unwrap(), QueueName::new("second").unwrap());
    let mut settings = Settings::default();
    let sealed = QueueSettings { sealed: Some(at(0)), quiet: Some(at(0)), ..QueueSettings::default() };
    settings.queues.insert(first.clone(), sealed);
    settings.queues.insert(second.clone(), QueueSettings { after: [first.clone()].into(), ..QueueSettings::default() });
    table.tell(Input::Settings(settings));
    let waiting = JobHead { queue: first, ..awaiting(1, &[9], OnFailure::Fail) };
    table.tell(Input::Jobs(vec![waiting, JobHead { queue: second, ..head(2, "g") }]));
    assert!(table.order.is_empty());
    table.tell(ended(9, true));
    assert_eq!(table.drain(), [1, 2]);
}

#[test]
fn why_names_the_first_awaited_job_and_counts_the_others() {
    let mut table = Table::one_slot();
    table.tell(Input::Jobs(vec![awaiting(5, &[1, 2, 3], OnFailure::Fail)]));
    let gates = |table: &Table| table.scheduler.why(table.now, id(5), 10).unwrap().gates;
    assert_eq!(gates(&table), [Gate::Awaits { job: id(1), others: 2 }]);
    table.tell(ended(1, true));
    table.tell(ended(3, true));
    assert_eq!(gates(&table), [Gate::Awaits { job: id(2), others: 0 }]);
    assert_eq!(gates(&table)[0].to_string(), format!("waits for job {}", id(2)));
    table.scheduler.handle(table.now, ended(2, false));
    assert_eq!(gates(&table), [Gate::AwaitedFailed { job: id(2) }]);
}

#[test]
fn the_forecast_knows_that_it_comes_after() {
    let mut table = Table::one_slot();
    table.tell(Input::Jobs(vec![head(1, "g"), awaiting(2, &[3], OnFailure::Fail), head(3, "h")]));
    let why = table.scheduler.why(table.now, id(2), 10).unwrap();
    assert_eq!(why.forecast.map(|forecast| forecast.before), Some(1), "{why:?}");
}

/// A simple store. What it reports is true, but may arrive late, twice, or only when the job is read again.
#[derive(Debug, Default)]
struct Jobs {
    after: BTreeMap<i64, (Vec<i64>, OnFailure)>,
    ends: BTreeMap<i64, bool>,
}

impl Jobs {
    fn head(&self, number: i64) -> JobHead {
        let Some((after, on_failure)) = self.after.get(&number) else { return head(number, "g") };
        let open = after.iter().filter(|n| !self.ends.contains_key(n)).map(|&n| id(n)).collect();
        let badly = after.iter().find(|n| self.ends.get(n) == Some(&false));
        let awaits = Awaits { on_failure: *on_failure, open, ended_badly: badly.map(|&n| (id(n), JobState::Failed)) };
        JobHead { awaits: Some(Box::new(awaits)), ..head(number, "g") }
    }
}

proptest! {
    #[test]
    fn in_every_web_of_jobs_each_runs_after_all_it_waits_for_and_only_the_right_ones_run(
        edges in proptest::collection::vec((2i64..25, 1i64..24), 0..60),
        policies in proptest::collection::vec(0usize..3, 25),
        bad in proptest::collection::vec(proptest::bool::weighted(0.2), 25),
        order in Just((1i64..25).collect::<Vec<_>>()).prop_shuffle(),
        reported_twice in any::<bool>(),
        loses_report in proptest::collection::vec(proptest::bool::weighted(0.3), 25),
    ) {
        let mut jobs = Jobs::default();
        for (from, to) in edges.iter().filter(|(from, to)| to < from) {
            let on_failure = OnFailure::ALL[policies[usize::try_from(*from).unwrap()]];
            let entry = jobs.after.entry(*from).or_insert((Vec::new(), on_failure));
            if !entry.0.contains(to) {
                entry.0.push(*to);
                entry.0.sort_unstable();
            }
        }
        // The jobs that should run, by the rules alone.
        let mut runs: BTreeSet<i64> = BTreeSet::new();
        let mut well: BTreeSet<i64> = BTreeSet::new();
        for n in 1..25 {
            let lets = match jobs.after.get(&n) {
                Some((after, OnFailure::Run)) => { let _ = after; true }
                Some((after, _)) => after.iter().all(|other| well.contains(other)),
                None => true,
            };
            if lets {
                runs.insert(n);
                if !bad[usize::try_from(n).unwrap()] {
                    well.insert(n);
                }
            }
        }
        let mut scheduler = Scheduler::new(100);
        let now = at(1);
        scheduler.handle(now, Input::Nodes(vec![node(1, 3, &["t"])]));
        let number = |id: JobId| i64::try_from(id.uuid().as_u128()).unwrap();
        let mut ran = Vec::new();
        let mut todo: Vec<Input> = order.iter().map(|&n| Input::Jobs(vec![jobs.head(n)])).rev().collect();
        let mut running: Vec<Pick> = Vec::new();
        loop {
            let input = match todo.pop() {
                Some(input) => input,
                None => {
                    let Some(pick) = running.pop() else { break };
                    let n = number(pick.job);
                    let well = !bad[usize::try_from(n).unwrap()];
                    jobs.ends.insert(n, well);
                    let said = Settled { id: pick.job, fence: pick.fence.next(), ran: None, rest: None, failed: !well, well, error: None };
                    if loses_report[usize::try_from(n).unwrap()] { Input::Gone(vec![pick.job]) } else { Input::Settled(vec![said; if reported_twice { 2 } else { 1 }]) }
                }
            };
            for output in scheduler.handle(now, input) {
                match output {
                    Output::Assign(picks) => {
                        let replies = picks.iter().map(|pick| (pick.job, pick.fence, Reply::Assigned(pick.fence.next()))).collect();
                        for pick in &picks {
                            let n = number(pick.job);
                            let unfinished = jobs.after.get(&n).and_then(|(after, _)| {
                                after.iter().find(|other| !jobs.ends.contains_key(other))
                            });
                            prop_assert_eq!(unfinished, None, "{} begins too early", n);
                            ran.push(n);
                        }
                        running.extend(picks);
                        todo.push(Input::Replied(replies));
                    }
                    Output::Review(ids) => {
                        for id in ids {
                            let head = jobs.head(number(id));
                            match head.awaits.as_ref().map(|awaits| awaits.verdict()) {
                                Some(Verdict::End(_)) => {
                                    jobs.ends.insert(number(id), false);
                                    todo.push(Input::Gone(vec![id]));
                                }
                                _ => todo.push(Input::Jobs(vec![head])),
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        let count = ran.len();
        let ran: BTreeSet<i64> = ran.into_iter().collect();
        prop_assert_eq!(count, ran.len(), "no job runs twice");
        prop_assert_eq!(ran, runs);
        prop_assert!(scheduler.is_empty());
    }
}
