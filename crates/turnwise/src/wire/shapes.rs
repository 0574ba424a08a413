//! All shapes, compared with `shapes.json`: a change of what programs read and write is seen.
//! `TURNWISE_WRITE_SHAPES=1 cargo test -p turnwise shapes` writes the file.

use std::{path::Path, time::Duration};

use serde::Serialize;
use turnwise_core::{
    After, Failure, Fence, Incarnation, JobId, JobState, Json, NewJob, NodeName, Serves, TaskName, Timestamp,
    UniqueKey,
    job::Counts,
    lifecycle::Ending,
    node::Host,
    periodic::Periodic,
    secret::{Mask, Secrets},
    settings::{Concurrency, Pause, Settings},
    story,
    turn::Charge,
    unique::HeldKey,
    why,
};

use crate::{
    JobRequest, access, graph,
    overview::{GroupOverview, LimitOverview, Overview, QueueOverview, Tally},
    view::{Answer, Forecast},
    wire,
};

/// A request and outcomes, as programs write and read them.
const REQUEST: &str = r#"{"task":"extract","id":"0190163d-8694-739b-aea5-966c26f8ad91","args":{"document":7},"queue":"slow","group":"acme","key":"db","priority":"3","in":"10m","retry":"exponential:10s,5","timeout":"5m","expires":"1d","unique":"doc-7","unique_scope":"docs","unique_for":"1h","on_duplicate":"replace-args","as":"first","after":["0190163d-8694-739b-aea5-966c26f8ad90"],"on_failure":"run","on_exhausted":"apologise","next":"archive"}"#;
const OUTCOMES: [&str; 7] = [
    r#"{"outcome":"done"}"#,
    r#"{"outcome":"done","result":{"pages":3}}"#,
    r#"{"outcome":"error","error":"the disk is on fire"}"#,
    r#"{"outcome":"fail","error":"there is no document 7"}"#,
    r#"{"outcome":"snooze","for":"10m"}"#,
    r#"{"outcome":"cancelled"}"#,
    r#"{"outcome":"next","job":{"task":"send","args":[1.50],"in":"1s"}}"#,
];

#[derive(Serialize)]
struct Shapes<'a> {
    request: wire::Request<'a>,
    outcomes: Vec<wire::Outcome<'a>>,
    job: wire::JobInFull<'a>,
    why: wire::Why,
    node: wire::Node<'a>,
    queue: wire::Queue<'a>,
    group: wire::Group<'a>,
    task: wire::Task<'a>,
    key: wire::Key<'a>,
    schedule: wire::Schedule<'a>,
    graph: wire::Graph<'a>,
    token: wire::CreatedToken<'a>,
    tokens: wire::Tokens<'a>,
    logged_in: wire::LoggedIn<'a>,
    ticket: wire::CreatedTicket<'a>,
    redeemed: wire::Redeemed<'a>,
    audit: wire::AuditLines<'a>,
    statistics: wire::Statistics<'a>,
    errors: wire::Errors<'a>,
    findings: wire::Findings<'a>,
    log: wire::Log<'a>,
    jobs: wire::Jobs<'a>,
    queues: wire::Queues<'a>,
    groups: wire::Groups<'a>,
    tasks: wire::Tasks<'a>,
    keys: wire::Keys<'a>,
    schedules: wire::Schedules<'a>,
    nodes: wire::Nodes<'a>,
    overview: wire::Overview,
    submitted: wire::Submitted,
    submitted_all: wire::SubmittedAll,
    decided: wire::Decided,
    preview: wire::Preview,
    decided_all: wire::DecidedAll,
    pruned: wire::Pruned,
    queue_set: wire::QueueSet<'a>,
    group_set: wire::GroupSet<'a>,
    limit_set: wire::LimitSet<'a>,
    installation_set: wire::InstallationSet,
    reset: wire::Reset,
    node_set: wire::NodeSet<'a>,
    comparison: wire::Comparison<'a>,
    events: Vec<wire::Event<'a>>,
}

