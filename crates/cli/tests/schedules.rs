//! Periodic jobs with the real binary, on both databases.

mod support;

use std::collections::BTreeSet;

use support::{Harness, Node, Place, until};

/// The times for which the schedule's jobs are due, of those that have ended well.
fn slots(harness: &Harness) -> Vec<String> {
    let jobs = harness.jobs(&["--state", "success"]);
    jobs.iter().map(|job| job["due_at"].as_str().expect("a job of a schedule is due").to_owned()).collect()
}

#[test]
fn a_schedule_is_added_listed_paused_resumed_run_and_removed() {
    for place in Place::on_both() {
        let cron =
            |at| ["schedule", "add", "sales", "noop", "--cron", at, "--zone", "Europe/Berlin", "--group", "acme"];
        let added = place.told(&cron("0 2 * * *"));
        let lines: Vec<_> = added.lines().collect();
        assert_eq!(lines.len(), 6, "{added}");
        assert!(lines[0].starts_with("schedule sales: 0 2 * * * Europe/Berlin, task noop, queue default, group acme"));
        assert!(lines[1..].iter().all(|line| line.contains(" at 02:00:00 Europe/Berlin, in ")), "{added}");
        assert!(place.told(&["schedule", "list"]).contains("active"));
        assert!(place.told(&["schedule", "pause", "sales", "--reason", "holidays"]).contains("holidays"));
        assert!(place.told(&["schedule", "list"]).contains("paused"));
        assert!(place.told(&cron("0 3 * * *")).contains("holidays"), "a person's pause stays when it is set anew");
        assert!(!place.told(&["schedule", "resume", "sales"]).contains("holidays"));
        let id = place.told(&["schedule", "run", "sales"]);
        let job = place.job(id.trim());
        assert_eq!((job["task"].as_str(), job["group"].as_str()), (Some("noop"), Some("acme")));
        assert_eq!(place.told(&["schedule", "remove", "sales"]), "schedule sales is removed; its jobs stay\n");
        assert!(place.refused(&["schedule", "run", "sales"], 2).contains("there is none named \"sales\""));
        assert!(place.refused(&["schedule", "add", "x", "noop", "--cron", "61 * * * *"], 2).contains("schedule: "));
        assert!(place.refused(&["schedule", "add", "x", "noop", "--every", "10"], 2).contains("every: "));
        let bad = ["schedule", "add", "x", "noop", "--every", "10s", "--overlap", "maybe"];
        assert!(place.refused(&bad, 2).contains("must be one of skip, wait, allow"));
    }
}

/// Two nodes; the one that dispatches is killed again and again. Each second of the schedule has one job, and none is left out.
#[test]
fn each_time_has_one_job_whichever_node_dispatches_and_dies() {
    for mut harness in Harness::on_both() {
        let mut nodes = vec![harness.serve("a", &[]), harness.serve("b", &[])];
        let tick = "schedule add tick noop --every 1s --overlap allow --catch-up all";
        harness.place.told(&tick.split(' ').collect::<Vec<_>>());
        for name in ["c", "d"] {
            let before = slots(&harness).len();
            until("some times to come", || (slots(&harness).len() >= before + 3).then_some(()));
            let dispatcher = nodes.iter().position(|node| node.leads() > 0).expect("one of them dispatches");
            harness.kill(nodes.remove(dispatcher));
            nodes.push(harness.serve(name, &[]));
        }
        let before = slots(&harness).len();
        until("some times to come after the last death", || (slots(&harness).len() >= before + 3).then_some(()));
        harness.place.told(&["schedule", "remove", "tick"]);
        harness.wait_until_all_ended();
        let slots = slots(&harness);
        let distinct: BTreeSet<_> = slots.iter().collect();
        assert_eq!(distinct.len(), slots.len(), "a time was fired twice: {slots:?}");
        let seconds: Vec<i64> = distinct.iter().map(|slot| second(slot)).collect();
        assert!(seconds.windows(2).all(|pair| pair[1] - pair[0] == 1), "a time was left out: {slots:?}");
        nodes.into_iter().for_each(Node::stop);
    }
}

fn second(slot: &str) -> i64 {
    slot.parse::<turnwise::Timestamp>().unwrap().micros() / 1_000_000
}
