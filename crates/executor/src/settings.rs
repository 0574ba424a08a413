//! Settings and charges as the store keeps them: one memo each, JSON inside.

use std::{collections::BTreeMap, ops::Bound};

use turnwise_core::{
    GroupName, Incarnation, KeyName, QueueName, TaskName,
    scheduler::Remembered,
    settings::{GroupSettings, LimitSettings, QueueSettings, Settings},
    turn::Charge,
};
use turnwise_store::{Epoch, Memo, MemoKind, NewMemo, Store, StoreError};

/// The kinds that hold settings.
pub const SETTINGS: [MemoKind; 4] = [MemoKind::Queue, MemoKind::Group, MemoKind::Task, MemoKind::Key];

/// All that is set.
pub async fn read(store: &dyn Store) -> Result<Settings, StoreError> {
    Ok(parse(&store.recall(SETTINGS.to_vec()).await?))
}

/// Reads memos as settings. One that cannot be read counts as not set, loudly: a newer program may have written it.
pub fn parse(memos: &[Memo]) -> Settings {
    let mut settings = Settings::default();
    for memo in memos {
        let name = &memo.name;
        let read = match memo.kind {
            MemoKind::Queue => put(&mut settings.queues, QueueName::new(name), value::<QueueSettings>(memo)),
            MemoKind::Group => put(&mut settings.groups, GroupName::new(name), value::<GroupSettings>(memo)),
            MemoKind::Task => put(&mut settings.tasks, TaskName::new(name), value::<LimitSettings>(memo)),
            MemoKind::Key => put(&mut settings.keys, KeyName::new(name), value::<LimitSettings>(memo)),
            MemoKind::Installation
            | MemoKind::Charge
            | MemoKind::Full
            | MemoKind::Seen
            | MemoKind::Schedule
            | MemoKind::Fired => continue,
        };
        if read.is_none() {
            tracing::warn!(kind = ?memo.kind, name, value = memo.value, "a setting cannot be read and is left out");
        }
    }
    settings
}

/// Changes what is set for queues, as the one who leads. A wish says whether there is something to write. `None`: somebody
/// else wrote meanwhile, or the store did not answer; nothing is lost by wishing again.
pub(crate) async fn amend<W: FnOnce(&mut QueueSettings) -> bool>(
    store: &dyn Store,
    lead: (Incarnation, Epoch),
    wishes: impl IntoIterator<Item = (QueueName, W)>,
) -> Result<Option<Settings>, StoreError> {
    let memos = match store.recall(SETTINGS.to_vec()).await {
        Ok(memos) => memos,
        Err(error) if error.is_transient() => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut settings = parse(&memos);
    let mut writes = Vec::new();
    for (queue, wish) in wishes {
        let set = settings.queues.entry(queue.clone()).or_default();
        if !wish(set) {
            continue;
        }
        let value = serde_json::to_string(set).map_err(|error| StoreError::broken("write a setting", error))?;
        let known = memos.iter().find(|memo| memo.kind == MemoKind::Queue && memo.name == queue.as_str());
        let seen = Some(known.map_or(0, |memo| memo.version));
        writes.push(NewMemo { kind: MemoKind::Queue, name: queue.to_string(), value: Some(value), seen });
    }
    let written = if writes.is_empty() {
        true
    } else {
        match store.remember(Some(lead), writes).await {
            Ok(written) => written.iter().all(|written| *written),
            Err(error) if error.is_transient() => false,
            Err(error) => return Err(error),
        }
    };
    Ok(written.then_some(settings))
}

fn value<T: serde::de::DeserializeOwned>(memo: &Memo) -> Option<T> {
    serde_json::from_str(&memo.value).ok()
}

fn put<N: Ord, S, E>(map: &mut BTreeMap<N, S>, name: Result<N, E>, settings: Option<S>) -> Option<()> {
    map.insert(name.ok()?, settings?);
    Some(())
}

/// Charges as they were remembered.
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

/// Charges as they are written in the store.
#[derive(Debug, Default)]
pub(crate) struct WrittenCharges {
    written: BTreeMap<String, (Charge, u32)>,
    /// Where the next round begins: with more changes than fit, every name has its turn.
    after: String,
}

impl WrittenCharges {
    pub(crate) fn new(charges: &[Remembered]) -> Self {
        let named = |charge: &Remembered| (charge_name(&charge.queue, &charge.group), (charge.ahead, charge.count));
        Self { written: charges.iter().map(named).collect(), after: String::new() }
    }

    /// What has changed since charges were last written, at most `limit` of it; notes it as written.
    pub(crate) fn changed(&mut self, now: Vec<Remembered>, limit: usize) -> Vec<NewMemo> {
        let named: BTreeMap<String, (Charge, u32)> = now
            .into_iter()
            .map(|Remembered { queue, group, ahead, count }| (charge_name(&queue, &group), (ahead, count)))
            .collect();
        let gone = self.written.keys().filter(|name| !named.contains_key(*name));
        let gone: Vec<String> = gone.take(limit).cloned().collect();
        let from_here = named.range::<str, _>((Bound::Excluded(&*self.after), Bound::Unbounded));
        let then = named.range::<str, _>((Bound::Unbounded, Bound::Included(&*self.after)));
        let changed = from_here.chain(then).filter(|(name, charge)| self.written.get(*name) != Some(*charge));
        let mut memos: Vec<NewMemo> = changed
            .take(limit.saturating_sub(gone.len()))
            .map(|(name, (ahead, count))| NewMemo {
                kind: MemoKind::Charge,
                name: name.clone(),
                value: Some(format!("{ahead} {count}")),
                seen: None,
            })
            .collect();
        for memo in &memos {
            self.written.insert(memo.name.clone(), named[&memo.name]);
            self.after.clone_from(&memo.name);
        }
        for name in gone {
            self.written.remove(&name);
            memos.push(NewMemo { kind: MemoKind::Charge, name, value: None, seen: None });
        }
        memos
    }
}

fn charge_name(queue: &QueueName, group: &GroupName) -> String {
    serde_json::json!([queue.as_str(), group.as_str()]).to_string()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Duration};

    use super::*;

    #[test]
    fn with_more_changes_than_fit_every_charge_has_its_turn() {
        let charge = |group: &str, millis| Remembered {
            queue: QueueName::new("q").unwrap(),
            group: GroupName::new(group).unwrap(),
            ahead: Charge::of(Duration::from_millis(millis), Default::default()),
            count: 0,
        };
        let mut written = WrittenCharges::default();
        let mut seen = BTreeSet::new();
        for round in 1..=3 {
            // All of them change every time.
            let now = ["a", "b", "c"].map(|group| charge(group, round)).to_vec();
            seen.extend(written.changed(now, 1).into_iter().map(|memo| memo.name));
        }
        assert_eq!(seen.len(), 3, "{seen:?}");
        let now = vec![charge("a", 9)];
        let gone: Vec<_> = written.changed(now, 2).into_iter().map(|memo| memo.value.is_none()).collect();
        assert_eq!(gone, [true, true]);
    }
}
