//! The store behind a handle: one of the drivers, memory, or the caller's own.

use std::{collections::BTreeMap, fmt, sync::Arc};

use turnwise_core::{Invalid, Timestamp, secret::without_password};
use turnwise_executor::executor::{Builder, Connected};
#[cfg(feature = "postgres")]
use turnwise_postgres::{PostgresStore, Transactions};
#[cfg(feature = "sqlite")]
use turnwise_sqlite::SqliteStore;
use turnwise_store::{MemoryStore, OperatorStore, Options, Store, StoreError, memory::Clock};

use crate::Error;
#[cfg(feature = "postgres")]
use crate::id;
#[cfg(feature = "postgres")]
use crate::transactional::OnPostgres;
#[cfg(feature = "sqlite")]
use crate::transactional::OnSqlite;

#[derive(Clone)]
pub(crate) enum Backend {
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteStore),
    #[cfg(feature = "postgres")]
    Postgres { store: Arc<PostgresStore>, transactions: Arc<Transactions> },
    /// Memory, or the caller's own.
    Other { store: Arc<dyn Store>, operators: Option<Arc<dyn OperatorStore>> },
}

/// Which database an address names.
enum Kind {
    #[cfg(feature = "sqlite")]
    Sqlite,
    #[cfg(feature = "postgres")]
    Postgres,
    Memory,
}

impl Kind {
    fn of(url: &str) -> Result<Self, Invalid> {
        match url.split_once(':').map(|(scheme, _)| scheme) {
            #[cfg(feature = "sqlite")]
            Some("sqlite") => Ok(Self::Sqlite),
            #[cfg(feature = "postgres")]
            Some("postgres" | "postgresql") => Ok(Self::Postgres),
            Some("memory") => Ok(Self::Memory),
            #[cfg(not(feature = "sqlite"))]
            Some("sqlite") => Err(left_out(url, "sqlite")),
            #[cfg(not(feature = "postgres"))]
            Some("postgres" | "postgresql") => Err(left_out(url, "postgres")),
            _ => {
                let url = without_password(url);
                let problem = format!("{url:?} is not a database; write sqlite:FILE or postgres://USER@HOST/NAME");
                Err(Invalid::new("database", problem))
            }
        }
    }
}

impl Backend {
    /// Refuses an address that cannot be read: that is the caller's mistake, and not the database's refusal. Opens nothing.
    pub(crate) fn check_url(url: &str) -> Result<(), Invalid> {
        let checked: Result<(), StoreError> = match Kind::of(url)? {
            #[cfg(feature = "sqlite")]
            Kind::Sqlite => turnwise_sqlite::check_url(url),
            #[cfg(feature = "postgres")]
            Kind::Postgres => turnwise_postgres::check_url(url),
            Kind::Memory => Ok(()),
        };
        checked.map_err(|error| match error {
            StoreError::Refused(problem) => Invalid::new("database", problem),
            other => Invalid::new("database", other.to_string()),
        })
    }

    pub(crate) async fn open(url: &str, options: Options) -> Result<Self, Error> {
        Self::check_url(url)?;
        match Kind::of(url)? {
            #[cfg(feature = "postgres")]
            Kind::Postgres => {
                let store = Arc::new(PostgresStore::connect(url, options.clone()).await?);
                let transactions = Arc::new(Transactions::new(url, &options)?.beside(&store));
                Ok(Self::Postgres { store, transactions })
            }
            #[cfg(feature = "sqlite")]
            Kind::Sqlite => Ok(Self::Sqlite(SqliteStore::connect(url, options)?)),
            Kind::Memory => Ok(Self::memory(MemoryStore::new(options, Clock::system()))),
        }
    }

    pub(crate) fn memory(store: MemoryStore) -> Self {
        Self::Other { store: Arc::new(store.clone()), operators: Some(Arc::new(store)) }
    }

    /// The store's side for operators, if it has one.
    pub(crate) fn operators(&self) -> Option<Arc<dyn OperatorStore>> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => Some(Arc::new(store.clone())),
            #[cfg(feature = "postgres")]
            Self::Postgres { store, .. } => Some(store.clone()),
            Self::Other { operators, .. } => operators.clone(),
        }
    }

    pub(crate) fn set_operators(&mut self, given: Arc<dyn OperatorStore>) {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => {}
            #[cfg(feature = "postgres")]
            Self::Postgres { .. } => {}
            Self::Other { operators, .. } => *operators = Some(given),
        }
    }

    /// The time that the database has just answered. Only a server has a clock that is not this machine's.
    pub(crate) fn learn_time(&self, now: Timestamp) {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => {}
            #[cfg(feature = "postgres")]
            Self::Postgres { .. } => id::learn(now),
            Self::Other { .. } => {
                // A clock of the caller's own, as in tests: it must not count for other handles of this process.
                let _ = now;
            }
        }
    }

    pub(crate) fn schema_version(&self) -> Option<u32> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => Some(turnwise_sqlite::schema_version()),
            #[cfg(feature = "postgres")]
            Self::Postgres { .. } => Some(turnwise_postgres::schema_version()),
            Self::Other { .. } => None,
        }
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => Arc::new(store.clone()),
            #[cfg(feature = "postgres")]
            Self::Postgres { store, .. } => store.clone(),
            Self::Other { store, .. } => store.clone(),
        }
    }

    pub(crate) async fn durability(&self) -> Result<BTreeMap<String, String>, Error> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => Ok(store.durability()),
            #[cfg(feature = "postgres")]
            Self::Postgres { store, .. } => Ok(store.durability().await?),
            _ => Ok(BTreeMap::new()),
        }
    }

    /// The store of a node's control loops: on PostgreSQL with connections of its own, on their own thread.
    pub(crate) fn for_control(&self) -> Connected {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres { store, .. } => Connected::to_both(Arc::new(store.for_control())),
            _ => Connected { store: self.store(), operators: self.operators() },
        }
    }

    /// Gives the node what transactional tasks need, where the store is a database.
    pub(crate) fn equip(&self, builder: Builder) -> Builder {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => builder.state(OnSqlite(store.clone())),
            #[cfg(feature = "postgres")]
            Self::Postgres { transactions, .. } => builder.state(OnPostgres(transactions.clone())),
            Self::Other { .. } => builder,
        }
    }
}

#[cfg(not(all(feature = "postgres", feature = "sqlite")))]
fn left_out(url: &str, feature: &str) -> Invalid {
    let url = without_password(url);
    Invalid::new("database", format!("{url:?} needs the feature {feature} of the crate turnwise, which is off"))
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => f.write_str("sqlite"),
            #[cfg(feature = "postgres")]
            Self::Postgres { .. } => f.write_str("postgres"),
            Self::Other { store, .. } => store.fmt(f),
        }
    }
}
