//! Promises about statistics.

use std::{sync::Arc, time::Duration};

use turnwise_core::{
    Fingerprint, GroupName, QueueName, TaskName, Timestamp,
    statistics::{
        Counted, ErrorRow, Of, Row, Span, Sums,
        age::{KEEP_DAYS, KEEP_HOURS, KEEP_MINUTES},
    },
};

use super::{OperatorHarness, scene::SECOND};
use crate::{
    AskErrors, AskOf, AskStatistics, BegunStatistics, CountingTerm, Epoch, OperatorStore, StoreError, TimedError,
    TimedRow, WriteStatistics,
};

const MINUTE: Duration = SECOND.saturating_mul(60);
const HOUR: Duration = MINUTE.saturating_mul(60);
const DAY: Duration = HOUR.saturating_mul(24);

fn queue(name: &str) -> QueueName {
    QueueName::new(name).expect("a good name")
}

fn task(name: &str) -> Of {
    Of::Task(TaskName::new(name).expect("a good name"))
}

fn group(name: &str) -> Of {
    Of::Group(GroupName::new(name).expect("a good name"))
}

fn row(queue_name: &str, of: Of, count: u64) -> Row {
    let mut sums = Sums::of_share(count * 7, count * 8);
    sums.tally(Counted::Started, count, count * 1_000);
    sums.put(Counted::Started, 4, count);
    sums.tally(Counted::Success, count, count * 2_000);
    sums.put(Counted::Success, 39, count);
    Row { queue: queue(queue_name), of, sums }
}

fn error(number: u64, count: u64, at: Timestamp) -> ErrorRow {
    ErrorRow {
        queue: queue("q"),
        task: TaskName::new("t").expect("a good name"),
        fingerprint: Fingerprint::from_number(number),
        count,
        first: at,
        last: at.plus(SECOND),
    }
}

/// What the store's clock says, to the minute. Its clock stands still until it is moved.
async fn this_minute(store: &Arc<dyn OperatorStore>) -> Timestamp {
    Span::Minute.begin(store.tokens().await.expect("the time").1)
}

fn counted(term: CountingTerm, at: Timestamp, rows: Vec<Row>) -> WriteStatistics {
    WriteStatistics { term, at, first: true, rows, errors: Vec::new(), totals: Vec::new() }
}

async fn begin(store: &Arc<dyn OperatorStore>, epoch: i64) -> CountingTerm {
    store.begin_statistics(Epoch(epoch)).await.expect("begin").term
}

async fn write(store: &Arc<dyn OperatorStore>, write: WriteStatistics) {
    // As if the first reply had been lost.
    store.write_statistics(write.clone()).await.expect("write statistics");
    store.write_statistics(write).await.expect("write statistics again");
}

async fn read(store: &Arc<dyn OperatorStore>, span: Span, of: AskOf) -> Vec<(Timestamp, Row)> {
    let ask = AskStatistics { span, since: Timestamp::MIN, until: Timestamp::MAX, of };
    let rows = store.statistics(ask).await.expect("read statistics");
    rows.into_iter().map(|TimedRow { at, row }| (at, row)).collect()
}

fn tasks() -> AskOf {
    AskOf::Tasks { queue: None, tasks: None }
}

fn groups() -> AskOf {
    AskOf::Groups { queue: queue("q"), groups: None }
}

