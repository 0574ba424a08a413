//! Where jobs live: one trait of verbs, an executable specification of it, and the suite that every store passes.
//!
//! A part of the crate `turnwise`, not for direct use: it changes with any release.
//!
//! [`store`] the verbs and what they promise; the values that they take and return are beside it, a file each → [`error`] what
//! the caller does when a verb fails → [`bell`] how a store wakes its users → [`schema`] what opening may change → [`ids`] what
//! an id must be → [`after`] which jobs the jobs of a call wait for → [`closing`] what a run commits together with its end →
//! [`memo`] what is written down, typed → [`kept`] what is kept, and how long → [`verdict`] what follows from a row alone →
//! [`operators`] what only operators need: tokens, submits that are done once, lists, the audit log, watching → [`moving`] everything from one
//! database to another → [`memory`] the specification of the first two traits, in plain Rust → [`delegate`] a store that asks another one → `conformance` the promises as tests.

pub mod store;
pub mod error;
pub mod after;
pub mod bell;
pub mod closing;
pub mod ids;
pub mod kept;
pub mod memo;
pub mod memory;
pub mod moving;
pub mod operators;
pub mod schema;
pub mod verdict;
pub mod delegate;
#[cfg(feature = "conformance")]
pub mod conformance;

pub use bell::Bell;
pub use closing::{Closed, Closing, Last, Undone};
pub use error::StoreError;
pub use kept::{Keeps, Kept};
pub use memory::MemoryStore;
pub use moving::MoveStore;
pub use operators::{
    AskAudit, AskErrors, AskJobs, AskOf, AskStatistics, AskWatch, AuditCursor, AuditFilter, AuditPage, BeatenWorkers,
    BegunStatistics, BodyHash, CountingTerm, EndedJob, FoundLogin, FoundTicket, FoundToken, FoundTotals, FoundWorker,
    HeldJob, InHands, JobPage, ListCursor, ListFilter, NewLogin, NewTicket, Once, OperatorStore, Redeem, Secret,
    SubmitOnce, TimedError, TimedRow, TokenHash, WatchCursor, Watched, WorkerBeat, WriteStatistics, WrittenTotals,
};
pub use schema::Schema;
pub use store::*;
