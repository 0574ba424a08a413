//! How connections are made: where to, with which settings, and how many for each purpose.

mod params;
mod passfile;
mod reservoir;
mod tls;

use std::{
    collections::BTreeMap,
    fmt,
    future::poll_fn,
    hash::{BuildHasher, RandomState},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use deadpool_postgres::{ClientWrapper, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime};
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio_postgres::{
    Client, Config, Connection, SimpleQueryMessage, Socket,
    config::{ChannelBinding, SslMode, SslNegotiation, TargetSessionAttrs},
    error::SqlState,
    tls::MakeTlsConnect,
};
use tokio_postgres_rustls::MakeRustlsConnect;
use turnwise_store::{Result, StoreError};

use self::{
    params::{Params, Surroundings, invalid},
    passfile::Login,
    reservoir::Reservoir,
    tls::{Mode, Tls},
};
pub(crate) use self::{
    reservoir::{Budget, Counted, Lent, Share},
    tls::advice,
};
use crate::{
    session::{Answer, Begin, Session, Transaction, Types, Way, Wire},
    store::refused_or,
};

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
const GROUND: [Setting; 2] = [ISOLATION, ("search_path", "pg_catalog, pg_temp")];
const ISOLATION: Setting = ("default_transaction_isolation", "read committed");

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

/// For statements that lock in no order.
const ANY_JOIN: [Setting; 2] = [("enable_hashjoin", "on"), ("enable_mergejoin", "on")];
const ANY_PLAN: [Setting; 1] = [("plan_cache_mode", "auto")];

/// For statements whose filters may be absent.
const NEW_PLANS: [Setting; 1] = [("plan_cache_mode", "force_custom_plan")];

impl Purpose {
    /// What the statements of this purpose rely on, whatever the url says. Purposes of verbs name the same settings, so that a
    /// connection can go from one to another.
    fn needs(self) -> BTreeMap<&'static str, &'static str> {
        let more: &[&[Setting]] = match self {
            Self::Submit => &[&INDEXES, &ANY_JOIN, &ANY_PLAN, &ID_LOCKS],
            Self::Unique => &[&INDEXES, &ANY_JOIN, &ANY_PLAN, &KEY_LOCKS],
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

    /// What makes a connection that had the settings of `before` fit for this purpose.
    fn sets(self, before: Option<Self>) -> String {
        let before = before.map(Self::needs).unwrap_or_default();
        let needs = self.needs().into_iter().filter(|(name, value)| before.get(name) != Some(value));
        needs.map(|(name, value)| format!("set {name} = '{value}';")).collect()
    }

    /// What one transaction of this purpose sets for itself, where no session can be relied on.
    pub(crate) fn local(self) -> String {
        // Its own isolation level it has by now.
        let needs = self.needs().into_iter().filter(|(name, _)| *name != ISOLATION.0);
        let bound = [LONGEST].into_iter().filter(|_| self != Self::Task);
        let set = |(name, value)| format!("pg_catalog.set_config('{name}', '{value}', true)");
        let all: Vec<String> = bound.chain(needs).map(set).collect();
        if all.is_empty() { String::new() } else { format!("select {};", all.join(", ")) }
    }

    /// Begins such a transaction.
    pub(crate) fn begin(self, begin: &str, then: &str) -> String {
        let level = if begin == "begin" { " isolation level read committed" } else { "" };
        format!("{begin}{level}; {}{then}", self.local())
    }
}

/// Where the database is, and what the user asked of connections to it.
#[derive(Clone)]
pub(crate) struct Address(Arc<Known>);

struct Known {
    /// In the order they are tried; at least one.
    places: Vec<Place>,
    tls: Tls,
    /// `options` of the url.
    asked: String,
    /// How long one place may take to answer.
    patience: Duration,
    /// A pooler is between here and the server: no session can be relied on.
    pooled: AtomicBool,
    types: Types,
}

/// A setting of no use but to be read back: it says whether the settings of a connection reach the server's session.
const MARK: Setting = ("turnwise.direct", "yes");

struct Place {
    config: Config,
    /// Nobody listens in on a socket file.
    socket: bool,
}

type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> = self.0.places.iter().map(|place| place.config.get_hosts()).collect();
        f.debug_struct("Address").field("hosts", &hosts).field("sslmode", &self.0.tls.mode).finish_non_exhaustive()
    }
}

impl Address {
    /// From `url`, and from the environment where it is silent.
    pub(crate) fn read(url: &str) -> Result<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        Self::read_with(url, &Surroundings { variable: &variable, user: whoami::username().ok() })
    }

    fn read_with(url: &str, around: &Surroundings<'_>) -> Result<Self> {
        let params = Params::read(url, around)?;
        let tls = Tls::read(&params, around)?;
        let mut places = places(&params, around)?;
        let patience = match params.number("connect_timeout")? {
            // As libpq: one second is too short, and zero is for ever.
            Some(seconds @ 1..) => Duration::from_secs(u64::max(seconds, 2)),
            _ => (CONNECT_TIMEOUT / u32::try_from(places.len()).unwrap_or(1)).max(Duration::from_secs(2)),
        };
        for place in &mut places {
            set_common(&mut place.config, &params, patience)?;
        }
        let pooled = match params.get("pooler") {
            None => false,
            Some("transaction") => true,
            Some(other) => return Err(invalid("pooler", other, "write transaction, or leave it out")),
        };
        let asked = params.get("options").unwrap_or_default().to_owned();
        let (pooled, types) = (AtomicBool::new(pooled), Types::default());
        Ok(Self(Arc::new(Known { places, tls, asked, patience, pooled, types })))
    }

    /// Whether a pooler is between here and the server.
    pub(crate) fn pooled(&self) -> bool {
        self.0.pooled.load(Ordering::Relaxed)
    }

    /// What is sent on `client`, one of this address, while no transaction is open on it.
    pub(crate) fn wire<'a>(&'a self, client: &'a ClientWrapper, purpose: Purpose) -> Wire<'a> {
        Wire { client, way: self.way(client), alone: self.pooled().then_some(purpose) }
    }

    pub(crate) async fn begin<'a>(
        &'a self,
        client: &'a mut ClientWrapper,
        purpose: Purpose,
    ) -> Answer<Transaction<'a>> {
        let cache = Arc::clone(&client.statement_cache);
        Transaction::begin(client, cache, self.pooled().then_some((&self.0.types, purpose))).await
    }

    /// Refuses what the url asks of sessions, where there is none to keep it.
    pub(crate) fn check_asked(&self) -> Result<()> {
        match self.pooled() && !self.0.asked.is_empty() {
            false => Ok(()),
            true => Err(StoreError::Refused(format!(
                "the options of the database url ({}) do not reach the server through a connection pooler; connect directly, \
                 or set them for the role: `alter role NAME set SETTING = VALUE`",
                self.0.asked
            ))),
        }
    }

    pub(crate) fn way<'a>(&'a self, client: &'a ClientWrapper) -> Way<'a> {
        match self.pooled() {
            true => Way::Unnamed(&self.0.types),
            false => Way::Named(&client.statement_cache),
        }
    }

    pub(crate) fn tls(&self) -> &MakeRustlsConnect {
        &self.0.tls.connector
    }

    /// What a connection for `purpose` says when it begins.
    ///
    /// Of two values for one setting PostgreSQL takes the last. So the order is: [`LONGEST`], the url, what the statements
    /// rely on.
    fn options(&self, purpose: Purpose) -> String {
        // Between options there is a space; one within a value is marked.
        let option = |(name, value): (&str, &str)| format!("-c {name}={}", value.replace(' ', "\\ "));
        let bound = [LONGEST].into_iter().filter(|_| purpose != Purpose::Task).map(option);
        let needs = purpose.needs().into_iter().chain([MARK]).map(option);
        bound.chain([self.0.asked.clone()]).chain(needs).collect::<Vec<String>>().join(" ")
    }

    /// Connects for `purpose` to the first place that will have it.
    pub(crate) async fn connect(&self, purpose: Purpose) -> Answer<(Client, Connection<Socket, Stream>)> {
        if self.pooled() {
            return self.connect_with("").await;
        }
        let (client, mut connection) = match self.connect_with(&self.options(purpose)).await {
            Err(error) if are_options_refused(&error) => {
                self.found_pooler("it takes no options");
                return self.connect_with("").await;
            }
            told => told?,
        };
        if !has_settings(&client, &mut connection, purpose).await? {
            self.found_pooler("it takes options, and does not keep to them");
        }
        Ok((client, connection))
    }

    fn found_pooler(&self, why: &str) {
        if !self.0.pooled.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "there is a connection pooler before the database ({why}): settings go along with each transaction, statements \
                 without names, and jobs are looked for every second. A direct connection is faster"
            );
        }
    }

    async fn connect_with(&self, options: &str) -> Answer<(Client, Connection<Socket, Stream>)> {
        let (first, others) = self.0.places.split_first().expect("there is at least one place");
        let mut last = self.connect_to(first, options).await;
        for place in others {
            match last {
                Err(error) if may_differ_elsewhere(&error) => last = self.connect_to(place, options).await,
                told => return told,
            }
        }
        last
    }

    async fn connect_to(&self, place: &Place, options: &str) -> Answer<(Client, Connection<Socket, Stream>)> {
        let mut config = place.config.clone();
        if !options.is_empty() {
            config.options(options);
        }
        let (first, second) = match self.0.tls.mode {
            _ if place.socket => (SslMode::Disable, None),
            Mode::Disable => (SslMode::Disable, None),
            Mode::Allow => (SslMode::Disable, Some(SslMode::Require)),
            Mode::Prefer => (SslMode::Prefer, Some(SslMode::Disable)),
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => (SslMode::Require, None),
        };
        match (self.try_once(&mut config, first).await, second) {
            // As libpq: what is refused one way may be welcome the other.
            (Err(error), Some(second)) if is_about_encryption(&error) => {
                self.try_once(&mut config, second).await.map_err(|_| error)
            }
            (told, _) => told,
        }
    }

    async fn try_once(&self, config: &mut Config, mode: SslMode) -> Answer<(Client, Connection<Socket, Stream>)> {
        let connecting = config.ssl_mode(mode).connect(self.0.tls.connector.clone());
        let told = tokio::time::timeout(self.0.patience, connecting).await;
        // The driver's own timeout is for the first packet only, and a server may fall silent after it.
        told.unwrap_or_else(|_| Err(tokio_postgres::Error::__private_api_timeout()))
    }

    /// Connections for `purpose`, at most `size`, each opened when it is first needed.
    pub(crate) fn pool(&self, purpose: Purpose, size: usize) -> Result<Pool> {
        // Fast: a connection that is known to be closed is replaced; any other fault shows as a transient error of the verb.
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let connector = Connector { address: self.clone(), purpose };
        let tries = u32::try_from(self.0.places.len()).unwrap_or(1) * 2;
        Pool::builder(Manager::from_connect(Config::new(), connector, recycling))
            .max_size(size)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(CONNECT_TIMEOUT))
            .create_timeout(Some((self.0.patience * tries).max(CONNECT_TIMEOUT)))
            .build()
            .map_err(|error| StoreError::broken("build a connection pool", error))
    }
}

