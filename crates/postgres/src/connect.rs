//! How connections are made: where to, with which settings, and how many for each purpose.

use std::{collections::BTreeMap, time::Duration};

use deadpool_postgres::{Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime};
use tokio_postgres::{Config, NoTls};
use turnwise_store::{Result, StoreError};

use crate::store::{causes, refused_or};

pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    Submit,
    /// Submits with a unique key: they may wait for an open transaction that is taking it.
    Unique,
    /// Giving jobs to nodes.
    Assign,
    /// What else the dispatcher does.
    Dispatch,
    /// Beats and mail.
    Node,
    Settle,
    Note,
    People,
    Listen,
    Migrate,
    /// Transactions of tasks.
    Task,
}

/// A name and a value, as PostgreSQL writes it.
type Setting = (&'static str, &'static str);

/// No statement runs for ever. The one setting for which a value in the url counts more.
const LONGEST: Setting = ("statement_timeout", "30s");

/// A transaction that stands still may not outlast the dispatcher's lease, and nothing waits for ever for a lock.
const BOUNDS: [Setting; 2] = [("idle_in_transaction_session_timeout", "4s"), ("lock_timeout", "10s")];

/// What a database, or a role, may have set otherwise: each statement must see what was committed before it, and a name
/// that is not qualified must not be found in another user's schema.
const GROUND: [Setting; 2] =
    [("default_transaction_isolation", "read committed"), ("search_path", "pg_catalog, pg_temp")];

/// How long an assignment waits for a row that somebody else has locked, before it goes on without that row.
const QUICK_LOCKS: [Setting; 1] = [("lock_timeout", "50ms")];

/// How long ends wait for a row that somebody else has locked, before they are written without it.
const ENDS_LOCKS: [Setting; 1] = [("lock_timeout", "100ms")];

/// How long a submit waits for an open transaction that stores the same id, before it is told to come again.
const ID_LOCKS: [Setting; 1] = [("lock_timeout", "1s")];

/// How long a submit waits for an open transaction that is taking its unique key, before it is told to come again.
const KEY_LOCKS: [Setting; 1] = [("lock_timeout", "2s")];

/// A step of the schema may take as long as it takes, and waits for as long as others hold its tables.
const NO_LIMIT: [Setting; 2] = [("statement_timeout", "0"), ("lock_timeout", "0")];

/// Each statement has an index that carries it (its header says which). A plan that was made while a table was empty,
/// and kept, must not read it whole when it is full.
const INDEXES: [Setting; 2] = [("jit", "off"), ("enable_seqscan", "off")];

/// Rows of a list are found by `id between t.id and t.id`, not by `id = t.id`. Of a table that was empty when it was last
/// vacuumed and is full by now, the planner expects one row, and would read all of its index and compare each with each:
/// 6.9 s for a thousand jobs of fifty thousand. A range cannot be joined but by looking up each, which takes 3 ms.
///
/// Nested loops lock a batch in the order it was sorted in.
const LOOPS: [Setting; 2] = [("enable_hashjoin", "off"), ("enable_mergejoin", "off")];

/// For statements that have one good plan: it is made once for a connection. To make it anew costs up to a millisecond, which
/// a job that comes alone would wait for.
const ONE_PLAN: [Setting; 1] = [("plan_cache_mode", "force_generic_plan")];

/// For statements whose filters may be absent.
const NEW_PLANS: [Setting; 1] = [("plan_cache_mode", "force_custom_plan")];

impl Purpose {
    /// What the statements of this purpose rely on, whatever the url says.
    fn needs(self) -> BTreeMap<&'static str, &'static str> {
        let more: &[&[Setting]] = match self {
            Self::Submit => &[&INDEXES, &ID_LOCKS],
            Self::Unique => &[&INDEXES, &KEY_LOCKS],
            Self::Assign => &[&INDEXES, &LOOPS, &ONE_PLAN, &QUICK_LOCKS],
            Self::Settle => &[&INDEXES, &LOOPS, &ONE_PLAN, &ENDS_LOCKS],
            Self::Dispatch | Self::Node => &[&INDEXES, &LOOPS, &ONE_PLAN],
            Self::Note | Self::People => &[&INDEXES, &LOOPS, &NEW_PLANS],
            Self::Listen => &[],
            Self::Migrate => &[&NO_LIMIT],
            // How long the statements of tasks may take is not for this crate to say.
            Self::Task => return BTreeMap::new(),
        };
        BOUNDS.iter().chain(&GROUND).chain(more.iter().copied().flatten()).copied().collect()
    }
}

