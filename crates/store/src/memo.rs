//! Memos with their types: what people have set and what the dispatcher stores for the next one, as text in the store.

use std::collections::BTreeMap;

use serde::{Serialize, de::DeserializeOwned};
use turnwise_core::{
    GroupName, Incarnation, JobId, KeyName, NodeName, QueueName, ScheduleName, TaskName, Timestamp,
    audit::NewAuditLine,
    doctor::Led,
    periodic::Periodic,
    scheduler::Remembered,
    settings::{GroupSettings, LimitSettings, QueueSettings, Settings},
    turn::Charge,
};

use crate::{Epoch, Memo, MemoKind, NewMemo, Result, Store, StoreError};

/// The kinds that hold settings.
pub const SETTINGS: [MemoKind; 5] =
    [MemoKind::Installation, MemoKind::Queue, MemoKind::Group, MemoKind::Task, MemoKind::Key];

/// All that is set.
pub async fn read_settings(store: &dyn Store) -> Result<Settings> {
    Ok(settings(&store.recall(SETTINGS.to_vec()).await?))
}

/// Settings among these memos. One that cannot be read counts as not set and is logged: a newer program may have written it.
pub fn settings(memos: &[Memo]) -> Settings {
    let mut settings = Settings::default();
    for memo in memos {
        let name = &memo.name;
        let read = match memo.kind {
            MemoKind::Queue => put(&mut settings.queues, QueueName::new(name), value::<QueueSettings>(memo)),
            MemoKind::Group => put(&mut settings.groups, GroupName::new(name), value::<GroupSettings>(memo)),
            MemoKind::Task => put(&mut settings.tasks, TaskName::new(name), value::<LimitSettings>(memo)),
            MemoKind::Key => put(&mut settings.keys, KeyName::new(name), value::<LimitSettings>(memo)),
            MemoKind::Installation => value(memo).map(|read| settings.installation = read),
            MemoKind::Charge | MemoKind::Full | MemoKind::Seen | MemoKind::Schedule | MemoKind::Fired => continue,
            MemoKind::Decided | MemoKind::Led | MemoKind::Drained => continue,
        };
        if read.is_none() {
            tracing::warn!(kind = ?memo.kind, name, value = memo.value, "a setting cannot be read and is left out");
        }
    }
    settings
}

fn value<T: DeserializeOwned>(memo: &Memo) -> Option<T> {
    serde_json::from_str(&memo.value).ok()
}

fn put<N: Ord, S, E>(map: &mut BTreeMap<N, S>, name: std::result::Result<N, E>, settings: Option<S>) -> Option<()> {
    map.insert(name.ok()?, settings?);
    Some(())
}

/// Schedules among these memos, each with what is wrong with it if it cannot be read.
pub fn schedules(
    memos: &[Memo],
) -> impl Iterator<Item = (&Memo, std::result::Result<(ScheduleName, Periodic), String>)> {
    let read = |memo: &Memo| {
        let name = ScheduleName::new(&memo.name).map_err(|error| error.to_string())?;
        Ok((name, serde_json::from_str(&memo.value).map_err(|error| error.to_string())?))
    };
    memos.iter().filter(|memo| memo.kind == MemoKind::Schedule).map(move |memo| (memo, read(memo)))
}

/// Which of a schedule's times are over, and the job of the last one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fired {
    pub over: Option<Timestamp>,
    pub job: Option<JobId>,
}

impl Fired {
    pub fn read(text: &str) -> Option<Self> {
        let (over, job) = text.split_once(' ')?;
        let over = Some(Timestamp::from_micros(over.parse().ok()?));
        Some(Self { over, job: job.parse().ok() })
    }

    pub fn memo(&self, schedule: &ScheduleName) -> NewMemo {
        let job = self.job.map_or_else(|| "-".to_owned(), |job| job.to_string());
        let value = self.over.map(|over| format!("{} {job}", over.micros()));
        NewMemo { kind: MemoKind::Fired, name: schedule.to_string(), value, seen: None, line: None }
    }
}

/// Charges among these memos.
pub fn charges(memos: &[Memo]) -> Vec<Remembered> {
    let charge = |memo: &Memo| {
        let (queue, group): (String, String) = serde_json::from_str(&memo.name).ok()?;
        // The count came later: a charge without one was written by an older program.
        let (ahead, count) = memo.value.split_once(' ').unwrap_or((&memo.value, "0"));
        let (ahead, count) = (Charge::from_text(ahead)?, count.parse().ok()?);
        Some(Remembered { queue: QueueName::new(queue).ok()?, group: GroupName::new(group).ok()?, ahead, count })
    };
    memos.iter().filter(|memo| memo.kind == MemoKind::Charge).filter_map(charge).collect()
}

