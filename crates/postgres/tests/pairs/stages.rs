//! What is there before two calls meet, and the calls.

use turnwise_core::{
    After, Fence, GroupName, Incarnation, JobId, NewJob, OnFailure, OnceKey, Priority, QueueName, Retention, Unique,
    UniqueKey,
    audit::{Actor, AuditId, AuditVerb, NewAuditLine},
    lifecycle::{EditRequest, Event, Outcome},
    statistics::{Of, Row, Sums},
    story::{Finished, Level as LogLevel, Line, LineAt, Progress},
    unique::{Hold, OnDuplicate, Scope},
};
use turnwise_store::{
    AskLost, Beat, BodyHash, CountingTerm, Epoch, Expire, Intervention, Last, Load, MemoKind, NewMemo, Note, Replace,
    Settle, Settled, SubmitOnce, WriteStatistics,
    conformance::{OperatorHarness, scene::*},
};
use uuid::Uuid;

use super::{
    access,
    call::{Call, Level, Subject},
};

pub(crate) const DELTA: Incarnation = Incarnation(Uuid::from_u128(0xde17_0000_0000_4000_8000_0000_0000_0004));
/// It has not joined yet.
const OMEGA: Incarnation = Incarnation(Uuid::from_u128(0x03e6_0000_0000_4000_8000_0000_0000_0005));
const PSI: Incarnation = Incarnation(Uuid::from_u128(0x0951_0000_0000_4000_8000_0000_0000_0006));
/// The nodes that may hold jobs.
pub(crate) const NODES: [Incarnation; 4] = [ALPHA, BETA, GAMMA, DELTA];
/// Of submits that are done once: those of the calls, one that is in use, and one whose time is over.
pub(crate) const ONCE_KEYS: [&str; 6] = ["one", "two", "three", "four", "known", "ancient"];
pub(crate) const KEYS: [&str; 4] = ["busy", "kept", "spent", "free"];

/// The cast. Jobs that have ended come first: jobs beyond them may be copied in bulk.
pub(crate) const OLD: u64 = 1; // failed two weeks ago: its time is over
const ENDED: u64 = 2;
const CANCELLED: u64 = 3;
const KEPT: u64 = 9; // waiting, with a key within its queue
const WAITING: u64 = 10;
const OTHER: u64 = 11;
const STUCK: u64 = 12;
const TAKEN: u64 = 13; // scheduled, in beta's hands
const RUNS: u64 = 14; // running on beta, with the key "busy"
const KEYED: u64 = 15; // waiting, with the key "kept"
const AFTER_RUNS: u64 = 16;
pub(crate) const SILENT: u64 = 17; // in the hands of gamma, which has not beaten in time
pub(crate) const LOST: u64 = 18; // in the hands of delta, which is lost
pub(crate) const AFTER_OLD: u64 = 19;
const NEW: u64 = 20; // and all that follow: not there yet; each call has ids of its own, but for repeats
const NEWER: u64 = 21;
const BULK: u64 = 1_000;

pub(crate) const MEMOS: [(MemoKind, &str); 3] =
    [(MemoKind::Queue, "old"), (MemoKind::Queue, "new"), (MemoKind::Full, "tight")];
/// Jobs that have not ended.
pub(crate) const UNFINISHED: std::ops::RangeInclusive<u64> = KEPT..=AFTER_OLD;

/// Whether it is a row of this stage that a stranger may lock.
pub(crate) fn is_there(stage: Stage, subject: &Subject) -> bool {
    match subject {
        Subject::Job(job) if *job == id(AFTER_OLD) => stage != Stage::NothingKept,
        Subject::Job(job) => UNFINISHED.map(id).any(|id| id == *job),
        Subject::Key(key) => key != "free",
        Subject::Memo(_, name) => name == "old",
        Subject::Node(node) => NODES.contains(node),
        Subject::Lead => true,
        Subject::Once(key) => key == "known" || key == "ancient",
        Subject::Statistics => true,
        Subject::Token(n) | Subject::Login(n) | Subject::Ticket(n) => *n == 1,
        Subject::Name(_) | Subject::History => false,
    }
}

/// Jobs that have stories.
pub(crate) const WITH_STORIES: [u64; 4] = [OLD, RUNS, SILENT, LOST];

