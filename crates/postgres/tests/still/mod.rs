//! A database whose clock stands still until it is moved.

use std::time::Duration;

pub(crate) const CLOCK: &str = include_str!("clock.sql");

/// As new, but for the clock.
#[allow(dead_code, reason = "not every test empties its database")]
pub(crate) const EMPTY: &str = "
    truncate turnwise.job, turnwise.history, turnwise.node, turnwise.assignment, turnwise.stop_request, turnwise.change, turnwise.change_floor, turnwise.memo, turnwise.attempt,
        turnwise.log, turnwise.step, turnwise.progress, turnwise.unique_key, turnwise.dependency, turnwise.bad_end,
        turnwise.lost_node, turnwise.token, turnwise.login, turnwise.ticket, turnwise.once, turnwise.secret_field;
    update turnwise.totals set asked_until = 'epoch', written_at = null, value = null;
    update turnwise.dispatcher set holder = null, epoch = 0, until = null, asleep = false;";

#[allow(dead_code, reason = "one test program sets the clock instead")]
pub(crate) fn advance(by: Duration) -> String {
    format!("update turnwise.test_clock set now = now + {} * interval '1 microsecond'", by.as_micros())
}
