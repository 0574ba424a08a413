//! The whole move. Each step asks the databases how far it is: so it is ended at any moment, and goes on when it is begun again.

use std::{sync::Arc, time::Duration};

use turnwise_core::{
    Incarnation, Job, JobId, Node, NodeName, Serves,
    lifecycle::{self, Event, JobFacts},
    node::Host,
};
use uuid::Uuid;

use super::{Cell, Hindrance, Import, MoveId, MoveStore, Moving, PARTS, Part, Position, Side, Sum};
use crate::{
    StoreError,
    store::{
        AskLost, Author, Beat, Epoch, Expire, Join, Joined, Load, LostJob, LostNode, Result, Settle, Settlement, Store,
    },
};

/// Rows that travel at a time. One may be two megabytes: a job's arguments and its result.
const ROWS: u32 = 200;
/// Jobs of lost nodes that are handed back at a time.
const LOST: u32 = 1_000;
/// How long the mover counts as alive while it hands jobs back.
const LEASE: Duration = Duration::from_secs(5);
/// Between two tries to lead, while the lead of a dispatcher that died is not over.
const TRY_AGAIN: Duration = Duration::from_millis(200);
/// Tries of a step that others' transactions were in the way of.
const TRIES: u32 = 3;

/// One of the two databases.
#[derive(Debug, Clone)]
pub struct Place {
    /// For nodes and jobs.
    pub store: Arc<dyn Store>,
    /// The same database, for the move.
    pub moves: Arc<dyn MoveStore>,
    /// What it is called: without a password.
    pub name: String,
}

/// What has been done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Jobs that were in the hands of nodes that are not alive wait again, or have ended, as after any loss of a node.
    HandedBack(u64),
    /// The source takes no jobs any more. `again`: since an earlier call.
    Closed { again: bool },
    /// All rows of a part are in the target.
    Moved(Progress),
    /// The rows of a part are the same on both sides.
    Verified { part: &'static str, sum: Sum },
    /// The target is open.
    Finished,
    /// All of it was done by an earlier call.
    WasFinished,
}

/// What this call has brought of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The name of the part.
    pub part: &'static str,
    /// Rows; an earlier call may have brought others.
    pub rows: u64,
}

/// A move between two databases.
#[derive(Debug)]
pub struct Mover {
    source: Place,
    target: Place,
    chance: Uuid,
}

impl Mover {
    /// Nothing is done yet. `chance`: chosen at random; a move that begins is known by it.
    pub fn new(source: Place, target: Place, chance: Uuid) -> Self {
        Self { source, target, chance }
    }

    /// Moves everything, or goes on with it; reports each step when it is done. [`StoreError::Refused`] says what a person has to do.
    pub async fn run(&self, report: &mut (dyn FnMut(Step) + Send)) -> Result<()> {
        if self.source.name == self.target.name {
            return Err(StoreError::Refused(same()));
        }
        let (source, target) = (self.source.moves.moving().await?, self.target.moves.moving().await?);
        let id = match self.known(source.as_ref(), target.as_ref())? {
            Some(id) => id,
            None => {
                self.refuse_living(&self.source).await?;
                self.refuse_living(&self.target).await?;
                match self.hand_back().await? {
                    0 => {}
                    jobs => report(Step::HandedBack(jobs)),
                }
                MoveId(self.chance)
            }
        };
        if target.as_ref().is_some_and(|target| target.id == id && target.finished) {
            let whole = source.is_some_and(|source| source.id == id && source.finished);
            self.source.moves.finish(id).await?;
            report(if whole { Step::WasFinished } else { Step::Finished });
            return Ok(());
        }
        // The target first: whatever it is refused for, the source is still open.
        close(&self.target, Moving::new(id, Side::Target, self.source.name.clone())).await?;
        if let Err(error) = close(&self.source, Moving::new(id, Side::Source, self.target.name.clone())).await {
            // Nothing has come yet: the target need not wait for a move that does not begin.
            if self.source.moves.moving().await?.is_none_or(|source| source.id != id) {
                self.target.moves.give_up(id).await?;
            }
            return Err(error);
        }
        report(Step::Closed { again: source.is_some_and(|source| source.id == id) });
        self.copy(id, report).await?;
        for part in PARTS {
            report(Step::Verified { part: part.name, sum: self.verify(part).await? });
        }
        if !self.target.moves.finish(id).await? {
            return Err(given_up());
        }
        self.source.moves.finish(id).await?;
        report(Step::Finished);
        Ok(())
    }

