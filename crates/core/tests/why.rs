//! The scheduler explains why a job waits, and its forecasts come true.

use std::time::Duration;

use turnwise_core::{
    GroupName, JobHead, JobState, QueueName, TaskName,
    scheduler::{Future, Input},
    settings::{Concurrency, GroupSettings, Pause, QueueSettings, Rate, Settings},
    turn::Scheme,
    why::{Gate, Whose},
};

mod table;
use table::{Table, at, head, node};

fn gates(table: &Table, number: i64) -> Vec<Gate> {
    table.scheduler.why(table.now, head(number, "g").id, 1_000).expect("a known job").gates
}

#[test]
fn every_closed_gate_is_shown() {
    let mut table = Table::one_slot();
    let mut settings = Settings::default();
    let pause = Pause { since: at(1), reason: Some("holiday".into()) };
    settings.groups.insert(
        GroupName::new("paused").unwrap(),
        GroupSettings { paused: Some(pause.clone()), ..GroupSettings::default() },
    );
    settings
        .groups
        .insert(GroupName::new("one").unwrap(), GroupSettings { concurrency: Some(1), ..GroupSettings::default() });
    let none = QueueSettings { concurrency: Concurrency::AtMost(0), ..QueueSettings::default() };
    settings.queues.insert(QueueName::new("closed").unwrap(), none);
    table.tell(Input::Settings(settings));
    let unknown = JobHead { task: TaskName::new("unknown").unwrap(), ..head(5, "g") };
    let manual = JobHead { state: JobState::Stuck, due: None, ..head(6, "g") };
    let later = JobHead { due: Some(at(99)), ..head(7, "g") };
    let closed = JobHead { queue: QueueName::new("closed").unwrap(), ..head(8, "g") };
    table.tell(Input::Jobs(vec![head(1, "one")]));
    table.tell(Input::Jobs(vec![head(2, "one"), head(3, "paused"), head(4, "g"), unknown, manual, later, closed]));
    let busy = Gate::SlotsBusy { slots: 1 };
    assert_eq!(gates(&table, 1), [], "it runs");
    let limit = Gate::AtLimit { whose: Whose::Group(GroupName::new("one").unwrap()), used: 1, limit: 1 };
    assert_eq!(gates(&table, 2), [limit, busy.clone()]);
    assert_eq!(
        gates(&table, 3),
        [Gate::Paused { whose: Whose::Group(GroupName::new("paused").unwrap()), pause }, busy.clone()]
    );
    assert_eq!(gates(&table, 4), std::slice::from_ref(&busy));
    assert_eq!(gates(&table, 5), [Gate::UnknownTask]);
    assert_eq!(gates(&table, 6), [Gate::NeedsAPerson, busy.clone()]);
    assert_eq!(gates(&table, 7), [Gate::NotDue(at(99)), busy.clone()]);
    let limit = Gate::AtLimit { whose: Whose::Queue(QueueName::new("closed").unwrap()), used: 0, limit: 0 };
    assert_eq!(gates(&table, 8), [limit, busy]);
}

#[test]
fn a_pause_does_not_hide_that_a_limit_is_reached_and_a_rate_used_up() {
    let mut table = Table::one_slot();
    let name = QueueName::new("q").unwrap();
    let rate: Rate = "1/1m".parse().unwrap();
    let open = QueueSettings { concurrency: Concurrency::AtMost(1), ..QueueSettings::default() };
    let settings = |queue: QueueSettings| Settings { queues: [(name.clone(), queue)].into(), ..Settings::default() };
    table.tell(Input::Settings(settings(open.clone())));
    table.tell(Input::Jobs((1..=2).map(|n| JobHead { queue: name.clone(), ..head(n, "g") }).collect()));
    let pause = Pause { since: at(1), reason: None };
    table.tell(Input::Settings(settings(QueueSettings { paused: Some(pause.clone()), rate: Some(rate), ..open })));
    let whose = Whose::Queue(name.clone());
    let until = match gates(&table, 2).as_slice() {
        [_, _, Gate::Rate { until, .. }, _] => *until,
        other => panic!("no rate among {other:?}"),
    };
    assert_eq!(
        gates(&table, 2),
        [
            Gate::Paused { whose: whose.clone(), pause },
            Gate::AtLimit { whose: whose.clone(), used: 1, limit: 1 },
            Gate::Rate { whose, until },
            Gate::SlotsBusy { slots: 1 },
        ]
    );
}

