//! The lead: when a node that follows takes it, which nodes are silent, whether the database's clock was changed, and how long a
//! node whose control loops panic leaves the lead to others.
//!
//! Leases are kept in database time. Everything here is decided by a monotonic clock: a moment is given as the time since a fixed
//! starting point.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    node::{Incarnation, Node},
    time::Timestamp,
};

/// Between two looks that do not find the leader's session: the leader may be reconnecting.
pub const CONFIRM: Duration = Duration::from_millis(150);
/// Between two looks at the leader while there is work.
pub const BUSY_LOOK: Duration = Duration::from_millis(300);
/// Between two looks at the leader while there is none. On PostgreSQL they are beats: with the other statements of an idle node
/// this is less than one a second.
const IDLE_LOOK: Duration = Duration::from_millis(1_200);
/// How long after its last job a node still counts as having work.
pub const BUSY: Duration = Duration::from_secs(5);

/// What can be seen of the process that leads, besides its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sight {
    /// Nothing: its lease is all there is to go by.
    #[default]
    Unseen,
    /// It is there. It may be stopped all the same.
    There,
    /// Its session with the database is not there.
    Missing,
    /// It is certainly no longer running.
    Gone,
}

/// How a node can see the process that leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Lease,
    /// The process table of its machine: a look costs nothing.
    Process,
    /// Its session with the database: a look is a statement.
    Session,
}

/// The lead as seen by a node that follows. `L` says which node leads and how long the lead lasts: it changes with each renewal.
#[derive(Debug)]
pub struct Watch<L> {
    seen: Option<Sighting<L>>,
}

#[derive(Debug)]
struct Sighting<L> {
    lead: L,
    since: Duration,
    gone: bool,
    missing_since: Option<Duration>,
    missing_till: Duration,
    looked: Duration,
}

impl<L> Default for Watch<L> {
    fn default() -> Self {
        Self { seen: None }
    }
}

impl<L: PartialEq> Watch<L> {
    pub fn see(&mut self, lead: L, sight: Sight, at: Duration) {
        let mut seen = match self.seen.take() {
            Some(seen) if seen.lead == lead => seen,
            // A leader that renews its lead lives, whatever was missing.
            _ => Sighting { lead, since: at, gone: false, missing_since: None, missing_till: at, looked: at },
        };
        seen.looked = at;
        match sight {
            Sight::Gone => seen.gone = true,
            Sight::Missing => {
                seen.missing_since.get_or_insert(at);
                seen.missing_till = at;
            }
            Sight::Unseen | Sight::There => seen.missing_since = None,
        }
        self.seen = Some(seen);
    }

    /// A look that found nothing new, or failed.
    pub fn looked(&mut self, at: Duration) {
        if let Some(seen) = &mut self.seen {
            seen.looked = at;
        }
    }

    /// No other node leads.
    pub fn forget(&mut self) {
        self.seen = None;
    }

    /// The lead that this node should take: its holder is gone, or has not renewed it for a whole `lease`. Only what was
    /// seen since `steady` counts: before, this node may have been cut off, or the clock was changed.
    pub fn over(&self, lease: Duration, steady: Duration, at: Duration) -> Option<&L> {
        let seen = self.seen.as_ref()?;
        let missed = seen.missing_since.is_some_and(|since| seen.missing_till.saturating_sub(since) >= CONFIRM);
        let silent = at.saturating_sub(seen.since.max(steady)) >= lease;
        (seen.gone || missed || silent).then_some(&seen.lead)
    }

    /// How long until the next look. It is counted from the last look, so that work that comes meanwhile makes it sooner.
    pub fn look_in(&self, lease: Duration, steady: Duration, at: Duration, by: By, idle_for: Duration) -> Duration {
        let Some(seen) = &self.seen else { return Duration::MAX };
        let silent_in = (seen.since.max(steady) + lease).saturating_sub(at);
        let look = match by {
            By::Lease => Duration::MAX,
            By::Session if seen.missing_since.is_some() => CONFIRM,
            By::Session if idle_for >= BUSY => IDLE_LOOK,
            By::Session | By::Process => BUSY_LOOK,
        };
        seen.looked.saturating_add(look).saturating_sub(at).min(silent_in)
    }
}

/// When the dispatcher last saw each node's lease renewed.
#[derive(Debug, Default)]
pub struct Leases(BTreeMap<Incarnation, (Timestamp, Duration)>);