fn tied(n: u64, job: Option<crate::Job>, after: &[u64]) -> graph::Tied {
    let after: Vec<_> = after.iter().copied().map(id).collect();
    let on_failure = (!after.is_empty()).then(Default::default);
    graph::Tied { job, id: id(n), layer: after.len(), after, on_failure }
}

fn at(seconds: i64) -> Timestamp {
    "2030-01-31T08:00:00Z".parse::<Timestamp>().unwrap().plus(Duration::from_secs(seconds.unsigned_abs()))
}

fn id(n: u64) -> JobId {
    JobId::from_parts(n, [7; 10])
}

fn json(text: &str) -> Json {
    Json::parse("args", text).unwrap()
}

fn job() -> crate::Job {
    let request = JobRequest::from_json("extract", r#"{"document":7}"#).group("acme").queue("slow").key("db");
    let request =
        request.timeout(Duration::from_secs(300)).on_exhausted(JobRequest::new("apologise", &())).next("archive");
    let NewJob { task, args, queue, group, priority, retry, key, terms, .. } = request.into_job(at(0)).unwrap();
    crate::Job {
        id: id(1),
        task,
        args,
        queue,
        group,
        priority,
        retry,
        key,
        unique: Some(HeldKey {
            key: UniqueKey::new("doc-7").unwrap(),
            scope: "scope:docs".to_owned(),
            until: Some(at(3600)),
        }),
        terms,
        state: JobState::Stuck,
        counts: Counts { attempt: 1, retry: 1, crashes: 0 },
        fence: Fence(1),
        cancel_requested: false,
        node: Some(NodeName::new("node-a").unwrap()),
        result: None,
        error: Some("the disk is on fire".to_owned()),
        fingerprint: Some("f00d".to_owned()),
        expires_at: None,
        submitted_at: at(0),
        due_at: Some(at(60)),
        assigned_at: Some(at(1)),
        started_at: Some(at(2)),
        finished_at: Some(at(5)),
    }
}

fn story() -> story::Story {
    story::Story {
        attempts: vec![story::Attempt {
            fence: Fence(1),
            number: 1,
            task: TaskName::new("extract").unwrap(),
            ending: Ending::Error,
            node: Some(NodeName::new("node-a").unwrap()),
            started_at: Some(at(2)),
            finished_at: Some(at(5)),
            failure: Some(Failure {
                chain: vec!["the disk is on fire".to_owned(), "no water".to_owned()],
                place: Some("src/extract.rs:41:9".to_owned()),
            }),
        }],
        progress: Some(story::Progress::new(3, 10, "pages")),
        steps: vec![story::Finished { name: "read".to_owned(), result: json("3") }],
        after: After::new(vec![id(0)], crate::OnFailure::Run).unwrap(),
        awaited_by: vec![id(2)],
        lines: vec![story::Line {
            at: story::LineAt { fence: Fence(1), number: 3 },
            time: at(3),
            level: story::Level::Info,
            text: "page 3".to_owned(),
        }],
        ..story::Story::default()
    }
}

fn node() -> crate::Node {
    crate::Node {
        incarnation: Incarnation(id(1).uuid()),
        name: NodeName::new("node-a").unwrap(),
        host: Host {
            name: "host-a".to_owned(),
            boot_id: String::new(),
            pid_namespace: String::new(),
            pid: 4711,
            started: 0,
            version: Some("0.1.0".to_owned()),
        },
        slots: 4,
        queue_capacity: 8,
        batch_size: None,
        queues: Serves::All,
        tasks: [TaskName::new("extract").unwrap()].into(),
        joined_at: at(0),
        lease: Duration::from_secs(5),
        lease_until: at(10),
        lost: false,
        dispatcher: true,
    }
}

fn head(job: &crate::Job) -> turnwise_core::JobHead {
    turnwise_core::JobHead {
        id: job.id,
        seq: 1,
        task: job.task.clone(),
        queue: job.queue.clone(),
        group: job.group.clone(),
        priority: job.priority,
        state: JobState::Waiting,
        due: job.due_at,
        fence: job.fence,
        crashes: 0,
        node: None,
        key: None,
        submitted_at: job.submitted_at,
        expires: None,
        args_bytes: 0,
        awaits: None,
    }
}

fn held(job: &crate::Job) -> crate::watch::HeldJob {
    crate::watch::HeldJob {
        id: job.id,
        task: job.task.clone(),
        queue: job.queue.clone(),
        group: job.group.clone(),
        state: JobState::Running,
        attempt: 1,
        fence: job.fence,
        node: NodeName::new("node-a").unwrap(),
        submitted_at: job.submitted_at,
        started_at: Some(at(2)),
        progress: None,
    }
}

fn ended(job: &crate::Job) -> crate::watch::EndedJob {
    crate::watch::EndedJob {
        id: job.id,
        task: job.task.clone(),
        queue: job.queue.clone(),
        group: job.group.clone(),
        state: JobState::Failed,
        attempt: 2,
        node: job.node.clone(),
        submitted_at: job.submitted_at,
        started_at: Some(at(2)),
        finished_at: Some(at(3)),
        fingerprint: job.fingerprint.clone(),
    }
}

fn overview() -> Overview {
    let mut jobs = Tally::default();
    (jobs.waiting, jobs.scheduled, jobs.running, jobs.stuck) = (4, 3, 2, 1);
    let paused = Some(Pause { since: at(0), reason: Some("the night shift".to_owned()) });
    let mut queue = QueueOverview { jobs, ..QueueOverview::default() };
    queue.oldest = Some(at(1));
    queue.settings.concurrency = Concurrency::Serial;
    queue.held_by = Some(("0190163d-8694-739b-aea5-966c26f8ad90".parse().unwrap(), TaskName::new("extract").unwrap()));
    queue.settings.rate = Some("10/1m".parse().unwrap());
    queue.settings.block = vec!["Mon-Fri 09:00-17:00 Europe/Berlin".parse().unwrap()];
    let oldest = Some(at(1));
    let mut group = GroupOverview { jobs, later: 1, oldest, ahead: Charge::default(), ..GroupOverview::default() };
    group.settings.paused = paused;
    group.settings.max_waiting = Some(1_000);
    let mut limited = LimitOverview { jobs, nodes: 1, ..LimitOverview::default() };
    limited.settings.concurrency = Some(2);
    Overview {
        now: at(5),
        all: jobs,
        counted_at: at(4),
        groups_in_all: 1,
        more: false,
        queues: [(crate::QueueName::new("slow").unwrap(), queue)].into(),
        groups: [(crate::GroupName::new("acme").unwrap(), group)].into(),
        tasks: [(TaskName::new("extract").unwrap(), limited.clone())].into(),
        keys: [(crate::KeyName::new("db").unwrap(), limited)].into(),
    }
}

fn periodic() -> (crate::schedules::ScheduleName, Periodic) {
    let NewJob { task, args, queue, group, priority, retry, key, terms, .. } =
        JobRequest::from_json("report", "null").into_job(at(0)).unwrap();
    let (overlap, catch_up, paused, since) = (Default::default(), Default::default(), None, at(0));
    let when = crate::schedules::When::every("1h").unwrap();
    let periodic =
        Periodic { when, task, args, queue, group, priority, retry, key, terms, overlap, catch_up, paused, since };
    (crate::schedules::ScheduleName::new("hourly").unwrap(), periodic)
}

fn token() -> access::CreatedToken {
    let secret = access::Secret::from_random([7; 32]);
    let limits = access::Limits { groups: Some([crate::GroupName::new("acme").unwrap()].into()), ..Default::default() };
    let token = access::Token {
        id: access::TokenId(id(3).uuid()),
        name: turnwise_core::TokenName::new("nightly import").unwrap(),
        prefix: secret.prefix().to_owned(),
        grant: access::Grant::new([access::Scope::Submit, access::Scope::Read], limits).unwrap(),
        rate: std::num::NonZeroU32::new(50),
        created_at: at(0),
        expires_at: Some(at(60)),
        last_used_at: None,
        revoked_at: None,
    };
    access::CreatedToken { token, secret }
}

/// What a ticket gives that is made with this token.
fn given(token: &access::Token) -> access::FoundTicket {
    let grant = access::Grant::of_ticket([access::Scope::Read], token.grant.limits().clone()).unwrap();
    let origins = vec!["https://app.example".to_owned()];
    access::FoundTicket { token: token.clone(), grant, origins, until: at(900), now: at(0) }
}

fn audit(token: &access::Token) -> crate::audit::AuditPage {
    let line = crate::audit::AuditLine {
        id: crate::audit::AuditId(id(4).uuid()),
        at: at(5),
        actor: crate::audit::Actor::token(token),
        verb: "set".to_owned(),
        target: "queue:slow".to_owned(),
        before: Some(json(r#"{"weight":1.0}"#)),
        after: Some(json(r#"{"weight":2.5}"#)),
    };
    crate::audit::AuditPage::of(vec![line.clone(), line], 1)
}

fn counted() -> ([crate::statistics::Point; 1], [crate::statistics::ErrorCounts; 1]) {
    use crate::statistics::{Counted, ErrorCount, ErrorCounts, ErrorRow, Fingerprint, Of, Point, Row, Step, Sums};
    use crate::{GroupName, QueueName};
    let (queue, task) = (QueueName::new("slow").unwrap(), TaskName::new("extract").unwrap());
    let mut sums = Sums::of_share(2_500_000, 1_250_000);
    sums.tally(Counted::Started, 2, 1_500);
    sums.put(Counted::Started, 3, 2);
    sums.tally(Counted::Success, 1, 2_500_000);
    sums.put(Counted::Success, 18, 1);
    let row = Row { queue: queue.clone(), of: Of::Group(GroupName::new("acme").unwrap()), sums };
    let fingerprint = Fingerprint::from_number(0xc0_ffee);
    let error = ErrorRow { queue, task, fingerprint, count: 3, first: at(1), last: at(5) };
    let counts = vec![ErrorCount { at: at(0), step: Step::Minute, count: 3 }];
    ([Point { at: at(0), step: Step::Minute, row }], [ErrorCounts { row: error, counts }])
}

fn simulated() -> crate::view::Comparison {
    let (before, task) = (crate::view::Simulation::example(), TaskName::new("extract").unwrap());
    let after = crate::view::Simulation { slots: 8, complete: true, ..before.clone() };
    crate::view::Comparison { before: crate::view::Simulation { guessed: [task].into(), ..before }, after }
}

#[test]
fn every_shape_is_as_in_the_file() {
    let (job, story, node, overview, (name, periodic)) = (job(), story(), node(), overview(), periodic());
    let token = token();
    let [ticket, bearer] = [access::Secret::of_ticket([7; 32]), access::Secret::of_bearer([8; 32])];
    let given = given(&token.token);
    let audit = audit(&token.token);
    let (points, errors) = counted();
    let gates = vec![
        why::Gate::NotDue(at(60)),
        why::Gate::AtLimit { whose: why::Whose::Queue(job.queue.clone()), used: 1, limit: 1 },
    ];
    let forecast = Some(Forecast::new(2, Duration::from_millis(4_200)));
    let answer =
        Answer { job: job.clone(), now: at(5), why: Some(why::Why::new(gates, forecast)), guessed: false, lost: false };
    let (queue_name, queue) = overview.queues.first_key_value().unwrap();
    let (group_name, group) = overview.groups.first_key_value().unwrap();
    let (task_name, task) = overview.tasks.first_key_value().unwrap();
    let (key_name, key) = overview.keys.first_key_value().unwrap();
    let last = crate::schedules::LastTime { at: at(0), job: Some(id(1)) };
    let fleet = |nodes| crate::Fleet {
        now: at(5),
        nodes,
        losses: Vec::new(),
        workers: Default::default(),
        drained: Default::default(),
    };
    let (fleet, no_fleet) = (fleet(vec![node.clone()]), fleet(Vec::new()));
    let comparison = simulated();
    let (head, held, ended, progress) = (head(&job), held(&job), ended(&job), story::Progress::new(3, 10, "pages"));
    let forgotten = crate::watch::Change { id: id(1), ran: None, failed: false, well: true, error: None, head: None };
    let graph = graph::Graph { jobs: vec![tied(1, Some(job.clone()), &[]), tied(2, None, &[1])], more: false };
    let findings = [
        crate::doctor::Finding::fine("schema", "version 35"),
        crate::doctor::Finding::bad("dispatcher", "there is none", "start a node with `turnwise serve`"),
    ];
    let shapes = Shapes {
        request: wire::Request::read(REQUEST).unwrap(),
        outcomes: OUTCOMES.iter().map(|text| wire::Outcome::read(text).unwrap()).collect(),
        job: wire::JobInFull::new(
            wire::Job::new(&job, &Settings::default(), &[why::Gate::NotDue(at(60))], [], Secrets::none()),
            &story,
        ),
        why: wire::Why::new(&answer),
        node: wire::Node::new(&node, at(5)),
        queue: wire::Queue::new(queue_name, queue, &overview),
        group: wire::Group::new(group_name, group, &overview),
        task: wire::Task::new(task_name, task, &overview),
        key: wire::Key::new(key_name, key, &overview),
        schedule: wire::Schedule::new(&name, &periodic, Some(&last), at(5), Secrets::none()),
        graph: wire::Graph::new(&graph),
        token: wire::CreatedToken::new(&token),
        tokens: wire::Tokens::new(std::slice::from_ref(&token.token), at(5)),
        logged_in: wire::LoggedIn::with(&token.token, Some(at(1))),
        ticket: wire::CreatedTicket::new(&ticket, at(60), &given.origins),
        redeemed: wire::Redeemed::new(&bearer, &given),
        audit: wire::AuditLines::new(&audit),
        statistics: wire::Statistics::new(&points, None),
        errors: wire::Errors::new(&errors),
        findings: wire::Findings::new(&findings),
        log: wire::Log::new(&story, None, &Mask::default()),
        jobs: wire::Jobs::new(Vec::new(), Some(crate::ListCursor::after(id(1))), Some(at(1))),
        queues: wire::Queues::new(Vec::new(), &overview, Some(queue_name)),
        groups: wire::Groups::new(Vec::new(), &overview, Some(group_name)),
        tasks: wire::Tasks::new(Vec::new(), &overview, Some(task_name)),
        keys: wire::Keys::new(Vec::new(), &overview, Some(key_name)),
        schedules: wire::Schedules::new(Vec::new(), Some(&name)),
        nodes: wire::Nodes::new(&no_fleet),
        overview: wire::Overview::new(&overview, Some(&fleet)),
        submitted: wire::Submitted::new(&crate::Submitted::held_by(id(1), crate::Duplicate::Kept)),
        submitted_all: wire::SubmittedAll::new(&[crate::Submitted::itself(id(1), true)]),
        decided: wire::Decided::cancelled(id(1), crate::Cancelled::Requested),
        preview: wire::Preview::new(2, Some(id(1)), Some(crate::ListCursor::after(id(1))), Some(at(1))),
        decided_all: wire::DecidedAll {
            decided: 1,
            requested: 1,
            left: vec![id(1)],
            more: false,
            next: None,
            reached: None,
        },
        pruned: wire::Pruned::new(3, false),
        queue_set: wire::QueueSet::new("slow", &queue.settings),
        group_set: wire::GroupSet::new("acme", &group.settings),
        limit_set: wire::LimitSet::new("extract", task.settings),
        installation_set: wire::InstallationSet::new(crate::settings::InstallationSettings::default()),
        reset: wire::Reset::new(true),
        node_set: wire::NodeSet::new(&node.name, true),
        comparison: wire::Comparison::new(&comparison),
        events: vec![
            wire::Event::Submitted { at: at(5), job: wire::EventJob::new(&head) },
            wire::Event::Started { at: at(5), job: wire::EventJob::held(&held) },
            wire::Event::Progress {
                at: at(5),
                job: wire::EventJob::held(&held),
                progress: wire::Progress::new(&progress, &Mask::default()),
            },
            wire::Event::Ended { at: at(5), job: wire::EventJob::ended(&ended) },
            wire::Event::Ended { at: at(5), job: wire::EventJob::forgotten(&forgotten) },
            wire::Event::Node { at: at(5), change: "joined", node: Box::new(wire::Node::new(&node, at(5))) },
            wire::Event::Dispatcher { at: at(5), node: Some(&node.name) },
            wire::Event::Queue {
                at: at(5),
                change: "paused",
                queue: Box::new(wire::QueueSet::new("slow", &queue.settings)),
            },
            wire::Event::Reset { reason: "read again" },
            wire::Event::Closed { reason: "the server stops" },
        ],
    };
    let text = serde_json::to_string_pretty(&shapes).unwrap() + "\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/wire/shapes.json");
    if std::env::var_os("TURNWISE_WRITE_SHAPES").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    let differs = known.lines().zip(text.lines()).find(|(known, text)| known != text);
    assert!(
        known == text,
        "what programs read has changed, first here (file, now): {differs:?}; if that is meant, say so in CHANGELOG.md"
    );
}

#[test]
fn what_comes_in_is_what_goes_out() {
    let request = wire::Request::read(REQUEST).unwrap();
    assert_eq!(serde_json::to_string(&request).unwrap(), REQUEST);
    let job = request.to_request().unwrap().into_job(at(0)).unwrap();
    assert_eq!((job.task.as_str(), job.args.as_str(), job.priority.get()), ("extract", r#"{"document":7}"#, 3));
    let step = job.terms.on_exhausted().unwrap();
    assert_eq!((step.task.as_str(), step.args.as_str()), ("apologise", r#"{"document":7}"#));
    assert_eq!((job.due, job.expires), (Some(at(600)), Some(at(86_400))));
    for text in OUTCOMES {
        let outcome = wire::Outcome::read(text).unwrap();
        assert_eq!(serde_json::to_string(&outcome).unwrap(), text);
        outcome.to_outcome().unwrap();
    }
    let done = wire::Outcome::read(r#"{"outcome":"done","result":1.50}"#).unwrap().to_outcome().unwrap();
    let said = serde_json::value::RawValue::from_string("1.50".to_owned()).unwrap();
    assert_eq!(done, crate::Outcome::done_with(&said), "digits are kept");
    let snoozed = wire::Outcome::read(r#"{"outcome":"snooze","for":"2s"}"#).unwrap().to_outcome().unwrap();
    assert_eq!(snoozed, crate::Outcome::snooze(Duration::from_secs(2)));
}

#[test]
fn the_error_of_a_wrong_outcome_begins_with_the_name_of_the_value() {
    for (text, expected) in [
        (r#"{}"#, "outcome: is missing"),
        (r#"{"outcome":"well"}"#, "outcome: must be done, error, fail, snooze, cancelled or next, not \"well\""),
        (r#"{"outcome":"error"}"#, "error: is missing"),
        (r#"{"outcome":"error","error":7}"#, "error: must be a text, not 7"),
        (r#"{"outcome":"done","error":"x"}"#, "error: has no effect with the outcome done"),
        (r#"{"outcome":"snooze","for":"soon"}"#, "for: "),
        (r#"{"outcome":"next","job":{"tusk":"t"}}"#, "job: unknown name \"tusk\""),
        (r#"{"outcome":"next"}"#, "job: is missing"),
        (r#"{"outcome":"done","outcome":"fail"}"#, "outcome: is given twice"),
        ("7", "must be a JSON object, not a number"),
    ] {
        let error = wire::Outcome::read(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    let next = wire::Outcome::read(r#"{"outcome":"next","job":{"args":1}}"#).unwrap();
    assert_eq!(next.to_outcome().unwrap_err().to_string(), "job: task: is missing");
    let next = wire::Outcome::read(r#"{"outcome":"next","job":{"task":"t","group":"acme"}}"#).unwrap();
    let refusal = "job: group: has no effect on the next step; the job keeps its own";
    assert_eq!(next.to_outcome().unwrap_err().to_string(), refusal);
}

#[test]
fn progress_is_read_as_it_is_shown() {
    let progress = story::Progress::new(3, 10, "pages");
    let text = serde_json::to_string(&wire::Progress::new(&progress, &Mask::default())).unwrap();
    assert_eq!(wire::Progress::read(&text).unwrap(), progress);
    assert_eq!(wire::Progress::read(r#"{"done":3}"#).unwrap(), story::Progress::new(3, 0, ""));
    for (text, expected) in [
        (r#"{"total":3}"#, "done: is missing"),
        (r#"{"done":-1}"#, "done: must be a whole number, not -1"),
        (r#"{"done":1,"of":2}"#, "unknown name \"of\"; known are done, total, text"),
        (r#"{"done":1"#, "EOF"),
    ] {
        let error = wire::Progress::read(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

#[test]
fn a_wrong_value_has_its_place_as_a_pointer() {
    for (text, pointer, malformed) in [
        (r#"{"jobs":[{"task":"t"},{"task":"t","priority":0}]}"#, "/jobs/1/priority", false),
        (r#"{"jobs":[{"task":7}]}"#, "/jobs/0/task", false),
        (r#"{"jobs":[{"a/b":7}]}"#, "/jobs/0/a~1b", false),
        (r#"{"jobs":[7]}"#, "/jobs/0", false),
        (r#"{"jobs":7}"#, "/jobs", false),
        (r#"{}"#, "/jobs", false),
        (r#"{"jobs":[{},{},{}]}"#, "/jobs", false),
        (r#"[]"#, "", false),
        (r#"{"jobs":[}"#, "/jobs", true),
        (r#"{"jobs":[]} x"#, "", true),
    ] {
        let unreadable = wire::Batch::read(text, 2).unwrap_err();
        assert_eq!((unreadable.pointer().as_str(), unreadable.is_malformed()), (pointer, malformed), "{text}");
    }
    let batch = wire::Batch::read(r#"{"jobs":[{"task":"t"},{"task":"t","after":"nobody"}]}"#, 2).unwrap();
    assert_eq!(batch.len(), 2);
    let misfit = batch.link().unwrap_err();
    assert_eq!((misfit.at, misfit.field), (1, "after"));
}

#[test]
fn a_change_leaves_what_it_does_not_name_and_null_is_the_default() {
    let mut queue = overview().queues.pop_first().unwrap().1.settings;
    let before = queue.clone();
    wire::QueueChange::read("{}").unwrap().apply(&mut queue);
    assert_eq!(queue, before);
    let change =
        r#"{"weight":2.5,"rate":null,"concurrency":null,"block":null,"schedule":"0 2 * * *","zone":"Europe/Berlin"}"#;
    wire::QueueChange::read(change).unwrap().apply(&mut queue);
    assert_eq!((queue.rate, queue.concurrency, queue.block.len()), (None, Concurrency::Unlimited, 0));
    assert_eq!(queue.weight.to_string(), "2.5");
    assert!(queue.schedule.is_some());
    for (text, pointer) in [
        (r#"{"weight":0}"#, "/weight"),
        (r#"{"zone":"UTC"}"#, "/zone"),
        (r#"{"per_node":0}"#, "/per_node"),
        (r#"{"paused":true}"#, "/paused"),
        (r#"{"after":[""]}"#, "/after"),
    ] {
        assert_eq!(wire::QueueChange::read(text).unwrap_err().pointer(), pointer, "{text}");
    }
    assert_eq!(wire::WhatIf::read(r#"{"weights":{"a":0}}"#).unwrap_err().pointer(), "/weights");
    assert_eq!(wire::WhatIf::read(r#"{"weights":[]}"#).unwrap_err().pointer(), "/weights");
}

#[test]
fn a_place_in_a_log_is_read_as_it_is_shown() {
    let story = story();
    let next = wire::Log::new(&story, None, &Mask::default()).next.unwrap();
    assert_eq!(wire::Log::read_after(&next).unwrap(), story.lines[0].at);
    assert!(wire::Log::read_after("3").is_err());
}
