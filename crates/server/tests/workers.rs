//! Foreign workers over HTTP, on both databases: what a program in another language sees of the protocol (docs/workers.md).

mod support;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures_util::future::join_all;
use serde_json::{Value, json};
use support::{Answer, Counted, PATIENCE, Server, misfit, request, with};
use turnwise::{
    Config, Executor, NodeName, Options, Registry, Schema, Turnwise,
    access::{Grant, Limits, NewAccess, Scope},
    store::{Assign, AssignReply, BatchId, Beat, Host, Join, Load, Pick, Serves},
    wire::{BeatWorker, LeaveWorker, NoteRuns, SettleRuns, TakeJobs},
};
use turnwise_server::Service;
use turnwise_testpg::Cluster;

/// Servers of one database, as processes of their own have them. Each request goes to another one than the last.
struct Servers {
    all: Vec<Server>,
    next: AtomicUsize,
    /// It dispatches, and runs nothing.
    node: Option<Executor>,
    _folder: Option<tempfile::TempDir>,
}

impl Servers {
    async fn on(store: &'static str, url: &str, count: usize) -> Self {
        let mut all = Vec::new();
        for _ in 0..count {
            let options = Options { schema: Schema::Migrate, ..Options::default() };
            all.push(Server::of(store, Turnwise::open_with(url, options).await.unwrap()));
        }
        let config = Config { lease: Duration::from_secs(2), ..Config::new(NodeName::new("dispatches").unwrap()) };
        let node = all[0].turnwise.executor_with(config).registry(Registry::new()).build().unwrap();
        node.start().await.unwrap();
        Self { all, next: AtomicUsize::new(0), node: Some(node), _folder: None }
    }

    /// On each database.
    async fn on_both(count: usize) -> [Self; 2] {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
        let sqlite = Self { _folder: Some(folder), ..Self::on("sqlite", &url, count).await };
        let url = Cluster::shared().fresh_database().unwrap();
        [sqlite, Self::on("postgres", &url, count).await]
    }

    fn server(&self) -> &Server {
        &self.all[self.next.fetch_add(1, Ordering::Relaxed) % self.all.len()]
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        self.server().post(&format!("/api/v1{path}"), body).await
    }

    async fn submit(&self, job: Value) -> String {
        self.server().submit(job).await
    }

    async fn job(&self, id: &str) -> Value {
        self.server().get(&format!("/api/v1/jobs/{id}")).await.expect(200)
    }

    async fn stop(mut self) {
        self.node.take().unwrap().stop().await;
    }
}

fn facts(name: &str) -> Value {
    json!({
        "protocol": 1, "name": name, "language": "python 3.12", "client": "test 0.1", "slots": 4,
        "tasks": {
            "far": {"retry": "durations:0s", "secret": ["/card"]},
            "exhausts": {"retry": "none", "on_exhausted": "far"},
            "slow": {"timeout": "1s"},
        },
    })
}

/// A worker as its client has it.
struct Worker<'a> {
    servers: &'a Servers,
    id: String,
}

impl<'a> Worker<'a> {
    async fn new(servers: &'a Servers, facts: &Value) -> Self {
        let registered = servers.post("/workers", facts).await.expect(201);
        Self { servers, id: registered["worker"].as_str().unwrap().to_owned() }
    }

    async fn ask(&self, verb: &str, body: &Value) -> Answer {
        self.servers.post(&format!("/workers/{}/{verb}", self.id), body).await
    }

    /// What it is told once there is something.
    async fn take(&self, n: usize, held: &[Value]) -> Value {
        let asked = json!({"n": n, "wait_ms": 60_000, "held": held});
        let told = async {
            loop {
                let taken = self.ask("take", &asked).await.expect(200);
                if taken["jobs"] != json!([]) || taken["stop"] != json!([]) {
                    return taken;
                }
            }
        };
        tokio::time::timeout(PATIENCE, told).await.expect("something must be told")
    }

    /// The next job.
    async fn one(&self) -> Value {
        let taken = self.take(1, &[]).await;
        assert_eq!(taken["jobs"].as_array().map(Vec::len), Some(1), "{taken}");
        taken["jobs"][0].clone()
    }

    async fn settle(&self, job: &Value, outcome: Value) -> Value {
        let mut end = held(job);
        (end["ran_ms"], end["outcome"]) = (json!(5), outcome);
        self.ask("settle", &json!({"ends": [end]})).await.expect(200)["ends"][0].clone()
    }

    async fn beat(&self, held: &[Value]) -> Answer {
        self.ask("beat", &json!({"slots": 4, "held": held})).await
    }
}

