//! Events: listeners hear what they asked for and may see, miss nothing when they come back, and cost nothing when they are gone.

mod support;

use std::{collections::BTreeSet, sync::LazyLock, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, Request, header},
};
use serde_json::{Value, json};
use support::{PATIENCE, Server, misfit, request};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};
use turnwise::{
    Config, Ctx, Executor, GroupName, JobRequest, NodeName, QueueName, Registry, TaskName, Turnwise,
    access::{CreatedToken, Grant, Limits, NewAccess, Scope},
    rusqlite, task,
};
use turnwise_server::{
    Service,
    limits::{BATCHES_BEHIND, LIVE_LOGS, LOOK_AGAIN, STREAMS_OF_ONE},
};

const EVENTS: &str = "/api/v1/events";

/// Runs until a test lets it go on.
static GO_ON: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(0));

#[task("patient", register = false)]
async fn patient(_anything: Value, ctx: Ctx) {
    ctx.log("one");
    ctx.progress(1, 2, "half");
    GO_ON.acquire().await.unwrap().forget();
    ctx.log("two");
}

async fn patient_node(turnwise: &Turnwise) -> Executor {
    let mut registry = Registry::new();
    registry.register(patient).unwrap();
    let config = Config { core_pool_size: 2, ..Config::new(NodeName::new("patient").unwrap()) };
    let executor = turnwise.executor_with(config).registry(registry).build().unwrap();
    executor.start().await.unwrap();
    executor
}

fn after(path: &str, id: &str) -> Request<Body> {
    let mut request = request("GET", path, None);
    request.headers_mut().insert("last-event-id", HeaderValue::try_from(id).unwrap());
    request
}

fn with_token(path: &str, token: &CreatedToken) -> Request<Body> {
    let mut request = request("GET", path, None);
    let bearer = HeaderValue::try_from(format!("Bearer {}", token.secret.reveal())).unwrap();
    request.headers_mut().insert(header::AUTHORIZATION, bearer);
    request
}

async fn token(turnwise: &Turnwise, name: &str, limits: Limits) -> CreatedToken {
    let grant = Grant::new([Scope::Read], limits).unwrap();
    turnwise.create_token(NewAccess::new(name, grant).unwrap()).await.unwrap()
}

