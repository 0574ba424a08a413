//! A database whose commits can be held, and the parties that meet in it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tokio_postgres::{Client, NoTls};
use turnwise_core::{JobId, NewJob, Retention};
use turnwise_postgres::{PostgresStore, Transactions, enqueue_in, migrate};
use turnwise_store::{
    Closed, Closing, Cursor, Epoch, OperatorStore, Options, Store, StoreError,
    conformance::{Harness, OperatorHarness},
};
use turnwise_testpg::Cluster;
use uuid::Uuid;

use super::{
    access,
    call::{Answer, Both, Call, Level, Subject},
    stages::{Stage, TASKS_ID_FROM},
    state, still, until,
};

/// A transaction of the first party that has written anything waits in its commit for the gate, however short it would wait
/// for other locks.
const HOLD: &str = "
    create function turnwise.test_hold() returns trigger language plpgsql set lock_timeout = 0 as $$
    begin
        if current_setting('turnwise.test_hold', true) = 'on' then
            perform pg_advisory_xact_lock_shared(4711);
        end if;
        return null;
    end $$;
    do $$
    declare one text;
    begin
        for one in
            select relname from pg_class
             where relnamespace = 'turnwise'::regnamespace and relkind in ('r', 'p') and not relispartition
               and relname not in ('migration', 'test_clock')
        loop
            execute format(
                'create constraint trigger test_hold after insert or update or delete on turnwise.%I
                     deferrable initially deferred for each row execute function turnwise.test_hold()', one);
        end loop;
    end $$;";

/// A set-up of the tables is kept in the schema `stage` and put back before each pair: quicker than to make it again.
const KEEP: &str = "
    create schema stage;
    create table stage.part as
        select part.relname as name, parent.relname as parent, pg_get_expr(part.relpartbound, part.oid) as bound
          from pg_class as part
          join pg_inherits on inhrelid = part.oid
          join pg_class as parent on parent.oid = inhparent
         where part.relnamespace = 'turnwise'::regnamespace and part.relkind = 'r';
    do $$
    declare one text;
    begin
        for one in
            select relname from pg_class
             where relnamespace = 'turnwise'::regnamespace and relkind in ('r', 'p') and not relispartition
               and relname <> 'migration'
        loop
            execute format('create table stage.%I as table turnwise.%1$I', one);
        end loop;
    end $$;";

const PUT_BACK: &str = "
    do $$
    declare one record;
    begin
        for one in
            select name, parent, bound from stage.part where to_regclass(format('turnwise.%I', name)) is null
        loop
            execute format('create table turnwise.%I partition of turnwise.%I %s', one.name, one.parent, one.bound);
        end loop;
        for one in
            select relname from pg_class
             where relnamespace = 'stage'::regnamespace and relkind = 'r' and relname <> 'part'
        loop
            execute format('delete from turnwise.%I', one.relname);
            execute format('insert into turnwise.%I overriding system value table stage.%1$I', one.relname);
        end loop;
    end $$;";

/// What waits for a lock: by application, and by the processes of own transactions.
const BLOCKED: &str = "
    select count(*) > 0 from pg_stat_activity
     where datname = current_database() and (application_name = $1 or pid = any ($2::int[]))
       and cardinality(pg_blocking_pids(pid)) > 0";

/// As if it had waited longer than it may. A statement that gives up after a moment does so by itself.
const CANCEL: &str = r"
    select count(pg_cancel_backend(pid)) > 0 from pg_stat_activity
     where datname = current_database() and (application_name = $1 or pid = any ($2::int[]))
       and cardinality(pg_blocking_pids(pid)) > 0 and query !~ '^-- (assign|control_[a-z]+)\.sql'";

/// Whether another process has a snapshot: a server process that is about to end, or the server's own vacuum; and how often the
/// vacuum has run.
const SNAPSHOTS: &str = "
    select exists (select from pg_stat_activity
                    where datname = current_database() and pid <> pg_backend_pid() and backend_xmin is not null),
           (select sum(autovacuum_count + autoanalyze_count)::bigint from pg_stat_all_tables)";

pub(crate) struct Database {
    pub(crate) observer: Both,
    pub(crate) epoch: Epoch,
    pub(crate) first: Party,
    pub(crate) second: Party,
    control: Client,
    stranger: Client,
}

/// One side of a pair, with connections of its own.
#[derive(Clone)]
pub(crate) struct Party {
    store: Both,
    tasks: Arc<Transactions>,
    url: String,
    options: Options,
    name: &'static str,
    /// Server processes of its own transactions.
    backends: Arc<Mutex<Vec<i32>>>,
    /// Where it waits once it has a snapshot, if the call shall pause.
    pause: Arc<tokio::sync::Semaphore>,
}

struct Making {
    url: String,
    options: Options,
}

#[async_trait]
impl Harness for Making {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(PostgresStore::connect(&self.url, self.options.clone()).await.expect("connect"))
    }

    async fn advance(&self, by: Duration) {
        connect(&self.url).await.batch_execute(&still::advance(by)).await.expect("move the clock");
    }

    async fn reset(&self) {
        unreachable!("a stage is made once, and put back");
    }
}