/// Makes the connections of a pool.
struct Connector {
    address: Address,
    purpose: Purpose,
}

impl deadpool_postgres::Connect for Connector {
    fn connect(
        &self,
        _: &Config,
    ) -> BoxFuture<'_, std::result::Result<(Client, JoinHandle<()>), tokio_postgres::Error>> {
        Box::pin(async {
            let (client, connection) = self.address.connect(self.purpose).await?;
            Ok((client, spawned(connection)))
        })
    }
}

/// PgBouncer's words for it.
fn are_options_refused(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| {
        error.code().code() == "08P01" && error.message().starts_with("unsupported startup parameter")
    })
}

/// Whether the settings of `purpose` are in force on a new connection: nothing relies on one that was not read back.
async fn has_settings(client: &Client, connection: &mut Connection<Socket, Stream>, purpose: Purpose) -> Answer<bool> {
    let meant: BTreeMap<_, _> = purpose.needs().into_iter().chain([MARK]).collect();
    let names: Vec<String> = meant.keys().map(|name| format!("current_setting('{name}', true)")).collect();
    let ask = format!("select {}", names.join(", "));
    let mut asking = std::pin::pin!(client.simple_query(&ask));
    // Nobody else drives it yet.
    let mut ended = false;
    let told = loop {
        tokio::select! {
            told = &mut asking => break told?,
            message = poll_fn(|context| connection.poll_message(context)), if !ended => match message {
                Some(message) => drop(message?),
                None => ended = true,
            },
        }
    };
    let row = told.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    Ok(row.is_some_and(|row| meant.values().enumerate().all(|(at, value)| row.get(at) == Some(*value))))
}