pub async fn what_was_counted_is_read_by_its_time_and_queue(h: &impl OperatorHarness) {
    let (store, other) = (h.operators().await, h.operators().await);
    let at = this_minute(&store).await;
    let term = begin(&store, 1).await;
    let rows = vec![
        row("p", task("t"), 1),
        row("q", task("t"), 2),
        row("q", Of::OtherTasks, 3),
        row("q", group("a"), 4),
        row("q", group("ü"), 5),
        row("q", Of::OtherGroups, 6),
        row("r", group("a"), 7),
    ];
    write(&store, counted(term, at, rows.clone())).await;
    write(&store, counted(term, at.plus(MINUTE), rows.clone())).await;
    let timed = |at: Timestamp, places: &[usize]| places.iter().map(|&n| (at, rows[n].clone())).collect::<Vec<_>>();
    let later = at.plus(MINUTE);
    let all = read(&other, Span::Minute, tasks()).await;
    assert_eq!(all, [timed(at, &[0, 1, 2]), timed(later, &[0, 1, 2])].concat());
    let of_one = read(&other, Span::Minute, AskOf::Tasks { queue: Some(queue("q")), tasks: None }).await;
    assert_eq!(of_one, [timed(at, &[1, 2]), timed(later, &[1, 2])].concat());
    assert_eq!(read(&other, Span::Minute, groups()).await, [timed(at, &[3, 4, 5]), timed(later, &[3, 4, 5])].concat());
    let ask = AskStatistics { span: Span::Minute, since: later, until: later.plus(SECOND), of: groups() };
    let rows_of_then = other.statistics(ask).await.expect("read statistics");
    assert_eq!(
        rows_of_then.into_iter().map(|timed| (timed.at, timed.row)).collect::<Vec<_>>(),
        timed(later, &[3, 4, 5])
    );
    assert_eq!(read(&other, Span::Hour, tasks()).await, []);
}

pub async fn only_the_names_that_are_asked_for_are_read_and_not_the_sum_of_others(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let at = this_minute(&store).await;
    let term = begin(&store, 1).await;
    let rows = vec![
        row("q", task("t"), 1),
        row("q", task("u"), 2),
        row("q", Of::OtherTasks, 3),
        row("q", group("a"), 4),
        row("q", group("ü"), 5),
        row("q", group("t"), 6),
        row("q", Of::OtherGroups, 7),
        row("r", task("t"), 8),
        row("r", group("a"), 9),
    ];
    write(&store, counted(term, at, rows.clone())).await;
    let of_tasks = |names: &[&str]| Some(names.iter().map(|name| TaskName::new(*name).expect("a name")).collect());
    let of_groups = |names: &[&str]| Some(names.iter().map(|name| GroupName::new(*name).expect("a name")).collect());
    for (of, expected) in [
        (AskOf::Tasks { queue: None, tasks: of_tasks(&["t", "none"]) }, &[0, 7][..]),
        (AskOf::Tasks { queue: Some(queue("q")), tasks: of_tasks(&["t", "u"]) }, &[0, 1]),
        (AskOf::Groups { queue: queue("q"), groups: of_groups(&["ü"]) }, &[4]),
        (AskOf::Groups { queue: queue("q"), groups: of_groups(&["a", "t"]) }, &[3, 5]),
        (AskOf::Groups { queue: queue("q"), groups: of_groups(&[]) }, &[]),
    ] {
        let expected: Vec<_> = expected.iter().map(|&n: &usize| (at, rows[n].clone())).collect();
        assert_eq!(read(&store, Span::Minute, of.clone()).await, expected, "{of:?}");
    }
}

pub async fn a_minute_that_is_written_again_replaces_what_was_written_of_it(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let at = this_minute(&store).await;
    let term = begin(&store, 1).await;
    write(&store, counted(term, at.minus(MINUTE), vec![row("q", group("a"), 9)])).await;
    write(&store, counted(term, at, vec![row("q", group("a"), 1), row("q", group("b"), 1)])).await;
    let mut again = counted(term, at, vec![row("q", group("b"), 2), row("q", group("c"), 1)]);
    again.errors = vec![error(1, 3, at)];
    write(&store, again).await;
    let expected =
        [(at.minus(MINUTE), row("q", group("a"), 9)), (at, row("q", group("b"), 2)), (at, row("q", group("c"), 1))];
    assert_eq!(read(&store, Span::Minute, groups()).await, expected);
    write(&store, counted(term, at, Vec::new())).await;
    assert_eq!(read(&store, Span::Minute, groups()).await, expected[..1]);
    let ask = AskErrors { span: Span::Minute, since: at, until: Timestamp::MAX };
    assert_eq!(store.error_statistics(ask).await.expect("errors"), []);
}

