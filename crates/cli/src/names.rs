//! Names of queues, groups, tasks and keys that a person sets something for: a mistyped one is reported, with the name that was probably
//! meant.

use turnwise::{Filter, GroupName, KeyName, QueueName, TaskName, Turnwise, settings::Settings as Set};

use crate::{
    error::{Failure, remark},
    known::did_you_mean,
    look,
};

/// What a name is the name of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Queue,
    Group,
    Task,
    Key,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Group => "group",
            Self::Task => "task",
            Self::Key => "key",
        }
    }

    /// Also refuses what cannot be a name.
    fn is_set(self, set: &Set, name: &str) -> Result<bool, Failure> {
        Ok(match self {
            Self::Queue => set.queues.contains_key(&QueueName::new(name)?),
            Self::Group => set.groups.contains_key(&GroupName::new(name)?),
            Self::Task => set.tasks.contains_key(&TaskName::new(name)?),
            Self::Key => set.keys.contains_key(&KeyName::new(name)?),
        })
    }

    /// Finds a job of that name, finished ones included; of a key, only unfinished ones are found, by their names below.
    fn filter(self, name: &str) -> Option<Filter> {
        let (name, one) = (Some(name.to_owned()), Filter { limit: Some(1), ..Filter::default() });
        match self {
            Self::Queue => Some(Filter { queue: name, ..one }),
            Self::Group => Some(Filter { group: name, ..one }),
            Self::Task => Some(Filter { task: name, ..one }),
            Self::Key => None,
        }
    }

    /// All names that settings, unfinished jobs, nodes and schedules have.
    async fn names(self, turnwise: &Turnwise) -> Result<Vec<String>, Failure> {
        fn texts<'n, N: ToString + 'n>(names: impl Iterator<Item = &'n N>) -> Vec<String> {
            names.map(ToString::to_string).collect()
        }
        let overview = turnwise.overview().await?;
        let schedules = look::schedules(turnwise).await;
        let periodic = || schedules.values();
        let mut names = match self {
            Self::Queue => texts(overview.queues.keys().chain(periodic().map(|periodic| &periodic.queue))),
            Self::Group => texts(overview.groups.keys().chain(periodic().map(|periodic| &periodic.group))),
            Self::Task => texts(overview.tasks.keys().chain(periodic().map(|periodic| &periodic.task))),
            Self::Key => texts(overview.keys.keys().chain(periodic().filter_map(|periodic| periodic.key.as_ref()))),
        };
        if self == Self::Queue {
            let fleet = turnwise.nodes().await?;
            names.extend(fleet.nodes.iter().flat_map(|node| texts(node.queues.parts().0.into_iter().flatten())));
            names.extend(overview.queues.values().flat_map(|queue| texts(queue.settings.after.iter())));
        }
        Ok(names)
    }
}

/// Refuses a name that no job and no setting has.
pub(crate) async fn check(turnwise: &Turnwise, kind: Kind, name: &str, force: bool) -> Result<(), Failure> {
    match unknown(turnwise, kind, name).await? {
        Some(sentence) if !force => {
            Err(Failure::Input(format!("{}: {sentence} (--force does it all the same)", kind.word())))
        }
        _ => Ok(()),
    }
}

/// A name that is about to be set. What is set is often set before the first job comes, so it is not refused.
pub(crate) struct New(Option<String>);

impl New {
    pub(crate) async fn look(turnwise: &Turnwise, kind: Kind, name: &str) -> Result<Self, Failure> {
        let sentence = unknown(turnwise, kind, name).await?;
        Ok(Self(sentence.map(|sentence| format!("new {}: {sentence}", kind.word()))))
    }

    /// Once it is set: reports it if no job and no setting had the name.
    pub(crate) fn tell(self) {
        self.0.as_deref().into_iter().for_each(remark);
    }
}

/// What to tell about a name that nothing is known about.
async fn unknown(turnwise: &Turnwise, kind: Kind, name: &str) -> Result<Option<String>, Failure> {
    if kind.is_set(&turnwise.settings().await?, name)? {
        return Ok(None);
    }
    if let Some(filter) = kind.filter(name)
        && !turnwise.jobs(filter).await?.is_empty()
    {
        return Ok(None);
    }
    let names = kind.names(turnwise).await?;
    if names.iter().any(|known| known == name) {
        return Ok(None);
    }
    let meant = did_you_mean(name, names.iter().map(String::as_str));
    Ok(Some(format!("no job and no setting has the name {name:?}{meant}")))
}
