//! Suspects run alone, and cost other jobs no more than that: no node is kept empty for a suspect that may not begin yet.

use std::time::Duration;

use turnwise_core::{
    Fence, GroupName, JobHead, JobState, KeyName, QueueName, TaskName,
    scheduler::{Input, Pick},
    settings::{Concurrency, GroupSettings, LimitSettings, QueueSettings, Rate, Settings},
    turn::Scheme,
};

mod table;
use table::{Table, at, head, node};

fn q() -> QueueName {
    QueueName::new("q").unwrap()
}

/// In a queue, of a group, a task and a key of its own kind.
fn in_q(number: i64) -> JobHead {
    JobHead {
        queue: q(),
        task: TaskName::new("u").unwrap(),
        key: Some(KeyName::new("k").unwrap()),
        ..head(number, "limited")
    }
}

fn suspect(number: i64) -> JobHead {
    JobHead { crashes: 2, fence: Fence(3), ..in_q(number) }
}

/// One limit or rate each: of the queue, the group, the task, the key.
fn each(concurrency: Option<u32>, rate: Option<Rate>) -> Vec<Settings> {
    let limit = LimitSettings { concurrency, rate };
    let mut all = vec![Settings::default(); 4];
    let at_most = concurrency.map_or(Concurrency::Unlimited, Concurrency::AtMost);
    all[0].queues.insert(q(), QueueSettings { concurrency: at_most, rate, ..QueueSettings::default() });
    let group = GroupSettings { concurrency, rate, ..GroupSettings::default() };
    all[1].groups.insert(GroupName::new("limited").unwrap(), group);
    all[2].tasks.insert(TaskName::new("u").unwrap(), limit);
    all[3].keys.insert(KeyName::new("k").unwrap(), limit);
    all
}

fn fleet(slots: &[u32], settings: Settings) -> Table {
    let nodes = (1..).zip(slots).map(|(number, &slots)| node(number, slots, &["t", "u"])).collect();
    let mut table = Table::new(Scheme::default(), nodes);
    table.tell(Input::Settings(settings));
    table
}

fn seqs(table: &Table, picks: &[Pick]) -> Vec<i64> {
    picks.iter().map(|pick| table.groups[&pick.job].seq).collect()
}

fn pick_of(table: &Table, number: i64) -> Pick {
    table.order.iter().find(|pick| table.groups[&pick.job].seq == number).expect("it was picked").clone()
}

/// It ends after ten seconds.
fn end(table: &mut Table, number: i64) -> Vec<i64> {
    let pick = pick_of(table, number);
    table.now = table.now.plus(Duration::from_secs(10));
    let next = table.settle(&pick, Duration::from_secs(10), None);
    seqs(table, &next)
}

#[test]
fn no_node_is_kept_free_for_a_suspect_whose_rate_allows_none() {
    for settings in each(None, Some("10/1h,1".parse().unwrap())) {
        let mut table = fleet(&[2], settings.clone());
        table.tell(Input::Jobs(vec![suspect(1)]));
        let next = table.tell(Input::Jobs((10..20).map(|n| head(n, "g")).collect()));
        assert_eq!(seqs(&table, &next), [10, 11], "{settings:?}");
        assert_eq!(table.wake_at, Some(at(361)), "{settings:?}");
        // When it allows the next, the node drains and the suspect runs.
        table.now = at(361);
        assert_eq!(table.tell(Input::Tick), []);
        assert_eq!(end(&mut table, 10), [0; 0]);
        assert_eq!(end(&mut table, 11), [1]);
        assert_eq!(end(&mut table, 1), [12, 13], "{settings:?}");
    }
}

/// Otherwise a job on another node would take it first, again and again.
#[test]
fn a_suspect_keeps_its_token_while_its_node_drains() {
    for settings in each(None, Some("10/1h,1".parse().unwrap())) {
        let mut table = fleet(&[1, 2], settings.clone());
        table.tell(Input::Jobs(vec![suspect(1), head(10, "g"), head(11, "g"), head(12, "g")]));
        table.tell(Input::Jobs((20..30).map(in_q).collect()));
        assert_eq!(seqs(&table, &table.order), [10, 11, 12]);
        table.now = at(361);
        assert_eq!(table.tell(Input::Tick), []);
        // The second node has room, but the token belongs to the suspect; the first node is drained for it.
        assert_eq!(end(&mut table, 11), [0; 0], "{settings:?}");
        assert_eq!(end(&mut table, 10), [1], "{settings:?}");
        table.now = at(722);
        let next = table.tell(Input::Tick);
        assert_eq!(seqs(&table, &next), [20], "the next token is the next one's: {settings:?}");
    }
}

