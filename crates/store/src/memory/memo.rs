//! Memos.

use turnwise_core::Incarnation;

use super::{ChangeRow, MemoryStore};
use crate::store::{Epoch, Memo, MemoKind, NewMemo, Result};

pub(super) fn recall(store: &MemoryStore, kinds: Vec<MemoKind>) -> Result<Vec<Memo>> {
    let data = store.data();
    let wanted = data.memos.iter().filter(|((kind, _), _)| kinds.contains(kind));
    let memos: Vec<_> = wanted
        .map(|((kind, name), (value, version))| Memo {
            kind: *kind,
            name: name.clone(),
            value: value.clone(),
            version: *version,
        })
        .collect();
    store.kept.hear(&kinds, &memos);
    Ok(memos)
}

pub(super) fn remember(
    store: &MemoryStore,
    lead: Option<(Incarnation, Epoch)>,
    memos: Vec<NewMemo>,
) -> Result<Vec<bool>> {
    NewMemo::check_named_once(&memos)?;
    let now = store.clock.now();
    let mut data = store.data();
    if let Some((holder, epoch)) = lead {
        data.check_leading(holder, epoch)?;
    }
    let mut replies = Vec::with_capacity(memos.len());
    let mut changed = false;
    for NewMemo { kind, name, value, seen, line } in memos {
        let memo = (kind, name);
        let version = data.memos.get(&memo).map_or(0, |(_, version)| *version);
        let as_seen = seen.is_none_or(|seen| seen == version);
        replies.push(as_seen);
        if as_seen {
            data.write_line(line.as_deref(), now);
            changed |= match value {
                Some(value) => {
                    data.memos.insert(memo, (value, version + 1));
                    true
                }
                None => data.memos.remove(&memo).is_some(),
            };
        }
    }
    let news = changed && lead.is_none();
    if news {
        data.write_change(ChangeRow { told: None, jobs: Vec::new(), memos: true });
    }
    drop(data);
    if news {
        store.bell.ring_news();
    }
    Ok(replies)
}
