//! Whose turn it is: groups one after the other, and within a group the counting scheme between high and low.

use std::{collections::VecDeque, fmt, str::FromStr};

use crate::{job::Class, name::Invalid};

/// Members take turns: whoever was served goes to the back, whoever has nothing leaves the ring.
#[derive(Debug, Default)]
pub struct Ring<T> {
    members: VecDeque<T>,
}

impl<T: Copy> Ring<T> {
    pub fn new() -> Self {
        Self { members: VecDeque::new() }
    }

    pub fn join(&mut self, member: T) {
        self.members.push_back(member);
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Asks each member once, beginning with the one served longest ago, until one serves. A member that answers
    /// `Empty` leaves; one that is `Blocked` keeps its place for somebody it can serve.
    pub fn serve<R>(&mut self, mut ask: impl FnMut(T) -> Served<R>) -> Option<R> {
        let mut at = 0;
        while let Some(&member) = self.members.get(at) {
            match ask(member) {
                Served::Some { value, more } => {
                    self.members.remove(at);
                    if more {
                        self.members.push_back(member);
                    }
                    return Some(value);
                }
                Served::Empty => drop(self.members.remove(at)),
                Served::Blocked => at += 1,
            }
        }
        None
    }
}

/// A member's answer to [`Ring::serve`].
#[derive(Debug)]
pub enum Served<R> {
    Some { value: R, more: bool },
    Empty,
    Blocked,
}

/// How many of each class in turn: `(2,1)` = high high low high high low …; `strict` = by priority alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_served_in_turn_and_leave_when_empty() {
        let mut left = [2, 1, 3];
        let mut ring = Ring::new();
        (0..3).for_each(|member| ring.join(member));
        let served: Vec<_> = std::iter::from_fn(|| {
            ring.serve(|member: usize| {
                left[member] -= 1;
                Served::Some { value: member, more: left[member] > 0 }
            })
        })
        .collect();
        assert_eq!(served, [0, 1, 2, 0, 2, 2]);
    }

    #[test]
    fn a_blocked_member_keeps_its_place() {
        let mut ring = Ring::new();
        (0..2).for_each(|member| ring.join(member));
        let served =
            ring.serve(|member| if member == 0 { Served::Blocked } else { Served::Some { value: member, more: true } });
        assert_eq!(served, Some(1));
        assert_eq!(ring.serve(|member| Served::Some { value: member, more: true }), Some(0));
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