/// Ids of the cast are from here on; those that the database chooses are below.
pub(crate) const TASKS_ID_FROM: JobId = JobId::from_uuid(Uuid::from_u128(0x01b8_0000_0000_0000_0000_0000_0000_0000));

/// What is there before two calls meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Alpha dispatches, beta works, gamma is silent, delta is lost; a job in every state.
    Fleet,
    /// The same, where nothing is kept of jobs that have ended.
    NothingKept,
    /// The same, and alpha has not beaten in time either: the lead is free to take.
    Leaderless,
}

impl Stage {
    pub(crate) const ALL: [Stage; 3] = [Self::Fleet, Self::NothingKept, Self::Leaderless];

    pub(crate) fn retention(self) -> Retention {
        match self {
            Self::NothingKept => Retention::all(std::time::Duration::ZERO),
            _ => Retention::default(),
        }
    }

    pub(crate) async fn make(self, h: &impl OperatorHarness) -> Scene {
        let scene = Scene::led(h).await;
        let store = &scene.store;
        let operators = h.operators().await;
        operators.submit_once(once("ancient", vec![])).await.expect("submit once");
        for (node, name) in [(GAMMA, "gamma"), (DELTA, "delta")] {
            store.join(join(node, name)).await.expect("join");
        }
        // Slices of history are made by pruning.
        store.prune(None, ALL).await.expect("prune");
        let spent = Unique { hold: Hold::For(SECOND), ..key("spent") };
        scene.submit(vec![NewJob { unique: Some(Box::new(spent)), ..job_with_retry(OLD, "none") }]).await;
        scene.enqueue([LOST]).await;
        scene.give(1, &[OLD], BETA).await;
        scene.give(2, &[LOST], DELTA).await;
        scene.end(BETA, OLD, failed("long ago")).await;
        h.advance(RETENTION * 2).await;
        for (node, lead) in [(ALPHA, true), (BETA, false), (GAMMA, false)] {
            store.beat(beat(node, lead)).await.expect("beat");
        }
        assert_eq!(scene.lost().await.len(), 1, "delta");

        scene.enqueue([ENDED, CANCELLED, WAITING, OTHER, TAKEN, SILENT]).await;
        scene.submit(vec![job_with_retry(STUCK, "manual")]).await;
        scene.submit(vec![with_key(job_with_retry(RUNS, "durations:1s"), key("busy"))]).await;
        scene.submit(vec![with_key(job(KEYED), key("kept"))]).await;
        scene.submit(vec![with_key(job(KEPT), Unique { scope: Scope::Queue, ..key("queue") })]).await;
        scene.submit(vec![after(job(AFTER_RUNS), RUNS, OnFailure::Fail)]).await;
        if self != Self::NothingKept {
            scene.submit(vec![after(job(AFTER_OLD), OLD, OnFailure::Run)]).await;
        }
        scene.give(3, &[SILENT], GAMMA).await;
        scene.give(4, &[TAKEN], BETA).await;
        scene.give(5, &[RUNS, STUCK, ENDED], BETA).await;
        scene.start(BETA, RUNS).await;
        assert_eq!(scene.note(BETA, said(1)).await, Settled::Applied);
        scene.end(BETA, STUCK, failed("stuck")).await;
        scene.end(BETA, ENDED, done()).await;
        scene.intervene(CANCELLED, Event::Cancel).await;
        scene.remember(memo(MemoKind::Queue, "old", "1")).await;
        h.advance(LEASE + SECOND).await;
        store.beat(beat(BETA, false)).await.expect("beat");
        if self != Self::Leaderless {
            store.beat(beat(ALPHA, true)).await.expect("beat");
        }
        operators.submit_once(once("known", vec![])).await.expect("submit once");
        access::make(&*operators).await;
        assert_eq!(operators.begin_statistics(scene.epoch).await.expect("begin").term, TERM);
        // What is written from now on has another time.
        h.advance(SECOND).await;
        scene
    }

