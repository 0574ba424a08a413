//! The pages of jobs, groups and the overview: what a person reads there, and what each form does.

mod support;

use std::{process, time::Duration};

use serde_json::{Value, json};
use support::{Answer, PATIENCE, Server, request};
use turnwise::JobRequest;

/// What a person reads: the text of a page without its marks.
fn text(html: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for c in html.chars() {
        match c {
            // What one element says stands apart from what the next one says.
            '<' => {
                inside = true;
                text.push(' ');
            }
            '>' => inside = false,
            _ if !inside => text.push(c),
            _ => {}
        }
    }
    let signs = [("&#34;", "\""), ("&#39;", "'"), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&"), ("&amp;", "&")];
    let text = signs.iter().fold(text, |text, (escaped, sign)| text.replace(escaped, sign));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

async fn page(server: &Server, path: &str) -> Answer {
    let answer = server.get(path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    answer
}

async fn read(server: &Server, path: &str) -> String {
    text(&page(server, path).await.text)
}

#[track_caller]
fn shows(page: &str, part: &str) {
    assert!(page.contains(part), "no {part:?} in: {page}");
}

/// Sends a form; the page that the browser goes on to.
async fn sent(server: &Server, path: &str, fields: &[(&str, &str)]) -> String {
    let answer = server.form(path, fields).await;
    assert_eq!(answer.status, 303, "{path}: {}", answer.text);
    let to = answer.header("location").to_owned();
    format!("/{}", to.trim_start_matches("./").replace("../", ""))
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// The words that a shell makes of each of these lines of a page.
fn lines(html: &str, class: &str) -> Vec<Vec<String>> {
    let begin = format!("<code class=\"{class}\">");
    let parts = html.split(&begin).skip(1);
    let line = |part: &str| {
        let line = part.split("</code>").next().unwrap();
        let signs = [("&#34;", "\""), ("&#39;", "'"), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&")];
        let line = signs.iter().fold(line.to_owned(), |text, (escaped, sign)| text.replace(escaped, sign));
        let script = format!("set -f; printf '%s\\0' {line}");
        let output = process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{line}");
        let words = String::from_utf8(output.stdout).unwrap();
        words.strip_suffix('\0').unwrap().split('\0').map(str::to_owned).collect()
    };
    parts.map(line).collect()
}

/// Does what a line for `curl` says.
async fn done(server: &Server, words: &[String]) -> Answer {
    let (mut method, mut body, mut url) = ("GET".to_owned(), None, None);
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "-X" => method = words.next().unwrap().clone(),
            "-H" => assert_eq!(words.next().unwrap(), "content-type: application/json"),
            "-d" => body = Some(serde_json::from_str::<Value>(words.next().unwrap()).unwrap()),
            other => url = Some(other.strip_prefix("http://127.0.0.1:8080").unwrap().to_owned()),
        }
    }
    server.send(request(&method, &url.unwrap(), body.as_ref())).await
}

#[tokio::test]
async fn every_table_and_every_action_says_how_to_have_it_without_the_page() {
    for server in Server::on_all().await {
        let group = "it's $HOME/`id`?a=b&c -x";
        let job = json!({"task": "t", "group": group, "queue": "-q", "args": {"a": 1}});
        let id = server.submit(job).await;
        server.submit(json!({"task": "t", "group": group, "after": [id]})).await;
        let nightly = json!({"task": "t", "cron": "0 2 * * *", "group": group});
        server.send(request("PUT", "/api/v1/schedules/nightly", Some(&nightly))).await.expect(200);
        let filter = encoded(&format!("group:\"{group}\""));
        let mut seen = 0;
        for path in [
            "/".to_owned(),
            "/fairness".to_owned(),
            format!("/groups/{}", encoded(group)),
            format!("/groups/{}/what-if?weight=2", encoded(group)),
            "/jobs".to_owned(),
            format!("/jobs?filter={filter}"),
            format!("/decide?do=retry&filter={filter}"),
            format!("/jobs/{id}"),
            format!("/jobs/{id}/why"),
            format!("/jobs/{id}/resubmit"),
            "/mine".to_owned(),
            "/errors".to_owned(),
            "/queues".to_owned(),
            "/queues/-q".to_owned(),
            "/schedules".to_owned(),
            "/tasks".to_owned(),
            "/tasks/t".to_owned(),
            "/nodes".to_owned(),
            "/audit".to_owned(),
            // One of its actions is to delete it.
            "/schedules/nightly".to_owned(),
            // From the first token on, every caller needs one.
            "/tokens".to_owned(),
        ] {
            let html = page(&server, &path).await.text;
            let curls = lines(&html, "curl");
            assert!(!curls.is_empty(), "{path}");
            for words in curls {
                let answer = done(&server, &words).await;
                // A job may not be in a state for it any more: another line has been done before.
                let gone = path.starts_with("/schedules/") && answer.status == 404;
                assert!(gone || matches!(answer.status, 200 | 201 | 204 | 409), "{path}: {words:?}: {}", answer.text);
                seen += 1;
            }
            for words in lines(&html, "cli") {
                assert_eq!(words[0], "turnwise", "{path}: {words:?}");
                // A node is no request to a server.
                if words[1] == "serve" {
                    continue;
                }
                let at = words.iter().position(|word| word == "--server").unwrap_or_else(|| panic!("{words:?}"));
                assert_eq!(words[at + 1], "http://127.0.0.1:8080");
            }
        }
        assert!(seen > 50, "{}: {seen} lines", server.store);
        let set = server.turnwise.settings().await.unwrap();
        let set = set.groups.iter().find(|(name, _)| name.as_str() == group).expect("the group is set");
        assert_eq!(f64::from(set.1.weight), 2.0, "{}: a line was done, and not only answered", server.store);
    }
}

#[tokio::test]
async fn the_filter_is_suggested_word_by_word_with_the_names_that_there_are() {
    for server in Server::on_all().await {
        for (group, queue) in [("acme", "mail"), ("two words", "mail"), ("beta", "slow")] {
            server.submit(json!({"task": "extract", "group": group, "queue": queue})).await;
        }
        let suggested = async |filter: &str, at: usize| {
            let html = page(&server, &format!("/jobs/suggest?filter={}&at={at}", encoded(filter))).await.text;
            let items = html.split("<li data-filter=\"").skip(1).map(|item| {
                let filter = item.split('"').next().unwrap().replace("&#34;", "\"");
                let place: usize =
                    item.split("data-place=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
                (filter, place)
            });
            items.collect::<Vec<_>>()
        };
        let one = |filter: &str| vec![(filter.to_owned(), filter.len())];
        assert_eq!(suggested("gro", 3).await, one("group:"), "{}", server.store);
        assert_eq!(suggested("task:extract sta", 16).await, one("task:extract state:"));
        assert_eq!(suggested("state:st", 8).await, one("state:stuck "));
        assert_eq!(suggested("group:ac", 8).await, one("group:acme "));
        assert_eq!(suggested("group:WORDS", 11).await, one("group:\"two words\" "), "within a name, in either case");
        assert_eq!(suggested("task:", 5).await, one("task:extract "));
        assert_eq!(suggested("queue:slo group:acme", 9).await, [("queue:slow group:acme".to_owned(), 10)]);
        assert_eq!(suggested("group:nobody", 12).await, []);
        // Without the script the browser's own list has the same.
        let html = page(&server, "/jobs?filter=state:waiting").await.text;
        for word in ["state:waiting group:acme", "state:waiting queue:slow", "state:waiting state:stuck"] {
            shows(&html, &format!("<option value=\"{word}\">"));
        }
    }
}

#[tokio::test]
async fn a_filter_that_cannot_be_read_is_shown_with_the_place() {
    let server = Server::on_memory().await;
    for (filter, said, marked) in [
        ("state:stuck taks:a", "there is no field \"taks\"", "state:stuck <mark>t</mark>aks:a"),
        ("error~\"é", "at character 7", "error~<mark>&#34;</mark>é"),
    ] {
        let html = page(&server, &format!("/jobs?filter={}", encoded(filter))).await.text;
        shows(&text(&html), said);
        shows(&html, marked);
        shows(&html, "aria-invalid=\"true\"");
    }
}

#[tokio::test]
async fn a_decision_by_a_filter_is_about_what_its_preview_counted() {
    for server in Server::on_all().await {
        let group = "it's";
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(server.submit(json!({"task": "t", "group": group})).await);
        }
        server.submit(json!({"task": "t", "group": "other"})).await;
        let filter = "group:\"it's\"";
        let list = page(&server, &format!("/jobs?filter={}", encoded(filter))).await.text;
        shows(&list, "decide?do=cancel&amp;filter=");
        let preview = page(&server, &format!("/decide?do=cancel&filter={}", encoded(filter))).await.text;
        shows(&text(&preview), "3 jobs would be cancelled, as of now");
        let newest = preview.split("name=\"newest\" value=\"").nth(1).unwrap().split('"').next().unwrap();
        let late = server.submit(json!({"task": "t", "group": group})).await;
        let fields = [("do", "cancel"), ("filter", filter), ("newest", newest)];
        let to = sent(&server, "/decide", &fields).await;
        let told = read(&server, &to).await;
        shows(&told, "3 cancelled");
        shows(&told, "Done.");
        for (id, state) in ids.iter().map(|id| (id, "cancelled")).chain([(&late, "waiting")]) {
            assert_eq!(server.get(&format!("/api/v1/jobs/{id}")).await.expect(200)["state"], state, "{}", server.store);
        }
        let lines = server.get("/api/v1/audit").await.expect(200);
        // One for each job, and one each for the beginning and the end of the decision.
        assert_eq!(lines["lines"].as_array().unwrap().len(), 5, "{}: {lines}", server.store);
    }
}

#[tokio::test]
async fn the_tabs_of_the_jobs_count_them_and_keep_the_filter() {
    let server = Server::on_sqlite().await;
    server.submit(json!({"task": "t", "args": {"note": "a state:x b"}})).await;
    server.submit(json!({"task": "t", "in": "1h"})).await;
    let html = page(&server, "/jobs").await.text;
    shows(&text(&html), "Waiting 2");
    let filter = "args.note~\"a state:x b\"";
    let html = page(&server, &format!("/jobs?filter={}", encoded(&format!("{filter} state:waiting")))).await.text;
    // The text between quotation marks is no state; the tab of the state is the current one.
    let failed = "jobs?filter=state%3Afailed%20args.note~%22a%20state%3Ax%20b%22";
    shows(&html, failed);
    let current = html.split("aria-current=\"true\">").nth(1).unwrap();
    assert!(current.starts_with("Waiting"), "{current}");
    assert_eq!(html.matches("<tr data-key").count(), 1, "{html}");
}

#[tokio::test]
async fn a_job_is_changed_cancelled_and_run_again_by_its_page() {
    for server in Server::on_all().await {
        let job = JobRequest::from_json("t", r#"{"n":1.50}"#).group("acme");
        let id = server.turnwise.submit(job).await.unwrap().to_string();
        let path = format!("/jobs/{id}");
        let html = page(&server, &path).await.text;
        shows(&text(&html), "\"n\": 1.50");
        shows(&text(&html), "no node is running");
        let back = format!("jobs/{id}");
        let change = [("back", back.as_str()), ("priority", "2"), ("queue", "fast"), ("in", "1h")];
        let to = sent(&server, &format!("{path}/change"), &change).await;
        shows(&read(&server, &to).await, "The job is changed.");
        let job = server.get(&format!("/api/v1{path}")).await.expect(200);
        assert_eq!((&job["priority"], &job["queue"]), (&json!(2), &json!("fast")), "{}", server.store);
        let to = sent(&server, &format!("{path}/cancel"), &[("back", back.as_str())]).await;
        let told = read(&server, &to).await;
        shows(&told, "The job is cancelled");
        shows(&told, "Run again");
        assert!(!told.contains("Change…"), "{told}");
        sent(&server, &format!("{path}/retry"), &[("back", back.as_str())]).await;
        let job = server.get(&format!("/api/v1{path}")).await.expect(200);
        assert_eq!(job["state"], "waiting", "{}", server.store);
        let lines = server.get(&format!("/api/v1/audit?target=job:{id}")).await.expect(200);
        let verbs: Vec<_> = lines["lines"].as_array().unwrap().iter().map(|line| line["verb"].clone()).collect();
        assert_eq!(verbs, ["retry", "cancel", "change"], "{}", server.store);
    }
}

#[tokio::test]
async fn the_picture_of_a_job_has_each_of_its_runs() {
    let server = Server::on_sqlite().await;
    let id = server.submit(json!({"task": "break", "retry": "durations:1ms"})).await;
    let after = server.submit(json!({"task": "double", "args": 2, "after": [id], "on_failure": "run"})).await;
    let node = server.node().await;
    server.job_in(&id, "failed").await;
    server.job_in(&after, "success").await;
    let told = read(&server, &format!("/jobs/{id}")).await;
    for part in ["1. error", "2. error", "it is broken", "Which jobs wait for which", "double"] {
        shows(&told, part);
    }
    let told = read(&server, &format!("/jobs/{after}")).await;
    for part in ["1. run", "Result 4", "doubling", "it runs all the same"] {
        shows(&told, part);
    }
    // The log, the result and the arguments are those that the API has.
    let filter = encoded("state:failed");
    shows(&read(&server, &format!("/jobs?filter={filter}")).await, "it is broken");
    // The dispatcher writes down what happened every ten seconds.
    let counted = async {
        while server.get("/api/v1/errors").await.expect(200)["errors"][0]["count"] != 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, counted).await.expect("the errors of its runs");
    shows(
        &read(&server, "/").await,
        "task break in queue default: 2 runs in the last hour ended with error “it is broken",
    );
    node.stop().await;
}

#[tokio::test]
async fn a_group_is_weighed_after_a_what_if_and_paused_by_its_page() {
    for server in Server::on_all().await {
        for group in ["acme", "acme", "beta"] {
            server.submit(json!({"task": "double", "args": 1, "group": group})).await;
        }
        let what_if = read(&server, "/groups/acme/what-if?weight=2").await;
        shows(&what_if, "If acme had weight 2");
        shows(&what_if, "acme");
        shows(&what_if, "Looked at");
        let back = ("back", "groups/acme");
        sent(&server, "/groups/acme/set", &[back, ("weight", "2")]).await;
        let set = server.get("/api/v1/groups/acme").await.expect(200);
        assert_eq!(set["weight"], 2.0, "{}", server.store);
        let to = sent(&server, "/groups/acme/pause", &[back, ("reason", "they asked")]).await;
        let told = read(&server, &to).await;
        shows(&told, "The group is paused");
        shows(&told, "they asked");
        assert_eq!(server.get("/api/v1/groups/acme").await.expect(200)["state"], "paused", "{}", server.store);
        sent(&server, "/groups/acme/resume", &[back]).await;
        assert_eq!(server.get("/api/v1/groups/acme").await.expect(200)["state"], "active", "{}", server.store);
        // Any group is found by its name.
        assert_eq!(server.get("/group?name=beta").await.header("location"), "./groups/beta");
    }
}

#[tokio::test]
async fn the_overview_says_what_needs_attention_and_what_to_do() {
    let server = Server::on_sqlite().await;
    server.submit(json!({"task": "nobody-knows"})).await;
    server.submit(json!({"task": "t", "queue": "mail"})).await;
    server.post("/api/v1/queues/mail/pause", &json!({"reason": "release 7"})).await.expect(200);
    let told = read(&server, "/").await;
    for part in [
        "1 job waits for \"nobody-knows\", which no living node knows",
        "What to do: start a node that knows it, or cancel the jobs",
        "queue mail was paused",
        "release 7",
        "nodes: none is alive: no job runs",
    ] {
        shows(&told, part);
    }
}

#[tokio::test]
async fn what_holds_a_job_up_leads_to_the_job_that_it_waits_for() {
    let server = Server::on_memory().await;
    let first = server.submit(json!({"task": "t", "in": "1h"})).await;
    let after = server.submit(json!({"task": "t", "after": [first]})).await;
    let short = &first[first.len() - 8..];
    let link = format!("href=\"../jobs/{first}\" title=\"{first}\">{short}</a>");
    shows(&page(&server, &format!("/jobs/{after}")).await.text, &format!("waits for job <a class=\"mono\" {link}"));
    shows(&read(&server, "/mine").await, &format!("waits for job {short}"));
    // What is not due cannot start before it is.
    let why = read(&server, &format!("/jobs/{first}/why")).await;
    shows(&why, "at the earliest");
    assert!(!why.contains("When it starts cannot be said"), "{why}");
    shows(&read(&server, &format!("/jobs/{first}")).await, "Priority 5, as usual");
}

#[tokio::test]
async fn a_limit_and_a_pause_are_supposed_before_they_are_set() {
    for server in Server::on_all().await {
        for group in ["acme", "acme", "beta"] {
            server.submit(json!({"task": "double", "args": 1, "group": group})).await;
        }
        let what_if = "/groups/acme/what-if?weight=1&concurrency=1&pause=yes&back=fairness";
        let html = page(&server, what_if).await.text;
        let told = text(&html);
        shows(&told, "If acme had at most one job at a time and were paused");
        // No node is there: of jobs that do not start nobody can say how long they wait.
        shows(&told, "acme: none of its jobs starts in the time that was looked at.");
        shows(&told, "acme 2 – – – – – –");
        shows(&told, "Give acme at most 1 at a time");
        shows(&told, "--group-concurrency 'acme=1' --pause acme");
        shows(&html, "<input type=\"hidden\" name=\"concurrency\" value=\"1\">");
        let to = sent(&server, "/groups/acme/set", &[("back", "fairness"), ("concurrency", "1")]).await;
        assert!(to.starts_with("/fairness"), "{to}");
        assert_eq!(server.get("/api/v1/groups/acme").await.expect(200)["concurrency"], 1, "{}", server.store);
        // What is so already is no change; taking the limit away is one.
        let what_if = read(&server, "/groups/acme/what-if?weight=1&concurrency=").await;
        shows(&what_if, "If acme had no limit of jobs at a time");
        shows(&what_if, "Give acme no limit");
    }
}

#[tokio::test]
async fn the_page_of_a_group_says_what_it_has_and_what_is_not_kept() {
    let server = Server::on_sqlite().await;
    server.submit(json!({"task": "double", "args": 1, "group": "acme"})).await;
    let group = server.get("/api/v1/groups/acme").await.expect(200);
    assert!(group["oldest"].is_string(), "{group}");
    let told = read(&server, "/groups/acme").await;
    shows(&told, "oldest wait");
    shows(&told, "It has no numbers of its own for the last hour");
    shows(&told, "is not kept");
    let node = server.node().await;
    let counted = async {
        while server.get("/api/v1/statistics?by=group&queue=default").await.expect(200)["points"][0].is_null() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, counted).await.expect("the numbers of the group");
    let told = read(&server, "/groups/acme").await;
    shows(&told, "It had 100 % of the workers’ time and was entitled to");
    shows(&told, "Its share of the workers’ time, by the minute");
    node.stop().await;
}