/// Where the database is, and what the user asked of connections to it.
#[derive(Debug, Clone)]
pub(crate) struct Address(Config);

impl Address {
    pub(crate) fn read(url: &str) -> Result<Self> {
        let mut config: Config = url
            .parse()
            .map_err(|error| StoreError::Refused(format!("the database url cannot be read: {}", causes(&error))))?;
        if config.get_application_name().is_none() {
            config.application_name("turnwise");
        }
        config
            .connect_timeout(CONNECT_TIMEOUT)
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(10))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(20));
        Ok(Self(config))
    }

    /// How a connection for `purpose` is made.
    ///
    /// Of two values for one setting PostgreSQL takes the last. So the order is: [`LONGEST`], the url, what the statements
    /// rely on.
    pub(crate) fn config(&self, purpose: Purpose) -> Config {
        let mut config = self.0.clone();
        if purpose != Purpose::Task {
            // Between options there is a space; one within a value is marked.
            let option = |(name, value): (&str, &str)| format!("-c {name}={}", value.replace(' ', "\\ "));
            let asked = self.0.get_options().unwrap_or_default().to_owned();
            let needs = purpose.needs().into_iter().map(option);
            let options: Vec<String> = [option(LONGEST), asked].into_iter().chain(needs).collect();
            config.options(options.join(" "));
        }
        config
    }

    /// Connections for `purpose`, at most `size`, each opened when it is first needed.
    pub(crate) fn pool(&self, purpose: Purpose, size: usize) -> Result<Pool> {
        // Fast: a connection that is known to be closed is replaced; any other fault shows as a transient error of the verb.
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        Pool::builder(Manager::from_config(self.config(purpose), NoTls, recycling))
            .max_size(size)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(CONNECT_TIMEOUT))
            .create_timeout(Some(CONNECT_TIMEOUT))
            .build()
            .map_err(|error| StoreError::broken("build a connection pool", error))
    }
}

/// Connections by purpose, so that one purpose never queues behind another: a flood of submits must not delay a beat,
/// nor a person's long listing an assignment. All are opened when first needed.
pub(crate) struct Pools {
    pub(crate) submit: Pool,
    pub(crate) unique: Pool,
    pub(crate) assign: Pool,
    pub(crate) dispatch: Pool,
    pub(crate) node: Pool,
    pub(crate) settle: Pool,
    pub(crate) note: Pool,
    pub(crate) people: Pool,
}

impl Pools {
    pub(crate) fn new(address: &Address) -> Result<Self> {
        Ok(Self {
            submit: address.pool(Purpose::Submit, 4)?,
            unique: address.pool(Purpose::Unique, 4)?,
            // Two batches on their way.
            assign: address.pool(Purpose::Assign, 2)?,
            // A page of the backlog, and the news.
            dispatch: address.pool(Purpose::Dispatch, 2)?,
            node: address.pool(Purpose::Node, 2)?,
            // Two batches on their way, and what runs.
            settle: address.pool(Purpose::Settle, 3)?,
            note: address.pool(Purpose::Note, 2)?,
            people: address.pool(Purpose::People, 2)?,
        })
    }
}

