//! The pages of errors, tasks and nodes, as a person reads them.

mod support;

use std::collections::BTreeSet;

use axum::{
    body::Body,
    http::{HeaderValue, Request, header},
};
use serde_json::{Value, json};
use support::{Answer, Server, request, with};
use turnwise::{
    GroupName, TaskName,
    access::{Grant, Limits, NewAccess, Scope},
};

/// The words of a page, without its elements.
fn words(html: &str) -> String {
    let main = html.split_once("<main").expect("a page").1;
    let (mut text, mut inside) = (String::new(), true);
    for c in main.chars() {
        match c {
            '<' => inside = true,
            '>' => {
                inside = false;
                text.push(' ');
            }
            _ if !inside => text.push(c),
            _ => {}
        }
    }
    let text = text.replace("&#34;", "\"").replace("&#39;", "'").replace("&#38;", "&");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The page at a path, as its words and as its markup.
async fn page(server: &Server, path: &str, token: Option<&str>) -> (String, String) {
    let asked = request("GET", path, None);
    let asked = match token {
        Some(secret) => with(asked, secret),
        None => asked,
    };
    let answer = server.send(asked).await;
    assert_eq!(answer.status, 200, "{}: {path}: {}", server.store, answer.text);
    (words(&answer.text), answer.text)
}

/// The row of a table with this text.
#[track_caller]
fn row<'a>(html: &'a str, text: &str) -> &'a str {
    let mut rows = html.split("<tr").skip(1).map(|row| row.split("</tr>").next().unwrap_or_default());
    rows.find(|row| row.contains(text)).unwrap_or_else(|| panic!("no row with {text}: {html}"))
}

/// The addresses of links whose words begin so.
fn links(html: &str, label: &str) -> Vec<String> {
    let links = html.split("<a ").skip(1).filter_map(|link| {
        let (head, rest) = link.split_once('>')?;
        let href = head.split_once("href=\"")?.1.split('"').next()?;
        rest.starts_with(label).then(|| href.replace("&#38;", "&"))
    });
    links.collect()
}

/// Sends a form as a browser does.
async fn send(server: &Server, path: &str, form: &str, token: Option<&str>) -> Answer {
    let sent = Request::builder()
        .method("POST")
        .uri(path)
        .header(header::HOST, "127.0.0.1:8080")
        .header("origin", "http://127.0.0.1:8080")
        .header("sec-fetch-site", "same-origin")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    let sent = match token {
        Some(secret) => sent.header(header::AUTHORIZATION, HeaderValue::try_from(format!("Bearer {secret}")).unwrap()),
        None => sent,
    };
    server.send(sent.body(Body::from(form.to_owned())).unwrap()).await
}

async fn token(server: &Server, scopes: &[Scope], limits: Limits) -> String {
    let grant = Grant::new(scopes.iter().copied(), limits).unwrap();
    server.turnwise.create_token(NewAccess::new("test", grant).unwrap()).await.unwrap().secret.reveal().to_string()
}

fn of_group(name: &str) -> Limits {
    Limits { groups: Some(BTreeSet::from([GroupName::new(name).unwrap()])), ..Limits::default() }
}

fn of_task(name: &str) -> Limits {
    Limits { tasks: Some(BTreeSet::from([TaskName::new(name).unwrap()])), ..Limits::default() }
}

