//! Which task a job goes on as, in the settings file, on the command line and by SQL, and names that no node knows.

mod support;

use std::fs;

use serde_json::{Value, json};
use support::{Place, Serving, on_both_databases, said, succeeded, until};
use turnwise_testpg::Cluster;

const TASKS: &str = r#"
    [executor]
    name = "one"
    poll_interval = "50ms"
    [tasks.extract]
    command = ["sh", "-c", 'echo "[1, 2]"']
    next = "total"
    [tasks.total]
    command = ["sh", "-c", 'printf "total of "; cat']
    [tasks.fetch]
    command = ["sh", "-c", 'exit 1']
    on_exhausted = "clean-up"
    [tasks.clean-up]
    command = ["sh", "-c", 'printf "cleaned up after "; cat']
    [tasks.break]
    command = ["sh", "-c", 'exit 1']
    [tasks.quiet]
    command = ["true"]
"#;

fn write(place: &Place, settings: &str) {
    fs::write(place.path().join("turnwise.toml"), settings).unwrap();
}

fn serve(place: &Place) -> Serving {
    write(place, TASKS);
    place.serve(&[])
}

fn ended(place: &Place, id: &str) -> Value {
    until("its end", || {
        let job = place.job(id);
        matches!(job["state"].as_str(), Some("success" | "failed" | "cancelled")).then_some(job)
    })
}

fn assert_cleaned_up(place: &Place, id: &str, args: &str) {
    let job = ended(place, id);
    let result = format!("cleaned up after {args}");
    assert_eq!((&job["task"], &job["result"]), (&json!("clean-up"), &json!(result)), "{job}");
}

