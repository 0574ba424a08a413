//! What people set: weights, limits and pauses, read and changed while nodes run.
//!
//! A change is a step from what is set now: read, changed, written if no other caller wrote meanwhile, else again. The
//! dispatcher is rung and heeds it from its next decision on.

use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};
use turnwise_core::{GroupName, Invalid, KeyName, QueueName, TaskName, settings::Checked};
use turnwise_store::{
    MemoKind,
    memo::{self, Draft},
};

pub use turnwise_core::{
    Retention,
    settings::{
        Concurrency, Fairness, GroupSettings, InstallationSettings, LimitSettings, OnError, Pause, QueueSettings, Rate,
        Settings, Weight,
    },
    turn::Scheme,
};

use crate::{
    Error, Turnwise,
    audit::{AuditTarget, AuditVerb, NewAuditLine},
};

/// Times a change is made anew because another caller's came between, or because the reply was lost.
const CHANGE_AGAIN: u32 = 20;
const CHANGE_WAIT: Duration = Duration::from_millis(20);

impl Turnwise {
    /// All that is set; what is not named has its defaults. What a newer program wrote and this one cannot read is left out.
    ///
    /// [`Error::Store`] if the database does not answer. Nothing is changed: a repeat is safe.
    pub async fn settings(&self) -> Result<Settings, Error> {
        Ok(memo::read_settings(&*self.store()).await?)
    }

    /// Changes what is set for a queue and returns what is set then. `change` may be called again, on fresh settings, when
    /// another caller changed them meanwhile or a reply was lost: it should say what is to be set, not add to what is there.
    ///
    /// - [`Error::Invalid`] for an invalid name, for queues that would wait for each other (it names the round), for block windows that
    ///   leave no time at all, for a limit of nothing, and if what is set now cannot be read. Nothing was changed.
    /// - [`Error::Contested`] if other callers changed the same settings each time, or no reply came, twenty times: the change may or may
    ///   not be written.
    /// - [`Error::Store`] if the database does not answer at all. If it [is transient](crate::StoreError::is_transient), nothing was
    ///   written.
    ///
    /// A repeat is safe.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), turnwise::Error> {
    /// let turnwise = turnwise::Turnwise::open("memory:").await?;
    /// let weight = "2.5".parse()?;
    /// turnwise.set_queue("mail", |queue| queue.weight = weight).await?;
    /// # Ok(()) }
    /// ```
    pub async fn set_queue(
        &self,
        name: impl AsRef<str>,
        change: impl FnMut(&mut QueueSettings),
    ) -> Result<QueueSettings, Error> {
        self.change_queue(AuditVerb::Set, name, change).await
    }

    async fn change_queue(
        &self,
        verb: AuditVerb,
        name: impl AsRef<str>,
        mut change: impl FnMut(&mut QueueSettings),
    ) -> Result<QueueSettings, Error> {
        let name = QueueName::new(name)?;
        let mut settings = self.settings().await?;
        let queue = settings.queues.entry(name.clone()).or_default();
        change(queue);
        settings.check_order()?;
        self.set(verb, AuditTarget::Queue(name), change).await
    }

    /// As [`Turnwise::set_queue`], for a group; fails as it does.
    pub async fn set_group(
        &self,
        name: impl AsRef<str>,
        change: impl FnMut(&mut GroupSettings),
    ) -> Result<GroupSettings, Error> {
        self.change_group(AuditVerb::Set, name, change).await
    }

    async fn change_group(
        &self,
        verb: AuditVerb,
        name: impl AsRef<str>,
        change: impl FnMut(&mut GroupSettings),
    ) -> Result<GroupSettings, Error> {
        self.set(verb, AuditTarget::Group(GroupName::new(name)?), change).await
    }

    /// As [`Turnwise::set_queue`], for a task; fails as it does.
    pub async fn set_task(
        &self,
        name: impl AsRef<str>,
        change: impl FnMut(&mut LimitSettings),
    ) -> Result<LimitSettings, Error> {
        self.set(AuditVerb::Set, AuditTarget::Task(TaskName::new(name)?), change).await
    }

    /// As [`Turnwise::set_queue`], for a key that jobs share; fails as it does.
    pub async fn set_key(
        &self,
        name: impl AsRef<str>,
        change: impl FnMut(&mut LimitSettings),
    ) -> Result<LimitSettings, Error> {
        self.set(AuditVerb::Set, AuditTarget::Key(KeyName::new(name)?), change).await
    }