impl Leases {
    pub fn see(&mut self, living: &[Node], at: Duration) {
        let last = std::mem::take(&mut self.0);
        self.0 = living
            .iter()
            .map(|node| match last.get(&node.incarnation) {
                Some(&(until, since)) if until == node.lease_until => (node.incarnation, (until, since)),
                _ => (node.incarnation, (node.lease_until, at)),
            })
            .collect();
    }

    /// Nodes that have not renewed their lease for its whole length, and when it ends by the database's clock: if that clock was
    /// set back, the end may be hours away.
    pub fn silent(&self, living: &[Node], steady: Duration, at: Duration) -> Vec<(Incarnation, Timestamp)> {
        let silent = |node: &&Node| {
            let seen = self.0.get(&node.incarnation).filter(|(until, _)| *until == node.lease_until);
            seen.is_some_and(|(_, since)| at.saturating_sub((*since).max(steady)) > node.lease)
        };
        living.iter().filter(silent).map(|node| (node.incarnation, node.lease_until)).collect()
    }
}

/// Whether the database's clock was changed, rather than its reply delayed. `known` and `read`: how far it is ahead of this node's
/// monotonic clock, in microseconds, so far and by the last reply.
///
/// Half a lease: nodes renew their lease three times as often as they must, so a smaller jump does no harm.
pub fn jumped(known: i64, read: i64, lease: Duration) -> bool {
    u128::from(known.abs_diff(read)) > lease.as_micros() / 2
}

/// After the first panic: long enough for another node to take the lead.
const FIRST: Duration = Duration::from_secs(1);
/// The most that a panic costs a fleet of one node. Data that makes every dispatcher panic is then read about once a minute.
const LONGEST: Duration = Duration::from_secs(60);
/// A node that went so long without a panic counts as sound again.
const SOUND: Duration = Duration::from_secs(300);

/// How often the control loops of a node have panicked in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Panics(u32);

impl Panics {
    /// Counts one more panic; the one before was `since` ago (`None`: there was none).
    #[must_use]
    pub fn one_more(self, since: Option<Duration>) -> Self {
        match since {
            Some(since) if since < SOUND => Self(self.0.saturating_add(1)),
            _ => Self(1),
        }
    }