/// A connection with a statement cache, from `pool`.
pub(crate) async fn connection(pool: &Pool) -> Result<deadpool_postgres::Object> {
    pool.get().await.map_err(|error| match error {
        PoolError::Backend(error) => refused_or(error, "connect to the database"),
        other => StoreError::transient("connect to the database", other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything a session was told when it began. `current_setting` writes a value as a person does.
    const TOLD: &str = "select name, current_setting(name) from pg_settings
                         where source = 'client' and name not in ('client_encoding', 'extra_float_digits')";

    fn url() -> String {
        turnwise_testpg::Cluster::shared().url()
    }

    async fn told(client: &impl tokio_postgres::GenericClient) -> BTreeMap<String, String> {
        client.query(TOLD, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    fn map(settings: &[(&str, &str)]) -> BTreeMap<String, String> {
        settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// Written out, not computed: what is said here is what a reader of the statements relies on.
    fn meant(lock_timeout: &str, plan: Option<&str>, loops: bool) -> BTreeMap<String, String> {
        let mut settings = vec![
            ("application_name", "turnwise"),
            ("default_transaction_isolation", "read committed"),
            ("search_path", "pg_catalog, pg_temp"),
            ("idle_in_transaction_session_timeout", "4s"),
            ("statement_timeout", "30s"),
            ("lock_timeout", lock_timeout),
            ("jit", "off"),
            ("enable_seqscan", "off"),
        ];
        settings.extend(plan.map(|plan| ("plan_cache_mode", plan)));
        if loops {
            settings.extend([("enable_hashjoin", "off"), ("enable_mergejoin", "off")]);
        }
        map(&settings)
    }

    #[tokio::test]
    async fn every_connection_has_the_settings_that_are_meant() {
        let address = Address::read(&url()).unwrap();
        let pools = Pools::new(&address).unwrap();
        let (one, new) = (Some("force_generic_plan"), Some("force_custom_plan"));
        for (name, pool, meant) in [
            ("submit", &pools.submit, meant("1s", None, false)),
            ("unique", &pools.unique, meant("2s", None, false)),
            ("assign", &pools.assign, meant("50ms", one, true)),
            ("dispatch", &pools.dispatch, meant("10s", one, true)),
            ("node", &pools.node, meant("10s", one, true)),
            ("settle", &pools.settle, meant("100ms", one, true)),
            ("note", &pools.note, meant("10s", new, true)),
            ("people", &pools.people, meant("10s", new, true)),
        ] {
            let client = connection(pool).await.unwrap();
            assert_eq!(told(&**client).await, meant, "{name}");
        }
        for (purpose, statements, locks) in [(Purpose::Listen, "30s", "10s"), (Purpose::Migrate, "0", "0")] {
            let (client, connection) = address.config(purpose).connect(NoTls).await.unwrap();
            tokio::spawn(connection);
            let meant = map(&[
                ("application_name", "turnwise"),
                ("default_transaction_isolation", "read committed"),
                ("search_path", "pg_catalog, pg_temp"),
                ("idle_in_transaction_session_timeout", "4s"),
                ("statement_timeout", statements),
                ("lock_timeout", locks),
            ]);
            assert_eq!(told(&client).await, meant, "{purpose:?}");
        }
        let tasks = address.pool(Purpose::Task, 1).unwrap();
        let client = connection(&tasks).await.unwrap();
        assert_eq!(told(&**client).await, map(&[("application_name", "turnwise")]), "task");
    }

    #[tokio::test]
    async fn the_url_overrides_what_is_the_users_and_not_what_statements_rely_on() {
        let asked = "-c statement_timeout=99s -c work_mem=5MB -c lock_timeout=77s -c enable_seqscan=on \
                     -c idle_in_transaction_session_timeout=1h";
        let url = format!("{}?application_name=shop&options={}", url(), asked.replace(' ', "%20").replace('=', "%3D"));
        let address = Address::read(&url).unwrap();
        let told = told(&**connection(&Pools::new(&address).unwrap().assign).await.unwrap()).await;
        for (name, value) in [
            ("application_name", "shop"),
            ("statement_timeout", "99s"),
            ("work_mem", "5MB"),
            ("lock_timeout", "50ms"),
            ("enable_seqscan", "off"),
            ("idle_in_transaction_session_timeout", "4s"),
        ] {
            assert_eq!(told.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    #[tokio::test]
    async fn the_urls_options_reach_tasks_as_they_are() {
        let url = format!("{}?options=-c%20lock_timeout%3D77s", url());
        let pool = Address::read(&url).unwrap().pool(Purpose::Task, 1).unwrap();
        let told = told(&**connection(&pool).await.unwrap()).await;
        assert_eq!(told, map(&[("application_name", "turnwise"), ("lock_timeout", "77s")]));
    }
}
