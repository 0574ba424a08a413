//! Random commands, given to the store and to the memory store on the same clock: every reply must be equal, and in the
//! end all that can be read.
//!
//! The world is small (six jobs, three nodes of which two want one name), so that commands conflict. What to write is decided
//! by `core::lifecycle` from what a reader sees, and then sometimes spoilt: an old fence, another epoch, the wrong node.
//! Some calls are made twice, as after a lost reply: the second must change nothing. `TURNWISE_STORE_CASES` raises the number of
//! cases.

use std::{fmt::Debug, result::Result, sync::Arc, time::Duration};

use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseError, TestError, TestRunner},
};
use turnwise_core::{
    After, Fence, GroupName, Incarnation, Job, JobHead, JobId, JobState, KeyName, NewJob, OnFailure, Priority,
    QueueName, RetryPolicy, Terms, UniqueKey,
    lead::Sight,
    lifecycle::{self, EditRequest, Event, JobFacts, Outcome},
    scheduler::Pick,
    settings::QueueSettings,
    unique::{Hold, OnDuplicate, Scope, Unique},
};

use super::{
    Harness, StillClock,
    scene::{self, ALL, ALPHA, BETA, GAMMA, LEASE, RETENTION, SECOND, View, id, json, step, task, terms},
};
use crate::{MemoryStore, StoreError, store::*};

const CASES: u32 = 64;
/// Most commands of a case; half as many on average.
const COMMANDS: usize = 60;
const JOBS: u64 = 6;
const NODES: [(Incarnation, &str); 3] = [(ALPHA, "one"), (BETA, "two"), (GAMMA, "one")];
/// `Full` is there twice, because the store itself uses it.
const MEMO_KINDS: [MemoKind; 4] = [MemoKind::Full, MemoKind::Queue, MemoKind::Full, MemoKind::Charge];
const MEMOS: [&str; 3] = ["red", "blue", "büro"];
const TELLERS: [Incarnation; 3] = [ALPHA, BETA, GAMMA];

pub async fn random_commands_have_the_effect_they_have_in_memory(h: &impl Harness) {
    let cases = std::env::var("TURNWISE_STORE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(CASES);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    let runtime = tokio::runtime::Handle::current();
    let outcome = tokio::task::block_in_place(|| {
        // Most cases begin with a fleet at work: from an empty store, most would end before any commands conflict.
        let stories = (prop::bool::weighted(0.8), prop::collection::vec(command(), 1..=COMMANDS));
        TestRunner::new(config).run(&stories, |(opened, commands)| {
            runtime.block_on(play(h, opened, &commands)).map_err(TestCaseError::fail)
        })
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, (opened, commands))) => {
            let story: Vec<_> = commands.iter().map(|command| format!("  {command:?}")).collect();
            panic!("{reason}\nafter these commands (opened: {opened}):\n{}", story.join("\n"));
        }
        Err(error) => panic!("{error}"),
    }
}

/// One command. Numbers are taken modulo what there is.
#[derive(Debug, Clone)]
struct Command {
    verb: Verb,
    slip: Slip,
    /// The first reply is lost.
    twice: bool,
}

#[derive(Debug, Clone)]
enum Verb {
    Enqueue { first: u64, count: u64, kind: u8, due: Option<u8> },
    Join { node: usize, replace: bool },
    Beat { node: usize, lead: bool, slots: u32 },
    Leave { node: usize },
    Load { after: Option<u64>, limit: u32 },
    LoadThese { jobs: u8 },
    News,
    Assign { jobs: u8, node: usize },
    Mail { node: usize, known: bool },
    Settle { jobs: u8, event: u8, done: bool, told: bool },
    SettleLost { bury: bool, unseen: bool },
    Control { job: u64, event: u8 },
    Edit { job: u64, what: u8 },
    Prune { seen: bool },
    Remember { which: u8, kind: u8, seen: bool, delete: bool, lead: bool },
    Recall { kinds: u16 },
    List { state: u8, group: bool, limit: u32 },
    Pass { span: u8 },
}

/// How a call is spoilt, where it can be.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Slip {
    None,
    OldFence,
    NewFence,
    OtherEpoch,
    OtherNode,
    /// The cancel was not seen, or the state was another.
    Unseen,
}

