//! Job ids: UUIDv7, growing within this process, so that ids sort as jobs were submitted.

use std::{
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use turnwise_core::JobId;

struct Last {
    millis: u64,
    head: [u8; 3],
    /// 56 bits; the random rest of the id, counted up within a millisecond.
    tail: u64,
}

static LAST: Mutex<Last> = Mutex::new(Last { millis: 0, head: [0; 3], tail: 0 });

const TAIL_BITS: u64 = (1 << 56) - 1;

/// A fresh id, greater than every one this process has made before.
pub(crate) fn next() -> JobId {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
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
        assert!(ids.iter().all(|id| id.uuid().get_version_num() == 7));
    }
}
