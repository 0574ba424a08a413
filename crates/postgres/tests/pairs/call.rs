//! A call of a verb as a value, so that the same one can be made on PostgreSQL and on the memory store.

use std::{collections::BTreeSet, sync::Arc};

use turnwise_core::{GroupName, Incarnation, JobHead, JobId, NewJob, Node, lifecycle::Target, totals::Totals};
use turnwise_store::{
    AskLost, AskStory, Assign, AssignReply, Author, BatchId, Beat, BeatReply, Closed, Epoch, Expire, Intervention,
    Join, Joined, Last, Load, MemoKind, NewMemo, Note, Once, OperatorStore, Result, Settle, Settled, Store, StoreError,
    SubmitOnce, WriteStatistics,
    conformance::{OperatorHarness, scene},
};
use uuid::Uuid;

use super::access::Access;

/// Both sides of a store.
#[derive(Clone)]
pub(crate) struct Both {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) operators: Arc<dyn OperatorStore>,
}

impl Both {
    pub(crate) async fn of(h: &impl OperatorHarness) -> Self {
        let (store, operators) = h.both().await;
        Self { store, operators }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Call {
    Enqueue(Vec<NewJob>),
    /// In the caller's own transaction.
    EnqueueIn(Level, Vec<NewJob>),
    /// Under a key of the caller's choice.
    Once(SubmitOnce),
    /// By the function `turnwise.enqueue`. The database chooses the id; once it has, the memory store is given the same.
    EnqueueSql(Level, Box<NewJob>),
    /// A transactional task that submits a job and ends.
    Close(Level, Box<Last>, Box<NewJob>),
    Assign(Assign),
    Settle(Settle),
    Note(Incarnation, Vec<Note>),
    Control(Vec<Intervention>),
    Join(Box<Join>),
    Beat(Beat),
    Leave(Incarnation),
    Lost(AskLost),
    Prune,
    Remember(Option<(Incarnation, Epoch)>, Vec<NewMemo>),
    /// About tokens, log-ins and tickets.
    Access(Access),
    /// The dispatcher writes how much there is.
    Totals(Incarnation, Epoch),
    BeginStatistics(Epoch),
    WriteStatistics(WriteStatistics),
    Load(Load),
    Mail(Incarnation),
    Job(JobId),
    Story(JobId),
    Nodes,
    Recall,
}

/// The isolation level of a caller's own transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Level {
    pub(crate) const ALL: [Level; 3] = [Self::ReadCommitted, Self::RepeatableRead, Self::Serializable];

    pub(crate) fn sql(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
            Self::Serializable => "serializable",
        }
    }

    /// Whether the whole transaction reads by one snapshot.
    pub(crate) fn keeps_its_snapshot(self) -> bool {
        self != Self::ReadCommitted
    }
}

/// What a call may touch. Two calls that have nothing of this in common cannot meet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Job(JobId),
    Key(String),
    /// A submit that is done once, by its key.
    Once(String),
    /// The row of the term that writes statistics, and what it writes.
    Statistics,
    Memo(i16, String),
    /// By their numbers in [`super::access`].
    Token(u8),
    Login(u8),
    Ticket(u8),
    /// A node's row and its mail.
    Node(Incarnation),
    Name(String),
    Lead,
    /// History as a whole: pruning makes and drops its tables.
    History,
}

/// What the caller knows after a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// By part: one for each job or memo, where the verb answers so. `None`: this part met a lock and was left alone.
    Parts(Vec<Option<String>>),
    /// It has certainly not happened: the caller's own transaction was rolled back.
    NotDone(String),
    /// It may or may not have happened ([`StoreError::Transient`]): every verb is safe to repeat.
    Doubt(String),
}

impl Answer {
    pub(crate) fn one(text: impl std::fmt::Debug) -> Self {
        Self::Parts(vec![Some(format!("{text:?}"))])
    }

    pub(crate) fn error(error: &StoreError) -> Self {
        match error {
            StoreError::Transient { .. } => Self::Doubt(error.to_string()),
            other => Self::Parts(vec![Some(format!("error: {other}"))]),
        }
    }