/// Two jobs that fail and one that succeeds, and a node that has written its statistics and gone.
async fn work(server: &Server) -> [String; 3] {
    let node = server.node().await;
    let broken = json!({ "task": "break", "args": {}, "retry": "none", "group": "acme" });
    let jobs = [server.submit(broken.clone()).await, server.submit(broken).await];
    let well = server.submit(json!({ "task": "double", "args": 4, "group": "acme" })).await;
    for job in &jobs {
        server.job_in(job, "failed").await;
    }
    server.job_in(&well, "success").await;
    node.stop().await;
    let [one, other] = jobs;
    [one, other, well]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_runs_are_shown_by_kind_and_run_again_after_a_preview() {
    for server in Server::on_all().await {
        let (empty, _) = page(&server, "/errors", None).await;
        assert!(empty.contains("No run ended in an error in the last day"), "{}: {empty}", server.store);
        assert!(empty.contains("turnwise enqueue flaky"), "{empty}");
        let [_, last, _] = work(&server).await;
        let kind = server.get(&format!("/api/v1/jobs/{last}")).await.expect(200)["fingerprint"].clone();
        let kind = kind.as_str().unwrap().to_owned();
        for window in ["hour", "day", "week", "month"] {
            let (words, html) = page(&server, &format!("/errors?window={window}"), None).await;
            assert!(words.contains("ended in an error, of one kind"), "{}: {words}", server.store);
            let row = row(&html, &kind);
            assert!(row.contains("it is broken"), "{row}");
            assert_eq!(links(row, "it is broken"), [format!("./jobs/{last}")], "the last job that has it");
            assert!(row.contains("<td data-label=\"Runs\" class=\"n\">2</td>"), "{row}");
            assert_eq!(links(row, "break"), ["./tasks/break"]);
            assert_eq!(
                links(row, "Show"),
                [format!("./jobs?filter=fingerprint%3A{kind}%20task%3Abreak%20queue%3Adefault")]
            );
            assert!(row.contains("<svg"), "how often over time: {row}");
        }
        let (other, _) = page(&server, "/errors?task=double", None).await;
        assert!(other.contains("No run ended in an error"), "{other}");
        // A person follows the links, and sends the form that is there.
        let (_, html) = page(&server, "/errors", None).await;
        let again = links(row(&html, &kind), "Run again").remove(0);
        let (words, preview) = page(&server, again.trim_start_matches('.'), None).await;
        assert!(words.contains("2 jobs would run again, as of now"), "{words}");
        let hidden = |name: &str| {
            let field = preview.split_once(&format!("name=\"{name}\" value=\"")).expect(name).1;
            field.split('"').next().unwrap().to_owned()
        };
        let form = format!(
            "do=retry&newest={}&filter={}",
            hidden("newest"),
            hidden("filter").replace(' ', "+").replace(':', "%3A").replace(',', "%2C")
        );
        let sent = send(&server, "/decide", &form, None).await;
        assert_eq!(sent.status, 303, "{}", sent.text);
        let (words, _) = page(&server, sent.header("location").trim_start_matches('.'), None).await;
        assert!(words.contains("2 will run again"), "{words}");
        server.job_in(&last, "waiting").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_over_http_say_how_often_by_the_step_that_was_asked_for() {
    for server in Server::on_all().await {
        work(&server).await;
        let without = server.get("/api/v1/errors").await.expect(200);
        assert_eq!(without["errors"][0]["counts"], json!([]), "{}", server.store);
        for step in ["minute", "hour", "day"] {
            let error = server.get(&format!("/api/v1/errors?step={step}")).await.expect(200)["errors"][0].clone();
            let counts = error["counts"].as_array().unwrap();
            let sum: u64 = counts.iter().map(|count| count["count"].as_u64().unwrap()).sum();
            assert_eq!((&error["count"], sum), (&json!(2), 2), "{}: {error}", server.store);
            assert!(counts.iter().all(|count| count["step"] == step), "{error}");
        }
        server.get("/api/v1/errors?step=year").await.refused(422, Some("step"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_shown_with_its_runs_and_its_limits_are_set_there() {
    for server in Server::on_all().await {
        let (empty, _) = page(&server, "/tasks", None).await;
        assert!(empty.contains("No task is known"), "{}: {empty}", server.store);
        work(&server).await;
        server.submit(json!({ "task": "unknown", "args": {} })).await;
        let (_, html) = page(&server, "/tasks", None).await;
        let broken = words(&format!("<main><tr{}", row(&html, "task break")));
        assert!(broken.starts_with("break no living node 0 0 0 2 2 2 "), "{}: {broken}", server.store);
        let unknown = row(&html, "task unknown");
        assert!(unknown.contains("class=\"state lost\">no living node"), "it has a job: {unknown}");
        let first = html.find("task break").unwrap();
        assert!(first < html.find("task double").unwrap(), "what fails comes first");
        let (_, by_name) = page(&server, "/tasks?by=waiting&window=hour", None).await;
        assert!(by_name.find("task unknown").unwrap() < by_name.find("task break").unwrap());
        let sent =
            send(&server, "/tasks/unknown/set", "concurrency=2&rate=10%2F1m&back=tasks%3Fwindow%3Dday", None).await;
        assert_eq!(
            (sent.status, sent.header("location")),
            (303, "../../tasks?window=day&done=setTask"),
            "{}",
            sent.text
        );
        let (words, html) = page(&server, "/tasks?window=day&done=setTask", None).await;
        assert!(words.contains("The task’s limits are changed.") || words.contains("limits are changed"), "{words}");
        assert!(row(&html, "task unknown").contains("2 at a time, 10/1m"), "{html}");
        let (words, html) = page(&server, "/tasks/break", None).await;
        assert!(words.contains("2 runs failed"), "{}: {words}", server.store);
        assert!(words.contains("2 started in the last day"), "{words}");
        assert!(html.contains("How long runs took, by the hour"), "{html}");
        let (words, _) = page(&server, "/tasks/unknown", None).await;
        assert!(words.contains("No living node knows this task, and 1 of its jobs wait"), "{words}");
        let sent = send(&server, "/tasks/unknown/reset", "", None).await;
        assert_eq!(sent.status, 303, "{}", sent.text);
        let (_, html) = page(&server, "/tasks", None).await;
        assert!(row(&html, "task unknown").contains("no limits"), "{html}");
        let missing = server.get("/tasks/nothing").await;
        assert_eq!(missing.status, 404, "{}", missing.text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fleet_is_shown_with_what_each_node_knows_and_has() {
    for server in Server::on_all().await {
        let (empty, _) = page(&server, "/nodes", None).await;
        assert!(empty.contains("No node has joined"), "{}: {empty}", server.store);
        assert!(empty.contains("turnwise serve --demo-tasks"), "{empty}");
        let node = server.node().await;
        let well = server.submit(json!({ "task": "double", "args": 4 })).await;
        server.job_in(&well, "success").await;
        let (words, html) = page(&server, "/nodes", None).await;
        let row = row(&html, "<strong>node</strong>");
        assert!(row.contains("class=\"state alive\">alive") && row.contains("dispatches"), "{}: {row}", server.store);
        assert!(row.contains("0 / 2</a>"), "{row}");
        assert_eq!(links(row, "double"), ["./tasks/double"]);
        assert!(words.contains("0 / 2 slots in use"), "{words}");
        let beat = server.get("/api/v1/nodes").await.expect(200)["nodes"][0].clone();
        assert!(beat["beat_at"].as_str() < beat["lease_until"].as_str(), "{beat}");
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_token_sees_its_own_work_and_is_told_what_it_cannot_see() {
    for server in Server::on_all().await {
        work(&server).await;
        let reader = [Scope::Read];
        let [group, task, whole] = [
            token(&server, &reader, of_group("beta")).await,
            token(&server, &reader, of_task("double")).await,
            token(&server, &reader, Limits::default()).await,
        ];
        let (words, html) = page(&server, "/errors", Some(&group)).await;
        assert!(words.contains("Errors are not counted by group"), "{}: {words}", server.store);
        assert!(!html.contains("it is broken"), "{html}");
        let (_, html) = page(&server, "/errors", Some(&task)).await;
        assert!(!html.contains("it is broken") && !html.contains("break"), "{html}");
        let (_, html) = page(&server, "/errors", Some(&whole)).await;
        assert!(
            html.contains("it is broken") && !html.contains("Run again"),
            "who may only read decides nothing: {html}"
        );
        let (_, html) = page(&server, "/tasks", Some(&task)).await;
        assert!(html.contains("task double") && !html.contains("task break"), "{html}");
        assert!(!html.contains("<form method=\"post\" action=\"./tasks"), "{html}");
        for secret in [&group, &task] {
            let (words, html) = page(&server, "/nodes", Some(secret)).await;
            assert!(words.contains("Nodes are shown to tokens without limits"), "{words}");
            assert!(!html.contains("<strong>node</strong>"), "{html}");
        }
        let refused = send(&server, "/tasks/double/set", "concurrency=1", Some(&whole)).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
        let job: Value = server.get("/api/v1/tasks/double").await.json();
        assert_ne!(job["concurrency"], 1);
    }
}
