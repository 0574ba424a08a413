//! A ticket: what a host's backend gives to a page of its own, so that the page can show a tenant's view without a token.
//!
//! It is redeemed once, for a bearer that lasts a little longer. Neither can do more than the token that it was made with, nor outlive it.

use std::{collections::BTreeSet, fmt, time::Duration};

use super::{Grant, Limits, Scope};
use crate::name::Invalid;

/// How long a ticket may be redeemed: it is on its way from a backend to a browser.
pub const TICKET_FOR: Duration = Duration::from_secs(60);

/// How long a bearer is accepted. Then the host decides again whether its user may look, and gives another ticket.
pub const BEARER_FOR: Duration = Duration::from_secs(15 * 60);

/// Tickets and bearers at a time; they end by themselves within [`BEARER_FOR`].
pub const MAX_TICKETS: usize = 10_000;

/// The same with one token: no token takes the places of all others.
pub const MAX_TICKETS_OF_ONE: usize = 2_000;

/// What a ticket asks for beyond what its token may do itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a ticket cannot give away what its token has not: the {what} {name}")]
pub struct Beyond {
    what: &'static str,
    name: String,
}

impl Grant {
    /// What a ticket asks for, before it is compared with a token: to look, or to decide about jobs too, in groups that are named. [`Invalid`] for
    /// anything else: the page that it is for shows no more.
    pub fn of_ticket(scopes: impl IntoIterator<Item = Scope>, limits: Limits) -> Result<Self, Invalid> {
        let grant = Self::new(scopes, limits)?;
        if let Some(scope) = grant.scopes.iter().find(|scope| !matches!(scope, Scope::Read | Scope::Operate)) {
            return Err(Invalid::new("scope", format!("a ticket may read and operate; not {scope}")));
        }
        if grant.limits.groups.is_none() {
            return Err(Invalid::new("group", "a ticket is for the jobs of groups; name at least one"));
        }
        Ok(grant)
    }

    /// The part of this grant that a ticket asks for: in what it does not limit itself, it has the limits of this one.
    pub fn give(&self, wanted: &Grant) -> Result<Self, Beyond> {
        if let Some(scope) = wanted.scopes.iter().find(|scope| !self.may(**scope)) {
            return Err(Beyond { what: "scope", name: scope.to_string() });
        }
        let limits = Limits {
            queues: part("queue", &self.limits.queues, &wanted.limits.queues)?,
            groups: part("group", &self.limits.groups, &wanted.limits.groups)?,
            tasks: part("task", &self.limits.tasks, &wanted.limits.tasks)?,
        };
        Ok(Self { scopes: wanted.scopes.clone(), limits })
    }
}

/// The names that are wanted, if all of them are within the limit; the limit itself, if none are named.
fn part<N: Ord + Clone + fmt::Display>(
    what: &'static str,
    own: &Option<BTreeSet<N>>,
    wanted: &Option<BTreeSet<N>>,
) -> Result<Option<BTreeSet<N>>, Beyond> {
    let Some(wanted) = wanted else { return Ok(own.clone()) };
    let outside = |own: &BTreeSet<N>| wanted.iter().find(|name| !own.contains(name)).map(N::to_string);
    match own.as_ref().and_then(outside) {
        Some(name) => Err(Beyond { what, name }),
        None => Ok(Some(wanted.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{GroupName, QueueName};

    fn limits(groups: &[&str], queues: &[&str]) -> Limits {
        let group = |name: &&str| GroupName::new(name).unwrap();
        let queue = |name: &&str| QueueName::new(name).unwrap();
        Limits {
            groups: (!groups.is_empty()).then(|| groups.iter().map(group).collect()),
            queues: (!queues.is_empty()).then(|| queues.iter().map(queue).collect()),
            tasks: None,
        }
    }

    fn wanted(scopes: &[Scope], limits: Limits) -> Grant {
        Grant::of_ticket(scopes.iter().copied(), limits).unwrap()
    }

    #[test]
    fn a_ticket_gives_a_part_of_what_its_token_may() {
        let token = Grant::new([Scope::Operate], limits(&["a", "b"], &["q"])).unwrap();
        let given = token.give(&wanted(&[Scope::Read], limits(&["a"], &[]))).unwrap();
        assert_eq!(given, Grant::new([Scope::Read], limits(&["a"], &["q"])).unwrap(), "the limit of queues stays");
        for (scopes, limits, text) in [
            (&[Scope::Read][..], limits(&["a", "c"], &[]), "the group c"),
            (&[Scope::Read], limits(&["a"], &["other"]), "the queue other"),
        ] {
            let refused = token.give(&wanted(scopes, limits)).unwrap_err().to_string();
            assert!(refused.ends_with(text), "{refused}");
        }
        let reader = Grant::new([Scope::Read, Scope::Submit], Limits::default()).unwrap();
        assert!(reader.give(&wanted(&[Scope::Operate], limits(&["a"], &[]))).is_err());
        assert_eq!(reader.give(&wanted(&[Scope::Read], limits(&["a"], &[]))).unwrap().limits(), &limits(&["a"], &[]));
    }

    #[test]
    fn a_ticket_is_for_groups_and_changes_no_settings() {
        for (scopes, limits) in [
            (&[Scope::Read][..], Limits::default()),
            (&[Scope::Read], limits(&[], &["q"])),
            (&[Scope::Admin], limits(&["a"], &[])),
            (&[Scope::Read, Scope::Submit], limits(&["a"], &[])),
            (&[], limits(&["a"], &[])),
        ] {
            assert!(Grant::of_ticket(scopes.iter().copied(), limits.clone()).is_err(), "{scopes:?} {limits:?}");
        }
    }
}
