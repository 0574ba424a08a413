//! Reading what is new: jobs that came, ends on other nodes, settings that were changed.

use std::{sync::atomic::Ordering, time::Duration};

use tokio::time::Instant;
use turnwise_core::{
    Fence, JobHead, JobState, pace,
    scheduler::{self, Input, Rest},
    settings::Settings,
};
use turnwise_store::{
    AskNews, Change, Cursor, MemoKind, News, StoreError,
    memo::{self, SETTINGS},
};

use super::{Dispatcher, ringing::Ringing, stale_reads::Mark};
use crate::seal::Seals;

/// New jobs in one look; if more came in one transaction, the backlog is read again.
const NEW_JOBS: u32 = 100_000;

#[derive(Debug)]
pub(super) struct Hearing {
    /// How far the last news have seen; `None` before the first.
    cursor: Option<Cursor>,
    /// News that came while batches were on their way, and are to be looked at.
    unseen: Option<(AskedAt, Result<News, StoreError>)>,
    /// Whether all news from now on are of what happened after the backlog was read.
    caught_up: bool,
    /// Submitters are asked to ring.
    asleep: bool,
    ringing: Ringing,
    /// Sealed queues that more may come to yet.
    seals: Seals,
    next_poll: Instant,
    last_look: Instant,
    /// Jobs that had been given out at the last look.
    given_before: u64,
}

/// The dispatcher's state when the news were asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct AskedAt {
    asleep: bool,
    /// All of the backlog had been read.
    all_is_read: bool,
    ends: Mark,
}

impl Hearing {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            cursor: None,
            unseen: None,
            caught_up: false,
            asleep: false,
            ringing: Ringing::default(),
            seals: Seals::default(),
            next_poll: now,
            last_look: now,
            given_before: 0,
        }
    }

    pub(super) fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    pub(super) fn is_caught_up(&self) -> bool {
        self.caught_up
    }

    pub(super) fn is_asleep(&self) -> bool {
        self.asleep
    }

    pub(super) fn has_unseen(&self) -> bool {
        self.unseen.is_some()
    }

    /// How far ends had been seen when the unseen news were asked for.
    pub(super) fn unseen_since(&self) -> Option<Mark> {
        self.unseen.as_ref().map(|(asked, _)| asked.ends)
    }

    /// They came while batches were on their way.
    pub(super) fn keep(&mut self, asked: AskedAt, news: Result<News, StoreError>) {
        self.unseen = Some((asked, news));
    }

    /// Whether enough has been given out since the last look to look again.
    pub(super) fn are_due(&self, given: u64, look_every: u32) -> bool {
        pace::should_look(given - self.given_before, look_every, self.last_look.elapsed())
    }

    fn is_polled(&self) -> bool {
        Instant::now() >= self.next_poll
    }

    /// When to look next, if nothing more is given out.
    pub(super) fn next_look(&self, given: u64) -> Instant {
        let soon = pace::look_after(given - self.given_before, self.last_look.elapsed());
        soon.map_or(self.next_poll, |soon| self.next_poll.min(Instant::now() + soon))
    }

    fn poll_in(&mut self, wait: Duration) {
        self.next_poll = Instant::now() + wait;
    }

    /// Notes what is sealed. What waits for a sealed queue need not wait for the next poll.
    pub(super) fn see_seals(&mut self, settings: &Settings) {
        if self.seals.see(settings) {
            self.next_poll = Instant::now();
        }
    }

    /// Whether these news need no attention: then the cursor has moved on.
    fn bring_nothing(&mut self, asked: &AskedAt, news: &News) -> bool {
        let nothing = news.jobs.is_empty() && news.changes.is_empty() && !news.memos && self.seals.are_quiet();
        if nothing && !asked.asleep {
            self.cursor = Some(news.cursor.clone());
            self.caught_up = asked.all_is_read;
        }
        nothing && !asked.asleep
    }
}

impl<'a> Dispatcher<'a> {
    /// The first look: from here on. What comes while the backlog is read is seen twice, never missed.
    pub(super) async fn begin_to_hear(&mut self) -> Result<(), StoreError> {
        let news = self.news(None).await?;
        self.life.node.clock.heard(news.now);
        self.hearing.cursor = Some(news.cursor);
        Ok(())
    }

