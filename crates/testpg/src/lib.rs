//! # A throw-away PostgreSQL for tests
//!
//! [`Cluster`] what a test holds → [`PgBouncer`] a pooler in front of it → [`programs`] where `initdb`, `postgres` and
//! `pgbouncer` are on this machine → `keeper` the process that owns a server and removes it however the test process ends.
//! [`Pace`] is a clock for tests of how soon something happens.
//!
//! ```
//! # fn main() -> anyhow::Result<()> {
//! let cluster = turnwise_testpg::Cluster::shared();
//! let url = cluster.fresh_database()?;
//! assert_eq!(cluster.psql(&url, "select 1 + 1")?, "2");
//! # Ok(())
//! # }
//! ```
//!
//! A cluster trusts every process that can reach its port on 127.0.0.1: fit for tests, and for nothing else.

mod cluster;
mod keeper;
mod pace;
mod pgbouncer;
pub mod programs;

pub use cluster::{Cluster, URL_VARIABLE};
pub use pace::Pace;
pub use pgbouncer::{PgBouncer, PoolMode};
