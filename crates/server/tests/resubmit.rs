//! Submitting a job again, with changes: over HTTP, and by the form of its page.

mod support;

use serde_json::{Value, json};
use support::{Answer, Server, form, misfit, request, with};
use turnwise::{
    JobId, JobRequest,
    access::{Grant, Limits, NewAccess, Scope},
    audit::AskAudit,
    secret::{Pointer, Secrets},
};

/// A secret that no answer may have.
const CARD: &str = "4111-1111";

async fn with_secrets(server: &Server) {
    let mut secrets = Secrets::default();
    for pointer in ["/card", "/cards/0/number", "/cards/1/number"] {
        secrets.add("pay".parse().unwrap(), Pointer::new(pointer).unwrap());
    }
    server.turnwise.operators().unwrap().note_secrets(secrets).await.unwrap();
}

async fn jobs(server: &Server) -> usize {
    server.get("/api/v1/jobs").await.expect(200)["jobs"].as_array().unwrap().len()
}

/// The arguments as they are stored.
async fn args(server: &Server, id: &str) -> String {
    server.turnwise.job(id.parse().unwrap()).await.unwrap().args.as_str().to_owned()
}

async fn again(server: &Server, id: &str, changes: &Value) -> Answer {
    server.post(&format!("/api/v1/jobs/{id}/resubmit"), changes).await
}

#[tokio::test]
async fn an_ended_job_is_submitted_again_with_changes_and_stays_as_it_is() {
    for server in Server::on_all().await {
        let was = json!({"task": "t", "args": {"n": 1.50}, "queue": "slow", "group": "acme", "key": "db", "priority": 7,
            "retry": "none", "timeout": "5m", "unique": "k"});
        let id = server.submit(was).await;
        server.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({})).await.expect(200);
        let before = server.get(&format!("/api/v1/jobs/{id}")).await.expect(200);
        let same = again(&server, &id, &json!({})).await;
        let told = same.expect(201);
        assert_eq!((misfit("Submitted", &told), &told["new"]), (None, &json!(true)), "{}", server.store);
        let new = told["id"].as_str().unwrap();
        assert_eq!(same.header("location"), format!("/api/v1/jobs/{new}"));
        let job = server.get(&format!("/api/v1/jobs/{new}")).await.expect(200);
        for field in ["task", "args", "queue", "group", "key", "priority", "retry", "timeout"] {
            assert_eq!(job[field], before[field], "{}: {field}", server.store);
        }
        assert_eq!((&job["state"], &job["unique"], &job["attempt"]), (&json!("waiting"), &Value::Null, &json!(0)));
        let changes =
            json!({"task": "u", "args": null, "queue": "fast", "group": "beta", "priority": "high", "in": "1h"});
        let other = again(&server, &id, &changes).await.expect(201)["id"].as_str().unwrap().to_owned();
        let job = server.get(&format!("/api/v1/jobs/{other}")).await.expect(200);
        let is = ["task", "args", "queue", "group", "priority"].map(|field| job[field].clone());
        assert_eq!(is, [json!("u"), json!(null), json!("fast"), json!("beta"), json!(3)], "{}", server.store);
        assert!(job["due_at"].as_str().unwrap() > job["submitted_at"].as_str().unwrap());
        let after = server.get(&format!("/api/v1/jobs/{id}")).await.expect(200);
        assert_eq!(after, before, "{}", server.store);
        // The audit log has who made which job of which.
        let lines = server.turnwise.audit(AskAudit { limit: 10, ..AskAudit::default() }).await.unwrap().lines;
        let line = &lines[0];
        assert_eq!((line.verb.as_str(), line.target.clone()), ("resubmit", format!("job:{id}")), "{}", server.store);
        let made: Value = line.after.as_ref().unwrap().decode().unwrap();
        assert_eq!((&made["job"], &made["queue"]), (&json!(other), &json!("fast")), "{}", server.store);
        assert_eq!(lines.iter().filter(|line| line.verb == "resubmit").count(), 2);
        for (changes, path) in [
            (json!({"priority": 11}), "/priority"),
            (json!({"in": "1h", "at": "2030-01-31T08:30:00Z"}), "/in"),
            (json!({"retry": "none"}), "/retry"),
            (json!({"task": ""}), "/task"),
        ] {
            again(&server, &id, &changes).await.refused(422, Some(path));
        }
        again(&server, "01890163-d869-7739-8aea-5966c26f8ad9", &json!({})).await.refused(404, None);
        assert_eq!(jobs(&server).await, 3, "{}: what was refused left nothing", server.store);
    }
}

