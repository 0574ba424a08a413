//! Job ids: UUIDv7, growing within this process, so that ids sort as jobs were submitted.
//!
//! They are of the database's time as far as that is known here: a database refuses ids that are more than a minute ahead of it, and
//! this machine's clock may be wrong.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use turnwise_core::{Invalid, JobId, Timestamp};
use uuid::Uuid;

/// How far an id may be ahead of the time that is known here. Less than what databases allow: what is known is a little old.
const CLOSE: Duration = Duration::from_secs(30);

/// If the machine's two clocks differ by more than this since the database's time was learnt, one of them was set, or it slept.
const SAME: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Last {
    millis: u64,
    head: [u8; 3],
    /// 56 bits; the random rest of the id, counted up within a millisecond.
    tail: u64,
}

const TAIL_BITS: u64 = (1 << 56) - 1;

/// Makes ids that grow.
#[derive(Debug)]
pub(crate) struct Maker(Mutex<Last>);

impl Maker {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Last { millis: 0, head: [0; 3], tail: 0 }))
    }

    /// A fresh id of this moment, greater than every one that was made before, unless those are far ahead.
    pub(crate) fn next(&self, now: Timestamp) -> JobId {
        let now = u64::try_from(now.micros() / 1_000).unwrap_or(0);
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.millis > now.saturating_add(u64::try_from(CLOSE.as_millis()).unwrap_or(u64::MAX)) {
            // They were made by a clock that is known to be wrong by now: ids that grew from there would be refused.
            last.millis = 0;
        }
        let step = u64::from(rand::random::<u16>()) + 1;
        // A clock that was set back, or a millisecond that is used up, goes on from the last id instead.
        if now > last.millis || last.tail + step > TAIL_BITS {
            last.millis = now.max(last.millis + u64::from(now <= last.millis));
            last.head = rand::random();
            last.tail = rand::random::<u64>() & (TAIL_BITS >> 1);
        } else {
            last.tail += step;
        }
        let mut random = [0; 10];
        random[..3].copy_from_slice(&last.head);
        random[3..].copy_from_slice(&last.tail.to_be_bytes()[1..]);
        JobId::from_parts(last.millis, random)
    }
}

/// What this process knows of the database's time.
#[derive(Debug, Clone, Copy)]
struct Learnt {
    /// What to add to the machine's clock, in microseconds.
    difference: i64,
    system: SystemTime,
    monotonic: Instant,
}

static MAKER: Maker = Maker::new();
static LEARNT: Mutex<Option<Learnt>> = Mutex::new(None);

fn learnt() -> Option<Learnt> {
    *LEARNT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn system() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// The database's time as far as it is known, else this machine's.
fn now() -> Timestamp {
    let difference = learnt().map_or(0, |learnt| learnt.difference);
    Timestamp::from_micros(system().micros().saturating_add(difference))
}

/// A database server has just said what time it is.
#[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "the other stores have this machine's clock"))]
pub(crate) fn learn(now: Timestamp) {
    let difference = now.micros().saturating_sub(system().micros());
    let known = Learnt { difference, system: SystemTime::now(), monotonic: Instant::now() };
    *LEARNT.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
}

/// Whether an id of this process may be so far ahead that a database server refuses it, as far as that is known without asking.
#[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "the other stores have this machine's clock"))]
pub(crate) fn is_doubtful(id: JobId) -> bool {
    let Some(learnt) = learnt() else { return true };
    let passed = learnt.system.elapsed().unwrap_or_default();
    let doubtful = passed.abs_diff(learnt.monotonic.elapsed()) > SAME;
    doubtful || id.is_ahead(now().minus(CLOSE))
}

/// A fresh id, greater than every one this process has made before.
pub(crate) fn next() -> JobId {
    MAKER.next(now())
}

/// Neither an id nor the beginning of one.
pub(crate) fn unreadable(text: &str) -> Invalid {
    Invalid::new("id", format!("{text:?} is neither a job id nor the first four digits of one, or more"))
}

/// The greatest id that is less than this one.
pub(crate) fn before(id: JobId) -> Option<JobId> {
    let number = u128::from_be_bytes(id.uuid().into_bytes());
    Some(JobId::from_uuid(Uuid::from_u128(number.checked_sub(1)?)))
}

/// The first and the last id that begin like this: at least four hexadecimal digits, with or without the hyphens of an id.
pub(crate) fn beginning_with(text: &str) -> Option<(JobId, JobId)> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    if !(4..32).contains(&digits.len()) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let id = |fill| format!("{digits}{}", str::repeat(fill, 32 - digits.len())).parse().ok();
    Some((id("0")?, id("f")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_lies_between_one_and_the_one_before_it() {
        let id: JobId = "01900000-7f00-0000-0000-000000000000".parse().unwrap();
        assert_eq!(super::before(id).unwrap().to_string(), "01900000-7eff-ffff-ffff-ffffffffffff");
        assert_eq!(super::before(JobId::from_uuid(Uuid::nil())), None);
    }

    #[test]
    fn the_beginning_of_an_id_is_a_range_of_ids() {
        let (first, last) = super::beginning_with("01900000-7F").unwrap();
        assert_eq!(first.to_string(), "01900000-7f00-0000-0000-000000000000");
        assert_eq!(last.to_string(), "01900000-7fff-ffff-ffff-ffffffffffff");
        for text in ["", "019", "seven", "0190 0000", "01900000-0000-7000-8000-0000000000000"] {
            assert_eq!(super::beginning_with(text), None, "{text}");
        }
    }

    #[test]
    fn ids_grow_and_are_version_seven() {
        let ids: Vec<_> = (0..10_000).map(|_| super::next()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(ids.iter().all(|id| id.check_version().is_ok()));
    }

    #[test]
    fn ids_go_on_growing_when_a_clock_goes_back_a_little_and_follow_it_when_it_was_far_ahead() {
        let at = |seconds: u64| Timestamp::from_micros(0).plus(Duration::from_secs(seconds));
        let maker = Maker::new();
        let first = maker.next(at(1_000));
        let second = maker.next(at(990));
        assert!(second > first && second.unix_millis() == 1_000_000, "{second}");
        let third = maker.next(at(900));
        assert_eq!(third.unix_millis(), 900_000);
        assert!(maker.next(at(900)) > third);
    }
}
