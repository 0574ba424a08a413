//! Statistics: whatever happens, it is counted once, and what groups could claim adds up.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;
use turnwise_core::{
    Fingerprint, GroupName, Timestamp,
    scheduler::{Input, Rest, Settled},
    settings::{Fairness, GroupSettings, QueueSettings, Settings},
    statistics::{Counted, ErrorRow, Minute, Of, Span, Sums},
};

mod table;
use table::{Table, at, head, node};

fn counting(slots: u32) -> Table {
    let mut table = Table::new(turnwise_core::turn::Scheme::default(), vec![node(1, slots, &["t"])]);
    table.scheduler.keep_statistics(table.now);
    table
}

fn end(table: &mut Table, at: usize, what: Counted, error: Option<u64>) {
    let pick = table.order[at].clone();
    let rest = |stuck| Some(Rest { stuck, due: None, crashes: 0, next: None });
    let settled = Settled {
        id: pick.job,
        fence: pick.fence.next(),
        ran: Some(Duration::from_millis(1_500)),
        rest: match what {
            Counted::Stuck => rest(true),
            Counted::Retried | Counted::Again => rest(false),
            _ => None,
        },
        failed: what == Counted::Failed,
        well: what == Counted::Success,
        error: error.map(Fingerprint::from_number),
    };
    table.tell(Input::Settled(vec![settled]));
}

fn sums(minutes: &[Minute], wanted: impl Fn(&Of) -> bool) -> Sums {
    let mut all = Sums::default();
    let rows = minutes.iter().flat_map(|minute| &minute.rows);
    rows.filter(|row| wanted(&row.of)).for_each(|row| all.add(&row.sums));
    all
}

fn group(minutes: &[Minute], name: &str) -> Sums {
    sums(minutes, |of| *of == Of::Group(GroupName::new(name).unwrap()))
}

#[test]
fn every_way_to_end_is_counted_as_what_it_is() {
    let mut table = counting(10);
    table.tell(Input::Jobs((1..=7).map(|number| head(number, "a")).collect()));
    let ends = Counted::ALL.into_iter().skip(1).chain([Counted::Cancelled]);
    for (at, what) in ends.enumerate() {
        let error = matches!(what, Counted::Failed | Counted::Stuck | Counted::Retried).then_some(7);
        end(&mut table, at, what, error);
        end(&mut table, at, what, error);
    }
    let minutes = table.scheduler.statistics(table.now);
    let task = sums(&minutes, |of| matches!(of, Of::Task(_)));
    assert_eq!(Counted::ALL.map(|counted| task.count(counted)), [7, 1, 1, 2, 1, 1, 1], "each once, though told twice");
    assert_eq!(task.used, 7 * 1_500_000);
    assert_eq!(task.runs().quantile(0.5), Some(Duration::from_micros(1_780_000)));
    assert_eq!(task.histogram(Counted::Started).quantile(0.5), Some(Duration::from_secs(1)), "due at 0, given at 1 s");
    let [ErrorRow { count, first, last, .. }] = &minutes[0].errors[..] else { panic!("{:?}", minutes[0].errors) };
    assert_eq!((*count, *first, *last), (3, table.now, table.now));
    assert!(!table.scheduler.has_counted());
}

#[test]
fn a_job_that_ends_before_it_has_begun_is_counted_without_a_time() {
    let mut table = counting(0);
    table.tell(Input::Jobs(vec![head(1, "a"), head(2, "a")]));
    for (number, error) in [(1, None), (2, Some(Fingerprint::from_number(9)))] {
        let id = head(number, "a").id;
        let fence = turnwise_core::Fence(i64::MAX);
        let settled = Settled { id, fence, ran: None, rest: None, failed: false, well: false, error };
        table.tell(Input::Settled(vec![settled]));
    }
    let minutes = table.scheduler.statistics(table.now);
    let a = group(&minutes, "a");
    assert_eq!((a.count(Counted::Cancelled), a.count(Counted::Failed)), (1, 1));
    assert_eq!((a.runs().count(), a.used), (0, 0));
}

