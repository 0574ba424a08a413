//! Queues that pause on errors: seeing the errors, writing the pauses, and leaving to the next dispatcher what this one may
//! not have written.
//!
//! An error is written by the node that had it, the pause by the dispatcher that reads of it; between the two a dispatcher
//! may die. So each writes down how far it has seen ([`MemoKind::Seen`]): all pauses for earlier errors are written. The next
//! dispatcher looks once at what came after.

use turnwise_core::{
    JobId, QueueName,
    scheduler::Settled,
    settings::{OnError, Pause, QueueSettings},
};
use turnwise_store::{AskNews, Change, Cursor, Memo, MemoKind, NewMemo, StoreError, memo::seen_memo};

use super::Dispatcher;
use crate::logs::Kind;

/// How far has been seen.
#[derive(Debug, Default)]
pub(super) struct ErrorsSeen {
    /// What the memo says.
    written: Option<String>,
    /// What it may say once all ends that this process had begun to write by then are reported to the dispatcher.
    next: Option<(Cursor, u64)>,
    /// Ends since then.
    ends: bool,
}

impl Dispatcher<'_> {
    /// What ended in this process: errors are noted before the scheduler gets the ends.
    pub(super) fn see_ends(&mut self, ends: &[Settled]) {
        self.seen.ends = true;
        self.stale_reads.see_ends(ends);
        self.note_early_failures(ends.iter().filter(|end| end.is_error()).map(|end| end.id));
    }

    /// The same for what ended elsewhere.
    pub(super) fn see_changes(&mut self, changes: &[Change]) {
        self.seen.ends |= !changes.is_empty();
        self.note_early_failures(changes.iter().filter(|change| change.failed).map(|change| change.id));
    }

    /// Jobs that failed. While the backlog is being read the scheduler may not know them.
    fn note_early_failures(&mut self, jobs: impl Iterator<Item = JobId>) {
        if !self.hearing.is_caught_up() && self.may_pause() {
            self.open.early_failures.extend(jobs);
        }
    }

    /// Whether there is a queue that an error would pause.
    fn may_pause(&self) -> bool {
        self.memos.settings().queues.iter().any(|(name, set)| self.would_pause(name, set))
    }

    fn would_pause(&self, name: &QueueName, set: &QueueSettings) -> bool {
        set.on_error == OnError::Pause
            && set.paused.is_none()
            && !self.open.pauses.iter().any(|(paused, _)| paused == name)
    }

    /// At the beginning of a term: what the last dispatcher may have left undone.
    pub(super) async fn look_back(&mut self, memos: &[Memo]) -> Result<(), StoreError> {
        let Some(memo) = memos.iter().find(|memo| memo.kind == MemoKind::Seen) else { return Ok(()) };
        self.seen.written = Some(memo.value.clone());
        if !self.may_pause() {
            return Ok(());
        }
        let ask = AskNews { cursor: Some(Cursor(memo.value.clone())), epoch: self.epoch, asleep: false, new_jobs: 0 };
        match self.life.store.news(ask).await {
            Ok(news) => self.see_changes(&news.changes),
            Err(error) if error.is_transient() => return Err(error),
            // The program that wrote it has another form of cursors.
            Err(error) => tracing::warn!(%error, "cannot read how far the last dispatcher has seen"),
        }
        Ok(())
    }

    async fn see_early_failures(&mut self) -> Result<(), StoreError> {
        while let Some(&id) = self.open.early_failures.last() {
            if !self.may_pause() {
                self.open.early_failures.clear();
                return Ok(());
            }
            let job = match self.life.store.job(id).await {
                Ok(job) => job,
                Err(error) if error.is_transient() => return Ok(()),
                Err(error) => return Err(error),
            };
            self.open.early_failures.pop();
            let Some(job) = job else { continue };
            if self.memos.settings().queues.get(&job.queue).is_some_and(|set| self.would_pause(&job.queue, set)) {
                self.open.pauses.push((job.queue, id));
            }
        }
        Ok(())
    }

    /// A queue that is set to pause on an error has had one: that is a setting from now on, for a person to undo. What a
    /// person has set meanwhile stays: the setting is read again, and written only if no other program wrote in between.
    pub(super) async fn write_pauses(&mut self) -> Result<(), StoreError> {
        self.see_early_failures().await?;
        if self.open.pauses.is_empty() {
            return Ok(());
        }
        let now = self.life.node.clock.now();
        let changes = self.open.pauses.iter().map(|(queue, job)| {
            let pause = Pause { since: now, reason: Some(format!("job {job} failed")) };
            (queue.clone(), move |set: &mut QueueSettings| {
                let changed = set.paused.is_none();
                set.paused.get_or_insert(pause);
                changed
            })
        });
        // Not forgotten: the scheduler holds the queue, and the next round tries again.
        let Some(settings) = self.change_queues(changes.collect()).await? else { return Ok(()) };
        for (queue, job) in self.open.pauses.drain(..) {
            // A person may have paused it before.
            let by_this = settings.queues.get(&queue).and_then(|set| set.paused.as_ref());
            if by_this.is_some_and(|pause| pause.since == now) && self.life.node.logs.may(Kind::QueuePaused) {
                tracing::warn!(%queue, %job, "a queue paused itself: a job of it failed; resume it with `turnwise queue resume {queue}`");
            }
        }
        self.see_settings(settings).await
    }

    /// The memo that says how far has been seen, if it is to be written.
    pub(super) fn seen_memo(&mut self) -> Option<NewMemo> {
        if !self.memos.settings().queues.values().any(|set| set.on_error == OnError::Pause) {
            self.seen.next = None;
            return self.seen.written.as_ref().map(|_| seen_memo(None));
        }
        // The write of every end that is visible at this cursor has begun before this call.
        let now = || self.hearing.cursor().cloned().map(|cursor| (cursor, self.life.term.writes_begun()));
        let (cursor, begun) = self.seen.next.take().or_else(now)?;
        // In this order: what is reported after this read is of a later settle.
        let reported = self.life.term.writes_reported();
        if begun > reported
            || self.life.term.has_reports()
            || !self.open.pauses.is_empty()
            || !self.open.early_failures.is_empty()
        {
            self.seen.next = Some((cursor, begun));
            return None;
        }
        // Where nothing ends, there is nothing to be seen.
        self.seen.next = if std::mem::take(&mut self.seen.ends) { now() } else { Some((cursor.clone(), begun)) };
        (self.seen.written.as_ref() != Some(&cursor.0)).then(|| seen_memo(Some(cursor.0)))
    }

    /// It is written.
    pub(super) fn seen_written(&mut self, value: Option<String>) {
        self.seen.written = value;
    }

    /// How far the next dispatcher need not look.
    pub(super) fn seen_to(&self) -> Option<Cursor> {
        if self.memos.settings().queues.values().any(|set| set.on_error == OnError::Pause) {
            self.seen.written.clone().map(Cursor)
        } else {
            self.hearing.cursor().cloned()
        }
    }
}
