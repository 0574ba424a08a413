//! How often something may be tried, by the address that the caller comes from: one caller that tries too often is refused, and the others
//! go on.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use tokio::time::Instant;

use crate::limits::ADDRESSES;

/// Where a caller comes from. A site or a household has 2^64 addresses of IPv6, so these count as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Address(Option<IpAddr>);

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(ip) => ip.fmt(f),
            None => f.write_str("elsewhere"),
        }
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        Self(Some(match ip.to_canonical() {
            IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
            ip @ IpAddr::V4(_) => ip,
        }))
    }
}

/// How often something may be tried: a second's worth at once, then so often a second.
#[derive(Debug)]
pub(crate) struct Tries {
    rate: f64,
    left: HashMap<Address, Left>,
    /// Of all addresses that find no room in the table.
    others: Left,
    swept: Instant,
}

/// How many tries are left, and when that was written.
#[derive(Debug, Clone, Copy)]
struct Left {
    tries: f64,
    at: Instant,
}

impl Left {
    fn at(self, now: Instant, rate: f64) -> f64 {
        (self.tries + now.duration_since(self.at).as_secs_f64() * rate).min(rate)
    }
}

impl Tries {
    /// So often a second for each address.
    pub(crate) fn new(rate: f64) -> Self {
        let now = Instant::now();
        Self { rate, left: HashMap::new(), others: Left { tries: rate, at: now }, swept: now }
    }

    /// Takes a try of this address, if it has one.
    pub(crate) fn take(&mut self, address: Address) -> bool {
        let now = Instant::now();
        let rate = self.rate;
        let left = self.left(address, now);
        let tries = left.at(now, rate);
        let may = tries >= 1.0;
        *left = Left { tries: if may { tries - 1.0 } else { tries }, at: now };
        may
    }

    /// The try that was taken does not count.
    pub(crate) fn give_back(&mut self, address: Address) {
        let now = Instant::now();
        let rate = self.rate;
        let left = self.left(address, now);
        *left = Left { tries: (left.at(now, rate) + 1.0).min(rate), at: now };
    }

    fn left(&mut self, address: Address, now: Instant) -> &mut Left {
        let full = Left { tries: self.rate, at: now };
        if self.left.contains_key(&address) {
            return self.left.entry(address).or_insert(full);
        }
        // An address that has had a second of rest is as one that was never seen.
        const REST: Duration = Duration::from_secs(1);
        if self.left.len() >= ADDRESSES && now.duration_since(self.swept) >= REST {
            self.left.retain(|_, left| now.duration_since(left.at) < REST);
            self.swept = now;
        }
        if self.left.len() >= ADDRESSES {
            return &mut self.others;
        }
        self.left.entry(address).or_insert(full)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn address(text: &str) -> Address {
        text.parse::<IpAddr>().unwrap().into()
    }

    fn taken(tries: &mut Tries, address: Address) -> usize {
        (0..1_000).filter(|_| tries.take(address)).count()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_tries_too_often_takes_nothing_from_others() {
        let mut tries = Tries::new(10.0);
        let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
        assert_eq!((taken(&mut tries, one), taken(&mut tries, other)), (10, 10));
        advance(Duration::from_millis(500)).await;
        assert_eq!(taken(&mut tries, one), 5);
        tries.give_back(one);
        assert_eq!(taken(&mut tries, one), 1);
        advance(Duration::from_secs(60)).await;
        assert_eq!(taken(&mut tries, one), 10, "rest is not saved up");
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_of_one_site_count_as_one() {
        assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:1:2:3"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
        assert_ne!(address("192.0.2.1"), Address::default());
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_is_bounded_and_forgets_those_that_rest() {
        let mut tries = Tries::new(10.0);
        let far = |n: usize| Address::from(IpAddr::from(u32::try_from(n).unwrap().to_be_bytes()));
        assert_eq!((0..ADDRESSES * 2).filter(|n| tries.take(far(*n))).count(), ADDRESSES + 10);
        assert_eq!(tries.left.len(), ADDRESSES);
        assert_eq!(taken(&mut tries, far(ADDRESSES * 3)), 0, "addresses without room share the tries of one");
        assert_eq!(taken(&mut tries, far(1)), 9, "those in the table keep their own");
        advance(Duration::from_secs(2)).await;
        assert_eq!(taken(&mut tries, far(ADDRESSES * 3)), 10);
    }
}
