//! Queues that go by the clock on the wall: schedules and block windows.

use std::time::Duration;

use turnwise_core::{
    Fence, JobHead, JobState, QueueName, Timestamp,
    calendar::{Schedule, Window, Zone},
    queue_state::QueueState,
    scheduler::{Future, Input, Rest},
    settings::{Concurrency, Pause, QueueSettings, Settings},
    why::Gate,
};

mod table;
use table::{Table, head};

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A Tuesday.
fn noon() -> Timestamp {
    time("2030-01-15T12:00:00Z")
}

fn nightly() -> Schedule {
    Schedule::new("0 2 * * *", Zone::UTC).unwrap()
}

fn window(text: &str) -> Window {
    text.parse().unwrap()
}

fn set(queue: QueueSettings) -> Input {
    let mut settings = Settings::default();
    settings.queues.insert(QueueName::default(), queue);
    Input::Settings(settings)
}

fn scheduled(schedule: Option<Schedule>) -> Input {
    set(QueueSettings { schedule, ..QueueSettings::default() })
}

fn blocked(windows: &[&str]) -> Input {
    set(QueueSettings { block: windows.iter().map(|text| window(text)).collect(), ..QueueSettings::default() })
}

/// Submitted at this moment, for then.
fn submitted(number: i64, at: Timestamp) -> JobHead {
    JobHead { due: Some(at), submitted_at: at, ..head(number, "g") }
}

fn table_at(now: Timestamp) -> Table {
    let mut table = Table::one_slot();
    table.now = now;
    table
}

fn jobs(table: &mut Table, now: Timestamp) -> Vec<i64> {
    table.now = now;
    let picks = table.tell(Input::Tick);
    picks.iter().map(|pick| table.groups[&pick.job].seq).collect()
}

fn gates(table: &Table, number: i64) -> Vec<Gate> {
    table.scheduler.why(table.now, head(number, "g").id, 1_000).expect("a known job").gates
}

#[test]
fn a_job_without_a_time_of_its_own_waits_for_the_schedule() {
    let mut table = table_at(noon());
    table.tell(scheduled(Some(nightly())));
    assert_eq!(table.tell(Input::Jobs(vec![submitted(1, noon())])), []);
    let two = time("2030-01-16T02:00:00Z");
    assert_eq!(table.wake_at, Some(two));
    let why = gates(&table, 1);
    assert_eq!(why, [Gate::Scheduled { queue: QueueName::default(), schedule: nightly(), due: two }]);
    let sentence = "not due before 2030-01-16T02:00:00.000000Z (schedule 0 2 * * * UTC of queue default)";
    assert_eq!(why[0].to_string(), sentence);
    assert_eq!(jobs(&mut table, time("2030-01-16T01:59:59.999999Z")), [0; 0]);
    assert_eq!(jobs(&mut table, two), [1]);
}

#[test]
fn a_job_that_was_to_start_last_night_starts_now() {
    let mut table = table_at(noon());
    table.tell(scheduled(Some(nightly())));
    let yesterday = submitted(1, time("2030-01-14T12:00:00Z"));
    assert_eq!(table.tell(Input::Jobs(vec![yesterday])).len(), 1);
}

#[test]
fn a_job_with_a_time_of_its_own_keeps_it_whatever_the_schedule_says() {
    let mut table = table_at(noon());
    table.tell(scheduled(Some(nightly())));
    let soon = noon().plus(Duration::from_secs(60));
    table.tell(Input::Jobs(vec![JobHead { due: Some(soon), ..submitted(1, noon()) }]));
    assert_eq!((table.wake_at, gates(&table, 1)), (Some(soon), vec![Gate::NotDue(soon)]));
    assert_eq!(jobs(&mut table, soon), [1]);
}

#[test]
fn a_job_that_has_begun_is_not_put_off_to_the_next_night() {
    let mut table = table_at(time("2030-01-16T02:00:00Z"));
    table.tell(scheduled(Some(nightly())));
    let picks = table.tell(Input::Jobs(vec![submitted(1, noon())]));
    let retry = table.now.plus(Duration::from_secs(10));
    table.settle(
        &picks[0],
        Duration::from_secs(1),
        Some(Rest { stuck: true, due: Some(retry), crashes: 0, next: None }),
    );
    // Read again, as after a change of dispatchers: it keeps its own time.
    let stuck = JobHead { state: JobState::Stuck, due: Some(retry), fence: Fence(1), ..submitted(1, noon()) };
    let lost = JobHead { due: Some(noon()), fence: Fence(2), crashes: 1, ..submitted(2, noon()) };
    table.tell(Input::Jobs(vec![stuck]));
    assert_eq!((table.wake_at, gates(&table, 1)), (Some(retry), vec![Gate::NotDue(retry)]));
    assert_eq!(table.tell(Input::Jobs(vec![lost])).len(), 1, "the node was lost under it: it goes on at once");
    table.settle(&table.order[1].clone(), Duration::from_secs(1), None);
    assert_eq!(jobs(&mut table, retry), [1]);
}

