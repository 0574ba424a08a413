//! The process dies at every step of a scenario, before the step or after it with the reply lost; the others recover.
//!
//! The scenario has one of each: a success, a retry, a cancel, a second node, a person's decision, a node that falls silent with
//! work in its hands. Wherever the process dies, every job comes to exactly one end, what was confirmed stays so, and at rest
//! nothing is left over.

use std::{collections::BTreeMap, sync::Arc};

use turnwise_core::{
    Fence, Incarnation, JobId, JobState, NewJob,
    lifecycle::{self, Event, JobFacts, Outcome, Target},
    scheduler::Pick,
};
use uuid::Uuid;

use super::{
    Faulty, Harness,
    faulty::Accident,
    scene::{self, ALL, ALPHA, BETA, GAMMA, LEASE, SECOND, batch, id, json},
};
use crate::store::*;

const JOBS: u64 = 6;
const DELTA: Incarnation = Incarnation(Uuid::from_u128(0xde17a));

/// Rounds in which the recovery must have come to rest; more would be an endless loop.
const ROUNDS: usize = 10;

pub async fn a_power_cut_at_any_step_loses_and_doubles_nothing(h: &impl Harness) {
    at_every_step(h, Survivor::None).await;
}

pub async fn a_dispatcher_that_dies_at_any_step_loses_and_doubles_nothing(h: &impl Harness) {
    at_every_step(h, Survivor::Beta).await;
}

/// Which node lives on after the accident.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Survivor {
    None,
    Beta,
}

async fn at_every_step(h: &impl Harness, survivor: Survivor) {
    let steps = play(h, survivor, Accident::None).await;
    assert!(steps > 15, "the story has only {steps} steps");
    for step in 1..=steps {
        play(h, survivor, Accident::Before(step)).await;
        play(h, survivor, Accident::After(step)).await;
    }
}

/// The scenario with an accident, then the recovery, then the check of the result. Returns how many calls the process made.
async fn play(h: &impl Harness, survivor: Survivor, accident: Accident) -> u64 {
    h.reset().await;
    let eyes = h.open().await;
    let faulty = Faulty::new(h.open().await, accident);
    let mut story = Story {
        what: format!("{survivor:?} survives {accident:?}"),
        alpha: Arc::new(faulty.clone()),
        beta: match survivor {
            Survivor::None => Arc::new(faulty.clone()),
            Survivor::Beta => h.open().await,
        },
        eyes,
        books: Books::default(),
    };
    let ended = story.play(h).await;
    assert_eq!(ended.is_err(), faulty.dead(), "{}: {ended:?}", story.what);
    story.recover(h, survivor).await;
    story.check_accounts().await;
    faulty.calls()
}

/// What the store has confirmed to a caller.
#[derive(Debug, Default)]
struct Books {
    submitted: Vec<JobId>,
    /// Runs whose end was confirmed, by fence.
    settled: BTreeMap<(JobId, Fence), JobState>,
    charged: bool,
    /// Ends that were confirmed.
    ended: BTreeMap<JobId, JobState>,
}

struct Story {
    what: String,
    /// The store as the dispatcher and a person in the same process reach it.
    alpha: Arc<dyn Store>,
    beta: Arc<dyn Store>,
    /// The store without accidents, to read from.
    eyes: Arc<dyn Store>,
    books: Books,
}

fn submissions() -> Vec<NewJob> {
    let policy = |n| match n {
        2 => "durations:1s",
        5 => "manual",
        _ => "none",
    };
    (1..=JOBS).map(|n| scene::job_with_retry(n, policy(n))).collect()
}

fn charges() -> Vec<NewMemo> {
    ["red", "blue"].map(|group| scene::memo(MemoKind::Charge, group, "0.5")).to_vec()
}