pub async fn a_minute_may_be_written_in_several_batches(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let at = this_minute(&store).await;
    let term = begin(&store, 1).await;
    let name = |n: usize| format!("g{n:05}");
    let rows: Vec<Row> = (0..7_000).map(|n| row("q", group(&name(n)), 1)).collect();
    let (first, second) = rows.split_at(5_000);
    write(&store, counted(term, at, first.to_vec())).await;
    write(&store, WriteStatistics { first: false, ..counted(term, at, second.to_vec()) }).await;
    let read = read(&store, Span::Minute, groups()).await;
    assert_eq!(read.len(), 7_000);
    assert!(read.into_iter().map(|(_, row)| row).eq(rows));
}

pub async fn minutes_of_two_terms_are_both_kept(h: &impl OperatorHarness) {
    let (first, second) = (h.operators().await, h.operators().await);
    let at = this_minute(&first).await;
    let term = begin(&first, 1).await;
    write(&first, counted(term, at, vec![row("q", group("a"), 1)])).await;
    // The same dispatcher, after an interruption: it has counted nothing yet.
    let next = begin(&first, 1).await;
    write(&first, counted(next, at, vec![row("q", group("a"), 2)])).await;
    let other = begin(&second, 2).await;
    write(&second, counted(other, at, vec![row("q", group("a"), 3)])).await;
    let expected = [1, 2, 3].map(|count| (at, row("q", group("a"), count)));
    assert_eq!(read(&second, Span::Minute, groups()).await, expected);
}

pub async fn an_earlier_dispatcher_writes_no_statistics_after_a_later_one_has_begun(h: &impl OperatorHarness) {
    let (first, second) = (h.operators().await, h.operators().await);
    let at = this_minute(&first).await;
    let term = begin(&first, 4).await;
    write(&first, counted(term, at, vec![row("q", task("t"), 1)])).await;
    begin(&second, 5).await;
    let late = counted(term, at, vec![row("q", task("t"), 8)]);
    let late = WriteStatistics { totals: vec![row("q", task("t"), 8)], ..late };
    assert!(matches!(first.write_statistics(late).await, Err(StoreError::NotLeading)));
    assert!(matches!(first.begin_statistics(Epoch(4)).await, Err(StoreError::NotLeading)));
    assert_eq!(read(&second, Span::Minute, tasks()).await, [(at, row("q", task("t"), 1))]);
    assert_eq!(second.statistics_totals().await.expect("totals"), []);
}

pub async fn running_totals_go_from_one_dispatcher_to_the_next(h: &impl OperatorHarness) {
    let (first, second) = (h.operators().await, h.operators().await);
    let at = this_minute(&first).await;
    let BegunStatistics { term, totals } = first.begin_statistics(Epoch(1)).await.expect("begin");
    assert_eq!(totals, []);
    let totals = vec![row("p", task("t"), 1), row("q", task("t"), 2), row("q", Of::OtherTasks, 3)];
    write(&first, WriteStatistics { totals: totals.clone(), ..counted(term, at, Vec::new()) }).await;
    write(&first, WriteStatistics { totals: vec![row("q", task("t"), 5)], ..counted(term, at, Vec::new()) }).await;
    let expected = vec![totals[0].clone(), row("q", task("t"), 5), totals[2].clone()];
    assert_eq!(second.begin_statistics(Epoch(2)).await.expect("begin").totals, expected);
    assert_eq!(second.statistics_totals().await.expect("totals"), expected);
}

pub async fn errors_are_counted_with_when_they_were_first_and_last_seen(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let at = this_minute(&store).await;
    let term = begin(&store, 1).await;
    let errors = vec![error(1, 3, at), error((1 << 48) - 1, 1, at.plus(SECOND))];
    write(&store, WriteStatistics { errors: errors.clone(), ..counted(term, at, Vec::new()) }).await;
    write(&store, WriteStatistics { errors: errors.clone(), ..counted(term, at.plus(MINUTE), Vec::new()) }).await;
    let ask = |since| AskErrors { span: Span::Minute, since, until: Timestamp::MAX };
    let timed = |at| errors.iter().map(move |error| TimedError { at, error: error.clone() });
    let read = store.error_statistics(ask(at)).await.expect("errors");
    assert_eq!(read, timed(at).chain(timed(at.plus(MINUTE))).collect::<Vec<_>>());
    let later = store.error_statistics(ask(at.plus(SECOND))).await.expect("errors");
    assert_eq!(later, timed(at.plus(MINUTE)).collect::<Vec<_>>());
}

