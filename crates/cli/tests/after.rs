//! Jobs that wait for jobs, with the real binary, on both databases.

mod support;

use std::fs;

use serde_json::{Value, json};
use support::{Place, on_both_databases, refused, succeeded};

on_both_databases! {
    jobs_run_fail_or_are_cancelled_after_those_they_wait_for,
    a_batch_from_a_file_ends_with_the_one_that_waits_for_all,
    the_graph_is_told_and_drawn,
    a_job_that_is_waited_for_may_be_named_by_the_beginning_of_its_id,
    what_cannot_be_waited_for_is_refused_in_one_line,
}

fn work(place: &Place) {
    place.work(&["--slots", "2", "--demo-tasks"]);
}

fn states(place: &Place, ids: &[&String]) -> Vec<String> {
    ids.iter().map(|id| place.state(id)).collect()
}

fn jobs_run_fail_or_are_cancelled_after_those_they_wait_for(place: &Place) {
    let good = place.enqueue(&["noop"]);
    let bad = place.enqueue(&["flaky", r#"{"fail":9}"#, "--retry", "none"]);
    let both = format!("{good},{bad}");
    let after = |more: &[&str]| place.enqueue(&[&["noop", "--after"], more].concat());
    let (fine, fails) = (after(&[&good]), after(&[&both]));
    let (runs, cancelled) = (after(&[&both, "--on-failure", "run"]), after(&[&both, "--on-failure", "cancel"]));
    let last = after(&[&fails, "--on-failure", "run"]);
    let why = place.told(&["why", &fails]);
    assert!(why.contains(&format!("waits for job {} and one other", good.clone().min(bad.clone()))), "{why}");
    work(place);
    let states = states(place, &[&good, &bad, &fine, &fails, &runs, &cancelled, &last]);
    assert_eq!(states, ["success", "failed", "success", "failed", "success", "cancelled", "success"]);
    let failed = place.job(&fails);
    assert_eq!(failed["error"], format!("job {bad}, which it waited for, failed"));
    assert_eq!((&failed["after"].as_array().unwrap().len(), &failed["on_failure"]), (&2, &Value::from("fail")));
    assert_eq!(failed["awaited_by"], json!([last]));
    let shown = place.told(&["job", &fails]);
    assert!(shown.contains(&format!("after             {good} (on failure: fail)")), "{shown}");
    assert!(shown.contains(&format!("awaited by        {last}")), "{shown}");
}

fn a_batch_from_a_file_ends_with_the_one_that_waits_for_all(place: &Place) {
    let lines = r#"{"task":"noop","after":"*","as":"end"}
        {"task":"noop","as":"first"}
        {"task":"noop","as":"left","after":"first"}
        {"task":"noop","as":"right","after":["first"]}
        {"task":"noop","after":["left","right"]}"#;
    let told = succeeded(&place.run_with_input(&["enqueue", "--stdin"], lines));
    let ids: Vec<&str> = told.lines().collect();
    work(place);
    let moments: Vec<(String, String)> = ids
        .iter()
        .map(|id| {
            let job = place.job(id);
            assert_eq!(job["state"], "success");
            let moment = |name: &str| job[name].as_str().unwrap().to_owned();
            (moment("assigned_at"), moment("finished_at"))
        })
        .collect();
    for (waits, first) in [(2, 1), (3, 1), (4, 2), (4, 3), (0, 4), (0, 1)] {
        assert!(moments[first].1 <= moments[waits].0, "{waits} after {first}: {moments:?}");
    }
}

fn the_graph_is_told_and_drawn(place: &Place) {
    let first = place.enqueue(&["noop"]);
    let second = place.enqueue(&["sleep", r#"{"ms":1}"#, "--after", &first, "--on-failure", "run"]);
    let third = place.enqueue(&["noop", "--after", &format!("{first},{second}")]);
    let told = place.told(&["job", &second, "--graph", "--svg", "graph.svg"]);
    let expected = format!(
        "#1  waiting   noop  {first}\n\
         #2    waiting   sleep  {second}  after #1 (run)  <- this one\n\
         #3      waiting   noop  {third}  after #1 #2 (fail)\n"
    );
    assert_eq!(told, expected);
    place.refuses(&["job", &second, "--graph", "--svg", "none/graph.svg"], 2, "svg: none/graph.svg: No such file");
    let svg = fs::read_to_string(place.path().join("graph.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    assert_eq!(
        (svg.matches("<g class=\"node ").count(), svg.matches("class=\"edge\"").count()),
        (3, 2),
        "one arrow follows from others"
    );
    work(place);
    let told = place.told(&["job", &first, "--graph"]);
    assert!(told.starts_with(&format!("#1  success   noop  {first}  <- this one\n")), "{told}");
}

fn a_job_that_is_waited_for_may_be_named_by_the_beginning_of_its_id(place: &Place) {
    let first = place.enqueue(&["noop"]);
    let second = place.enqueue(&["noop", "--after", &first[..30]]);
    assert_eq!(place.job(&second)["after"], json!([first]));
}

fn what_cannot_be_waited_for_is_refused_in_one_line(place: &Place) {
    let unknown = "01900000-0000-7000-8000-000000000000";
    for (args, code, told) in [
        (&["--after", unknown][..], 1, "after: there is no job 01900000-0000-7000-8000-000000000000"),
        (
            &["--after", "the-first"],
            2,
            r#"after: id: "the-first" is neither a job id nor the first four digits of one, or more"#,
        ),
        (&["--after", unknown, "--on-failure", "ignore"], 2, "on_failure: must be fail, run or cancel"),
    ] {
        let text = place.refused(&[&["enqueue", "noop"], args].concat(), code);
        assert!(text.contains(told), "{args:?}: {text}");
    }
    let circle = "{\"task\":\"noop\",\"as\":\"a\",\"after\":\"b\"}\n{\"task\":\"noop\",\"as\":\"b\",\"after\":\"a\"}";
    let text = refused(&place.run_with_input(&["enqueue", "--stdin"], circle), 1);
    assert!(text.contains("after: jobs wait for one another: "), "{text}");
    assert_eq!(place.told(&["jobs", "--json"]).trim(), "[]");
}