    fn news(&self, cursor: Option<Cursor>) -> impl Future<Output = Result<News, StoreError>> + Send + use<'a> {
        let new_jobs = NEW_JOBS.min(self.life.node.page);
        let ask = AskNews { cursor, epoch: self.epoch, asleep: self.hearing.asleep, new_jobs };
        let store = &self.life.store;
        async move { store.news(ask).await }
    }

    pub(super) fn news_are_due(&self) -> bool {
        self.hearing.are_due(self.rounds.given(), self.life.node.config.look_every)
    }

    /// Takes in the news that came meanwhile; or looks, if it is time or a bell has `rung`.
    pub(super) async fn hear_or_look(&mut self, rung: &mut bool) -> Result<(), StoreError> {
        if let Some((asked, news)) = self.hearing.unseen.take() {
            self.hear_news(asked, news).await?;
        } else if *rung || self.hearing.is_polled() || self.news_are_due() {
            *rung = false;
            let asleep = self.hearing.asleep && pace::stays_asleep(self.rounds.busy());
            self.see_news(asleep).await?;
        }
        Ok(())
    }

    /// Asks submitters to ring, and looks once more: a submitter in between was not asked to.
    pub(super) async fn fall_asleep(&mut self) -> Result<(), StoreError> {
        self.see_news(true).await.map(drop)
    }

    /// Whether the store answered.
    pub(super) async fn see_news(&mut self, asleep: bool) -> Result<bool, StoreError> {
        let (asked, news) = self.ask_for_news(asleep);
        let news = news.await;
        self.hear_news(asked, news).await
    }

    pub(super) fn ask_for_news(
        &mut self,
        asleep: bool,
    ) -> (AskedAt, impl Future<Output = Result<News, StoreError>> + Send + use<'a>) {
        self.life.node.counters.looks.fetch_add(1, Ordering::Relaxed);
        let hearing = &mut self.hearing;
        hearing.poll_in(self.life.node.config.poll_interval.unwrap_or(pace::POLL));
        (hearing.last_look, hearing.given_before, hearing.asleep) = (Instant::now(), self.rounds.given(), asleep);
        if !asleep {
            // Whether or not the news arrive: from now on there may be submitters that do not ring.
            hearing.ringing = Ringing::default();
        }
        let asked = AskedAt { asleep, all_is_read: self.backlog.is_read(), ends: self.stale_reads.mark() };
        (asked, self.news(self.hearing.cursor.clone()))
    }

    /// Whether these news need no attention: then the cursor has moved on.
    pub(super) fn bring_nothing(&mut self, asked: &AskedAt, news: &Result<News, StoreError>) -> bool {
        let Ok(news) = news else { return false };
        let nothing = self.hearing.bring_nothing(asked, news);
        if nothing {
            self.life.node.clock.heard(news.now);
            self.telling.hear(news.asked);
        }
        nothing
    }

    /// Whether the store answered.
    async fn hear_news(&mut self, asked: AskedAt, answer: Result<News, StoreError>) -> Result<bool, StoreError> {
        let poll = self.life.node.config.poll_interval;
        let news = match answer {
            Ok(news) => news,
            // The cursor stays where it is: nothing is missed.
            Err(error) if error.is_transient() => {
                self.life.node.logs.no_answer("could not read the news", &error);
                self.hearing.poll_in(pace::poll_after_failure(poll));
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        self.life.node.clock.heard(news.now);
        self.telling.hear(news.asked);
        let hearing = &mut self.hearing;
        hearing.cursor = Some(news.cursor);
        hearing.ringing.hear(asked.asleep, news.writers);
        let (hears, sealed) = (self.life.bell.hears(), !hearing.seals.are_quiet());
        hearing.poll_in(pace::next_poll(poll, hears, hearing.ringing.all_ring(), sealed));
        if let Some(soon) = hearing.ringing.look_again() {
            hearing.next_poll = hearing.next_poll.min(Instant::now() + soon);
        }
        let quiet = hearing.seals.hear(news.writers);
        if news.memos {
            let kinds = SETTINGS.into_iter().chain([MemoKind::Schedule]).collect();
            let memos = self.life.store.recall(kinds).await?;
            self.see_settings(memo::settings(&memos)).await?;
            self.schedules.see(&memos, &self.life.node.logs);
        }
        if news.more {
            tracing::debug!(read = news.jobs.len(), "more jobs came than one look returns: the backlog is read again");
            self.read_backlog_again().await?;
        }
        self.see_changes(&news.changes);
        let mut heads = news.jobs;
        let mut settled = Vec::new();
        for change in news.changes {
            let end = self.settled_elsewhere(&change);
            // Of a job that was edited the row is needed as well: the edit may be newer than the end.
            let row_is_needed = |head: &JobHead| end.is_none() || head.fence.edits() > 0;
            heads.extend(change.head.filter(row_is_needed));
            settled.extend(end);
        }
        self.hearing.caught_up = asked.all_is_read && !news.more;
        // Ends first: a queue that pauses for one of them should not begin with what is new.
        if !settled.is_empty() {
            self.act(Input::Settled(settled)).await?;
            self.write_pauses().await?;
        }
        self.stale_reads.sift(&mut heads);
        if !heads.is_empty() {
            self.act(Input::Jobs(heads)).await?;
        }
        self.read_stale_again().await?;
        self.write_quiet(quiet).await?;
        Ok(true)
    }

    /// What has ended in this process since the last look.
    pub(super) async fn see_reports(&mut self) -> Result<(), StoreError> {
        let reports = self.life.term.take_reports(usize::MAX);
        if reports.is_empty() {
            return Ok(());
        }
        self.see_ends(&reports);
        self.act(Input::Settled(reports)).await
    }

    /// The end of a run on another node, in the form of an end on this node: only so does the scheduler see errors. `None`: the
    /// row as it stands is enough.
    fn settled_elsewhere(&self, change: &Change) -> Option<scheduler::Settled> {
        let &Change { id, ran, failed, well, error, ref head } = change;
        let Some(head) = head else {
            return Some(scheduler::Settled { id, fence: Fence(i64::MAX), ran, rest: None, failed, well, error });
        };
        if head.state.assigned() || ran.is_none() {
            return None;
        }
        // A job that was read with the backlog, or that may have been picked again, is known as at rest already: to put it there
        // twice would be one time too many.
        if !self.hearing.caught_up || self.open.doubts(id, head.fence) {
            return None;
        }
        let stuck = head.state == JobState::Stuck;
        let rest = Some(Rest { stuck, due: head.due, crashes: head.crashes, next: Some(head.task.clone()) });
        Some(scheduler::Settled { id, fence: head.fence, ran, rest, failed, well: false, error })
    }
}