#[test]
fn a_changed_schedule_concerns_the_jobs_that_wait() {
    let mut table = table_at(noon());
    table.tell(scheduled(Some(nightly())));
    let waiting = || vec![submitted(1, noon()), submitted(2, noon())];
    table.tell(Input::Jobs(waiting()));
    assert!(!table.read_again);
    let hourly = Schedule::new("@hourly", Zone::UTC).unwrap();
    assert_eq!(table.tell(scheduled(Some(hourly.clone()))), []);
    assert!(std::mem::take(&mut table.read_again), "the scheduler does not know when they were submitted");
    // A new job that would be due waits until the others are read: before that it is not known which job is first.
    table.tell(Input::Jobs(vec![submitted(3, time("2030-01-15T10:00:00Z"))]));
    assert_eq!((gates(&table, 3), table.order.len()), (vec![Gate::Loading], 0));
    table.tell(Input::Jobs(waiting()));
    assert_eq!(table.tell(Input::Loading(false)).len(), 1);
    table.settle(&table.order[0].clone(), Duration::from_secs(1), None);
    let one = time("2030-01-15T13:00:00Z");
    assert_eq!(gates(&table, 1), [Gate::Scheduled { queue: QueueName::default(), schedule: hourly, due: one }]);
    table.tell(scheduled(None));
    assert!(std::mem::take(&mut table.read_again));
    table.tell(Input::Jobs(waiting()));
    table.tell(Input::Loading(false));
    assert_eq!(table.drain(), [3, 1, 2], "without a schedule they are due");
    table.tell(scheduled(Some(nightly())));
    assert!(!table.read_again, "no job waits");
}

#[test]
fn nothing_starts_in_a_window_and_what_runs_goes_on() {
    let mut table = table_at(noon());
    table.tell(blocked(&["Mon-Fri 13:00-17:00"]));
    let picks = table.tell(Input::Jobs(vec![submitted(1, noon()), submitted(2, noon())]));
    assert_eq!(picks.len(), 1, "not closed yet");
    let (one, five) = (time("2030-01-15T13:00:00Z"), time("2030-01-15T17:00:00Z"));
    assert_eq!(table.wake_at, Some(one), "it closes by itself");
    table.now = one;
    assert_eq!(table.settle(&picks[0], Duration::from_secs(1), None), [], "a slot is free, but the window has begun");
    assert_eq!(table.wake_at, Some(five));
    let why = gates(&table, 2);
    let gate = Gate::Window { queue: QueueName::default(), window: window("Mon-Fri 13:00-17:00"), until: five };
    assert_eq!(why, [gate]);
    let sentence = "queue default is blocked until 2030-01-15T17:00:00.000000Z (Mon-Fri 13:00-17:00)";
    assert_eq!(why[0].to_string(), sentence);
    assert_eq!(jobs(&mut table, time("2030-01-15T16:59:59.999999Z")), [0; 0]);
    assert_eq!(jobs(&mut table, five), [2]);
}

#[test]
fn what_becomes_due_in_a_window_starts_at_its_end() {
    let mut table = table_at(noon());
    table.tell(set(QueueSettings {
        schedule: Some(nightly()),
        block: vec![window("01:00-02:30"), window("02:30-03:00")],
        ..QueueSettings::default()
    }));
    table.tell(Input::Jobs(vec![submitted(1, noon())]));
    assert_eq!(jobs(&mut table, time("2030-01-16T02:00:00Z")), [0; 0]);
    assert_eq!(jobs(&mut table, time("2030-01-16T02:30:00Z")), [0; 0], "where one ends the other begins");
    assert_eq!(table.wake_at, Some(time("2030-01-16T03:00:00Z")));
    assert_eq!(jobs(&mut table, time("2030-01-16T03:00:00Z")), [1]);
}

#[test]
fn a_window_closes_serial_queues_and_keeps_suspects_waiting_too() {
    let mut table = table_at(noon());
    let block = vec![window("11:00-13:00")];
    table.tell(set(QueueSettings { concurrency: Concurrency::Serial, block, ..QueueSettings::default() }));
    table.tell(Input::Jobs(vec![JobHead { crashes: 2, ..submitted(1, noon()) }, submitted(2, noon())]));
    assert_eq!(table.order, []);
    assert_eq!(jobs(&mut table, time("2030-01-15T13:00:00Z")), [1]);
}

