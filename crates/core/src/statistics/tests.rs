use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{
    choice::{Merit, choose, merge, merge_errors},
    histogram::bucket_of,
    *,
};

fn sums(events: &[(usize, u64)], entitled: u64) -> Sums {
    let mut sums = Sums::of_share(0, entitled);
    for &(counted, micros) in events {
        let counted = Counted::ALL[counted];
        sums.tally(counted, 1, micros);
        sums.put(counted, bucket_of(micros), 1);
        sums.used += micros;
    }
    sums
}

fn any_sums() -> impl Strategy<Value = Sums> {
    let events =
        proptest::collection::vec((0..7usize, prop_oneof![0..2_000u64, any::<u32>().prop_map(u64::from)]), 0..8);
    (events, 0..1_000_000u64).prop_map(|(events, entitled)| sums(&events, entitled))
}

fn any_row() -> impl Strategy<Value = Row> {
    let of = prop_oneof![
        (0..150u32).prop_map(|n| Of::Task(TaskName::new(format!("t{n}")).unwrap())),
        (0..400u32).prop_map(|n| Of::Group(GroupName::new(format!("g{n}")).unwrap())),
        Just(Of::OtherGroups),
        Just(Of::OtherTasks),
    ];
    let queue = (0..2u32).prop_map(|n| QueueName::new(format!("q{n}")).unwrap());
    (queue, of, any_sums()).prop_map(|(queue, of, sums)| Row { queue, of, sums })
}

fn total(rows: &[Row], tasks: bool) -> Sums {
    let mut all = Sums::default();
    let wanted = |row: &&Row| matches!(row.of, Of::Task(_) | Of::OtherTasks) == tasks;
    rows.iter().filter(wanted).for_each(|row| all.add(&row.sums));
    all
}

proptest! {
    #[test]
    fn sums_are_added_in_any_order(a in any_sums(), b in any_sums(), c in any_sums()) {
        let plus = |a: &Sums, b: &Sums| { let mut sum = a.clone(); sum.add(b); sum };
        prop_assert_eq!(plus(&plus(&a, &b), &c), plus(&a, &plus(&b, &c)));
        prop_assert_eq!(plus(&a, &b), plus(&b, &a));
        let mut back = plus(&a, &b);
        back.take_away(&b);
        prop_assert_eq!(back, a);
    }

    #[test]
    fn sums_are_read_as_they_were_written(sums in any_sums()) {
        let bytes = sums.to_bytes();
        prop_assert_eq!(Sums::from_bytes(&bytes), Some(sums));
        for cut in 0..bytes.len() {
            prop_assert_eq!(Sums::from_bytes(&bytes[..cut]), None);
        }
    }

    #[test]
    fn bytes_that_are_no_sums_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = Sums::from_bytes(&bytes);
    }

    /// Whatever is merged first, and whichever groups have rows of their own then.
    #[test]
    fn nothing_is_lost_when_rows_are_merged(rows in proptest::collection::vec(any_row(), 0..900), cut in 0..900usize) {
        let merged = merge(rows.clone());
        let (first, second) = rows.split_at(cut.min(rows.len()));
        let in_steps = merge(merge(first.to_vec()).into_iter().chain(merge(second.to_vec())));
        for tasks in [true, false] {
            prop_assert_eq!(total(&merged, tasks), total(&rows, tasks));
            prop_assert_eq!(total(&in_steps, tasks), total(&rows, tasks));
        }
        for queue in ["q0", "q1"] {
            let own = |row: &&Row| row.queue.as_str() == queue && matches!(row.of, Of::Group(_));
            prop_assert!(merged.iter().filter(own).count() <= BUSIEST + LONGEST_WAITING + FURTHEST_UNDER);
            let tasks = |row: &&Row| row.queue.as_str() == queue && matches!(row.of, Of::Task(_));
            prop_assert!(merged.iter().filter(tasks).count() <= TASKS);
        }
    }
}

#[test]
fn groups_are_chosen_because_they_are_busy_or_waited_or_are_under_their_share() {
    let merit = |busy: u64, waited: u64, under: u64| Merit { busy: (busy, u64::from(busy > 0)), waited, under };
    let mut merits: Vec<Merit> = (0..1_000).map(|n| merit(1_000 + n, 0, 0)).collect();
    merits.extend((0..200).map(|n| merit(1, 10 + n, 0)));
    merits.extend((0..200).map(|n| merit(0, 1, 10 + n)));
    merits.push(merit(0, 0, 0));
    let chosen: BTreeSet<usize> = choose(&merits).into_iter().collect();
    assert_eq!(chosen.len(), 200);
    assert!((900..1_000).chain(1_150..1_200).chain(1_350..1_400).all(|at| chosen.contains(&at)), "{chosen:?}");
}

