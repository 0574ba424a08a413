//! The SQLite store of Turnwise: jobs in one file, for one machine and any number of its processes.
//!
//! A part of the crate `turnwise`, not for direct use: it changes with any release.
//!
//! `store` how a store is opened, and which module does which verb → `location` where its file is, and connections to it, `open_file`
//! whether the path still leads to it → `migrate` the schema and its steps → `writer` the one thread that writes → `rows` how values lie
//! in columns, `errors` what the caller should do about them → the verbs: `enqueue` (with `unique` for unique keys, `bulk` for many rows
//! at once, `after` for jobs that wait for others), `nodes`, `news`, `assign`, `settle`, `story`, `control`, `prune`, `read`, `memo`, and
//! for operators `tokens`, `once`, `listing`, `audit`, `watch` and `statistics`; `moving` everything to another database, or from one →
//! [`closing`] what tasks do at their end → `bell` how other processes' writes are noticed.

mod after;
mod assign;
mod audit;
mod bell;
mod bulk;
pub mod closing;
mod control;
mod enqueue;
mod errors;
mod listing;
mod location;
mod logins;
mod memo;
mod migrate;
mod moving;
mod news;
mod nodes;
mod once;
mod open_file;
mod prune;
mod read;
mod rows;
mod secrets;
mod settle;
mod statistics;
mod store;
mod story;
mod tickets;
mod tokens;
mod totals;
mod unique;
mod watch;
mod workers;
mod vitals;
mod writer;

pub use closing::AtEnd;
pub use enqueue::enqueue_in;
pub use location::check_url;
pub use migrate::{SCHEMA, Step, found_version, migrate, migrate_check, migrate_print, schema_version, steps};
/// The version this store is built with: a connection for [`enqueue_in`] must come from it.
pub use rusqlite;
pub use store::SqliteStore;