    /// How long the node does not offer to dispatch, from the last panic on.
    pub fn hold_off(self) -> Duration {
        match self.0.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => FIRST.saturating_mul(1 << doublings.min(16)).min(LONGEST),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use uuid::Uuid;

    use super::*;
    use crate::{Serves, name::NodeName, node::Host};

    const LEASE: Duration = Duration::from_secs(5);

    fn secs(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_leader_that_renews_its_lead_keeps_it_however_late_that_is_seen() {
        let mut watch = Watch::default();
        for n in 0..100 {
            watch.see(n, Sight::Unseen, secs(1.7) * n);
            assert_eq!(watch.over(LEASE, Duration::ZERO, secs(1.7) * (n + 1)), None);
        }
    }

    #[test]
    fn a_lead_that_is_not_renewed_for_a_lease_is_over_whatever_the_database_says_of_the_time() {
        let mut watch = Watch::default();
        watch.see("lead", Sight::Unseen, secs(1.0));
        watch.see("lead", Sight::There, secs(5.9));
        assert_eq!(watch.over(LEASE, Duration::ZERO, secs(5.9)), None);
        assert_eq!(watch.look_in(LEASE, Duration::ZERO, secs(5.9), By::Lease, Duration::ZERO), secs(0.1));
        assert_eq!(watch.over(LEASE, Duration::ZERO, secs(6.0)), Some(&"lead"));
        // But not for a node that was cut off meanwhile, or saw the clock change.
        assert_eq!(watch.over(LEASE, secs(3.0), secs(7.9)), None);
        assert_eq!(watch.over(LEASE, secs(3.0), secs(8.0)), Some(&"lead"));
        watch.forget();
        assert_eq!(watch.over(LEASE, Duration::ZERO, secs(99.0)), None);
    }

    #[test]
    fn a_session_is_missed_twice_before_its_leader_is_given_up_and_a_dead_process_once() {
        let mut watch = Watch::default();
        watch.see(1, Sight::There, secs(1.0));
        watch.see(1, Sight::Missing, secs(1.3));
        assert_eq!(watch.over(LEASE, Duration::ZERO, secs(1.9)), None, "one look is none");
        assert_eq!(watch.look_in(LEASE, Duration::ZERO, secs(1.3), By::Session, secs(60.0)), CONFIRM);
        watch.see(1, Sight::There, secs(1.45));
        watch.see(1, Sight::Missing, secs(1.5));
        assert_eq!(watch.over(LEASE, Duration::ZERO, secs(1.6)), None, "it was there in between");
        watch.see(2, Sight::Missing, secs(1.7));
        assert_eq!(watch.over(LEASE, Duration::ZERO, secs(1.7)), None, "it has renewed its lead in between");
        watch.see(2, Sight::Missing, secs(1.85));
        assert_eq!(watch.over(LEASE, Duration::ZERO, secs(1.85)), Some(&2));
        watch.see(3, Sight::Gone, secs(2.0));
        assert_eq!(watch.over(LEASE, Duration::ZERO, secs(2.0)), Some(&3));
    }

    #[test]
    fn a_look_at_a_session_costs_a_statement_so_a_node_without_work_looks_less_than_once_a_second() {
        let mut watch = Watch::default();
        watch.see(1, Sight::There, Duration::ZERO);
        let look = |by, idle| watch.look_in(LEASE, Duration::ZERO, Duration::ZERO, by, secs(idle));
        assert_eq!((look(By::Session, 0.0), look(By::Session, 60.0)), (BUSY_LOOK, IDLE_LOOK));
        assert_eq!((look(By::Process, 60.0), look(By::Lease, 0.0)), (BUSY_LOOK, LEASE));
        // A node that gets work meanwhile looks sooner than one without work.
        let later = |idle| watch.look_in(LEASE, Duration::ZERO, secs(0.5), By::Session, secs(idle));
        assert_eq!((later(60.0), later(0.0)), (secs(0.7), Duration::ZERO));
        assert!(BUSY_LOOK + 2 * CONFIRM < secs(0.7) && secs(1.0) < IDLE_LOOK && IDLE_LOOK + 2 * CONFIRM < secs(1.6));
    }

    fn node(number: u128, lease_until: Timestamp) -> Node {
        let host = Host {
            name: "h".into(),
            boot_id: "b".into(),
            pid_namespace: String::new(),
            pid: 1,
            started: 1,
            version: None,
        };
        Node {
            incarnation: Incarnation(Uuid::from_u128(number)),
            name: NodeName::new(format!("n{number}")).unwrap(),
            host,
            slots: 1,
            queue_capacity: 0,
            batch_size: None,
            queues: Serves::All,
            tasks: BTreeSet::new(),
            joined_at: Timestamp::MIN,
            lease: LEASE,
            lease_until,
            lost: false,
            dispatcher: false,
        }
    }

    #[test]
    fn a_node_is_silent_that_did_not_renew_its_lease_for_as_long_as_it_is_also_if_it_ends_in_hours() {
        let hours = Timestamp::from_micros(7_200_000_000);
        let mut leases = Leases::default();
        for second in 0..=12 {
            let at = Duration::from_secs(second);
            let living = [node(1, hours), node(2, Timestamp::MIN.plus(at))];
            leases.see(&living, at);
            let silent = leases.silent(&living, Duration::from_secs(3), at);
            let expected = if second > 8 { vec![(living[0].incarnation, hours)] } else { vec![] };
            assert_eq!(silent, expected, "after {second} s");
        }
    }

    #[test]
    fn a_clock_has_jumped_if_it_moved_by_more_than_half_a_lease_either_way() {
        for (change, expected) in [(0, false), (2_500_000, false), (-2_500_000, false), (2_500_001, true)] {
            assert_eq!(jumped(7, 7 + change, LEASE), expected, "{change}");
        }
        assert!(jumped(0, -3_600_000_000, LEASE) && jumped(i64::MIN, i64::MAX, LEASE));
    }

    #[test]
    fn each_panic_in_a_row_keeps_a_node_from_leading_for_longer_up_to_a_minute() {
        let mut panics = Panics::default();
        assert_eq!(panics.hold_off(), Duration::ZERO);
        let mut waits = Vec::new();
        let mut since = None;
        for _ in 0..100 {
            panics = panics.one_more(since);
            waits.push(panics.hold_off().as_secs());
            since = Some(panics.hold_off());
        }
        assert_eq!(waits[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(waits[99], 60);
        assert_eq!(panics.one_more(Some(Duration::from_secs(300))).hold_off(), FIRST);
    }
}