    /// The caller's reply, if it has to repeat some of the call.
    pub(crate) fn undone(&self) -> Option<String> {
        match self {
            Self::NotDone(why) | Self::Doubt(why) => Some(why.clone()),
            Self::Parts(parts) => parts.contains(&None).then(|| "locked".into()),
        }
    }

    fn of<T>(reply: Result<Vec<T>>, part: impl Fn(T) -> Option<String>) -> Self {
        match reply {
            Ok(parts) => Self::Parts(parts.into_iter().map(part).collect()),
            Err(error) => Self::error(&error),
        }
    }

    pub(crate) fn whole<T: std::fmt::Debug>(reply: Result<T>) -> Self {
        match reply {
            Ok(reply) => Self::one(reply),
            Err(error) => Self::error(&error),
        }
    }
}

/// `None` for what met a lock.
fn settled(reply: Settled) -> Option<String> {
    (reply != Settled::Locked).then(|| format!("{reply:?}"))
}

impl Call {
    /// Makes the call of one of the store's own verbs.
    pub(crate) async fn on(&self, both: &Both) -> Answer {
        let Both { store, operators } = both;
        match self.clone() {
            Self::Once(submit) => match operators.submit_once(submit).await {
                Ok(Once::UnderWay) => Answer::NotDone("another call with this key is under way".into()),
                done => Answer::whole(done),
            },
            Self::Access(access) => access.on(&**operators).await,
            Self::Totals(node, epoch) => Answer::whole(operators.write_totals((node, epoch), Totals::default()).await),
            Self::BeginStatistics(epoch) => Answer::whole(operators.begin_statistics(epoch).await),
            Self::WriteStatistics(write) => Answer::whole(operators.write_statistics(write).await),
            Self::Enqueue(jobs) => Answer::of(store.enqueue(jobs).await, |reply| Some(format!("{reply:?}"))),
            Self::Assign(assign) => Answer::of(store.assign(assign).await, |(job, reply)| match reply {
                AssignReply::Locked => None,
                // Each store has its own numbers of submission.
                AssignReply::Changed(head) => Some(format!("{job} changed: {:?}", unnumbered(head))),
                reply => Some(format!("{job} {reply:?}")),
            }),
            Self::Settle(settle) => Answer::of(store.settle(settle).await, settled),
            Self::Note(node, notes) => Answer::of(store.note(node, notes).await, settled),
            Self::Control(decisions) => Answer::of(store.control(decisions).await, settled),
            Self::Remember(lead, memos) => {
                Answer::of(store.remember(lead, memos).await, |reply| Some(format!("{reply:?}")))
            }
            Self::Join(join) => Answer::whole(store.join(*join).await.map(|joined| match joined {
                // Whether the other node dispatches is shown to people, and may be a moment old.
                Joined::Taken { by, now } => Joined::Taken { by: Box::new(Node { dispatcher: false, ..*by }), now },
                joined => joined,
            })),
            // What a store can see of the leader's process is its own; who leads is part of the state.
            Self::Beat(beat) => Answer::whole(store.beat(beat).await.map(|reply| BeatReply { leader: None, ..reply })),
            Self::Leave(node) => Answer::whole(store.leave(node).await),
            Self::Lost(ask) => Answer::whole(store.lost_nodes(ask).await),
            // How much is deleted in which round is not promised.
            Self::Prune => Answer::whole(store.prune(None, scene::ALL).await.map(|_| "pruned")),
            Self::Load(load) => Answer::whole(store.load(load).await.map(|mut page| {
                page.jobs = page.jobs.into_iter().map(unnumbered).collect();
                page
            })),
            Self::Mail(node) => Answer::whole(store.assignments(node, vec![]).await.map(scene::in_order)),
            Self::Job(id) => Answer::whole(store.job(id).await),
            Self::Story(job) => Answer::whole(store.story(AskStory { job, after: None, lines: scene::ALL }).await),
            Self::Nodes => Answer::whole(store.nodes().await),
            Self::Recall => Answer::whole(store.recall(MemoKind::ALL.to_vec()).await),
            Self::EnqueueIn(..) | Self::EnqueueSql(..) | Self::Close(..) => {
                unreachable!("the memory store is asked by `specified`, PostgreSQL by `own_transaction`")
            }
        }
    }