fn command() -> impl Strategy<Value = Command> {
    let verb = prop_oneof![
        2 => (0..JOBS, 1..4_u64, any::<u8>(), prop::option::weighted(0.3, any::<u8>()))
            .prop_map(|(first, count, kind, due)| Verb::Enqueue { first, count, kind, due }),
        3 => (0..3_usize, any::<bool>()).prop_map(|(node, replace)| Verb::Join { node, replace }),
        5 => (0..3_usize, prop::bool::weighted(0.7), 0..5_u32).prop_map(|(node, lead, slots)| Verb::Beat { node, lead, slots }),
        2 => (0..3_usize).prop_map(|node| Verb::Leave { node }),
        1 => (prop::option::of(0..JOBS), 1..4_u32).prop_map(|(after, limit)| Verb::Load { after, limit }),
        1 => any::<u8>().prop_map(|jobs| Verb::LoadThese { jobs }),
        2 => Just(Verb::News),
        8 => (any::<u8>(), 0..3_usize).prop_map(|(jobs, node)| Verb::Assign { jobs, node }),
        2 => (0..3_usize, any::<bool>()).prop_map(|(node, known)| Verb::Mail { node, known }),
        8 => (any::<u8>(), any::<u8>(), any::<bool>(), any::<bool>())
            .prop_map(|(jobs, event, done, told)| Verb::Settle { jobs, event, done, told }),
        4 => (any::<bool>(), prop::bool::weighted(0.2)).prop_map(|(bury, unseen)| Verb::SettleLost { bury, unseen }),
        4 => (0..JOBS, any::<u8>()).prop_map(|(job, event)| Verb::Control { job, event }),
        4 => (0..JOBS, any::<u8>()).prop_map(|(job, what)| Verb::Edit { job, what }),
        1 => any::<bool>().prop_map(|seen| Verb::Prune { seen }),
        3 => (any::<u8>(), any::<u8>(), any::<bool>(), prop::bool::weighted(0.3), any::<bool>())
            .prop_map(|(which, kind, seen, delete, lead)| Verb::Remember { which, kind, seen, delete, lead }),
        1 => any::<u16>().prop_map(|kinds| Verb::Recall { kinds }),
        1 => (any::<u8>(), any::<bool>(), 1..5_u32).prop_map(|(state, group, limit)| Verb::List { state, group, limit }),
        3 => any::<u8>().prop_map(|span| Verb::Pass { span }),
    ];
    let slip = prop_oneof![
        12 => Just(Slip::None),
        1 => Just(Slip::OldFence),
        1 => Just(Slip::NewFence),
        1 => Just(Slip::OtherEpoch),
        1 => Just(Slip::OtherNode),
        1 => Just(Slip::Unseen),
    ];
    (verb, slip, prop::bool::weighted(0.15)).prop_map(|(verb, slip, twice)| Command { verb, slip, twice })
}

/// A call of the trait, with all that is in it.
#[derive(Debug, Clone)]
enum Call {
    Enqueue(Vec<NewJob>),
    Join(Box<Join>),
    Beat(Beat),
    Leave(Incarnation),
    Load(Load),
    News(Epoch),
    Assign(Assign),
    Mail(Incarnation, Vec<BatchId>),
    Settle(Settle),
    LostNodes(Incarnation, Epoch),
    Control(Vec<Intervention>),
    Prune { seen: bool },
    Remember(Option<(Incarnation, Epoch)>, Vec<NewMemo>),
    Recall(Vec<MemoKind>),
    Jobs(Filter),
    Job(JobId),
}

impl Call {
    /// Whether a second call must change nothing: reading news moves the cursor on, and writing a memo without `seen` raises its
    /// version.
    fn may_be_repeated(&self) -> bool {
        match self {
            Self::News(_) | Self::Prune { .. } => false,
            Self::Remember(_, memos) => memos.iter().all(|memo| memo.seen.is_some() || memo.value.is_none()),
            _ => true,
        }
    }
}

/// A store with the cursors it gave out: they are its own and differ between stores.
struct Side {
    store: Arc<dyn Store>,
    /// From here on all news can still be read.
    begin: Cursor,
    last: Cursor,
}

