//! Setting and viewing fairness with the real binary: weights, limits, pauses, why, simulate, top; on SQLite and PostgreSQL.
//! `TURNWISE_FULL=1` floods with more jobs.

mod support;

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use serde_json::{Value, json};
use support::{Place, Serving, full, on_both_databases, until};
use turnwise::Timestamp;

fn jobs(place: &Place, flags: &[&str]) -> Vec<RanJob> {
    let jobs = place.json(&[&["jobs", "--json", "--limit", "1000000"], flags].concat());
    jobs.as_array().unwrap().iter().map(RanJob::of).collect()
}

/// A job and when it ran, in microseconds.
#[derive(Debug, Clone)]
struct RanJob {
    id: String,
    group: String,
    state: String,
    submitted: i64,
    assigned: i64,
    started: i64,
    finished: i64,
}

impl RanJob {
    fn of(job: &Value) -> Self {
        let text = |name: &str| job[name].as_str().unwrap_or_default().to_owned();
        let time = |name: &str| job[name].as_str().map_or(0, |time| time.parse::<Timestamp>().unwrap().micros());
        Self {
            id: text("id"),
            group: text("group"),
            state: text("state"),
            submitted: time("submitted_at"),
            assigned: time("assigned_at"),
            started: time("started_at"),
            finished: time("finished_at"),
        }
    }
}

/// The most runs that were going on at one moment.
fn most_at_once(runs: &[RanJob]) -> i32 {
    let mut steps: Vec<_> = runs.iter().flat_map(|run| [(run.started, 1), (run.finished, -1)]).collect();
    // At the same microsecond an end comes before a start.
    steps.sort_unstable();
    let mut now = 0;
    steps
        .iter()
        .map(|(_, step)| {
            now += step;
            now
        })
        .max()
        .unwrap_or(0)
}

fn sleep(ms: u32, group: &str) -> Value {
    json!({"task": "sleep", "args": {"ms": ms}, "group": group})
}

on_both_databases!(
    a_paused_group_waits_while_the_others_run,
    a_paused_queue_waits_while_the_others_run,
    a_limit_of_one_is_never_exceeded,
    a_limit_changed_at_run_time_holds,
    a_serial_queue_runs_in_the_order_of_submission,
    a_rate_is_kept,
    a_full_group_refuses_jobs,
    a_queue_waits_for_another_to_be_sealed_and_empty,
    a_queue_set_to_pause_on_an_error_pauses,
    why_names_what_holds_a_job_up,
    a_simulation_changes_nothing_and_foretells_the_waits,
    weights_are_shares,
    a_flood_of_20_cannot_delay_the_others,
    a_flood_of_2_000_cannot_delay_the_others,
    a_flood_of_100_000_cannot_delay_the_others,
    jobs_34_times_as_long_get_no_more_than_their_share,
    a_stuck_job_is_not_pinned_to_the_node_that_failed_it,
    tasks_that_no_node_knows_take_no_slot,
    a_job_left_running_by_a_killed_node_can_be_cancelled,
    a_restart_does_not_reset_the_counting_scheme,
    a_long_backlog_is_read_while_quick_jobs_run,
    everything_set_is_listed,
);

fn a_paused_group_waits_while_the_others_run(place: &Place) {
    assert!(
        place
            .told(&["group", "pause", "acme", "--reason", "not paid", "--force"])
            .starts_with("group acme: paused since ")
    );
    let _node = place.serve(&["--demo-tasks", "--slots", "2"]);
    let held = place.enqueue(&["noop", "--group", "acme"]);
    let other = place.enqueue(&["noop", "--group", "other"]);
    place.wait_for_state(&other, "success");
    let why = place.why(&held);
    assert!(why.starts_with("group acme is paused since ") && why.contains("(not paid)"), "{why}");
    assert_eq!(place.state(&held), "waiting");
    assert_eq!(place.listed("groups", "acme")["state"], "paused");
    assert_eq!(place.listed("groups", "acme")["paused"]["reason"], "not paid");
    place.told(&["group", "resume", "acme"]);
    place.wait_for_state(&held, "success");
    assert_eq!(place.listed("groups", "acme")["state"], "active");
}

fn a_paused_queue_waits_while_the_others_run(place: &Place) {
    let _node = place.serve(&["--demo-tasks", "--slots", "2"]);
    place.told(&["queue", "pause", "mail", "--force"]);
    let held = place.enqueue(&["noop", "--queue", "mail"]);
    let other = place.enqueue(&["noop"]);
    place.wait_for_state(&other, "success");
    assert!(place.why(&held).starts_with("queue mail is paused since "), "{}", place.why(&held));
    let mail = place.listed("queues", "mail");
    assert_eq!((&mail["state"], &mail["waiting"]), (&json!("paused"), &json!(1)));
    place.told(&["queue", "resume", "mail"]);
    place.wait_for_state(&held, "success");
}