fn the_settings_file_says_what_follows_a_success_and_the_end_of_the_retries(place: &Place) {
    let node = serve(place);
    let totalled = place.enqueue(&["extract", r#"{"document":7}"#]);
    let fetched = place.enqueue(&["fetch", r#"{"n":1}"#, "--retry", "durations:10ms"]);
    let job = ended(place, &totalled);
    assert_eq!((&job["task"], &job["result"]), (&json!("total"), &json!("total of [1, 2]")), "{job}");
    assert_cleaned_up(place, &fetched, r#"{"n":1}"#);
    node.stop();
}

fn a_job_says_itself_what_follows_the_end_of_its_retries(place: &Place) {
    let node = serve(place);
    let typed = place.enqueue(&["break", "1", "--retry", "none", "--on-exhausted", "clean-up"]);
    let line = json!({"task": "break", "args": 2, "retry": "none", "on_exhausted": "clean-up"});
    let [read] = place.enqueue_all([line]).try_into().unwrap();
    place.told(&[
        "schedule",
        "add",
        "nightly",
        "break",
        "3",
        "--cron",
        "0 2 * * *",
        "--retry",
        "none",
        "--on-exhausted",
        "clean-up",
    ]);
    let scheduled = place.told(&["schedule", "run", "nightly"]);
    for (id, args) in [(typed.as_str(), "1"), (&read, "2"), (scheduled.trim(), "3")] {
        assert_cleaned_up(place, id, args);
    }
    place.refuses(&["enqueue", "break", "--on-exhausted", ""], 2, "on_exhausted: must not be empty");
    node.stop();
}

fn a_job_says_itself_what_follows_a_success(place: &Place) {
    let node = serve(place);
    // Its own word comes before its task's; without a result the arguments are passed on.
    let typed = place.enqueue(&["extract", "--next", "clean-up"]);
    let line = json!({"task": "quiet", "args": 2, "next": "clean-up"});
    let [read] = place.enqueue_all([line]).try_into().unwrap();
    place.told(&["schedule", "add", "nightly", "quiet", "3", "--cron", "0 2 * * *", "--next", "clean-up"]);
    let scheduled = place.told(&["schedule", "run", "nightly"]);
    for (id, args) in [(typed.as_str(), "[1, 2]"), (&read, "2"), (scheduled.trim(), "3")] {
        assert_cleaned_up(place, id, args);
    }
    place.refuses(&["enqueue", "quiet", "--next", ""], 2, "next: must not be empty");
    node.stop();
}

fn a_node_is_not_started_with_a_task_to_go_on_as_that_nobody_has(place: &Place) {
    write(place, &TASKS.replace("\"clean-up\"", "\"cleanup\""));
    let refusal = place.refused(&["serve"], 2);
    let problem = "error: turnwise.toml: tasks.fetch: on_exhausted: there is no task \"cleanup\"; did you mean \"clean-up\"? \
                   (if other nodes run it, say so: [tasks.cleanup] elsewhere = true)\n";
    assert_eq!(refusal, problem);
    // Another node may come with it.
    let elsewhere = TASKS.replace("\"clean-up\"", "\"cleanup\"") + "[tasks.cleanup]\nelsewhere = true\n";
    write(place, &elsewhere);
    let output = place.run(&["serve", "--until-empty", "--log", "warn"]);
    succeeded(&output);
    let warning = "no living node knows the task \"cleanup\"; it waits until one does; did you mean \"clean-up\"?";
    assert!(said(&output).contains(warning), "{}", said(&output));
}

fn a_submit_warns_about_a_task_that_no_living_node_knows(place: &Place) {
    write(place, TASKS);
    let nobody = "warning: no node is alive; the task \"extract\" waits until one that knows it is started\n";
    let output = place.run(&["enqueue", "extract"]);
    assert_eq!((succeeded(&output).lines().count(), said(&output).as_str()), (1, nobody));
    let node = place.serve(&[]);
    let warnings = |args: &[&str]| {
        let output = place.run(args);
        succeeded(&output);
        said(&output)
    };
    let warning = |task: &str, hint: &str| {
        format!("warning: no living node knows the task {task:?}; it waits until one does{hint}\n")
    };
    assert_eq!(warnings(&["enqueue", "extract"]), "");
    assert_eq!(warnings(&["enqueue", "extarct"]), warning("extarct", "; did you mean \"extract\"?"));
    let step = warnings(&["enqueue", "extract", "--on-exhausted", "apologise"]);
    assert_eq!(step, warning("apologise", ""));
    let schedule = ["schedule", "add", "s", "totla", "--every", "1h"];
    assert_eq!(warnings(&schedule), warning("totla", "; did you mean \"total\"?"));
    let lines: String = (0..12).map(|n| format!("{{\"task\": \"unknown {n}\"}}\n").repeat(2)).collect();
    let output = place.run_with_input(&["enqueue", "--stdin"], &lines);
    let last = "warning: and 2 more tasks that no living node knows\n";
    assert!(said(&output).lines().count() == 11 && said(&output).ends_with(last), "{}", said(&output));
    node.stop();
}

on_both_databases!(
    the_settings_file_says_what_follows_a_success_and_the_end_of_the_retries,
    a_job_says_itself_what_follows_the_end_of_its_retries,
    a_job_says_itself_what_follows_a_success,
    a_node_is_not_started_with_a_task_to_go_on_as_that_nobody_has,
    a_submit_warns_about_a_task_that_no_living_node_knows,
);

#[test]
fn a_job_submitted_by_sql_goes_on_when_its_retries_run_out_or_it_succeeds() {
    let place = Place::on_postgres();
    let node = serve(&place);
    let failing = "select turnwise.enqueue('break', '4', retry => 'none', on_exhausted => 'clean-up')";
    let succeeding = "select turnwise.enqueue('extract', timeout => '1 minute', next => 'clean-up')";
    for (call, args) in [(failing, "4"), (succeeding, "[1, 2]")] {
        let id = Cluster::shared().psql(place.database(), call).unwrap();
        assert_cleaned_up(&place, id.trim(), args);
    }
    node.stop();
}