impl Side {
    async fn new(store: Arc<dyn Store>) -> Result<Self, String> {
        let ask = AskNews { cursor: None, epoch: Epoch(0), asleep: false, new_jobs: u32::MAX };
        let begin = answer(|| store.news(ask.clone())).await?.cursor;
        Ok(Self { store, last: begin.clone(), begin })
    }

    async fn view(&self, epoch: Epoch) -> View {
        View::of(&*self.store, &TELLERS, &self.begin, epoch).await
    }

    /// Makes the call and prints the reply without what may differ between stores: cursors, writers, gaps in numbers, order
    /// where none is promised.
    async fn perform(&mut self, call: &Call) -> Result<String, String> {
        let store = self.store.clone();
        Ok(match call.clone() {
            Call::Enqueue(jobs) => print(answer(|| store.enqueue(jobs.clone())).await),
            Call::Join(join) => print(answer(|| store.join((*join).clone())).await),
            Call::Beat(beat) => print(answer(|| store.beat(beat.clone())).await.map(|mut reply| {
                reply.nodes.sort_by_key(|node| node.incarnation);
                // Not all stores can see processes.
                reply.leader.iter_mut().for_each(|leader| leader.sight = Sight::Unseen);
                reply
            })),
            Call::Leave(node) => print(answer(|| store.leave(node)).await),
            Call::Load(load) => print(answer(|| store.load(load.clone())).await.map(|mut page| {
                page.jobs.iter_mut().for_each(mask);
                page.jobs.sort_by_key(|head| head.id);
                page
            })),
            Call::News(epoch) => {
                let ask = AskNews { cursor: Some(self.last.clone()), epoch, asleep: false, new_jobs: u32::MAX };
                let mut news = answer(|| store.news(ask.clone())).await?;
                self.last = std::mem::replace(&mut news.cursor, Cursor(String::new()));
                news.writers = Writers::default();
                news.jobs
                    .iter_mut()
                    .chain(news.changes.iter_mut().filter_map(|change| change.head.as_mut()))
                    .for_each(mask);
                news.jobs.sort_by_key(|head| head.id);
                news.changes = scene::changes_as_set(news.changes);
                print(Ok(news))
            }
            Call::Assign(assign) => print(answer(|| store.assign(assign.clone())).await.map(|mut replies| {
                replies.sort_by_key(|(id, _)| *id);
                for (_, reply) in &mut replies {
                    if let AssignReply::Changed(head) = reply {
                        mask(head);
                    }
                }
                replies
            })),
            Call::Mail(node, known) => {
                print(answer(|| store.assignments(node, known.clone())).await.map(scene::in_order))
            }
            Call::Settle(settle) => print(answer(|| store.settle(settle.clone())).await),
            Call::LostNodes(holder, epoch) => print(
                answer(|| store.lost_nodes(AskLost { holder, epoch, expire: Expire::by_the_clock(), limit: ALL }))
                    .await
                    .map(|mut lost| {
                        lost.sort_by_key(|lost| lost.node.incarnation);
                        lost.iter_mut().for_each(|lost| lost.jobs.sort_by_key(|held| held.id));
                        lost
                    }),
            ),
            Call::Control(interventions) => print(answer(|| store.control(interventions.clone())).await),
            // How many seen changes are deleted at once may differ between stores: an open transaction may keep them a while.
            Call::Prune { seen: true } => {
                self.begin = self.last.clone();
                let seen = Some(self.last.clone());
                print(answer(|| store.prune(seen.clone(), ALL)).await.map(drop))
            }
            Call::Prune { seen: false } => print(answer(|| store.prune(None, ALL)).await),
            Call::Remember(lead, memos) => print(answer(|| store.remember(lead, memos.clone())).await),
            Call::Recall(kinds) => print(answer(|| store.recall(kinds.clone())).await),
            Call::Jobs(filter) => print(answer(|| store.jobs(filter.clone())).await),
            Call::Job(id) => print(answer(|| store.job(id)).await),
        })
    }
}