    /// As [`Turnwise::set_queue`], for the whole installation: the counting scheme, how long finished jobs are kept, and how many
    /// lines of a log. The dispatcher applies it at once, every other node from its next beat on, which is less than
    /// two seconds away unless its lease is longer than usual.
    ///
    /// If it fails after the settings were written, this handle uses them from its next decision on.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), turnwise::Error> {
    /// let turnwise = turnwise::Turnwise::open("memory:").await?;
    /// let retention = "success=1d,failed=30d".parse()?;
    /// turnwise.set_installation(|installation| installation.retention = Some(retention)).await?;
    /// # Ok(()) }
    /// ```
    pub async fn set_installation(
        &self,
        change: impl FnMut(&mut InstallationSettings),
    ) -> Result<InstallationSettings, Error> {
        let set = self.set(AuditVerb::Set, AuditTarget::Installation, change).await?;
        self.hear_of_installation().await?;
        Ok(set)
    }

    /// This handle now uses the installation's settings.
    pub(crate) async fn hear_of_installation(&self) -> Result<(), Error> {
        self.store().recall(vec![MemoKind::Installation]).await?;
        Ok(())
    }

    /// No more jobs of the queue are given to nodes; those in nodes' hands go on. A queue that is paused already keeps its
    /// moment, and its reason unless there is a new one.
    ///
    /// Fails as [`Turnwise::set_queue`] does, and with [`Error::Invalid`] for a reason with control characters. A repeat is safe.
    pub async fn pause_queue(&self, name: impl AsRef<str>, reason: Option<String>) -> Result<QueueSettings, Error> {
        let pause = self.pause(reason).await?;
        self.change_queue(AuditVerb::Pause, name, |queue| put_pause(&mut queue.paused, &pause)).await
    }

    /// Ends the pause of a queue, a person's or that of [`OnError::Pause`]; one that is not paused stays as it is. Fails as
    /// [`Turnwise::set_queue`] does; a repeat ends a pause that began meanwhile, too.
    pub async fn resume_queue(&self, name: impl AsRef<str>) -> Result<QueueSettings, Error> {
        self.change_queue(AuditVerb::Resume, name, |queue| queue.paused = None).await
    }

    /// Declares that no more jobs will be submitted: once the queue is empty it is finished, and queues that wait for it go on.
    /// Transactions that are open now may still bring jobs, and are waited for. A queue that is sealed already keeps its moment.
    ///
    /// Fails as [`Turnwise::set_queue`] does; a repeat is safe.
    pub async fn seal_queue(&self, name: impl AsRef<str>) -> Result<QueueSettings, Error> {
        let now = self.now().await?;
        self.change_queue(AuditVerb::Seal, name, |queue| _ = queue.sealed.get_or_insert(now)).await
    }

    /// Reopens a sealed queue; one that is not sealed stays as it is. Fails as [`Turnwise::set_queue`] does; a repeat is safe.
    pub async fn unseal_queue(&self, name: impl AsRef<str>) -> Result<QueueSettings, Error> {
        self.change_queue(AuditVerb::Unseal, name, |queue| (queue.sealed, queue.quiet) = (None, None)).await
    }

    /// As [`Turnwise::pause_queue`], for the jobs of a group in all queues. Fails as it does.
    pub async fn pause_group(&self, name: impl AsRef<str>, reason: Option<String>) -> Result<GroupSettings, Error> {
        let pause = self.pause(reason).await?;
        self.change_group(AuditVerb::Pause, name, |group| put_pause(&mut group.paused, &pause)).await
    }

    /// Ends the pause of a group; one that is not paused stays as it is. Fails as [`Turnwise::resume_queue`] does.
    pub async fn resume_group(&self, name: impl AsRef<str>) -> Result<GroupSettings, Error> {
        self.change_group(AuditVerb::Resume, name, |group| group.paused = None).await
    }

    /// Takes away what is set for the queue, a pause and a seal too; `false`: nothing was set. Settings that this program cannot read
    /// are taken away as well.
    ///
    /// Fails as [`Turnwise::set_queue`] does. A repeat is safe, but returns `false` if the first call took them away.
    pub async fn reset_queue(&self, name: impl AsRef<str>) -> Result<bool, Error> {
        self.reset(AuditTarget::Queue(QueueName::new(name)?)).await
    }

    /// As [`Turnwise::reset_queue`], for a group; fails as it does.
    pub async fn reset_group(&self, name: impl AsRef<str>) -> Result<bool, Error> {
        self.reset(AuditTarget::Group(GroupName::new(name)?)).await
    }