impl Story {
    async fn play(&mut self, h: &impl Harness) -> Result<()> {
        let (alpha, beta) = (self.alpha.clone(), self.beta.clone());
        for part in submissions().chunks(3) {
            let replies = alpha.enqueue(part.to_vec()).await?;
            self.books.submitted.extend(replies.iter().map(|reply| reply.id));
        }
        alpha.join(scene::join(ALPHA, "alpha")).await?;
        beta.join(scene::join(BETA, "beta")).await?;
        let epoch = alpha.beat(scene::beat(ALPHA, true)).await?.epoch.expect("no other node dispatches");
        let begin = alpha.news(AskNews { cursor: None, epoch, asleep: false, new_jobs: u32::MAX }).await?.cursor;
        let page = alpha.load(Load::After { id: None, limit: ALL }).await?;
        assert_eq!(page.jobs.len() as u64, JOBS);

        let to = [(1, ALPHA), (2, ALPHA), (5, ALPHA), (3, BETA), (4, BETA), (6, BETA)];
        self.assign(&alpha, ALPHA, epoch, 1, &to).await?;
        beta.assignments(BETA, vec![]).await?;
        self.settle(&beta, scene::by(BETA), &[(3, Event::Start)], vec![]).await?;
        self.settle(&alpha, scene::by(ALPHA), &[(2, Event::Start)], vec![]).await?;
        h.advance(SECOND).await;
        let ends = [(1, ended(scene::done())), (2, ended(scene::failed("once"))), (5, ended(scene::failed("ask")))];
        let author = Author::Node { node: ALPHA, told: Some(epoch) };
        self.settle(&alpha, author, &ends, vec![batch(1)]).await?;
        alpha.remember(Some((ALPHA, epoch)), charges()).await?;
        self.books.charged = true;

        self.intervene(&alpha, 3, Event::Cancel).await?;
        let mail = beta.assignments(BETA, vec![batch(1)]).await?;
        assert_eq!(mail.stop.len(), 1, "{mail:?}");
        let result = Outcome::Done { result: Some(json("[4]")) };
        let ends = [(3, ended(Outcome::Cancelled)), (4, ended(result))];
        self.settle(&beta, scene::by(BETA), &ends, vec![]).await?;
        self.intervene(&alpha, 5, Event::GiveUp).await?;

        let reply = alpha.beat(scene::beat(ALPHA, true)).await?;
        assert_eq!(reply.epoch, Some(epoch));
        let seen = alpha.news(AskNews { cursor: Some(begin), epoch, asleep: false, new_jobs: u32::MAX }).await?.cursor;
        self.assign(&alpha, ALPHA, epoch, 2, &[(2, ALPHA)]).await?;
        self.settle(&alpha, scene::by(ALPHA), &[(2, ended(scene::done()))], vec![batch(2)]).await?;

        assert!(!beta.leave(BETA).await?, "{}: a job is in its hands", self.what);
        // It calls no second time: its lease runs out.
        h.advance(LEASE + SECOND).await;
        let reply = alpha.beat(scene::beat(ALPHA, true)).await?;
        assert_eq!(reply.epoch, Some(epoch));
        let lost =
            alpha.lost_nodes(AskLost { holder: ALPHA, epoch, expire: Expire::by_the_clock(), limit: ALL }).await?;
        assert_eq!(lost.iter().map(|lost| lost.jobs.len()).collect::<Vec<_>>(), [1]);
        let author = Author::Dispatcher { holder: ALPHA, epoch, lost: BETA, bury: true };
        self.settle(&alpha, author, &[(6, Event::NodeLost)], vec![]).await?;
        self.assign(&alpha, ALPHA, epoch, 3, &[(6, ALPHA)]).await?;
        self.settle(&alpha, scene::by(ALPHA), &[(6, ended(scene::done()))], vec![batch(3)]).await?;
        alpha.prune(Some(seen), ALL).await?;
        assert!(alpha.leave(ALPHA).await?, "{}: nothing is in its hands", self.what);
        Ok(())
    }

    async fn assign(
        &self,
        store: &Arc<dyn Store>,
        holder: Incarnation,
        epoch: Epoch,
        number: u128,
        to: &[(u64, Incarnation)],
    ) -> Result<()> {
        let mut picks = Vec::new();
        for (n, node) in to {
            let fence = self.look(id(*n)).await.fence;
            picks.push(Pick { job: id(*n), fence, node: *node, limited: false });
        }
        let replies = store.assign(Assign { holder, epoch, batch: batch(number), picks }).await?;
        let given = |reply: &AssignReply| matches!(reply, AssignReply::Mine(_) | AssignReply::Theirs(_));
        assert!(replies.iter().all(|(_, reply)| given(reply)), "{}: {replies:?}", self.what);
        Ok(())
    }