    /// Gives the move up: the target is emptied, then the source is open again.
    pub async fn give_up(&self) -> Result<()> {
        let source = self.source.moves.moving().await?.filter(|moving| moving.side == Side::Source);
        let target = self.target.moves.moving().await?.filter(|moving| moving.side == Side::Target);
        let Some(source) = source else {
            // Ended before it had closed the source.
            let begun = target.filter(|target| !target.finished && target.other == self.source.name);
            if let Some(target) = begun
                && self.target.moves.give_up(target.id).await?
            {
                return Ok(());
            }
            let text = format!("{} is not being moved anywhere; there is nothing to cancel", self.source.name);
            return Err(StoreError::Refused(text));
        };
        let target = target.filter(|target| target.id == source.id);
        if source.finished || target.as_ref().is_some_and(|target| target.finished) {
            let text = format!("the jobs of {} were moved to {} already; use that one", self.source.name, source.other);
            return Err(StoreError::Refused(text));
        }
        if target.is_none() && source.other != self.target.name {
            return Err(StoreError::Refused(elsewhere(&self.source.name, &source)));
        }
        if target.is_some() && !self.target.moves.give_up(source.id).await? {
            return Err(StoreError::Refused(format!("{} has just been finished; look again", self.target.name)));
        }
        self.source.moves.give_up(source.id).await?;
        Ok(())
    }

    /// The move that both databases are in; `None`: a new one may begin.
    fn known(&self, source: Option<&Moving>, target: Option<&Moving>) -> Result<Option<MoveId>> {
        match (source, target) {
            (Some(source), Some(target)) if source.id == target.id => {
                if (source.side, target.side) != (Side::Source, Side::Target) {
                    return Err(StoreError::Refused(same()));
                }
                Ok(Some(source.id))
            }
            (Some(source), _) if source.closed() => Err(StoreError::Refused(match source.side {
                Side::Source => elsewhere(&self.source.name, source),
                Side::Target => format!("{}: {}", self.source.name, source.refusal()),
            })),
            _ => Ok(None),
        }
    }

    async fn refuse_living(&self, place: &Place) -> Result<()> {
        let fleet = place.store.nodes().await?;
        let living: Vec<_> = fleet.nodes.iter().filter(|node| node.alive(fleet.now)).map(living).collect();
        if living.is_empty() { Ok(()) } else { Err(hindered(place, &Hindrance::Nodes(living))) }
    }

    /// Takes what dead nodes have in their hands, through the same decision as the dispatcher's. The mover leads meanwhile: with slots for
    /// nothing, it runs no job.
    async fn hand_back(&self) -> Result<u64> {
        let store = &*self.source.store;
        let held = store.load(Load::InHands(None)).await?.jobs;
        if held.is_empty() {
            return Ok(0);
        }
        let node = Incarnation(self.chance);
        let join = Join {
            incarnation: node,
            name: NodeName::new(format!("turnwise-move-{}", &node.0.simple().to_string()[..8]))
                .map_err(|error| StoreError::broken("name the mover", error))?,
            host: Host {
                name: String::new(),
                boot_id: String::new(),
                pid_namespace: String::new(),
                pid: std::process::id(),
                started: 0,
                version: None,
            },
            slots: 0,
            queue_capacity: 0,
            batch_size: None,
            queues: Serves::All,
            tasks: Default::default(),
            lease: LEASE,
            replace: None,
            worker: None,
        };
        let Joined::In { .. } = store.join(join).await? else {
            return Err(StoreError::transient("join", "another node has the mover's name"));
        };
        let jobs = self.take_all(node).await;
        store.leave(node).await?;
        jobs
    }

    async fn take_all(&self, node: Incarnation) -> Result<u64> {
        let store = &*self.source.store;
        let mut jobs = 0;
        loop {
            let epoch = self.lead(node).await?;
            let ask = AskLost { holder: node, epoch, expire: Expire::by_the_clock(), limit: LOST };
            let lost = store.lost_nodes(ask).await?;
            if lost.is_empty() {
                break;
            }
            for LostNode { node: lost, jobs: held, complete } in lost {
                jobs += held.len() as u64;
                self.take(node, epoch, lost.incarnation, &held, complete).await?;
            }
        }
        // In the hands of nodes that are in no table.
        let epoch = self.lead(node).await?;
        let known: Vec<Incarnation> = store.nodes().await?.nodes.iter().map(|node| node.incarnation).collect();
        for head in store.load(Load::InHands(None)).await?.jobs {
            let Some(holder) = head.node.filter(|holder| !known.contains(holder)) else { continue };
            if let Some(job) = store.job(head.id).await?.filter(|job| job.state.assigned()) {
                self.take(node, epoch, holder, &[stray(job)], false).await?;
                jobs += 1;
            }
        }
        Ok(jobs)
    }

    /// Takes or prolongs the lead. That of a dispatcher that died is over when its lease is.
    async fn lead(&self, node: Incarnation) -> Result<Epoch> {
        loop {
            let reply = self.source.store.beat(Beat::new(node, LEASE, 0, true)).await?;
            if let Some(epoch) = reply.epoch {
                return Ok(epoch);
            }
            if !reply.alive {
                return Err(StoreError::NotLeading);
            }
            self.refuse_other(node).await?;
            tokio::time::sleep(TRY_AGAIN).await;
        }
    }

    async fn refuse_other(&self, node: Incarnation) -> Result<()> {
        let fleet = self.source.store.nodes().await?;
        let others = fleet.nodes.iter().filter(|other| other.incarnation != node && other.alive(fleet.now));
        let others: Vec<_> = others.map(living).collect();
        if others.is_empty() { Ok(()) } else { Err(hindered(&self.source, &Hindrance::Nodes(others))) }
    }

