//! Local times: when a queue's jobs are due by its schedule, and when its block windows are closed.
//!
//! Both go by the clock of a time zone. The zones are built into the program, so that every node and every
//! command line agrees on them, whatever files the machine has.

mod schedule;
mod window;
mod words;
mod zone;

pub(crate) use self::schedule::LastNext;
pub use self::{
    schedule::{GivenTime, Schedule, stored_due},
    window::{MAX_WINDOWS, Window, blocked_until, check_windows, next_block},
    zone::Zone,
};
use crate::time::Timestamp;

/// Longest text of a schedule, a zone or a window: enough for any that means something, too little to be an attack.
const MAX_TEXT: usize = 100;
const DAY: i64 = 86_400_000_000;

fn moment(at: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_microsecond(at.micros()).unwrap_or(jiff::Timestamp::MAX)
}

/// What a person wrote, for the error message: cut off if it is very long.
fn brief(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}