#[test]
fn a_window_that_is_taken_away_or_set_counts_at_once() {
    let mut table = table_at(noon());
    table.tell(blocked(&["11:00-13:00"]));
    table.tell(Input::Jobs(vec![submitted(1, noon()), submitted(2, noon())]));
    assert_eq!(table.tell(blocked(&[])).len(), 1);
    table.tell(blocked(&["11:00-14:00"]));
    assert_eq!(table.settle(&table.order[0].clone(), Duration::from_secs(1), None), []);
    assert_eq!(table.wake_at, Some(time("2030-01-15T14:00:00Z")));
    table.tell(blocked(&["12:00-12:30"]));
    assert_eq!(jobs(&mut table, time("2030-01-15T12:30:00Z")), [2]);
}

#[test]
fn a_queue_in_a_window_neither_holds_up_others_nor_earns_credit() {
    let mut table = table_at(noon());
    let other = QueueName::new("other").unwrap();
    table.tell(blocked(&["11:00-13:00"]));
    let mut heads: Vec<_> = (1..=3).map(|n| submitted(n, noon())).collect();
    heads.extend((4..=9).map(|n| JobHead { queue: other.clone(), ..submitted(n, noon()) }));
    table.tell(Input::Jobs(heads));
    for n in 0..3 {
        table.settle(&table.order[n].clone(), Duration::from_secs(1), None);
    }
    table.now = time("2030-01-15T13:00:00Z");
    assert_eq!(table.drain(), [4, 5, 6, 7, 1, 8, 2, 9, 3], "from the window's end on they take turns");
}

#[test]
fn the_forecast_goes_by_windows_and_schedules() {
    let mut table = table_at(noon());
    table.tell(set(QueueSettings {
        schedule: Some(nightly()),
        block: vec![window("01:30-04:00")],
        ..QueueSettings::default()
    }));
    table.tell(Input::Jobs(vec![submitted(1, noon())]));
    let why = table.scheduler.why(table.now, head(1, "g").id, 10).unwrap();
    assert_eq!(why.forecast.unwrap().starts_in, Duration::from_secs(16 * 3_600));
}

#[test]
fn a_look_ahead_ends_although_windows_come_round_for_ever() {
    let mut table = table_at(noon());
    let paused = Some(Pause { since: noon(), reason: None });
    table.tell(set(QueueSettings { paused, block: vec![window("01:30-04:00")], ..QueueSettings::default() }));
    table.tell(Input::Jobs(vec![submitted(1, noon())]));
    assert_eq!(Future::of(table.scheduler.clone(), table.now).next(), None, "it waits for a person");
    // A job that is due only after many windows is found all the same.
    let late = time("2130-01-15T12:00:00Z");
    let other = QueueName::new("other").unwrap();
    table.tell(Input::Jobs(vec![JobHead { due: Some(late), queue: other, ..submitted(2, noon()) }]));
    let starts: Vec<_> = Future::of(table.scheduler.clone(), table.now).map(|start| (start.job, start.at)).collect();
    assert_eq!(starts, [(head(2, "g").id, late)]);
}

#[test]
fn a_sealed_queue_is_finished_when_it_is_quiet_and_empty() {
    let mut table = table_at(noon());
    let (first, second) = (QueueName::new("first").unwrap(), QueueName::new("second").unwrap());
    let set = |sealed: Option<Timestamp>, quiet: Option<Timestamp>| {
        let mut settings = Settings::default();
        settings.queues.insert(first.clone(), QueueSettings { sealed, quiet, ..QueueSettings::default() });
        settings
            .queues
            .insert(second.clone(), QueueSettings { after: vec![first.clone()], ..QueueSettings::default() });
        Input::Settings(settings)
    };
    table.tell(set(Some(noon()), None));
    table.tell(Input::Jobs(vec![JobHead { queue: second.clone(), ..submitted(2, noon()) }]));
    let states = table.scheduler.queue_states();
    assert!(states.contains(&(first.clone(), QueueState::Active)), "{states:?}");
    assert_eq!(gates(&table, 2), [Gate::WaitsFor { queue: second.clone(), other: first.clone() }]);
    // The transaction that was open at the seal has brought a job: it comes first.
    table.tell(Input::Jobs(vec![JobHead { queue: first.clone(), ..submitted(1, noon()) }]));
    table.tell(set(Some(noon()), Some(noon())));
    assert_eq!(table.drain(), [1, 2]);
    let later = noon().plus(Duration::from_secs(1));
    table.tell(set(Some(later), Some(noon())));
    let states = table.scheduler.queue_states();
    assert!(states.contains(&(first.clone(), QueueState::Active)), "quiet since before the seal: {states:?}");
}