    async fn take(
        &self,
        node: Incarnation,
        epoch: Epoch,
        lost: Incarnation,
        held: &[LostJob],
        complete: bool,
    ) -> Result<()> {
        let now = self.source.store.nodes().await?.now;
        let settlements = held.iter().map(|held| Settlement {
            job: held.id,
            fence: held.fence,
            saw_cancel: held.cancel_requested,
            to: lifecycle::decide(&JobFacts::from(held), &Event::NodeLost, now, 0.0)
                .expect("an assigned job may lose its node"),
            noted: true,
            started_at: None,
            finished_at: None,
        });
        let author = Author::Dispatcher { holder: node, epoch, lost, bury: complete };
        let settle = Settle { author, settlements: settlements.collect(), done: Vec::new() };
        self.source.store.settle(settle).await.map(drop)
    }

    /// Copies what is not in the target yet.
    async fn copy(&self, id: MoveId, report: &mut (dyn FnMut(Step) + Send)) -> Result<()> {
        let mut brought = 0;
        loop {
            let moving = self.target.moves.moving().await?.filter(|moving| moving.id == id && !moving.finished);
            let from = moving.ok_or_else(given_up)?.position;
            let position: Position = serde_json::from_str(&from)
                .map_err(|error| StoreError::broken("read how far the move has got", error))?;
            let Some(name) = position.part else { return Ok(()) };
            let part = Part::named(&name)
                .ok_or_else(|| StoreError::broken("go on with the move", format!("there is no part {name}")))?;
            let rows = self.source.moves.export(part, position.after, ROWS).await?;
            let (many, last) = (rows.len() as u64, rows.len() < ROWS as usize);
            let to = match rows.last() {
                Some(row) if !last => Position { part: Some(name), after: part.key_of(row) },
                _ => Position::after_part(part),
            };
            let import = Import { id, part, rows, from, to: to.to_text() };
            if self.target.moves.import(import).await? {
                brought += many;
                if last {
                    report(Step::Moved(Progress { part: part.name, rows: std::mem::take(&mut brought) }));
                }
            }
        }
    }

    async fn verify(&self, part: &'static Part) -> Result<Sum> {
        let (here, there) = (sum(&*self.source.moves, part).await?, sum(&*self.target.moves, part).await?);
        if here == there {
            return Ok(here);
        }
        let (name, source, target) = (part.name, &self.source.name, &self.target.name);
        let (rows, other) = (here.rows, there.rows);
        Err(StoreError::Refused(format!(
            "{name} is not the same on both sides: {rows} rows in {source}, {other} in {target}; was it changed by hand? \
             `turnwise move {source} {target} --cancel` gives the move up, then begin again"
        )))
    }
}

async fn sum(store: &dyn MoveStore, part: &'static Part) -> Result<Sum> {
    let mut sum = Sum::default();
    let mut after: Vec<Cell> = Vec::new();
    loop {
        let rows = store.export(part, std::mem::take(&mut after), ROWS).await?;
        rows.iter().for_each(|row| sum.add(row));
        match rows.last() {
            Some(row) if rows.len() == ROWS as usize => after = part.key_of(row),
            _ => return Ok(sum),
        }
    }
}

async fn close(place: &Place, moving: Moving) -> Result<()> {
    let mut tries = 1;
    loop {
        match place.moves.close(moving.clone()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(hindrance)) => return Err(hindered(place, &hindrance)),
            Err(error) if error.is_transient() && tries < TRIES => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

fn hindered(place: &Place, hindrance: &Hindrance) -> StoreError {
    let name = &place.name;
    StoreError::Refused(match hindrance {
        Hindrance::Nodes(nodes) => {
            let each: Vec<_> =
                nodes.iter().map(|node| format!("{:?} (until {})", node.name.as_str(), node.until)).collect();
            let nodes = each.join(", ");
            format!("{name} has nodes that are alive: {nodes}; stop them, and wait for the lease of one that crashed")
        }
        Hindrance::InHands => format!("{name}: jobs are in the hands of a node that has just come and gone; try again"),
        Hindrance::NotEmpty(part) => format!(
            "{name} is not empty: it has rows in {part}; everything is moved to an empty database only, so name another one"
        ),
        Hindrance::Moving(moving) => format!("{name}: {}", moving.refusal()),
    })
}

fn elsewhere(name: &str, source: &Moving) -> String {
    let other = &source.other;
    if source.finished {
        return format!("{name}: {}", source.refusal());
    }
    format!(
        "the jobs of {name} are being moved to {other}; `turnwise move {name} {other}` goes on with that, and with --cancel gives it up"
    )
}

fn same() -> String {
    "source and target are the same database, or were named the other way round".to_owned()
}

fn given_up() -> StoreError {
    StoreError::Refused("the move was given up, or finished, by another call; look again".to_owned())
}

fn living(node: &Node) -> super::LivingNode {
    super::LivingNode { name: node.name.clone(), until: node.lease_until }
}

fn stray(job: Job) -> LostJob {
    let Job { id, fence, state, counts, retry, terms, cancel_requested, .. } = job;
    let id: JobId = id;
    LostJob { id, fence, state, counts, retry, terms, cancel_requested }
}
