//! What the tests of the binary share:
//!
//! [`wait`] until something has happened → [`full`] how much is done → [`process`] one that the test has started → [`output`] what
//! a command has said → [`place`] where commands are run → [`node`] a process that keeps a record of what it does → [`harness`]
//! several of them, and the checker that reads their records · [`ways`] a command on a database and
//! against a server · [`collector`] of the spans that they send.

#![allow(dead_code, unused_imports, unused_macros, reason = "each test file uses its part")]

mod wait;
mod full;
mod process;
mod output;
mod place;
mod node;
mod harness;
mod ways;
#[cfg(feature = "otlp")]
mod collector;

#[cfg(feature = "otlp")]
pub(crate) use collector::*;
pub(crate) use full::*;
pub(crate) use harness::*;
pub(crate) use node::*;
pub(crate) use output::*;
pub(crate) use place::*;
pub(crate) use process::*;
pub(crate) use wait::*;
pub(crate) use ways::*;