#[async_trait]
impl OperatorHarness for Making {
    async fn both(&self) -> (Arc<dyn Store>, Arc<dyn OperatorStore>) {
        let store = Arc::new(PostgresStore::connect(&self.url, self.options.clone()).await.expect("connect"));
        (store.clone(), store)
    }
}

impl Database {
    pub(crate) async fn new(stage: Stage) -> Self {
        let url = Cluster::shared().fresh_database().expect("a fresh database");
        migrate(&url).await.expect("an empty database gets the schema");
        let control = connect(&url).await;
        control.batch_execute(still::CLOCK).await.expect("a still clock");
        let options = Options { retention: Some(stage.retention()), ..Options::default() };
        let making = Making { url: url.clone(), options };
        let epoch = stage.make(&making).await.epoch;
        // What this connection puts back fires no triggers.
        for sql in [HOLD, KEEP, "set session_replication_role = replica"] {
            control.batch_execute(sql).await.expect("the test's own schema");
        }
        Self {
            observer: Both::of(&making).await,
            epoch,
            first: Party::new(&url, "first", "-c turnwise.test_hold=on", stage.retention()).await,
            second: Party::new(&url, "second", "", stage.retention()).await,
            control,
            stranger: connect(&url).await,
        }
    }

    /// Restores the stage as it was made; returns the cursor from which to read news.
    pub(crate) async fn put_back(&self) -> Cursor {
        self.control.batch_execute(PUT_BACK).await.expect("the stage is put back");
        state::news(&*self.observer.store, None, self.epoch).await.cursor
    }

    pub(crate) async fn shut(&self) {
        self.control.batch_execute("select pg_advisory_lock(4711)").await.expect("shut the gate");
    }

    pub(crate) async fn open(&self) {
        self.control.batch_execute("select pg_advisory_unlock(4711)").await.expect("open the gate");
    }

    /// A stranger, that is, an application, locks a row and keeps its transaction open.
    pub(crate) async fn lock(&self, subject: &Subject) {
        let row = match subject {
            Subject::Job(id) => format!("job where id = '{id}'"),
            Subject::Key(key) => format!("unique_key where key = '{key}'"),
            Subject::Once(key) => format!("once where key = '{key}'"),
            Subject::Statistics => "statistics_writer".into(),
            Subject::Memo(kind, name) => format!("memo where kind = {kind} and name = '{name}'"),
            Subject::Node(node) => format!("node where incarnation = '{}'", node.0),
            Subject::Lead => "dispatcher".into(),
            Subject::Token(_) | Subject::Login(_) | Subject::Ticket(_) => access::row(subject),
            Subject::Name(_) | Subject::History => unreachable!("no row of its own: stages::is_there"),
        };
        self.stranger.batch_execute("begin").await.expect("the stranger begins");
        let sql = format!("select 1 from turnwise.{row} for update");
        let locked = self.stranger.query(&sql, &[]).await.expect("the stranger's lock");
        assert_eq!(locked.len(), 1, "{row} is there");
    }

