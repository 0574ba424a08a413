//! Transactions for tasks: what a run does in one is committed together with the run's own end, or not at all.
//!
//! They have connections of their own, as many as runs at most: never one that the control loops need. The fence is
//! checked last, in the same write that commits: a process that is stopped there keeps no other waiting for its job.

use std::{
    collections::BTreeMap,
    fmt,
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use deadpool_postgres::{Object, Pool, PoolError};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_postgres::{Client, SimpleQueryMessage};
use turnwise_core::{Incarnation, story::Progress};
use turnwise_store::{Closed, Closing, Kept, Last, Note, Options, Result, Settled, StoreError, Undone};
use uuid::Uuid;

use crate::{
    PostgresStore,
    connect::{Address, Budget, CONNECT_TIMEOUT, Purpose, has_no_more, not_pooled, pooled},
    errors::{causes, failed, is_certain, is_lost, is_refusal, is_unknown_transaction},
    rows::get,
    session::{Part, Session, Wire},
    settle::{Common, Work, read_facts, why_not},
    story::Notes,
};

const HOLD: &str = include_str!("../sql/closing_hold.sql");
const STATUS: &str = include_str!("../sql/closing_status.sql");

/// How long a transaction may stand idle whose task has no timeout, before the server ends it.
const IDLE: Duration = Duration::from_secs(600);
/// What a task has beyond its timeout to notice, before the server ends its transaction.
const GRACE: Duration = Duration::from_secs(15);
/// How long to wait for a statement of a dropped run to be cancelled, or for a roll-back.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause before a server that had no more connections is asked again for one.
const NO_MORE: Duration = Duration::from_millis(100);
/// The time between two checks of what became of a commit, at first and at most.
const LOOK: Duration = Duration::from_millis(20);
const LOOK_MOST: Duration = Duration::from_secs(1);

/// Resets what a task has done to its session, before the next task gets it: no lock of a run that is over stays behind.
/// Statements stay prepared.
const CLEAN: &str = "close all; set session authorization default; reset role; reset all; unlisten *; \
     select pg_advisory_unlock_all(); discard temp; discard sequences";

/// Where a task's transactions come from. Nothing is opened before the first of them.
pub struct Transactions {
    address: Address,
    kept: Arc<Kept>,
    /// One for each node of this process: as many connections as it has slots, on the threads its tasks run on.
    pools: Mutex<BTreeMap<Incarnation, Pool>>,
    /// As many as there may be in this process, if `task_connections` is set.
    bound: Option<Arc<Semaphore>>,
    /// The process's other connections: where the server has no more, tasks get some of theirs.
    budget: Option<Arc<Budget>>,
}

/// A connection that a run has before it begins.
pub struct Seat {
    client: Object,
    pool: Pool,
    permit: Option<OwnedSemaphorePermit>,
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").finish_non_exhaustive()
    }
}

impl fmt::Debug for Transactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transactions").finish_non_exhaustive()
    }
}

