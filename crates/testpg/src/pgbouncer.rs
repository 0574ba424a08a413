//! One running PgBouncer in front of a cluster.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

use crate::cluster::Cluster;
use crate::keeper::{Keeper, Server};
use crate::programs;

/// All other settings keep their defaults, as most installations have them. No socket file, and no limit of clients that a test
/// meets by accident.
const COMMON: &str = "listen_addr = 127.0.0.1\nunix_socket_dir =\nmax_client_conn = 1000\n\
                      auth_type = trust\nauth_file = users.txt";

/// For how long a client of PgBouncer has its connection to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolMode {
    /// For one transaction: afterwards another client has the session, with what was set, prepared or listened to in it.
    Transaction,
    /// Until it disconnects.
    Session,
}

/// A PgBouncer on a port of 127.0.0.1, in front of all databases of a [`Cluster`]; stopped and removed on drop.
///
/// It is removed too when this process ends in any other way, `kill -9` included. It trusts every client, as the cluster does.
///
/// ```
/// # fn main() -> anyhow::Result<()> {
/// use turnwise_testpg::{Cluster, PgBouncer, PoolMode};
/// let cluster = Cluster::shared();
/// let settings = "ignore_startup_parameters = extra_float_digits, options";
/// let pgbouncer = PgBouncer::start(cluster, PoolMode::Transaction, settings)?;
/// let url = pgbouncer.url(&cluster.fresh_database()?);
/// assert_eq!(cluster.psql(&url, "select 1")?, "1");
/// # Ok(())
/// # }
/// ```
pub struct PgBouncer {
    port: u16,
    keeper: Mutex<Keeper>,
}

impl PgBouncer {
    /// Starts a PgBouncer in front of `cluster`, with more lines in section `[pgbouncer]` of its `pgbouncer.ini`:
    /// `ignore_startup_parameters = extra_float_digits, options`, `default_pool_size = 5`.
    pub fn start(cluster: &Cluster, mode: PoolMode, settings: &str) -> Result<PgBouncer> {
        let url = cluster.url();
        let server = Authority::of(&url)?;
        let (user, password) = (server.user, server.password);
        // auth_user: roles that tests create are looked up in the server when they connect.
        let databases = format!("* = host={} port={} auth_user={user}", server.host, server.port);
        let mode = match mode {
            PoolMode::Transaction => "transaction",
            PoolMode::Session => "session",
        };
        let settings = format!(
            "[databases]\n{databases}\n[pgbouncer]\n{COMMON}\nadmin_users = {user}\npool_mode = {mode}\n{settings}"
        );
        let mut keeper = Keeper::start(Server::PgBouncer, &programs::pgbouncer()?, &settings)?;
        keeper.order("create")?;
        keeper.put("users.txt", &format!("\"{user}\" \"{password}\""))?;
        let port = keeper.start_on_a_free_port()?;
        Ok(PgBouncer { port, keeper: Mutex::new(keeper) })
    }

    /// The way to the same database through PgBouncer; user, password and parameters of `db_url` stay.
    ///
    /// For the database `pgbouncer` it is PgBouncer's console, where the cluster's superuser may run `show pools` or `reload`.
    pub fn url(&self, db_url: &str) -> String {
        through(db_url, self.port)
    }

    /// Ends it as a crash would: connections are cut on both sides.
    pub fn stop_immediate(&self) -> Result<()> {
        self.keeper().order("stop")
    }

    /// Starts it again after [`PgBouncer::stop_immediate`], on the same port, and waits until it listens.
    pub fn start_again(&self) -> Result<()> {
        self.keeper().order(&format!("start {}", self.port))
    }

    /// A test that panicked while it held the keeper left it between two orders.
    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of a URL with user, password, host and port.
#[derive(Debug, PartialEq, Eq)]
struct Authority<'a> {
    user: &'a str,
    password: &'a str,
    host: &'a str,
    port: &'a str,
}

impl Authority<'_> {
    fn of(url: &str) -> Result<Authority<'_>> {
        let (_, rest) = url.split_once("://").with_context(|| format!("{url} is no URL"))?;
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let (login, place) = authority.rsplit_once('@').with_context(|| format!("{url} names no user"))?;
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (host, port) = place.rsplit_once(':').unwrap_or((place, "5432"));
        Ok(Authority { user, password, host, port })
    }
}

/// The same URL with PgBouncer's address instead of the server's.
fn through(url: &str, port: u16) -> String {
    let begin = url.find("://").map_or(0, |scheme| scheme + 3);
    let end = url[begin..].find(['/', '?']).map_or(url.len(), |slash| begin + slash);
    let place = url[begin..end].rfind('@').map_or(begin, |at| begin + at + 1);
    format!("{}127.0.0.1:{port}{}", &url[..place], &url[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_password_host_and_port_are_read_from_a_url() {
        let read = |user, password, host, port| Authority { user, password, host, port };
        assert_eq!(Authority::of("postgres://a:b@host:1/postgres").unwrap(), read("a", "b", "host", "1"));
        assert_eq!(Authority::of("postgres://a@host?sslmode=disable").unwrap(), read("a", "", "host", "5432"));
        assert!(Authority::of("postgres://host/postgres").is_err());
    }

    #[test]
    fn the_way_through_pgbouncer_keeps_user_database_and_parameters() {
        assert_eq!(
            through("postgres://a:b@host:1/x?sslmode=disable", 7),
            "postgres://a:b@127.0.0.1:7/x?sslmode=disable"
        );
        assert_eq!(through("postgres://host", 7), "postgres://127.0.0.1:7");
    }
}