fn a_limit_of_one_is_never_exceeded(place: &Place) {
    for (set, field, value) in [
        (["queue", "set", "q", "--concurrency", "1"], "queue", "q"),
        (["group", "set", "g", "--concurrency", "1"], "group", "g"),
        (["key", "set", "k", "--concurrency", "1"], "key", "k"),
        (["task", "set", "sleep", "--concurrency", "1"], "task", "sleep"),
    ] {
        place.told(&set);
        let ids = place.enqueue_all((0..8).map(|n| {
            let mut job = sleep(20, &format!("group {n}"));
            job[field] = json!(value);
            job
        }));
        place.work(&["--demo-tasks", "--slots", "4"]);
        let runs: Vec<_> = jobs(place, &[]).into_iter().filter(|run| ids.contains(&run.id)).collect();
        assert_eq!(runs.iter().filter(|run| run.state == "success").count(), 8, "{field}: {runs:?}");
        assert_eq!(most_at_once(&runs), 1, "{field}: {runs:?}");
    }
}

fn a_limit_changed_at_run_time_holds(place: &Place) {
    place.told(&["queue", "set", "mail", "--concurrency", "3"]);
    let job = |n: i32| json!({"task": "sleep", "args": {"ms": 50}, "queue": "mail", "group": format!("{}", n % 5)});
    place.enqueue_all((0..60).map(job));
    let node = place.serve(&["--demo-tasks", "--slots", "8"]);
    let ended = || jobs(place, &["--state", "success"]).len();
    until("some to end", || (ended() >= 12).then_some(()));
    place.told(&["queue", "set", "mail", "--concurrency", "1"]);
    // It was submitted after the limit was lowered: a dispatcher that has read it has read the lower limit.
    let mark = place.enqueue(&["noop"]);
    place.wait_for_state(&mark, "success");
    until("the end", || (ended() == 61).then_some(()));
    node.stop();
    let seen = jobs(place, &["--queue", "default"])[0].assigned;
    let runs = jobs(place, &["--queue", "mail"]);
    assert_eq!(most_at_once(&runs), 3, "the first limit is used, and not exceeded");
    let later: Vec<_> = runs.into_iter().filter(|run| run.assigned > seen).collect();
    assert!(later.len() > 10, "it was lowered too late to see anything: {}", later.len());
    assert_eq!(most_at_once(&later), 1, "{later:?}");
}

fn a_serial_queue_runs_in_the_order_of_submission(place: &Place) {
    place.told(&["queue", "set", "line", "--concurrency", "serial"]);
    let ids = place.enqueue_all((0..20).map(|n| {
        let (group, priority) = (format!("g{}", n % 3), n % 10 + 1);
        json!({"task": "sleep", "args": {"ms": 2}, "queue": "line", "group": group, "priority": priority})
    }));
    place.work(&["--demo-tasks", "--slots", "4"]);
    let mut runs = jobs(place, &["--queue", "line"]);
    runs.sort_by_key(|run| run.started);
    assert_eq!(runs.iter().map(|run| &run.id).collect::<Vec<_>>(), ids.iter().collect::<Vec<_>>());
    assert_eq!(most_at_once(&runs), 1);
}

fn a_rate_is_kept(place: &Place) {
    place.told(&["queue", "set", "slow", "--rate", "10/1s,1"]);
    place.enqueue_all((0..8).map(|_| json!({"task": "noop", "queue": "slow"})));
    place.work(&["--demo-tasks", "--slots", "8"]);
    let mut assigned: Vec<_> = jobs(place, &["--queue", "slow"]).iter().map(|run| run.assigned).collect();
    assigned.sort_unstable();
    assert_eq!(assigned.len(), 8);
    // Seven tenths of a second, less what one write may be slower than another.
    assert!(assigned[7] - assigned[0] >= 500_000, "{assigned:?}");
}

fn a_full_group_refuses_jobs(place: &Place) {
    place.told(&["group", "set", "acme", "--max-waiting", "5"]);
    // It knows no task, so all jobs wait; but it dispatches, and the dispatcher counts them.
    let _node = place.serve(&[]);
    let refused = until("a refusal", || {
        let output = place.run(&["enqueue", "noop", "--group", "acme"]);
        (!output.status.success()).then_some(output)
    });
    assert_eq!(refused.status.code(), Some(1));
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains("group: \"acme\" has ") && text.contains("its limit is 5"), "{text}");
    let waiting = place.listed("groups", "acme")["waiting"].as_u64().unwrap();
    assert!(waiting >= 5, "refused at {waiting}");
    place.enqueue(&["noop", "--group", "other"]);
    place.told(&["group", "set", "acme", "--max-waiting", "none"]);
    until("the group to be open again", || {
        place.run(&["enqueue", "noop", "--group", "acme"]).status.success().then_some(())
    });
}