/// The name of a charge's memo.
pub fn charge_name(queue: &QueueName, group: &GroupName) -> String {
    serde_json::json!([queue.as_str(), group.as_str()]).to_string()
}

/// `None`: the charge is forgotten.
pub fn charge_memo(name: String, charge: Option<(Charge, u32)>) -> NewMemo {
    let value = charge.map(|(ahead, count)| format!("{ahead} {count}"));
    NewMemo { kind: MemoKind::Charge, name, value, seen: None, line: None }
}

/// Which nodes have dispatched of late, the last one last. What cannot be read is forgotten: it is for people.
pub fn led(memos: &[Memo]) -> Vec<Led> {
    memos.iter().find(|memo| memo.kind == MemoKind::Led).and_then(value).unwrap_or_default()
}

/// That this node begins to dispatch; `None`: that is known.
pub fn led_memo(memos: &[Memo], node: &NodeName, at: Timestamp) -> Option<NewMemo> {
    let value = serde_json::to_string(&Led::next(led(memos), node, at)?).ok();
    Some(NewMemo { kind: MemoKind::Led, name: String::new(), value, seen: None, line: None })
}

/// Whether a group takes no more jobs; if so, how many wait and what the limit is.
pub fn full_memo(group: &GroupName, full: Option<(u32, u32)>) -> NewMemo {
    let sentence = |(waiting, limit)| {
        let jobs = if waiting == 1 { "job" } else { "jobs" };
        format!("group: {:?} has {waiting} waiting {jobs}; its limit is {limit}", group.as_str())
    };
    NewMemo { kind: MemoKind::Full, name: group.to_string(), value: full.map(sentence), seen: None, line: None }
}

/// How far the dispatcher has seen; `None`: the memo is not needed any more.
pub fn seen_memo(cursor: Option<String>) -> NewMemo {
    NewMemo { kind: MemoKind::Seen, name: String::new(), value: cursor, seen: None, line: None }
}

/// A change of memos: read, changed, and written if no other process has written them meanwhile.
#[derive(Debug)]
pub struct Draft {
    read: Vec<Memo>,
    writes: Vec<NewMemo>,
}

impl Draft {
    pub async fn read(store: &dyn Store, kinds: impl Into<Vec<MemoKind>>) -> Result<Self> {
        Ok(Self { read: store.recall(kinds.into()).await?, writes: Vec::new() })
    }

    /// As they were read.
    pub fn memos(&self) -> &[Memo] {
        &self.read
    }

    fn find(&self, kind: MemoKind, name: &str) -> Option<&Memo> {
        self.read.iter().find(|memo| memo.kind == kind && memo.name == name)
    }

    /// `None`: it is not there. An error: it cannot be read, for example because a newer program has written it.
    pub fn get<T: DeserializeOwned>(&self, kind: MemoKind, name: &str) -> Option<serde_json::Result<T>> {
        self.find(kind, name).map(|memo| serde_json::from_str(&memo.value))
    }

    /// `None`: delete it.
    pub fn set<T: Serialize>(&mut self, kind: MemoKind, name: &str, value: Option<&T>) -> Result<()> {
        let value = value.map(serde_json::to_string).transpose();
        let value = value.map_err(|error| StoreError::broken("write a memo", error))?;
        let seen = Some(self.find(kind, name).map_or(0, |memo| memo.version));
        self.writes.push(NewMemo { kind, name: name.to_owned(), value, seen, line: None });
        Ok(())
    }

    /// Has a line written to the audit log with the memo that was set last. `line` gets its value before and after.
    pub fn audit(&mut self, line: impl FnOnce(Option<&str>, Option<&str>) -> Option<NewAuditLine>) {
        let Some(mut last) = self.writes.pop() else { return };
        let before = self.find(last.kind, &last.name).map(|memo| memo.value.as_str());
        last.line = line(before, last.value.as_deref()).map(Box::new);
        self.writes.push(last);
    }

    /// Deletes a memo, also if another process has written it since.
    pub fn remove(&mut self, kind: MemoKind, name: &str) {
        self.writes.push(NewMemo { kind, name: name.to_owned(), value: None, seen: None, line: None });
    }

    /// Returns whether all of it is written. If not, another process was first: read and change the memos again.
    pub async fn write(self, store: &dyn Store, lead: Option<(Incarnation, Epoch)>) -> Result<bool> {
        if self.writes.is_empty() {
            return Ok(true);
        }
        Ok(store.remember(lead, self.writes).await?.iter().all(|written| *written))
    }
}
