//! How connections are made: where to, with which settings, and how many for each purpose.

mod params;
mod passfile;
mod endpoint;
mod purpose;
mod reservoir;
mod tls;

use std::{
    collections::BTreeMap,
    fmt,
    future::poll_fn,
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
    config::{Host, SslMode},
    error::SqlState,
    tls::MakeTlsConnect,
};
use tokio_postgres_rustls::MakeRustlsConnect;
use turnwise_store::{Result, StoreError};

use self::{
    endpoint::{Endpoint, endpoints, set_common},
    params::{Params, Surroundings, invalid},
    purpose::{LONGEST, MARK},
    reservoir::Reservoir,
    tls::{Mode, Tls},
};
pub(crate) use self::{
    purpose::Purpose,
    reservoir::{Budget, Counted, Lent, Share},
    tls::advice,
};
use crate::{
    errors::refused_or,
    session::{Answer, Begin, Session, Transaction, Types, Way, Wire},
};

pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the database is, and what the user asked of connections to it.
#[derive(Clone)]
pub(crate) struct Address(Arc<Known>);

struct Known {
    /// In the order they are tried; at least one.
    endpoints: Vec<Endpoint>,
    tls: Tls,
    /// `options` of the url.
    asked: String,
    /// How long one server may take to answer.
    patience: Duration,
    /// A pooler is between here and the server: no session can be relied on.
    pooled: AtomicBool,
    types: Types,
}

type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> = self.0.endpoints.iter().map(|endpoint| endpoint.config.get_hosts()).collect();
        f.debug_struct("Address").field("hosts", &hosts).field("sslmode", &self.0.tls.mode).finish_non_exhaustive()
    }
}

/// Refuses a url that cannot be read, or whose files cannot be; connects to nothing.
pub fn check_url(url: &str) -> Result<()> {
    Address::read(url).map(drop)
}

/// Whether `url`, or the environment beside it, says which database is meant; without that it is the one named like the user.
pub fn names_database(url: &str) -> Result<bool> {
    let variable = |name: &str| std::env::var(name).ok();
    Ok(Params::read(url, &Surroundings { variable: &variable, user: None })?.get("dbname").is_some())
}

impl Address {
    /// The hosts and ports, for a message: `db-1:5432, db-2:5432`.
    pub(crate) fn named(&self) -> String {
        let endpoint = |endpoint: &Endpoint| {
            let host = endpoint.config.get_hosts().first().map_or_else(String::new, |host| match host {
                Host::Tcp(name) => name.clone(),
                #[cfg(unix)]
                Host::Unix(path) => path.display().to_string(),
            });
            format!("{host}:{}", endpoint.config.get_ports().first().copied().unwrap_or(5432))
        };
        self.0.endpoints.iter().map(endpoint).collect::<Vec<_>>().join(", ")
    }

