//! Access: what a token may do ([`Scope`]) and to which jobs ([`Limits`]), together its [`Grant`].
//!
//! Decided once, where a request becomes a verb: [`Grant::check`] takes what is asked for ([`Action`]) and what it is asked of
//! ([`Target`]). What a token cannot see is [`Refusal::NotFound`], as if it were not there: the refusal itself must not show one tenant
//! that another one's job exists. `docs/access.md` is printed from [`Action::ALL`].

mod action;
mod ticket;
mod token;

use std::collections::BTreeSet;

pub use action::{Action, Reach};
pub use ticket::{BEARER_FOR, Beyond, MAX_TICKETS, MAX_TICKETS_OF_ONE, TICKET_FOR};
pub use token::{
    KEEP_DEAD_TOKENS, LOGIN_FOR, MAX_LOGINS, MAX_LOGINS_OF_ONE, MAX_TOKENS, NOTE_USE_EVERY, NewToken, Token, TokenId,
    TokenState,
};

use crate::{
    job::{Job, NewJob},
    name::{GroupName, Invalid, QueueName, ScopeName, TaskName},
    statistics::Of,
    unique,
    words::words,
};

/// At most so many names in each limit of a token: they are compared for each job of each answer.
pub const MAX_LIMIT_NAMES: usize = 100;

/// What a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Scope {
    /// Submit jobs.
    Submit,
    /// Look at jobs, queues, groups and all that is known of them.
    Read,
    /// Decide about jobs and pause queues; includes [`Read`](Self::Read).
    Operate,
    /// Change settings, schedules and tokens; includes all but [`Work`](Self::Work).
    Admin,
    /// Take jobs, run them elsewhere and report how they ended.
    Work,
}

words!(
    Scope, "scope",
    "submit" => Submit, "read" => Read, "operate" => Operate, "admin" => Admin, "work" => Work
);

impl Scope {
    /// Every scope.
    pub const ALL: [Scope; 5] = [Self::Submit, Self::Read, Self::Operate, Self::Admin, Self::Work];

    /// Whether a token with this scope may do what needs `other`. A worker's token is not an administrator's: a job's node must be
    /// one that was set up as such.
    pub fn includes(self, other: Scope) -> bool {
        match self {
            Self::Admin => other != Self::Work,
            Self::Operate => matches!(other, Self::Operate | Self::Read),
            Self::Submit | Self::Read | Self::Work => self == other,
        }
    }
}

/// What a token is limited to. `None`: not limited in this respect. A job must be within all of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
// A limit that this version does not know is an error, not ignored: the token would do more than it was made for.
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Only jobs of these queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<BTreeSet<QueueName>>,
    /// Only jobs of these groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<BTreeSet<GroupName>>,
    /// Only jobs of these tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<BTreeSet<TaskName>>,
}

/// Whether a set of names that may be absent leaves `name` in.
fn within<N: Ord>(names: &Option<BTreeSet<N>>, name: &N) -> bool {
    names.as_ref().is_none_or(|names| names.contains(name))
}

