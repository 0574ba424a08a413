//! Promises about moving everything to another database.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use async_trait::async_trait;
use turnwise_core::{
    After, Job, JobState, NewJob, OnFailure, Timestamp, TokenName, Unique, UniqueKey,
    access::{Grant, NewToken, TokenId},
    audit::{Actor, AuditId, AuditVerb, NewAuditLine},
    job::Counts,
    lifecycle::Event,
    secret::{Pointer, Secrets},
    statistics::{Counted, Of, Row, Span, Sums},
    story::{Finished, Level, Line, LineAt, Progress, Story},
};
use uuid::Uuid;

use super::{MoveHarness, scene::*};
use crate::{
    BodyHash, MoveStore, NewLogin, Secret, StoreError, SubmitOnce, WriteStatistics,
    moving::{
        Cell, Hindrance, Import, MoveId, MovedRow, Mover, Moving, PARTS, Part, Position, Side, Step, Sum, mover::Place,
    },
    store::*,
};

const MOVE: MoveId = MoveId(Uuid::from_u128(0x0e0e));

fn as_source() -> Moving {
    Moving::new(MOVE, Side::Source, "the other".to_owned())
}

fn as_target() -> Moving {
    Moving::new(MOVE, Side::Target, "the other".to_owned())
}

fn refused<T: std::fmt::Debug>(answer: Result<T>, part: &str) {
    match answer {
        Err(StoreError::Refused(text)) => assert!(text.contains(part) && text.contains("the other"), "{text}"),
        other => panic!("not refused: {other:?}"),
    }
}

async fn go(h: &impl MoveHarness) -> (Vec<Step>, Place, Place) {
    let (source, target) = (h.source().await, h.target().await);
    let mut steps = Vec::new();
    let mover = Mover::new(source.clone(), target.clone(), MOVE.0);
    mover.run(&mut |step| steps.push(step)).await.expect("move");
    (steps, source, target)
}

