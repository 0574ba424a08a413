//! Transactional tasks: what a task writes, its end, its last report of progress and the jobs it submits are committed
//! together, if the job is still in its node's hands. Either all of it is committed or none: each effect happens exactly once.
//!
//! A task is transactional when it takes a `Tx` (PostgreSQL) or a `SqliteTx`:
//!
//! ```
//! # #[cfg(feature = "postgres")] mod example {
//! use turnwise::{TaskError, Tx, task};
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Pay { account: i64, amount: i64 }
//!
//! #[task("pay")]
//! async fn pay(args: Pay, tx: &Tx) -> Result<i64, TaskError> {
//!     let sql = "update account set balance = balance - $1 where id = $2 returning balance";
//!     let row = tx.query_one(sql, &[&args.amount, &args.account]).await?;
//!     tx.submit(receipt.job(args.account)).await?; // exists if this is committed
//!     Ok(row.get(0)) // committed with the result, or never paid
//! }
//!
//! #[task("receipt")]
//! async fn receipt(account: i64) {
//!     println!("dear {account}");
//! }
//! # }
//! ```
//!
//! It is committed when the task returns a value, [`Outcome::next`](crate::Outcome::next) or
//! [`Outcome::snooze`](crate::Outcome::snooze). It is rolled back on an error, a failure, a panic, a timeout, a cancel, a long
//! [`Ctx::sleep`](crate::Ctx::sleep), a stop of the node, and when the job is no longer in its node's hands; a lost node's open
//! transactions are ended by the other nodes.

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "postgres")]
pub(crate) use postgres::OnPostgres;
#[cfg(feature = "postgres")]
pub use postgres::Tx;
#[cfg(feature = "sqlite")]
pub(crate) use sqlite::OnSqlite;
#[cfg(feature = "sqlite")]
pub use sqlite::{AtEnd, SqliteTx};