#[test]
fn a_minute_that_is_over_is_told_once_and_the_next_one_begins_with_nothing() {
    let mut table = counting(1);
    table.tell(Input::Jobs((1..=4).map(|number| head(number, "a")).collect()));
    end(&mut table, 0, Counted::Success, None);
    assert_eq!(table.scheduler.statistics(table.now).len(), 1);
    table.now = at(61);
    end(&mut table, 1, Counted::Success, None);
    table.now = at(125);
    end(&mut table, 2, Counted::Success, None);
    let minutes = table.scheduler.statistics(table.now);
    let starts: Vec<_> = minutes.iter().map(|minute| minute.at).collect();
    assert_eq!(starts, [at(0), at(60), at(120)]);
    let ended = |minute: &Minute| group(std::slice::from_ref(minute), "a").ended();
    assert_eq!(minutes.iter().map(ended).collect::<Vec<_>>(), [1, 1, 1]);
    let again = table.scheduler.statistics(table.now);
    assert_eq!((again.len(), again[0].at), (1, at(120)));
    // A clock that goes back stays within the minute.
    table.now = at(30);
    end(&mut table, 3, Counted::Success, None);
    assert_eq!(ended(&table.scheduler.statistics(table.now)[0]), 2);
}

/// Two groups that always have something ready, one of them with three times the weight.
#[test]
fn entitlement_follows_weights_and_a_group_without_ready_jobs_has_none() {
    let mut table = counting(1);
    let heavy = GroupSettings { weight: "3".parse().unwrap(), ..GroupSettings::default() };
    let groups = BTreeMap::from([(GroupName::new("heavy").unwrap(), heavy)]);
    table.tell(Input::Settings(Settings { groups, ..Settings::default() }));
    let jobs = (1..=800).map(|number| head(number, if number % 2 == 0 { "heavy" } else { "light" }));
    table.tell(Input::Jobs(jobs.chain([head(900, "idle")]).collect()));
    for done in 0..400 {
        table.now = at(1).plus(Duration::from_millis(100 * done));
        let pick = table.order[usize::try_from(done).unwrap()].clone();
        table.settle(&pick, Duration::from_millis(100), None);
    }
    let minutes = table.scheduler.statistics(table.now);
    let seconds = |name: &str| {
        let sums = group(&minutes, name);
        (Duration::from_micros(sums.used).as_secs_f64(), Duration::from_micros(sums.entitled).as_secs_f64())
    };
    let ((heavy, heavy_claim), (light, light_claim)) = (seconds("heavy"), seconds("light"));
    assert!((heavy / light - 3.0).abs() < 0.1 && (heavy_claim / light_claim - 3.0).abs() < 0.01, "{heavy} {light}");
    assert!((heavy - heavy_claim).abs() < 1.0 && (light - light_claim).abs() < 1.0, "{heavy_claim} {light_claim}");
    assert!(seconds("idle").1 < 0.5, "its one job had to wait for a turn only");
}

#[test]
fn where_turns_are_counted_a_turn_is_a_second() {
    let mut table = counting(1);
    let queue = QueueSettings { fairness: Fairness::Turns, ..QueueSettings::default() };
    let queues = BTreeMap::from([(head(1, "a").queue, queue)]);
    table.tell(Input::Settings(Settings { queues, ..Settings::default() }));
    table.tell(Input::Jobs((1..=10).map(|number| head(number, if number % 2 == 0 { "a" } else { "b" })).collect()));
    table.drain();
    let minutes = table.scheduler.statistics(table.now);
    assert_eq!(group(&minutes, "a").used, 5_000_000);
}