    pub(crate) async fn unlock(&self) {
        self.stranger.batch_execute("commit").await.expect("the stranger goes");
    }

    /// Whether the database says that a statement of `party` waits for a lock.
    pub(crate) async fn is_blocked(&self, party: &Party) -> bool {
        self.ask(BLOCKED, party).await
    }

    /// Cancels the statement of `party` that waits for a lock, if there is one.
    pub(crate) async fn cancel(&self, party: &Party) -> bool {
        self.ask(CANCEL, party).await
    }

    /// A round of pruning with no other snapshot or lock in its way.
    pub(crate) async fn prune_alone(&self, party: &Party) -> Result<(Call, Answer), String> {
        let looks = async || {
            let row = self.control.query_one(SNAPSHOTS, &[]).await.expect("the snapshots");
            (row.get::<_, bool>(0), row.get::<_, i64>(1))
        };
        loop {
            until(async || !looks().await.0).await?;
            let before = looks().await;
            let round = party.call(&Call::Prune, false).await;
            if !before.0 && looks().await == before {
                return Ok(round);
            }
        }
    }

    async fn ask(&self, sql: &str, party: &Party) -> bool {
        let backends = party.backends.lock().expect("no panic").clone();
        self.control.query_one(sql, &[&party.name, &backends]).await.expect("the locks").get(0)
    }
}

impl Party {
    async fn new(url: &str, name: &'static str, settings: &str, retention: Retention) -> Self {
        let settings = settings.replace(' ', "%20").replace('=', "%3D");
        let url = format!("{url}?application_name={name}&options={settings}");
        let options = Options { retention: Some(retention), ..Options::default() };
        Self {
            store: Both::of(&Making { url: url.clone(), options: options.clone() }).await,
            tasks: Arc::new(Transactions::new(&url, &options).expect("a good url")),
            url,
            options,
            name,
            backends: Arc::default(),
            pause: Arc::new(tokio::sync::Semaphore::new(0)),
        }
    }

    /// This party about to make the call, with nothing of an earlier meeting. A store remembers for seconds that an assign met a
    /// lock, so for that one it is a new one.
    pub(crate) async fn to_call(&self, call: &Call) -> Self {
        self.backends.lock().expect("no panic").clear();
        let Call::Assign(_) = call else { return self.clone() };
        let store = Both::of(&Making { url: self.url.clone(), options: self.options.clone() }).await;
        Self { store, ..self.clone() }
    }

