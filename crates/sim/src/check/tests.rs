use turnwise_core::Fence;

use super::*;

const RECORD: &str = r#"
    {"event":"submit","job":"a","at":"2030-01-01T00:00:00Z"}
    {"event":"submit","job":"b"}
    n1 {"event":"join","slots":1}
    n1 {"event":"lead","epoch":1}
    n1 {"event":"assign","job":"a","fence":1,"to":"n1"}
    n1 {"event":"assign","job":"b","fence":1,"to":"n2"}
    n1 {"event":"start","job":"a","fence":1,"task":"t"}
    n2 {"event":"join","slots":1}
    n2 {"event":"start","job":"b","fence":1,"task":"t"}
    n2 {"event":"lead","epoch":2}
    n2 {"event":"node_lost","job":"a","fence":1,"lost":"n1","state":"waiting"}
    n2 {"event":"effect","job":"b","fence":1}
    n2 {"event":"settle","job":"b","fence":1,"state":"success"}
    n2 {"event":"assign","job":"a","fence":3,"to":"n2"}
    n2 {"event":"start","job":"a","fence":3,"task":"t"}
    n2 {"event":"effect","job":"a","fence":3}
    n2 {"event":"settle","job":"a","fence":3,"state":"success"}
    n1 {"event":"effect","job":"a","fence":1}
    n1 {"event":"stale","job":"a","fence":1}
    n1 {"event":"leave","held":0}
    n2 {"event":"leave","held":0}
    {"event":"end","job":"a","state":"success"}
    {"event":"end","job":"b","state":"success"}
    {"event":"rest","running":0,"nodes":0}
"#;

/// `n1 {…}` is a line of the incarnation n1 of the node n1; `x:n1 {…}` one of the node x.
fn history(record: &str) -> History {
    let line = |line: &str| match line.trim().split_once(" {") {
        Some((author, rest)) if !line.trim().starts_with('{') => {
            let (node, incarnation) = author.split_once(':').unwrap_or((author, author));
            format!("{{\"node\":\"{node}\",\"incarnation\":\"{incarnation}\",{rest}\n")
        }
        _ => format!("{}\n", line.trim()),
    };
    History::parse("record", &record.lines().map(line).collect::<String>()).unwrap()
}

fn violations(record: &str) -> Vec<Violation> {
    check(&history(record)).violations
}

/// The clean record with one line more, one less or one changed.
fn with(extra: &str) -> String {
    format!("{RECORD}{extra}\n")
}
fn without(part: &str) -> String {
    change(part, None)
}
fn changed(part: &str, to: &str) -> String {
    change(part, Some(to))
}
fn change(part: &str, to: Option<&str>) -> String {
    assert_eq!(RECORD.lines().filter(|line| line.contains(part)).count(), 1, "{part}");
    let edit =
        |line: &str| if line.contains(part) { to.map(|to| line.replace(part, to)) } else { Some(line.to_owned()) };
    RECORD.lines().filter_map(edit).map(|line| line + "\n").collect()
}

fn a() -> String {
    "a".to_owned()
}

#[test]
fn a_clean_run_with_a_zombie_passes_and_is_counted() {
    let report = check(&history(RECORD));
    assert_eq!(report.violations, []);
    let counts = Counts {
        submitted: 2,
        success: 2,
        incarnations: 2,
        starts: 3,
        effects: 3,
        settles: 2,
        stale: 1,
        node_lost: 1,
        ran_twice: 1,
        effects_twice: 1,
        ..Counts::default()
    };
    assert_eq!(report.counts, counts);
    assert!(
        report.to_string().ends_with("1 jobs began twice, 1 took effect twice\nevery promise was kept\n"),
        "{report}"
    );
}

