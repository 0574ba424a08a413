//! For a store of your own: [`Turnwise::on`](crate::Turnwise::on) takes any [`Store`].
//!
//! **Unstable**: this module changes with any release, also with one that changes nothing else. The verbs and what they promise
//! are documented at [`Store`]; [`MemoryStore`] is the specification in plain Rust. What only operators need is
//! [`OperatorStore`]. A store that passes the suites of `turnwise-store` (feature `conformance`) behaves as the two drivers do.
//! Transactional tasks need a driver.

pub use turnwise_core::{
    Failure, Fence, Incarnation, JobHead, NewJob, Serves, Step, Terms, Unique,
    after::After,
    job::{AssignedJob, Counts},
    lead::Sight,
    lifecycle::{Clears, End, Target, Transition},
    node::Host,
    scheduler::Pick,
};
pub use turnwise_store::{
    AskLost, AskNews, AskStory, Assign, AssignReply, Author, BatchId, Beat, BeatReply, Bell, Change, Cursor, Delivery,
    Epoch, Expire, Intervention, Join, Joined, Keeps, Kept, Leader, Lineage, Load, LostJob, LostNode, Mail, Memo,
    MemoKind, MemoryStore, NewMemo, News, Note, OperatorStore, Page, Replace, Settle, Settled, Settlement, Store,
    SubmitOnce, Term, Writers, memory::Clock,
};