/// Whether another place may have a better answer: a server that has refused the user speaks for all of them.
fn may_differ_elsewhere(error: &tokio_postgres::Error) -> bool {
    error.code().is_none_or(|code| *code == SqlState::CANNOT_CONNECT_NOW)
}

/// Whether the other kind of connection may be welcome.
fn is_about_encryption(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(code) => code.code().starts_with("28"),
        // Not where nobody answers at all.
        None => std::error::Error::source(error).is_none_or(|source| {
            source.downcast_ref::<std::io::Error>().is_none_or(|error| error.raw_os_error().is_none())
        }),
    }
}

/// Hosts, ports and passwords, one place each.
fn places(params: &Params, around: &Surroundings<'_>) -> Result<Vec<Place>> {
    let (hosts, addresses, ports) = (params.list("host"), params.list("hostaddr"), params.list("port"));
    let count = hosts.len().max(addresses.len()).max(1);
    let counts = [("hosts", hosts.len()), ("hostaddrs", addresses.len())];
    if let Some((what, found)) = counts.iter().find(|(_, found)| *found > 1 && *found != count) {
        return Err(StoreError::Refused(format!("the database url names {found} {what}, and {count} of the others")));
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(StoreError::Refused(format!("the database url names {} ports for {count} hosts", ports.len())));
    }
    let user = params.get("user").map(str::to_owned).or_else(|| around.user.clone());
    let user = user.ok_or_else(|| StoreError::Refused("the database url names no user".to_owned()))?;
    let database = params.get("dbname").unwrap_or(&user);
    let passwords = params.get("password").is_none().then(|| passfile::read(params, around)).flatten();
    let mut places = Vec::with_capacity(count);
    for at in 0..count {
        let port = ports.get(at).or_else(|| ports.first()).copied().unwrap_or_default();
        let port = match port.trim() {
            "" => 5432,
            port => port.parse().map_err(|_| invalid("port", port, "write a number below 65536"))?,
        };
        let address = addresses.get(at).copied().filter(|address| !address.is_empty());
        let named = hosts.get(at).copied().filter(|host| !host.is_empty());
        let host = named.or(address).map_or_else(|| usual_host(port), str::to_owned);
        let mut config = Config::new();
        let socket = host.starts_with('/');
        if socket {
            config.host_path(&host);
        } else {
            config.host(&host);
        }
        if let Some(address) = address.filter(|_| !socket) {
            config.hostaddr(address.parse().map_err(|_| invalid("hostaddr", address, "write an IP address"))?);
        }
        config.port(port).user(&user).dbname(database);
        let login = Login { host: &host, port, database, user: &user };
        let kept = || passwords.as_deref().and_then(|text| passfile::password(text, login));
        if let Some(password) = params.get("password").map(str::to_owned).or_else(kept) {
            config.password(password);
        }
        places.push(Place { config, socket });
    }
    match params.get("load_balance_hosts") {
        None | Some("disable") => {}
        // Each hasher has keys of its own: chance enough for an order.
        Some("random") => places.sort_by_cached_key(|_| RandomState::new().hash_one(0)),
        Some(other) => return Err(invalid("load_balance_hosts", other, "write disable or random")),
    }
    Ok(places)
}

