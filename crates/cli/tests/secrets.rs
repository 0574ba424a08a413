//! A canary in a secret field: its task gets it, and nothing that people or programs look at shows it.

mod support;

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
};

use support::{Harness, PATIENCE, Place, until};
use turnwise_server::{Verb, pages, routes};

const CANARY: &str = "canary7f3a9d21c0ffee";
/// A number is a secret as well.
const PIN: &str = "8675309424242";
/// An argument that is no secret: shown with its job, and in nothing that is kept about the node.
const PLAIN: &str = "argument5e1f07";

/// `charge` fails for good and repeats all that it got in its log, its progress and its error; `pay` returns it; `settle` fails until a
/// person decides, and goes on as `pay` when its retries run out.
const TASKS: &str = r#"
    [tasks.charge]
    command = ["sh", "-c", 'tee "got-$TURNWISE_JOB_ID" >&2; echo >&2; printf "{{\"done\":1,\"text\":\"with %s\"}}" "$1" > "$TURNWISE_PROGRESS"; echo "declined: $1, $2" >&2; exit 65', "charge", "{args.card.number}", "{args.pin}"]
    env = ["PATH"]
    secret = ["/card/number", "/pin"]
    [tasks.pay]
    command = ["sh", "-c", 'tee "got-$TURNWISE_JOB_ID"']
    env = ["PATH"]
    [tasks.settle]
    command = ["sh", "-c", 'cat >&2; exit 1']
    env = ["PATH"]
    secret = ["/card/number", "/pin"]
    retry = "manual"
    on_exhausted = "pay"
"#;

