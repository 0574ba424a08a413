//! Names of queues, groups, tasks and keys that a person sets something for: a mistyped one is reported, with the name that was probably
//! meant.

use serde::Deserialize;
use turnwise::{
    AskJobs, GroupName, Invalid, KeyName, ListFilter, QueueName, TaskName, Turnwise, settings::Settings as Set,
};
use turnwise_client::{Ask, encoded};

use crate::{
    error::{Failure, remark},
    known::did_you_mean,
    look,
    overview::{COUNTED, Jobs, Named, named},
    place::{List, Place, Server, read},
    schedule,
};

/// What a name is the name of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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

    fn listing(self) -> Named {
        match self {
            Self::Queue => Named::Queues,
            Self::Group => Named::Groups,
            Self::Task => Named::Tasks,
            Self::Key => Named::Keys,
        }
    }

    /// Refuses what cannot be a name.
    fn check(self, name: &str) -> Result<(), Invalid> {
        match self {
            Self::Queue => QueueName::new(name).map(drop),
            Self::Group => GroupName::new(name).map(drop),
            Self::Task => TaskName::new(name).map(drop),
            Self::Key => KeyName::new(name).map(drop),
        }
    }

    fn is_set(self, set: &Set, name: &str) -> Result<bool, Failure> {
        Ok(match self {
            Self::Queue => set.queues.contains_key(&QueueName::new(name)?),
            Self::Group => set.groups.contains_key(&GroupName::new(name)?),
            Self::Task => set.tasks.contains_key(&TaskName::new(name)?),
            Self::Key => set.keys.contains_key(&KeyName::new(name)?),
        })
    }

    /// Finds a job of that name, finished ones included; of a key, only unfinished ones are found, by their names below.
    fn filter(self, name: &str) -> Result<Option<ListFilter>, Failure> {
        let all = ListFilter::default();
        Ok(match self {
            Self::Queue => Some(ListFilter { queues: Some([QueueName::new(name)?].into()), ..all }),
            Self::Group => Some(ListFilter { groups: Some([GroupName::new(name)?].into()), ..all }),
            Self::Task => Some(ListFilter { tasks: Some([TaskName::new(name)?].into()), ..all }),
            Self::Key => None,
        })
    }

    /// Whether a job or a setting has the name, as far as that is found without looking at all names.
    async fn is_used(self, place: &Place, name: &str) -> Result<Used, Failure> {
        match place {
            Place::Database(turnwise) => self.is_used_in(turnwise, name).await,
            Place::Server(server) => self.is_used_at(server, name).await,
        }
    }

    async fn is_used_in(self, turnwise: &Turnwise, name: &str) -> Result<Used, Failure> {
        if self.is_set(&turnwise.settings().await?, name)? {
            return Ok(Used::Yes);
        }
        let Some(filter) = self.filter(name)? else { return Ok(Used::No) };
        let found = turnwise.list(AskJobs { filter, limit: 1, ..AskJobs::default() }).await?;
        Ok(Used::of(found.jobs.is_empty(), found.next.is_some()))
    }

    async fn is_used_at(self, server: &Server, name: &str) -> Result<Used, Failure> {
        match server.try_ask(Ask::get(format!("/{}s/{}", self.word(), encoded(name)))).await {
            Ok(_) => return Ok(Used::Yes),
            Err(turnwise_client::Error::Problem(problem)) if problem.word() == "not-found" => {}
            Err(error) => return Err(error.into()),
        }
        if self == Self::Key {
            return Ok(Used::No);
        }
        let found = server.ask(Ask::get("/jobs").with(self.word(), name).with("limit", 1)).await?;
        let page = List::read(&found, "jobs")?;
        Ok(Used::of(page.items.is_empty(), page.goes_on()))
    }

    /// All names that settings, unfinished jobs, nodes and schedules have; and whether only the oldest of the jobs were looked at.
    async fn names(self, place: &Place) -> Result<(Vec<String>, bool), Failure> {
        #[derive(Deserialize)]
        struct Item {
            name: String,
            #[serde(default)]
            after: Vec<String>,
            #[serde(flatten)]
            jobs: Jobs,
        }
        #[derive(Deserialize)]
        struct Periodic {
            task: String,
            queue: String,
            group: String,
            key: Option<String>,
        }
        let (mut names, mut more) = (Vec::new(), false);
        for item in named(place, self.listing(), COUNTED).await? {
            let Item { name, after, jobs } = read(&item)?;
            names.push(name);
            names.extend(after);
            more |= jobs.at_least;
        }
        // One that a newer program has written is no reason to say nothing.
        for schedule in schedule::all(place).await.map(|(schedules, _)| schedules).unwrap_or_default() {
            let Periodic { task, queue, group, key } = read(&schedule)?;
            names.extend(match self {
                Self::Queue => Some(queue),
                Self::Group => Some(group),
                Self::Task => Some(task),
                Self::Key => key,
            });
        }
        if self == Self::Queue {
            // A token may not be allowed to see the nodes.
            let nodes = look::living(place).await.unwrap_or_default();
            names.extend(nodes.into_iter().flat_map(|node| node.queues.unwrap_or_default()));
        }
        Ok((names, more))
    }
}

/// Whether a name is used.
enum Used {
    Yes,
    No,
    /// None of the newest jobs has it; older ones were not looked at.
    NotLately,
}

impl Used {
    fn of(none: bool, more: bool) -> Self {
        match (none, more) {
            (false, _) => Self::Yes,
            (true, true) => Self::NotLately,
            (true, false) => Self::No,
        }
    }
}

/// Refuses a name that no job and no setting has.
pub(crate) async fn check(place: &Place, kind: Kind, name: &str, force: bool) -> Result<(), Failure> {
    match unknown(place, kind, name).await? {
        Some(sentence) if !force => {
            Err(Failure::Input(format!("{}: {sentence} (--force does it all the same)", kind.word())))
        }
        _ => Ok(()),
    }
}

/// Refuses a name that no job and no setting has, for a command that has nothing to do with it then.
pub(crate) async fn expect(place: &Place, kind: Kind, name: &str) -> Result<(), Failure> {
    match unknown(place, kind, name).await? {
        Some(sentence) => Err(Failure::Input(format!("{}: {sentence}", kind.word()))),
        None => Ok(()),
    }
}

/// A name that nothing is known about, where it is reported and not refused: what a person sets is often set before the first job comes.
pub(crate) struct Doubt(Option<String>);

impl Doubt {
    /// There is none where names cannot be read, either: what was asked for is done all the same.
    pub(crate) async fn look(place: &Place, kind: Kind, field: &str, name: &str) -> Self {
        let sentence = unknown(place, kind, name).await.ok().flatten();
        Self(sentence.map(|sentence| format!("{field}: {sentence}")))
    }

    pub(crate) fn tell(&self) {
        self.0.as_deref().into_iter().for_each(remark);
    }
}

/// What to say about a name that nothing is known about. Looks at a bounded number of jobs, however many there are.
async fn unknown(place: &Place, kind: Kind, name: &str) -> Result<Option<String>, Failure> {
    kind.check(name)?;
    let cut = match kind.is_used(place, name).await? {
        Used::Yes => return Ok(None),
        Used::No => false,
        Used::NotLately => true,
    };
    let (names, more) = kind.names(place).await?;
    if names.iter().any(|known| known == name) {
        return Ok(None);
    }
    let meant = did_you_mean(name, names.iter().map(String::as_str));
    let looked = if cut || more { "none of the newest and oldest jobs" } else { "no job" };
    Ok(Some(format!("{looked} and no setting has the name {name:?}{meant}")))
}