/// Alpha and beta were here, and have gone; jobs in every state, with all that may be told of one, and all that people and operators
/// have written.
async fn fill(h: &impl MoveHarness) {
    let scene = Scene::led(h).await;
    scene.enqueue(1..=4).await;
    let key = UniqueKey::new("k").expect("a good key");
    let unique = Unique::new(key);
    scene.submit(vec![NewJob { unique: Some(Box::new(unique)), ..job(5) }]).await;
    let after = After::new([id(4), id(1)], OnFailure::Run).expect("two jobs");
    scene.submit(vec![NewJob { after, terms: terms(), ..job(6) }]).await;
    let fences = scene.give(1, &[1, 2, 3], BETA).await;
    scene.start(BETA, 1).await;
    let line = |number| Line {
        at: LineAt { fence: fences[0], number },
        time: Timestamp::from_micros(1_893_456_000_000_001),
        level: Level::Info,
        text: format!("line {number} \"ü\""),
    };
    let note = Note {
        job: id(1),
        fence: fences[0],
        progress: Some(Progress { done: 1, total: 3, text: "a third".to_owned() }),
        lines: vec![line(0), line(1)],
        trim: false,
        steps: vec![Finished { name: "first".to_owned(), result: json(r#"{"a": 1.0}"#) }],
    };
    assert_eq!(scene.note(BETA, note).await, Settled::Applied);
    scene.end(BETA, 1, failed("it broke")).await;
    scene.end(BETA, 2, done()).await;
    scene.end(BETA, 3, turnwise_core::lifecycle::Outcome::Fail("never".into())).await;
    assert!(scene.remember(memo(MemoKind::Queue, "mail", r#"{"weight":2.0}"#)).await);
    assert!(scene.remember(memo(MemoKind::Charge, "acme", "[1,2]")).await);
    assert!(scene.remember(memo(MemoKind::Seen, "", "of this database alone")).await);
    let operators = h.operators().await;
    let token = NewToken {
        id: TokenId(Uuid::from_u128(7)),
        name: TokenName::new("reader").expect("a good name"),
        prefix: "tw_".to_owned(),
        grant: Grant::unlimited(),
        rate: NonZeroU32::new(3),
        expires_at: None,
    };
    let line = NewAuditLine {
        id: AuditId(Uuid::from_u128(9)),
        actor: Actor::named("a person").expect("a good name"),
        verb: AuditVerb::Set,
        target: "installation".parse().expect("a target"),
        before: None,
        after: Some(json("{}")),
    };
    let token = operators.create_token(token, Secret::from_random([1; 32]).hash(), Some(line)).await.expect("a token");
    let until = token.created_at.plus(SECOND * 60);
    let login = NewLogin { hash: Secret::from_random([2; 32]).hash(), token: token.id, until };
    operators.log_in(login).await.expect("log in");
    let mut secrets = Secrets::default();
    secrets.add(task("mail"), Pointer::new("/pin").expect("a pointer"));
    operators.note_secrets(secrets).await.expect("note secrets");
    let key = turnwise_core::OnceKey::new("once").expect("a good key");
    let once = SubmitOnce { caller: Some(token.id), key, body: BodyHash([3; 32]), jobs: vec![job(7)], line: None };
    operators.submit_once(once).await.expect("submit once");
    let begun = operators.begin_statistics(scene.epoch).await.expect("begin");
    let mut sums = Sums::of_share(7, 8);
    sums.tally(Counted::Success, 3, 2_000);
    let row =
        Row { queue: turnwise_core::QueueName::new("mail").expect("a good name"), of: Of::Task(task("mail")), sums };
    let write = WriteStatistics {
        term: begun.term,
        at: Span::Minute.begin(token.created_at),
        first: true,
        rows: vec![row.clone()],
        errors: Vec::new(),
        totals: vec![row],
    };
    operators.write_statistics(write).await.expect("statistics");
    for node in [BETA, ALPHA] {
        assert!(scene.store.leave(node).await.expect("leave"));
    }
}

/// What is read of the jobs, and the settings.
async fn seen(place: &Place) -> (Vec<Job>, Vec<Story>, Vec<Memo>) {
    let jobs = place.store.jobs(Filter { limit: Some(ALL), ..Filter::default() }).await.expect("jobs");
    let mut stories = Vec::new();
    for job in &jobs {
        stories.push(place.store.story(AskStory { job: job.id, after: None, lines: ALL }).await.expect("story"));
    }
    let kinds = MemoKind::ALL.into_iter().filter(|kind| *kind != MemoKind::Seen);
    (jobs, stories, place.store.recall(kinds.collect()).await.expect("recall"))
}

async fn rows(place: &Place, part: &'static Part) -> Vec<MovedRow> {
    place.moves.export(part, Vec::new(), ALL).await.expect("export")
}

pub async fn everything_is_in_the_target_and_new_jobs_come_after_it(h: &impl MoveHarness) {
    fill(h).await;
    let before = seen(&h.source().await).await;
    assert_eq!(before.0.len(), 7);
    let (steps, source, target) = go(h).await;
    assert_eq!(seen(&target).await, before);
    assert_eq!(seen(&source).await, before);
    for part in PARTS {
        // Of errors the scene has counted none.
        assert_eq!(rows(&source, part).await.is_empty(), part.name == "statistics_error", "{}", part.name);
        let compared = |step: &Step| matches!(step, Step::Verified { part: name, .. } if *name == part.name);
        assert!(steps.iter().any(compared), "{}", part.name);
    }
    let none = target.store.recall(vec![MemoKind::Seen]).await.expect("recall");
    assert_eq!(none, [], "what the source's dispatchers have read is nothing to the target's");
    let moved = target.store.load(Load::After { id: None, limit: ALL }).await.expect("load").jobs;
    let last = moved.iter().map(|head| head.seq).max().expect("unfinished jobs");
    target.store.enqueue(vec![job(8)]).await.expect("the target is open");
    let new = target.store.load(Load::These(vec![id(8)])).await.expect("load").jobs;
    assert!(new[0].seq > last, "{} > {last}", new[0].seq);
    target.store.join(join(ALPHA, "alpha")).await.expect("the target is open");
}

pub async fn a_closed_source_refuses_changes_and_is_read_as_before(h: &impl MoveHarness) {
    fill(h).await;
    let source = h.source().await;
    let before = seen(&source).await;
    for _ in 0..2 {
        assert_eq!(source.moves.close(as_source()).await.expect("close"), Ok(()));
    }
    assert_eq!(source.moves.moving().await.expect("the move"), Some(as_source()));
    refused(source.store.enqueue(vec![job(8)]).await, "being moved to");
    refused(source.store.enqueue((10..400).map(job).collect()).await, "being moved to");
    let key = UniqueKey::new("new").expect("a good key");
    refused(
        source.store.enqueue(vec![NewJob { unique: Some(Box::new(Unique::new(key))), ..job(9) }]).await,
        "being moved to",
    );
    refused(source.store.join(join(ALPHA, "alpha")).await, "being moved to");
    refused(source.store.remember(None, vec![memo(MemoKind::Queue, "mail", "{}")]).await, "being moved to");
    let stuck = source.store.job(id(1)).await.expect("job").expect("it is there");
    let to = decide(&stuck, &Event::Cancel, stuck.submitted_at);
    let cancel = Intervention { job: stuck.id, state: stuck.state, fence: stuck.fence, to, line: None };
    refused(source.store.control(vec![cancel]).await, "being moved to");
    assert_eq!(seen(&source).await, before);
    assert!(source.moves.finish(MOVE).await.expect("finish"));
    refused(source.store.enqueue(vec![job(8)]).await, "were moved to");
    refused(source.store.join(join(ALPHA, "alpha")).await, "were moved to");
    assert!(!source.moves.give_up(MOVE).await.expect("give up"), "it is finished");
    assert!(!source.moves.finish(MoveId(Uuid::from_u128(1))).await.expect("finish"), "another move");
}

pub async fn a_target_takes_neither_jobs_nor_nodes_before_everything_is_there(h: &impl MoveHarness) {
    let target = h.target().await;
    for _ in 0..2 {
        assert_eq!(target.moves.close(as_target()).await.expect("close"), Ok(()));
    }
    refused(target.store.enqueue(vec![job(1)]).await, "being moved to it from");
    refused(target.store.join(join(ALPHA, "alpha")).await, "being moved to it from");
    // Nothing has come yet: another move may have it.
    let other = Moving { id: MoveId(Uuid::from_u128(1)), ..as_target() };
    assert_eq!(target.moves.close(other.clone()).await.expect("close"), Ok(()));
    let text = Cell::Text("mail".to_owned());
    let row = vec![text, Cell::Text("/pin".to_owned())];
    let part = Part::named("secret_field").expect("a part");
    let to = Position::after_part(part).to_text();
    let import = Import { id: other.id, part, rows: vec![row], from: other.position.clone(), to: to.clone() };
    let stale = Import { id: MOVE, ..import.clone() };
    assert!(!target.moves.import(stale).await.expect("import"), "another move");
    assert!(target.moves.import(import.clone()).await.expect("import"));
    assert!(!target.moves.import(import).await.expect("import"), "a repeated one adds nothing");
    assert_eq!(rows(&target, part).await.len(), 1);
    let moving = target.moves.moving().await.expect("the move").expect("there is one");
    assert_eq!((moving.id, moving.position), (other.id, to));
    let hindered = target.moves.close(as_target()).await.expect("close");
    assert!(matches!(hindered, Err(Hindrance::Moving(_))), "{hindered:?}");
    refused(target.store.enqueue(vec![job(1)]).await, "being moved to it from");
    assert!(target.moves.finish(other.id).await.expect("finish"));
    target.store.enqueue(vec![job(1)]).await.expect("it is open");
    assert!(!target.moves.give_up(other.id).await.expect("give up"), "it is finished");
    let full = Moving { id: MoveId(Uuid::from_u128(2)), ..as_target() };
    let hindered = target.moves.close(full).await.expect("close");
    assert!(matches!(hindered, Err(Hindrance::NotEmpty(_))), "{hindered:?}");
    target.store.enqueue(vec![job(2)]).await.expect("it is still open");
}

pub async fn a_database_in_use_is_not_closed(h: &impl MoveHarness) {
    let scene = Scene::led(h).await;
    scene.enqueue(1..=2).await;
    scene.give(1, &[1], BETA).await;
    let source = h.source().await;
    let Err(Hindrance::Nodes(nodes)) = source.moves.close(as_source()).await.expect("close") else {
        panic!("nodes are alive")
    };
    assert_eq!(nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["alpha", "beta"]);
    h.advance(LEASE + SECOND).await;
    assert_eq!(source.moves.close(as_source()).await.expect("close"), Err(Hindrance::InHands));
    source.store.enqueue(vec![job(3)]).await.expect("it is open");
}

pub async fn what_a_lost_node_held_is_handed_back_by_the_same_decision(h: &impl MoveHarness) {
    let scene = Scene::led(h).await;
    scene.enqueue(1..=3).await;
    scene.give(1, &[1, 2], BETA).await;
    scene.start(BETA, 1).await;
    let running = scene.job(1).await;
    h.advance(LEASE + SECOND).await;
    let (steps, _, target) = go(h).await;
    assert_eq!(steps[0], Step::HandedBack(2));
    for n in 1..=3 {
        let job = target.store.job(id(n)).await.expect("job").expect("it is there");
        assert_eq!((job.state, job.node), (JobState::Waiting, None), "{n}");
    }
    let job = target.store.job(id(1)).await.expect("job").expect("it is there");
    assert_eq!(job.counts, Counts { crashes: 1, ..running.counts });
    assert!(job.fence > running.fence, "the late end of a node that is not dead after all is refused");
    let story = target.store.story(AskStory { job: id(1), after: None, lines: ALL }).await.expect("story");
    assert_eq!(story.attempts.len(), 1);
}

const KILLED: &str = "the mover was killed";

/// Dies after so many calls: before the last one is done, or after.
#[derive(Debug)]
struct Mortal {
    inner: Arc<dyn MoveStore>,
    left: Arc<AtomicI64>,
}

impl Mortal {
    async fn call<T>(&self, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let dead = || StoreError::broken("go on", KILLED);
        match self.left.fetch_sub(1, Ordering::SeqCst) {
            ..=0 => Err(dead()),
            1 => call.await.and_then(|_| Err(dead())),
            _ => call.await,
        }
    }
}

#[async_trait]
impl MoveStore for Mortal {
    async fn moving(&self) -> Result<Option<Moving>> {
        self.call(self.inner.moving()).await
    }

    async fn close(&self, moving: Moving) -> Result<std::result::Result<(), Hindrance>> {
        self.call(self.inner.close(moving)).await
    }

    async fn export(&self, part: &'static Part, after: Vec<Cell>, limit: u32) -> Result<Vec<MovedRow>> {
        self.call(self.inner.export(part, after, limit)).await
    }

    async fn import(&self, import: Import) -> Result<bool> {
        self.call(self.inner.import(import)).await
    }

    async fn finish(&self, id: MoveId) -> Result<bool> {
        self.call(self.inner.finish(id)).await
    }

    async fn give_up(&self, id: MoveId) -> Result<bool> {
        self.call(self.inner.give_up(id)).await
    }
}

/// More jobs than travel at a time.
const MANY: u64 = 1_100;

pub async fn a_move_that_dies_at_any_step_goes_on(h: &impl MoveHarness) {
    fill(h).await;
    let (source, target) = (h.source().await, h.target().await);
    source.store.enqueue((100..100 + MANY).map(job).collect()).await.expect("enqueue");
    let mut tries = 0_i64;
    let verified = loop {
        tries += 1;
        assert!(tries < 1_000, "it comes to no end");
        let left = Arc::new(AtomicI64::new(tries));
        let mortal = |place: &Place| Place {
            moves: Arc::new(Mortal { inner: place.moves.clone(), left: left.clone() }),
            ..place.clone()
        };
        // As another process would begin it.
        let chance = Uuid::from_u128(tries.unsigned_abs().into());
        let mut steps = Vec::new();
        let mover = Mover::new(mortal(&source), mortal(&target), chance);
        match mover.run(&mut |step| steps.push(step)).await {
            Ok(()) => break steps,
            Err(error) if error.to_string().contains(KILLED) => {}
            Err(error) => panic!("after {tries}: {error}"),
        }
    };
    assert!(matches!(verified.last(), Some(Step::Finished | Step::WasFinished)), "{verified:?}");
    for part in PARTS {
        let sum = |rows: Vec<MovedRow>| {
            let mut sum = Sum::default();
            rows.iter().for_each(|row| sum.add(row));
            sum
        };
        assert_eq!(sum(all_rows(&source, part).await), sum(all_rows(&target, part).await), "{}", part.name);
    }
    assert_eq!(all_rows(&target, Part::named("job").expect("a part")).await.len() as u64, MANY + 5);
    target.store.enqueue(vec![job(8)]).await.expect("it is open");
    refused_by_name(source.store.enqueue(vec![job(8)]).await, &target.name);
}

fn refused_by_name<T: std::fmt::Debug>(answer: Result<T>, name: &str) {
    match answer {
        Err(StoreError::Refused(text)) => assert!(text.contains(name), "{text}"),
        other => panic!("not refused: {other:?}"),
    }
}

async fn all_rows(place: &Place, part: &'static Part) -> Vec<MovedRow> {
    let (mut all, mut after) = (Vec::new(), Vec::new());
    loop {
        let page = place.moves.export(part, after, 100).await.expect("export");
        let Some(last) = page.last() else { return all };
        after = part.key_of(last);
        all.extend(page);
    }
}

pub async fn a_move_that_is_given_up_leaves_nothing_behind(h: &impl MoveHarness) {
    fill(h).await;
    let (source, target) = (h.source().await, h.target().await);
    let before = seen(&source).await;
    // After the close of both, and some of what there is.
    let left = Arc::new(AtomicI64::new(20));
    let mortal = Place { moves: Arc::new(Mortal { inner: target.moves.clone(), left }), ..target.clone() };
    let killed = Mover::new(source.clone(), mortal, MOVE.0).run(&mut |_| {}).await;
    assert!(matches!(killed, Err(StoreError::Broken { .. })), "{killed:?}");
    assert!(!rows(&target, Part::named("job").expect("a part")).await.is_empty(), "it had begun");
    Mover::new(source.clone(), target.clone(), MOVE.0).give_up().await.expect("give up");
    for part in PARTS {
        assert_eq!(rows(&target, part).await, [] as [MovedRow; 0], "{}", part.name);
    }
    assert_eq!(seen(&source).await, before);
    for place in [&source, &target] {
        assert_eq!(place.moves.moving().await.expect("the move"), None);
        place.store.enqueue(vec![job(9)]).await.expect("it is open");
    }
}
