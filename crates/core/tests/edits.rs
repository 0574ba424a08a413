//! A person edits a job while the scheduler has it in a line, in a pick or in a node's hands.

use std::time::Duration;

use turnwise_core::{
    Fence, JobHead, JobState, Priority, QueueName,
    scheduler::{Input, Output, Pick, Reply, Rest, Settled},
    settings::{Concurrency, OnError, QueueSettings, Settings},
    turn::Scheme,
    why::Gate,
};

mod table;
use table::{Table, at, head, node};

fn name(queue: &str) -> QueueName {
    QueueName::new(queue).unwrap()
}

/// Six slots, and these queues.
fn with_queues(queues: &[(&str, QueueSettings)]) -> Table {
    let mut table = Table::new(Scheme::default(), vec![node(1, 6, &["t"])]);
    let mut settings = Settings::default();
    settings.queues.extend(queues.iter().map(|(queue, set)| (name(queue), set.clone())));
    table.tell(Input::Settings(settings));
    table
}

fn limited(limit: u32) -> QueueSettings {
    QueueSettings { concurrency: Concurrency::AtMost(limit), ..QueueSettings::default() }
}

fn serial(on_error: OnError) -> QueueSettings {
    QueueSettings { concurrency: Concurrency::Serial, on_error, ..QueueSettings::default() }
}

fn of(queue: &str, number: i64) -> JobHead {
    JobHead { queue: name(queue), ..head(number, "g") }
}

fn edited(head: JobHead) -> JobHead {
    JobHead { fence: head.fence.edited(), ..head }
}

/// The picks, which the store has not answered yet.
fn picks(outputs: Vec<Output>) -> Vec<Pick> {
    outputs
        .into_iter()
        .find_map(|output| if let Output::Assign(picks) = output { Some(picks) } else { None })
        .unwrap_or_default()
}

fn hear(table: &mut Table, input: Input) -> Vec<Pick> {
    picks(table.scheduler.handle(table.now, input))
}

fn jobs(picks: &[Pick]) -> Vec<(u128, Fence)> {
    picks.iter().map(|pick| (pick.job.uuid().as_u128(), pick.fence)).collect()
}

fn assigned(picks: &[Pick]) -> Input {
    Input::Replied(picks.iter().map(|pick| (pick.job, pick.fence, Reply::Assigned(pick.fence.next()))).collect())
}

#[test]
fn limits_hold_when_an_edit_moves_a_job_to_another_queue_while_its_pick_is_in_flight() {
    for by_news in [false, true] {
        let mut table = with_queues(&[("from", limited(1)), ("to", limited(1))]);
        let first = hear(&mut table, Input::Jobs(vec![of("to", 1)]));
        table.scheduler.handle(table.now, assigned(&first));
        let moved = hear(&mut table, Input::Jobs(vec![of("from", 2), of("from", 3)]));
        assert_eq!(jobs(&moved), [(2, Fence(0))]);
        let row = JobHead { queue: name("to"), ..edited(of("from", 2)) };
        // The dispatcher learns of it by the reply to its pick, or by the news before that.
        let next = if by_news {
            let next = hear(&mut table, Input::Jobs(vec![row.clone()]));
            let late = Input::Replied(vec![(row.id, Fence(0), Reply::Changed(row.clone()))]);
            assert_eq!(hear(&mut table, late), [], "it is known already");
            next
        } else {
            hear(&mut table, Input::Replied(vec![(row.id, Fence(0), Reply::Changed(row.clone()))]))
        };
        assert_eq!(jobs(&next), [(3, Fence(0))], "its place in the old queue is free, and the new queue is full");
        let end = Settled {
            id: first[0].job,
            fence: Fence(1),
            ran: None,
            rest: None,
            failed: false,
            well: true,
            error: None,
        };
        let next = hear(&mut table, Input::Settled(vec![end]));
        assert_eq!(jobs(&next), [(2, row.fence)], "in its new queue, as it is now");
    }
}

#[test]
fn a_job_that_is_put_first_overtakes_and_one_that_is_postponed_waits() {
    let mut table = Table::one_slot();
    table.tell(Input::Jobs((1..=4).map(|n| head(n, "g")).collect()));
    assert_eq!(table.order.len(), 1);
    table.tell(Input::Jobs(vec![
        JobHead { priority: Priority::new(1).unwrap(), ..edited(head(4, "g")) },
        JobHead { due: Some(at(50)), ..edited(head(2, "g")) },
    ]));
    assert_eq!(table.drain(), [1, 4, 3]);
    let why = table.scheduler.why(table.now, head(2, "g").id, 100).unwrap();
    assert_eq!(why.gates, [Gate::NotDue(at(50))]);
    table.now = at(50);
    table.tell(Input::Tick);
    assert_eq!(table.drain(), [1, 4, 3, 2]);
}