    /// Makes the call. With `pause`, an own transaction that keeps its snapshot waits once it has one.
    pub(crate) async fn call(&self, call: &Call, pause: bool) -> (Call, Answer) {
        let answer = match call {
            Call::EnqueueIn(level, jobs) => match self.begin(*level, pause).await {
                Ok(client) => match enqueue_in(&client, jobs).await {
                    Ok(replies) => {
                        committed(
                            &client,
                            Answer::Parts(replies.iter().map(|reply| Some(format!("{reply:?}"))).collect()),
                        )
                        .await
                    }
                    Err(error) => not_stored(&error),
                },
                Err(error) => failed(&error),
            },
            Call::EnqueueSql(level, job) => {
                let reply = async {
                    let client = self.begin(*level, pause).await?;
                    let id = JobId::from_uuid(client.query_one(&sql(job), &[]).await?.get::<_, Uuid>(0));
                    client.batch_execute("commit").await?;
                    Ok::<_, tokio_postgres::Error>(id)
                };
                match reply.await {
                    // The database's own clock is years behind that of the stage.
                    Ok(id) if id < TASKS_ID_FROM => {
                        let job = NewJob { id, ..*job.clone() };
                        return (Call::EnqueueSql(*level, Box::new(job)), Answer::one(id));
                    }
                    Ok(id) => Answer::one(id),
                    Err(error) => failed(&error),
                }
            }
            Call::Close(level, last, job) => {
                let transaction = self.tasks.begin(last.node, None, 4).await.expect("begin");
                let begin = format!("set transaction isolation level {}", level.sql());
                transaction.batch_execute(&begin).await.expect("the task's first statement");
                self.look_around(&transaction, pause).await;
                match enqueue_in(&*transaction, &[*job.clone()]).await {
                    Err(error) => {
                        Box::new(transaction).roll_back().await;
                        not_stored(&error)
                    }
                    Ok(_) => match Box::new(transaction).settle(*last.clone()).await {
                        closed @ (Closed::Committed | Closed::Refused(_)) => Answer::one(closed),
                        closed => Answer::NotDone(format!("{closed:?}")),
                    },
                }
            }
            verb => verb.on(&self.store).await,
        };
        (call.clone(), answer)
    }

    /// Lets a transaction go on that waits with a snapshot.
    pub(crate) fn go_on(&self) {
        self.pause.add_permits(1);
    }

    async fn begin(&self, level: Level, pause: bool) -> Result<Client, tokio_postgres::Error> {
        let client = connect(&self.url).await;
        client.batch_execute(&format!("begin isolation level {}", level.sql())).await?;
        self.look_around(&client, pause).await;
        Ok(client)
    }

    /// From here on its server process is known; and a transaction that keeps its snapshot has one.
    async fn look_around(&self, client: &Client, pause: bool) {
        let pid = client.query_one("select pg_backend_pid() from turnwise.dispatcher", &[]).await.expect("look around");
        self.backends.lock().expect("no panic").push(pid.get(0));
        if pause {
            self.pause.acquire().await.expect("never closed").forget();
        }
    }

    /// Whether an own transaction has begun and waits with its snapshot.
    pub(crate) fn has_begun(&self) -> bool {
        !self.backends.lock().expect("no panic").is_empty()
    }
}

pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connect");
    tokio::spawn(connection);
    client
}

async fn committed(client: &Client, answer: Answer) -> Answer {
    match client.batch_execute("commit").await {
        Ok(()) => answer,
        Err(error) => failed(&error),
    }
}

/// In an own transaction whatever fails is rolled back; what the database refuses by a rule of ours is an answer.
fn failed(error: &tokio_postgres::Error) -> Answer {
    let text = error
        .as_db_error()
        .map_or_else(|| error.to_string(), |error| format!("{} {}", error.code().code(), error.message()));
    match error.code().map(|code| code.code()) {
        Some("TW001" | "TW002") => {
            Answer::Parts(vec![Some(format!("error: {}", error.as_db_error().expect("it has a code").message()))])
        }
        _ => Answer::NotDone(text),
    }
}

fn not_stored(error: &StoreError) -> Answer {
    match error {
        StoreError::Transient { .. } => Answer::NotDone(error.to_string()),
        other => Answer::error(other),
    }
}

/// The call of `turnwise.enqueue` for this job.
fn sql(job: &NewJob) -> String {
    let mut sql = format!("select turnwise.enqueue('{}', '{}'", job.task, job.args.as_str());
    if let Some(unique) = &job.unique {
        sql += &format!(", unique_key => '{}', on_duplicate => '{}'", unique.key, unique.on_duplicate);
    }
    if !job.after.is_empty() {
        let ids: Vec<String> = job.after.ids().iter().map(|id| format!("'{id}'")).collect();
        sql += &format!(", after => array[{}]::uuid[]", ids.join(", "));
    }
    sql + &format!(", \"group\" => '{}')", job.group)
}