    /// What the memory store, the specification, makes of it.
    pub(crate) async fn specified(&self, both: &Both) -> Answer {
        let store = &both.store;
        match self {
            Self::EnqueueIn(_, jobs) => Self::Enqueue(jobs.clone()).on(both).await,
            Self::EnqueueSql(_, job) => match store.enqueue(vec![*job.clone()]).await {
                Ok(replies) => Answer::one(replies[0].id),
                Err(error) => Answer::error(&error),
            },
            Self::Close(_, last, job) => {
                let Settle { author, settlements, .. } = closing(last);
                let before = store.job(last.settlement.job).await.expect("job");
                let open = before.is_some_and(|job| {
                    job.fence == last.settlement.fence && job.state.assigned() && !job.cancel_requested
                });
                if open && let Err(error) = store.enqueue(vec![*job.clone()]).await {
                    return Answer::error(&error);
                }
                let replies = store.settle(Settle { author, settlements, done: vec![] }).await.expect("settle");
                match replies[0] {
                    Settled::Applied if open => Answer::one(Closed::Committed),
                    // Not by this transaction.
                    Settled::Applied => Answer::one(Closed::Refused(Settled::Superseded)),
                    other => Answer::one(Closed::Refused(other)),
                }
            }
            other => other.on(both).await,
        }
    }

    /// Whether it runs in a transaction that is not the store's own.
    pub(crate) fn own_transaction(&self) -> Option<Level> {
        match self {
            Self::EnqueueIn(level, _) | Self::EnqueueSql(level, _) | Self::Close(level, ..) => Some(*level),
            _ => None,
        }
    }

    /// Whether it submits a job, which may be there, again in a transaction whose snapshot may be older than the job's end:
    /// then nothing shows that it has ended (docs/guides/transactions.md says so).
    fn submits_blindly(&self, id: JobId) -> bool {
        matches!(self, Self::EnqueueIn(level, jobs) if level.keeps_its_snapshot() && jobs.iter().any(|job| job.id == id))
    }

    /// Whether it submits, blindly and again, a job that the other call ends.
    pub(crate) fn is_documented(&self, other: &Call) -> bool {
        let ends = |id| other.touches().contains(&Subject::History) && other.touches().contains(&Subject::Job(id));
        super::stages::UNFINISHED.map(scene::id).any(|id| self.submits_blindly(id) && ends(id))
    }

    /// What may have been done instead. A node whose row another call is writing is not declared lost this time: the dispatcher
    /// asks again.
    pub(crate) fn variants(&self) -> Vec<Call> {
        match self {
            Self::Lost(ask) => vec![self.clone(), Self::Lost(AskLost { expire: Expire::NoNode, ..ask.clone() })],
            Self::Access(access) => access.variants().into_iter().map(Self::Access).collect(),
            other => vec![other.clone()],
        }
    }

    /// Whether it decides about several jobs in one statement.
    pub(crate) fn is_a_batch(&self) -> bool {
        match self {
            Self::Assign(assign) => assign.picks.len() > 1,
            Self::Settle(settle) => settle.settlements.len() > 1,
            Self::Control(decisions) => decisions.len() > 1,
            _ => false,
        }
    }

    pub(crate) fn writes(&self) -> bool {
        if let Self::Access(access) = self {
            return access.writes();
        }
        !matches!(self, Self::Load(_) | Self::Mail(_) | Self::Job(_) | Self::Story(_) | Self::Nodes | Self::Recall)
    }

