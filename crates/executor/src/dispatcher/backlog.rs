//! Reading the backlog, page by page, into the scheduler.

use turnwise_core::{
    JobId, pace,
    scheduler::{Input, Pick},
};
use turnwise_store::{Load, Page, StoreError};

use super::Dispatcher;

/// Jobs per page.
pub(crate) const PAGE: u32 = 10_000;
/// The first page: work can begin when it is read.
const FIRST_PAGE: u32 = 1_000;

#[derive(Debug)]
pub(super) struct Backlog {
    /// Where the next page begins; `None` when all is read.
    next: Option<Option<JobId>>,
    /// It is to be read once more when it is read: more jobs came than one look at the news returns.
    again: bool,
    /// All is read, and the scheduler does not know that yet.
    unsaid: bool,
    /// Jobs that were read so far, and how many had been given out before.
    read: u64,
    given_before: u64,
}

impl Backlog {
    pub(super) fn unread() -> Self {
        Self { next: Some(None), again: false, unsaid: false, read: 0, given_before: 0 }
    }

    pub(super) fn is_read(&self) -> bool {
        self.next.is_none()
    }

    /// Whether there is more to do about it: a page to read, or to let the scheduler know that all is read.
    pub(super) fn is_open(&self) -> bool {
        self.next.is_some() || self.unsaid
    }

    pub(super) fn is_just_read(&self) -> bool {
        self.unsaid
    }

    /// Where the next page begins.
    pub(super) fn next_page(&self) -> Option<Option<JobId>> {
        self.next
    }

    /// As at the beginning: what is known already is recognised.
    pub(super) fn begin_anew(&mut self) {
        self.next = Some(None);
    }

    /// How many ends may be taken in now, to make room for other jobs, with so many jobs `given` out.
    pub(super) fn ends_wanted(&self, given: u64) -> usize {
        if self.is_read() { usize::MAX } else { pace::ends_wanted(self.read, given - self.given_before) }
    }

    /// The page that begins after `after` is read.
    fn page_is_read(&mut self, after: Option<JobId>, next: Option<JobId>, jobs: usize, given: u64) {
        // Unless the backlog is to be read anew meanwhile.
        if self.next == Some(after) {
            self.next = next.map(Some);
            if self.next.is_none() && std::mem::take(&mut self.again) {
                self.next = Some(None);
            }
            self.unsaid = self.next.is_none();
        }
        if after.is_none() {
            (self.read, self.given_before) = (0, given);
        }
        self.read += jobs as u64;
    }

    /// A reading that is under way goes on to its end first: begun anew each time, it might never end.
    fn read_once_more(&mut self) {
        match self.next {
            Some(_) => self.again = true,
            None => (self.next, self.unsaid) = (Some(None), false),
        }
    }
}

impl<'a> Dispatcher<'a> {
    /// Reads one more page.
    pub(super) async fn read_on(&mut self) -> Result<(), StoreError> {
        if let Some(after) = self.backlog.next_page() {
            let page = self.page(after).await?;
            let picks = self.take_in(after, page);
            self.give(picks).await?;
        }
        if !self.backlog.unsaid {
            return Ok(());
        }
        // No queue is to be taken for finished while one of its jobs is to be read once more.
        self.read_stale_again().await?;
        self.backlog.unsaid = false;
        self.act(Input::Loading(false)).await
    }

    pub(super) fn page(&self, after: Option<JobId>) -> impl Future<Output = Result<Page, StoreError>> + Send + use<'a> {
        let limit = after.map_or(FIRST_PAGE, |_| PAGE).min(self.life.node.page);
        let store = &self.life.store;
        async move { store.load(Load::After { id: after, limit }).await }
    }

    /// A page of the backlog, the one after `after`.
    pub(super) fn take_in(&mut self, after: Option<JobId>, mut page: Page) -> Vec<Pick> {
        self.life.node.clock.heard(page.now);
        self.backlog.page_is_read(after, page.next, page.jobs.len(), self.rounds.given());
        self.stale_reads.sift(&mut page.jobs);
        self.tell(Input::Jobs(page.jobs))
    }

    /// More jobs came than one look at the news returns.
    pub(super) async fn read_backlog_again(&mut self) -> Result<(), StoreError> {
        self.backlog.read_once_more();
        self.act(Input::Loading(true)).await
    }

    pub(super) async fn read_stale_again(&mut self) -> Result<(), StoreError> {
        match self.stale_reads.take_unsure() {
            unsure if unsure.is_empty() => Ok(()),
            unsure => self.read_again(unsure).await,
        }
    }
}