    /// The calls of this stage, by name.
    pub(crate) async fn calls(self, scene: &Scene) -> Vec<(String, Call)> {
        let mut calls = Vec::new();
        match self {
            Self::Fleet => {
                submits(&mut calls);
                onces(&mut calls);
                statistics(scene.epoch, &mut calls);
                let accesses = access::CALLS.map(|(name, access)| (format!("a server {name}"), Call::Access(access)));
                calls.extend(accesses);
                own_transactions(scene, &mut calls).await;
                nodes(scene, &mut calls).await;
                jobs(scene, &mut calls).await;
                memos(scene, &mut calls);
                readers(&mut calls);
            }
            Self::NothingKept => {
                submits(&mut calls);
                onces(&mut calls);
                own_transactions(scene, &mut calls).await;
                jobs(scene, &mut calls).await;
            }
            Self::Leaderless => {
                nodes(scene, &mut calls).await;
                // A dispatcher that is out of contact itself declares no node lost.
                calls.retain(|(_, call)| !matches!(call, Call::Lost(_)));
                memos(scene, &mut calls);
            }
        }
        calls
    }
}

type Calls = Vec<(String, Call)>;

fn submits(calls: &mut Calls) {
    let mut add = |name: &str, jobs: Vec<NewJob>| calls.push((format!("submit {name}"), Call::Enqueue(jobs)));
    add("new", vec![job(NEW)]);
    add("new and newer", vec![job(NEW), job(NEWER)]);
    for (name, n) in [
        ("waiting", WAITING),
        ("running", RUNS),
        ("stuck", STUCK),
        ("ended", ENDED),
        ("cancelled", CANCELLED),
        ("old", OLD),
    ] {
        add(&format!("{name} again"), vec![job(n)]);
    }
    let mut many = vec![job(RUNS), job(WAITING)];
    many.extend((BULK..BULK + 198).map(job));
    add("many, with running and waiting again", many.clone());
    many[0] = job(BULK + 198);
    many[1] = job(BULK + 199);
    add("many", many);
    let again = with_key(job_with_retry(RUNS, "durations:1s"), key("busy"));
    add("running again with its key", vec![again]);
    add("after running", vec![after(job(22), RUNS, OnFailure::Fail)]);
    add("after old", vec![after(job(23), OLD, OnFailure::Fail)]);
    add("after waiting and new", vec![job(NEW), after(job(24), WAITING, OnFailure::Cancel)]);
    add("with a free key", vec![with_key(job(25), key("free"))]);
    add("with a free key, a rival", vec![with_key(job(26), key("free"))]);
    add("with a free key or not at all", vec![with_key(job(27), on_duplicate("free", OnDuplicate::Reject))]);
    add("with the key of a running job", vec![with_key(job(28), key("busy"))]);
    add("with a spent key", vec![with_key(job(29), key("spent"))]);
    let other = NewJob { args: json(r#"{"other":true}"#), ..job(30) };
    add("other arguments", vec![with_key(other, on_duplicate("kept", OnDuplicate::ReplaceArgs))]);
    add("keyed again", vec![with_key(job(KEYED), key("kept"))]);
    add("to a tight group", vec![NewJob { group: GroupName::new("tight").expect("a good name"), ..job(31) }]);
}

/// A submit that is done once.
pub(crate) fn once(key: &str, jobs: Vec<NewJob>) -> SubmitOnce {
    SubmitOnce { caller: None, key: OnceKey::new(key).expect("a good key"), body: BodyHash([1; 32]), jobs, line: None }
}

fn onces(calls: &mut Calls) {
    let mut add = |name: &str, submit: SubmitOnce| calls.push((format!("submit once {name}"), Call::Once(submit)));
    add("new", once("one", vec![job(NEW)]));
    // A server gives the jobs of a repeat ids of their own.
    add("newer under the same key", once("one", vec![job(NEWER)]));
    add("another body under the same key", SubmitOnce { body: BodyHash([2; 32]), ..once("one", vec![job(60)]) });
    add("running again", once("two", vec![job(RUNS)]));
    add("with a free key of the job's", once("three", vec![with_key(job(61), key("free"))]));
    add("after running", once("four", vec![after(job(62), RUNS, OnFailure::Fail)]));
    add("what is known", once("known", vec![job(63)]));
    add("under an ancient key", once("ancient", vec![job(64)]));
}

/// Of the dispatcher that has begun to count.
const TERM: CountingTerm = CountingTerm(1);

fn statistics(epoch: Epoch, calls: &mut Calls) {
    let mut add = |name: &str, call: Call| calls.push((name.to_owned(), call));
    add("alpha writes totals", Call::Totals(ALPHA, epoch));
    add("alpha begins to count", Call::BeginStatistics(epoch));
    let mut sums = Sums::default();
    sums.used = 7;
    let row = || Row { queue: QueueName::default(), of: Of::Task(task("mail")), sums: sums.clone() };
    let write = |first| WriteStatistics {
        term: TERM,
        at: turnwise_core::Timestamp::from_micros(1_893_456_000_000_000),
        first,
        rows: vec![row()],
        errors: vec![],
        totals: vec![row()],
    };
    add("alpha writes statistics", Call::WriteStatistics(write(true)));
    add("alpha writes more statistics", Call::WriteStatistics(write(false)));
}

/// A line of the audit log: a person does this.
fn audited(n: u128, target: &str) -> Option<Box<NewAuditLine>> {
    Some(Box::new(NewAuditLine {
        id: AuditId(Uuid::from_u128(n)),
        actor: Actor::named("alice").expect("a good name"),
        verb: AuditVerb::Set,
        target: target.parse().expect("a target"),
        before: None,
        after: None,
    }))
}

async fn own_transactions(scene: &Scene, calls: &mut Calls) {
    for level in Level::ALL {
        let mut add = |name: &str, call: Call| calls.push((format!("{} at {}", name, level.sql()), call));
        let within = |jobs| Call::EnqueueIn(level, jobs);
        add("submit new within", within(vec![job(NEW)]));
        add("submit running again within", within(vec![job(RUNS)]));
        add("submit waiting again within", within(vec![job(WAITING)]));
        add("submit after running within", within(vec![after(job(40), RUNS, OnFailure::Fail)]));
        add("submit after old within", within(vec![after(job(41), OLD, OnFailure::Fail)]));
        add("submit with a free key within", within(vec![with_key(job(42), key("free"))]));
        add("submit with the key of a running job within", within(vec![with_key(job(43), key("busy"))]));
        // The database chooses the id.
        let sql = |job| Call::EnqueueSql(level, Box::new(job));
        add("SQL submits with a free key", sql(with_key(job(50), key("free"))));
        add("SQL submits with the key of a running job", sql(with_key(job(51), key("busy"))));
        let other = NewJob { args: json(r#"{"other":true}"#), ..job(52) };
        add("SQL submits other arguments", sql(with_key(other, on_duplicate("kept", OnDuplicate::ReplaceArgs))));
        add("SQL submits after running", sql(after(job(53), RUNS, OnFailure::Fail)));
        add("the task of running ends", close(scene, level, RUNS, BETA).await);
        add("the task of silent ends", close(scene, level, SILENT, GAMMA).await);
    }
}

async fn close(scene: &Scene, level: Level, n: u64, node: Incarnation) -> Call {
    let settlement = scene.settlement(n, &Event::Ended(done())).await;
    let last = Last { node, told: None, settlement, note: None };
    Call::Close(level, Box::new(last), Box::new(job(NEWER)))
}

async fn nodes(scene: &Scene, calls: &mut Calls) {
    let mut add = |name: &str, call: Call| calls.push((name.to_owned(), call));
    for (name, node) in [("alpha", ALPHA), ("beta", BETA), ("gamma", GAMMA)] {
        add(&format!("{name} beats and would lead"), Call::Beat(beat(node, true)));
    }
    // Alpha is taken for dead; it may be beating just now.
    let look = Beat { only_look: true, ..beat(BETA, true) };
    let term = scene.store.beat(look).await.expect("look").leader.expect("alpha").term;
    for (name, node) in [("beta", BETA), ("gamma", GAMMA)] {
        let beat = Beat { over: Some(term), ..beat(node, true) };
        add(&format!("{name} takes the lead before its time"), Call::Beat(beat));
    }
    add("alpha beats and gives up the lead", Call::Beat(beat(ALPHA, false)));
    add("beta beats with other slots", Call::Beat(Beat { slots: 7, ..beat(BETA, false) }));
    for (name, node) in [("alpha", ALPHA), ("beta", BETA), ("gamma", GAMMA), ("delta", DELTA)] {
        add(&format!("{name} leaves"), Call::Leave(node));
    }
    add("omega joins", Call::Join(Box::new(join(OMEGA, "omega"))));
    add("psi joins as omega", Call::Join(Box::new(join(PSI, "omega"))));
    let fleet = scene.store.nodes().await.expect("nodes").nodes;
    for (name, other) in [("alpha", ALPHA), ("gamma", GAMMA)] {
        let seen = fleet.iter().find(|node| node.incarnation == other).expect("it has joined");
        let replace = Some(Replace { incarnation: other, lease_until: seen.lease_until });
        let join = turnwise_store::Join { replace, ..join(OMEGA, name) };
        add(&format!("omega replaces {name}"), Call::Join(Box::new(join)));
    }
    let ask = AskLost { holder: ALPHA, epoch: scene.epoch, expire: Expire::by_the_clock(), limit: ALL };
    add("alpha calls silent nodes lost", Call::Lost(ask));
    for (name, node, number, jobs) in [
        ("waiting and other to beta", BETA, 20, &[WAITING, OTHER][..]),
        ("waiting to itself", ALPHA, 21, &[WAITING]),
        ("stuck and other to gamma", GAMMA, 22, &[OTHER, STUCK]),
    ] {
        let picks = scene.picks(jobs, node).await;
        add(&format!("alpha assigns {name}"), Call::Assign(scene.order(number, picks)));
    }
    for (name, n, node, bury) in [("lost", LOST, DELTA, true), ("silent", SILENT, GAMMA, false)] {
        let settlements = vec![scene.settlement(n, &Event::NodeLost).await];
        let settle = Settle { author: scene.for_lost(node, bury), settlements, done: vec![] };
        add(&format!("alpha takes {name}"), Call::Settle(settle));
        let settlements = vec![scene.settlement(n, &Event::Ended(done())).await];
        let settle = Settle { author: by(node), settlements, done: vec![] };
        add(&format!("{name} ends after all"), Call::Settle(settle));
    }
}

async fn jobs(scene: &Scene, calls: &mut Calls) {
    let mut add = |name: &str, call: Call| calls.push((name.to_owned(), call));
    let step = Outcome::Next { step: Box::new(step("extract")), due: None };
    for (name, event) in [
        ("ends well", Event::Ended(done())),
        ("fails and is stuck", Event::Ended(failed("x"))),
        ("fails for good", Event::Ended(Outcome::Fail("no".into()))),
        ("snoozes", Event::Ended(Outcome::Snooze { wait: SECOND })),
        ("goes on with another step", Event::Ended(step)),
    ] {
        let settlements = vec![scene.settlement(RUNS, &event).await];
        add(&format!("running {name}"), Call::Settle(Settle { author: by(BETA), settlements, done: vec![batch(5)] }));
    }
    let settlements = vec![scene.settlement(TAKEN, &Event::Start).await];
    add("taken starts", Call::Settle(Settle { author: by(BETA), settlements, done: vec![] }));
    let mut settlements = vec![scene.settlement(RUNS, &Event::Ended(done())).await];
    settlements.push(scene.settlement(TAKEN, &Event::Ended(done())).await);
    add(
        "taken and running end",
        Call::Settle(Settle { author: by(BETA), settlements, done: vec![batch(4), batch(5)] }),
    );
    add("running says something", Call::Note(BETA, vec![said(2)]));
    for (name, n, event) in [
        ("cancels waiting", WAITING, Event::Cancel),
        ("cancels running", RUNS, Event::Cancel),
        ("cancels the keyed", KEYED, Event::Cancel),
        ("gives up the stuck", STUCK, Event::GiveUp),
        ("retries the stuck", STUCK, Event::Retry),
        ("retries the cancelled", CANCELLED, Event::Retry),
        ("retries the old", OLD, Event::Retry),
    ] {
        if scene.find(n).await.is_some() {
            let decision = scene.intervention(n, &event).await;
            add(&format!("a person {name}"), Call::Control(vec![decision]));
        }
    }
    let decision = scene.intervention(WAITING, &Event::Cancel).await;
    let line = audited(1, &format!("job:{}", id(WAITING)));
    add("a person cancels waiting, audited", Call::Control(vec![Intervention { line, ..decision }]));
    let priority = Some(Priority::HIGH);
    let due = Some(scene.now().await.plus(SECOND * 60));
    let queue = Some(QueueName::new("other").expect("a good name"));
    for (name, n, asked) in [
        ("moves waiting", WAITING, EditRequest { queue: queue.clone(), ..EditRequest::default() }),
        ("puts waiting first", WAITING, EditRequest { priority, ..EditRequest::default() }),
        ("postpones the stuck", STUCK, EditRequest { due, ..EditRequest::default() }),
        ("moves the keyed", KEYED, EditRequest { queue: queue.clone(), ..EditRequest::default() }),
        ("moves one that is kept by its key", KEPT, EditRequest { queue: queue.clone(), ..EditRequest::default() }),
        ("moves one that waits for running", AFTER_RUNS, EditRequest { queue: queue.clone(), due, priority }),
    ] {
        add(&format!("a person {name}"), Call::Control(vec![edit_of(scene, n, &asked).await]));
    }
    let asked = EditRequest { queue, ..EditRequest::default() };
    let mut both = vec![edit_of(scene, WAITING, &asked).await];
    both.push(edit_of(scene, OTHER, &asked).await);
    add("a person moves waiting and other", Call::Control(both));
    let mut both = vec![scene.intervention(WAITING, &Event::Cancel).await];
    both.push(scene.intervention(OTHER, &Event::Cancel).await);
    add("a person cancels waiting and other", Call::Control(both));
    add("prune", Call::Prune);
    let picks = scene.picks(&[WAITING, OTHER], BETA).await;
    if !calls.iter().any(|(name, _)| name.starts_with("alpha assigns waiting and other")) {
        calls.push(("alpha assigns waiting and other to beta".into(), Call::Assign(scene.order(20, picks))));
    }
}

fn memos(scene: &Scene, calls: &mut Calls) {
    let lead = Some((ALPHA, scene.epoch));
    let mut add = |name: &str, lead, memo| calls.push((name.to_owned(), Call::Remember(lead, vec![memo])));
    let new = |value: &str| NewMemo { seen: Some(0), ..memo(MemoKind::Queue, "new", value) };
    add("remember what is not there", None, new("a"));
    add("another remembers what is not there", None, new("b"));
    add("alpha remembers what is not there", lead, new("c"));
    add("remember whatever is there", None, memo(MemoKind::Queue, "old", "2"));
    add("remember what was seen", None, NewMemo { seen: Some(1), ..memo(MemoKind::Queue, "old", "3") });
    let line = audited(2, "queue:old");
    add("remember what was seen, audited", None, NewMemo { seen: Some(1), line, ..memo(MemoKind::Queue, "old", "4") });
    add("forget", None, NewMemo { value: None, ..memo(MemoKind::Queue, "old", "") });
    add("alpha says that a group is full", lead, memo(MemoKind::Full, "tight", "the group is full"));
}

fn readers(calls: &mut Calls) {
    let ids = [WAITING, TAKEN, RUNS, AFTER_RUNS, STUCK].map(id).to_vec();
    calls.push(("load some".into(), Call::Load(Load::These(ids))));
    calls.push(("beta reads its mail".into(), Call::Mail(BETA)));
    for (name, n) in [("waiting", WAITING), ("running", RUNS), ("old", OLD)] {
        calls.push((format!("a person looks at {name}"), Call::Job(id(n))));
        calls.push((format!("a person reads the story of {name}"), Call::Story(id(n))));
    }
    calls.push(("a person looks at the nodes".into(), Call::Nodes));
    calls.push(("the dispatcher recalls".into(), Call::Recall));
}

fn key(name: &str) -> Unique {
    Unique::new(UniqueKey::new(name).expect("a good key"))
}

fn on_duplicate(name: &str, on_duplicate: OnDuplicate) -> Unique {
    Unique { on_duplicate, ..key(name) }
}

fn with_key(job: NewJob, unique: Unique) -> NewJob {
    NewJob { unique: Some(Box::new(unique)), ..job }
}

fn after(job: NewJob, awaited: u64, on_failure: OnFailure) -> NewJob {
    NewJob { after: After::new([id(awaited)], on_failure).expect("one"), ..job }
}

/// The `n`-th note of the running job.
fn said(n: u32) -> Note {
    let fence = Fence(1);
    let at = LineAt { fence, number: n };
    let time = turnwise_core::Timestamp::from_micros(1_893_456_000_000_000);
    Note {
        job: id(RUNS),
        fence,
        progress: Some(Progress::new(n.into(), 10, "on its way")),
        lines: vec![Line { at, time, level: LogLevel::Info, text: format!("line {n}") }],
        trim: false,
        steps: vec![Finished { name: format!("step {n}"), result: json("1") }],
    }
}
