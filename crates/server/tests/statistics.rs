//! What happened, as it is asked for over HTTP: by whom it may be seen, and what a monitoring program reads.

mod support;

use std::{collections::BTreeMap, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, Request, header},
};
use serde_json::{Value, json};
use support::{PATIENCE, Server, request};
use turnwise::{
    GroupName, QueueName, TaskName, Timestamp,
    access::{Grant, Limits, NewAccess, Scope},
    statistics::{Counted, ErrorRow, Fingerprint, Of, Row, Step, Sums},
};
use turnwise_store::{Epoch, WriteStatistics};

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

fn row(queue_name: &str, of: Of, count: u64) -> Row {
    let mut sums = Sums::of_share(count * 1_000_000, count * 2_000_000);
    sums.tally(Counted::Started, count, count * 500);
    sums.put(Counted::Started, 3, count);
    sums.tally(Counted::Success, count, count * 1_000_000);
    sums.put(Counted::Success, 16, count);
    Row { queue: queue(queue_name), of, sums }
}

fn task(name: &str) -> Of {
    Of::Task(TaskName::new(name).unwrap())
}

fn group(name: &str) -> Of {
    Of::Group(GroupName::new(name).unwrap())
}

/// Writes what a dispatcher of this epoch would have counted, and the totals that it makes of those before.
async fn count(server: &Server, epoch: i64, at: Timestamp, count: u64) {
    let operators = server.turnwise.operators().unwrap();
    let begun = operators.begin_statistics(Epoch(epoch)).await.unwrap();
    let tasks = [row("mail", task("send"), count), row("mail", task("sort"), count), row("slow", task("send"), count)];
    let groups =
        [row("mail", group("acme"), count), row("mail", group("other"), count), row("mail", Of::OtherGroups, count)];
    let totals = tasks.iter().map(|task| {
        let known = begun.totals.iter().find(|known| (&known.queue, &known.of) == (&task.queue, &task.of));
        let mut sums = known.map(|known| known.sums.clone()).unwrap_or_default();
        sums.add(&task.sums);
        Row { sums, ..task.clone() }
    });
    let (fingerprint, task) = (Fingerprint::from_number(7), TaskName::new("send").unwrap());
    let error = ErrorRow { queue: queue("mail"), task, fingerprint, count, first: at, last: at };
    let write = WriteStatistics {
        term: begun.term,
        at,
        first: true,
        totals: totals.collect(),
        rows: tasks.iter().chain(&groups).cloned().collect(),
        errors: vec![error],
    };
    operators.write_statistics(write).await.unwrap();
}

fn with(mut request: Request<Body>, secret: &str) -> Request<Body> {
    let bearer = HeaderValue::try_from(format!("Bearer {secret}")).unwrap();
    request.headers_mut().insert(header::AUTHORIZATION, bearer);
    request
}

async fn token(server: &Server, limits: Limits) -> String {
    let grant = Grant::new([Scope::Read], limits).unwrap();
    server.turnwise.create_token(NewAccess::new("test", grant).unwrap()).await.unwrap().secret.reveal().to_string()
}

fn names(answer: &Value, field: &str) -> Vec<String> {
    let points = answer["points"].as_array().unwrap();
    points.iter().map(|point| format!("{}/{}", point["queue"].as_str().unwrap(), point[field])).collect()
}