#[test]
fn a_postponed_job_that_has_never_begun_does_not_hold_a_serial_line() {
    let mut table = with_queues(&[("line", serial(OnError::Block))]);
    table.tell(Input::Jobs((1..=3).map(|n| of("line", n)).collect()));
    let running = table.order[0].clone();
    table.tell(Input::Jobs(vec![JobHead { due: Some(at(50)), ..edited(of("line", 2)) }]));
    table.settle(&running, Duration::ZERO, None);
    assert_eq!(jobs(&table.order)[1..], [(3, Fence(0))], "it goes on without the second");
    // One that has begun holds it, edited or not.
    let begun = JobHead { state: JobState::Stuck, due: Some(at(60)), fence: Fence(1).edited(), ..of("line", 4) };
    let third = table.order[1].clone();
    table.tell(Input::Jobs(vec![begun, of("line", 5)]));
    assert_eq!(table.settle(&third, Duration::ZERO, None), []);
    table.now = at(60);
    assert_eq!(jobs(&table.tell(Input::Tick)), [(4, Fence(1).edited())]);
}

#[test]
fn a_job_that_moves_into_a_serial_queue_takes_its_place_by_the_order_of_submission() {
    let mut table = with_queues(&[("line", serial(OnError::Block)), ("shut", limited(0))]);
    table.tell(Input::Jobs(vec![of("line", 1), of("shut", 2), of("line", 3)]));
    assert_eq!(jobs(&table.order), [(1, Fence(0))]);
    table.tell(Input::Jobs(vec![JobHead { queue: name("line"), ..edited(of("shut", 2)) }]));
    assert_eq!(table.drain(), [1, 2, 3]);
}

/// One slot. A run of the first job has failed on another node, and the job was moved before the dispatcher reads of either.
fn failed_and_moved(place: &str) -> (Table, Settled, JobHead) {
    let pauses = QueueSettings { on_error: OnError::Pause, ..limited(1) };
    let mut table = with_queues(&[
        ("from", pauses.clone()),
        ("to", QueueSettings { concurrency: Concurrency::AtMost(0), ..pauses }),
    ]);
    let first = hear(&mut table, Input::Jobs(vec![of("from", 1), of("from", 2)]));
    assert_eq!(jobs(&first), [(1, Fence(0))]);
    if place == "assigned" {
        table.scheduler.handle(table.now, assigned(&first));
    }
    let fence = Fence(1).edited();
    let row = JobHead { state: JobState::Stuck, due: Some(at(0)), fence, queue: name("to"), ..of("from", 1) };
    let rest = Some(Rest { stuck: true, due: row.due, crashes: 0, next: Some(row.task.clone()) });
    let settled =
        Settled { id: row.id, fence, ran: Some(Duration::from_secs(1)), rest, failed: true, well: false, error: None };
    (table, settled, row)
}

fn paused(outputs: &[Output]) -> Vec<&QueueName> {
    let mut paused = Vec::new();
    for output in outputs {
        if let Output::Pause { queue, .. } = output {
            paused.push(queue);
        }
    }
    paused
}

#[test]
fn a_job_that_was_edited_since_its_run_waits_for_its_row() {
    for place in ["picked", "assigned"] {
        let (mut table, settled, row) = failed_and_moved(place);
        let outputs = table.scheduler.handle(table.now, Input::Settled(vec![settled]));
        assert_eq!(paused(&outputs), [&name("from")], "where it failed");
        assert_eq!(picks(outputs), [], "not by what was set for its old queue");
        table.tell(Input::Settings(Settings::default()));
        let order = table.tell(Input::Jobs(vec![row.clone()]));
        assert!(jobs(&order).contains(&(1, row.fence)), "{place}: {order:?}");
    }
}

#[test]
fn an_end_that_is_reported_after_the_edit_pauses_the_queue_that_it_was_in() {
    let (mut table, settled, row) = failed_and_moved("assigned");
    let moved = table.scheduler.handle(table.now, Input::Jobs(vec![row]));
    assert_eq!(jobs(&picks(moved)), [(2, Fence(0))], "its place in the old queue is free");
    // The report of this process: as the run ended, before the edit.
    let report = Settled { fence: Fence(1), ..settled };
    let outputs = table.scheduler.handle(table.now, Input::Settled(vec![report]));
    assert_eq!(paused(&outputs), [&name("from")]);
    assert_eq!(picks(outputs), []);
}

#[test]
fn a_report_of_a_run_before_the_last_changes_nothing_however_often_the_job_was_edited() {
    let mut table = Table::one_slot();
    let row = JobHead { fence: Fence(1).edited(), ..head(1, "g") };
    let again = table.tell(Input::Jobs(vec![row, head(2, "g")]));
    assert_eq!(jobs(&again), [(1, Fence(1).edited())]);
    for fence in [Fence(1), Fence(1).edited()] {
        let rest = Some(Rest { stuck: false, due: Some(at(0)), crashes: 0, next: None });
        let old = Settled {
            id: head(1, "g").id,
            fence,
            ran: Some(Duration::ZERO),
            rest,
            failed: false,
            well: false,
            error: None,
        };
        assert_eq!(table.tell(Input::Settled(vec![old])), [], "the only slot is taken");
    }
}