fn args() -> String {
    format!(r#"{{"card": {{"number": "{CANARY}", "holder": "Ann"}}, "pin": {PIN}, "amount": 12.50}}"#)
}

/// What is shown somewhere, searched for the secrets.
#[derive(Default)]
struct Search {
    looked: usize,
    found: Vec<String>,
}

impl Search {
    fn look(&mut self, place: &str, text: &str) {
        self.looked += 1;
        for secret in [CANARY, PIN] {
            if let Some(at) = text.find(secret) {
                let from = text[..at].char_indices().rev().nth(60).map_or(0, |(at, _)| at);
                self.found.push(format!("{place}: …{}", &text[from..at + secret.len()]));
            }
        }
    }
}

/// Bodies with the secrets in them that are not as they should be, and where they are sent to.
fn malformed() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let (args, deep) = (args(), "[".repeat(70));
    let of_one: Vec<Vec<u8>> = [
        // No JSON, or not to its end.
        format!(r#"{{"task": "charge", "args": {{"card": {{"number": "{CANARY}"#),
        format!(r#"{{"task": "charge", "args": {args}}} and more"#),
        format!(r#"{{"task": "charge", "args": {CANARY}}}"#),
        format!(r#"{{"task": "charge", "args": {args},}}"#),
        format!("{{\"task\": \"charge\", \"args\": {{\"card\": {{\"number\": \"{CANARY}\n\"}}}}}}"),
        format!(r#"{{"task": "charge", "args": {{"card": {{"number": "\ud800{CANARY}"}}, "pin": {PIN}}}}}"#),
        format!(r#"{{"task": "charge", "args": {{"pin": {PIN}x}}}}"#),
        format!("{CANARY} {PIN}"),
        format!(r#"["charge", {args}]"#),
        format!(r#""{CANARY}""#),
        // In the wrong place.
        format!(r#"{{"task": "charge", "card": {{"number": "{CANARY}"}}, "pin": {PIN}}}"#),
        format!(r#"{{"task": {args}}}"#),
        format!(r#"{{"task": "charge", "key": {args}}}"#),
        format!(r#"{{"task": "charge", "after": [{args}]}}"#),
        format!(r#"{{"task": "charge", "priority": [{args}]}}"#),
        // Too much of it, or not right beside it.
        format!(r#"{{"task": "charge", "args": {args}, "args": {args}}}"#),
        format!(r#"{{"task": "charge", "args": {deep}"{CANARY}"{}}}"#, "]".repeat(70)),
        format!(r#"{{"task": "charge", "args": {args}, "priority": 99}}"#),
        format!(r#"{{"task": "charge", "args": {args}, "timeout": "soon"}}"#),
        format!(r#"{{"task": "charge", "args": {args}, "after": "nonsense"}}"#),
        format!(r#"{{"task": "charge", "args": {args}, "after": "01890163-d869-7739-8aea-5966c26f8ad9"}}"#),
        format!(r#"{{"args": {args}}}"#),
    ]
    .map(String::into_bytes)
    .into();
    let broken = [format!(r#"{{"task": "charge", "args": "{CANARY}"#).as_bytes(), b"\xff\"}"].concat();
    let jobs = of_one.into_iter().chain([broken]).map(|body| ("POST", "/api/v1/jobs", body));
    let others = [
        ("POST", "/api/v1/jobs/batch", format!(r#"{{"jobs": [{{"task": "charge", "args": {args}}}, {args}]}}"#)),
        ("POST", "/api/v1/jobs/batch", format!(r#"{{"jobs": {args}}}"#)),
        ("POST", "/api/v1/jobs/batch", args.clone()),
        ("PUT", "/api/v1/schedules/weekly", format!(r#"{{"task": "charge", "args": {args}, "cron": "nonsense"}}"#)),
        ("PUT", "/api/v1/schedules/weekly", format!(r#"{{"task": "charge", "args": {args}, "cron": {args}}}"#)),
        ("POST", "/api/v1/jobs/cancel", format!(r#"{{"group": {args}}}"#)),
        ("POST", "/api/v1/simulate", format!(r#"{{"weights": {args}}}"#)),
        ("PATCH", "/api/v1/queues/default", format!(r#"{{"after": [{args}]}}"#)),
    ];
    jobs.chain(others.map(|(method, path, body)| (method, path, body.into_bytes()))).collect()
}

fn ask(server: SocketAddr, method: &str, path: &str, body: impl AsRef<[u8]>) -> String {
    let body = body.as_ref();
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = "connection: close\r\ncontent-type: application/json\r\norigin: ";
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {server}\r\n{head}http://{server}\r\ncontent-length: {length}\r\n\r\n"
    )
    .unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn commands(search: &mut Search, place: &Place, jobs: &[String], when: &str) {
    let mut calls: Vec<Vec<&str>> = vec![
        vec!["jobs"],
        vec!["jobs", "--wide"],
        vec!["jobs", "--json"],
        vec!["jobs", "--args-contain", CANARY, "--json"],
        vec!["jobs", "--args-contain", "Ann", "--json"],
        vec!["jobs", "--state", "failed", "--by", "error"],
        vec!["jobs", "--state", "failed", "--by", "error", "--json"],
        vec!["queues", "--json"],
        vec!["groups", "--json"],
        vec!["tasks", "--json"],
        vec!["keys", "--json"],
        vec!["nodes", "--json"],
        vec!["schedule", "list"],
        vec!["schedule", "list", "--json"],
        vec!["schedule", "show", "nightly"],
        vec!["schedule", "show", "nightly", "--json"],
        vec!["audit"],
        vec!["audit", "--json"],
        vec!["retry", "--filter", "task=charge", "--dry-run"],
        vec!["cancel", "--filter", "task=settle", "--dry-run"],
    ];
    for id in jobs {
        calls.extend([
            vec!["job", id],
            vec!["job", id, "--json"],
            vec!["job", id, "--graph"],
            vec!["logs", id],
            vec!["logs", id, "--json"],
            vec!["logs", id, "--follow"],
        ]);
    }
    for call in calls {
        if call.contains(&"--follow") && place.state(call[1]) == "stuck" {
            continue;
        }
        let output = place.run(&call);
        assert!(output.status.success(), "{call:?}: {output:?}");
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        search.look(&format!("{when}: turnwise {}", call.join(" ")), &said);
    }
}

#[test]
fn a_secret_reaches_its_task_and_is_shown_nowhere() {
    let [on_sqlite, on_postgres] = Harness::on_both();
    for (mut harness, format) in [(on_sqlite, "text"), (Harness::on_sqlite(), "json"), (on_postgres, "json")] {
        fs::write(harness.place.path().join("turnwise.toml"), TASKS).unwrap();
        #[cfg(feature = "otlp")]
        let collector = support::Collector::start();
        #[cfg(feature = "otlp")]
        collector.serve(&mut harness.place);
        let mut search = Search::default();
        let flags = ["--log", "trace", "--log-format", format, "--listen", "127.0.0.1:0"];
        let mut node = harness.spawn("node", &flags);
        let ready = node.wait_until_ready();
        let server: SocketAddr = ready.split_once("http://").unwrap().1.trim().parse().unwrap();
        let place = &harness.place;
        search.look("the line of a node that is ready", &ready);
        let events = thread::spawn(move || ask(server, "GET", "/api/v1/events", ""));

        // Submitted by HTTP and by the command, failed, paid, stuck; and a schedule.
        // The key is held although the job may have ended by the time that the duplicate comes.
        let unique = r#""unique": "order-7", "unique_for": "1h""#;
        let body = format!(r#"{{"task": "charge", "args": {}, "key": "bank", {unique}}}"#, args());
        let submitted = ask(server, "POST", "/api/v1/jobs", &body);
        search.look("the answer to a submit", &submitted);
        let id = submitted.split_once(r#""id":""#).unwrap().1.split('"').next().unwrap().to_owned();
        let duplicate =
            ask(server, "POST", "/api/v1/jobs", body.replace("order-7\"", "order-7\", \"on_duplicate\": \"reject\""));
        assert!(duplicate.starts_with("HTTP/1.1 409"), "{duplicate}");
        search.look("the answer to a duplicate", &duplicate);
        place.wait_for_state(&id, "failed");
        let stuck = place.enqueue(&["settle", &args()]);
        place.wait_for_state(&stuck, "stuck");
        let waited = place.run(&["enqueue", "charge", &args(), "--wait"]);
        assert_eq!(waited.status.code(), Some(4), "{waited:?}");
        search.look("enqueue --wait", &String::from_utf8(waited.stderr).unwrap());
        let paid = place.enqueue(&["settle", &args(), "--retry", "none"]);
        place.wait_for_state(&paid, "success");
        place.told(&["schedule", "add", "nightly", "charge", &args(), "--cron", "0 0 1 1 *"]);
        let jobs = [id, stuck, paid];
        let plain = place.enqueue(&["pay", &format!(r#"{{"to": "{PLAIN}"}}"#)]);
        place.wait_for_state(&plain, "success");
        for query in [format!("args_contain={PLAIN}"), format!("filter=args.to={PLAIN}")] {
            let found = ask(server, "GET", &format!("/api/v1/jobs?{query}"), "");
            assert!(found.starts_with("HTTP/1.1 200") && found.contains(&plain), "{found}");
        }

        // Its task got it, and its fields that are no secret are shown.
        for id in [&jobs[0], &jobs[2]] {
            let got = fs::read_to_string(place.path().join(format!("got-{id}"))).unwrap();
            assert!(got.contains(CANARY) && got.contains(PIN), "{got}");
        }
        let shown = place.job(&jobs[0]);
        assert_eq!(
            (&shown["args"]["card"]["number"], &shown["args"]["pin"], &shown["args"]["card"]["holder"]),
            (&"[secret]".into(), &"[secret]".into(), &"Ann".into()),
            "{shown}"
        );
        assert_eq!(shown["error"], "sh ended with exit code 65: declined: [secret], [secret]");
        assert_eq!(place.job(&jobs[2])["result"]["card"]["number"], "[secret]", "what it returns is hidden as well");
        assert!(place.told(&["logs", &jobs[0]]).contains("declined: [secret]"));

        // A look for text does not tell whether a secret has it.
        let by_text = |text: &str| place.json(&["jobs", "--args-contain", text, "--json"]).as_array().unwrap().len();
        assert_eq!((by_text(CANARY), by_text("card"), by_text("Ann")), (0, 4, 4));
        let by_filter = |text: &str| place.json(&["jobs", text, "--json"]).as_array().unwrap().len();
        let secret = [format!("args~{CANARY}"), format!("args.card.number={CANARY}"), format!("error~{CANARY}")];
        assert_eq!(secret.map(|text| by_filter(&text)), [0; 3]);
        assert_eq!((by_filter("args.card.number=[secret]"), by_filter("args.card.holder=Ann")), (4, 4));
        for part in ["canary", CANARY, "4242"] {
            let answer = ask(server, "GET", &format!("/api/v1/jobs?args_contain={part}&limit=1"), "");
            let other = ask(server, "GET", "/api/v1/jobs?args_contain=zzzzz&limit=1", "");
            let body = |answer: &str| answer.split_once("\r\n\r\n").unwrap().1.to_owned();
            assert_eq!(body(&answer), body(&other), "as for a text that no job has");
        }

        // Every route that reads, every page, and what some that change something answer.
        let names = ["default", "charge", "bank", "nightly"];
        let read =
            routes().into_iter().filter(|route| route.verb == Verb::Get && !route.streams).map(|route| route.path);
        let shown = pages().into_iter().filter(|page| page.verb == Verb::Get).map(|page| page.path);
        for of_all in read.chain(shown) {
            let fill = |name: &str| match of_all.split_once('{') {
                Some((before, rest)) => format!("{before}{name}{}", rest.split_once('}').unwrap().1),
                None => of_all.to_owned(),
            };
            for path in jobs.iter().map(String::as_str).chain(names).map(fill) {
                search.look(&format!("GET {path}"), &ask(server, "GET", &path, ""));
            }
        }
        // The page of a job has what it may show, so it would have the rest too; and lists show errors.
        let page = ask(server, "GET", &format!("/jobs/{}", jobs[0]), "");
        assert!(page.contains("Ann") && page.contains("declined: [secret]"), "{page}");
        for path in ["/jobs?filter=task:charge", "/jobs?filter=args~Ann", "/decide?do=retry&filter=task:charge"] {
            let page = ask(server, "GET", path, "");
            assert!(page.starts_with("HTTP/1.1 200"), "{path}: {page}");
            search.look(&format!("GET {path}"), &page);
        }
        // A stream of a log ends with its job.
        let path = format!("/api/v1/jobs/{}/log/live", jobs[0]);
        search.look(&path, &ask(server, "GET", &path, ""));
        for query in ["?limit=1", "?state=failed", "?args_contain=Ann", "?task=charge"] {
            let path = format!("/api/v1/jobs{query}");
            search.look(&path, &ask(server, "GET", &path, ""));
        }
        for (path, body) in [
            (format!("/api/v1/jobs/{}/rerun", jobs[2]), "{}"),
            (format!("/api/v1/jobs/{}/fail", jobs[1]), "{}"),
            ("/api/v1/jobs/retry".to_owned(), r#"{"task": "charge", "dry_run": true}"#),
            ("/api/v1/schedules/nightly/pause".to_owned(), "{}"),
            ("/api/v1/simulate".to_owned(), "{}"),
        ] {
            search.look(&format!("POST {path}"), &ask(server, "POST", &path, body));
        }
        // What is refused is not repeated, neither to its caller nor in the log.
        for (method, path, body) in malformed() {
            let answer = ask(server, method, path, &body);
            let body = String::from_utf8_lossy(&body);
            let status = answer.split(' ').nth(1).unwrap_or_default();
            assert!(["400", "404", "409", "422"].contains(&status), "{method} {path} {body}: {answer}");
            search.look(&format!("the answer to {method} {path} {}", body.replace(CANARY, "…")), &answer);
        }
        let again = || place.job(&jobs[2])["attempt"] == 3 && place.state(&jobs[2]) == "success";
        until("it has run again", || again().then_some(()));
        place.told(&["schedule", "pause", "nightly"]);
        place.told(&["schedule", "resume", "nightly"]);
        place.told(&["retry", &jobs[0]]);
        until("it has failed again", || (place.job(&jobs[0])["attempt"] == 2).then_some(()));
        place.wait_for_state(&jobs[0], "failed");
        place.told(&["schedule", "remove", "nightly"]);
        place.told(&["schedule", "add", "nightly", "charge", &args(), "--cron", "0 0 1 1 *"]);

        commands(&mut search, place, &jobs, "with the node");
        let metrics = ask(server, "GET", "/metrics", "");
        assert!(metrics.starts_with("HTTP/1.1 200") && !metrics.contains(PLAIN), "{metrics}");
        let (trace, log) = (fs::read_to_string(node.trace_file()).unwrap(), node.errors());
        node.stop();
        let events = events.join().unwrap();
        assert!(events.contains("event: ended"), "{events}");
        search.look("the events", &events);
        // The database knows it, not the node or its settings file.
        fs::remove_file(place.path().join("turnwise.toml")).unwrap();
        commands(&mut search, place, &jobs, "without the node");
        search.look("the node's record", &trace);
        search.look("the node's log", &log);
        assert!(log.contains("a job failed for good"), "the node logs failures: {log}");
        for (what, text) in [("record", &trace), ("log", &log), ("stream of events", &events)] {
            assert!(!text.contains(PLAIN), "an argument is in the {what}: {text}");
        }
        if format == "json" {
            let bad = log.lines().find(|line| serde_json::from_str::<serde_json::Value>(line).is_err());
            assert_eq!(bad, None, "an object a line");
        }
        #[cfg(feature = "otlp")]
        {
            let spans = collector.spans();
            assert!(
                spans.iter().any(|span| span.name == "submit") && spans.iter().any(|span| span.failed),
                "{spans:?}"
            );
            search.look("the spans that the collector got", &collector.text());
        }
        assert!(search.looked > 100, "{}", search.looked);
        assert_eq!(search.found, Vec::<String>::new());
    }
}

#[test]
fn a_password_of_the_database_is_shown_nowhere() {
    let place = Place::new();
    let database = format!("postgres://ann:{CANARY}@127.0.0.1:1/jobs");
    let mut search = Search::default();
    for call in [&["jobs"][..], &["serve"], &["migrate"], &["enqueue", "mail"], &["nodes", "--log", "trace"]] {
        for database in [database.clone(), format!("postgres://127.0.0.1:1/jobs?user=ann&password={CANARY}")] {
            let output = place.run(&[call, &["--database", &database]].concat());
            assert!(!output.status.success(), "{call:?}: {output:?}");
            let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
            search.look(&format!("{call:?}"), &said);
        }
    }
    for bad in [format!("postgres://ann:{CANARY}@[::1/jobs"), format!("pstgres://ann:{CANARY}@db/jobs")] {
        let output = place.run(&["jobs", "--database", &bad]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        search.look(&bad.replace(CANARY, "…"), &String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(search.found, Vec::<String>::new());
}