impl Transactions {
    /// On the database of a store that was opened with the same `url` and `options`.
    pub fn new(url: &str, options: &Options) -> Result<Self> {
        let bound = options.task_connections.and_then(|most| usize::try_from(most).ok());
        let bound = bound.map(|most| Arc::new(Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS))));
        let (address, kept) = (Address::read(url)?, Arc::new(Kept::new(options)));
        Ok(Self { address, kept, pools: Mutex::default(), bound, budget: None })
    }

    /// Beside this store, in one process: of jobs that end in them they keep what the store keeps, also when the installation's settings
    /// change; and the store gives connections up for them where the server has no more.
    pub fn beside(self, store: &PostgresStore) -> Self {
        Self { kept: Arc::clone(&store.0.kept), budget: Some(store.budget()), ..self }
    }

    /// Begins one for a run of `node` that may take as long as `limit`. `at_most`: how many of them there may be at a time.
    pub async fn begin(&self, node: Incarnation, limit: Option<Duration>, at_most: usize) -> Result<TaskTransaction> {
        // Waits no longer than half of the run's time limit: the run shall be retried with all of its time, not time out here.
        let patience = limit.map_or(CONNECT_TIMEOUT, |limit| CONNECT_TIMEOUT.min(limit / 2));
        let seat = self.seat_within(node, at_most, patience).await?;
        self.begin_on(seat, node, limit).await
    }

    /// A connection for a run of `node`, which has not begun; waits for it, but not for long. `at_most`: as for [`Self::begin`].
    pub async fn seat(&self, node: Incarnation, at_most: usize) -> Result<Seat> {
        self.seat_within(node, at_most, CONNECT_TIMEOUT).await
    }

    async fn seat_within(&self, node: Incarnation, at_most: usize, patience: Duration) -> Result<Seat> {
        let begun = Instant::now();
        let permit = self.permit(patience).await?;
        let pool = self.pool_of(node, at_most)?;
        loop {
            match pool.get().await {
                Ok(client) => return Ok(Seat { client, pool, permit }),
                Err(PoolError::Backend(error))
                    if has_no_more(&error) && begun.elapsed() + NO_MORE < patience && self.budget.is_some() =>
                {
                    self.budget.iter().for_each(|budget| budget.give_one_up(&error));
                    // The server takes a moment to end one. Or another run ends, and leaves its own.
                    tokio::time::sleep(NO_MORE).await;
                }
                Err(error) => return Err(not_pooled(error)),
            }
        }
    }

    /// Begins one on a connection that this run has got already.
    pub async fn begin_on(&self, seat: Seat, node: Incarnation, limit: Option<Duration>) -> Result<TaskTransaction> {
        let Seat { client, pool, permit } = seat;
        let idle = limit.map_or(IDLE, |limit| limit.saturating_add(GRACE));
        let longest =
            limit.map(|limit| format!("set local statement_timeout = {};", millis(limit.saturating_add(GRACE))));
        let begin = format!(
            "begin isolation level read committed; set local application_name = '{}'; set local idle_in_transaction_session_timeout = {}; {}",
            application(node),
            millis(idle),
            longest.unwrap_or_default(),
        );
        let transaction = TaskTransaction {
            client: Some(client),
            pool,
            kept: Arc::clone(&self.kept),
            address: self.address.clone(),
            progress: Mutex::default(),
            clean: false,
            _permit: permit,
        };
        transaction.batch_execute(&begin).await.map_err(failed("begin a task's transaction"))?;
        Ok(transaction)
    }

    async fn permit(&self, patience: Duration) -> Result<Option<OwnedSemaphorePermit>> {
        let Some(bound) = &self.bound else { return Ok(None) };
        match tokio::time::timeout(patience, Arc::clone(bound).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(Some(permit)),
            _ => Err(StoreError::transient("begin a task's transaction", "all of task_connections are in use")),
        }
    }

    fn pool_of(&self, node: Incarnation, at_most: usize) -> Result<Pool> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(&node) {
            return Ok(pool.clone());
        }
        // A new incarnation: pools of incarnations that are over have nothing in use and are dropped. So is an idle one's; it is
        // made anew when needed.
        pools.retain(|_, pool| pool.status().size > pool.status().available);
        let made = self.address.pool(Purpose::Task, at_most)?;
        pools.insert(node, made.clone());
        Ok(made)
    }
}

/// As PostgreSQL counts: at most as many as fit.
fn millis(span: Duration) -> i32 {
    i32::try_from(span.as_millis()).unwrap_or(i32::MAX)
}

/// The application name of the connections on which this node's tasks have transactions open.
pub(crate) fn application(node: Incarnation) -> String {
    format!("turnwise task {}", node.0)
}

/// A run's transaction: a [`tokio_postgres::Client`] inside it. Dropped, it is rolled back, and a statement that is still
/// under way is cancelled.
///
/// Do not commit it: that is done together with the run's end. Savepoints are yours.
pub struct TaskTransaction {
    /// `None` once it is over.
    client: Option<Object>,
    pool: Pool,
    kept: Arc<Kept>,
    address: Address,
    progress: Mutex<Option<Progress>>,
    /// Nothing of the task is left in the session.
    clean: bool,
    _permit: Option<OwnedSemaphorePermit>,
}

impl fmt::Debug for TaskTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskTransaction").finish_non_exhaustive()
    }
}

impl Deref for TaskTransaction {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.client.as_ref().expect("it is over only when it cannot be called any more")
    }
}

