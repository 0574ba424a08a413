//! The PostgreSQL store: many machines share the work.
//!
//! A part of the crate `turnwise`, not for direct use: it changes with any release.
//!
//! [`store`] the verbs → [`mod@connect`] how connections are made → `session` how statements are sent on them → [`mod@migrate`] how the schema comes and grows → `rows` between
//! values and columns, `errors` what the caller should do about them → [`enqueue`] also in the caller's own transaction, by the statements of `submit`, `gather`ed from many
//! callers or in `bulk`, asking [`unique`] who may come in and telling [`after`] whom they wait for → `nodes` who is there and who dispatches → `news` the tail → `assign`, `settle`, `control` the three that change jobs → `prune`
//! history in slices of time → [`closing`] transactions for tasks → `read` for people → `story` what jobs tell of
//! themselves → `memo` settings and charges → `bell` the doorbell.
//!
//! One statement a file in `sql/`; none of them decides anything.

pub mod store;
pub mod connect;
mod session;
pub mod migrate;
mod rows;
pub mod enqueue;
mod errors;
mod submit;
#[cfg(feature = "sqlx")]
pub mod sqlx;
mod gather;
mod bulk;
pub mod unique;
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
mod bell;

pub use closing::{TaskTransaction, Transactions};
pub use connect::connect;
pub use enqueue::{enqueue_in, now_in};
pub use errors::{DUPLICATE, REFUSED};
pub use migrate::{Step, migrate, migrate_check, migrate_print};
pub use store::PostgresStore;