/// In the second minute a round of turns ends and the next begins, so that the virtual time advances while most groups wait.
#[test]
fn of_many_groups_two_hundred_have_rows_and_the_others_are_one() {
    let mut table = counting(1);
    let jobs: Vec<_> = (0..6_000).map(|number| head(number, &format!("g{}", number % 1_500))).collect();
    table.tell(Input::Jobs(jobs));
    (0..1_400).for_each(|done| end(&mut table, done, Counted::Success, None));
    table.now = at(61);
    (1_400..1_900).for_each(|done| end(&mut table, done, Counted::Success, None));
    let minutes = table.scheduler.statistics(table.now);
    assert_eq!(minutes.len(), 2);
    let last = &minutes[1..];
    let own = || last[0].rows.iter().filter(|row| matches!(row.of, Of::Group(_)));
    assert_eq!(own().count(), 200);
    let of_groups = sums(last, |of| matches!(of, Of::Group(_) | Of::OtherGroups));
    let of_tasks = sums(last, |of| matches!(of, Of::Task(_)));
    assert_eq!(of_groups.ended(), 500);
    assert_eq!((of_groups.used, of_groups.runs()), (of_tasks.used, of_tasks.runs()));
    // Groups that nothing happened to are among those furthest under their share.
    assert!(own().filter(|row| row.sums.ended() == 0 && row.sums.entitled > 0).count() >= 50);
    assert!(of_groups.entitled > 1_000_000 * 1_000, "all of them could claim something: {}", of_groups.entitled);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Jobs come and end, weights are changed, minutes pass. The scheduler itself checks that claims add up.
    #[test]
    fn nothing_is_counted_twice_or_not_at_all(
        steps in proptest::collection::vec((0u8..6, 0usize..8, 1u64..20), 1..100),
        slots in 1u32..4,
    ) {
        let mut table = counting(slots);
        let (mut number, mut running) = (0, 0);
        let mut expected = [0u64; 7];
        let mut latest: BTreeMap<Timestamp, Minute> = BTreeMap::new();
        for (step, which, amount) in steps {
            match step {
                0 | 1 => {
                    let name = format!("g{which}");
                    let jobs = (0..amount).map(|_| { number += 1; head(number, &name) }).collect();
                    table.tell(Input::Jobs(jobs));
                }
                2 | 3 => {
                    for _ in 0..amount {
                        if running < table.order.len() {
                            let what = if which == 0 { Counted::Failed } else { Counted::Success };
                            expected[what.index()] += 1;
                            end(&mut table, running, what, None);
                            running += 1;
                        }
                    }
                }
                4 => {
                    let weight = format!("{}", amount % 5 + 1).parse().unwrap();
                    let special = GroupSettings { weight, ..GroupSettings::default() };
                    let groups = BTreeMap::from([(GroupName::new(format!("g{which}")).unwrap(), special)]);
                    table.tell(Input::Settings(Settings { groups, ..Settings::default() }));
                }
                _ => {
                    table.now = table.now.plus(Duration::from_secs(amount));
                    table.tell(Input::Tick);
                }
            }
            // A minute that is told again has all that it had before.
            if which < 4 {
                let now = table.scheduler.statistics(table.now);
                latest.extend(now.into_iter().map(|minute| (minute.at, minute)));
            }
        }
        let last = table.scheduler.statistics(table.now);
        latest.extend(last.into_iter().map(|minute| (minute.at, minute)));
        expected[0] = u64::try_from(table.order.len()).unwrap();
        let minutes: Vec<_> = latest.into_values().collect();
        prop_assert!(minutes.iter().all(|minute| Span::Minute.begin(minute.at) == minute.at));
        for tasks in [true, false] {
            let all = sums(&minutes, |of| matches!(of, Of::Task(_) | Of::OtherTasks) == tasks);
            prop_assert_eq!(Counted::ALL.map(|counted| all.count(counted)), expected);
        }
        // With few groups nothing is left for the others.
        let others = sums(&minutes, |of| matches!(of, Of::OtherGroups));
        prop_assert_eq!(others.ended() + others.count(Counted::Started), 0);
        prop_assert!(others.entitled <= 8 * u64::try_from(minutes.len()).unwrap(), "{:?}", others);
    }
}