    /// From `url`, and from the environment where it is silent.
    pub(crate) fn read(url: &str) -> Result<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        Self::read_with(url, &Surroundings { variable: &variable, user: whoami::username().ok() })
    }

    fn read_with(url: &str, around: &Surroundings<'_>) -> Result<Self> {
        let params = Params::read(url, around)?;
        let tls = Tls::read(&params, around)?;
        let mut endpoints = endpoints(&params, around)?;
        let patience = match params.number("connect_timeout")? {
            // As libpq: one second is too short, and zero is for ever.
            Some(seconds @ 1..) => Duration::from_secs(u64::max(seconds, 2)),
            _ => (CONNECT_TIMEOUT / u32::try_from(endpoints.len()).unwrap_or(1)).max(Duration::from_secs(2)),
        };
        for endpoint in &mut endpoints {
            set_common(&mut endpoint.config, &params, patience)?;
        }
        let pooled = match params.get("pooler") {
            None => false,
            Some("transaction") => true,
            Some(other) => return Err(invalid("pooler", other, "write transaction, or leave it out")),
        };
        let asked = params.get("options").unwrap_or_default().to_owned();
        let (pooled, types) = (AtomicBool::new(pooled), Types::default());
        Ok(Self(Arc::new(Known { endpoints, tls, asked, patience, pooled, types })))
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

    /// Refuses session options in the url where a pooler leaves no session that could keep them.
    pub(crate) fn check_asked(&self) -> Result<()> {
        if self.pooled() && !self.0.asked.is_empty() {
            Err(StoreError::Refused(format!(
                "the options of the database url ({}) do not reach the server through a connection pooler; connect directly, \
                 or set them for the role: `alter role NAME set SETTING = VALUE`",
                self.0.asked
            )))
        } else {
            Ok(())
        }
    }

    pub(crate) fn way<'a>(&'a self, client: &'a ClientWrapper) -> Way<'a> {
        if self.pooled() { Way::Unnamed(&self.0.types) } else { Way::Named(&client.statement_cache) }
    }

    pub(crate) fn tls(&self) -> &MakeRustlsConnect {
        &self.0.tls.connector
    }

    /// The startup options of a connection for `purpose`.
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

    /// Connects for `purpose` to the first server that accepts the connection.
    pub(crate) async fn connect(&self, purpose: Purpose) -> Answer<(Client, Connection<Socket, Stream>)> {
        if self.pooled() {
            return self.connect_with("").await;
        }
        let (client, mut connection) = match self.connect_with(&self.options(purpose)).await {
            Err(error) if are_options_refused(&error) => {
                self.found_pooler("it accepts no options");
                return self.connect_with("").await;
            }
            connected => connected?,
        };
        if !has_settings(&client, &mut connection, purpose).await? {
            self.found_pooler("it accepts options and ignores them");
        }
        Ok((client, connection))
    }

    fn found_pooler(&self, why: &str) {
        if !self.0.pooled.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "there is a connection pooler in front of the database ({why}): settings are sent with each transaction, \
                 statements without names, and the database is polled for jobs every second. A direct connection is faster"
            );
        }
    }

    async fn connect_with(&self, options: &str) -> Answer<(Client, Connection<Socket, Stream>)> {
        let (first, others) = self.0.endpoints.split_first().expect("there is at least one endpoint");
        let mut last = self.connect_to(first, options).await;
        for endpoint in others {
            match last {
                Err(error) if may_differ_elsewhere(&error) => last = self.connect_to(endpoint, options).await,
                connected => return connected,
            }
        }
        last
    }

    async fn connect_to(&self, endpoint: &Endpoint, options: &str) -> Answer<(Client, Connection<Socket, Stream>)> {
        let mut config = endpoint.config.clone();
        if !options.is_empty() {
            config.options(options);
        }
        let (first, second) = match self.0.tls.mode {
            _ if endpoint.socket => (SslMode::Disable, None),
            Mode::Disable => (SslMode::Disable, None),
            Mode::Allow => (SslMode::Disable, Some(SslMode::Require)),
            Mode::Prefer => (SslMode::Prefer, Some(SslMode::Disable)),
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => (SslMode::Require, None),
        };
        match (self.try_once(&mut config, first).await, second) {
            // As libpq: a server that refuses one way may accept the other.
            (Err(error), Some(second)) if is_about_encryption(&error) => {
                self.try_once(&mut config, second).await.map_err(|_| error)
            }
            (connected, _) => connected,
        }
    }

    async fn try_once(&self, config: &mut Config, mode: SslMode) -> Answer<(Client, Connection<Socket, Stream>)> {
        let connecting = config.ssl_mode(mode).connect(self.0.tls.connector.clone());
        let connected = tokio::time::timeout(self.0.patience, connecting).await;
        // The driver's own timeout is for the first packet only, and a server may fall silent after it.
        connected.unwrap_or_else(|_| Err(tokio_postgres::Error::__private_api_timeout()))
    }

    /// Connections for `purpose`, at most `size`, each opened when it is first needed.
    pub(crate) fn pool(&self, purpose: Purpose, size: usize) -> Result<Pool> {
        // Fast: a connection that is known to be closed is replaced; any other fault shows as a transient error of the verb.
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let connector = Connector { address: self.clone(), purpose };
        let tries = u32::try_from(self.0.endpoints.len()).unwrap_or(1) * 2;
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
    // No task polls the connection yet, so it is polled here.
    let mut ended = false;
    let reply = loop {
        tokio::select! {
            reply = &mut asking => break reply?,
            message = poll_fn(|context| connection.poll_message(context)), if !ended => match message {
                Some(message) => drop(message?),
                None => ended = true,
            },
        }
    };
    let row = reply.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    Ok(row.is_some_and(|row| meant.values().enumerate().all(|(at, value)| row.get(at) == Some(*value))))
}

/// Whether another server may answer otherwise: where one server has refused the user, the others would too.
fn may_differ_elsewhere(error: &tokio_postgres::Error) -> bool {
    error.code().is_none_or(|code| *code == SqlState::CANNOT_CONNECT_NOW)
}

/// Whether the server may accept the other kind of connection, encrypted or not.
fn is_about_encryption(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(code) => code.code().starts_with("28"),
        // Not where no server answers at all.
        None => std::error::Error::source(error).is_none_or(|source| {
            source.downcast_ref::<std::io::Error>().is_none_or(|error| error.raw_os_error().is_none())
        }),
    }
}

/// One plain connection, made as the store makes its own: TLS, environment, password file and all.
///
/// For use beside the store; the store has connections of its own.
pub async fn connect(url: &str) -> Result<Client> {
    let connected = Address::read(url)?.connect(Purpose::Task).await;
    let (client, connection) = connected.map_err(|error| refused_or(error, "connect to the database"))?;
    // Ends by itself when the client is dropped; its errors reach the client's calls.
    tokio::spawn(connection);
    Ok(client)
}

/// Where the connections for one purpose come from.
pub(crate) struct Lane {
    reservoir: Arc<Reservoir>,
    purpose: Purpose,
}

/// Connections by purpose. They share the few that there are, and no purpose can keep another waiting: a flood of submits does not
/// delay a beat, nor a person's long listing an assignment. All are opened when first needed.
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
    pool.get().await.map_err(not_pooled)
}

pub(crate) fn not_pooled(error: PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => refused_or(error, "connect to the database"),
        other => StoreError::transient("connect to the database", other),
    }
}

/// Whether the server, or the role, has as many connections as it may have.
pub(crate) fn has_no_more(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS)
}

/// A connection that is not shared.
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

/// It ends with its client; the client's calls return its errors.
fn spawned(connection: Connection<Socket, Stream>) -> JoinHandle<()> {
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the database ended");
        }
    })
}

#[cfg(test)]
mod tests;
