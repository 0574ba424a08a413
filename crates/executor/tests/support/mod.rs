//! What the tests of the executor share, all on the memory store:
//!
//! [`wait`] until something has happened → [`jobs`] to submit, and what became of them → [`memos`] what people have set →
//! [`tasks`] of nodes → [`nodes`] in real time → [`virtual_time`] nodes in the test's own time → [`ghost`] a node that the test
//! plays itself → [`watched`] a way to the store that the test stands in.

#![allow(dead_code, unused_imports, unused_macros, reason = "each test file uses its part")]

pub(crate) mod wait;
pub(crate) mod jobs;
pub(crate) mod memos;
pub(crate) mod tasks;
pub(crate) mod nodes;
pub(crate) mod virtual_time;
pub(crate) mod ghost;
pub(crate) mod watched;

pub(crate) use jobs::*;
pub(crate) use nodes::*;
pub(crate) use tasks::*;
pub(crate) use wait::*;