    /// As [`Turnwise::reset_queue`], for a task; fails as it does.
    pub async fn reset_task(&self, name: impl AsRef<str>) -> Result<bool, Error> {
        self.reset(AuditTarget::Task(TaskName::new(name)?)).await
    }

    /// As [`Turnwise::reset_queue`], for a key that jobs share; fails as it does.
    pub async fn reset_key(&self, name: impl AsRef<str>) -> Result<bool, Error> {
        self.reset(AuditTarget::Key(KeyName::new(name)?)).await
    }

    /// One that cannot be read, a newer program's say, is taken away too.
    async fn reset(&self, target: AuditTarget) -> Result<bool, Error> {
        let mut was_set = false;
        self.change_memo(AuditVerb::Reset, target, |there: Option<serde_json::Result<serde_json::Value>>| {
            // Asked again after a lost reply, the first call may have taken it away.
            was_set |= there.is_some();
            Ok(None)
        })
        .await?;
        Ok(was_set)
    }

    async fn pause(&self, reason: Option<String>) -> Result<Pause, Error> {
        if reason.as_deref().is_some_and(|reason| reason.chars().any(char::is_control)) {
            return Err(Invalid::new("reason", "must not contain control characters").into());
        }
        Ok(Pause { since: self.now().await?, reason })
    }

    async fn set<S: Serialize + DeserializeOwned + Default + Checked>(
        &self,
        verb: AuditVerb,
        target: AuditTarget,
        mut change: impl FnMut(&mut S),
    ) -> Result<S, Error> {
        let (_, word, name) = place(&target);
        let (word, name) = (word, name.to_owned());
        let changed = self.change_memo(verb, target, |there| {
            // To write over what a newer program has written would undo what it means.
            let unread = |error| Invalid::new(word, format!("the settings of {name:?} cannot be read: {error}"));
            let mut settings = there.transpose().map_err(unread)?.unwrap_or_default();
            change(&mut settings);
            settings.check()?;
            Ok(Some(settings))
        });
        changed.await?.ok_or_else(|| Error::Contested(format!("{word} {name}")))
    }

    /// Writes what `change` makes of the memo of this target that is there (`None`: take it away), anew if another program wrote meanwhile or the
    /// reply was lost. `Some(Err)`: it cannot be read.
    pub(crate) async fn change_memo<T: Serialize + DeserializeOwned>(
        &self,
        verb: AuditVerb,
        target: AuditTarget,
        mut change: impl FnMut(Option<serde_json::Result<T>>) -> Result<Option<T>, Invalid>,
    ) -> Result<Option<T>, Error> {
        let (kind, word, name) = place(&target);
        let store = self.store();
        let mut attempt = async || {
            let mut draft = Draft::read(&*store, [kind]).await?;
            let value = change(draft.get(kind, name))?;
            draft.set(kind, name, value.as_ref())?;
            draft.audit(|before, after| NewAuditLine::of_setting(self.by()?, verb, target.clone(), before, after));
            if kind == MemoKind::Schedule && value.is_none() {
                draft.remove(MemoKind::Fired, name);
            }
            Ok(draft.write(&*store, None).await?.then_some(value))
        };
        for _ in 0..CHANGE_AGAIN {
            match attempt().await {
                Ok(Some(value)) => return Ok(value),
                Ok(None) => {}
                Err(Error::Store(error)) if error.is_transient() => {}
                Err(error) => return Err(error),
            }
            tokio::time::sleep(CHANGE_WAIT).await;
        }
        Err(Error::Contested(format!("{word} {name}")))
    }
}

/// Where it is kept, what it is called, and its name.
fn place(target: &AuditTarget) -> (MemoKind, &'static str, &str) {
    match target {
        AuditTarget::Queue(name) => (MemoKind::Queue, "queue", name.as_str()),
        AuditTarget::Group(name) => (MemoKind::Group, "group", name.as_str()),
        AuditTarget::Task(name) => (MemoKind::Task, "task", name.as_str()),
        AuditTarget::Key(name) => (MemoKind::Key, "key", name.as_str()),
        AuditTarget::Schedule(name) => (MemoKind::Schedule, "schedule", name.as_str()),
        _ => (MemoKind::Installation, "installation", ""),
    }
}

fn put_pause(paused: &mut Option<Pause>, pause: &Pause) {
    let put = paused.get_or_insert_with(|| pause.clone());
    if pause.reason.is_some() {
        put.reason.clone_from(&pause.reason);
    }
}