#[test]
fn an_acknowledged_job_that_is_not_listed_is_lost() {
    assert_eq!(violations(&with(r#"{"event":"submit","job":"c"}"#)), [Violation::LostJob { job: "c".into() }]);
}

#[test]
fn an_acknowledged_job_that_still_waits_has_not_ended() {
    let record = with("{\"event\":\"submit\",\"job\":\"c\"}\n{\"event\":\"end\",\"job\":\"c\",\"state\":\"stuck\"}");
    assert_eq!(violations(&record), [Violation::NotEnded { job: "c".into(), state: JobState::Stuck }]);
}

#[test]
fn without_a_listing_the_trace_tells_who_never_ended() {
    let unlisted = |record: String| {
        record.lines().filter(|line| !line.contains("\"end\"")).fold(String::new(), |all, line| all + line + "\n")
    };
    assert_eq!(violations(&unlisted(RECORD.to_owned())), []);
    let record = unlisted(changed(
        r#""settle","job":"a","fence":3,"state":"success""#,
        r#""settle","job":"a","fence":3,"state":"waiting""#,
    ));
    assert_eq!(violations(&record), [Violation::NeverEnded { job: a() }]);
}

#[test]
fn a_job_is_listed_once() {
    assert_eq!(
        violations(&with(r#"{"event":"end","job":"a","state":"success"}"#)),
        [Violation::ListedTwice { job: a() }]
    );
}

#[test]
fn a_job_is_listed_with_the_end_that_was_accepted() {
    let record = changed(r#""end","job":"a","state":"success""#, r#""end","job":"a","state":"failed""#);
    let wrong = Violation::WrongEnd { job: a(), settled: JobState::Success, listed: JobState::Failed };
    assert_eq!(violations(&record), [wrong]);
    let record = changed(r#""end","job":"a","state":"success""#, r#""end","job":"a","state":"waiting""#);
    let wrong = Violation::WrongEnd { job: a(), settled: JobState::Success, listed: JobState::Waiting };
    assert_eq!(violations(&record), [wrong]);
}

#[test]
fn an_end_without_a_run_is_explained_only_by_a_death_or_a_person() {
    let ended = "{\"event\":\"submit\",\"job\":\"c\"}\n{\"event\":\"end\",\"job\":\"c\",\"state\":\"failed\"}\n";
    let unexplained = Violation::UnexplainedEnd { job: "c".into(), listed: JobState::Failed };
    assert_eq!(violations(&with(ended)), [unexplained]);
    let person = format!("{ended}{{\"event\":\"decide\",\"job\":\"c\"}}");
    assert_eq!(violations(&with(&person)), []);
    let poison =
        format!("{ended}n2 {{\"event\":\"node_lost\",\"job\":\"c\",\"fence\":5,\"lost\":\"n1\",\"state\":\"failed\"}}");
    assert_eq!(violations(&with(&poison)), []);
    let killed = concat!(
        "n3 {\"event\":\"join\",\"slots\":1}\n",
        "n2 {\"event\":\"assign\",\"job\":\"c\",\"fence\":5,\"to\":\"n3\"}\n",
        "n3 {\"event\":\"start\",\"job\":\"c\",\"fence\":5}\n",
    );
    let record = with(&format!("{ended}{killed}{{\"event\":\"kill\",\"killed\":\"n3\"}}"));
    assert_eq!(violations(&record), []);
}

#[test]
fn one_fence_has_one_accepted_end() {
    let again = r#"n2 {"event":"settle","job":"a","fence":3,"state":"success"}"#;
    assert_eq!(violations(&with(again)), [Violation::SettledTwice { job: a(), fence: 3 }]);
}

#[test]
fn a_zombies_success_is_found_out() {
    let record = changed(r#""stale","job":"a","fence":1"#, r#""settle","job":"a","fence":1,"state":"success""#);
    assert_eq!(violations(&record), [Violation::ZombieAccepted { job: a(), fence: 1, newer: 3 }]);
}

#[test]
fn a_zombies_retry_is_found_out_by_the_fence_that_follows() {
    let late = r#""settle","job":"a","fence":1,"state":"stuck""#;
    let record = changed(r#""stale","job":"a","fence":1"#, late);
    assert_eq!(violations(&record), [Violation::ZombieAccepted { job: a(), fence: 1, newer: 3 }]);
    // Had the settle come before the node loss, the next assignment would have had the next number.
    let in_time = record.replace("\"fence\":3", "\"fence\":2");
    assert_eq!(violations(&in_time), []);
    // An edit in between is neither an assignment nor a loss.
    let edited = |fence: i64| record.replace("\"fence\":3", &format!("\"fence\":{}", Fence(fence).edited().0));
    assert_eq!(violations(&edited(2)), []);
    let zombie = Violation::ZombieAccepted { job: a(), fence: 1, newer: Fence(3).edited().0 };
    assert_eq!(violations(&edited(3)), [zombie]);
}

#[test]
fn a_finished_job_runs_again_only_if_a_person_said_so() {
    let again = |state| {
        format!(
            r#"
            {{"event":"submit","job":"a"}}
            n1 {{"event":"start","job":"a","fence":1}}
            n1 {{"event":"effect","job":"a","fence":1}}
            n1 {{"event":"settle","job":"a","fence":1,"state":"{state}"}}
            n1 {{"event":"start","job":"a","fence":2}}
            n1 {{"event":"effect","job":"a","fence":2}}
            n1 {{"event":"settle","job":"a","fence":2,"state":"success"}}
            "#
        )
    };
    let zombie = Violation::ZombieAccepted { job: a(), fence: 1, newer: 2 };
    let decided = |state| again(state) + r#"{"event":"decide","job":"a"}"#;
    assert_eq!(violations(&again("stuck")), []);
    assert_eq!(violations(&again("failed")), std::slice::from_ref(&zombie));
    assert_eq!(violations(&decided("failed")), []);
    assert_eq!(violations(&decided("success")), [zombie]);
}

#[test]
fn an_end_is_refused_or_accepted_not_both() {
    let refused = r#"n2 {"event":"stale","job":"b","fence":1}"#;
    let found = violations(&with(refused));
    assert!(found.contains(&Violation::RefusedAndAccepted { job: "b".into(), fence: 1 }), "{found:?}");
}

#[test]
fn only_an_old_fence_is_refused() {
    let record = changed(r#""settle","job":"a","fence":3,"state":"success""#, r#""stale","job":"a","fence":3"#);
    let found = violations(&record);
    assert!(found.contains(&Violation::StaleWithoutReason { job: a(), fence: 3 }), "{found:?}");
}

#[test]
fn whatever_ran_was_assigned() {
    let record = without(r#""assign","job":"b""#);
    assert_eq!(violations(&record), [Violation::NeverAssigned { job: "b".into(), fence: 1 }]);
}

#[test]
fn an_assignment_may_be_untold_when_its_dispatcher_died_or_the_database_was_cut_off() {
    let record = without(r#""assign","job":"b""#);
    let killed = record.lines().filter(|line| !line.contains("n1 {\"event\":\"leave\"")).collect::<Vec<_>>().join("\n")
        + "\n{\"event\":\"kill\",\"killed\":\"n1\"}\n";
    let report = check(&history(&killed));
    assert_eq!((report.violations, report.counts.untraced_assigns), (vec![], 1));
    assert_eq!(violations(&format!("{record}{{\"event\":\"outage\"}}")), []);
    // What the dead one assigned to itself it wrote down before it started.
    let own =
        killed.lines().filter(|line| !line.contains(r#""assign","job":"a","fence":1"#)).collect::<Vec<_>>().join("\n");
    assert_eq!(violations(&own), [Violation::NeverAssigned { job: a(), fence: 1 }]);
}

#[test]
fn without_a_dispatchers_trace_assignments_are_not_asked_for() {
    let silent =
        RECORD.lines().filter(|line| !line.contains("assign") && !line.contains("lead")).collect::<Vec<_>>().join("\n");
    assert_eq!(violations(&silent), []);
}

#[test]
fn a_process_assigns_before_it_starts_and_starts_before_it_ends() {
    let moved = |part: &str| {
        let line = RECORD.lines().find(|line| line.contains(part)).unwrap();
        without(part) + line + "\n"
    };
    let out_of_order = |fence, first, then| Violation::OutOfOrder { job: a(), fence, first, then };
    let found = violations(&moved(r#""assign","job":"a","fence":3"#));
    assert_eq!(found, [out_of_order(3, "assign", "start")]);
    let found = violations(&moved(r#""start","job":"a","fence":3"#));
    assert_eq!(found, [out_of_order(3, "start", "effect")]);
    let found = violations(&moved(r#""effect","job":"a","fence":3"#));
    assert_eq!(found, [out_of_order(3, "effect", "settle")]);
}

#[test]
fn a_job_runs_where_it_was_assigned() {
    let record = changed(r#""assign","job":"b","fence":1,"to":"n2""#, r#""assign","job":"b","fence":1,"to":"n1""#);
    let elsewhere = Violation::RanElsewhere { job: "b".into(), fence: 1, assigned_to: "n1".into(), by: "n2".into() };
    assert_eq!(violations(&record), [elsewhere]);
}

#[test]
fn a_fence_is_given_out_once() {
    let again = r#"n2 {"event":"assign","job":"a","fence":3,"to":"n2"}"#;
    assert_eq!(violations(&with(again)), [Violation::AssignedTwice { job: a(), fence: 3 }]);
}

#[test]
fn fences_only_grow() {
    let back = r#"n2 {"event":"assign","job":"a","fence":2,"to":"n2"}"#;
    assert_eq!(violations(&with(back)), [Violation::FenceWentBack { job: a(), from: 3, to: 2 }]);
}

#[test]
fn a_job_starts_once_under_one_fence() {
    let record = changed(
        r#"n2 {"event":"effect","job":"b","fence":1}"#,
        "n2 {\"event\":\"start\",\"job\":\"b\",\"fence\":1}\nn2 {\"event\":\"effect\",\"job\":\"b\",\"fence\":1}",
    );
    assert_eq!(violations(&record), [Violation::StartedTwice { job: "b".into(), fence: 1 }]);
}

#[test]
fn success_needs_a_run() {
    let found = violations(&without(r#""effect","job":"b""#));
    assert_eq!(found, [Violation::SuccessWithoutEffect { job: "b".into(), fence: 1 }]);
    let found = violations(&without(r#""start","job":"b""#));
    assert_eq!(found, [Violation::SuccessWithoutEffect { job: "b".into(), fence: 1 }]);
}

#[test]
fn a_run_that_never_ended_on_a_living_node_is_a_leak() {
    let begun = concat!(
        "n2 {\"event\":\"assign\",\"job\":\"c\",\"fence\":1,\"to\":\"n2\"}\n",
        "n2 {\"event\":\"start\",\"job\":\"c\",\"fence\":1}\n",
    );
    let leaked = Violation::SlotLeaked { job: "c".into(), fence: 1, incarnation: "n2".into() };
    assert_eq!(violations(&with(begun)), [leaked]);
    let elsewhere =
        begun.replace("n2 {\"event\":\"start", "n3 {\"event\":\"start").replace("\"to\":\"n2\"", "\"to\":\"n3\"");
    let killed = format!("{elsewhere}{{\"event\":\"kill\",\"killed\":\"n3\"}}");
    assert_eq!(violations(&with(&killed)), []);
}

#[test]
fn a_run_that_was_going_on_when_its_node_was_lost_is_no_leak() {
    let lost = concat!(
        "n3:x {\"event\":\"join\",\"slots\":1}\n",
        "n2 {\"event\":\"assign\",\"job\":\"c\",\"fence\":1,\"to\":\"x\"}\n",
        "n3:x {\"event\":\"start\",\"job\":\"c\",\"fence\":1}\n",
    );
    let leaked = Violation::SlotLeaked { job: "c".into(), fence: 1, incarnation: "x".into() };
    assert_eq!(violations(&with(lost)), [leaked]);
    assert_eq!(violations(&with(&format!("{lost}n3:y {{\"event\":\"join\",\"slots\":1}}"))), []);
}

#[test]
fn a_node_runs_no_more_jobs_than_it_has_slots() {
    let record = changed(
        r#"n2 {"event":"effect","job":"b","fence":1}"#,
        concat!(
            "n2 {\"event\":\"assign\",\"job\":\"c\",\"fence\":1,\"to\":\"n2\"}\n",
            "n2 {\"event\":\"start\",\"job\":\"c\",\"fence\":1}\n",
            "n2 {\"event\":\"effect\",\"job\":\"c\",\"fence\":1}\n",
            "n2 {\"event\":\"settle\",\"job\":\"c\",\"fence\":1,\"state\":\"waiting\"}\n",
            "n2 {\"event\":\"effect\",\"job\":\"b\",\"fence\":1}",
        ),
    );
    assert_eq!(violations(&record), [Violation::SlotsExceeded { incarnation: "n2".into(), slots: 1, running: 2 }]);
}

#[test]
fn a_run_that_was_stopped_has_left_its_slot_before_its_end_is_written() {
    let interrupt = "n2 {\"event\":\"interrupt\",\"job\":\"c\",\"fence\":1}\n";
    let begun = concat!(
        "n2 {\"event\":\"assign\",\"job\":\"c\",\"fence\":1,\"to\":\"n2\"}\n",
        "n2 {\"event\":\"start\",\"job\":\"c\",\"fence\":1}\n",
    );
    let start = r#"n2 {"event":"start","job":"b","fence":1,"task":"t"}"#;
    let settle = "n2 {\"event\":\"settle\",\"job\":\"c\",\"fence\":1,\"state\":\"waiting\"}\n";
    let record = |stopped: &str| changed(start, &format!("{begun}{stopped}{start}")) + settle;
    assert_eq!(violations(&record(interrupt)), []);
    let exceeded = Violation::SlotsExceeded { incarnation: "n2".into(), slots: 1, running: 2 };
    assert!(violations(&record("")).contains(&exceeded));
}

#[test]
fn a_node_that_gives_up_does_not_know_how_it_ended() {
    let begun = concat!(
        "{\"event\":\"submit\",\"job\":\"c\"}\n",
        "n2 {\"event\":\"assign\",\"job\":\"c\",\"fence\":1,\"to\":\"n2\"}\n",
        "n2 {\"event\":\"start\",\"job\":\"c\",\"fence\":1}\n",
        "{\"event\":\"end\",\"job\":\"c\",\"state\":\"failed\"}\n",
    );
    assert_eq!(violations(&with(begun)).len(), 2, "no end, and a run that never ended");
    let given_up = format!("{begun}n2 {{\"event\":\"give_up\",\"job\":\"c\",\"fence\":1}}");
    assert_eq!(violations(&with(&given_up)), []);
}

#[test]
fn what_a_failover_took_back_is_excused_and_nothing_else() {
    let gone = r#"{"event":"taken_back","job":"c","gone":true}"#;
    let submitted = r#"{"event":"submit","job":"c"}"#;
    assert_eq!(violations(&with(&format!("{submitted}\n{gone}"))), []);
    let changed_only = gone.replace("true", "false");
    let lost = [Violation::LostJob { job: "c".into() }];
    assert_eq!(violations(&with(&format!("{submitted}\n{changed_only}"))), lost);
    // Its end was taken back: it runs again, under a fence that was used before, and must end again.
    let again = |end: &str| {
        let lines = [
            r#"{"event":"taken_back","job":"a","gone":false}"#,
            r#"n2 {"event":"assign","job":"a","fence":1,"to":"n2"}"#,
            r#"n2 {"event":"start","job":"a","fence":1}"#,
            r#"n2 {"event":"effect","job":"a","fence":1}"#,
            r#"n2 {"event":"settle","job":"a","fence":1,"state":"failed"}"#,
        ];
        let at_the_end =
            changed(r#""end","job":"a","state":"success""#, &format!(r#""end","job":"a","state":"{end}""#));
        format!("{at_the_end}{}\n", lines.join("\n"))
    };
    assert_eq!(violations(&again("failed")), []);
    assert_eq!(violations(&again("waiting")), [Violation::NotEnded { job: a(), state: JobState::Waiting }]);
    // Of another job nothing is excused.
    let another = again("failed").replace(r#""taken_back","job":"a""#, r#""taken_back","job":"b""#);
    assert!(!violations(&another).is_empty());
}

#[test]
fn at_rest_no_node_holds_a_job() {
    let record = changed(r#""rest","running":0"#, r#""rest","running":2"#);
    assert_eq!(violations(&record), [Violation::LeaseLeaked { running: 2 }]);
}

#[test]
fn at_rest_the_store_knows_the_living_only() {
    let record = changed(r#""running":0,"nodes":0"#, r#""running":0,"nodes":1"#);
    assert_eq!(violations(&record), [Violation::NodeLeaked { nodes: 1, living: 0 }]);
    let alive = record.lines().filter(|line| !line.contains("n2 {\"event\":\"leave\"")).collect::<Vec<_>>().join("\n");
    assert_eq!(violations(&alive), []);
    assert_eq!(
        violations(&format!("{alive}\n{{\"event\":\"kill\",\"killed\":\"n2\"}}")),
        [Violation::NodeLeaked { nodes: 1, living: 0 }]
    );
}