impl TaskTransaction {
    /// Records how far the run has come; it can be read once the transaction is committed.
    pub fn progress(&self, progress: Progress) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
    }

    fn take(&mut self) -> Object {
        self.client.take().expect("it is over once")
    }

    /// The connection goes back to its pool if it is clean, and is ended if it is not.
    fn give_back(&mut self, client: Object) {
        if self.clean { drop(client) } else { abandon(client, &self.address) }
    }

    async fn end(&mut self, last: &Last) -> std::result::Result<(), EndError> {
        let client = self.client.as_ref().expect("it is over after this");
        let nothing = EndError::Nothing;
        let number = begin_to_close(client, last.node).await.map_err(nothing)?;
        let settlement = &last.settlement;
        let common = Common { node: last.node.0, told: last.told.map(|epoch| epoch.0), raise: 0 };
        let work = Work::of(&[settlement], self.kept.now().retention).map_err(EndError::Store)?;
        let notes: Vec<&Note> = last.note.iter().collect();
        let notes = Notes::of(&notes, self.kept.now().log_lines);
        let (job, fence): (Uuid, i64) = (settlement.job.uuid(), settlement.fence.0);
        let mut parts = vec![Part::of(HOLD, vec![&job, &fence, &common.node, &settlement.saw_cancel])];
        if last.note.is_some() {
            parts.extend(notes.parts(&common.node));
        }
        let done = Vec::new();
        parts.extend(work.parts(&common, &done));

        // In one write: a process that is stopped here has sent either nothing or all of it.
        let wire = Wire { alone: None, ..self.address.wire(client, Purpose::Task) };
        let ready = wire.all_ready(&parts).await.map_err(nothing)?;
        // Behind a pooler the next transaction on this connection has another session: this one is cleaned before it goes.
        let clean_if = |now: bool| async move { if now { client.batch_execute(CLEAN).await } else { Ok(()) } };
        let pooled = self.address.pooled();
        let (replies, cleaned_first, committed, cleaned) = tokio::join!(
            biased;
            wire.send_all(&parts, &ready),
            clean_if(pooled),
            client.batch_execute("commit"),
            clean_if(!pooled),
        );
        self.clean = cleaned.is_ok();
        match replies.map(drop).and(cleaned_first).and(committed) {
            Ok(()) => Ok(()),
            Err(error) if is_certain(&error) => Err(EndError::RolledBack(error)),
            Err(error) => Err(EndError::Doubt { number, error }),
        }
    }

    /// Looks until it is known whether the transaction was committed.
    async fn find_out(&self, number: &Number, last: &Last, error: &tokio_postgres::Error) -> Closed {
        let mut wait = LOOK;
        loop {
            match self.look(number, last).await {
                Ok(Some(CommitFate::Committed)) => return Closed::Committed,
                Ok(Some(CommitFate::RolledBack)) => return not_committed(error),
                Ok(Some(CommitFate::Elsewhere)) => return Closed::Refused(Settled::Superseded),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, job = %last.settlement.job, "it is not known yet whether its transaction was committed")
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LOOK_MOST);
        }
    }

    async fn look(&self, number: &Number, last: &Last) -> Result<Option<CommitFate>> {
        let client = pooled(&self.pool).await?;
        let client = self.address.wire(&client, Purpose::Node);
        let application = application(last.node);
        let status = match client.query(STATUS, &[&number.xact, &number.backend, &application]).await {
            Ok(rows) => rows.first().map(|row| get::<Option<&str>>(row, 0).map(|status| status.map(str::to_owned))),
            // After a failover the database may not know it.
            Err(error) if is_unknown_transaction(&error) => None,
            Err(error) => return Err(failed("look for a transaction")(error)),
        };
        let committed = match status.transpose()?.flatten().as_deref() {
            Some("aborted") => return Ok(Some(CommitFate::RolledBack)),
            // Or another transaction with the same number, if there was a failover.
            Some("committed") => true,
            Some(_) => return Ok(None),
            None => false,
        };
        // The job's row decides: only this run can have put it to rest at this fence.
        let settlement = &last.settlement;
        let facts = read_facts(&client, &[settlement.job.uuid()]).await?;
        Ok(Some(match why_not(settlement, last.node, false, facts.get(&settlement.job)) {
            Ok(Settled::Applied | Settled::Gone) => CommitFate::Committed,
            // It may have gone on from there.
            Ok(Settled::Superseded) if committed => CommitFate::Committed,
            Ok(Settled::Superseded) => CommitFate::Elsewhere,
            Ok(Settled::CancelRequested | Settled::Locked | Settled::KeyHeld) | Err(_) => CommitFate::RolledBack,
        }))
    }
}

/// By what the fate of a transaction is looked up.
struct Number {
    xact: String,
    backend: i32,
}

/// Sets what the statements of this crate rely on, until the transaction ends; in the role of the node's own statements, and
/// under the node's application name.
async fn begin_to_close(client: &Client, node: Incarnation) -> std::result::Result<Number, tokio_postgres::Error> {
    const CLOSE: &str = "reset session authorization; reset role; set local search_path = pg_catalog, pg_temp; set local jit = off; set local enable_seqscan = off; \
         set local enable_hashjoin = off; set local enable_mergejoin = off; set local max_parallel_workers_per_gather = 0; \
         set local plan_cache_mode = force_custom_plan; select pg_current_xact_id()::text, pg_backend_pid()";
    let close = format!("set local application_name = '{}'; {CLOSE}", application(node));
    let said = client.simple_query(&close).await?;
    let number = said.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            Some(Number { xact: row.get(0)?.to_owned(), backend: row.get(1)?.parse().ok()? })
        }
        _ => None,
    });
    Ok(number.unwrap_or(Number { xact: String::new(), backend: 0 }))
}