    /// The parts that were answered, as a call by themselves; and those that met a lock, as the caller tries them again.
    pub(crate) fn split(&self, parts: &[Option<String>]) -> (Option<Call>, Option<Call>) {
        if parts.iter().all(Option::is_some) {
            return (Some(self.clone()), None);
        }
        let only = |locked: bool| parts.iter().map(move |part| part.is_none() == locked);
        let any = |call: Call| parts.iter().any(Option::is_some).then_some(call);
        match self {
            Self::Control(all) => {
                (any(Self::Control(pick(all, only(false)))), Some(Self::Control(pick(all, only(true)))))
            }
            Self::Note(node, all) => {
                (any(Self::Note(*node, pick(all, only(false)))), Some(Self::Note(*node, pick(all, only(true)))))
            }
            Self::Settle(settle) => {
                // The batch of a job that is still to be settled stays.
                let some =
                    Settle { settlements: pick(&settle.settlements, only(false)), done: vec![], ..settle.clone() };
                let rest = Settle { settlements: pick(&settle.settlements, only(true)), ..settle.clone() };
                (any(Self::Settle(some)), Some(Self::Settle(rest)))
            }
            Self::Assign(assign) => {
                let some = Assign { picks: pick(&assign.picks, only(false)), ..assign.clone() };
                // The dispatcher picks a locked job again later, in another batch.
                let batch = BatchId(Uuid::from_u128(assign.batch.0.as_u128() + 0x1000));
                let rest = Assign { picks: pick(&assign.picks, only(true)), batch, ..assign.clone() };
                (any(Self::Assign(some)), Some(Self::Assign(rest)))
            }
            other => unreachable!("{other:?} has no parts that could meet a lock"),
        }
    }

    /// A batch that took some of its jobs, as those and the others: a job that was locked is left out, and its row is read again afterwards for
    /// the answer, when its lock may be gone and the row changed. Each job has one order; the batch as a whole need not have one.
    pub(crate) fn in_two(&self, parts: &[Option<String>]) -> Option<[(Call, Vec<Option<String>>); 2]> {
        let is_taken: fn(&str) -> bool = match self {
            Self::Assign(_) => |answer| answer.contains(" Mine(") || answer.contains(" Theirs("),
            Self::Settle(_) | Self::Control(_) => |answer| answer == "Applied",
            _ => return None,
        };
        let only = |taken: bool| -> Vec<Option<String>> {
            let answers = parts.iter().map(|part| part.clone().filter(|answer| is_taken(answer) == taken));
            answers.collect()
        };
        let (taken, left) = (only(true), only(false));
        // What met a lock to the end has no answer, and is in neither of the two.
        let (some, _) = self.split(&taken);
        let others = match (self, self.split(&left).0?) {
            // A batch is done with the last of its jobs, unless one of them is still to be settled.
            (Self::Settle(whole), Self::Settle(others)) if parts.iter().all(Option::is_some) => {
                Self::Settle(Settle { done: whole.done.clone(), ..others })
            }
            (_, others) => others,
        };
        let answers = |parts: Vec<Option<String>>| parts.into_iter().filter(Option::is_some).collect();
        Some([(some.filter(|_| left.iter().any(Option::is_some))?, answers(taken)), (others, answers(left))])
    }

    /// What two calls have in common. History only where one of them prunes: the others add to it or take from it.
    pub(crate) fn common(&self, other: &Call) -> BTreeSet<Subject> {
        let mut common: BTreeSet<_> = self.touches().intersection(&other.touches()).cloned().collect();
        if !matches!(self, Self::Prune) && !matches!(other, Self::Prune) {
            common.remove(&Subject::History);
        }
        common
    }