#[tokio::test]
async fn a_resubmit_under_a_key_is_done_once() {
    for server in Server::on_all().await {
        let (id, other) = (server.submit(json!({"task": "t"})).await, server.submit(json!({"task": "t"})).await);
        let ask = async |id: &str| {
            let mut request = request("POST", &format!("/api/v1/jobs/{id}/resubmit"), Some(&json!({"priority": 1})));
            request.headers_mut().insert("idempotency-key", "once".parse().unwrap());
            server.send(request).await
        };
        let first = ask(&id).await;
        let repeat = ask(&id).await;
        assert_eq!(repeat.header("idempotent-replayed"), "true", "{}", server.store);
        assert_eq!(first.expect(201)["id"], repeat.expect(201)["id"], "{}", server.store);
        // The same changes of another job are another request.
        ask(&other).await.refused(422, Some("Idempotency-Key"));
        assert_eq!(jobs(&server).await, 3, "{}", server.store);
        let lines = server.turnwise.audit(AskAudit { limit: 10, ..AskAudit::default() }).await.unwrap().lines;
        assert_eq!(lines.iter().filter(|line| line.verb == "resubmit").count(), 1, "{}", server.store);
    }
}

#[tokio::test]
async fn a_secret_that_is_left_alone_keeps_its_value_and_is_never_shown() {
    for server in Server::on_all().await {
        with_secrets(&server).await;
        let stored =
            format!(r#"{{"card":"{CARD}","to":"amn","cards":[{{"number":"{CARD}/0"}},{{"number":"{CARD}/1"}}]}}"#);
        let id = server.turnwise.submit(JobRequest::from_json("pay", &stored)).await.unwrap().to_string();
        let shown = server.get(&format!("/api/v1/jobs/{id}/request")).await;
        let mut edit = shown.expect(200);
        assert_eq!(misfit("ToEdit", &edit), None);
        assert!(!shown.text.contains(CARD), "{}: {}", server.store, shown.text);
        assert_eq!(edit["args"]["card"], "[secret /card]");
        edit["args"]["to"] = json!("ann");
        edit["args"]["cards"].as_array_mut().unwrap().swap(0, 1);
        let new = again(&server, &id, &json!({"args": edit["args"]})).await.expect(201)["id"].clone();
        let new = new.as_str().unwrap().to_owned();
        let kept: Value = serde_json::from_str(&args(&server, &new).await).unwrap();
        let numbers = [format!("{CARD}/1"), format!("{CARD}/0")].map(|number| json!({"number": number}));
        assert_eq!(kept, json!({"card": CARD, "to": "ann", "cards": numbers}), "{}", server.store);
        // Left alone as a whole it stays to the letter, also in another queue.
        let same = again(&server, &id, &json!({"queue": "slow"})).await.expect(201)["id"].as_str().unwrap().to_owned();
        assert_eq!(args(&server, &same).await, stored, "{}", server.store);
        // No task gets it that would show it.
        for changes in [json!({"task": "echo"}), json!({"task": "echo", "args": {"card": "[secret /card]"}})] {
            let refused = again(&server, &id, &changes).await;
            let problem = refused.refused(422, Some("/args"));
            assert!(!refused.text.contains(CARD), "{problem}");
        }
        again(&server, &id, &json!({"args": {"note": "[secret /card]"}})).await.refused(422, Some("/args"));
        // Of another task with other arguments nothing is kept.
        again(&server, &id, &json!({"task": "echo", "args": {"to": "[secret]"}})).await.expect(201);
    }
}

#[tokio::test]
async fn a_limited_token_submits_again_only_what_is_and_stays_its_own() {
    let server = Server::on_sqlite().await;
    let own = server.submit(json!({"task": "t", "group": "acme"})).await;
    let theirs = server.submit(json!({"task": "t", "group": "rival"})).await;
    let limits = Limits { groups: Some(["acme".parse().unwrap()].into()), ..Limits::default() };
    let token = async |scope| {
        let grant = Grant::new([scope, Scope::Read], limits.clone()).unwrap();
        server.turnwise.create_token(NewAccess::new("ci", grant).unwrap()).await.unwrap()
    };
    let (submits, operates) = (token(Scope::Submit).await, token(Scope::Operate).await);
    let ask = async |id: &str, changes: Value, secret: &str| {
        let request = request("POST", &format!("/api/v1/jobs/{id}/resubmit"), Some(&changes));
        server.send(with(request, secret)).await
    };
    let secret = submits.secret.reveal();
    ask(&own, json!({"priority": 1}), secret).await.expect(201);
    ask(&theirs, json!({}), secret).await.refused(404, None);
    ask(&own, json!({"group": "rival"}), secret).await.refused(404, None);
    ask(&own, json!({}), operates.secret.reveal()).await.refused(403, None);
    // The page offers it to those that may.
    for (token, offered) in [(&submits, true), (&operates, false)] {
        let page = server.send(with(request("GET", &format!("/jobs/{own}"), None), token.secret.reveal())).await;
        assert_eq!(page.text.contains(&format!("jobs/{own}/resubmit")), offered, "{}", page.text);
        let page = format!("/jobs/{own}/resubmit");
        let status = server.send(with(request("GET", &page, None), token.secret.reveal())).await.status;
        assert_eq!(status, if offered { 200 } else { 403 });
        let sent = form(&page, &[("key", "f"), ("task", "t"), ("priority", "5"), ("args", "null")]);
        let status = server.send(with(sent, token.secret.reveal())).await.status;
        assert_eq!(status, if offered { 422 } else { 403 }, "its queue and its group are empty");
    }
}

/// What a text field of a page has in it.
fn field<'a>(page: &'a str, name: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("name=\"{name}\"")).unwrap_or_else(|| panic!("no {name}: {page}"));
    let (tag, rest) = rest.split_once('>').unwrap();
    match tag.split_once("value=\"") {
        Some((_, value)) => value.split('"').next().unwrap(),
        None => rest.split("</textarea>").next().unwrap(),
    }
}