/// Waits until it is so.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waited = async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waited).await.unwrap_or_else(|_| panic!("it never came to it that {what}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_heard_of_when_it_comes_and_when_it_ends_on_every_store() {
    for server in Server::on_all().await {
        let mut events = server.listen(&format!("{EVENTS}?type=submitted,ended&queue=sums")).await;
        server.submit(json!({"task": "double", "args": 1, "in": "1h"})).await;
        let id = server.submit(json!({"task": "double", "args": 21, "queue": "sums", "group": "acme"})).await;
        let node = server.node().await;
        let submitted = events.heard("submitted").await;
        let ended = events.heard("ended").await;
        for (event, state) in [(&submitted, None), (&ended, Some("success"))] {
            assert_eq!(misfit("Event", event), None, "{}: {event}", server.store);
            let job = &event["job"];
            assert_eq!((&job["id"], &job["group"], &job["task"]), (&json!(id), &json!("acme"), &json!("double")));
            assert!(state.is_none_or(|state| job["state"] == state), "{event}");
        }
        assert_eq!((&ended["job"]["node"], &ended["job"]["attempt"]), (&json!("node"), &json!(1)));
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_comes_back_has_missed_nothing_whichever_server_it_asks() {
    for mut server in Server::on_all().await {
        let path = format!("{EVENTS}?type=submitted,ended");
        let mut events = server.listen(&path).await;
        let node = server.node().await;
        let mut submitted = BTreeSet::new();
        let (mut came, mut ended) = (BTreeSet::new(), BTreeSet::new());
        let hear = |heard: support::Heard, came: &mut BTreeSet<String>, ended: &mut BTreeSet<String>| {
            let id = heard.data["job"]["id"].as_str().unwrap_or_else(|| panic!("{heard:?}")).to_owned();
            match heard.event.as_str() {
                "submitted" => came.insert(id),
                "ended" => ended.insert(id),
                other => panic!("{other} was not asked for: {heard:?}"),
            };
        };
        for n in 0..200 {
            submitted.insert(server.submit(json!({"task": "double", "args": n})).await);
            if n == 100 {
                // In the middle of it, maybe within a batch.
                while ended.len() < 20 {
                    hear(events.next().await.unwrap(), &mut came, &mut ended);
                }
            }
        }
        let last = events.id.clone().expect("every event has an id");
        drop(events);
        let first = server.service.clone();
        until("nobody reads", || !first.reads_events()).await;
        server.serve(Service::new(server.turnwise.clone()));
        let mut events = server.stream(after(&path, &last)).await;
        while ended.len() < 200 || came.len() < 200 {
            hear(events.next().await.unwrap(), &mut came, &mut ended);
        }
        assert_eq!((&came, &ended), (&submitted, &submitted), "{}", server.store);
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_from_elsewhere_is_answered_with_a_reset_from_which_it_goes_on() {
    for server in Server::on_all().await {
        let other = Server::on_sqlite().await.listen(EVENTS).await.heard_id().await;
        for id in [other.as_str(), "nonsense", "1/2/3", "-1/0/1:1:"] {
            let mut events = server.stream(after(&format!("{EVENTS}?type=submitted"), id)).await;
            let reset = events.next().await.unwrap();
            assert_eq!((reset.event.as_str(), misfit("Event", &reset.data)), ("reset", None), "{}: {id}", server.store);
            let job = server.submit(json!({"task": "double", "args": 1})).await;
            assert_eq!(events.heard("submitted").await["job"]["id"], job);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_token_hears_only_of_its_own_jobs() {
    for server in Server::on_all().await {
        let limits = Limits { groups: Some([GroupName::new("acme").unwrap()].into()), ..Limits::default() };
        let (acme, all) =
            (token(&server.turnwise, "acme", limits).await, token(&server.turnwise, "all", Limits::default()).await);
        let mut own = server.stream(with_token(EVENTS, &acme)).await;
        let mut every = server.stream(with_token(&format!("{EVENTS}?type=submitted"), &all)).await;
        let refused = server.send(with_token(&format!("{EVENTS}?type=node"), &acme)).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
        let node = server.node().await;
        for n in 0..20 {
            let group = if n % 2 == 0 { "other" } else { "acme" };
            server.turnwise.submit(JobRequest::new("double", &n).group(group)).await.unwrap();
        }
        server.turnwise.pause_queue("default", None).await.unwrap();
        let last = server.turnwise.submit(JobRequest::new("double", &1).group("acme")).await.unwrap().to_string();
        loop {
            let heard = own.next().await.unwrap();
            assert_eq!(heard.data["job"]["group"], "acme", "{}: {heard:?}", server.store);
            if heard.data["job"]["id"] == last {
                break;
            }
        }
        let mut groups = BTreeSet::new();
        while groups.len() < 2 {
            groups.insert(every.heard("submitted").await["job"]["group"].as_str().unwrap().to_owned());
        }
        node.stop().await;
    }
}

/// A queue's settings and the reason of its pause are of the queue's jobs, which a group or a task does not have for itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_token_hears_only_of_queues_that_its_limits_name() {
    for server in Server::on_all().await {
        let group = Limits { groups: Some([GroupName::new("acme").unwrap()].into()), ..Limits::default() };
        let task = Limits { tasks: Some([TaskName::new("double").unwrap()].into()), ..Limits::default() };
        let queue = Limits { queues: Some([QueueName::new("own").unwrap()].into()), ..Limits::default() };
        let both = Limits { groups: group.groups.clone(), ..queue.clone() };
        let all = token(&server.turnwise, "all", Limits::default()).await;
        let mut every = server.stream(with_token(&format!("{EVENTS}?type=queue"), &all)).await;
        let mut limited = Vec::new();
        for (limits, named) in [(group, false), (task, false), (queue, true), (both, true)] {
            let token = token(&server.turnwise, "limited", limits).await;
            let stream = server.stream(with_token(&format!("{EVENTS}?type=queue,submitted"), &token)).await;
            limited.push((stream, token, named));
        }
        server.turnwise.pause_queue("rival", Some("a canary".to_owned())).await.unwrap();
        server.turnwise.pause_queue("own", None).await.unwrap();
        let mut heard = BTreeSet::new();
        while heard.len() < 2 {
            heard.insert(every.heard("queue").await["queue"]["name"].as_str().unwrap().to_owned());
        }
        // All that was told of queues came before this.
        let job = JobRequest::new("double", &1).queue("own").group("acme");
        let job = server.turnwise.submit(job).await.unwrap().to_string();
        for (mut stream, token, named) in limited {
            let limits = format!("{}: {:?}", server.store, token.token.grant.limits());
            let mut queues = 0;
            loop {
                let heard = stream.next().await.unwrap();
                assert!(!heard.data.to_string().contains("rival"), "{limits}: {heard:?}");
                assert!(!heard.data.to_string().contains("canary"), "{limits}: {heard:?}");
                match heard.event.as_str() {
                    "queue" => queues += 1,
                    _ if heard.data["job"]["id"] == job => break,
                    _ => {}
                }
            }
            assert_eq!(queues, usize::from(named), "{limits}");
            if named {
                // One that comes back is told what there is, of its own alone.
                let mut back = with_token(&format!("{EVENTS}?type=queue"), &token);
                let id = stream.id.clone().expect("an event has an id");
                back.headers_mut().insert("last-event-id", HeaderValue::try_from(id).unwrap());
                assert_eq!(server.stream(back).await.heard("queue").await["queue"]["name"], "own", "{limits}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_and_how_far_it_has_come_is_heard_and_the_log_is_followed() {
    for server in Server::on_all().await {
        let mut events = server.listen(&format!("{EVENTS}?type=started&type=progress&type=ended")).await;
        let node = patient_node(&server.turnwise).await;
        let id = server.submit(json!({"task": "patient"})).await;
        let started = events.heard("started").await;
        assert_eq!((misfit("Event", &started), &started["job"]["id"]), (None, &json!(id)), "{}", server.store);
        assert_eq!((&started["job"]["node"], &started["job"]["state"]), (&json!("patient"), &json!("running")));
        let progress = events.heard("progress").await;
        assert_eq!(progress["progress"], json!({"done": 1, "total": 2, "text": "half"}), "{}", server.store);
        let mut log = server.listen(&format!("/api/v1/jobs/{id}/log/live")).await;
        let one = log.heard("line").await;
        assert_eq!((misfit("LogLine", &one), &one["text"]), (None, &json!("one")));
        let first = log.id.clone().unwrap();
        // Who comes back is told what runs.
        let last = events.id.clone().unwrap();
        let mut again = server.stream(after(&format!("{EVENTS}?type=started"), &last)).await;
        assert_eq!(again.heard("started").await["job"]["id"], id);
        GO_ON.add_permits(1);
        assert_eq!(log.heard("line").await["text"], "two");
        let ended = log.heard("ended").await;
        assert_eq!((misfit("Event", &ended), &ended["job"]["state"]), (None, &json!("success")), "{}", server.store);
        assert_eq!(log.next().await, None, "a log ends with its job");
        assert_eq!(events.heard("ended").await["job"]["id"], id);
        // The rest once more, by the place of a line.
        let mut rest = server.listen(&format!("/api/v1/jobs/{id}/log/live?after={first}")).await;
        assert_eq!(rest.next().await.map(|heard| heard.data["text"].clone()), Some(json!("two")));
        let mut nothing = server.stream(after(&format!("/api/v1/jobs/{id}/log/live"), &log.id.unwrap())).await;
        assert_eq!(nothing.next().await.map(|heard| heard.event), Some("ended".to_owned()));
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_dispatchers_and_queues_are_heard_of() {
    for server in Server::on_all().await {
        let mut events = server.listen(&format!("{EVENTS}?type=node,dispatcher,queue")).await;
        let node = server.node().await;
        let joined = events.heard("node").await;
        assert_eq!((misfit("Event", &joined), &joined["change"]), (None, &json!("joined")), "{}", server.store);
        assert_eq!(events.heard("dispatcher").await["node"], "node");
        server.post("/api/v1/queues/mail/pause", &json!({"reason": "lunch"})).await.expect(200);
        let paused = events.heard("queue").await;
        assert_eq!((misfit("Event", &paused), &paused["change"]), (None, &json!("paused")), "{}", server.store);
        assert_eq!(paused["queue"]["paused"]["reason"], "lunch");
        let last = events.id.clone().unwrap();
        server.post("/api/v1/queues/mail/resume", &json!({})).await.expect(200);
        assert_eq!(events.heard("queue").await["change"], "resumed");
        server.turnwise.set_queue("mail", |set| set.per_node = Some(2)).await.unwrap();
        assert_eq!(events.heard("queue").await["change"], "changed");
        // Who comes back is told how things are.
        let mut again = server.stream(after(&format!("{EVENTS}?type=node,queue"), &last)).await;
        let (node_now, queue_now) = (again.heard("node").await, again.heard("queue").await);
        assert_eq!((&node_now["change"], &queue_now["change"]), (&json!("present"), &json!("present")));
        assert_eq!(queue_now["queue"]["per_node"], 2);
        node.stop().await;
        assert_eq!(events.heard("node").await["change"], "left", "{}", server.store);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listening_writes_nothing_and_nothing_is_read_while_nobody_listens() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    let turnwise = Turnwise::open(&format!("sqlite:{}", file.display())).await.unwrap();
    let server = Server::of("sqlite", turnwise);
    assert!(!server.service.reads_events(), "nobody has listened yet");
    let database = rusqlite::Connection::open(&file).unwrap();
    // Another one after each commit of any other connection.
    let commits = || database.query_row("pragma data_version", (), |row| row.get::<_, i64>(0)).unwrap();
    let (before, mut events) = (commits(), server.listen(EVENTS).await);
    let mut second = server.listen(&format!("{EVENTS}?type=submitted")).await;
    assert!(server.service.reads_events());
    // A place is told every five seconds: the reader has looked many times by then.
    for stream in [&mut events, &mut second] {
        let begin = stream.heard_id().await;
        while stream.heard_id().await == begin {}
    }
    assert_eq!(commits(), before, "a look has written something");
    drop(events);
    assert!(server.service.reads_events(), "the other one listens");
    drop(second);
    until("nobody reads", || !server.service.reads_events()).await;
    let mut events = server.listen(&format!("{EVENTS}?type=submitted")).await;
    let job = server.submit(json!({"task": "double", "args": 1})).await;
    assert_eq!(events.heard("submitted").await["job"]["id"], job, "it begins again");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_within_five_seconds_after_its_token_was_revoked() {
    let server = Server::on_memory().await;
    let token = token(&server.turnwise, "short", Limits::default()).await;
    let job = server.turnwise.submit(JobRequest::new("double", &1)).await.unwrap();
    let mut events = server.stream(with_token(EVENTS, &token)).await;
    let mut log = server.stream(with_token(&format!("/api/v1/jobs/{job}/log/live"), &token)).await;
    // Both are asked from the beginning, so that the server has just seen the token.
    server.turnwise.revoke_token(&token.token.id.to_string()).await.unwrap();
    let revoked = Instant::now();
    for stream in [&mut events, &mut log] {
        let closed = stream.heard("closed").await;
        assert_eq!((misfit("Event", &closed), &closed["reason"]), (None, &json!("the token was revoked")));
        assert_eq!(stream.next().await, None);
    }
    assert!(revoked.elapsed() <= Duration::from_secs(5), "it took {:?}", revoked.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_a_token_ends_when_the_first_one_is_created() {
    let server = Server::on_memory().await;
    let mut events = server.listen(EVENTS).await;
    token(&server.turnwise, "first", Limits::default()).await;
    let created = Instant::now();
    assert!(events.heard("closed").await["reason"].as_str().unwrap().contains("token"));
    assert!(created.elapsed() <= Duration::from_secs(5), "it took {:?}", created.elapsed());
}

/// Many of them, on threads of their own: the reader of the events ends at the same moment, and no listener may see that first.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn streams_end_with_a_reason_as_soon_as_the_server_stops() {
    let server = Server::on_memory().await;
    let job = server.turnwise.submit(JobRequest::new("double", &1)).await.unwrap();
    let mut streams = vec![server.listen(&format!("/api/v1/jobs/{job}/log/live")).await];
    while streams.len() < 20 {
        streams.push(server.listen(EVENTS).await);
    }
    server.service.stop_soon();
    for stream in &mut streams {
        let closed = stream.heard("closed").await;
        assert_eq!((misfit("Event", &closed), &closed["reason"]), (None, &json!("the server stops; connect again")));
        assert_eq!(stream.next().await, None);
    }
    until("nobody reads", || !server.service.reads_events()).await;
}

#[tokio::test]
async fn one_caller_has_so_many_streams_and_a_closed_one_makes_room() {
    let server = Server::on_memory().await;
    let mut streams = Vec::new();
    for _ in 0..STREAMS_OF_ONE {
        streams.push(server.listen(&format!("{EVENTS}?type=ended")).await);
    }
    let refused = server.get(EVENTS).await;
    refused.refused(429, None);
    assert_eq!(refused.header("retry-after"), "1");
    streams.pop();
    server.listen(EVENTS).await;
    const { assert!(LIVE_LOGS <= STREAMS_OF_ONE) };
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_takes_nothing_is_told_to_read_again_and_holds_nothing_up() {
    let server = Server::on_memory().await;
    let path = format!("{EVENTS}?type=submitted");
    let (mut slow, mut quick) = (server.listen(&path).await, server.listen(&path).await);
    let mut last = String::new();
    for n in 0..BATCHES_BEHIND + 10 {
        last = server.turnwise.submit(JobRequest::new("double", &n)).await.unwrap().to_string();
        assert_eq!(quick.heard("submitted").await["job"]["id"], last);
        sleep(LOOK_AGAIN).await;
    }
    let reset = slow.heard("reset").await;
    assert!(reset["reason"].as_str().unwrap().contains("too slowly"), "{reset}");
    while slow.heard("submitted").await["job"]["id"] != last {}
}

#[tokio::test]
async fn more_at_once_than_is_told_one_by_one_is_a_reset() {
    let server = Server::on_memory().await;
    let mut events = server.listen(&format!("{EVENTS}?type=submitted")).await;
    let many = (0..turnwise_server::limits::EVENTS_AT_ONCE + 1).map(|n| JobRequest::new("double", &n));
    server.turnwise.submit_all(many).await.unwrap();
    let reset = events.heard("reset").await;
    assert!(reset["reason"].as_str().unwrap().starts_with("more happened at once"), "{reset}");
    let job = server.submit(json!({"task": "double", "args": 1})).await;
    assert_eq!(events.heard("submitted").await["job"]["id"], job, "it goes on");
}

#[tokio::test]
async fn no_proxy_holds_a_stream_back() {
    let server = Server::on_memory().await;
    let answer = tower::ServiceExt::oneshot(server.service.router(), request("GET", EVENTS, None)).await.unwrap();
    assert_eq!(answer.headers()["x-accel-buffering"], "no");
}
