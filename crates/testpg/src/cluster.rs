//! One running PostgreSQL, started here or named by `TURNWISE_TEST_PG_URL`.

use std::env;
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::{Context, Result, bail};

use crate::keeper::{Keeper, Server, random};
use crate::programs;

/// The environment variable with the superuser URL of a running cluster that [`Cluster::shared`] uses.
pub const URL_VARIABLE: &str = "TURNWISE_TEST_PG_URL";

/// A commit reaches the kernel before it is acknowledged, so it survives the end of the server
/// ([`Cluster::stop_immediate`]), but not the end of the machine. That is what makes tests quick.
const QUICK: &str = "fsync = off\nfull_page_writes = off\nwal_init_zero = off";

/// PostgreSQL's own promises, with enough memory and log that a benchmark does not measure checkpoints.
const DURABLE: &str = "shared_buffers = 1GB\nmax_wal_size = 4GB";

/// Counting is off until a database asks for it: a run that is timed is not counted.
const COUNTING: &str = "shared_preload_libraries = 'pg_stat_statements'\npg_stat_statements.track = 'none'";

/// No socket file: the port on 127.0.0.1 is the only way in.
const COMMON: &str = "listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\nmax_connections = 300\n\
                      max_prepared_transactions = 20\ntimezone = 'UTC'";

/// A PostgreSQL cluster for tests; one that was started here is stopped and removed on drop.
///
/// It is removed too when this process ends in any other way, `kill -9` included.
pub struct Cluster {
    url: String,
    /// `None`: a cluster that another process started, named by `TURNWISE_TEST_PG_URL`.
    own: Option<Own>,
}

struct Own {
    port: u16,
    keeper: Mutex<Keeper>,
}

impl Cluster {
    /// The cluster all tests of this process share: the one `TURNWISE_TEST_PG_URL` names, else one of its own.
    ///
    /// # Panics
    ///
    /// When no cluster can be started; the message says what to install.
    pub fn shared() -> &'static Cluster {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(|| match env::var(URL_VARIABLE) {
            Ok(url) if !url.is_empty() => Cluster { url, own: None },
            _ => Cluster::start().unwrap_or_else(|error| panic!("no PostgreSQL for the tests: {error:#}")),
        })
    }

    /// Starts a new cluster that survives a crash of the server but not of the machine.
    pub fn start() -> Result<Cluster> {
        Cluster::start_with(QUICK, &[])
    }

    /// As [`Cluster::start`], with more lines in `postgresql.conf` and with these files in the data folder: certificates,
    /// another `pg_hba.conf`.
    pub fn start_set_up(settings: &str, files: &[(&str, &str)]) -> Result<Cluster> {
        Cluster::start_with(&format!("{QUICK}\n{settings}"), files)
    }

    /// Starts a new cluster with PostgreSQL's default durability, for benchmarks.
    ///
    /// Where the server's extension `pg_stat_statements` is installed it is loaded, and counts once a database asks for
    /// it: `alter database … set pg_stat_statements.track = 'top'`.
    pub fn start_durable() -> Result<Cluster> {
        let counting = if programs::has_library("pg_stat_statements")? { COUNTING } else { "" };
        Cluster::start_with(&format!("{DURABLE}\n{counting}"), &[])
    }

    /// As [`Cluster::start`]; where the server's extension `pg_stat_statements` is installed it is loaded, as by
    /// [`Cluster::start_durable`].
    pub fn start_counting() -> Result<Cluster> {
        let counting = if programs::has_library("pg_stat_statements")? { COUNTING } else { "" };
        Cluster::start_with(&format!("{QUICK}\n{counting}"), &[])
    }

    fn start_with(settings: &str, files: &[(&str, &str)]) -> Result<Cluster> {
        let mut keeper =
            Keeper::start(Server::PostgreSql, &programs::server_folder()?, &format!("{COMMON}\n{settings}"))?;
        keeper.order("create")?;
        for (name, text) in files {
            keeper.put(name, text)?;
        }
        let port = keeper.start_on_a_free_port()?;
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        Ok(Cluster { url, own: Some(Own { port, keeper: Mutex::new(keeper) }) })
    }

    /// The superuser's URL of the database `postgres`; it stays the same over [`Cluster::start_again`].
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Creates an empty database with a unique name, and returns its URL. It lives as long as the cluster.
    pub fn fresh_database(&self) -> Result<String> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // A process id alone may be used again during a long run on a shared cluster.
        let name = format!("test_{}_{number}_{:x}", process::id(), random());
        // template0: no client can be connected to it, which would make the copy fail.
        self.psql(&self.url, &format!("create database {name} template template0"))?;
        Ok(with_database(&self.url, &name))
    }

    /// Runs `sql` in the database at `db_url` and returns what `psql` prints: a line a row, `|` between columns.
    ///
    /// Several statements are one transaction; the first error ends them.
    pub fn psql(&self, db_url: &str, sql: &str) -> Result<String> {
        let mut command = Command::new(programs::psql());
        let output = programs::without_pg_variables(&mut command)
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", db_url, "-c", sql])
            .stdin(Stdio::null())
            .output()
            .context("run `psql`; install the Debian package `postgresql-client`")?;
        if !output.status.success() {
            bail!("psql: {}", String::from_utf8_lossy(&output.stderr).trim_end());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// Stops the server as a crash would: no checkpoint, connections cut. The data stays.
    pub fn stop_immediate(&self) -> Result<()> {
        self.own()?.keeper().order("stop")
    }

    /// Stops the server as an administrator does: open transactions are rolled back, everything is written down.
    pub fn stop_fast(&self) -> Result<()> {
        self.own()?.keeper().order("stop_fast")
    }

    /// Starts the server again after it was stopped, on the same port, and waits until it is ready.
    pub fn start_again(&self) -> Result<()> {
        let own = self.own()?;
        own.keeper().order(&format!("start {}", own.port))
    }

    fn own(&self) -> Result<&Own> {
        self.own.as_ref().with_context(|| {
            format!("the cluster of {URL_VARIABLE} is shared with others; take one from Cluster::start to stop it")
        })
    }
}

impl Own {
    /// A test that panicked while it held the keeper left it between two orders.
    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same URL with another database; user, host and parameters stay.
fn with_database(url: &str, database: &str) -> String {
    let (address, parameters) = url.split_once('?').map_or((url, None), |(address, rest)| (address, Some(rest)));
    let host = address.find("://").map_or(0, |scheme| scheme + 3);
    let end = address[host..].find('/').map_or(address.len(), |slash| host + slash);
    let parameters = parameters.map(|parameters| format!("?{parameters}")).unwrap_or_default();
    format!("{}/{database}{parameters}", &address[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_database_keeps_user_host_and_parameters() {
        assert_eq!(with_database("postgres://a:b@host:1/postgres", "x"), "postgres://a:b@host:1/x");
        assert_eq!(with_database("postgres://a@host", "x"), "postgres://a@host/x");
        assert_eq!(with_database("postgres://a@h/p?sslmode=disable", "x"), "postgres://a@h/x?sslmode=disable");
    }
}
