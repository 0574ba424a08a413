//! The audit log.

use turnwise_core::{
    Timestamp,
    audit::{AuditId, KEEP_AUDIT, NewAuditLine},
};

use super::{Data, MemoryStore, prune};
use crate::{
    operators::{AskAudit, AuditPage},
    store::Result,
};

pub(super) fn audit(store: &MemoryStore, ask: &AskAudit) -> Result<AuditPage> {
    let data = store.data();
    let (below, since) = (ask.below(), ask.since());
    let lines = data.audit.range(..below).rev().map(|(_, line)| line).take_while(|line| line.at >= since);
    let lines = lines.filter(|line| {
        let filter = &ask.filter;
        filter.actor.as_ref().is_none_or(|actor| line.actor.id() == actor)
            && filter.target.as_ref().is_none_or(|target| line.target == target.to_string())
    });
    Ok(AuditPage::of(lines.take(ask.limit() as usize + 1).cloned().collect(), ask.limit()))
}

pub(super) fn prune_audited(store: &MemoryStore, limit: u32, line: NewAuditLine) -> Result<u64> {
    let now = store.clock.now();
    let retention = store.kept.now().retention;
    let mut data = store.data();
    let deleted = prune::prune_on(&mut data, retention, None, limit, now)?;
    if deleted > 0 {
        data.write_line(Some(&line.keeping(retention)), now);
    }
    Ok(deleted)
}

impl Data {
    /// Writes a line, unless it is there already.
    pub(super) fn write_line(&mut self, line: Option<&NewAuditLine>, now: Timestamp) {
        if let Some(line) = line
            && self.audited.insert(line.id)
        {
            self.audit.insert((now, line.id), line.clone().written(now));
        }
    }

    /// Deletes lines that are old, the oldest first; how many.
    pub(super) fn prune_audit(&mut self, limit: usize, now: Timestamp) -> usize {
        let edge = (now.minus(KEEP_AUDIT), AuditId(uuid::Uuid::nil()));
        let old: Vec<_> = self.audit.range(..edge).take(limit).map(|(key, _)| *key).collect();
        for key in &old {
            self.audit.remove(key);
            self.audited.remove(&key.1);
        }
        old.len()
    }
}
