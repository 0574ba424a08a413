//! Whose turn it is: charges, the order they make, and the counting scheme within a group.
//!
//! Start-time fair queueing: the group or queue with the smallest charge is served and charged for it, cost divided by weight. An
//! idle one earns no credit: when it has jobs again, it begins at the current virtual time.

use std::{cmp::Ordering, collections::BTreeSet, fmt, str::FromStr, time::Duration};

use crate::{job::Class, name::Invalid, settings::Weight};

/// What a group or a queue has used, divided by its weight: in picoseconds of a slot, so that a microsecond divided by the greatest
/// weight is still more than zero, and a century divided by the least weight still fits. That takes 82 bits. There are 96, not 128,
/// because a million groups have a charge each. A charge beyond that stays at the maximum, and turns are then taken one by one.
///
/// Three words, the least first: two of them are read as one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Charge([u32; 3]);

impl Charge {
    const MAX: Charge = Charge([u32::MAX; 3]);

    /// What `cost` comes to at this weight.
    pub fn of(cost: Duration, weight: Weight) -> Self {
        // To divide such numbers takes longer than all the rest, and most weights are the default.
        match u128::from(weight.thousandths()) {
            1_000 => Self::from_picos(cost.as_nanos() * 1_000),
            thousandths => Self::from_picos(cost.as_nanos() * 1_000_000 / thousandths),
        }
    }

    fn from_picos(picos: u128) -> Self {
        let word = |shift: u32| u32::try_from(picos >> shift & u128::from(u32::MAX)).expect("thirty-two bits");
        if picos > Self::MAX.picos() { Self::MAX } else { Self([word(0), word(32), word(64)]) }
    }

    pub(crate) fn picos(self) -> u128 {
        let [low, middle, high] = self.0;
        u128::from(high) << 64 | u128::from(two_words([low, middle]))
    }

    #[must_use]
    pub fn plus(self, more: Charge) -> Self {
        Self::from_picos(self.picos() + more.picos())
    }

    #[must_use]
    pub fn minus(self, less: Charge) -> Self {
        Self::from_picos(self.picos().saturating_sub(less.picos()))
    }

    /// Weighted seconds, for people to read and for charts.
    #[allow(clippy::cast_precision_loss)] // for people
    pub fn seconds(self) -> f64 {
        self.picos() as f64 / 1e12
    }

    pub fn from_text(text: &str) -> Option<Self> {
        text.parse().ok().map(Self::from_picos)
    }
}

fn two_words([low, high]: [u32; 2]) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

impl Ord for Charge {
    fn cmp(&self, other: &Self) -> Ordering {
        self.picos().cmp(&other.picos())
    }
}

impl PartialOrd for Charge {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Charge({self})")
    }
}

impl fmt::Display for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.picos(), f)
    }
}

/// An account: how much was charged, and when it was last served, which breaks ties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Account {
    pub(crate) charge: Charge,
    pub(crate) served: Served,
}

/// A count of picks; zero: never. Two words, the lesser first: with a whole one an account would be a fifth larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Served([u32; 2]);

impl Served {
    #[must_use]
    pub(crate) fn next(self) -> Self {
        match self.0 {
            [u32::MAX, high] => Self([0, high + 1]),
            [low, high] => Self([low + 1, high]),
        }
    }
}

impl Ord for Served {
    fn cmp(&self, other: &Self) -> Ordering {
        two_words(self.0).cmp(&two_words(other.0))
    }
}

impl PartialOrd for Served {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Members that could be served, the one with the smallest charge first; among equals the one served longest ago.
///
/// The first is kept outside the tree: most installations have one queue at work, which then never enters the tree at all.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turns {
    first: Option<(Account, u32)>,
    /// All of these come after the first.
    others: BTreeSet<(Account, u32)>,
}

impl Turns {
    pub(crate) fn enter(&mut self, account: Account, member: u32) {
        let turn = (account, member);
        match self.first {
            Some(first) if first < turn => _ = self.others.insert(turn),
            first => {
                self.others.extend(first);
                self.first = Some(turn);
            }
        }
    }

    /// The account must be the one it entered with.
    pub(crate) fn leave(&mut self, account: Account, member: u32) {
        let there = if self.first == Some((account, member)) {
            self.first = self.others.pop_first();
            true
        } else {
            self.others.remove(&(account, member))
        };
        debug_assert!(there, "{member} was not where its account says");
    }

    /// Leaves and enters again.
    pub(crate) fn change(&mut self, before: Account, after: Account, member: u32) {
        let (before, after) = ((before, member), (after, member));
        if self.first == Some(before) && self.others.first().is_none_or(|next| after < *next) {
            self.first = Some(after);
        } else if before != after {
            self.leave(before.0, member);
            self.enter(after.0, member);
        }
    }

