//! Times on the wall: when a queue's jobs are due by its schedule, and when its block windows are closed.
//!
//! Both are read off the clock of a time zone. The zones are built into the program, so that every node and every
//! command line agrees on them, and no file of the machine has a say.

mod schedule;
mod window;
mod zone;

pub(crate) use self::schedule::LastNext;
pub use self::{
    schedule::{Schedule, Wish},
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

/// What was written, shown back without its end if it has none in sight.
fn brief(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}
