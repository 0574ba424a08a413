//! The nodes and jobs of the tests, and calls that many tests need: alpha dispatches, beta works, jobs are numbers.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use turnwise_core::{
    Fence, Incarnation, Job, JobHead, JobId, JobState, Json, NewJob, NodeName, RetryPolicy, Serves, Step, TaskName,
    Terms, Timestamp,
    job::AssignedJob,
    lifecycle::{self, EditRequest, Event, JobFacts, Outcome, Transition},
    node::Host,
    scheduler::Pick,
    settings::QueueSettings,
    story::Story,
};
use uuid::Uuid;

use super::Harness;
use crate::store::*;

pub const LEASE: Duration = Duration::from_secs(10);
pub const SECOND: Duration = Duration::from_secs(1);
pub const DAY: Duration = Duration::from_secs(86_400);
/// How long a store keeps what has ended, unless its options say otherwise. Jobs are deleted with the day on which they ended.
pub const RETENTION: Duration = DAY.saturating_mul(7);
pub const ALPHA: Incarnation = Incarnation(Uuid::from_u128(0xa1fa_0000_0000_4000_8000_0000_0000_0001));
pub const BETA: Incarnation = Incarnation(Uuid::from_u128(0xbe7a_0000_0000_4000_8000_0000_0000_0002));
pub const GAMMA: Incarnation = Incarnation(Uuid::from_u128(0x9a3a_0000_0000_4000_8000_0000_0000_0003));
pub const ALL: u32 = 1_000;

/// A day in 2030: the time in a job's id must not be taken for the database's time.
const BIRTH_MILLIS: u64 = 1_893_000_000_000;

pub fn id(n: u64) -> JobId {
    let low = n.to_be_bytes();
    let mut random = [7; 10];
    random[2..].copy_from_slice(&low);
    JobId::from_parts(BIRTH_MILLIS + n, random)
}

pub fn batch(n: u128) -> BatchId {
    BatchId(Uuid::from_u128(0xba7c_0000_0000_4000_8000_0000_0000_0000 + n))
}

pub fn task(name: &str) -> TaskName {
    TaskName::new(name).expect("a good name")
}

pub fn json(text: &str) -> Json {
    Json::parse("args", text).expect("good JSON")
}