#[test]
fn a_serial_queue_whose_backlog_is_being_read_is_not_at_its_limit() {
    let mut table = Table::one_slot();
    let name = QueueName::new("line").unwrap();
    let serial = QueueSettings { concurrency: Concurrency::Serial, ..QueueSettings::default() };
    table.tell(Input::Settings(Settings { queues: [(name.clone(), serial)].into(), ..Settings::default() }));
    table.tell(Input::Loading(true));
    table.tell(Input::Jobs(vec![JobHead { queue: name, ..head(1, "g") }]));
    assert_eq!(gates(&table, 1), [Gate::Loading]);
}

#[test]
fn nodes_that_run_as_many_of_a_queue_as_they_may_are_shown() {
    let mut table = Table::new(Scheme::default(), vec![node(1, 3, &["t"])]);
    let name = QueueName::new("q").unwrap();
    let capped = QueueSettings { per_node: Some(1), ..QueueSettings::default() };
    table.tell(Input::Settings(Settings { queues: [(name.clone(), capped)].into(), ..Settings::default() }));
    table.tell(Input::Jobs((1..=2).map(|n| JobHead { queue: name.clone(), ..head(n, "g") }).collect()));
    assert_eq!(gates(&table, 2), [Gate::FullOnNodes { queue: name, limit: 1 }]);
}

#[test]
fn the_forecast_is_what_then_happens() {
    let mut table = Table::new(Scheme::default(), vec![node(1, 3, &["t"])]);
    let heads = (1..=30).map(|n| head(n, if n <= 20 { "flood" } else { "other" })).collect();
    table.tell(Input::Jobs(heads));
    // Let the task's cost be known: two seconds.
    for at in 0..3 {
        let pick = table.order[at].clone();
        table.settle(&pick, Duration::from_secs(2), None);
    }
    let foreseen: Vec<_> = Future::of(table.scheduler.clone(), table.now).map(|start| start.job).collect();
    let why = table.scheduler.why(table.now, foreseen[10], 1_000).unwrap().forecast.unwrap();
    assert_eq!(why.before, 10);
    assert_eq!(why.starts_in, Duration::from_secs(8), "three slots, two seconds each, the eleventh to come");
    let given = table.order.len();
    let mut at = 3;
    while at < table.order.len() {
        let pick = table.order[at].clone();
        table.settle(&pick, Duration::from_secs(2), None);
        at += 1;
    }
    let then: Vec<_> = table.order[given..].iter().map(|pick| pick.job).collect();
    assert_eq!(foreseen, then);
}

#[test]
fn what_waits_for_a_person_has_no_forecast() {
    let mut table = Table::one_slot();
    table.tell(Input::Jobs(vec![JobHead { state: JobState::Stuck, due: None, ..head(1, "g") }]));
    assert_eq!(table.scheduler.why(table.now, head(1, "g").id, 1_000).unwrap().forecast, None);
    assert_eq!(table.scheduler.why(table.now, head(2, "g").id, 1_000), None, "an unknown job");
}

#[test]
fn the_forecast_holds_no_chance() {
    // Eight runs end at the same time, and each frees the one slot of its group: the group whose run ends first starts first.
    let forecast = || {
        let mut table = Table::new(Scheme::default(), vec![node(1, 8, &["t"])]);
        let names: Vec<String> = (0..8).map(|n| format!("g{n}")).collect();
        let mut settings = Settings::default();
        for name in &names {
            let limited = GroupSettings { concurrency: Some(1), ..GroupSettings::default() };
            settings.groups.insert(GroupName::new(name).unwrap(), limited);
        }
        table.tell(Input::Settings(settings));
        table.tell(Input::Jobs((0..16).map(|n| head(n, &names[usize::try_from(n).unwrap() % 8])).collect()));
        Future::of(table.scheduler.clone(), table.now).map(|start| start.job).collect::<Vec<_>>()
    };
    let first = forecast();
    assert_eq!(first.len(), 8);
    assert!((0..20).all(|_| forecast() == first));
}