/// The value of a series, as Prometheus reads it.
fn series(metrics: &str, name: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happened_is_told_by_queue_task_group_and_step() {
    for server in Server::on_all().await {
        let now = Step::Minute.begin(server.turnwise.now().await.unwrap());
        count(&server, 1, now, 2).await;
        count(&server, 2, now, 3).await;
        let ask = async |query: &str| server.get(&format!("/api/v1/statistics{query}")).await.expect(200);
        let by_queue = ask("").await;
        assert_eq!(names(&by_queue, "task"), ["mail/null", "slow/null"], "{}", server.store);
        assert_eq!((&by_queue["points"][0]["success"], &by_queue["points"][0]["used"]), (&json!(10), &json!(10.0)));
        let by_task = ask("?by=task&queue=mail").await;
        assert_eq!(names(&by_task, "task"), [r#"mail/"send""#, r#"mail/"sort""#]);
        let point = &by_task["points"][0];
        assert_eq!((&point["started"], &point["runs"]["count"]), (&json!(5), &json!(5)), "of both dispatchers");
        assert_eq!((&point["waits"]["p99"], &point["runs"]["p50"]), (&json!(0.000562), &json!(1.0)));
        assert_eq!(point["runs"]["buckets"].as_array().unwrap().len(), 40);
        assert_eq!(by_task["bounds"].as_array().unwrap().len(), 39);
        let failed = ask("?by=task&queue=mail&outcome=failed").await;
        assert_eq!(failed["points"][0]["runs"]["count"], 0);
        let by_group = ask("?by=group&queue=mail&step=day").await;
        assert_eq!(names(&by_group, "group"), [r#"mail/"acme""#, r#"mail/"other""#, "mail/null"]);
        assert_eq!((&by_group["points"][0]["step"], &by_group["points"][0]["entitled"]), (&json!("day"), &json!(10.0)));
        assert_eq!(names(&ask("?by=group&queue=mail&group=acme").await, "group"), [r#"mail/"acme""#]);
        let errors = server.get("/api/v1/errors?queue=mail").await.expect(200);
        assert_eq!(
            (&errors["errors"][0]["fingerprint"], &errors["errors"][0]["count"]),
            (&json!("000000000007"), &json!(5))
        );
        assert_eq!(server.get("/api/v1/errors?task=sort").await.expect(200)["errors"], json!([]));
        server.get("/api/v1/statistics?by=group").await.refused(422, Some("queue"));
        server.get("/api/v1/statistics?by=node").await.refused(422, Some("by"));
        server.get("/api/v1/statistics?step=year").await.refused(422, Some("step"));
        server.get("/api/v1/statistics?outcome=started").await.refused(422, Some("outcome"));
    }
}

/// For so many minutes numbers of 200 groups and of 100 tasks, of which an answer holds a part.
const BUSY_MINUTES: u32 = 101;

async fn busy_minutes(server: &Server) {
    let operators = server.turnwise.operators().unwrap();
    let term = operators.begin_statistics(Epoch(1)).await.unwrap().term;
    let now = Step::Minute.begin(server.turnwise.now().await.unwrap());
    let of = |name: &dyn Fn(usize) -> Of, count: usize| (0..count).map(|n| row("mail", name(n), 1)).collect::<Vec<_>>();
    let rows = [
        of(&|n| group(&format!("g{n}")), 200),
        of(&|n| task(&format!("t{n}")), 100),
        (0..100).map(|n| row("slow", task(&format!("t{n}")), 1)).collect(),
    ];
    let rows = rows.concat();
    for minute in 1..=BUSY_MINUTES {
        let at = now.minus(Step::Minute.length() * minute);
        let (errors, totals) = (Vec::new(), Vec::new());
        let write = WriteStatistics { term, at, first: true, rows: rows.clone(), errors, totals };
        operators.write_statistics(write).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_limited_token_gets_does_not_depend_on_how_many_others_there_are() {
    for server in Server::on_all().await {
        busy_minutes(&server).await;
        let of_group = Limits { groups: Some([GroupName::new("g7").unwrap()].into()), ..Limits::default() };
        let of_queue = Limits { queues: Some([queue("mail")].into()), ..Limits::default() };
        let of_task = Limits { tasks: Some([TaskName::new("t7").unwrap()].into()), ..of_queue.clone() };
        let since = server.turnwise.now().await.unwrap().minus(Duration::from_secs(3 * 60 * 60));
        let ask = async |limits: Limits, query: &str| {
            let secret = token(&server, limits).await;
            let path = format!("/api/v1/statistics?since={since}&{query}");
            server.send(with(request("GET", &path, None), &secret)).await
        };
        for query in ["by=group&queue=mail", "by=task"] {
            ask(Limits::default(), query).await.refused(422, Some("since"));
        }
        for (limits, query, whose) in [
            (of_group, "by=group&queue=mail", r#"mail/"g7""#),
            (of_task.clone(), "by=task", r#"mail/"t7""#),
            (of_task, "by=queue", "mail/null"),
        ] {
            let answer = ask(limits, query).await.expect(200);
            let field = if query.contains("group") { "group" } else { "task" };
            assert_eq!(names(&answer, field), vec![whose; BUSY_MINUTES as usize], "{} {query}", server.store);
            assert!(answer["points"].as_array().unwrap().iter().all(|point| point["success"] == 1), "{query}");
        }
        let of_one_queue = ask(of_queue, "by=task").await.expect(200);
        assert_eq!(of_one_queue["points"].as_array().unwrap().len(), 100 * BUSY_MINUTES as usize);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_token_sees_numbers_of_its_own_jobs_and_no_others() {
    for server in Server::on_all().await {
        count(&server, 1, Step::Minute.begin(server.turnwise.now().await.unwrap()), 1).await;
        let of_group = Limits { groups: Some([GroupName::new("acme").unwrap()].into()), ..Limits::default() };
        let of_queue = Limits { queues: Some([queue("slow")].into()), ..Limits::default() };
        let of_task = Limits { tasks: Some([TaskName::new("sort").unwrap()].into()), ..Limits::default() };
        let [of_group, of_queue, of_task] =
            [token(&server, of_group).await, token(&server, of_queue).await, token(&server, of_task).await];
        let ask = async |secret: &str, query: &str| {
            let path = format!("/api/v1/statistics{query}");
            server.send(with(request("GET", &path, None), secret)).await
        };
        let points = async |secret: &str, query: &str, field| names(&ask(secret, query).await.expect(200), field);
        assert_eq!(points(&of_group, "?by=group&queue=mail", "group").await, [r#"mail/"acme""#]);
        assert_eq!(points(&of_group, "?by=task", "task").await, [""; 0]);
        assert_eq!(points(&of_group, "", "task").await, [""; 0]);
        assert_eq!(points(&of_queue, "", "task").await, ["slow/null"]);
        ask(&of_queue, "?by=group&queue=mail").await.refused(404, None);
        assert_eq!(points(&of_task, "?by=task", "task").await, [r#"mail/"sort""#]);
        let sorted = ask(&of_task, "").await.expect(200);
        assert_eq!(
            (names(&sorted, "task"), &sorted["points"][0]["success"]),
            (vec!["mail/null".to_owned()], &json!(1))
        );
        assert_eq!(points(&of_task, "?by=group&queue=mail", "group").await, [""; 0]);
        for secret in [&of_group, &of_queue, &of_task] {
            let errors = server.send(with(request("GET", "/api/v1/errors", None), secret)).await.expect(200);
            assert_eq!(errors["errors"], json!([]));
            server.send(with(request("GET", "/metrics", None), secret)).await.refused(403, None);
        }
        server.get("/metrics").await.refused(401, None);
        let reader = token(&server, Limits::default()).await;
        assert_eq!(server.send(with(request("GET", "/metrics", None), &reader)).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_of_the_installation_never_fall_and_series_of_a_node_carry_its_name() {
    for server in Server::on_all().await {
        let now = Step::Minute.begin(server.turnwise.now().await.unwrap());
        let sent = r#"turnwise_runs_ended_total{queue="mail",task="send",outcome="success"}"#;
        let mut last = 0.0;
        // Two hand-overs; what was counted is older than anything that is kept.
        for (epoch, old) in [(1, 500), (2, 20), (3, 0)] {
            count(&server, epoch, now.minus(Duration::from_secs(86_400 * old)), 4).await;
            while server.turnwise.operators().unwrap().merge_statistics().await.unwrap() {}
            let metrics = server.get("/metrics").await;
            assert_eq!(metrics.status, 200, "{}", metrics.text);
            let value = series(&metrics.text, sent).unwrap_or_else(|| panic!("{}", metrics.text));
            assert_eq!(value, last + 4.0, "{}", server.store);
            last = value;
        }
        let metrics = server.get("/metrics").await;
        assert_eq!(metrics.header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
        let metrics = metrics.text;
        assert!(metrics.ends_with("# EOF\n"), "{metrics}");
        assert_eq!(series(&metrics, r#"turnwise_jobs_started_total{queue="slow",task="send"}"#), Some(12.0));
        assert_eq!(series(&metrics, r#"turnwise_run_seconds_bucket{le="1.0",queue="mail"}"#), Some(24.0), "{metrics}");
        assert_eq!(series(&metrics, r#"turnwise_run_seconds_bucket{le="0.562",queue="mail"}"#), Some(0.0));
        assert_eq!(series(&metrics, r#"turnwise_run_seconds_bucket{le="+Inf",queue="mail"}"#), Some(24.0));
        assert_eq!(series(&metrics, r#"turnwise_wait_seconds_count{queue="mail"}"#), Some(24.0));
        let asked = r#"turnwise_http_requests_total{node="",route="/metrics",method="GET",status="2xx"}"#;
        assert_eq!(series(&metrics, asked), Some(3.0));
    }
}

/// All series of counters with their values.
fn counters(metrics: &str) -> BTreeMap<&str, f64> {
    let samples = metrics.lines().filter(|line| !line.starts_with('#'));
    let counters = samples.filter(|line| ["_total{", "_bucket{", "_count{"].iter().any(|part| line.contains(part)));
    counters.map(|line| line.rsplit_once(' ').map(|(name, value)| (name, value.parse().unwrap())).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_series_falls_when_other_tasks_and_queues_become_the_busiest() {
    for server in Server::on_all().await {
        let operators = server.turnwise.operators().unwrap();
        let term = operators.begin_statistics(Epoch(1)).await.unwrap().term;
        let write = async |count: &dyn Fn(u64) -> u64| {
            // 300 tasks in 30 queues.
            let of_task =
                |number: u64| row(&format!("queue-{}", number / 10), task(&format!("task-{number}")), count(number));
            let totals: Vec<Row> = (0..300).map(of_task).collect();
            let write = WriteStatistics {
                term,
                at: Timestamp::from_micros(0),
                first: true,
                rows: Vec::new(),
                errors: Vec::new(),
                totals,
            };
            operators.write_statistics(write).await.unwrap();
            server.get("/metrics").await.text
        };
        let before = write(&|number| 1 + number).await;
        let after = write(&|number| if number < 150 { 1_000 + number } else { 2 + number }).await;
        let (before, after) = (counters(&before), counters(&after));
        for (name, value) in &before {
            assert!(after.get(name).is_none_or(|after| after >= value), "{name}: {value}, then {}", after[name]);
        }
        let of = |name: &str| after.keys().filter(|series| series.starts_with(name)).count();
        assert_eq!(of("turnwise_jobs_started_total{"), 200, "{}", server.store);
        assert_eq!(of("turnwise_run_seconds_count{"), 20);
        let first = r#"turnwise_jobs_started_total{queue="queue-0",task="task-0"}"#;
        assert_eq!((before.get(first), after.get(first)), (None, Some(&1_000.0)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_runs_is_told_to_a_monitoring_program() {
    for server in Server::on_all().await {
        server.submit(json!({"task": "double", "args": 1, "queue": "slow", "in": "1h"})).await;
        let node = server.node().await;
        server.service.watch(node.clone());
        let id = server.submit(json!({"task": "double", "args": 21, "queue": "sums"})).await;
        server.job_in(&id, "success").await;
        let metrics = server.get("/metrics").await.text;
        let dispatches = async {
            while series(&server.get("/metrics").await.text, r#"turnwise_dispatcher_epoch{node="node"}"#).is_none() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, dispatches).await.expect("it dispatches");
        assert_eq!(series(&metrics, r#"turnwise_pool_slots{node="node",pool="node"}"#), Some(2.0), "{metrics}");
        assert_eq!(series(&metrics, r#"turnwise_jobs{queue="slow",state="waiting"}"#), Some(1.0), "{metrics}");
        assert_eq!(series(&metrics, r#"turnwise_oldest_wait_seconds{queue="slow"}"#), Some(0.0), "it is not due");
        assert_eq!(series(&metrics, "turnwise_nodes"), Some(1.0));
        assert!(series(&metrics, r#"turnwise_lease_age_seconds{node="node"}"#).is_some_and(|age| age < 60.0));
        // A node that stops writes what it has counted.
        node.stop().await;
        let metrics = server.get("/metrics").await.text;
        let ended = r#"turnwise_runs_ended_total{queue="sums",task="double",outcome="success"}"#;
        assert_eq!(series(&metrics, ended), Some(1.0), "{}: {metrics}", server.store);
        let idle = [r#"turnwise_jobs{queue="sums",state="waiting"}"#, r#"turnwise_oldest_wait_seconds{queue="sums"}"#];
        assert_eq!(
            idle.map(|name| series(&metrics, name)),
            [Some(0.0); 2],
            "a queue that has run jobs is not away when it is empty"
        );
        assert_eq!(series(&metrics, r#"turnwise_node_settled_total{node="node"}"#), Some(1.0));
    }
}
