//! What connections are for, and the settings that the statements of each purpose rely on.

use std::collections::BTreeMap;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    Submit,
    /// Submits with a unique key: they may wait for an open transaction that is taking it.
    Unique,
    /// Giving jobs to nodes.
    Assign,
    /// What else the dispatcher does.
    Dispatch,
    /// Beats and mail.
    Node,
    Settle,
    Note,
    People,
    Listen,
    Migrate,
    /// Transactions of tasks.
    Task,
}

/// A name and a value, as PostgreSQL writes it.
pub(super) type Setting = (&'static str, &'static str);

/// No statement runs for ever. The one setting for which a value in the url counts more.
pub(super) const LONGEST: Setting = ("statement_timeout", "30s");

/// A transaction that stands still may not outlast the dispatcher's lease, and nothing waits for ever for a lock.
const BOUNDS: [Setting; 2] = [("idle_in_transaction_session_timeout", "4s"), ("lock_timeout", "10s")];

/// What a database, or a role, may have set otherwise: each statement must see what was committed before it, and a name
/// that is not qualified must not be found in another user's schema.
const GROUND: [Setting; 2] = [ISOLATION, ("search_path", "pg_catalog, pg_temp")];
pub(super) const ISOLATION: Setting = ("default_transaction_isolation", "read committed");

/// How long an assignment waits for a row that another transaction has locked, before it goes on without that row.
const QUICK_LOCKS: [Setting; 1] = [("lock_timeout", "50ms")];

/// How long ends wait for a row that another transaction has locked, before they are written without it.
const ENDS_LOCKS: [Setting; 1] = [("lock_timeout", "100ms")];

/// How long a submit waits for an open transaction that stores the same id, before it fails with a transient error.
const ID_LOCKS: [Setting; 1] = [("lock_timeout", "1s")];

/// How long a submit waits for an open transaction that is taking its unique key, before it fails with a transient error.
const KEY_LOCKS: [Setting; 1] = [("lock_timeout", "2s")];

/// A step of the schema may take as long as it takes, and waits for as long as others hold its tables.
const NO_LIMIT: [Setting; 2] = [("statement_timeout", "0"), ("lock_timeout", "0")];

/// Each statement has an index that carries it (its header says which). A plan that was made while a table was empty,
/// and kept, must not read it whole when it is full. And none is worth parallel workers: to start them takes 5 to 15 ms, where the
/// statement takes one.
const INDEXES: [Setting; 3] = [("jit", "off"), ("enable_seqscan", "off"), ("max_parallel_workers_per_gather", "0")];

/// Rows of a list are found by `id between t.id and t.id`, not by `id = t.id`. Of a table that was empty when it was last
/// vacuumed and is full now, the planner expects one row, and would read all of its index and compare each with each:
/// 6.9 s for a thousand jobs of fifty thousand. A range cannot be joined but by looking up each, which takes 3 ms.
///
/// Nested loops lock a batch in the order it was sorted in.
const LOOPS: [Setting; 2] = [("enable_hashjoin", "off"), ("enable_mergejoin", "off")];

/// For statements that have one good plan: it is made once for a connection. To make it anew costs up to a millisecond, which
/// a job that comes alone would wait for.
const ONE_PLAN: [Setting; 1] = [("plan_cache_mode", "force_generic_plan")];

/// For statements that lock in no order.
const ANY_JOIN: [Setting; 2] = [("enable_hashjoin", "on"), ("enable_mergejoin", "on")];
const ANY_PLAN: [Setting; 1] = [("plan_cache_mode", "auto")];

/// For statements whose filters may be absent.
const NEW_PLANS: [Setting; 1] = [("plan_cache_mode", "force_custom_plan")];

impl Purpose {
    /// What the statements of this purpose rely on, whatever the url says. Purposes of verbs name the same settings, so that a
    /// connection can go from one to another.
    pub(super) fn needs(self) -> BTreeMap<&'static str, &'static str> {
        let more: &[&[Setting]] = match self {
            Self::Submit => &[&INDEXES, &ANY_JOIN, &ANY_PLAN, &ID_LOCKS],
            Self::Unique => &[&INDEXES, &ANY_JOIN, &ANY_PLAN, &KEY_LOCKS],
            Self::Assign => &[&INDEXES, &LOOPS, &ONE_PLAN, &QUICK_LOCKS],
            Self::Settle => &[&INDEXES, &LOOPS, &ONE_PLAN, &ENDS_LOCKS],
            Self::Dispatch | Self::Node => &[&INDEXES, &LOOPS, &ONE_PLAN],
            Self::Note | Self::People => &[&INDEXES, &LOOPS, &NEW_PLANS],
            Self::Listen => &[],
            Self::Migrate => &[&NO_LIMIT],
            // How long the statements of tasks may take is not for this crate to say.
            Self::Task => return BTreeMap::new(),
        };
        BOUNDS.iter().chain(&GROUND).chain(more.iter().copied().flatten()).copied().collect()
    }

    /// What makes a connection that had the settings of `before` fit for this purpose.
    pub(super) fn sets(self, before: Option<Self>) -> String {
        let before = before.map(Self::needs).unwrap_or_default();
        let needs = self.needs().into_iter().filter(|(name, value)| before.get(name) != Some(value));
        needs.map(|(name, value)| format!("set {name} = '{value}';")).collect()
    }

    /// What one transaction of this purpose sets for itself, where no session can be relied on.
    pub(crate) fn local(self) -> String {
        // The transaction already has its isolation level.
        let needs = self.needs().into_iter().filter(|(name, _)| *name != ISOLATION.0);
        let bound = [LONGEST].into_iter().filter(|_| self != Self::Task);
        let set = |(name, value)| format!("pg_catalog.set_config('{name}', '{value}', true)");
        let all: Vec<String> = bound.chain(needs).map(set).collect();
        if all.is_empty() { String::new() } else { format!("select {};", all.join(", ")) }
    }

    /// Begins such a transaction.
    pub(crate) fn begin(self, begin: &str, then: &str) -> String {
        let level = if begin == "begin" { " isolation level read committed" } else { "" };
        format!("{begin}{level}; {}{then}", self.local())
    }
}

/// A setting that is only read back: it shows whether the settings of a connection reach the server's session.
pub(super) const MARK: Setting = ("turnwise.direct", "yes");
