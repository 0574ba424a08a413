//! The PostgreSQL store: many machines share the work.
//!
//! A part of the crate `turnwise`, not for direct use: it changes with any release.
//!
//! [`store`] the verbs → [`mod@connect`] how connections are made → `session` how statements are sent on them → [`mod@migrate`]
//! how the schema comes and grows → `rows` between values and columns, `errors` what the caller should do about them →
//! [`enqueue`] also in the caller's own transaction, by the statements of `submit`, `gather`ed from many callers or in `bulk`,
//! with [`unique`] for jobs with unique keys and [`after`] for jobs that wait for others → `nodes` which nodes there are and
//! which one dispatches → `news` the tail → `assign`, `settle`, `control` the three that change jobs → `prune` history in
//! slices of time → [`closing`] transactions for tasks → `read` for people → `story` what is stored about a job besides its row
//! → `memo` settings and charges → `tokens` who may ask a server for what → `once` submits that are done once → `listing` pages
//! of jobs → `watch` what is new, for any reader → `moving` everything to another database, or from one → `bell` the doorbell.
//!
//! One statement a file in `sql/`; they decide only what needs a lock: who holds a unique key, who leads, whether a settle
//! fits; `turnwise_store::verdict` and `turnwise_core::unique` are the same in Rust.

pub mod store;
pub mod connect;
mod session;
pub mod migrate;
mod moving;
mod rows;
mod secrets;
pub mod enqueue;
mod errors;
mod submit;
#[cfg(feature = "sqlx")]
pub mod sqlx;
mod gather;
mod bulk;
pub mod unique;
mod vitals;
pub mod after;
mod nodes;
mod news;
mod assign;
mod settle;
mod control;
mod prune;
pub mod closing;
mod read;
mod story;
mod memo;
mod tickets;
mod tokens;
mod totals;
mod once;
mod listing;
mod logins;
mod audit;
mod watch;
mod workers;
mod statistics;
mod bell;

pub use closing::{Seat, TaskTransaction, Transactions};
pub use connect::{check_url, connect, names_database};
pub use enqueue::{enqueue_in, now_in};
pub use errors::{DUPLICATE, REFUSED};
pub use migrate::{Step, found_version, migrate, migrate_check, migrate_print, schema_version};
pub use store::PostgresStore;