/// The requests and answers of docs/workers.md are what is read and described.
#[test]
fn the_examples_of_the_page_are_what_is_read_and_answered() {
    const PAGE: &str = include_str!("../../../docs/workers.md");
    // Ids are written short there.
    let text = PAGE.replace("0190…", "01890163-d869-7739-8aea-5966c26f8ad9").replace("00-…", "00-1-2-01");
    let blocks: Vec<&str> = text.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let [take, taken, beat, note, settle, leave] = blocks[..] else { panic!("other examples: {blocks:?}") };
    assert_eq!(TakeJobs::read(take).unwrap().take.held.len(), 1);
    assert_eq!(misfit("TakenJobs", &serde_json::from_str(taken).unwrap()), None);
    assert_eq!(BeatWorker::read(beat).unwrap().slots, 8);
    let said = &NoteRuns::read(note).unwrap().notes[0];
    assert_eq!((said.lines.len(), said.steps.len(), said.progress.is_some()), (1, 1, true));
    assert_eq!(SettleRuns::read(settle).unwrap().ends.len(), 1);
    assert_eq!(LeaveWorker::read(leave).unwrap().back.len(), 1);
    let inline = |begins: &str| {
        let from = text.find(begins).unwrap_or_else(|| panic!("no {begins}"));
        serde_json::from_str::<Value>(text[from..].split('`').next().unwrap()).unwrap()
    };
    assert_eq!(
        misfit(
            "NotesAnswered",
            &inline("{\"notes\": [{\"id\": \"01890163-d869-7739-8aea-5966c26f8ad9\", \"fence\": 3, \"answer\"")
        ),
        None
    );
    assert_eq!(
        misfit(
            "EndsAnswered",
            &inline("{\"ends\": [{\"id\": \"01890163-d869-7739-8aea-5966c26f8ad9\", \"fence\": 3, \"answer\"")
        ),
        None
    );
    assert_eq!(misfit("WorkerLeft", &inline("{\"left\": false")), None);
    // Every outcome of its table.
    let outcomes: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("| `{\"outcome\"")?.split('`').next()).collect();
    assert_eq!(outcomes.len(), 8);
    for rest in outcomes {
        let outcome = format!(
            "{{\"outcome\"{}",
            rest.replace("\"result\": …", "\"result\": 1").replace("\"args\": …", "\"args\": 1")
        );
        let outcome = outcome.replace("\"task\": \"…\"", "\"task\": \"t\"");
        let end = format!(
            r#"{{"ends": [{{"id": "01890163-d869-7739-8aea-5966c26f8ad9", "fence": 3, "outcome": {outcome}}}]}}"#
        );
        SettleRuns::read(&end).unwrap_or_else(|error| panic!("{outcome}: {error}"));
    }
}

fn held(job: &Value) -> Value {
    json!({"id": job["id"], "fence": job["fence"]})
}

