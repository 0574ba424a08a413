//! Which charges have changed since they were last written down.

use std::{collections::BTreeMap, ops::Bound};

use turnwise_core::{scheduler::Remembered, turn::Charge};
use turnwise_store::{
    NewMemo,
    memo::{charge_memo, charge_name},
};

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
            .map(|(name, charge)| charge_memo(name.clone(), Some(*charge)))
            .collect();
        for memo in &memos {
            self.written.insert(memo.name.clone(), named[&memo.name]);
            self.after.clone_from(&memo.name);
        }
        for name in gone {
            self.written.remove(&name);
            memos.push(charge_memo(name, None));
        }
        memos
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Duration};

    use turnwise_core::{GroupName, QueueName};

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