#[test]
fn running_totals_count_a_minute_once_though_it_is_written_again_and_again() {
    let row = |count: usize| Row {
        queue: QueueName::default(),
        of: Of::Task(TaskName::new("mail").unwrap()),
        sums: sums(&vec![(1, 500); count], 0),
    };
    let minute = |count| Minute { at: Timestamp::from_micros(0), rows: vec![row(count)], errors: Vec::new() };
    let mut totals = Totals::read(vec![row(10)]);
    assert_eq!(totals.with(&minute(1)), [row(11)]);
    assert_eq!(totals.with(&minute(3)), [row(13)]);
    totals.take_in(&minute(4));
    assert_eq!(totals.with(&minute(1)), [row(15)]);
    let later = |count| Minute { at: Timestamp::from_micros(60_000_000), ..minute(count) };
    assert_eq!(totals.with(&later(1)), [row(16)], "the minute before was given up, and what was written of it stands");
    let group = Row { of: Of::OtherGroups, ..row(1) };
    assert!(totals.with(&Minute { rows: vec![group], ..minute(0) }).is_empty(), "by task alone");
}

fn of_task(task: &str, count: usize) -> Row {
    Row {
        queue: QueueName::default(),
        of: Of::Task(TaskName::new(task).unwrap()),
        sums: sums(&vec![(1, 500); count], 0),
    }
}

#[test]
fn the_total_of_a_task_does_not_fall_when_others_become_busier_within_a_minute() {
    let minute = |at, rows| Minute { at: Timestamp::from_micros(at), rows, errors: Vec::new() };
    let others = |count| Row { of: Of::OtherTasks, ..of_task("any", count) };
    let mut totals = Totals::read(vec![of_task("rare", 10)]);
    assert_eq!(totals.with(&minute(0, vec![of_task("rare", 5)])), [of_task("rare", 15)]);
    totals.take_in(&minute(0, vec![others(6)]));
    assert_eq!(totals.with(&minute(60_000_000, vec![of_task("rare", 1)])), [of_task("rare", 16)]);
}

#[test]
fn totals_of_tasks_with_made_up_names_have_a_bound() {
    let known = (0..TOTALS - 1).map(|number| of_task(&format!("task-{number}"), 1)).collect();
    let mut totals = Totals::read(known);
    let rows = ["task-7", "new-a", "new-b", "new-c"].map(|task| of_task(task, 1)).to_vec();
    let minute = Minute { at: Timestamp::from_micros(0), rows, errors: Vec::new() };
    let changed = totals.with(&minute);
    let others = Row { of: Of::OtherTasks, ..of_task("any", 2) };
    assert_eq!(changed.len(), 3, "{changed:?}");
    assert!(
        changed.contains(&of_task("task-7", 2)) && changed.contains(&of_task("new-a", 1)) && changed.contains(&others)
    );
    assert_eq!(totals.with(&minute), changed, "the same tasks have their own, however often the minute is written");
}

#[test]
fn the_most_frequent_errors_are_kept_with_when_they_were_first_and_last_seen() {
    let row = |number: u64, count, at| ErrorRow {
        queue: QueueName::default(),
        task: TaskName::new("mail").unwrap(),
        fingerprint: Fingerprint::from_number(number),
        count,
        first: Timestamp::from_micros(at),
        last: Timestamp::from_micros(at + 5),
    };
    let rows = (0..300).map(|number| row(number, 1 + number, 100)).chain([row(7, 1_000, 50), row(7, 1, 200)]);
    let merged = merge_errors(rows);
    assert_eq!(merged.len(), ERRORS);
    let first = ErrorRow { last: Timestamp::from_micros(205), ..row(7, 1_009, 50) };
    assert_eq!(merged[0], first);
    assert_eq!(merged[199].count, 102);
}

#[test]
fn rows_are_old_together_with_all_that_they_are_merged_with() {
    let now: Timestamp = "2030-05-20T10:20:30Z".parse().unwrap();
    let old = |span: Span| span.old_before(now).to_string();
    assert_eq!(old(Span::Minute), "2030-05-20T04:00:00.000000Z");
    assert_eq!(old(Span::Hour), "2030-05-06T00:00:00.000000Z");
    assert_eq!(old(Span::Day), "2029-04-15T00:00:00.000000Z");
    assert_eq!(Span::Minute.begin(now).to_string(), "2030-05-20T10:20:00.000000Z");
    assert_eq!(Span::Day.begin(Timestamp::from_micros(-1)).to_string(), "1969-12-31T00:00:00.000000Z");
    for span in Span::ALL {
        assert_eq!((Span::from_code(span.code()), Span::from_name(span.name())), (Some(span), Some(span)));
    }
    for counted in Counted::ALL {
        assert_eq!((Counted::ALL[counted.index()], Counted::from_name(counted.name())), (counted, Some(counted)));
    }
}