fn plain(html: &str) -> String {
    let signs = [("&#34;", "\""), ("&#39;", "'"), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&")];
    signs.iter().fold(html.to_owned(), |text, (escaped, sign)| text.replace(escaped, sign))
}

#[tokio::test]
async fn the_form_submits_what_was_changed_in_it() {
    for server in Server::on_all().await {
        with_secrets(&server).await;
        let stored = format!(r#"{{"card":"{CARD}","n":12345678901234567890,"x":1.50,"to":"<b>é</b>"}}"#);
        let job = JobRequest::from_json("pay", &stored).group("acme").queue("slow").priority(2);
        let id = server.turnwise.submit(job).await.unwrap().to_string();
        let page = server.get(&format!("/jobs/{id}/resubmit")).await;
        assert_eq!(page.status, 200, "{}", page.text);
        assert!(!page.text.contains(CARD), "{}", page.text);
        let is = |name| plain(field(&page.text, name));
        assert_eq!([is("task"), is("queue"), is("group"), is("priority")], ["pay", "slow", "acme", "2"]);
        let (key, shown) = (is("key"), is("args"));
        let send = async |key: &str, queue: &str, args: &str| {
            let fields = [("key", key), ("task", "pay"), ("queue", queue), ("group", "acme"), ("priority", "2")];
            let more = [("args", args), ("in", ""), ("at", "")];
            server.form(&format!("/jobs/{id}/resubmit"), &[&fields[..], &more].concat()).await
        };
        let made = |answer: &Answer| {
            assert_eq!(answer.status, 303, "{}: {}", server.store, answer.text);
            let to = answer.header("location").to_owned();
            to.split("jobs/").nth(1).unwrap().split('?').next().unwrap().parse::<JobId>().unwrap().to_string()
        };
        // As a browser sends it, and twice: it is one job, with the arguments to the letter.
        let untouched = shown.replace('\n', "\r\n");
        let new = made(&send(&key, "fast", &untouched).await);
        assert_eq!(made(&send(&key, "fast", &untouched).await), new, "{}", server.store);
        assert_eq!(jobs(&server).await, 2, "{}", server.store);
        assert_eq!(args(&server, &new).await, stored, "{}", server.store);
        assert_eq!(server.turnwise.job(new.parse().unwrap()).await.unwrap().queue.as_str(), "fast");
        // A value is changed: its sibling keeps what is not shown, and numbers keep their digits.
        let changed = shown.replace("<b>é</b>", "ann");
        let new = made(&send("other", "slow", &changed).await);
        let kept = args(&server, &new).await;
        assert!(kept.contains(CARD) && kept.contains("12345678901234567890") && kept.contains("1.50"), "{kept}");
        assert!(kept.contains("\"ann\""), "{kept}");
        // A mistake is said, and nothing that was typed is lost.
        for (args, wrong) in
            [("{\"to\": \"ann\"", "args: is not JSON"), ("{\"to\":\"[secret /card]\"}", "would not be secret")]
        {
            let answer = send("third", "slow", args).await;
            assert_eq!(answer.status, 422, "{}", answer.text);
            let text = plain(&answer.text);
            assert!(text.contains(wrong) && text.contains(args), "{text}");
            assert_eq!(field(&answer.text, "key"), "third");
        }
        assert_eq!(jobs(&server).await, 3, "{}", server.store);
        let lines = server.turnwise.audit(AskAudit { limit: 10, ..AskAudit::default() }).await.unwrap().lines;
        assert_eq!(lines.iter().filter(|line| line.verb == "resubmit").count(), 2, "{}", server.store);
    }
}