pub fn job(n: u64) -> NewJob {
    NewJob::new(id(n), task("mail"), json(&format!(r#"{{"n":{n}}}"#)))
}

pub fn job_with_retry(n: u64, retry: &str) -> NewJob {
    let retry: RetryPolicy = retry.parse().expect("a good policy");
    NewJob { retry: Some(retry), ..job(n) }
}

pub fn step(name: &str) -> Step {
    let retry = Some("durations:1s,2s".parse().expect("a good policy"));
    Step { task: task(name), args: json(r#"{"next": 1.0}"#), retry, terms: Terms::default() }
}

/// A minute to run, and another step when the retries are over.
pub fn terms() -> Terms {
    let mut terms = Terms::default();
    terms.set_timeout(SECOND * 60).expect("a good limit");
    terms.set_on_exhausted(step("extract")).expect("one step");
    terms
}

pub fn join(incarnation: Incarnation, name: &str) -> Join {
    Join {
        incarnation,
        name: NodeName::new(name).expect("a good name"),
        host: Host {
            name: "höst-1".into(),
            boot_id: "b007".into(),
            pid_namespace: "4026531836".into(),
            pid: 4_000_000_000,
            started: 1 << 40,
            version: Some("0.9.1".into()),
        },
        slots: 4,
        queue_capacity: 100,
        batch_size: None,
        queues: Serves::All,
        tasks: BTreeSet::from([task("mail"), task("extract")]),
        lease: LEASE,
        replace: None,
        worker: None,
    }
}

pub fn memo(kind: MemoKind, name: &str, value: &str) -> NewMemo {
    NewMemo { kind, name: name.to_owned(), value: Some(value.to_owned()), seen: None, line: None }
}

pub fn beat(node: Incarnation, lead: bool) -> Beat {
    Beat::new(node, LEASE, 4, lead)
}

pub fn done() -> Outcome {
    Outcome::Done { result: None }
}

pub fn failed(error: &str) -> Outcome {
    Outcome::Error(error.into())
}

pub fn by(node: Incarnation) -> Author {
    Author::Node { node, told: None }
}

/// What `event` makes of `job`, without jitter. The end of a run is that of one which has begun.
pub fn decide(job: &Job, event: &Event, now: Timestamp) -> Transition {
    let begun = matches!(event, Event::Ended(_));
    lifecycle::decide(&JobFacts { begun, ..JobFacts::from(job) }, event, now, 0.0).expect("a legal move")
}

/// A store in which alpha dispatches and beta works, with short methods for calls.
pub struct Scene {
    pub store: Arc<dyn Store>,
    pub epoch: Epoch,
}

impl Scene {
    pub async fn led(h: &impl Harness) -> Self {
        let store = h.open().await;
        for (node, name) in [(ALPHA, "alpha"), (BETA, "beta")] {
            let joined = store.join(join(node, name)).await.expect("join");
            assert!(matches!(joined, Joined::In { .. }), "{joined:?}");
        }
        let reply = store.beat(beat(ALPHA, true)).await.expect("beat");
        Self { store, epoch: reply.epoch.expect("no other node dispatches") }
    }

    pub async fn now(&self) -> Timestamp {
        self.store.nodes().await.expect("nodes").now
    }

    pub async fn enqueue(&self, numbers: impl IntoIterator<Item = u64>) {
        self.submit(numbers.into_iter().map(job).collect()).await;
    }

    pub async fn submit(&self, jobs: Vec<NewJob>) {
        let replies = self.store.enqueue(jobs).await.expect("enqueue");
        assert!(replies.iter().all(|reply| reply.new), "{replies:?}");
    }

    /// Writes a memo as a person does; returns whether it was written.
    pub async fn remember(&self, memo: NewMemo) -> bool {
        let replies = self.store.remember(None, vec![memo]).await.expect("remember");
        assert_eq!(replies.len(), 1, "one answer to one memo");
        replies[0]
    }

    pub async fn find(&self, n: u64) -> Option<Job> {
        self.store.job(id(n)).await.expect("job")
    }

    pub async fn job(&self, n: u64) -> Job {
        self.find(n).await.unwrap_or_else(|| panic!("job {n} is not there"))
    }

    pub async fn state(&self, n: u64) -> JobState {
        self.job(n).await.state
    }

    pub async fn heads(&self) -> Vec<JobHead> {
        self.store.load(Load::After { id: None, limit: ALL }).await.expect("load").jobs
    }

    pub async fn head(&self, n: u64) -> Option<JobHead> {
        self.store.load(Load::These(vec![id(n)])).await.expect("load").jobs.pop()
    }

    /// Picks of these jobs as they are now.
    pub async fn picks(&self, numbers: &[u64], node: Incarnation) -> Vec<Pick> {
        let mut picks = Vec::new();
        for n in numbers {
            let fence = self.job(*n).await.fence;
            picks.push(Pick { job: id(*n), fence, node, limited: false });
        }
        picks
    }

    pub fn order(&self, number: u128, picks: Vec<Pick>) -> Assign {
        Assign { holder: ALPHA, epoch: self.epoch, batch: batch(number), picks }
    }

    /// Gives the jobs to the node and returns their fences.
    pub async fn give(&self, number: u128, jobs: &[u64], node: Incarnation) -> Vec<Fence> {
        let picks = self.picks(jobs, node).await;
        let replies = self.store.assign(self.order(number, picks)).await.expect("assign");
        let answered: Vec<_> = replies.iter().map(|(job, _)| *job).collect();
        assert_eq!(
            answered,
            jobs.iter().map(|n| id(*n)).collect::<Vec<_>>(),
            "an answer to every pick, in their order"
        );
        let mut fences = Vec::new();
        for (n, (_, reply)) in jobs.iter().zip(replies) {
            fences.push(match reply {
                AssignReply::Mine(job) => job.fence,
                AssignReply::Theirs(fence) => fence,
                other => panic!("job {n} was not assigned: {other:?}"),
            });
        }
        fences
    }

    /// What alpha's node was given, as the reply carried it.
    pub async fn give_mine(&self, number: u128, n: u64) -> AssignedJob {
        let picks = self.picks(&[n], ALPHA).await;
        let mut replies = self.store.assign(self.order(number, picks)).await.expect("assign");
        match replies.pop() {
            Some((_, AssignReply::Mine(job))) => *job,
            other => panic!("job {n} was not assigned: {other:?}"),
        }
    }

    /// The settlement that `event` asks for, by what a reader sees now; a run of one second if it was one.
    pub async fn settlement(&self, n: u64, event: &Event) -> Settlement {
        let now = self.now().await;
        let job = self.job(n).await;
        let ran = matches!(event, Event::Ended(_));
        Settlement {
            job: job.id,
            fence: job.fence,
            saw_cancel: job.cancel_requested,
            to: decide(&job, event, now),
            noted: true,
            started_at: (ran || *event == Event::Start).then(|| now.minus(SECOND)),
            finished_at: ran.then_some(now),
        }
    }

    /// What a node settles that has not begun the job.
    pub async fn unrun(&self, n: u64, outcome: Outcome) -> Settlement {
        let (now, job) = (self.now().await, self.job(n).await);
        let facts = JobFacts { begun: false, ..JobFacts::from(&job) };
        let to = lifecycle::decide(&facts, &Event::Ended(outcome), now, 0.0).expect("a legal move");
        let (job, fence, saw_cancel, noted) = (job.id, job.fence, job.cancel_requested, true);
        Settlement { job, fence, saw_cancel, to, noted, started_at: None, finished_at: None }
    }

    pub async fn settle(&self, author: Author, settlements: Vec<Settlement>) -> Vec<Settled> {
        self.store.settle(Settle { author, settlements, done: vec![] }).await.expect("settle")
    }

    pub async fn settle_one(&self, author: Author, settlement: Settlement) -> Settled {
        let replies = self.settle(author, vec![settlement]).await;
        assert_eq!(replies.len(), 1, "one answer to one settlement");
        replies[0]
    }

    /// The node settles its run of the job.
    pub async fn end(&self, node: Incarnation, n: u64, outcome: Outcome) -> Settled {
        let settlement = self.settlement(n, &Event::Ended(outcome)).await;
        self.settle_one(by(node), settlement).await
    }

    pub async fn start(&self, node: Incarnation, n: u64) -> Settled {
        let settlement = self.settlement(n, &Event::Start).await;
        self.settle_one(by(node), settlement).await
    }

    pub async fn story(&self, n: u64) -> Story {
        self.store.story(AskStory { job: id(n), after: None, lines: ALL }).await.expect("story")
    }

    pub async fn note(&self, node: Incarnation, note: Note) -> Settled {
        let replies = self.store.note(node, vec![note]).await.expect("note");
        assert_eq!(replies.len(), 1, "one answer to one note");
        replies[0]
    }

    pub async fn intervention(&self, n: u64, event: &Event) -> Intervention {
        let now = self.now().await;
        let job = self.job(n).await;
        Intervention { job: job.id, state: job.state, fence: job.fence, to: decide(&job, event, now), line: None }
    }

    /// A person decides by what a reader sees now.
    pub async fn intervene(&self, n: u64, event: Event) -> Settled {
        let intervention = self.intervention(n, &event).await;
        let replies = self.store.control(vec![intervention]).await.expect("control");
        assert_eq!(replies.len(), 1, "one answer to one intervention");
        replies[0]
    }

    pub async fn news(&self, cursor: Option<Cursor>) -> News {
        let ask = AskNews { cursor, epoch: self.epoch, asleep: false, new_jobs: u32::MAX };
        self.store.news(ask).await.expect("news")
    }

    pub async fn mail(&self, node: Incarnation) -> Vec<Delivery> {
        self.store.assignments(node, vec![]).await.expect("assignments").batches
    }

    /// Batches and jobs by their ids.
    pub async fn mail_in_order(&self, node: Incarnation) -> Vec<Delivery> {
        in_order(self.store.assignments(node, vec![]).await.expect("assignments")).batches
    }

    /// Which of its jobs the node is asked to stop.
    pub async fn stop_requests(&self, node: Incarnation) -> Vec<(JobId, Fence)> {
        let mut stop = self.store.assignments(node, vec![]).await.expect("assignments").stop;
        stop.sort_unstable();
        stop
    }

    pub fn for_lost(&self, lost: Incarnation, bury: bool) -> Author {
        Author::Dispatcher { holder: ALPHA, epoch: self.epoch, lost, bury }
    }

    pub async fn lost(&self) -> Vec<LostNode> {
        self.store
            .lost_nodes(AskLost { holder: ALPHA, epoch: self.epoch, expire: Expire::by_the_clock(), limit: ALL })
            .await
            .expect("lost_nodes")
    }

    /// Beta sends no beat for longer than its lease; alpha goes on.
    pub async fn lose_beta(&self, h: &impl Harness) -> LostNode {
        h.advance(LEASE + SECOND).await;
        let reply = self.store.beat(beat(ALPHA, true)).await.expect("beat");
        assert_eq!(reply.epoch, Some(self.epoch), "alpha still dispatches");
        let mut lost = self.lost().await;
        assert_eq!(lost.len(), 1, "{lost:?}");
        assert_eq!(lost[0].node.incarnation, BETA);
        lost.remove(0)
    }
}

/// All that can be read from a store, in one value: two stores with equal views are in the same state.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    jobs: Vec<Job>,
    heads: Vec<JobHead>,
    fleet: Fleet,
    mail: Vec<(Incarnation, Mail)>,
    news: Vec<JobHead>,
    changes: Vec<Change>,
    memos: Vec<Memo>,
    memos_are_news: bool,
    stories: Vec<Story>,
}

impl View {
    /// What `store` shows, with news since `cursor` as the dispatcher of `epoch` reads them.
    ///
    /// Numbers of submission are replaced by their rank: a database may leave numbers out.
    pub async fn of(store: &dyn Store, nodes: &[Incarnation], cursor: &Cursor, epoch: Epoch) -> Self {
        let jobs = store.jobs(Filter { limit: Some(ALL), ..Filter::default() }).await.expect("jobs");
        let mut heads = store.load(Load::After { id: None, limit: ALL }).await.expect("load").jobs;
        let mut mail = Vec::new();
        for node in nodes {
            mail.push((*node, in_order(store.assignments(*node, vec![]).await.expect("assignments"))));
        }
        let ask = AskNews { cursor: Some(cursor.clone()), epoch, asleep: false, new_jobs: u32::MAX };
        let News { jobs: mut news, changes, memos: memos_are_news, .. } = store.news(ask).await.expect("news");
        let mut changes = changes_as_set(changes);
        let mut order: Vec<_> = heads.iter().map(|head| head.seq).collect();
        order.sort_unstable();
        let seen = changes.iter_mut().filter_map(|change| change.head.as_mut());
        for head in heads.iter_mut().chain(&mut news).chain(seen) {
            let rank = order.binary_search(&head.seq).expect("news are of unfinished jobs");
            head.seq = i64::try_from(rank).expect("few jobs");
        }
        news.sort_by_key(|head| head.id);
        let memos = store.recall(MemoKind::ALL.to_vec()).await.expect("recall");
        let fleet = store.nodes().await.expect("nodes");
        let mut stories = Vec::new();
        for job in &jobs {
            stories.push(store.story(AskStory { job: job.id, after: None, lines: ALL }).await.expect("story"));
        }
        Self { jobs, heads, fleet, mail, news, changes, memos, memos_are_news, stories }
    }
}

/// Deliveries in a fixed order: a store may return them in any.
pub fn in_order(mut mail: Mail) -> Mail {
    mail.batches.sort_by_key(|delivery| delivery.batch);
    for delivery in &mut mail.batches {
        delivery.jobs.sort_by_key(|job| job.id);
    }
    mail.stop.sort_unstable();
    mail
}

/// A change only means that there is something to read, so the same one twice counts once.
pub fn changes_as_set(mut changes: Vec<Change>) -> Vec<Change> {
    changes.sort_by_key(|change| (change.id, change.ran));
    changes.dedup();
    changes
}

/// Calls until the store answers: where calls conflict, one may be asked to try again.
pub async fn until_answered<T, F>(mut verb: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T>>,
{
    loop {
        match verb().await {
            Ok(reply) => return reply,
            Err(error) if error.is_transient() => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Waits for a ring. The time limit only matters for a bell that never rings.
pub async fn rung(bell: &tokio::sync::Notify) {
    tokio::time::timeout(Duration::from_secs(30), bell.notified()).await.expect("the bell did not ring");
}

/// What a person decides who sees the job as it is now.
pub async fn edit_of(scene: &Scene, n: u64, asked: &EditRequest) -> Intervention {
    let (now, job) = (scene.now().await, scene.job(n).await);
    let to = lifecycle::edit(&job, asked, &QueueSettings::default(), now).expect("it is at rest");
    Intervention { job: job.id, state: job.state, fence: job.fence, to, line: None }
}