/// Where the server is when nobody says: as libpq, its socket; and this machine's port where there is none.
fn usual_host(port: u16) -> String {
    let socket = |folder: &&&str| Path::new(folder).join(format!(".s.PGSQL.{port}")).exists();
    passfile::SOCKET_FOLDERS.iter().find(socket).map_or_else(|| "localhost".to_owned(), |folder| (*folder).to_owned())
}

fn set_common(config: &mut Config, params: &Params, patience: Duration) -> Result<()> {
    let name = params.get("application_name").or_else(|| params.get("fallback_application_name"));
    config.application_name(name.unwrap_or("turnwise")).connect_timeout(patience);
    let seconds = |name: &str, usual: u64| {
        Ok::<_, StoreError>(Duration::from_secs(params.number(name)?.filter(|asked| *asked > 0).unwrap_or(usual)))
    };
    let retries = params.number("keepalives_retries")?.or(params.number("keepalives_count")?);
    let user_timeout = params.number("tcp_user_timeout")?.map_or(Duration::from_secs(20), Duration::from_millis);
    config
        .keepalives(params.number::<i32>("keepalives")? != Some(0))
        .keepalives_idle(seconds("keepalives_idle", 10)?)
        .keepalives_interval(seconds("keepalives_interval", 5)?)
        .keepalives_retries(retries.unwrap_or(3))
        .tcp_user_timeout(user_timeout);
    match params.get("target_session_attrs") {
        None | Some("any") => {}
        Some("read-write" | "primary") => _ = config.target_session_attrs(TargetSessionAttrs::ReadWrite),
        Some(other) => {
            let instead = "jobs are written; write read-write, primary or any";
            return Err(invalid("target_session_attrs", other, instead));
        }
    }
    match params.get("channel_binding") {
        None | Some("prefer") => {}
        Some("disable") => _ = config.channel_binding(ChannelBinding::Disable),
        Some("require") => _ = config.channel_binding(ChannelBinding::Require),
        Some(other) => return Err(invalid("channel_binding", other, "write disable, prefer or require")),
    }
    match params.get("sslnegotiation") {
        None | Some("postgres") => {}
        Some("direct") => _ = config.ssl_negotiation(SslNegotiation::Direct),
        Some(other) => return Err(invalid("sslnegotiation", other, "write postgres or direct")),
    }
    match params.get("gssencmode") {
        None | Some("disable" | "prefer") => {}
        Some(other) => return Err(invalid("gssencmode", other, "GSSAPI is not spoken here; leave it out")),
    }
    match params.get("client_encoding") {
        None => Ok(()),
        Some(encoding) if ["utf8", "utf-8", "unicode", "auto"].contains(&encoding.to_ascii_lowercase().as_str()) => {
            Ok(())
        }
        Some(other) => Err(invalid("client_encoding", other, "everything travels as UTF8; leave it out")),
    }
}

