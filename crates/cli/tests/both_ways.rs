//! Every command on a database and against a server of the same database: the same output, the same mistakes, the same exit codes.

mod support;

use std::process::Output;

use serde_json::json;
use support::{Place, Ways, on_both_databases, said, until};

/// Jobs in every state, settings, schedules and tokens.
fn filled(ways: &Ways<'_>) -> Vec<String> {
    let place = ways.place;
    let jobs = [
        json!({"task": "noop", "queue": "work", "args": {"n": 1.50, "text": "é \"quoted\" \\ {[,"}, "group": "acme"}),
        json!({"task": "flaky", "queue": "work", "args": {"fail": 9}, "retry": "none", "group": "acme"}),
        json!({"task": "flaky", "queue": "work", "args": {"fail": 9}, "retry": "manual", "key": "db", "unique": "account-7"}),
        json!({"task": "sleep", "queue": "later", "args": {"ms": 1}, "in": "1h", "group": "big/one", "priority": "high", "unique": "nightly", "timeout": "5m"}),
        json!({"task": "nobody-knows", "queue": "later", "as": "first", "group": "acme", "expires": "1d"}),
        json!({"task": "join", "queue": "later", "after": ["first"], "on_failure": "run", "key": "db"}),
        json!({"task": "noop", "queue": "later", "in": "2h"}),
        json!({"task": "talk", "queue": "work"}),
    ];
    let ids = place.enqueue_all(jobs);
    place.told(&["cancel", &ids[6]]);
    for (id, state) in [(&ids[0], "success"), (&ids[1], "failed"), (&ids[2], "stuck"), (&ids[7], "success")] {
        place.wait_for_state(id, state);
    }
    place.told(&["queue", "set", "later", "--weight", "2.5", "--concurrency", "3", "--after", "work"]);
    // Rates of what has no jobs: whether one holds a job up changes with time.
    place.told(&["queue", "set", "fast", "--rate", "10/1m"]);
    place.told(&[
        "queue",
        "set",
        "nights",
        "--schedule",
        "0 2 * * *",
        "--zone",
        "Europe/Berlin",
        "--block",
        "Mon-Fri 08:00-18:00 Europe/Berlin",
    ]);
    place.told(&["queue", "pause", "nights", "--reason", "lunch"]);
    place.told(&["group", "set", "acme", "--weight", "0.5", "--max-waiting", "1000"]);
    place.told(&["task", "set", "sleep", "--concurrency", "4"]);
    place.told(&["key", "set", "db", "--concurrency", "5"]);
    place.told(&["key", "set", "spare", "--rate", "5/1s"]);
    let add = ["schedule", "add", "nightly", "report", r#"{"days":1}"#, "--cron", "0 2 * * *"];
    place.told(&[&add[..], &["--zone", "Europe/Berlin", "--queue", "nights"]].concat());
    place.told(&["schedule", "add", "hourly", "noop", "--every", "1h", "--queue", "nights"]);
    place.told(&["schedule", "pause", "hourly", "--reason", "too often"]);
    place.told(&["schedule", "run", "nightly"]);
    ids
}

fn what_is_looked_at_is_the_same(place: &Place) {
    let ways = Ways::open(place);
    let ids = filled(&ways);
    for id in &ids {
        for how in [&["job"][..], &["logs"], &["why"]] {
            ways.same(&[how, &[id.as_str()]].concat());
        }
        ways.same(&["job", id, "--json"]);
        ways.same(&["why", id, "--json"]);
        ways.same(&["job", id, "--graph"]);
        ways.same(&["job", id, "--graph", "--json"]);
        ways.same(&["job", &id[..30]]);
    }
    let log = ways.same(&["logs", &ids[7], "--json"]);
    assert!(log.contains("\"level\""), "{log}");
    assert!(ways.same(&["logs", &ids[7], "--lines", "1"]).ends_with("two"));
    ways.same(&["logs", &ids[7], "--follow"]);
    for watched in [0, 1, 6] {
        ways.same(&["job", &ids[watched], "--watch"]);
    }
    for flags in [
        &[][..],
        &["--state", "failed"],
        &["--state", "failed", "--by", "error"],
        &["--by", "error"],
        &["--state", "waiting", "--state", "stuck"],
        &["--group", "big/one"],
        &["--queue", "later", "--limit", "2"],
        &["--task", "join"],
        &["--unique", "nightly"],
        &["--args-contain", "1.50"],
        &["--args-contain", "\"fail\""],
        &["--since", "1h"],
        &["--until", "2030-01-31T08:30:00Z"],
        &["--until", "1h"],
        &["--queue", "none-such"],
        &["state:failed", "task!=noop"],
        &["error~fail args~\"fail\""],
        &["args.fail=1,2 since:1h"],
        &["state:waiting -args~fail", "--queue", "later", "--limit", "2"],
        &["group:\"big/one\" state:waiting,stuck"],
        &["state:failed", "--by", "error"],
        &["args.none=1"],
    ] {
        ways.same(&[&["jobs"], flags].concat());
        ways.same(&[&["jobs", "--json"], flags].concat());
    }
    for what in ["nodes", "queues", "groups", "tasks", "keys", "audit"] {
        let table = ways.same(&[what]);
        assert!(table.lines().count() > 1, "{table}");
        ways.same(&[what, "--json"]);
    }
    ways.same(&["audit", "--limit", "2", "--since", "1h"]);
    ways.same(&["audit", "--target", "queue:later"]);
    for words in [
        &["schedule", "list"][..],
        &["schedule", "show", "nightly"],
        &["schedule", "show", "hourly"],
        &["installation", "show"],
    ] {
        ways.same(words);
        ways.same(&[words, &["--json"]].concat());
    }
    let what_if =
        ["simulate", "--slots", "8", "--weight", "acme=2", "--concurrency", "later=serial", "--pause", "acme"];
    let what_if = [&what_if[..], &["--group-concurrency", "acme=1"]].concat();
    ways.same(&what_if);
    ways.same(&[&what_if[..], &["--json"]].concat());
    ways.same(&["simulate"]);
    // It tells of the last ten seconds: what has ended in them changes from one look to the next.
    let quiet = |output: Output| String::from_utf8_lossy(&output.stdout).contains(" 0.0 jobs/s");
    let top = ["top", "--once"];
    until("nothing has ended of late", || {
        (quiet(ways.here(&top, None)) && quiet(ways.there(&top, None))).then_some(())
    });
    ways.examined();
    ways.same(&["top", "--once"]);
    ways.same(&["top", "--once", "--json"]);
}

fn what_is_done_is_the_same(place: &Place) {
    let ways = Ways::open(place);
    let _ = filled(&ways);
    // Submitting.
    ways.alike(&[
        "enqueue",
        "noop",
        r#"{"a":1}"#,
        "--queue",
        "later",
        "--group",
        "{}",
        "--in",
        "1h",
        "--unique",
        "u-{}",
    ]);
    let kept = ways.alike(&["enqueue", "noop", "--queue", "later", "--unique", "u-{}"]);
    assert!(kept.contains("holds the unique key; nothing was added"), "{kept}");
    let reject = ["enqueue", "noop", "--queue", "later", "--unique", "u-{}", "--on-duplicate", "reject"];
    let rejected = ways.alike(&reject);
    assert!(rejected.contains("error: "), "{rejected}");
    assert_eq!(
        ways.there(&reject.map(|word| if word == "u-{}" { "u-omega" } else { word }), None).status.code(),
        Some(3)
    );
    let unknown = ways.alike(&["enqueue", "nooop", "--queue", "later"]);
    assert!(unknown.contains("did you mean \"noop\"?"), "{unknown}");
    assert_eq!(ways.alike(&["enqueue", "noop", "--queue", "work", "--wait"]), "null\njob ID");
    ways.alike(&["enqueue", "flaky", r#"{"fail":9}"#, "--retry", "none", "--queue", "work", "--wait"]);
    let lines = "{\"task\":\"noop\",\"queue\":\"later\",\"as\":\"a\"}\n\n{\"task\":\"noop\",\"queue\":\"later\",\"after\":[\"a\"]}\n";
    assert_eq!(ways.alike_with(&["enqueue", "--stdin"], Some(lines)).lines().count(), 2);
    ways.alike_with(&["enqueue", "noop", "-", "--queue", "later"], Some("[1, 2]"));
    // Deciding, about jobs of each way's own.
    let new = |group: &str, more: &[&str]| {
        ["alpha", "omega"].map(|own| {
            place.enqueue(
                &[&["noop", "--queue", "later", "--in", "1h", "--group", &format!("{group}-{own}")], more].concat(),
            )
        })
    };
    let [one, other] = new("single", &[]);
    let pair = |words: &[&str]| {
        let here: Vec<&str> = words.iter().map(|word| if *word == "ID" { one.as_str() } else { word }).collect();
        let there: Vec<&str> = words.iter().map(|word| if *word == "ID" { other.as_str() } else { word }).collect();
        ways.same_pair(&here, &there, None)
    };
    assert_eq!(pair(&["change", "ID", "--priority", "high", "--queue", "slow", "--in", "2h"]), "ID changed");
    pair(&["change", "ID", "--at", "2030-01-31T08:30:00Z"]);
    pair(&["fail", "ID"]);
    pair(&["retry", "ID"]);
    assert_eq!(pair(&["cancel", "ID"]), "ID cancelled");
    let again = pair(&["cancel", "ID"]);
    assert!(again.contains("error: ID: "), "{again}");
    assert_eq!(pair(&["retry", "ID"]), "ID waiting");
    pair(&["change", "ID", "--now"]);
    pair(&["cancel", "ID", "01890163-d869-7739-8aea-5966c26f8ad9"]);
    // By a filter.
    for _ in 0..7 {
        new("many", &[]);
    }
    let shown = ways.alike(&["cancel", "--filter", "group=many-{}", "--dry-run"]);
    assert!(shown.contains("… and 2 more") && shown.contains("7 jobs would be cancelled"), "{shown}");
    ways.alike(&["change", "--filter", "group=many-{}", "--priority", "1", "--yes"]);
    ways.alike(&["cancel", "--filter", "group=many-{}", "--limit", "3", "--yes"]);
    ways.alike(&["cancel", "--filter", "group=many-{}", "--yes"]);
    ways.alike(&["retry", "--filter", "state=cancelled", "group=many-{}", "--yes"]);
    ways.alike(&["retry", "--filter", "group=none-{}", "--yes"]);
    new("paged", &[]);
    let shown = ways.alike(&["cancel", "--filter", "group:paged-{} args~* -args.none=1", "since:1h", "--dry-run"]);
    assert!(shown.contains("1 job would be cancelled"), "{shown}");
    ways.alike(&["change", "--filter", "group:paged-{} priority>1 -args.none~*", "--priority", "1", "--yes"]);
    ways.alike(&["cancel", "--filter=-args.none~* group:paged-{}", "--yes"]);
    ways.alike(&["retry", "--filter", "group:paged-{} state:cancelled args~*", "--yes"]);
    ways.alike(&["cancel", "--filter", "group=many-{}"]);
    // Settings.
    let set = ways.alike(&[
        "queue",
        "set",
        "q-{}",
        "--weight",
        "2",
        "--rate",
        "10/1m",
        "--schedule",
        "0 3 * * *",
        "--zone",
        "Asia/Tokyo",
    ]);
    assert!(set.contains("new queue: no job and no setting has the name"), "{set}");
    ways.alike(&[
        "queue",
        "set",
        "q-{}",
        "--schedule",
        "none",
        "--rate",
        "none",
        "--after",
        "later",
        "--block",
        "Sat 00:00-24:00 UTC",
    ]);
    ways.alike(&["queue", "pause", "q-{}", "--reason", "because"]);
    ways.alike(&["queue", "resume", "q-{}"]);
    ways.alike(&["queue", "seal", "q-{}"]);
    ways.alike(&["queue", "seal", "q-{}", "--undo"]);
    ways.alike(&["queue", "reset", "q-{}"]);
    place.enqueue(&["noop", "--queue", "e-alpha"]);
    place.enqueue(&["noop", "--queue", "e-omega"]);
    ways.alike(&["queue", "empty", "e-{}", "--yes"]);
    ways.alike(&["group", "set", "g-{}", "--weight", "3", "--concurrency", "7", "--max-waiting", "9"]);
    ways.alike(&["group", "pause", "g-{}"]);
    ways.alike(&["group", "resume", "g-{}"]);
    ways.alike(&["group", "reset", "g-{}"]);
    ways.alike(&["task", "set", "t-{}", "--concurrency", "7", "--rate", "1/1s"]);
    ways.alike(&["task", "reset", "t-{}"]);
    ways.alike(&["key", "set", "k-{}", "--concurrency", "7"]);
    ways.alike(&["key", "reset", "k-{}"]);
    ways.alike(&["installation", "set", "--retention", "failed=30d", "--log-lines", "500"]);
    ways.alike(&["installation", "set", "--retention", "none", "--scheme", "3,1"]);
    // Schedules.
    ways.alike(&[
        "schedule",
        "add",
        "s-{}",
        "noop",
        "[1]",
        "--cron",
        "0 2 * * *",
        "--zone",
        "Europe/Berlin",
        "--queue",
        "later",
    ]);
    ways.alike(&["schedule", "pause", "s-{}", "--reason", "holidays"]);
    ways.alike(&["schedule", "show", "s-{}"]);
    ways.alike(&["schedule", "resume", "s-{}"]);
    ways.alike(&["schedule", "run", "s-{}"]);
    ways.alike(&["schedule", "remove", "s-{}"]);
    ways.alike(&["prune"]);
    // What was done over HTTP is in the same log.
    ways.same(&["audit", "--json"]);
}

fn mistakes_are_the_same(place: &Place) {
    let ways = Ways::open(place);
    let ids = filled(&ways);
    let none = "01890163-d869-7739-8aea-5966c26f8ad9";
    for (args, code) in [
        (&["job", none][..], 1),
        (&["job", "nonsense"], 2),
        (&["job", "019"], 2),
        (&["job", "fffff"], 1),
        (&["job", &ids[0][..4]], 2),
        (&["job", none, "--graph"], 1),
        (&["job", none, "--watch"], 1),
        (&["why", none], 1),
        (&["logs", none], 1),
        (&["logs", &ids[0], "--lines", "0"], 2),
        (&["jobs", "--state", "nonsense"], 2),
        (&["jobs", "--limit", "0"], 2),
        (&["jobs", "--since", "nonsense"], 2),
        (&["jobs", "--queue", "a\nb"], 2),
        (&["jobs", "--unique", ""], 2),
        (&["jobs", "--args-contain", ""], 2),
        (&["cancel", "--filter", "group=", "--yes"], 2),
        (&["cancel", none], 1),
        (&["cancel", "nonsense"], 2),
        (&["fail", &ids[0]], 1),
        (&["retry", &ids[0]], 1),
        (&["change", &ids[0], "--priority", "1"], 1),
        (&["change", &ids[3], "--priority", "11"], 2),
        (&["change", &ids[3]], 2),
        (&["cancel", "--filter", "nonsense=1", "--yes"], 2),
        (&["cancel", "--filter", "args.x~", "--yes"], 2),
        (&["jobs", "nonsense"], 2),
        (&["jobs", "stat:failed"], 2),
        (&["cancel", "--filter", "state=failed", "--yes"], 2),
        (&["queue", "pause", "latr"], 2),
        (&["queue", "pause", ""], 2),
        (&["queue", "set", "later", "--weight", "0"], 2),
        (&["queue", "set", "later"], 2),
        (&["queue", "set", "later", "--after", "later"], 2),
        (&["group", "set", "acme", "--rate", "often"], 2),
        (&["group", "reset", "none-such"], 2),
        (&["task", "reset", "none-such"], 2),
        (&["key", "reset", "none-such"], 2),
        (&["schedule", "show", "none-such"], 2),
        (&["schedule", "pause", "none-such"], 2),
        (&["schedule", "remove", "none-such"], 2),
        (&["schedule", "run", "none-such"], 2),
        (&["schedule", "add", "x", "t", "--cron", "nonsense"], 2),
        (&["schedule", "add", "", "t", "--every", "1h"], 2),
        (&["simulate", "--slots", "0"], 2),
        (&["simulate", "--weight", "acme"], 2),
        (&["installation", "set", "--retention", "soon"], 2),
        (&["audit", "--target", "nonsense"], 2),
        (&["token", "create", "--name", "x", "--scope", "root"], 2),
        (&["token", "revoke", "tw_nothing"], 2),
        (&["enqueue", "noop", "{"], 2),
        (&["enqueue", "noop", "--priority", "11"], 2),
        (&["enqueue", "noop", "--after", none], 1),
        (&["enqueue", "noop", "--after", "nonsense"], 2),
    ] {
        let text = ways.same(args);
        assert!(text.starts_with("error: "), "{args:?}: {text}");
        assert_eq!(ways.there(args, None).status.code(), Some(code), "{args:?}: {text}");
    }
}

/// From the first token on a server wants one; the database itself does not.
fn tokens_are_made_and_shown_to_a_server(place: &Place) {
    let ways = Ways::open(place);
    let created = ways.there(&["token", "create", "--name", "first", "--scope", "admin"], None);
    let secret = String::from_utf8(created.stdout).unwrap().trim().to_owned();
    assert!(secret.starts_with("tw_") && secret.len() == 46, "{secret}");
    // The server learns within seconds that there is a token now.
    support::until("a server that wants a token", || {
        let refused = ways.there(&["jobs"], None);
        (refused.status.code() == Some(1) && said(&refused).contains("--token or TURNWISE_TOKEN")).then_some(())
    });
    let file = place.path().join("token.txt");
    std::fs::write(&file, format!("{secret}\n")).unwrap();
    let from_file = format!("@{}", file.display());
    for token in [&secret, &from_file] {
        let listed = ways.there(&["--token", token, "token", "list", "--json"], None);
        let listed = support::succeeded(&listed);
        assert!(listed.contains("\"first\"") && !listed.contains(&secret), "{listed}");
    }
    let by_variable = |args: &[&str]| {
        let mut command = place.command(args);
        command.env_remove("TURNWISE_DATABASE").env("TURNWISE_SERVER", &ways.server).env("TURNWISE_TOKEN", &secret);
        command.output().unwrap()
    };
    let second = by_variable(&["token", "create", "--name", "second", "--scope", "read", "--group", "acme", "--json"]);
    let second: serde_json::Value = serde_json::from_slice(&second.stdout).unwrap();
    let audit = place.json(&["audit", "--target", &format!("token:{}", second["id"].as_str().unwrap()), "--json"]);
    assert_eq!(audit[0]["verb"], "create", "{audit}");
    assert!(audit[0]["actor"].as_str().unwrap().starts_with("token:"), "made by the first: {audit}");
    // A token gives away only what it has.
    let more = by_variable(&["token", "create", "--name", "worker", "--scope", "work"]);
    assert_eq!(more.status.code(), Some(1), "{more:?}");
    assert!(said(&more).contains("a token cannot give away what it has not: the scope work"), "{more:?}");
    // Nobody learns of another's jobs, and an unlimited answer is refused in words.
    let limited = second["secret"].as_str().unwrap();
    let nodes = ways.there(&["--token", limited, "nodes"], None);
    assert_eq!(nodes.status.code(), Some(1), "{nodes:?}");
    let revoked = by_variable(&["token", "revoke", limited]);
    assert!(support::succeeded(&revoked).ends_with("(second) is revoked\n"));
    let all = place.told(&["token", "list"]);
    assert!(all.contains("second") && all.contains("revoked"), "{all}");
    // What is no token is not sent, and not repeated.
    let wrong = ways.there(&["--token", "hunter2", "jobs"], None);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(said(&wrong).contains("token: is not a token") && !said(&wrong).contains("hunter2"), "{wrong:?}");
}

/// A server looks at so many jobs a call; a decision goes on from there until there are no more.
fn a_decision_is_about_all_jobs_however_far_the_server_has_to_look(place: &Place) {
    let ways = Ways::open(place);
    let job = |group: &str| json!({"task": "noop", "queue": "later", "group": group}).to_string();
    let newer = vec![job("many"); 10_100];
    let lines = [vec![job("rare")], newer].concat().join("\n");
    let submitted = ways.here(&["enqueue", "--stdin"], Some(&lines));
    assert!(submitted.status.success(), "{}", said(&submitted));
    let shown = ways.same(&["cancel", "--filter", "group=rare", "--dry-run"]);
    assert!(shown.contains("1 job would be cancelled"), "{shown}");
    let done = ways.there(&["cancel", "--filter", "group=rare", "--yes"], None);
    let told = String::from_utf8_lossy(&done.stdout);
    assert_eq!(told.lines().last(), Some("1 job cancelled"), "{told} {}", said(&done));
}

on_both_databases!(
    a_decision_is_about_all_jobs_however_far_the_server_has_to_look,
    what_is_looked_at_is_the_same,
    what_is_done_is_the_same,
    mistakes_are_the_same,
    tokens_are_made_and_shown_to_a_server,
);

#[test]
fn a_server_that_is_not_there_or_not_one_is_said_in_a_line() {
    let place = Place::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = format!("http://{port}");
    let line = place.refused(&["--server", &gone, "jobs"], 1);
    assert!(line.contains(&format!("the server {gone} cannot be reached")), "{line}");
    for (server, part) in [
        ("http://jobs.example.com", "--server-plain-http"),
        ("https://tw_secret@jobs.example.com", "--token"),
        ("https://jobs.example.com/?token=tw_secret", "--token"),
        ("jobs", "https://jobs.example.com"),
    ] {
        let line = place.refused(&["--server", server, "jobs"], 2);
        assert!(line.contains(part) && !line.contains("tw_secret"), "{line}");
    }
    // A server of something else.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other = format!("http://{}", listener.local_addr().unwrap());
    let answers = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nhi").unwrap();
    });
    let line = place.refused(&["--server", &other, "jobs"], 1);
    answers.join().unwrap();
    assert!(line.contains("not as a turnwise server does"), "{line}");
}

#[test]
fn commands_that_work_on_the_database_itself_say_why_they_ask_no_server() {
    let place = Place::new();
    let server = ["--server", "http://127.0.0.1:1"];
    for (args, part) in [
        (&["migrate"][..], "the schema is changed in the database itself"),
        (&["move", "sqlite:a.db", "sqlite:b.db"], "both databases are opened themselves"),
        (&["bench"], "the database itself is measured"),
        (&["serve"], "a node works on the database itself"),
        (&["demo"], "the demo has a database of its own"),
    ] {
        let line = place.refused(&[&server, args].concat(), 2);
        assert!(line.contains(part), "{line}");
    }
    for (args, part) in [
        (&["queues", "--exact"][..], "exact: a server counts at most"),
        (&["prune", "--dry-run"], "dry_run: a server deletes only"),
        (&["prune", "--retention", "1d"], "retention: a server deletes only"),
    ] {
        let line = place.refused(&[&server, args].concat(), 2);
        assert!(line.contains(part), "{line}");
    }
    let both = place.refused(&[&server, &["--database", "sqlite:x.db", "jobs"][..]].concat(), 2);
    assert!(both.contains("server: is named together with a database"), "{both}");
    // The stronger source counts: the variable's server is not asked.
    let mut command = place.command(&["--database", "sqlite:x.db", "jobs"]);
    let output = command.env("TURNWISE_SERVER", "http://127.0.0.1:1").output().unwrap();
    assert!(said(&output).contains("x.db"), "{output:?}");
}

/// A certificate for this name, and its key, in PEM files; the certificate is its own root.
fn certificate(place: &Place, name: &str) -> [String; 2] {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    [("cert", made.cert.pem()), ("key", made.signing_key.serialize_pem())].map(|(kind, pem)| {
        let path = place.path().join(format!("{name}.{kind}.pem"));
        std::fs::write(&path, pem).unwrap();
        path.display().to_string()
    })
}

#[test]
fn a_server_is_asked_by_tls_and_only_one_whose_root_is_trusted() {
    let place = Place::on_sqlite();
    let [cert, key] = certificate(&place, "localhost");
    let [other, _] = certificate(&place, "elsewhere");
    let node = place.serve(&["--listen", "127.0.0.1:0", "--tls-cert", &cert, "--tls-key", &key]);
    let port = node.ready.trim().rsplit_once(':').unwrap().1;
    let server = format!("https://localhost:{port}");
    let id = place.enqueue(&["noop", "--in", "1h"]);
    assert!(place.told(&["--server", &server, "--server-ca", &cert, "jobs"]).contains(&id));
    for roots in [&["--server-ca", &other][..], &[]] {
        let line = place.refused(&[&["--server", &server], roots, &["jobs"]].concat(), 1);
        assert!(line.contains(&format!("the server {server} cannot be reached: ")), "{line}");
        assert!(line.contains("certificate"), "{line}");
    }
    // Another name than the certificate's.
    let by_number = format!("https://127.0.0.1:{port}");
    place.refuses(&["--server", &by_number, "--server-ca", &cert, "jobs"], 1, "certificate");
    place.refuses(&["--server", &server, "--server-ca", "none.pem", "jobs"], 2, "server_ca: none.pem: ");
    place.refuses(&["--server", &server, "--server-ca", &key, "jobs"], 2, "has no certificate");
}

#[test]
fn config_says_what_holds_and_where_it_comes_from() {
    let file = "database = \"postgres://ann:s3cret@db/jobs\"\n\n[executor]\nlease = \"10s\"\n[tasks.mail]\ncommand = [\"true\"]\n";
    let place = Place::new().with(file);
    let mut command = place.command(&["config", "--token", "tw_hidden", "--json"]);
    let output = command.env("TURNWISE_SLOTS", "3").env("TURNWISE_SERVER", "http://127.0.0.1:1").output().unwrap();
    let text = support::succeeded(&output);
    assert!(!text.contains("s3cret") && !text.contains("tw_hidden"), "{text}");
    let all: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let of = |name: &str| {
        let found = all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name} in {text}"));
        (
            found["value"].as_str().unwrap_or("null"),
            found["from"].as_str().unwrap(),
            found["place"].as_str().unwrap_or(""),
        )
    };
    assert_eq!(of("database"), ("postgres://ann@db/jobs", "file", "turnwise.toml:1"));
    assert_eq!(of("lease"), ("10s", "file", "turnwise.toml:4"));
    assert_eq!(of("core_pool_size"), ("3", "variable", "TURNWISE_SLOTS"));
    assert_eq!(of("server"), ("http://127.0.0.1:1", "variable", "TURNWISE_SERVER"));
    assert_eq!(of("token"), ("(hidden)", "flag", "--token"));
    assert_eq!(of("await_termination"), ("30s", "default", ""));
    assert_eq!(of("tasks.mail.command"), ("[\"true\"]", "file", "turnwise.toml:6"));
    let table = place.told(&["config"]);
    assert!(table.contains("file turnwise.toml:4") && table.starts_with("SETTING"), "{table}");
}
