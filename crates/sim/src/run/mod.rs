//! # Seeds
//!
//! `chance` every choice comes from the seed → `plan` what a seed stands for → `network` the way to the database and what
//! happens on it → `ledger` what was committed, and whether it was allowed → `task` what jobs do → `contest` who got how
//! much → [`world`] one run, and what it came to.

mod chance;
mod contest;
mod ledger;
mod network;
mod plan;
mod task;
pub mod world;

pub use world::{Kept, Run, run, stores};