enum CommitFate {
    Committed,
    RolledBack,
    /// The job has gone on to another assignment, and it cannot be found out whether this transaction had a part in that.
    Elsewhere,
}

/// Why a transaction did not end with a confirmed commit.
enum EndError {
    /// Before anything was sent that could commit it.
    Nothing(tokio_postgres::Error),
    Store(StoreError),
    /// The server reported it.
    RolledBack(tokio_postgres::Error),
    Doubt {
        number: Number,
        error: tokio_postgres::Error,
    },
}

fn not_committed(error: &tokio_postgres::Error) -> Closed {
    Closed::Failed(why_not_committed(error).into())
}

fn why_not_committed(error: &tokio_postgres::Error) -> String {
    format!("its transaction was not committed: {}", causes(error))
}

#[async_trait::async_trait]
impl Closing for TaskTransaction {
    async fn settle(mut self: Box<Self>, mut last: Last) -> Closed {
        if last.settlement.saw_cancel {
            self.roll_back().await;
            return Closed::Refused(Settled::CancelRequested);
        }
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner).take();
        if progress.is_some() {
            let (job, fence) = (last.settlement.job, last.settlement.fence);
            let nothing = || Note { job, fence, progress: None, lines: Vec::new(), trim: false, steps: Vec::new() };
            last.note.get_or_insert_with(nothing).progress = progress;
        }
        match self.end(&last).await {
            Ok(()) => {
                let client = self.take();
                self.give_back(client);
                Closed::Committed
            }
            Err(EndError::Nothing(error)) => match self.roll_back().await {
                Undone::Asked => not_committed(&error),
                Undone::Cut => Closed::Cut(why_not_committed(&error).into()),
            },
            Err(EndError::Store(error)) => {
                self.roll_back().await;
                Closed::Failed(error.into())
            }
            Err(EndError::RolledBack(error)) if is_refusal(&error) => {
                let client = self.take();
                let outside = self.address.wire(&client, Purpose::Node);
                let facts = read_facts(&outside, &[last.settlement.job.uuid()]).await;
                self.give_back(client);
                let facts = match facts {
                    Ok(facts) => facts,
                    Err(error) => return Closed::Failed(error.into()),
                };
                match why_not(&last.settlement, last.node, false, facts.get(&last.settlement.job)) {
                    // Not by this transaction.
                    Ok(Settled::Applied) => Closed::Refused(Settled::Superseded),
                    Ok(reply) => Closed::Refused(reply),
                    Err(error) => Closed::Failed(error.into()),
                }
            }
            Err(EndError::RolledBack(error)) => {
                let client = self.take();
                self.give_back(client);
                not_committed(&error)
            }
            Err(EndError::Doubt { number, error }) => {
                abandon(self.take(), &self.address);
                self.find_out(&number, &last, &error).await
            }
        }
    }

    async fn roll_back(mut self: Box<Self>) -> Undone {
        // What a task does to a pooler's session beyond its transaction stays there.
        let clean = if self.address.pooled() { "rollback" } else { CLEAN };
        let both = async { tokio::try_join!(self.batch_execute("rollback"), self.batch_execute(clean)) };
        match tokio::time::timeout(PATIENCE, both).await {
            Ok(Ok(_)) => drop(self.take()),
            Ok(Err(error)) if is_lost(&error) => return Undone::Cut,
            _ => {}
        }
        Undone::Asked
    }
}

/// For a run that is dropped, or whose rollback was not confirmed.
impl Drop for TaskTransaction {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            abandon(client, &self.address);
        }
    }
}

/// Ends a connection, and whatever is still under way on it. It is not used again: a late cancel would hit its next user.
///
/// Not by a request to cancel behind a pooler: PgBouncer 1.18 may end over one whose client is gone (`bad client state`), and all clients
/// with it. It closes the connection of a client that is gone in the middle; the server ends the statement there.
fn abandon(client: Object, address: &Address) {
    let client = Object::take(client);
    if address.pooled() {
        return;
    }
    let (token, tls) = (client.cancel_token(), address.tls().clone());
    // Not awaited: it ends by itself in a moment, and with the runtime at the latest; the connection ends in any case.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move {
            let cancelled = tokio::time::timeout(PATIENCE, token.cancel_query(tls)).await;
            if !matches!(cancelled, Ok(Ok(()))) {
                tracing::debug!("a statement of a dropped run could not be cancelled");
            }
            drop(client);
        });
    }
}