    async fn look(&self, job: JobId) -> turnwise_core::Job {
        self.eyes.job(job).await.expect("job").unwrap_or_else(|| panic!("{}: {job} is lost", self.what))
    }

    /// Decides by the jobs as they are now, settles, and notes in the books what was confirmed.
    async fn settle(
        &mut self,
        store: &Arc<dyn Store>,
        author: Author,
        events: &[(u64, Event)],
        done: Vec<BatchId>,
    ) -> Result<()> {
        let now = self.eyes.nodes().await.expect("nodes").now;
        let (mut settlements, mut becomes) = (Vec::new(), Vec::new());
        for (n, event) in events {
            let job = self.look(id(*n)).await;
            let ran = matches!(event, Event::Ended(_));
            let facts = JobFacts { begun: ran, ..JobFacts::from(&job) };
            let to = lifecycle::decide(&facts, event, now, 0.0).expect("a legal move");
            becomes.push((job.id, job.fence, to.state(job.state), to.to.clone()));
            settlements.push(Settlement {
                job: job.id,
                fence: job.fence,
                saw_cancel: job.cancel_requested,
                to,
                noted: true,
                started_at: ran.then_some(now),
                finished_at: ran.then_some(now),
            });
        }
        let replies = store.settle(Settle { author, settlements, done }).await?;
        assert!(replies.iter().all(|reply| *reply == Settled::Applied), "{}: {replies:?}", self.what);
        for (job, fence, state, target) in becomes {
            if target == Target::Running {
                continue;
            }
            let earlier = self.books.settled.insert((job, fence), state);
            assert_eq!(earlier, None, "{}: {job} was settled twice at {fence:?}", self.what);
            if state.finished() {
                self.books.ended.insert(job, state);
            }
        }
        Ok(())
    }

    async fn intervene(&mut self, store: &Arc<dyn Store>, n: u64, event: Event) -> Result<()> {
        let now = self.eyes.nodes().await.expect("nodes").now;
        let job = self.look(id(n)).await;
        let to = lifecycle::decide(&JobFacts::from(&job), &event, now, 0.0).expect("a legal move");
        let becomes = to.state(job.state);
        let replies = store
            .control(vec![Intervention { job: job.id, state: job.state, fence: job.fence, to, line: None }])
            .await?;
        assert_eq!(replies, [Settled::Applied], "{}", self.what);
        if becomes.finished() {
            self.books.ended.insert(job.id, becomes);
        }
        Ok(())
    }

    /// What the living do: the submitter submits again, beta ends its work, gamma takes over and runs all jobs to their end.
    async fn recover(&mut self, h: &impl Harness, survivor: Survivor) {
        let store = self.eyes.clone();
        for job in self.books.submitted.clone() {
            self.look(job).await;
        }
        let replies = store.enqueue(submissions()).await.expect("enqueue");
        for reply in &replies {
            assert!(!(reply.new && self.books.submitted.contains(&reply.id)), "{}: {reply:?}", self.what);
        }
        if survivor == Survivor::Beta {
            self.beta_ends_its_work().await;
        }
        h.advance(LEASE * 2).await;
        store.join(scene::join(GAMMA, "gamma")).await.expect("join");
        let reply = store.beat(scene::beat(GAMMA, true)).await.expect("beat");
        let epoch = reply.epoch.unwrap_or_else(|| panic!("{}: a dead dispatcher's lease does not end", self.what));
        for round in 0.. {
            assert!(round < ROUNDS, "{}: it does not come to rest", self.what);
            self.bury_the_lost(&store, epoch).await;
            let heads = store.load(Load::After { id: None, limit: ALL }).await.expect("load").jobs;
            if heads.is_empty() {
                break;
            }
            self.run_at_gamma(&store, epoch, 100 + round as u128, &heads).await;
        }
        assert!(store.leave(GAMMA).await.expect("leave"), "{}", self.what);
    }