fn done(result: &Value) -> Value {
    json!({"outcome": "done", "result": result})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_runs_elsewhere_and_every_request_may_go_to_another_server() {
    for servers in Servers::on_both(2).await {
        let worker = Worker::new(&servers, &facts("one")).await;
        let id = servers.submit(json!({"task": "far", "args": {"card": "4711-0815", "n": 1}, "group": "acme"})).await;
        let job = worker.one().await;
        assert_eq!((&job["id"], &job["attempt"], &job["steps"]), (&json!(id), &json!(1), &json!({})));
        assert_eq!(job["args"], json!({"card": "4711-0815", "n": 1}), "a worker gets secrets");
        assert_eq!((&job["queue"], &job["group"], &job["limited"]), (&json!("default"), &json!("acme"), &json!(false)));
        let mut said = held(&job);
        said["progress"] = json!({"done": 1, "total": 2, "text": "pages of 4711-0815"});
        said["lines"] = json!([{"number": 0, "text": "paid with 4711-0815", "level": "warn"}]);
        said["steps"] = json!([{"name": "charge", "result": {"id": 7}}]);
        assert_eq!(worker.ask("note", &json!({"notes": [said]})).await.expect(200)["notes"][0]["answer"], "applied");
        let failed = worker.settle(&job, json!({"outcome": "error", "error": "4711-0815 was refused"})).await;
        assert_eq!((&failed["answer"], &failed["state"]), (&json!("applied"), &json!("stuck")));
        let again = worker.one().await;
        assert_eq!((&again["id"], &again["attempt"]), (&json!(id), &json!(2)), "by the retries of its task");
        assert_eq!(again["steps"], json!({"charge": {"id": 7}}), "what has been done is not done again");
        assert!(again["fence"].as_i64() > job["fence"].as_i64());
        let ended = worker.settle(&again, done(&json!({"pages": 3}))).await;
        assert_eq!((&ended["answer"], &ended["state"]), (&json!("applied"), &json!("success")));
        let seen = servers.job(&id).await;
        assert_eq!(
            (&seen["state"], &seen["result"], &seen["node"]),
            (&json!("success"), &json!({"pages": 3}), &json!("one"))
        );
        assert_eq!(seen["attempts"][0]["error"], json!(["[secret] was refused"]));
        let log = servers.server().get(&format!("/api/v1/jobs/{id}/log")).await.expect(200);
        assert_eq!(
            (&log["lines"][0]["text"], &log["lines"][0]["level"]),
            (&json!("paid with [secret]"), &json!("warn"))
        );
        // Nothing is left in its hands, so it leaves at once.
        let left = worker.ask("leave", &json!({"back": [], "held": []})).await.expect(200);
        assert_eq!(left, json!({"left": true}));
        servers.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_outcome_leads_where_that_of_any_node_does() {
    for servers in Servers::on_both(2).await {
        let worker = Worker::new(&servers, &facts("one")).await;
        for (task, outcome, state) in [
            ("far", json!({"outcome": "done"}), "success"),
            ("far", json!({"outcome": "fail", "error": "no such page"}), "failed"),
            ("far", json!({"outcome": "snooze", "for": "1h"}), "waiting"),
            ("far", json!({"outcome": "cancelled"}), "cancelled"),
            ("far", json!({"outcome": "timed_out"}), "stuck"),
            ("far", json!({"outcome": "next", "job": {"task": "archive", "args": 3}}), "waiting"),
            ("exhausts", json!({"outcome": "error", "error": "again"}), "waiting"),
        ] {
            let id = servers
                .submit(json!({"task": task, "args": {"n": 1}, "retry": (state == "stuck").then_some("manual")}))
                .await;
            let job = worker.one().await;
            assert_eq!(job["id"], json!(id), "{outcome}");
            let answer = worker.settle(&job, outcome.clone()).await;
            assert_eq!((&answer["answer"], &answer["state"]), (&json!("applied"), &json!(state)), "{outcome}");
            let seen = servers.job(&id).await;
            match outcome["outcome"].as_str().unwrap() {
                "next" => assert_eq!((&seen["task"], &seen["args"]), (&json!("archive"), &json!(3))),
                "error" => assert_eq!(seen["task"], "far", "the task that its own task names"),
                _ => assert_eq!(seen["task"], task),
            }
            if task == "exhausts" {
                let next = worker.one().await;
                worker.settle(&next, json!({"outcome": "done"})).await;
            }
        }
        // Given back: no attempt is spent.
        let id = servers.submit(json!({"task": "far"})).await;
        let job = worker.one().await;
        assert_eq!(worker.settle(&job, json!({"outcome": "interrupted"})).await["state"], "waiting");
        let again = worker.one().await;
        assert_eq!((&again["id"], &again["attempt"]), (&json!(id), &json!(1)));
        servers.stop().await;
    }
}

/// As a client does that never got an answer: each request twice, to two servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_whose_answer_was_lost_is_repeated_and_done_once() {
    for servers in Servers::on_both(2).await {
        let twice = async |path: &str, body: &Value, status: u16| {
            drop(servers.post(path, body).await.expect(status));
            servers.post(path, body).await.expect(status)
        };
        let mut facts = facts("one");
        facts["worker"] = json!("6f9619ff-8b86-4d01-b42d-00c04fc964ff");
        let registered = twice("/workers", &facts, 201).await;
        assert_eq!(registered["worker"], facts["worker"]);
        facts["name"] = json!("other");
        servers.post("/workers", &facts).await.refused(422, Some("/worker"));
        let at = |verb: &str| format!("/workers/{}/{verb}", facts["worker"].as_str().unwrap());
        let id = servers.submit(json!({"task": "far"})).await;
        let worker = Worker { servers: &servers, id: facts["worker"].as_str().unwrap().to_owned() };
        let first = worker.one().await;
        assert_eq!(worker.one().await, first, "what it does not hold is given again");
        assert_eq!(worker.one().await, first);
        let nothing = json!({"n": 4, "held": [held(&first)]});
        assert_eq!(twice(&at("take"), &nothing, 200).await, json!({"jobs": [], "stop": []}), "what it holds is not");
        let beat = json!({"slots": 4, "held": [held(&first)]});
        assert_eq!(twice(&at("beat"), &beat, 200).await["stop"], json!([]));
        let mut note = held(&first);
        note["lines"] = json!([{"number": 0, "text": "once"}, {"number": 1, "text": "and no more"}]);
        note["steps"] = json!([{"name": "one", "result": 1}]);
        assert_eq!(twice(&at("note"), &json!({"notes": [note]}), 200).await["notes"][0]["answer"], "applied");
        let log = servers.server().get(&format!("/api/v1/jobs/{id}/log")).await.expect(200);
        assert_eq!(log["lines"].as_array().unwrap().len(), 2);
        let mut end = held(&first);
        (end["ran_ms"], end["outcome"]) = (json!(3), done(&json!(7)));
        // Four times: each server is asked by itself, and remembers by itself.
        drop(twice(&at("settle"), &json!({"ends": [end]}), 200).await);
        let settled = twice(&at("settle"), &json!({"ends": [end]}), 200).await;
        assert_eq!(
            (&settled["ends"][0]["answer"], &settled["ends"][0]["state"]),
            (&json!("applied"), &json!("success"))
        );
        let seen = servers.job(&id).await;
        assert_eq!((&seen["attempt"], &seen["result"]), (&json!(1), &json!(7)));
        assert_eq!(twice(&at("leave"), &json!({"held": []}), 200).await, json!({"left": true}));
        worker.beat(&[]).await.refused(409, None);
        servers.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_are_answered_one_by_one_and_a_bad_one_spoils_none() {
    for servers in Servers::on_both(1).await {
        let worker = Worker::new(&servers, &facts("one")).await;
        for _ in 0..3 {
            servers.submit(json!({"task": "far"})).await;
        }
        let mut jobs = Vec::new();
        while jobs.len() < 3 {
            let held: Vec<_> = jobs.iter().map(held).collect();
            jobs.extend(worker.take(4, &held).await["jobs"].as_array().unwrap().clone());
        }
        let end = |job: &Value, outcome: Value| {
            let mut end = held(job);
            (end["ran_ms"], end["outcome"]) = (json!(1), outcome);
            end
        };
        let mut old = jobs[1].clone();
        old["fence"] = json!(999);
        let unknown = json!({"id": "01890163-d869-7739-8aea-5966c26f8ad9", "fence": 1});
        let ends = [
            end(&jobs[0], done(&json!("a"))),
            end(&old, done(&json!("b"))),
            end(&unknown, done(&json!("c"))),
            end(&jobs[2], json!({"outcome": "next", "job": {"task": "far", "args": 1}})),
        ];
        let answers = worker.ask("settle", &json!({"ends": ends})).await.expect(200);
        let words: Vec<_> = answers["ends"].as_array().unwrap().iter().map(|one| one["answer"].clone()).collect();
        assert_eq!(words, ["applied", "stale", "gone", "applied"]);
        assert_eq!(worker.settle(&jobs[1], done(&json!(1))).await["answer"], "applied");
        // What cannot be read is refused as a whole, with its place.
        for (ends, path) in [
            (json!([end(&jobs[0], json!({"outcome": "well"}))]), "/ends/0/outcome/outcome"),
            (json!([end(&jobs[0], json!({"outcome": "timed_out", "error": "x"}))]), "/ends/0/outcome/error"),
            (json!([end(&jobs[0], json!({"outcome": "fail"}))]), "/ends/0/outcome/error"),
            (json!([held(&jobs[0])]), "/ends/0/outcome"),
            (json!([{"id": "x", "fence": 1}]), "/ends/0/id"),
            (
                json!([end(&jobs[0], json!({"outcome": "done"})), end(&jobs[0], json!({"outcome": "done"}))]),
                "/ends/1/id",
            ),
        ] {
            worker.ask("settle", &json!({"ends": ends})).await.refused(422, Some(path));
        }
        servers.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_worker_says_of_itself_is_checked_and_shown() {
    for servers in Servers::on_both(2).await {
        let with = |name: &str, value: Value| {
            let mut changed = facts("one");
            changed[name] = value;
            changed
        };
        for (body, path) in [
            (with("protocol", json!(2)), "/protocol"),
            (with("slots", json!(0)), "/slots"),
            (with("slots", json!(10_001)), "/slots"),
            (with("lease_ms", json!(4_999)), "/lease_ms"),
            (with("name", json!("x".repeat(101))), "/name"),
            (with("tasks", json!({})), "/tasks"),
            (with("tasks", json!({"far": {"retry": "often"}})), "/tasks/far/retry"),
            (with("tasks", json!({"far": {"color": 1}})), "/tasks/far/color"),
            (with("language", json!("x".repeat(101))), "/language"),
            (with("queues", json!([""])), "/queues"),
            (with("worker", json!("me")), "/worker"),
        ] {
            servers.post("/workers", &body).await.refused(422, Some(path));
        }
        let worker = Worker::new(&servers, &facts("one")).await;
        let nodes = servers.server().get("/api/v1/nodes").await.expect(200);
        let node = nodes["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "one").unwrap();
        assert_eq!((&node["language"], &node["client"]), (&json!("python 3.12"), &json!("test 0.1")));
        assert_eq!((&node["slots"], &node["tasks"]), (&json!(4), &json!(["exhausts", "far", "slow"])));
        let page = servers.server().get("/nodes").await;
        assert!(page.text.contains("python 3.12, test 0.1"), "{}", page.text);
        // A worker never takes the place of a living one.
        let taken = servers.post("/workers", &facts("one")).await;
        taken.refused(409, Some("/name"));
        let wait: u32 = taken.header("retry-after").parse().unwrap();
        assert!((1..=31).contains(&wait), "{wait}");
        // It drains: no more jobs are assigned.
        worker.ask("beat", &json!({"slots": 0})).await.expect(200);
        let nodes = servers.server().get("/api/v1/nodes").await.expect(200);
        let node = nodes["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "one").unwrap();
        assert_eq!(node["state"], "stopping");
        servers.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_reaches_a_worker_that_waits_for_stops_alone() {
    for servers in Servers::on_both(2).await {
        let worker = Worker::new(&servers, &facts("one")).await;
        let id = servers.submit(json!({"task": "far"})).await;
        let job = worker.one().await;
        let own = [held(&job)];
        let (taken, cancelled) = tokio::join!(worker.take(0, &own), async {
            servers.server().post(&format!("/api/v1/jobs/{id}/cancel"), &json!({})).await.expect(200)
        });
        assert_eq!(cancelled["decided"], "cancel_requested");
        let stop = json!([{"id": id, "fence": job["fence"], "reason": "cancelled"}]);
        assert_eq!(taken, json!({"jobs": [], "stop": stop}));
        assert_eq!(worker.beat(&own).await.expect(200)["stop"], stop, "it is repeated");
        assert_eq!(worker.settle(&job, json!({"outcome": "cancelled"})).await["state"], "cancelled");
        assert_eq!(servers.job(&id).await["state"], "cancelled");
        servers.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_after_the_lease_is_stale_and_the_worker_is_lost() {
    for servers in Servers::on_both(2).await {
        let mut short = facts("silent");
        short["lease_ms"] = json!(5_000);
        let silent = Worker::new(&servers, &short).await;
        let id = servers.submit(json!({"task": "far"})).await;
        let job = silent.one().await;
        let other = Worker::new(&servers, &facts("other")).await;
        // It is the other one's once the lease is over.
        let again = other.one().await;
        assert_eq!(again["id"], json!(id));
        // A server that has just heard of it says that the end is stale, another one that the worker is lost.
        let mut end = held(&job);
        (end["ran_ms"], end["outcome"]) = (json!(5), done(&json!("late")));
        let late = silent.ask("settle", &json!({"ends": [end]})).await;
        assert!(late.status == 409 || late.expect(200)["ends"][0]["answer"] == "stale", "{late:?}");
        for _ in 0..2 {
            silent.beat(&[held(&job)]).await.refused(409, None);
            silent.ask("take", &json!({"n": 1, "held": [held(&job)]})).await.refused(409, None);
        }
        assert_eq!(other.settle(&again, done(&json!("in time"))).await["answer"], "applied");
        assert_eq!(servers.job(&id).await["result"], "in time");
        // It registers anew, under its name.
        Worker::new(&servers, &short).await;
        servers.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_gone_takes_nothing_with_it() {
    for mut servers in Servers::on_both(1).await {
        let id = {
            let worker = Worker::new(&servers, &facts("one")).await;
            worker.id
        };
        let job_id = servers.submit(json!({"task": "far"})).await;
        let job = Worker { servers: &servers, id: id.clone() }.one().await;
        assert_eq!(job["id"], json!(job_id));
        let turnwise = servers.all[0].turnwise.clone();
        servers.all[0].serve(Service::new(turnwise));
        let worker = Worker { servers: &servers, id };
        assert_eq!(worker.beat(&[held(&job)]).await.expect(200)["stop"], json!([]));
        let other = servers.submit(json!({"task": "far"})).await;
        let taken = worker.take(4, &[held(&job)]).await;
        assert_eq!(taken["jobs"][0]["id"], json!(other), "only what is missing: {taken}");
        let (one, two) =
            (worker.settle(&job, done(&json!(1))).await, worker.settle(&taken["jobs"][0], done(&json!(2))).await);
        assert_eq!((&one["answer"], &two["answer"]), (&json!("applied"), &json!("applied")));
        servers.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaving_hands_back_what_has_not_begun_and_waits_for_what_runs() {
    for servers in Servers::on_both(2).await {
        let leaves = Worker::new(&servers, &facts("leaves")).await;
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(servers.submit(json!({"task": "far"})).await);
        }
        let mut jobs: Vec<Value> = Vec::new();
        while jobs.len() < 3 {
            let held: Vec<_> = jobs.iter().map(held).collect();
            jobs.extend(leaves.take(4, &held).await["jobs"].as_array().unwrap().clone());
        }
        leaves.ask("beat", &json!({"slots": 0})).await.expect(200);
        let other = Worker::new(&servers, &facts("other")).await;
        // One has not begun, one runs, and of one the answer was lost.
        let asked = json!({"back": [held(&jobs[0])], "held": [held(&jobs[1])]});
        assert_eq!(leaves.ask("leave", &asked).await.expect(200), json!({"left": false, "held": 1}));
        let mut taken: Vec<Value> = Vec::new();
        while taken.len() < 2 {
            let held: Vec<_> = taken.iter().map(held).collect();
            taken.extend(other.take(4, &held).await["jobs"].as_array().unwrap().clone());
        }
        let mut names: Vec<_> = taken.iter().map(|job| job["id"].clone()).collect();
        let mut back = vec![jobs[0]["id"].clone(), jobs[2]["id"].clone()];
        names.sort_by_key(Value::to_string);
        back.sort_by_key(Value::to_string);
        assert_eq!(names, back);
        assert!(taken.iter().all(|job| job["attempt"] == 1), "no attempt is spent: {taken:?}");
        assert_eq!(leaves.settle(&jobs[1], done(&json!(1))).await["answer"], "applied");
        let left = leaves.ask("leave", &json!({"back": [], "held": []})).await.expect(200);
        assert_eq!(left, json!({"left": true}));
        servers.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_is_its_tokens_and_no_others() {
    for servers in Servers::on_both(2).await {
        let server = &servers.all[0];
        let token = async |scopes: &[Scope], queue: Option<&str>, task: Option<&str>| {
            let limits = Limits {
                queues: queue.map(|name| [turnwise::QueueName::new(name).unwrap()].into()),
                tasks: task.map(|name| [turnwise::TaskName::new(name).unwrap()].into()),
                ..Limits::default()
            };
            let grant = Grant::new(scopes.iter().copied(), limits).unwrap();
            server.turnwise.create_token(NewAccess::new("t", grant).unwrap()).await.unwrap()
        };
        let own = token(&[Scope::Work], Some("mail"), Some("far")).await;
        let foreign = token(&[Scope::Work], None, None).await;
        let elsewhere = token(&[Scope::Work], None, Some("nothing")).await;
        let reader = token(&[Scope::Read, Scope::Submit, Scope::Admin], None, None).await;
        let ask = async |secret: &str, path: &str, body: &Value| {
            let request = with(request("POST", &format!("/api/v1{path}"), Some(body)), secret);
            servers.server().send(request).await
        };
        // The server remembers for a moment that there are no tokens; one that is presented is looked for.
        let registered = ask(own.secret.reveal(), "/workers", &facts("one")).await.expect(201);
        assert_eq!((&registered["queues"], &registered["tasks"]), (&json!(["mail"]), &json!(["far"])), "it is cut");
        ask(elsewhere.secret.reveal(), "/workers", &facts("two")).await.refused(403, None);
        ask(reader.secret.reveal(), "/workers", &facts("two")).await.refused(403, None);
        let worker = registered["worker"].as_str().unwrap();
        let verbs = [
            ("take", json!({"n": 1})),
            ("beat", json!({"slots": 1})),
            ("note", json!({"notes": []})),
            ("settle", json!({"ends": []})),
            ("leave", json!({"held": []})),
        ];
        for (verb, body) in &verbs {
            let path = format!("/workers/{worker}/{verb}");
            ask(foreign.secret.reveal(), &path, body).await.refused(404, None);
            ask(reader.secret.reveal(), &path, body).await.refused(403, None);
            ask("tw_nonsense", &path, body).await.refused(401, None);
            ask(own.secret.reveal(), &format!("/workers/nonsense/{verb}"), body).await.refused(404, None);
        }
        // Of another queue, and so not its.
        let submit = json!({"task": "far", "queue": "other"});
        ask(reader.secret.reveal(), "/jobs", &submit).await.expect(201);
        let id = ask(reader.secret.reveal(), "/jobs", &json!({"task": "far", "queue": "mail"})).await.expect(201);
        let path = format!("/workers/{worker}/take");
        let taken = ask(own.secret.reveal(), &path, &json!({"n": 9, "wait_ms": 60_000})).await.expect(200);
        let ids: Vec<_> = taken["jobs"].as_array().unwrap().iter().map(|job| &job["id"]).collect();
        assert_eq!(ids, [&id["id"]]);
        let mut job = held(&taken["jobs"][0]);
        // A take that waits ends soon after its token was revoked.
        let waits = async {
            let body = json!({"n": 9, "wait_ms": 60_000, "held": [job]});
            let begun = std::time::Instant::now();
            let answer = ask(own.secret.reveal(), &path, &body).await;
            (answer, begun.elapsed())
        };
        let revoke = async { server.turnwise.revoke_token(&own.token.prefix).await.unwrap() };
        let ((answer, lasted), _) = tokio::join!(waits, revoke);
        answer.refused(401, None);
        assert!(lasted < Duration::from_secs(50), "it did not wait to its end: {lasted:?}");
        (job["ran_ms"], job["outcome"]) = (json!(1), json!({"outcome": "done"}));
        for (verb, body) in verbs.iter().chain(&[("settle", json!({"ends": [job]}))]) {
            ask(own.secret.reveal(), &format!("/workers/{worker}/{verb}"), body).await.refused(401, None);
        }
        servers.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_that_waits_is_answered_when_its_server_stops() {
    let server = Server::on_memory().await;
    let registered = server.post("/api/v1/workers", &facts("one")).await.expect(201);
    let path = format!("/api/v1/workers/{}/take", registered["worker"].as_str().unwrap());
    let asked = json!({"n": 1, "wait_ms": 60_000});
    let (taken, ()) = tokio::join!(server.post(&path, &asked), async { server.service.stop_soon() });
    assert_eq!(taken.expect(200), json!({"jobs": [], "stop": []}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_take_ends_the_one_before_it() {
    let server = Server::on_memory().await;
    let registered = server.post("/api/v1/workers", &facts("one")).await.expect(201);
    let path = format!("/api/v1/workers/{}/take", registered["worker"].as_str().unwrap());
    let (older, newer) = (json!({"n": 1, "wait_ms": 60_000}), json!({"n": 1, "wait_ms": 0}));
    let mut waiting = Box::pin(server.post(&path, &older));
    let nothing = json!({"jobs": [], "stop": []});
    let ended = tokio::time::timeout(PATIENCE, async {
        loop {
            tokio::select! {
                ended = &mut waiting => return ended,
                answer = server.post(&path, &newer) => assert_eq!(answer.expect(200), nothing),
            }
        }
    });
    assert_eq!(ended.await.expect("it must end").expect(200), nothing);
}

/// A node that dispatches by hand, for tests that move the clock.
async fn assign_by_hand(turnwise: &Turnwise, worker: &str) {
    let store = turnwise.store();
    let node = turnwise_core::Incarnation(uuid::Uuid::from_u128(1));
    let join = Join {
        incarnation: node,
        name: NodeName::new("by hand").unwrap(),
        host: Host {
            name: String::new(),
            boot_id: String::new(),
            pid_namespace: String::new(),
            pid: 0,
            started: 0,
            version: None,
        },
        slots: 0,
        queue_capacity: 0,
        batch_size: None,
        queues: Serves::All,
        tasks: Default::default(),
        lease: Duration::from_secs(3_600),
        replace: None,
        worker: None,
    };
    store.join(join).await.unwrap();
    let beat = store.beat(Beat::new(node, Duration::from_secs(3_600), 0, true)).await.unwrap();
    let jobs = store.load(Load::After { id: None, limit: 10 }).await.unwrap().jobs;
    let to = turnwise_core::Incarnation(worker.parse().unwrap());
    let picks = jobs.iter().map(|job| Pick { job: job.id, fence: job.fence, node: to, limited: false }).collect();
    let assign = Assign { holder: node, epoch: beat.epoch.unwrap(), batch: BatchId(uuid::Uuid::from_u128(9)), picks };
    let replies = store.assign(assign).await.unwrap();
    assert!(replies.iter().all(|(_, reply)| matches!(reply, AssignReply::Theirs(_))), "{replies:?}");
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_time_and_grace_are_over_has_timed_out_and_is_stopped() {
    let server = Server::on_memory().await;
    let registered = server.post("/api/v1/workers", &facts("one")).await.expect(201);
    let worker = registered["worker"].as_str().unwrap();
    let ask = async |verb: &str, body: &Value| {
        server.post(&format!("/api/v1/workers/{worker}/{verb}"), body).await.expect(200)
    };
    let id = server.submit(json!({"task": "slow", "retry": "none"})).await;
    assign_by_hand(&server.turnwise, worker).await;
    let job = ask("take", &json!({"n": 1, "wait_ms": 1_000})).await["jobs"][0].clone();
    assert_eq!((&job["id"], &job["timeout_ms"]), (&json!(id), &json!(1_000)));
    let begun = tokio::time::Instant::now();
    let told = ask("take", &json!({"n": 0, "wait_ms": 60_000, "held": [held(&job)]})).await;
    let lasted = begun.elapsed();
    assert_eq!(told["stop"], json!([{"id": id, "fence": job["fence"], "reason": "timed_out"}]));
    assert!((Duration::from_secs(11)..Duration::from_secs(13)).contains(&lasted), "{lasted:?}");
    let seen = server.get(&format!("/api/v1/jobs/{id}")).await.expect(200);
    assert_eq!((&seen["state"], &seen["attempts"][0]["ending"]), (&json!("failed"), &json!("timed out")), "{seen}");
    let beaten = ask("beat", &json!({"slots": 4, "held": [held(&job)]})).await;
    assert_eq!(beaten["stop"][0]["reason"], "timed_out", "from then on");
    let mut end = held(&job);
    (end["ran_ms"], end["outcome"]) = (json!(20_000), json!({"outcome": "done"}));
    assert_eq!(ask("settle", &json!({"ends": [end]})).await["ends"][0]["answer"], "stale");
    // Another server finds the same.
    let other = Server::of("memory", server.turnwise.clone());
    let path = format!("/api/v1/workers/{worker}/settle");
    assert_eq!(other.post(&path, &json!({"ends": [end]})).await.expect(200)["ends"][0]["answer"], "stale");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_held_for_a_moment_is_shown_as_running() {
    let server = Server::on_memory().await;
    let registered = server.post("/api/v1/workers", &facts("one")).await.expect(201);
    let path = format!("/api/v1/workers/{}/take", registered["worker"].as_str().unwrap());
    let id = server.submit(json!({"task": "far"})).await;
    assign_by_hand(&server.turnwise, registered["worker"].as_str().unwrap()).await;
    let job = server.post(&path, &json!({"n": 1})).await.expect(200)["jobs"][0].clone();
    assert_eq!(server.get(&format!("/api/v1/jobs/{id}")).await.expect(200)["state"], "scheduled");
    server.post(&path, &json!({"n": 0, "wait_ms": 3_000, "held": [held(&job)]})).await.expect(200);
    assert_eq!(server.get(&format!("/api/v1/jobs/{id}")).await.expect(200)["state"], "running");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_idle_workers_cost_five_statements_a_second_at_most() {
    const WORKERS: usize = 1_000;
    const SECONDS: u64 = 60;
    let (counted, turnwise) = Counted::new();
    let server = Server::of("memory", turnwise);
    let mut workers = Vec::new();
    for n in 0..WORKERS {
        let registered = server.post("/api/v1/workers", &facts(&format!("worker {n}"))).await.expect(201);
        workers.push(registered["worker"].as_str().unwrap().to_owned());
    }
    // The first looks are each worker's own.
    let idle = json!({"n": 4, "held": []});
    join_all(workers.iter().map(async |worker| {
        server.post(&format!("/api/v1/workers/{worker}/take"), &idle).await.expect(200);
    }))
    .await;
    let before = counted.asked_in_all();
    let over = tokio::time::Instant::now() + Duration::from_secs(SECONDS);
    let take = async |worker: &str| {
        while tokio::time::Instant::now() < over {
            let taken =
                server.post(&format!("/api/v1/workers/{worker}/take"), &json!({"n": 4, "wait_ms": 25_000})).await;
            assert_eq!(taken.expect(200), json!({"jobs": [], "stop": []}));
        }
    };
    let beat = async |worker: &str| {
        while tokio::time::Instant::now() < over {
            server.post(&format!("/api/v1/workers/{worker}/beat"), &json!({"slots": 4})).await.expect(200);
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
    };
    futures_util::future::join(
        join_all(workers.iter().map(|worker| take(worker))),
        join_all(workers.iter().map(|worker| beat(worker))),
    )
    .await;
    let lasted = usize::try_from((tokio::time::Instant::now() - over).as_secs() + SECONDS).unwrap();
    let asked = counted.asked_in_all() - before;
    assert!(asked <= 5 * lasted, "{asked} statements in {lasted} s");
    assert!(asked >= lasted / 2, "{asked} statements in {lasted} s: nobody beats");
}

#[tokio::test]
async fn a_fence_that_not_every_language_reads_exactly_is_refused() {
    let (_, turnwise) = Counted::new();
    let server = Server::of("memory", turnwise);
    let registered = server.post("/api/v1/workers", &facts("exact")).await.expect(201);
    let beat = format!("/api/v1/workers/{}/beat", registered["worker"].as_str().unwrap());
    let held =
        |fence: u64| json!({"slots": 1, "held": [{"id": "01890163-d869-7739-8aea-5966c26f8ad9", "fence": fence}]});
    let most = (1 << 53) - 1;
    let answer = server.post(&beat, &held(most)).await.expect(200);
    assert_eq!((&answer["stop"][0]["fence"], &answer["stop"][0]["reason"]), (&json!(most), &json!("gone")));
    server.post(&beat, &held(most + 1)).await.refused(422, None);
}