    pub(crate) fn first(&self) -> Option<(Account, u32)> {
        self.first
    }

    /// The one after `last` in turn.
    pub(crate) fn after(&self, last: (Account, u32)) -> Option<(Account, u32)> {
        match self.first {
            Some(first) if last < first => Some(first),
            _ => self.others.range((std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded)).next().copied(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

/// How many of each class in turn: `2,1` = high high low high high low …; `strict` = by priority alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scheme {
    /// So many of high priority, then so many of low, and again; where a class has nothing ready, the other one goes.
    Counting { high: u16, low: u16 },
    /// Low priority only where nothing of high priority is ready.
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
    use proptest::prelude::*;

    #[test]
    fn the_smallest_charge_is_first_and_among_equals_the_one_served_longest_ago() {
        let account = |millis, picks| Account {
            charge: Charge::of(Duration::from_millis(millis), Weight::default()),
            served: (0..picks).fold(Served::default(), |served, _| served.next()),
        };
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

    proptest! {
        #[test]
        fn turns_are_taken_as_a_sorted_set_would(
            steps in proptest::collection::vec((0u8..3, 0u32..6, 0u64..5), 0..80),
        ) {
            let account = |millis| Account { charge: Charge::of(Duration::from_millis(millis), Weight::default()), ..Account::default() };
            let (mut turns, mut plain) = (Turns::default(), BTreeSet::new());
            let mut accounts = std::collections::HashMap::new();
            for (step, member, millis) in steps {
                let now = account(millis);
                match (step, accounts.get(&member).copied()) {
                    (0, Some(before)) => {
                        turns.leave(before, member);
                        plain.remove(&(before, member));
                        accounts.remove(&member);
                    }
                    (_, Some(before)) => {
                        turns.change(before, now, member);
                        plain.remove(&(before, member));
                        plain.insert((now, member));
                        accounts.insert(member, now);
                    }
                    (_, None) => {
                        turns.enter(now, member);
                        plain.insert((now, member));
                        accounts.insert(member, now);
                    }
                }
                prop_assert_eq!(turns.first(), plain.first().copied());
                prop_assert_eq!(turns.is_empty(), plain.is_empty());
                let all: Vec<_> = std::iter::successors(turns.first(), |&turn| turns.after(turn)).collect();
                prop_assert!(all.iter().eq(&plain), "{:?} {:?}", all, plain);
                let least = (Account::default(), 0);
                prop_assert_eq!(turns.after(least), plain.iter().find(|turn| **turn > least).copied());
            }
        }
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
    fn a_century_at_the_least_weight_fits_many_times_and_beyond_the_most_it_stays() {
        let century = Charge::of(Duration::from_secs(100 * 366 * 86_400), "0.001".parse().unwrap());
        let slots = (0..20_000).fold(Charge::default(), |sum, _| sum.plus(century));
        assert!(slots < Charge::MAX, "twenty thousand slots for a century");
        assert_eq!(slots.minus(century).plus(century), slots);
        assert_eq!(Charge::MAX.plus(century), Charge::MAX);
        assert_eq!(Charge::of(Duration::MAX, "0.001".parse().unwrap()), Charge::MAX);
        assert_eq!(Charge::from_text(&u128::MAX.to_string()), Some(Charge::MAX));
        assert_eq!(century.minus(Charge::MAX), Charge::default());
    }

    proptest! {
        #[test]
        fn charges_add_and_compare_like_numbers(a in 0u128..1 << 96, b in 0u128..1 << 96, shift in 0u32..96) {
            let most = Charge::MAX.picos();
            for (a, b) in [(a, b), (a, b >> shift), (a >> shift, b >> shift), (a, a)] {
                let (left, right) = (Charge::from_picos(a), Charge::from_picos(b));
                prop_assert_eq!(left.picos(), a);
                prop_assert_eq!(left.cmp(&right), a.cmp(&b));
                prop_assert_eq!(left.plus(right).picos(), (a + b).min(most));
                prop_assert_eq!(left.minus(right).picos(), a.saturating_sub(b));
            }
        }
    }

    #[test]
    fn picks_are_counted_beyond_one_word() {
        let last = Served([u32::MAX, 0]);
        assert!(last < last.next() && last.next() < last.next().next());
        assert_eq!(last.next(), Served([0, 1]));
    }

    #[test]
    fn one_in_line_takes_twenty_four_bytes() {
        assert_eq!(size_of::<(Account, u32)>(), 24);
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