    async fn beta_ends_its_work(&mut self) {
        let beta = self.beta.clone();
        let mail = beta.assignments(BETA, vec![]).await.expect("assignments");
        let held: Vec<_> = mail
            .batches
            .iter()
            .flat_map(|delivery| &delivery.jobs)
            .map(|job| (number(job.id), ended(scene::done())))
            .collect();
        let batches = mail.batches.iter().map(|delivery| delivery.batch).collect();
        self.settle(&beta, scene::by(BETA), &held, batches).await.expect("settle");
        assert!(beta.leave(BETA).await.expect("leave"), "{}", self.what);
    }

    async fn bury_the_lost(&mut self, store: &Arc<dyn Store>, epoch: Epoch) {
        for lost in store
            .lost_nodes(AskLost { holder: GAMMA, epoch, expire: Expire::by_the_clock(), limit: ALL })
            .await
            .expect("lost_nodes")
        {
            let events: Vec<_> = lost.jobs.iter().map(|held| (number(held.id), Event::NodeLost)).collect();
            let lost = lost.node.incarnation;
            let author = Author::Dispatcher { holder: GAMMA, epoch, lost, bury: true };
            self.settle(store, author, &events, vec![]).await.expect("settle");
        }
        assert_eq!(
            store
                .lost_nodes(AskLost { holder: GAMMA, epoch, expire: Expire::by_the_clock(), limit: ALL })
                .await
                .expect("lost_nodes"),
            [],
            "{}",
            self.what
        );
    }

    async fn run_at_gamma(
        &mut self,
        store: &Arc<dyn Store>,
        epoch: Epoch,
        round: u128,
        heads: &[turnwise_core::JobHead],
    ) {
        let mut to = Vec::new();
        for head in heads {
            assert!(!head.state.assigned(), "{}: {head:?} stays in the hands of a dead node", self.what);
            match head.due {
                Some(_) => to.push((number(head.id), GAMMA)),
                None => self.intervene(store, number(head.id), Event::GiveUp).await.expect("control"),
            }
        }
        self.assign(store, GAMMA, epoch, round, &to).await.expect("assign");
        let ends: Vec<_> = to.iter().map(|(n, _)| (*n, ended(scene::done()))).collect();
        self.settle(store, scene::by(GAMMA), &ends, vec![batch(round)]).await.expect("settle");
    }

    async fn check_accounts(&self) {
        let what = &self.what;
        let jobs = self.eyes.jobs(Filter { limit: Some(ALL), ..Filter::default() }).await.expect("jobs");
        let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
        assert_eq!(ids, (1..=JOBS).rev().map(id).collect::<Vec<_>>(), "{what}: as many jobs as were submitted");
        for job in &jobs {
            assert!(job.state.finished(), "{what}: {job:?}");
            if let Some(confirmed) = self.books.ended.get(&job.id) {
                assert_eq!(job.state, *confirmed, "{what}: {} had ended otherwise", job.id);
            }
        }
        // Both or none; written once, since the call was made once.
        let charged = self.eyes.recall(vec![MemoKind::Charge]).await.expect("recall");
        let names: Vec<_> = charged.iter().map(|memo| (memo.name.as_str(), memo.version)).collect();
        assert!(names == [("blue", 1), ("red", 1)] || (names.is_empty() && !self.books.charged), "{what}: {names:?}");
        for node in [ALPHA, BETA, GAMMA] {
            let mail = self.eyes.assignments(node, vec![]).await.expect("assignments");
            assert!(mail.is_empty(), "{what}: mail of {node:?} is left over");
        }
        assert_eq!(self.eyes.nodes().await.expect("nodes").nodes, [], "{what}: a node is left over");
        self.eyes.join(scene::join(DELTA, "delta")).await.expect("join");
        let reply = self.eyes.beat(scene::beat(DELTA, true)).await.expect("beat");
        assert!(reply.epoch.is_some(), "{what}: a lease is left over");
    }
}

fn ended(outcome: Outcome) -> Event {
    Event::Ended(outcome)
}

fn number(job: JobId) -> u64 {
    (1..=JOBS).find(|n| id(*n) == job).unwrap_or_else(|| panic!("{job} is not of this story"))
}