/// One plain connection, made as the store makes its own: TLS, environment, password file and all.
///
/// For what goes beside the store; the store has connections of its own.
pub async fn connect(url: &str) -> Result<Client> {
    let told = Address::read(url)?.connect(Purpose::Task).await;
    let (client, connection) = told.map_err(|error| refused_or(error, "connect to the database"))?;
    // Ends by itself when the client is dropped; its errors reach the client's calls.
    tokio::spawn(connection);
    Ok(client)
}

/// Where the connections for one purpose come from.
pub(crate) struct Lane {
    reservoir: Arc<Reservoir>,
    purpose: Purpose,
}

/// Connections by purpose. They share the few that there are, and none can keep another waiting: a flood of submits does not delay
/// a beat, nor a person's long listing an assignment. All are opened when first needed.
pub(crate) struct Pools {
    pub(crate) submit: Lane,
    pub(crate) unique: Lane,
    pub(crate) assign: Lane,
    pub(crate) dispatch: Lane,
    pub(crate) node: Lane,
    pub(crate) settle: Lane,
    pub(crate) note: Lane,
    pub(crate) people: Lane,
}

impl Pools {
    pub(crate) fn new(address: &Address, budget: &Arc<Budget>, share: Share) -> Self {
        let reservoir = Reservoir::new(address.clone(), Arc::clone(budget), share);
        let lane = |purpose| Lane { reservoir: Arc::clone(&reservoir), purpose };
        Self {
            submit: lane(Purpose::Submit),
            unique: lane(Purpose::Unique),
            assign: lane(Purpose::Assign),
            dispatch: lane(Purpose::Dispatch),
            node: lane(Purpose::Node),
            settle: lane(Purpose::Settle),
            note: lane(Purpose::Note),
            people: lane(Purpose::People),
        }
    }
}

/// A connection with a statement cache and the settings of its purpose.
pub(crate) async fn connection(lane: &Lane) -> Result<Lent> {
    lane.reservoir.lend(lane.purpose).await
}

/// A connection from a pool of its own kind.
pub(crate) async fn pooled(pool: &Pool) -> Result<deadpool_postgres::Object> {
    pool.get().await.map_err(|error| match error {
        PoolError::Backend(error) => refused_or(error, "connect to the database"),
        other => StoreError::transient("connect to the database", other),
    })
}

/// A connection that nobody shares.
pub(crate) struct Alone {
    address: Address,
    client: ClientWrapper,
    purpose: Purpose,
}

impl Alone {
    pub(crate) fn new(
        address: Address,
        client: Client,
        connection: Connection<Socket, Stream>,
        purpose: Purpose,
    ) -> Self {
        Self { address, client: ClientWrapper::new(client, spawned(connection)), purpose }
    }
}

impl Session for Alone {
    fn wire(&self) -> Wire<'_> {
        self.address.wire(&self.client, self.purpose)
    }
}

impl Begin for Alone {
    async fn begin(&mut self) -> Answer<Transaction<'_>> {
        self.address.begin(&mut self.client, self.purpose).await
    }
}

/// It ends with its client; what went wrong, the client's calls say.
fn spawned(connection: Connection<Socket, Stream>) -> JoinHandle<()> {
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the database ended");
        }
    })
}

#[cfg(test)]
mod tests {
    use turnwise_testpg::{Cluster, PgBouncer, PoolMode};

    use crate::session::Part;

    use super::*;

