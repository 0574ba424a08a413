//! Jobs arrive in any order, and are placed anew: what is closed stays closed meanwhile.

use std::time::Duration;

use turnwise_core::{
    Fence, JobHead, JobState, QueueName,
    scheduler::{Input, Output, Pick, Reply, Rest, Settled},
    settings::{Concurrency, QueueSettings, Settings},
    turn::Scheme,
};

mod table;
use table::{Table, at, head, node};

fn roomy() -> Table {
    Table::new(Scheme::default(), vec![node(1, 100, &["t"])])
}

fn concurrency(concurrency: Concurrency) -> Input {
    let mut settings = Settings::default();
    settings.queues.insert(QueueName::default(), QueueSettings { concurrency, ..QueueSettings::default() });
    Input::Settings(settings)
}

fn picked(outputs: Vec<Output>) -> Option<Vec<Pick>> {
    outputs.into_iter().find_map(|output| match output {
        Output::Assign(picks) => Some(picks),
        _ => None,
    })
}

fn seqs(table: &Table, picks: &[Pick]) -> Vec<i64> {
    picks.iter().map(|pick| table.groups[&pick.job].seq).collect()
}

#[test]
fn a_queue_that_waits_stays_closed_while_the_last_job_before_it_is_placed_anew() {
    let (first, second) = (QueueName::new("first").unwrap(), QueueName::new("second").unwrap());
    let mut settings = Settings::default();
    let sealed = Some(at(1));
    settings.queues.insert(first.clone(), QueueSettings { sealed, quiet: sealed, ..QueueSettings::default() });
    settings.queues.insert(second.clone(), QueueSettings { after: vec![first.clone()], ..QueueSettings::default() });
    let mut table = roomy();
    table.tell(Input::Settings(settings));
    let stuck = JobHead { queue: first, state: JobState::Stuck, due: None, fence: Fence(1), ..head(1, "g") };
    table.tell(Input::Jobs(vec![stuck.clone(), JobHead { queue: second, ..head(2, "g") }]));
    assert!(table.order.is_empty());
    // A person has it tried again.
    let retried = JobHead { state: JobState::Waiting, due: Some(at(1)), ..stuck };
    let picks = table.tell(Input::Jobs(vec![retried]));
    assert_eq!(seqs(&table, &picks), [1]);
    assert_eq!(table.drain(), [1, 2]);
}

#[test]
fn what_is_in_hands_closes_a_limited_queue_whatever_order_jobs_are_read_in() {
    let mut table = roomy();
    table.tell(concurrency(Concurrency::AtMost(2)));
    let node = node(1, 100, &["t"]).incarnation;
    let in_hands = |n| JobHead { state: JobState::Running, fence: Fence(1), node: Some(node), ..head(n, "g") };
    let picks = table.tell(Input::Jobs(vec![head(1, "g"), in_hands(2), in_hands(3)]));
    assert_eq!(picks, []);
}

#[test]
fn in_a_serial_queue_a_job_that_is_locked_keeps_its_place() {
    let mut table = roomy();
    table.tell(concurrency(Concurrency::Serial));
    let first = head(1, "g");
    let picks = picked(table.scheduler.handle(table.now, Input::Jobs(vec![first.clone(), head(2, "g")]))).unwrap();
    assert_eq!(picks.iter().map(|pick| pick.job).collect::<Vec<_>>(), [first.id]);
    let locked = vec![(first.id, Fence(0), Reply::Locked)];
    assert_eq!(picked(table.scheduler.handle(table.now, Input::Replied(locked))), None, "no job goes before it");
    table.now = at(10);
    let picks = picked(table.scheduler.handle(table.now, Input::Tick)).unwrap();
    assert_eq!(picks.iter().map(|pick| pick.job).collect::<Vec<_>>(), [first.id]);
}

/// One slot; the first job has run once, was read at rest, and is picked again before the end of its run is reported.
fn picked_from_a_rest() -> (Table, Settled) {
    let mut table = Table::one_slot();
    let first = head(1, "g");
    table.tell(Input::Jobs(vec![first.clone(), head(2, "g")]));
    let read = JobHead { fence: Fence(1), ..first.clone() };
    let again = picked(table.scheduler.handle(table.now, Input::Jobs(vec![read]))).unwrap();
    assert_eq!((again[0].job, again[0].fence), (first.id, Fence(1)));
    let rest = Some(Rest { stuck: false, due: Some(at(0)), crashes: 0, next: None });
    let ran = Some(Duration::from_secs(1));
    (table, Settled { id: first.id, fence: Fence(1), ran, rest, failed: false, well: false, error: None })
}

#[test]
fn a_rest_that_is_reported_after_a_pick_from_it_gives_no_place_back() {
    let (mut table, late) = picked_from_a_rest();
    assert_eq!(picked(table.scheduler.handle(table.now, Input::Settled(vec![late]))), None, "the only slot is taken");
}

#[test]
fn the_answer_to_an_earlier_pick_is_not_taken_for_that_of_the_last() {
    let (mut table, late) = picked_from_a_rest();
    let id = late.id;
    // The batch of the first pick was sent again. Whatever the store replies to it, the second pick is still in flight.
    let at_rest = JobHead { fence: Fence(1), ..head(1, "g") };
    let assigned = JobHead { fence: Fence(2), state: JobState::Scheduled, ..at_rest.clone() };
    for reply in
        [Reply::Assigned(Fence(1)), Reply::Changed(at_rest), Reply::Changed(assigned), Reply::Locked, Reply::Gone]
    {
        let what = format!("{reply:?}");
        let outputs = table.scheduler.handle(table.now, Input::Replied(vec![(id, Fence(0), reply)]));
        assert_eq!(picked(outputs), None, "the only slot is taken, and the job is picked already: {what}");
    }
    table.scheduler.handle(table.now, Input::Replied(vec![(id, Fence(1), Reply::Assigned(Fence(2)))]));
    // It runs at its second fence: the report is about the first, and is stale.
    assert_eq!(picked(table.scheduler.handle(table.now, Input::Settled(vec![late]))), None, "the only slot is taken");
}

#[test]
fn a_pick_that_is_read_before_it_is_answered_is_charged_all_the_same() {
    let charges = |read: bool| {
        let mut table = roomy();
        let (first, other) = (head(1, "a"), head(2, "b"));
        let picks = picked(table.scheduler.handle(table.now, Input::Jobs(vec![first.clone(), other]))).unwrap();
        if read {
            let node = Some(picks[0].node);
            let assigned = JobHead { state: JobState::Scheduled, fence: Fence(1), node, ..first };
            table.scheduler.handle(table.now, Input::Jobs(vec![assigned]));
        }
        let replies = picks.iter().map(|pick| (pick.job, pick.fence, Reply::Assigned(Fence(1)))).collect();
        table.scheduler.handle(table.now, Input::Replied(replies));
        let mut charges: Vec<_> = table.scheduler.charges().into_iter().map(|c| (c.group, c.ahead, c.count)).collect();
        charges.sort();
        charges
    };
    assert!(!charges(false).is_empty());
    assert_eq!(charges(true), charges(false));
}
