//! # Seeds
//!
//! `chance` every choice comes from the seed → `plan` what a seed stands for → `network` the way to the database and what
//! happens on it → `ledger` what was committed, and whether it was allowed → `task` what jobs do → [`world`] one
//! run: `nodes` start, `people` submit and decide, `faults` strike and are mended, and the `end`, with a `contest` of groups.

mod chance;
mod contest;
mod end;
mod faults;
mod ledger;
mod network;
mod nodes;
mod people;
mod plan;
mod task;
pub mod world;

pub use world::{Kept, Report, run, stores};