    /// Everything a session was told when it began. `current_setting` writes a value as a person does.
    const TOLD: &str = "select name, current_setting(name) from pg_settings
                         where source in ('client', 'session') and name not in ('client_encoding', 'extra_float_digits')";

    fn url() -> String {
        Cluster::shared().url()
    }

    fn pools(address: &Address, connections: usize) -> Pools {
        Pools::new(address, &Arc::new(Budget::new(connections)), Share::Control)
    }

    async fn told(client: &impl tokio_postgres::GenericClient) -> BTreeMap<String, String> {
        client.query(TOLD, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    fn map(settings: &[(&str, &str)]) -> BTreeMap<String, String> {
        settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// Written out, not computed: what is said here is what a reader of the statements relies on.
    fn meant(lock_timeout: &str, plan: &str, joins: &str) -> BTreeMap<String, String> {
        map(&[
            ("application_name", "turnwise"),
            ("default_transaction_isolation", "read committed"),
            ("search_path", "pg_catalog, pg_temp"),
            ("idle_in_transaction_session_timeout", "4s"),
            ("statement_timeout", "30s"),
            ("lock_timeout", lock_timeout),
            ("jit", "off"),
            ("enable_seqscan", "off"),
            ("plan_cache_mode", plan),
            ("enable_hashjoin", joins),
            ("enable_mergejoin", joins),
        ])
    }

    #[tokio::test]
    async fn every_connection_has_the_settings_that_are_meant() {
        let address = Address::read(&url()).unwrap();
        let pools = pools(&address, 10);
        let (one, new) = ("force_generic_plan", "force_custom_plan");
        let all = [
            ("submit", &pools.submit, meant("1s", "auto", "on")),
            ("unique", &pools.unique, meant("2s", "auto", "on")),
            ("assign", &pools.assign, meant("50ms", one, "off")),
            ("dispatch", &pools.dispatch, meant("10s", one, "off")),
            ("node", &pools.node, meant("10s", one, "off")),
            ("settle", &pools.settle, meant("100ms", one, "off")),
            ("note", &pools.note, meant("10s", new, "off")),
            ("people", &pools.people, meant("10s", new, "off")),
        ];
        for (name, lane, meant) in &all {
            let client = connection(lane).await.unwrap();
            assert_eq!(told(client.wire().client).await, *meant, "{name}");
        }
        // And when one connection goes from each purpose to each other.
        let few = super::Pools::new(&address, &Arc::new(Budget::new(3)), Share::Callers);
        let lanes =
            [&few.submit, &few.unique, &few.assign, &few.dispatch, &few.node, &few.settle, &few.note, &few.people];
        let mut backend = None;
        for first in lanes {
            for (second, (name, _, meant)) in lanes.iter().zip(&all) {
                drop(connection(first).await.unwrap());
                let client = connection(second).await.unwrap();
                assert_eq!(told(client.wire().client).await, *meant, "{name} after {:?}", first.purpose);
                let pid = client.query_one("select pg_backend_pid()", &[]).await.unwrap().get::<_, i32>(0);
                assert_eq!(*backend.get_or_insert(pid), pid, "there is one connection");
            }
        }
        for (purpose, statements, locks) in [(Purpose::Listen, "30s", "10s"), (Purpose::Migrate, "0", "0")] {
            let (client, connection) = address.connect(purpose).await.unwrap();
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
        let client = pooled(&tasks).await.unwrap();
        assert_eq!(told(&**client).await, map(&[("application_name", "turnwise")]), "task");
    }

    /// A pooler in transaction mode refuses settings, or drops them; one in session mode may drop them, too.
    #[tokio::test]
    async fn behind_a_pooler_each_transaction_has_the_settings_that_are_meant() {
        let ignored = "ignore_startup_parameters = options";
        for (mode, settings) in
            [(PoolMode::Transaction, ""), (PoolMode::Transaction, ignored), (PoolMode::Session, ignored)]
        {
            let pgbouncer = PgBouncer::start(Cluster::shared(), mode, settings).unwrap();
            let address = Address::read(&pgbouncer.url(&url())).unwrap();
            let pools = pools(&address, 10);
            let set = |lock_timeout, joins| {
                ["30s", "4s", lock_timeout, "pg_catalog, pg_temp", "off", joins, "read committed"]
            };
            for (lane, meant) in [
                (&pools.submit, set("1s", "on")),
                (&pools.unique, set("2s", "on")),
                (&pools.assign, set("50ms", "off")),
                (&pools.dispatch, set("10s", "off")),
                (&pools.node, set("10s", "off")),
                (&pools.settle, set("100ms", "off")),
                (&pools.note, set("10s", "off")),
                (&pools.people, set("10s", "off")),
            ] {
                let ask = "select array[current_setting('statement_timeout'),
                                        current_setting('idle_in_transaction_session_timeout'),
                                        current_setting('lock_timeout'), current_setting('search_path'),
                                        current_setting('enable_seqscan'), current_setting('enable_hashjoin'),
                                        current_setting('transaction_isolation')]";
                let mut client = connection(lane).await.unwrap();
                let told = |row: tokio_postgres::Row| row.get::<_, Vec<String>>(0);
                assert_eq!(told(client.query_one(ask, &[]).await.unwrap()), meant, "{mode:?}, {settings:?}: alone");
                let both = client.in_one_write("begin", &[Part::of(ask, vec![]), Part::of(ask, vec![])]).await;
                for rows in both.unwrap() {
                    assert_eq!(told(rows.into_iter().next().unwrap()), meant, "{mode:?}, {settings:?}: in one write");
                }
                let transaction = client.begin().await.unwrap();
                assert_eq!(
                    told(transaction.query_one(ask, &[]).await.unwrap()),
                    meant,
                    "{mode:?}, {settings:?}: step by step"
                );
            }
            assert!(address.pooled());
            let left = "select current_setting('lock_timeout'), (select count(*) from pg_prepared_statements)";
            let (client, connection) = address.connect(Purpose::Task).await.unwrap();
            tokio::spawn(connection);
            let told = client.simple_query(left).await.unwrap();
            let row = told.iter().find_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some((row.get(0).map(str::to_owned), row.get(1).map(str::to_owned))),
                _ => None,
            });
            let nothing = (Some("0".to_owned()), Some("0".to_owned()));
            assert_eq!(row.unwrap(), nothing, "no setting and no statement is left in the pooler's sessions");
        }
    }

    #[tokio::test]
    async fn behind_a_pooler_the_options_of_the_url_are_refused() {
        let pgbouncer = PgBouncer::start(Cluster::shared(), PoolMode::Transaction, "").unwrap();
        let url = format!("{}?options=-c%20work_mem%3D5MB", pgbouncer.url(&url()));
        let refused = crate::migrate(&url).await.unwrap_err();
        assert!(
            matches!(&refused, StoreError::Refused(why) if why.contains("-c work_mem=5MB") && why.contains("alter role")),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn the_url_overrides_what_is_the_users_and_not_what_statements_rely_on() {
        let asked = "-c statement_timeout=99s -c work_mem=5MB -c lock_timeout=77s -c enable_seqscan=on \
                     -c idle_in_transaction_session_timeout=1h";
        let url = format!("{}?application_name=shop&options={}", url(), asked.replace(' ', "%20").replace('=', "%3D"));
        let address = Address::read(&url).unwrap();
        let told = told(connection(&pools(&address, 10).assign).await.unwrap().wire().client).await;
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

    /// Who is there, by the url and these variables.
    async fn reached(url: &str, variables: &[(&str, &str)]) -> Result<String> {
        let variable =
            |name: &str| variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).to_owned());
        let address = Address::read_with(url, &Surroundings { variable: &variable, user: Some("nobody".to_owned()) })?;
        let told = address.connect(Purpose::People).await;
        let (client, connection) = told.map_err(|error| refused_or(error, "connect to the database"))?;
        tokio::spawn(connection);
        let who =
            "select format('%s@%s/%s', current_user, coalesce(host(inet_server_addr()), 'socket'), current_database())";
        Ok(client.query_one(who, &[]).await.unwrap().get(0))
    }

    fn port_of(cluster: &Cluster) -> String {
        let url = cluster.url();
        url.rsplit_once(':').unwrap().1.split('/').next().unwrap().to_owned()
    }

    #[tokio::test]
    async fn the_environment_leads_to_the_database() {
        let port = port_of(Cluster::shared());
        let far = [("PGHOST", "127.0.0.1"), ("PGPORT", &*port), ("PGUSER", "postgres"), ("PGDATABASE", "template1")];
        assert_eq!(reached("postgres://", &far).await.unwrap(), "postgres@127.0.0.1/template1");
        assert_eq!(reached("postgres:///postgres", &far).await.unwrap(), "postgres@127.0.0.1/postgres");
        let require = [&far[..], &[("PGSSLMODE", "require")]].concat();
        let why = reached("postgres://", &require).await.unwrap_err().to_string();
        assert!(why.contains("does not support TLS"), "{why}");
    }

    /// Its socket is in the folder; over TCP it wants passwords.
    fn guarded() -> (Cluster, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let settings = format!("unix_socket_directories = '{}'", folder.path().display());
        let hba = "local all all trust\nhost all all all scram-sha-256";
        let cluster = Cluster::start_set_up(&settings, &[("pg_hba.conf", hba)]).unwrap();
        let socket =
            format!("postgres://postgres@/postgres?host={}&port={}", folder.path().display(), port_of(&cluster));
        cluster.psql(&socket, "alter role postgres password 'se:cret'").unwrap();
        (cluster, folder)
    }

    #[tokio::test]
    async fn sockets_and_password_files_lead_to_the_database() {
        let (cluster, folder) = guarded();
        let (port, home) = (port_of(&cluster), folder.path().display().to_string());
        let encoded = home.replace('/', "%2F");
        for url in [
            format!("postgres://postgres@{encoded}:{port}/postgres"),
            // A socket is private: no sslmode asks for more.
            format!("postgres://postgres@{encoded}:{port}/postgres?sslmode=verify-full"),
            format!("postgres:///postgres?host={home}&user=postgres&port={port}"),
        ] {
            assert_eq!(reached(&url, &[]).await.unwrap(), "postgres@socket/postgres", "{url}");
        }
        let far = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        let why = reached(&far, &[("HOME", &home)]).await.unwrap_err();
        assert!(matches!(why, StoreError::Refused(_)) && why.to_string().contains("password"), "{why}");
        assert_eq!(reached(&far, &[("PGPASSWORD", "se:cret")]).await.unwrap(), "postgres@127.0.0.1/postgres");
        let file = folder.path().join(".pgpass");
        std::fs::write(&file, format!("127.0.0.1:{port}:postgres:postgres:se\\:cret\n")).unwrap();
        let mode = |mode| std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        mode(0o644);
        assert!(reached(&far, &[("HOME", &home)]).await.is_err(), "a file that others may read is not used");
        mode(0o600);
        assert_eq!(reached(&far, &[("HOME", &home)]).await.unwrap(), "postgres@127.0.0.1/postgres");
        let named = [("PGPASSFILE", file.to_str().unwrap())];
        assert_eq!(reached(&far, &named).await.unwrap(), "postgres@127.0.0.1/postgres");
    }

    #[tokio::test]
    async fn of_several_hosts_the_one_that_can_be_written_is_taken() {
        let standby = Cluster::start_set_up("default_transaction_read_only = on", &[]).unwrap();
        let (gone, read_only, good) = ("1".to_owned(), port_of(&standby), port_of(Cluster::shared()));
        let url = |ports: &[&String], more: &str| {
            let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
            format!("postgres://postgres@{}/postgres?{more}", hosts.join(","))
        };
        let port = async |url: &str| {
            let (client, connection) = Address::read(url).unwrap().connect(Purpose::Task).await?;
            tokio::spawn(connection);
            let port = client.query_one("select inet_server_port()::text", &[]).await.unwrap().get::<_, String>(0);
            Ok::<_, tokio_postgres::Error>(port)
        };
        assert_eq!(port(&url(&[&gone, &read_only, &good], "")).await.unwrap(), read_only);
        for attrs in ["target_session_attrs=read-write", "target_session_attrs=primary"] {
            assert_eq!(port(&url(&[&gone, &read_only, &good], attrs)).await.unwrap(), good);
        }
        let none = port(&url(&[&gone, &read_only], "target_session_attrs=read-write")).await.unwrap_err();
        let none = refused_or(none, "connect to the database");
        assert!(none.is_transient() && none.to_string().contains("does not allow writes"), "{none}");
        // A server that knows the user and refuses him speaks for all.
        let wrong = url(&[&good, &good], "").replace("/postgres?", "/no_such_database?");
        assert_eq!(port(&wrong).await.unwrap_err().code(), Some(&SqlState::INVALID_CATALOG_NAME));
        let refused = Address::read(&url(&[&good], "target_session_attrs=standby")).unwrap_err();
        assert!(refused.to_string().contains("write read-write, primary or any"), "{refused}");
    }

    #[tokio::test]
    async fn the_urls_options_reach_tasks_as_they_are() {
        let url = format!("{}?options=-c%20lock_timeout%3D77s", url());
        let pool = Address::read(&url).unwrap().pool(Purpose::Task, 1).unwrap();
        let told = told(&**pooled(&pool).await.unwrap()).await;
        assert_eq!(told, map(&[("application_name", "turnwise"), ("lock_timeout", "77s")]));
    }
}