async fn merge_all(store: &Arc<dyn OperatorStore>) {
    while store.merge_statistics().await.expect("merge") {}
}

pub async fn old_rows_are_merged_into_hours_and_days_and_nothing_is_lost(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let day = Span::Day.begin(this_minute(&store).await).plus(DAY);
    let wait = day.since(store.tokens().await.expect("the time").1);
    h.advance(wait).await;
    // Two hours of three minutes each, by two dispatchers, in two queues.
    let mut term = begin(&store, 1).await;
    for minute in [0, 1, 59, 60, 61, 119] {
        if minute == 59 {
            term = begin(&store, 2).await;
        }
        let at = day.plus(MINUTE * minute);
        let rows = vec![row("p", task("t"), 1), row("q", task("t"), 1), row("q", group("a"), 10)];
        write(&store, WriteStatistics { errors: vec![error(7, 1, at)], ..counted(term, at, rows) }).await;
    }
    merge_all(&store).await;
    assert_eq!(read(&store, Span::Minute, tasks()).await.len(), 12, "they are young");
    h.advance(HOUR + KEEP_MINUTES).await;
    merge_all(&store).await;
    let hour = |n: u32| day.plus(HOUR * n);
    assert_eq!(read(&store, Span::Hour, groups()).await, [(hour(0), row("q", group("a"), 30))]);
    assert_eq!(read(&store, Span::Minute, groups()).await.len(), 3, "the second hour is young");
    h.advance(HOUR).await;
    merge_all(&store).await;
    let of_groups = [(hour(0), row("q", group("a"), 30)), (hour(1), row("q", group("a"), 30))];
    assert_eq!(read(&store, Span::Hour, groups()).await, of_groups);
    let of_tasks = [0, 0, 1, 1].map(hour).into_iter().zip(["p", "q", "p", "q"]);
    let of_tasks: Vec<_> = of_tasks.map(|(at, queue)| (at, row(queue, task("t"), 3))).collect();
    assert_eq!(read(&store, Span::Hour, tasks()).await, of_tasks);
    assert_eq!(read(&store, Span::Minute, tasks()).await, []);
    // A minute that is written late is added.
    write(&store, counted(term, day.plus(MINUTE), vec![row("q", group("a"), 5)])).await;
    h.advance(DAY + KEEP_HOURS).await;
    merge_all(&store).await;
    assert_eq!(read(&store, Span::Day, groups()).await, [(day, row("q", group("a"), 65))]);
    assert_eq!(read(&store, Span::Hour, groups()).await, []);
    let ask = AskErrors { span: Span::Day, since: day, until: Timestamp::MAX };
    let error = ErrorRow { last: day.plus(MINUTE * 119 + SECOND), ..error(7, 6, day) };
    assert_eq!(store.error_statistics(ask).await.expect("errors"), [TimedError { at: day, error }]);
}

pub async fn old_days_are_deleted_and_totals_stay(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let at = this_minute(&store).await;
    let term = begin(&store, 1).await;
    let totals = vec![row("q", task("t"), 1)];
    let write_all = WriteStatistics {
        totals: totals.clone(),
        errors: vec![error(1, 1, at)],
        ..counted(term, at, vec![row("q", task("t"), 1), row("q", group("a"), 1)])
    };
    write(&store, write_all).await;
    h.advance(KEEP_DAYS - DAY).await;
    merge_all(&store).await;
    assert_eq!(read(&store, Span::Day, tasks()).await, [(Span::Day.begin(at), row("q", task("t"), 1))]);
    h.advance(DAY * 3).await;
    merge_all(&store).await;
    for span in Span::ALL {
        assert_eq!(read(&store, span, tasks()).await, []);
        let ask = AskErrors { span, since: Timestamp::MIN, until: Timestamp::MAX };
        assert_eq!(store.error_statistics(ask).await.expect("errors"), []);
    }
    assert_eq!(store.statistics_totals().await.expect("totals"), totals);
}