/// Calls until there is an answer; an error that is not transient (such as not leading) is an answer, too.
async fn answer<T, F: Future<Output = Result<T, StoreError>>>(mut verb: impl FnMut() -> F) -> Result<T, String> {
    loop {
        match verb().await {
            Ok(reply) => return Ok(reply),
            Err(error) if error.is_transient() => tokio::task::yield_now().await,
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn print<T: Debug>(reply: Result<T, String>) -> String {
    format!("{reply:?}")
}

fn mask(head: &mut JobHead) {
    head.seq = 0;
}

async fn play(h: &impl Harness, opened: bool, commands: &[Command]) -> Result<(), String> {
    h.reset().await;
    let tested = h.open().await;
    let clock = StillClock::default();
    clock.set(answer(|| tested.nodes()).await?.now);
    let memory = MemoryStore::new(Options::default(), clock.clock());
    let mut world = World {
        tested: Side::new(tested).await?,
        memory: Side::new(Arc::new(memory)).await?,
        leader: (ALPHA, Epoch(0)),
        batches: 0,
    };
    if opened {
        for call in opening() {
            world.both(&call).await?;
        }
    }
    for (at, command) in commands.iter().enumerate() {
        if let Verb::Pass { span } = command.verb {
            let by = pass(span);
            clock.advance(by);
            h.advance(by).await;
            continue;
        }
        for call in world.calls(command).await {
            world.both(&call).await.map_err(|difference| format!("command {at}: {difference}"))?;
            if command.twice && call.may_be_repeated() {
                let once = world.views().await?;
                world.both(&call).await.map_err(|difference| format!("command {at}, repeated: {difference}"))?;
                if world.views().await? != once {
                    return Err(format!("command {at}: repeating {call:?} changed something"));
                }
            }
        }
    }
    world.views().await.map(drop)
}

/// Alpha dispatches, beta is there, all six jobs wait.
fn opening() -> Vec<Call> {
    let jobs = (0..JOBS).zip([0b000_000, 0b001_001, 0b010_010, 0b000_100, 0b001_000, 0b010_111]);
    vec![
        Call::Join(Box::new(scene::join(ALPHA, NODES[0].1))),
        Call::Join(Box::new(scene::join(BETA, NODES[1].1))),
        Call::Beat(scene::beat(ALPHA, true)),
        Call::Enqueue(jobs.map(|(n, kind)| new_job(n, kind, None)).collect()),
    ]
}

fn pass(span: u8) -> Duration {
    match span % 8 {
        0..=2 => Duration::from_micros(u64::from(span) * 1_001 + 1),
        3 => SECOND * 4,
        4 => LEASE,
        5 | 6 => LEASE + SECOND,
        _ => RETENTION / 2 + SECOND,
    }
}

struct World {
    tested: Side,
    memory: Side,
    /// The node that was last given the lead, and its epoch.
    leader: (Incarnation, Epoch),
    batches: u128,
}

impl World {
    async fn both(&mut self, call: &Call) -> Result<(), String> {
        let expected = self.memory.perform(call).await?;
        let reply = self.tested.perform(call).await?;
        if reply != expected {
            return Err(format!("{call:?}\n  was answered  {reply}\n  and in memory {expected}"));
        }
        if let Call::Beat(beat) = call {
            // Once more, for the epoch in the reply: a repeated beat changes nothing.
            let reply = answer(|| self.memory.store.beat(beat.clone())).await?;
            if let Some(epoch) = reply.epoch {
                self.leader = (beat.node, epoch);
            }
        }
        Ok(())
    }

    /// What both show, if it is the same.
    async fn views(&self) -> Result<View, String> {
        let epoch = self.leader.1;
        let (tested, memory) = (self.tested.view(epoch).await, self.memory.view(epoch).await);
        if tested == memory { Ok(tested) } else { Err(format!("shown:     {tested:#?}\nin memory: {memory:#?}")) }
    }

    async fn look(&self, n: u64) -> Option<Job> {
        self.memory.store.job(id(n)).await.expect("memory answers")
    }

    async fn now(&self) -> turnwise_core::Timestamp {
        self.memory.store.nodes().await.expect("memory answers").now
    }

    /// The jobs named by the bits of `mask`.
    async fn named(&self, mask: u8) -> Vec<Job> {
        let mut jobs = Vec::new();
        for n in (0..JOBS).filter(|n| mask & (1 << n) != 0) {
            jobs.extend(self.look(n).await);
        }
        jobs
    }

    async fn calls(&mut self, Command { verb, slip, .. }: &Command) -> Vec<Call> {
        let slip = *slip;
        let (mut holder, mut epoch) = self.leader;
        match slip {
            Slip::OtherEpoch => epoch.0 -= 1,
            Slip::OtherNode => holder = GAMMA,
            _ => {}
        }
        match *verb {
            Verb::Enqueue { first, count, kind, due } => {
                let now = self.now().await;
                let due = due.map(|due| now.plus(Duration::from_millis(u64::from(due))));
                let job = |n: u64| new_job((first + n) % JOBS, kind, due);
                vec![Call::Enqueue((0..count).map(job).collect())]
            }
            Verb::Join { node, replace } => {
                let (incarnation, name) = NODES[node];
                let fleet = self.memory.store.nodes().await.expect("memory answers");
                let other = fleet.nodes.iter().find(|other| other.name.as_str() == name && !other.lost);
                let replace = other.filter(|_| replace).map(|other| Replace {
                    incarnation: other.incarnation,
                    lease_until: if slip == Slip::Unseen { fleet.now } else { other.lease_until },
                });
                let host = scene::join(incarnation, name).host;
                vec![Call::Join(Box::new(Join { replace, host, ..scene::join(incarnation, name) }))]
            }
            Verb::Beat { node, lead, slots } => {
                vec![Call::Beat(Beat::new(NODES[node].0, LEASE, slots, lead))]
            }
            Verb::Leave { node } => vec![Call::Leave(NODES[node].0)],
            Verb::Load { after, limit } => vec![Call::Load(Load::After { id: after.map(id), limit })],
            Verb::LoadThese { jobs } => {
                vec![Call::Load(Load::These((0..JOBS).filter(|n| jobs & (1 << n) != 0).map(id).collect()))]
            }
            Verb::News => vec![Call::News(epoch)],
            Verb::Assign { jobs, node } => {
                let mut picks = Vec::new();
                for (at, job) in self.named(jobs).await.into_iter().enumerate() {
                    // Mostly to one node, sometimes to the next: one batch for several.
                    let node = NODES[(node + at / 2) % NODES.len()].0;
                    picks.push(Pick {
                        job: job.id,
                        fence: slipped(job.fence, slip),
                        node,
                        limited: job.id.uuid().as_u128() % 2 == 0,
                    });
                }
                self.batches += 1;
                vec![Call::Assign(Assign { holder, epoch, batch: scene::batch(self.batches), picks })]
            }
            Verb::Mail { node, known } => {
                let node = NODES[node].0;
                let known = if known { self.batches_of(node).await } else { vec![] };
                vec![Call::Mail(node, known)]
            }
            Verb::Settle { jobs, event, done, told } => {
                let now = self.now().await;
                let (mut calls, told) = (Vec::new(), told.then_some(epoch));
                for (node, _) in NODES {
                    let settlements = self.settlements(jobs, node, |n| ending(event, n), slip, now).await;
                    let author = Author::Node { node: if slip == Slip::OtherNode { ALPHA } else { node }, told };
                    let done = if done { self.batches_of(node).await } else { vec![] };
                    if !settlements.is_empty() || !done.is_empty() {
                        calls.push(Call::Settle(Settle { author, settlements, done }));
                    }
                }
                calls
            }
            Verb::SettleLost { bury, unseen } => {
                let mut calls = vec![Call::LostNodes(holder, epoch)];
                let now = self.now().await;
                let slip = if unseen { Slip::Unseen } else { slip };
                for (lost, _) in NODES {
                    let fleet = self.memory.store.nodes().await.expect("memory answers");
                    // A node whose lease is over is marked lost by the call before.
                    if fleet.nodes.iter().any(|node| node.incarnation == lost && !node.alive(now)) {
                        let settlements = self.settlements(u8::MAX, lost, |_| Event::NodeLost, slip, now).await;
                        let author = Author::Dispatcher { holder, epoch, lost, bury };
                        calls.push(Call::Settle(Settle { author, settlements, done: vec![] }));
                    }
                }
                calls
            }
            Verb::Control { job, event } => {
                let Some(job) = self.look(job).await else { return vec![Call::Job(id(job))] };
                let event = [Event::Cancel, Event::Retry, Event::GiveUp][usize::from(event) % 3].clone();
                let Ok(to) = lifecycle::decide(&JobFacts::from(&job), &event, self.now().await, 0.0) else {
                    return vec![];
                };
                let state = if slip == Slip::Unseen { JobState::Waiting } else { job.state };
                // A person who believes that the job waits does not ask its node to stop it.
                if state != job.state && job.state.assigned() {
                    return vec![];
                }
                vec![Call::Control(vec![Intervention {
                    job: job.id,
                    state,
                    fence: slipped(job.fence, slip),
                    to,
                    line: None,
                }])]
            }
            Verb::Edit { job, what } => {
                let Some(job) = self.look(job).await else { return vec![Call::Job(id(job))] };
                let now = self.now().await;
                let asked = EditRequest {
                    priority: (what & 1 > 0).then(|| Priority::new(i64::from(what % 10) + 1).expect("1 to 10")),
                    queue: (what & 2 > 0).then(|| queue(what >> 2)),
                    due: (what & 8 > 0).then(|| now.plus(Duration::from_millis((what >> 4).into()))),
                };
                let Ok(to) = lifecycle::edit(&job, &asked, &QueueSettings::default(), now) else { return vec![] };
                let state = if slip == Slip::Unseen { JobState::Stuck } else { job.state };
                vec![Call::Control(vec![Intervention {
                    job: job.id,
                    state,
                    fence: slipped(job.fence, slip),
                    to,
                    line: None,
                }])]
            }
            Verb::Prune { seen } => vec![Call::Prune { seen }],
            Verb::Remember { which, kind, seen, delete, lead } => {
                let memos = self.memory.store.recall(MemoKind::ALL.to_vec()).await.expect("memory answers");
                let kind = MEMO_KINDS[usize::from(kind) % MEMO_KINDS.len()];
                let named = MEMOS.into_iter().enumerate().filter(|(at, _)| which & (1 << at) != 0);
                let memo = |(at, name): (usize, &str)| {
                    let there = memos.iter().find(|memo| memo.kind == kind && memo.name == name);
                    let version = there.map_or(0, |memo| memo.version) + i64::from(slip == Slip::Unseen);
                    NewMemo {
                        // Of several memos, every second one is deleted.
                        value: (!delete || at % 2 == 1).then(|| format!("{name} {which}")),
                        seen: seen.then_some(version),
                        ..scene::memo(kind, name, "")
                    }
                };
                vec![Call::Remember(lead.then_some((holder, epoch)), named.map(memo).collect())]
            }
            Verb::Recall { kinds } => {
                vec![Call::Recall(MemoKind::ALL.into_iter().filter(|kind| kinds & (1 << kind.code()) != 0).collect())]
            }
            Verb::List { state, group, limit } => {
                let states: Vec<_> =
                    JobState::ALL.into_iter().filter(|wanted| state & (1 << wanted.code()) != 0).collect();
                let group = group.then(|| "red".to_owned());
                // About a third of the listings: what nodes have.
                let in_hands = limit % 3 == 0;
                vec![Call::Jobs(Filter { states, group, in_hands, limit: Some(limit), ..Filter::default() })]
            }
            Verb::Pass { .. } => unreachable!("time is passed by the player"),
        }
    }

    /// All batches that are assigned to the node and not done.
    async fn batches_of(&self, node: Incarnation) -> Vec<BatchId> {
        let mail = self.memory.store.assignments(node, vec![]).await.expect("memory answers");
        mail.batches.into_iter().map(|delivery| delivery.batch).collect()
    }

    /// What `event` makes of the jobs that are in the node's hands (or were, with an old fence).
    async fn settlements(
        &self,
        jobs: u8,
        node: Incarnation,
        event: impl Fn(u64) -> Event,
        slip: Slip,
        now: turnwise_core::Timestamp,
    ) -> Vec<Settlement> {
        let heads = self.memory.store.load(Load::After { id: None, limit: ALL }).await.expect("memory answers").jobs;
        let mut settlements = Vec::new();
        for (n, job) in (0..).zip(self.named(jobs).await) {
            let head = heads.iter().find(|head| head.id == job.id);
            let held = head.is_some_and(|head| head.node == Some(node));
            let was_held = slip == Slip::OldFence && job.fence.was_assigned();
            if !held && !was_held {
                continue;
            }
            // A job at rest is settled as its last node would settle it again after a lost reply.
            let event = event(n);
            let ran = matches!(event, Event::Ended(_));
            let state = if job.state.assigned() { job.state } else { JobState::Running };
            let facts = JobFacts { state, begun: ran || state == JobState::Running, ..JobFacts::from(&job) };
            let Ok(to) = lifecycle::decide(&facts, &event, now, 0.0) else { continue };
            let fence = if job.state.assigned() { slipped(job.fence, slip) } else { job.fence };
            settlements.push(Settlement {
                job: job.id,
                fence,
                saw_cancel: job.cancel_requested && slip != Slip::Unseen,
                to,
                noted: true,
                started_at: (ran || event == Event::Start).then(|| now.minus(SECOND)),
                finished_at: ran.then_some(now),
            });
        }
        settlements
    }
}

fn slipped(fence: Fence, slip: Slip) -> Fence {
    match slip {
        Slip::OldFence => Fence(fence.0 - 1),
        Slip::NewFence => fence.next(),
        _ => fence,
    }
}

fn ending(event: u8, n: u64) -> Event {
    match (u64::from(event) + n) % 9 {
        0 | 1 => Event::Start,
        2 => Event::Ended(Outcome::Done { result: Some(json(&format!("[{event}, {n}]"))) }),
        3 => Event::Ended(Outcome::Error(format!("error {event}").into())),
        4 => Event::Ended(Outcome::Fail("for good".into())),
        5 => Event::Ended(Outcome::Snooze { wait: Duration::from_micros(u64::from(event) + 1) }),
        6 => Event::Ended(Outcome::Cancelled),
        7 => {
            Event::Ended(Outcome::Next { step: Box::new(step(["mail", "extract"][usize::from(event & 1)])), due: None })
        }
        _ => Event::Ended(Outcome::Interrupted),
    }
}

fn queue(number: u8) -> QueueName {
    QueueName::new(["default", "büro"][usize::from(number & 1)]).expect("a good name")
}

fn new_job(n: u64, kind: u8, due: Option<turnwise_core::Timestamp>) -> NewJob {
    let pick = |bit: u8| usize::from(kind >> bit & 1);
    let policies = [["exponential:10s,5", "task"][pick(7)], "durations:1s", "manual", "none"];
    NewJob {
        task: task(["mail", "extract"][pick(0)]),
        queue: queue(kind >> 1),
        group: GroupName::new(["red", "blue"][pick(2)]).expect("a good name"),
        priority: Priority::new(i64::from(kind % 10) + 1).expect("a good priority"),
        due,
        retry: RetryPolicy::from_stored(policies[usize::from(kind >> 3 & 3)]).expect("a good policy"),
        key: (pick(5) == 1).then(|| KeyName::new(["db", "küche"][pick(6)]).expect("a good name")),
        terms: if kind % 7 == 6 { terms() } else { Terms::default() },
        unique: (kind % 3 == 1).then(|| Box::new(unique(n, kind))),
        // Some of them are not there.
        after: match kind % 3 {
            0 => {
                let on_failure = OnFailure::ALL[usize::from(kind >> 6) % 3];
                After::new((0..n).filter(|other| kind >> 2 & 1 << other > 0).map(id), on_failure).expect("few")
            }
            _ => After::default(),
        },
        ..scene::job(n)
    }
}

/// Few keys, so that jobs conflict; a minute is about as long as the clock is moved.
fn unique(n: u64, kind: u8) -> Unique {
    let minute = Duration::from_secs(60);
    Unique {
        key: UniqueKey::new(["one", "zwölf", "three"][usize::try_from(n % 3).unwrap_or(0)]).expect("a good key"),
        scope: [Scope::Task, Scope::Queue, Scope::Group][usize::from(kind / 3 % 3)].clone(),
        hold: [Hold::UntilEnded, Hold::For(minute), Hold::AtLeast(minute)][usize::from(kind / 9 % 3)],
        on_duplicate: OnDuplicate::ALL[usize::from(kind / 27 % 3)],
    }
}