    pub(crate) fn touches(&self) -> BTreeSet<Subject> {
        let mut touched = BTreeSet::new();
        match self {
            Self::Enqueue(jobs) | Self::EnqueueIn(_, jobs) => jobs.iter().for_each(|job| submit(job, &mut touched)),
            Self::Once(once) => {
                touched.insert(Subject::Once(once.key.to_string()));
                once.jobs.iter().for_each(|job| submit(job, &mut touched));
            }
            Self::Access(access) => touched.extend(access.touches()),
            Self::Totals(..) => {
                touched.insert(Subject::Lead);
            }
            Self::BeginStatistics(_) | Self::WriteStatistics(_) => {
                touched.insert(Subject::Statistics);
            }
            Self::EnqueueSql(_, job) => submit(job, &mut touched),
            Self::Close(_, last, job) => {
                touched = Self::Settle(closing(last)).touches();
                submit(job, &mut touched);
            }
            Self::Assign(assign) => {
                touched.insert(Subject::Lead);
                touched.extend(assign.picks.iter().flat_map(|pick| [Subject::Job(pick.job), Subject::Node(pick.node)]));
            }
            Self::Settle(settle) => {
                match settle.author {
                    Author::Node { node, .. } => touched.insert(Subject::Node(node)),
                    Author::Dispatcher { lost, .. } => {
                        touched.insert(Subject::Lead);
                        touched.insert(Subject::Node(lost))
                    }
                };
                for settlement in &settle.settlements {
                    touched.insert(Subject::Job(settlement.job));
                    if matches!(settlement.to.to, Target::Finish { .. }) {
                        touched.insert(Subject::History);
                    }
                }
            }
            Self::Note(_, notes) => touched.extend(notes.iter().map(|note| Subject::Job(note.job))),
            Self::Control(decisions) => {
                for decision in decisions {
                    touched.insert(Subject::Job(decision.job));
                    if decision.state.finished() || matches!(decision.to.to, Target::Finish { .. }) {
                        touched.insert(Subject::History);
                    }
                }
            }
            Self::Join(join) => {
                touched.insert(Subject::Name(join.name.to_string()));
                touched.insert(Subject::Node(join.incarnation));
                if let Some(replace) = join.replace {
                    touched.extend([Subject::Node(replace.incarnation), Subject::Lead]);
                }
            }
            Self::Beat(Beat { node, .. }) | Self::Leave(node) => {
                touched.extend([Subject::Node(*node), Subject::Lead]);
            }
            Self::Lost(_) => touched.extend([
                Subject::Lead,
                Subject::Node(scene::GAMMA),
                Subject::Node(super::stages::DELTA),
                Subject::Job(scene::id(super::stages::SILENT)),
                Subject::Job(scene::id(super::stages::LOST)),
            ]),
            Self::Prune => {
                let old = [super::stages::OLD, super::stages::AFTER_OLD].map(|n| Subject::Job(scene::id(n)));
                touched.extend(old);
                touched.extend([Subject::History, Subject::Key("spent".into()), Subject::Once("ancient".into())]);
            }
            Self::Remember(lead, memos) => {
                touched.extend(lead.map(|_| Subject::Lead));
                touched.extend(memos.iter().map(|memo| Subject::Memo(memo.kind.code(), memo.name.clone())));
            }
            Self::Load(Load::These(ids)) => touched.extend(ids.iter().copied().map(Subject::Job)),
            Self::Load(_) => {}
            Self::Mail(node) => touched.extend([Subject::Node(*node)]),
            Self::Job(id) | Self::Story(id) => touched.extend([Subject::Job(*id)]),
            Self::Nodes => {
                touched.insert(Subject::Lead);
                touched.extend(super::stages::NODES.map(Subject::Node));
            }
            Self::Recall => {
                touched.extend(super::stages::MEMOS.map(|(kind, name)| Subject::Memo(kind.code(), name.into())));
            }
        }
        touched
    }
}

fn submit(job: &NewJob, touched: &mut BTreeSet<Subject>) {
    touched.insert(Subject::Job(job.id));
    touched.extend(job.after.ids().iter().copied().map(Subject::Job));
    if !job.after.is_empty() {
        touched.insert(Subject::History);
    }
    touched.extend(job.unique.iter().map(|unique| Subject::Key(unique.key.to_string())));
    if job.group != GroupName::default() {
        touched.insert(Subject::Memo(MemoKind::Full.code(), job.group.to_string()));
    }
}

/// The end of a transactional task as the settle that it is.
fn closing(last: &Last) -> Settle {
    let author = Author::Node { node: last.node, told: last.told };
    Settle { author, settlements: vec![last.settlement.clone()], done: vec![] }
}

fn pick<T: Clone>(all: &[T], wanted: impl Iterator<Item = bool>) -> Vec<T> {
    all.iter().zip(wanted).filter(|(_, wanted)| *wanted).map(|(one, _)| one.clone()).collect()
}

/// Numbers of submission are each store's own.
pub(crate) fn unnumbered(head: JobHead) -> JobHead {
    JobHead { seq: 0, ..head }
}