fn a_queue_waits_for_another_to_be_sealed_and_empty(place: &Place) {
    place.told(&["queue", "set", "second", "--after", "first"]);
    place.refuses(&["queue", "set", "first", "--after", "second"], 2, "after: queues would wait for each other");
    let _node = place.serve(&["--demo-tasks", "--slots", "2"]);
    let second = place.enqueue(&["noop", "--queue", "second"]);
    let first = place.enqueue(&["noop", "--queue", "first"]);
    place.wait_for_state(&first, "success");
    let why = place.why(&second);
    assert!(why.starts_with("queue second waits until queue first is finished"), "{why}");
    assert_eq!(place.listed("queues", "second")["state"], "waiting");
    place.told(&["queue", "seal", "first"]);
    place.wait_for_state(&second, "success");
    assert_eq!(place.listed("queues", "first")["state"], "finished");
    assert!(!place.told(&["queue", "seal", "first", "--undo"]).contains("sealed"));
}

fn a_queue_set_to_pause_on_an_error_pauses(place: &Place) {
    place.told(&["queue", "set", "mail", "--on-error", "pause"]);
    let _node = place.serve(&["--demo-tasks", "--slots", "1"]);
    let bad = place.enqueue(&["flaky", r#"{"fail":9}"#, "--queue", "mail", "--retry", "none"]);
    place.wait_for_state(&bad, "failed");
    let mail = until("the pause", || Some(place.listed("queues", "mail")).filter(|mail| mail["state"] == "paused"));
    assert!(mail["paused"]["reason"].as_str().unwrap().contains(&bad), "{mail}");
    let next = place.enqueue(&["noop", "--queue", "mail"]);
    assert!(place.why(&next).contains("queue mail is paused since"), "{}", place.why(&next));
    place.told(&["queue", "resume", "mail"]);
    place.wait_for_state(&next, "success");
}

fn why_names_what_holds_a_job_up(place: &Place) {
    let alone = place.enqueue(&["noop"]);
    assert!(place.why(&alone).starts_with("no node is running"));
    place.told(&["cancel", &alone]);
    assert!(place.why(&alone).starts_with("it has ended: cancelled at "));

    place.told(&["queue", "set", "mail", "--concurrency", "1"]);
    let _node = place.serve(&["--demo-tasks", "--slots", "2", "--name", "worker"]);
    let endless = |queue: &str| place.enqueue(&["sleep", r#"{"ms":600000}"#, "--queue", queue]);
    let first = endless("mail");
    place.wait_for_state(&first, "running");
    assert!(place.why(&first).starts_with("it runs on worker since "), "{}", place.why(&first));
    let limited = endless("mail");
    let why = place.why(&limited);
    assert!(why.starts_with("1 of 1 slots of queue mail are busy") && !why.contains("could run it"), "{why}");

    let second = endless("default");
    place.wait_for_state(&second, "running");
    let crowded = place.enqueue(&["noop", "--group", "late"]);
    let why = place.why(&crowded);
    // No run of these tasks has ended yet: nobody knows how long they take.
    assert!(why.starts_with("all 2 slots that could run it are busy\n") && why.contains("cannot be said"), "{why}");
    let told = place.json(&["why", &crowded, "--json"]);
    assert_eq!((&told["state"], &told["id"]), (&json!("waiting"), &json!(crowded)));
    assert_eq!(told["gates"].as_array().unwrap().len(), 1, "{told}");
    assert!(told["before"].is_u64() && told["starts_in_ms"].is_null(), "{told}");

    let unknown = place.enqueue(&["nobody knows"]);
    assert!(place.why(&unknown).starts_with("no live node knows this task"), "{}", place.why(&unknown));
    let later = place.enqueue(&["noop", "--in", "1h"]);
    let why = place.why(&later);
    assert!(why.starts_with("not due before ") && why.contains("when it starts cannot be said"), "{why}");

    place.told(&["queue", "set", "slow", "--rate", "1/1h"]);
    let slow = place.enqueue(&["noop", "--queue", "slow"]);
    assert!(place.why(&slow).starts_with("the rate of queue slow allows the next start at "), "{}", place.why(&slow));
    place.told(&["queue", "set", "line", "--concurrency", "serial"]);
    place.told(&["group", "pause", "held", "--force"]);
    let front = place.enqueue(&["noop", "--queue", "line", "--group", "held"]);
    let behind = place.enqueue(&["noop", "--queue", "line"]);
    assert!(
        place.why(&behind).contains(&format!("in the serial queue line job {front} is first")),
        "{}",
        place.why(&behind)
    );

    // A group whose jobs cannot start, whatever is free, has no share to miss.
    place.enqueue(&["noop", "--group", "tomorrow", "--in", "1d"]);
    let frame = place.json(&["top", "--once", "--json"]);
    let of = |name: &str| frame["groups"].as_array().unwrap().iter().find(|group| group["name"] == name).unwrap();
    for name in ["tomorrow", "held"] {
        let group = of(name);
        assert_ne!(group["state"], "active", "{frame}");
        assert_eq!((&group["entitled"], &group["waiting"]), (&Value::Null, &json!(1)), "{frame}");
    }
    assert!(frame["groups"].as_array().unwrap().iter().any(|group| group["state"] == "active"), "{frame}");

    place.refuses(&["why", "x"], 2, "id: ");
    place.refuses(&["why", "01900000-0000-7000-8000-000000000000"], 1, "there is no job");
    assert!(place.told(&["top", "--once"]).contains("slots 2"), "{}", place.told(&["top", "--once"]));
}

fn a_simulation_changes_nothing_and_foretells_the_waits(place: &Place) {
    // So that the scheduler knows how long they take.
    place.enqueue_all((0..4).map(|_| sleep(100, "quiet")));
    place.work(&["--demo-tasks", "--slots", "4"]);
    place.enqueue_all((0..30).map(|_| sleep(100, "flood")).chain([sleep(100, "quiet")]));
    let settings = (place.told(&["groups", "--json"]), place.told(&["queues", "--json"]));
    let simulate = |flags: &[&str]| place.json(&[&["simulate", "--json"], flags].concat());
    let group = |report: &Value, name: &str| {
        report["groups"].as_array().unwrap().iter().find(|group| group["group"] == name).unwrap().clone()
    };
    let millis = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value} is no time"));

    let one = simulate(&["--slots", "1"]);
    assert_eq!((&one["before"]["slots"], &one["after"]["slots"]), (&json!(0), &json!(1)));
    assert_eq!((&one["before"]["starts"], &one["after"]["starts"]), (&json!(0), &json!(31)));
    let end = millis(&one["after"]["end_ms"]);
    assert!((3_000..6_000).contains(&end), "31 jobs of a tenth of a second: {one}");
    assert!(millis(&group(&one, "quiet")["after"]["first_start_ms"]) < end / 5, "one round at most: {one}");
    assert!(millis(&group(&one, "flood")["after"]["max_wait_ms"]) > end * 4 / 5, "{one}");
    let waits = |report: &Value| ["p50", "p95", "max"].map(|name| millis(&report[format!("{name}_wait_ms")]));
    let [p50, p95, max] = waits(&group(&one, "flood")["after"]);
    assert!((end / 3..end * 2 / 3).contains(&p50) && p50 < p95 && p95 < max, "{one}");
    let [p50, p95, max] = waits(&group(&one, "quiet")["after"]);
    assert!(p50 == p95 && p95 == max, "its only job: {one}");
    let [p50, p95, max] = waits(&one["after"]);
    assert!((end / 3..end * 2 / 3).contains(&p50) && p50 < p95 && p95 < max, "{one}");
    assert_eq!((&one["jobs"], &one["after"]["complete"]), (&json!(31), &json!(true)), "{one}");
    assert_eq!(millis(&one["after"]["looked_ms"]), max, "it looked to the last start: {one}");

    let two = simulate(&["--slots", "2"]);
    assert!((end / 3..end * 2 / 3).contains(&millis(&two["after"]["end_ms"])), "{one} {two}");
    let limited = simulate(&["--slots", "2", "--concurrency", "default=1"]);
    assert_eq!(millis(&limited["after"]["end_ms"]), end, "one at a time, as with one slot");
    let paused = group(&simulate(&["--slots", "1", "--pause", "flood"]), "flood");
    assert_eq!((&paused["jobs"], &paused["after"]["starts"]), (&json!(30), &json!(0)));

    let table = place.told(&["simulate", "--slots", "1", "--weight", "flood=3"]);
    assert!(table.contains("slots 0 → 1;") && table.contains("never → "), "{table}");
    assert!(table.contains("P95 WAIT") && table.contains("over all groups: p50 wait - → "), "{table}");
    assert!(!table.contains("were looked at"), "it looked at all of them: {table}");
    assert_eq!(settings, (place.told(&["groups", "--json"]), place.told(&["queues", "--json"])));
    for (flags, part) in [
        (["--slots", "0"], "slots: "),
        (["--weight", "flood"], "weight: "),
        (["--weight", "flood=0"], "weight: "),
        (["--concurrency", "mail=x"], "concurrency: "),
        (["--pause", ""], "group: "),
    ] {
        place.refuses(&[&["simulate"], &flags[..]].concat(), 2, part);
    }
}

fn weights_are_shares(place: &Place) {
    place.told(&["group", "set", "heavy", "--weight", "3"]);
    place.enqueue_all((0..60).flat_map(|_| [sleep(20, "light"), sleep(20, "heavy")]));
    place.work(&["--demo-tasks", "--slots", "2"]);
    let mut runs = jobs(place, &[]);
    assert_eq!(runs.len(), 120);
    runs.sort_by_key(|run| run.finished);
    let heavy = runs[..60].iter().filter(|run| run.group == "heavy").count();
    assert!((40..=50).contains(&heavy), "{heavy} of the first 60 are heavy's; 45 are due to it");
}

fn a_flood_of_20_cannot_delay_the_others(place: &Place) {
    // So few jobs would end before the others could submit: so all jobs wait before the node starts.
    let late = flood_then_the_others(place, 20, |_| {});
    let node = place.serve(&["--demo-tasks", "--slots", "4"]);
    expect_one_round(place, node, &late);
}

fn a_flood_of_2_000_cannot_delay_the_others(place: &Place) {
    a_flood_cannot_delay_the_others(place, 2_000);
}

/// With `TURNWISE_FULL=1`.
fn a_flood_of_100_000_cannot_delay_the_others(place: &Place) {
    if full() {
        a_flood_cannot_delay_the_others(place, 100_000);
    }
}

/// The story of the demo: one of a hundred collectives floods, then the others come with one job each.
fn a_flood_cannot_delay_the_others(place: &Place, flood: u32) {
    let mut node = None;
    let late = flood_then_the_others(place, flood, |place| {
        node = Some(place.serve(&["--demo-tasks", "--slots", "4"]));
        until("the flood to run", || (jobs(place, &["--state", "success"]).len() >= 100).then_some(()));
    });
    let runs = expect_one_round(place, node.expect("it was started between"), &late);
    let flooded = starts_of(&runs, "flood");
    // A round of a hundred, as much again for what the reading of it takes, and what four slots hold ready.
    let bound = 2 * 100 + HELD_READY;
    for run in runs.iter().filter(|run| run.group != "flood") {
        let before =
            flooded.partition_point(|&at| at < run.started) - flooded.partition_point(|&at| at < run.submitted);
        assert!(before <= bound, "{before} jobs of the flood began between the submit and the start of {run:?}");
    }
}

/// What four slots hold ready: 50 ms of work each, of jobs of 5 ms.
const HELD_READY: usize = 4 * 50 / 5;

fn flood_then_the_others(place: &Place, flood: u32, between: impl FnOnce(&Place)) -> Vec<String> {
    place.enqueue_all((0..flood).map(|_| sleep(5, "flood")));
    between(place);
    place.enqueue_all((1..100).map(|n| sleep(5, &format!("collective {n}"))))
}

/// Waits for the late jobs, and looks at the order of all starts: from the first of the late jobs to the last of them the
/// flood has what was held ready, and its own turn of one round.
fn expect_one_round(place: &Place, node: Serving, late: &[String]) -> Vec<RanJob> {
    until("the late jobs to end", || {
        let done = jobs(place, &["--state", "success"]);
        late.iter().all(|id| done.iter().any(|run| run.id == *id)).then_some(())
    });
    node.stop();
    let left = jobs(place, &["--state", "waiting", "--group", "flood"]).len();
    let runs = jobs(place, &["--state", "success"]);
    let flooded = starts_of(&runs, "flood");
    let mut theirs: Vec<_> = runs.iter().filter(|run| run.group != "flood").map(|run| run.started).collect();
    theirs.sort_unstable();
    assert_eq!(theirs.len(), 99);
    let outlasted = left > 0 || flooded.last() > theirs.last();
    assert!(outlasted, "the flood was over before the late jobs were: nothing is shown");
    let between = flooded.partition_point(|&at| at < theirs[98]) - flooded.partition_point(|&at| at < theirs[0]);
    // Four at once may begin before the first bill; then one turn in a hundred.
    let bound = HELD_READY + 4 + 1;
    assert!(between <= bound, "{between} jobs of the flood began among the late ones; at most {bound} may");
    runs
}

fn starts_of(runs: &[RanJob], group: &str) -> Vec<i64> {
    let mut starts: Vec<_> = runs.iter().filter(|run| run.group == group).map(|run| run.started).collect();
    starts.sort_unstable();
    starts
}

/// One group's jobs take 34 times as long as those of the three others, and all have enough of them: each gets its quarter of
/// the slot time, give or take a twentieth of it, once the total is twenty times the bound.
fn jobs_34_times_as_long_get_no_more_than_their_share(place: &Place) {
    let (short_ms, long_runs) = if full() { (5, 200) } else { (2, 50) };
    if !full() {
        // The bound is smaller when nothing is held ready, and so is the time it takes to see that it holds.
        std::fs::write(place.path().join("turnwise.toml"), "[executor]\nqueue_capacity = 0\n").unwrap();
    }
    // So that no short job is estimated to be as long as the long ones: the estimate is the task's.
    place.enqueue_all((0..20).map(|_| sleep(short_ms, "first")));
    place.work(&["--demo-tasks", "--slots", "4"]);
    let group = |n: usize| format!("group {n}");
    // Many more than are needed, if all goes well.
    let most = long_runs * 4;
    let long = (0..most).map(|_| sleep(34 * short_ms, &group(0)));
    let short = (0..most * 34).flat_map(|_| (1..4).map(|n| sleep(short_ms, &group(n))));
    place.enqueue_all(long.chain(short));
    let node = place.serve(&["--demo-tasks", "--slots", "4"]);
    let mut wanted = long_runs;
    let looked = loop {
        let ended = || jobs(place, &["--group", &group(0), "--state", "success"]).len();
        until("the long jobs", || (ended() >= wanted).then_some(()));
        let looked = Looked::at((0..4).map(|n| jobs(place, &["--group", &group(n), "--state", "success"])).collect());
        // One run that was held up by the machine makes the bound greater, and the time it takes.
        if looked.total() >= 20.0 * looked.bound || wanted + long_runs / 4 >= most {
            break looked;
        }
        wanted += long_runs / 4;
    };
    let left = |n: usize| jobs(place, &["--state", "waiting", "--group", &group(n)]).len();
    assert!((0..4).all(|n| left(n) > 0), "a group had nothing left to run");
    node.stop();
    let Looked { served, bound } = &looked;
    let total = looked.total();
    assert!(total >= 20.0 * bound, "{total} s are too little for a result: the bound is {bound} s");
    for (n, served) in served.iter().enumerate() {
        let entitled = total / 4.0;
        assert!((served - entitled).abs() <= entitled / 20.0, "group {n} got {served} of {entitled} s: {looked:?}");
    }
}

/// What groups with always something to run have got, and the bound on how far apart they may be.
#[derive(Debug)]
struct Looked {
    served: Vec<f64>,
    bound: f64,
}

impl Looked {
    /// The runs of each group that have ended so far.
    fn at(groups: Vec<Vec<RanJob>>) -> Self {
        // Until a moment before the look, so that whatever had begun by then has ended and is known.
        let last = |runs: &Vec<RanJob>| runs.iter().map(|run| run.finished).max().unwrap_or(0);
        let longest = groups.iter().flatten().map(|run| run.finished - run.assigned).max().unwrap_or(0);
        let end = groups.iter().map(last).min().unwrap_or(0) - longest;
        let used = |run: &RanJob| (run.finished.min(end) - run.started.min(end)) as f64 / 1e6;
        let served = groups.iter().map(|runs| runs.iter().map(used).sum()).collect();
        let estimate = longest_estimate(&groups.concat());
        let slack = |runs: &Vec<RanJob>| {
            let longest = runs.iter().map(|run| run.finished - run.started).max().unwrap_or(0) as f64 / 1e6;
            (1.0 + f64::from(most_held(runs))) * longest.max(estimate)
        };
        let mut slacks: Vec<f64> = groups.iter().map(slack).collect();
        slacks.sort_by(f64::total_cmp);
        Self { served, bound: slacks.iter().rev().take(2).sum() }
    }

    fn total(&self) -> f64 {
        self.served.iter().sum()
    }
}

/// What a job of this task was expected to take, at most: the moving average of the runs by their ends.
fn longest_estimate(runs: &[RanJob]) -> f64 {
    let mut ends: Vec<_> = runs.iter().map(|run| (run.finished, run.finished - run.started)).collect();
    ends.sort_unstable();
    let mut average = 0;
    let averages = ends.iter().map(|(_, ran)| {
        average = (7 * average + ran) / 8;
        average
    });
    averages.max().unwrap_or(0) as f64 / 1e6
}

/// The most jobs in a node's hands at one moment.
fn most_held(runs: &[RanJob]) -> i32 {
    let held: Vec<_> = runs.iter().map(|run| RanJob { started: run.assigned, ..run.clone() }).collect();
    most_at_once(&held)
}

fn a_stuck_job_is_not_pinned_to_the_node_that_failed_it(place: &Place) {
    let first = place.serve(&["--demo-tasks", "--slots", "1", "--name", "first"]);
    let id = place.enqueue(&["flaky", r#"{"fail":1}"#, "--retry", "durations:5s", "--group", "g"]);
    place.wait_for_state(&id, "stuck");
    first.stop();
    let other = place.enqueue(&["noop", "--group", "g"]);
    let _second = place.serve(&["--demo-tasks", "--slots", "1", "--name", "second"]);
    // Nor does it stand in its group's way until it is due.
    place.wait_for_state(&other, "success");
    place.wait_for_state(&id, "success");
    let job = place.json(&["job", &id, "--json"]);
    assert_eq!((&job["attempt"], &job["node"]), (&json!(2), &json!("second")), "{job}");
}

fn tasks_that_no_node_knows_take_no_slot(place: &Place) {
    let unknown = place.enqueue_all((0..10).map(|_| json!({"task": "nobody knows", "group": "g", "priority": 1})));
    let known = place.enqueue_all((0..10).map(|_| json!({"task": "noop", "group": "g", "priority": 10})));
    // It ends when nothing is left that could run here.
    place.work(&["--demo-tasks", "--slots", "2"]);
    let (done, waiting) = (jobs(place, &["--state", "success"]), jobs(place, &["--state", "waiting"]));
    let ids = |runs: &[RanJob]| runs.iter().map(|run| run.id.clone()).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(ids(&done), known.into_iter().collect());
    assert_eq!(ids(&waiting), unknown.into_iter().collect());
}

fn a_job_left_running_by_a_killed_node_can_be_cancelled(place: &Place) {
    let mut first = place.serve(&["--demo-tasks", "--slots", "1", "--name", "first", "--lease", "2s"]);
    let id = place.enqueue(&["sleep", r#"{"ms":600000}"#]);
    place.wait_for_state(&id, "running");
    first.process.kill();
    place.told(&["cancel", &id]);
    let _second = place.serve(&["--demo-tasks", "--slots", "1", "--name", "second", "--lease", "2s"]);
    place.wait_for_state(&id, "cancelled");
    assert_eq!(place.json(&["job", &id, "--json"])["node"], "first", "it did not run again");
}

/// Two of the class high, then one of the class low: also if every job has a node of its own.
fn a_restart_does_not_reset_the_counting_scheme(place: &Place) {
    // A node that stops lets its one job end, and takes no other. The job ends when the node is known to take none.
    let settings = "[executor]\nqueue_capacity = 0\n[tasks.hold]\ncommand = ['sh', '-c', 'until mv go gone; do sleep 0.02; done']\n";
    std::fs::write(place.path().join("turnwise.toml"), settings).unwrap();
    let ids = place.enqueue_all([1, 1, 1, 10, 10, 10].map(|priority| json!({"task": "hold", "priority": priority})));
    for life in 1..=3 {
        let mut node = place.serve(&["--slots", "1"]);
        until("a run", || (!jobs(place, &["--state", "running"]).is_empty()).then_some(()));
        node.signal("TERM");
        until("no slot", || (place.json(&["nodes", "--json"])[0]["slots"] == 0).then_some(()));
        std::fs::write(place.path().join("go"), "").unwrap();
        assert_eq!(node.end().0, Some(0));
        assert_eq!(jobs(place, &["--state", "success"]).len(), life, "each node runs one job");
    }
    let mut runs = jobs(place, &["--state", "success"]);
    runs.sort_by_key(|run| run.started);
    let class = |run: &RanJob| if ids[..3].contains(&run.id) { "high" } else { "low" };
    assert_eq!(runs.iter().map(class).collect::<Vec<_>>(), ["high", "high", "low"]);
}

/// A serial queue opens when the whole backlog is read: the start of its one job shows when that was. Until then the others must
/// not have to wait for the jobs that were read first, however quickly those end.
fn a_long_backlog_is_read_while_quick_jobs_run(place: &Place) {
    place.told(&["queue", "set", "line", "--concurrency", "serial"]);
    let quick = (0..40_000).map(|n| json!({"task": "noop", "group": format!("g{}", n % 10)}));
    place.enqueue_all(quick.chain([json!({"task": "noop", "queue": "line"})]));
    place.work(&["--demo-tasks", "--slots", "4"]);
    let opened = jobs(place, &["--queue", "line"])[0].started;
    let starts: Vec<_> = jobs(place, &["--queue", "default"]).iter().map(|run| run.started).collect();
    let before = starts.iter().filter(|start| **start < opened).count();
    assert_eq!(starts.len(), 40_000);
    assert!(before < 20_000, "the backlog of 40000 was read only after {before} of it had begun");
}

fn everything_set_is_listed(place: &Place) {
    let flags = "queue set mail --weight 2.5 --concurrency 3 --per-node 2 --rate 10/1m --scheme strict --fairness turns --on-error skip";
    place.told(&flags.split(' ').collect::<Vec<_>>());
    // What is not named stays as it is.
    place.told(&["queue", "set", "mail", "--rate", "10/1m,20"]);
    let mail = place.listed("queues", "mail");
    for (name, value) in [
        ("weight", json!(2.5)),
        ("concurrency", json!("3")),
        ("per_node", json!(2)),
        ("rate", json!("10/1m,20")),
        ("scheme", json!("strict")),
        ("fairness", json!("turns")),
        ("on_error", json!("skip")),
        ("state", json!("active")),
        ("paused", Value::Null),
    ] {
        assert_eq!(mail[name], value, "{name}");
    }
    place.told(&["queue", "set", "mail", "--concurrency", "unlimited", "--per-node", "none", "--rate", "none"]);
    let mail = place.listed("queues", "mail");
    assert_eq!(
        (&mail["concurrency"], &mail["per_node"], &mail["rate"]),
        (&json!("unlimited"), &Value::Null, &Value::Null)
    );

    place.told(&[
        "group",
        "set",
        "acme",
        "--weight",
        "0.5",
        "--concurrency",
        "4",
        "--scheme",
        "3,1",
        "--max-waiting",
        "9",
    ]);
    let acme = place.listed("groups", "acme");
    assert_eq!((&acme["weight"], &acme["concurrency"], &acme["scheme"]), (&json!(0.5), &json!(4), &json!("3,1")));
    assert_eq!((&acme["max_waiting"], &acme["waiting"]), (&json!(9), &json!(0)));
    let tables = place.told(&["queues"]) + &place.told(&["groups"]);
    assert!(tables.contains("QUEUE") && tables.contains("MAX WAITING") && tables.contains("acme"), "{tables}");
    assert_eq!(place.told(&["task", "set", "sleep", "--rate", "1/1s"]), "task sleep: concurrency none, rate 1/1s,1\n");
    assert_eq!(place.told(&["key", "set", "smtp", "--concurrency", "2"]), "key smtp: concurrency 2, rate none\n");

    for (args, part) in [
        ("queue set mail --weight 0", "weight: "),
        ("queue set mail --weight -1", "weight: "),
        ("queue set mail --concurrency many", "concurrency: "),
        ("queue set mail --per-node 0", "per_node: "),
        ("queue set mail --rate 10", "rate: "),
        ("queue set mail --scheme 0,1", "scheme: "),
        ("queue set mail --fairness luck", "fairness: "),
        ("queue set mail --on-error cry", "on_error: "),
        ("queue set mail", "set: no setting is given"),
        ("group set acme --concurrency 0", "concurrency: "),
        ("group set acme --max-waiting x", "max_waiting: "),
        ("task set sleep --rate 0/1s", "rate: "),
        ("key set smtp --concurrency -2", "concurrency: "),
    ] {
        place.refuses(&args.split(' ').collect::<Vec<_>>(), 2, part);
    }
    place.refuses(&["queue", "set", "", "--weight", "1"], 2, "queue: must not be empty");
    assert_eq!(place.listed("groups", "acme"), acme, "what is refused changes nothing");
}

#[test]
fn top_goes_on_until_its_output_is_closed() {
    let place = Place::on_sqlite();
    place.enqueue_all((0..5).map(|n| sleep(10, &format!("g{n}"))));
    place.work(&["--demo-tasks", "--slots", "2"]);
    let frame = place.told(&["top", "--once"]);
    assert!(frame.contains("SHARE") && frame.contains("ENTITLED") && frame.contains("idle"), "{frame}");
    let mut top = place.command(&["top"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines();
    // Two frames: it goes on by itself.
    for _ in 0..2 {
        lines.find(|line| line.as_ref().unwrap().contains("jobs/s")).unwrap().unwrap();
    }
    drop(lines);
    assert!(top.wait().unwrap().success());
}