#[test]
fn no_node_is_kept_free_for_a_suspect_whose_limit_is_filled_elsewhere() {
    for settings in each(Some(1), None) {
        let mut table = fleet(&[2, 1], settings.clone());
        table.tell(Input::Jobs(vec![in_q(1)]));
        table.tell(Input::Jobs(vec![suspect(2), in_q(3)]));
        let next = table.tell(Input::Jobs((10..20).map(|n| head(n, "g")).collect()));
        assert_eq!(seqs(&table, &next), [10, 11], "both nodes are full: {settings:?}");
        // The limit has room: the place belongs to the suspect from now on, and the first node is drained for it.
        assert_eq!(end(&mut table, 1), [0; 0], "{settings:?}");
        assert_eq!(end(&mut table, 10), [12], "others go on: {settings:?}");
        assert_eq!(end(&mut table, 11), [2], "{settings:?}");
        let next = end(&mut table, 2);
        assert!(next.contains(&3), "the place is the next one's: {next:?}, {settings:?}");
    }
}

/// The job that fills the limit runs on the node that is to be drained.
#[test]
fn a_suspect_has_its_turn_at_a_limit_that_is_always_full() {
    for settings in each(Some(1), None) {
        let mut table = fleet(&[2], settings.clone());
        table.tell(Input::Jobs((1..10).map(in_q).collect()));
        table.tell(Input::Jobs(vec![suspect(20)]));
        assert_eq!(seqs(&table, &table.order), [1]);
        assert_eq!(end(&mut table, 1), [20], "{settings:?}");
        assert_eq!(end(&mut table, 20), [2], "{settings:?}");
    }
}

#[test]
fn a_suspect_that_is_cancelled_while_its_node_drains_gives_its_place_back() {
    for settings in each(Some(1), None) {
        let mut table = fleet(&[2], settings.clone());
        table.tell(Input::Jobs(vec![head(10, "g")]));
        table.tell(Input::Jobs(vec![suspect(1), in_q(2)]));
        assert_eq!(seqs(&table, &table.order), [10]);
        let next = table.tell(Input::Gone(vec![suspect(1).id]));
        assert_eq!(seqs(&table, &next), [2], "{settings:?}");
    }
}

#[test]
fn a_suspect_whose_node_leaves_while_it_drains_has_its_place_on_another() {
    for settings in each(Some(1), None) {
        let mut table = fleet(&[2], settings.clone());
        table.tell(Input::Jobs(vec![head(10, "g")]));
        table.tell(Input::Jobs(vec![suspect(1), in_q(2)]));
        assert_eq!(seqs(&table, &table.order), [10]);
        let next = table.tell(Input::Nodes(vec![node(7, 1, &["t", "u"])]));
        assert_eq!(seqs(&table, &next), [1], "{settings:?}");
        assert_eq!(end(&mut table, 1), [2], "{settings:?}");
    }
}

#[test]
fn no_node_is_kept_free_for_a_suspect_behind_another_that_holds_the_line() {
    let mut settings = Settings::default();
    settings.queues.insert(q(), QueueSettings { concurrency: Concurrency::Serial, ..QueueSettings::default() });
    let mut table = fleet(&[1], settings);
    let holder = JobHead { state: JobState::Stuck, fence: Fence(1), due: Some(at(3_600)), ..in_q(1) };
    table.tell(Input::Jobs(vec![holder, suspect(2)]));
    let next = table.tell(Input::Jobs((10..500).map(|n| head(n, "g")).collect()));
    assert_eq!(seqs(&table, &next), [10]);
    table.now = at(3_600);
    table.tell(Input::Tick);
    let mut order = table.drain();
    order.retain(|seq| *seq < 10);
    assert_eq!(order, [1, 2]);
}