impl Limits {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.queues.is_none() && self.groups.is_none() && self.tasks.is_none()
    }

    /// Whether a job of this queue, group and task is within all of them.
    pub fn cover(&self, queue: &QueueName, group: &GroupName, task: &TaskName) -> bool {
        within(&self.queues, queue) && within(&self.groups, group) && within(&self.tasks, task)
    }

    /// Whether a job is within all of them, as what it is submitted as and as every task that it [may go on as](crate::terms::Terms::tasks).
    fn cover_all_of(&self, job: &NewJob) -> bool {
        self.cover(&job.queue, &job.group, &job.task) && job.terms.tasks().all(|task| within(&self.tasks, task))
    }

    fn check(&self) -> Result<(), Invalid> {
        let counts = [
            ("queue", self.queues.as_ref().map(BTreeSet::len)),
            ("group", self.groups.as_ref().map(BTreeSet::len)),
            ("task", self.tasks.as_ref().map(BTreeSet::len)),
        ];
        for (field, count) in counts {
            match count {
                Some(0) => {
                    return Err(Invalid::new(field, "a limit must name at least one; leave it out for no limit"));
                }
                Some(count) if count > MAX_LIMIT_NAMES => {
                    let problem = format!("a token is limited to at most {MAX_LIMIT_NAMES} names, not {count}");
                    return Err(Invalid::new(field, problem));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// What a token may do, and to which jobs. It is checked when it is made; inside, a grant is known to be good.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Grant {
    scopes: BTreeSet<Scope>,
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    limits: Limits,
}

/// A grant as it is stored, before it is checked.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    scopes: BTreeSet<Scope>,
    #[serde(default)]
    limits: Limits,
}

impl TryFrom<Unchecked> for Grant {
    type Error = Invalid;
    fn try_from(grant: Unchecked) -> Result<Self, Invalid> {
        Self::new(grant.scopes, grant.limits)
    }
}

/// What something is asked of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// A job, a schedule or anything else that belongs to a queue, a group and a task.
    Job {
        /// The queue it is in.
        queue: &'a QueueName,
        /// The group it belongs to.
        group: &'a GroupName,
        /// The task it runs.
        task: &'a TaskName,
    },
    /// A job, or the job of a schedule, that is to be made: it must be the token's own in all that it may go on as.
    New(&'a NewJob),
    /// A queue as such.
    Queue(&'a QueueName),
    /// A group as such.
    Group(&'a GroupName),
    /// A task as such.
    Task(&'a TaskName),
    /// A key that jobs share. It belongs to no queue, group or task, so a limited token sees none.
    Key,
    /// A list or sum over many jobs: each of them is checked with [`Grant::covers`], or left out by a filter.
    Many,
    /// The installation as a whole: its nodes, settings, tokens.
    Installation,
}

impl<'a> Target<'a> {
    /// A job that is there.
    pub fn job(job: &'a Job) -> Self {
        Self::Job { queue: &job.queue, group: &job.group, task: &job.task }
    }

    /// A job that is to be submitted.
    pub fn new_job(job: &'a NewJob) -> Self {
        Self::New(job)
    }
}

/// Why a token may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The token has none of the scopes that include this one.
    #[error("this needs a token with the scope {0}")]
    Scope(Scope),
    /// The token is limited, and this concerns more than what it is limited to.
    #[error("this needs a token that is not limited to queues, groups or tasks")]
    Limited,
    /// What it is asked of is not the token's. It gets the same answer as for something that does not exist.
    #[error("not found")]
    NotFound,
}

impl Grant {
    /// Refuses a grant without scopes, with an empty or too long limit, and `work` limited to groups: a node runs what the dispatcher
    /// assigns to it, and that chooses nodes by queue and task.
    pub fn new(scopes: impl IntoIterator<Item = Scope>, limits: Limits) -> Result<Self, Invalid> {
        let scopes: BTreeSet<Scope> = scopes.into_iter().collect();
        limits.check()?;
        if scopes.is_empty() {
            return Err(Invalid::new("scope", "must name at least one"));
        }
        if scopes.contains(&Scope::Work) && limits.groups.is_some() {
            let problem = "a token with the scope work cannot be limited to groups; limit it to queues or tasks";
            return Err(Invalid::new("group", problem));
        }
        Ok(Self { scopes, limits })
    }

    /// Everything: for a server on loopback while no token was ever created.
    pub fn unlimited() -> Self {
        Self { scopes: Scope::ALL.into(), limits: Limits::default() }
    }

    /// The scopes it was made with.
    pub fn scopes(&self) -> &BTreeSet<Scope> {
        &self.scopes
    }

    /// What it is limited to.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether it is limited to queues, groups or tasks.
    pub fn is_limited(&self) -> bool {
        !self.limits.is_empty()
    }

    /// Whether it may do at all what needs this scope.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|own| own.includes(scope))
    }

    /// Whether a job of this queue, group and task is its own: for lists and events, where others are left out.
    pub fn covers(&self, queue: &QueueName, group: &GroupName, task: &TaskName) -> bool {
        self.limits.cover(queue, group, task)
    }

    /// Leaves of what is asked for only what the grant covers; `None` asks for all. Whether anything is left.
    pub fn narrow(
        &self,
        queues: &mut Option<BTreeSet<QueueName>>,
        groups: &mut Option<BTreeSet<GroupName>>,
        tasks: &mut Option<BTreeSet<TaskName>>,
    ) -> bool {
        fn narrowed<N: Ord + Clone>(wanted: &mut Option<BTreeSet<N>>, limit: &Option<BTreeSet<N>>) -> bool {
            if let Some(limit) = limit {
                match wanted {
                    Some(wanted) => wanted.retain(|name| limit.contains(name)),
                    None => *wanted = Some(limit.clone()),
                }
            }
            wanted.as_ref().is_none_or(|wanted| !wanted.is_empty())
        }
        let Limits { queues: by_queue, groups: by_group, tasks: by_task } = &self.limits;
        // All three, whatever the first comes to.
        [narrowed(queues, by_queue), narrowed(groups, by_group), narrowed(tasks, by_task)] == [true; 3]
    }

    /// Whether it hears what becomes of a queue as such: of its settings, of who paused it and why. A limited token must name the queue.
    pub fn is_told_of(&self, queue: &QueueName) -> bool {
        let named = self.limits.queues.as_ref().is_some_and(|queues| queues.contains(queue));
        (named || self.limits.is_empty()) && self.may(Action::ReadQueue.scope())
    }

    /// Whether it may see the numbers of a task or a group of a queue: they are about all its jobs there.
    pub fn sees(&self, queue: &QueueName, of: &Of) -> bool {
        let Limits { queues, groups, tasks } = &self.limits;
        within(queues, queue)
            && match of {
                Of::Task(task) => groups.is_none() && within(tasks, task),
                Of::Group(group) => tasks.is_none() && within(groups, group),
                Of::OtherTasks | Of::OtherGroups => groups.is_none() && tasks.is_none(),
            }
    }

    /// Whether this may be done to that.
    ///
    /// The scope is checked first: a token that may not read at all learns only that.
    pub fn check(&self, action: Action, target: Target<'_>) -> Result<(), Refusal> {
        if !self.may(action.scope()) {
            return Err(Refusal::Scope(action.scope()));
        }
        if self.limits.is_empty() {
            return Ok(());
        }
        if action.reach() == Reach::Installation {
            return Err(Refusal::Limited);
        }
        let Limits { queues, groups, tasks } = &self.limits;
        let (visible, whole) = match target {
            Target::Job { queue, group, task } => (self.limits.cover(queue, group, task), true),
            Target::New(job) => (self.limits.cover_all_of(job), true),
            Target::Queue(name) => (within(queues, name), groups.is_none() && tasks.is_none()),
            Target::Group(name) => (within(groups, name), queues.is_none() && tasks.is_none()),
            Target::Task(name) => (within(tasks, name), queues.is_none() && groups.is_none()),
            Target::Key => (false, false),
            Target::Many => (true, true),
            Target::Installation => return Err(Refusal::Limited),
        };
        match (visible, action.reach()) {
            (false, _) => Err(Refusal::NotFound),
            (true, Reach::Whole) if !whole => Err(Refusal::Limited),
            (true, _) => Ok(()),
        }
    }

    /// Whether it may submit this job. A job outside of its limits, or one that may go on as a task outside of them, is
    /// [`Refusal::NotFound`], whether the queue is there or not.
    pub fn may_submit(&self, job: &NewJob) -> Result<(), Refusal> {
        self.check(Action::Submit, Target::New(job))
    }

    /// Narrows a job's unique key to what the token is limited to. Otherwise a tenant that guesses another one's key would be answered
    /// with the id of that one's job, or replace its arguments.
    pub fn narrow_unique(&self, job: &mut NewJob) {
        let Some(mut unique) = job.unique.take() else { return };
        let limits = &self.limits;
        let mut parts = [
            limits.queues.is_some().then(|| unique::Scope::Queue.of(job)),
            limits.groups.is_some().then(|| unique::Scope::Group.of(job)),
            limits.tasks.is_some().then(|| unique::Scope::Task.of(job)),
        ]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>();
        let own = unique.scope.of(job);
        if !parts.contains(&own) {
            parts.push(own);
        }
        // As JSON, so that no choice of names makes two different lists look the same.
        if parts.len() > 1 {
            let text = serde_json::Value::from(parts).to_string();
            unique.scope = unique::Scope::Named(ScopeName::stored(text.into()));
        }
        job.unique = Some(unique);
    }
}

#[cfg(test)]
mod tests;
