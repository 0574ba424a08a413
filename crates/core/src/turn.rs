//! Whose turn it is: charges, the order they make, and the counting scheme within a group.
//!
//! Start-time fair queueing: whoever has the smallest charge is served and charged for it, cost divided by weight. Nobody
//! earns by being idle: whoever comes back begins at the current virtual time.

use std::{collections::BTreeSet, fmt, str::FromStr, time::Duration};

use crate::{job::Class, name::Invalid, settings::Weight};

/// What somebody has used, divided by the weight: in picoseconds of a slot, so that a microsecond divided by the greatest
/// weight is still something, and a century divided by the least still fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Charge(u128);

impl Charge {
    /// What `cost` comes to at this weight.
    pub fn of(cost: Duration, weight: Weight) -> Self {
        Self(cost.as_nanos() * 1_000_000 / u128::from(weight.thousandths()))
    }

    #[must_use]
    pub fn plus(self, more: Charge) -> Self {
        Self(self.0.saturating_add(more.0))
    }

    #[must_use]
    pub fn minus(self, less: Charge) -> Self {
        Self(self.0.saturating_sub(less.0))
    }

    /// Weighted seconds, for people and for the picture.
    #[allow(clippy::cast_precision_loss)] // for people
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e12
    }

    pub fn from_text(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

impl fmt::Display for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// An account: how much was charged, and when it was last served, which breaks ties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Account {
    pub(crate) charge: Charge,
    /// A count of picks; zero: never.
    pub(crate) served: u64,
}

/// Those who could be served, the one with the smallest charge first; among equals the one served longest ago.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turns {
    order: BTreeSet<(Account, u32)>,
}

impl Turns {
    pub(crate) fn enter(&mut self, account: Account, member: u32) {
        self.order.insert((account, member));
    }

    /// The account must be the one it entered with.
    pub(crate) fn leave(&mut self, account: Account, member: u32) {
        let there = self.order.remove(&(account, member));
        debug_assert!(there, "{member} was not where its account says");
    }

    pub(crate) fn first(&self) -> Option<(Account, u32)> {
        self.order.first().copied()
    }

    /// The one after `last` in turn.
    pub(crate) fn after(&self, last: (Account, u32)) -> Option<(Account, u32)> {
        self.order.range((std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded)).next().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

/// How many of each class in turn: `2,1` = high high low high high low …; `strict` = by priority alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scheme {
    Counting { high: u16, low: u16 },
    Strict,
}

impl Default for Scheme {
    fn default() -> Self {
        Self::Counting { high: 2, low: 1 }
    }
}

impl Scheme {
    /// The class preferred by the pick number `count` of a group.
    pub fn preferred(self, count: u32) -> Class {
        match self {
            Self::Strict => Class::High,
            Self::Counting { high, low } => {
                let round = u32::from(high) + u32::from(low);
                if count % round < u32::from(high) { Class::High } else { Class::Low }
            }
        }
    }
}

impl FromStr for Scheme {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let bad = || Invalid::new("scheme", format!("{text:?} is not a counting scheme; write 2,1 or strict"));
        if text == "strict" {
            return Ok(Self::Strict);
        }
        let (high, low) = text.trim_matches(['(', ')']).split_once(',').ok_or_else(bad)?;
        match (high.trim().parse(), low.trim().parse()) {
            (Ok(high @ 1..), Ok(low @ 1..)) => Ok(Self::Counting { high, low }),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counting { high, low } => write!(f, "{high},{low}"),
            Self::Strict => f.write_str("strict"),
        }
    }
}

impl TryFrom<String> for Scheme {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Scheme> for String {
    fn from(scheme: Scheme) -> String {
        scheme.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_charge_is_first_and_among_equals_the_one_served_longest_ago() {
        let account =
            |millis, served| Account { charge: Charge::of(Duration::from_millis(millis), Weight::default()), served };
        let mut turns = Turns::default();
        turns.enter(account(2, 1), 1);
        turns.enter(account(1, 3), 2);
        turns.enter(account(1, 2), 3);
        let first = turns.first().unwrap();
        assert_eq!(first.1, 3);
        assert_eq!(turns.after(first).unwrap().1, 2);
        turns.leave(first.0, 3);
        assert_eq!(turns.first().unwrap().1, 2);
    }

    #[test]
    fn a_charge_is_the_cost_divided_by_the_weight() {
        let cost = Duration::from_secs(3);
        let heavy = Charge::of(cost, "3".parse().unwrap());
        assert_eq!(heavy, Charge::of(Duration::from_secs(1), Weight::default()));
        assert!(Charge::of(Duration::from_micros(1), "1000".parse().unwrap()) > Charge::default());
        assert_eq!(Charge::from_text(&heavy.to_string()), Some(heavy));
    }

    #[test]
    fn two_high_then_one_low() {
        let scheme: Scheme = "(2,1)".parse().unwrap();
        let classes: Vec<_> = (0..6).map(|count| scheme.preferred(count)).collect();
        use Class::{High, Low};
        assert_eq!(classes, [High, High, Low, High, High, Low]);
        assert!("0,1".parse::<Scheme>().is_err());
    }
}
