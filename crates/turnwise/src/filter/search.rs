//! A look for jobs by a filter: a list by its indexes, of whose jobs those are left that meet the rest.

use std::{collections::BTreeSet, iter::once};

use turnwise_core::{Job, JobId, JobState, Timestamp, secret::Secrets};
use turnwise_store::operators::{LOOKS, MAX_PAGE};

use super::{Condition, JobFilter, Test};
use crate::{AskJobs, Error, JobPage, ListCursor, ListFilter, Turnwise};

/// Jobs that are read at a time at first; as many as fit into [`PART_BYTES`] from then on, as large as they have been.
const FIRST_PART: u32 = 100;
const SMALLEST_PART: u32 = 10;
const PART_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of arguments and results that one search reads: 20,000 jobs of the usual size, and fewer of larger ones.
const READ_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of the jobs of a page: then it ends, with fewer jobs than asked for.
const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// Jobs to look for, as of one moment ([`JobFilter::at`]), or by a [`ListFilter`] alone. It is one request: all of its pages together
/// look at 20,000 jobs at most where they are looked at one by one.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Search {
    /// What the store is asked for. A caller that may see a part of all jobs narrows it.
    pub list: ListFilter,
    /// The ids that are meant lie between these two.
    ids: Option<(JobId, JobId)>,
    /// What is left to be asked of each job.
    rest: Vec<Condition>,
    /// Rows of each table that may still be looked at, and bytes that may still be read.
    left: u32,
    bytes: usize,
    /// Jobs to read at a time, and rows to look at for them.
    part: u32,
    looks: u32,
}

impl From<ListFilter> for Search {
    fn from(list: ListFilter) -> Self {
        let (part, looks) = (FIRST_PART, FIRST_PART);
        Self { list, ids: None, rest: Vec::new(), left: LOOKS, bytes: READ_BYTES, part, looks }
    }
}

impl JobFilter {
    /// The same at this time of the database's clock, by which `since:2h` counts.
    pub fn at(&self, now: Timestamp) -> Search {
        let mut search = Search::from(ListFilter::default());
        for condition in &self.conditions {
            search.add(condition, now);
        }
        search
    }
}

/// Both conditions; `None`: any name.
fn both<N: Ord + Clone>(one: &mut Option<BTreeSet<N>>, other: Option<BTreeSet<N>>) {
    match (one.as_mut(), other) {
        (Some(one), Some(other)) => one.retain(|name| other.contains(name)),
        (_, None) => {}
        (None, other) => *one = other,
    }
}

impl Search {
    fn add(&mut self, condition: &Condition, now: Timestamp) {
        let Condition { negated, test } = condition;
        let mut list = ListFilter::default();
        match (negated, test) {
            (false, Test::State(states)) => list.states = states.clone(),
            (true, Test::State(states)) => {
                let others: BTreeSet<_> = JobState::ALL.into_iter().filter(|state| !states.contains(state)).collect();
                if others.is_empty() {
                    return self.nothing();
                }
                list.states = others;
            }
            (false, Test::Queue(names)) => list.queues = Some(names.clone()),
            (false, Test::Group(names)) => list.groups = Some(names.clone()),
            (false, Test::Task(names)) => list.tasks = Some(names.clone()),
            (false, Test::Node(names)) if names.len() == 1 => list.node = names.first().cloned(),
            (false, Test::Unique(keys)) if keys.len() == 1 => list.unique = keys.first().cloned(),
            (false, Test::Fingerprint(kinds)) if kinds.len() == 1 => {
                list.fingerprint = kinds.first().map(ToString::to_string);
            }
            (false, Test::Since(moment)) | (true, Test::Until(moment)) => list.since = Some(moment.at(now)),
            (false, Test::Until(moment)) | (true, Test::Since(moment)) => list.until = Some(moment.at(now)),
            (false, Test::Id(ids)) => {
                let (first, last) = (ids.iter().map(|ids| ids.first).min(), ids.iter().map(|ids| ids.last).max());
                self.between(first.zip(last));
                if ids.len() > 1 {
                    self.rest.push(condition.clone());
                }
                return;
            }
            _ => return self.rest.push(condition.clone()),
        }
        self.narrow(list);
    }

    /// Of these jobs those that this filter lists, too.
    #[must_use]
    pub fn within(mut self, list: ListFilter) -> Self {
        self.narrow(list);
        self
    }

    /// Of these jobs those whose ids lie between these two.
    #[must_use]
    pub fn with_ids(mut self, ids: Option<(JobId, JobId)>) -> Self {
        self.between(ids);
        self
    }

    fn between(&mut self, ids: Option<(JobId, JobId)>) {
        let Some((first, last)) = ids else { return };
        let (from, to) = self.ids.unwrap_or((first, last));
        self.ids = Some((from.max(first), to.min(last)));
    }

    fn narrow(&mut self, list: ListFilter) {
        let ListFilter { states, queues, groups, tasks, node, since, until, fingerprint, unique, args, masked } = list;
        let own = &mut self.list;
        let mut possible = true;
        if !states.is_empty() {
            if own.states.is_empty() {
                own.states = states;
            } else {
                own.states.retain(|state| states.contains(state));
                possible = !own.states.is_empty();
            }
        }
        both(&mut own.queues, queues);
        both(&mut own.groups, groups);
        both(&mut own.tasks, tasks);
        own.since = own.since.into_iter().chain(since).max();
        own.until = own.until.into_iter().chain(until).min();
        own.masked.extend(masked);
        // Of each of these a job has one.
        possible &= only(&mut own.node, node);
        possible &= only(&mut own.fingerprint, fingerprint);
        possible &= only(&mut own.unique, unique);
        possible &= only(&mut own.args, args);
        if !possible {
            self.nothing();
        }
    }

    fn nothing(&mut self) {
        self.list.queues = Some(BTreeSet::new());
    }

    pub(super) fn is_impossible(&self) -> bool {
        let ListFilter { queues, groups, tasks, since, until, .. } = &self.list;
        let none = queues.as_ref().is_some_and(BTreeSet::is_empty)
            || groups.as_ref().is_some_and(BTreeSet::is_empty)
            || tasks.as_ref().is_some_and(BTreeSet::is_empty);
        none || self.ids.is_some_and(|(first, last)| first > last) || since.zip(*until).is_some_and(|(s, u)| s >= u)
    }

    /// Whether jobs are looked at one by one here, beyond what the store is asked for.
    pub fn looks_closer(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Whether a job meets all conditions, by what `secrets` leave to be shown of it.
    pub fn admits(&self, job: &Job, secrets: &Secrets) -> bool {
        let with_key =
            self.list.unique.as_ref().is_none_or(|key| job.unique.as_ref().is_some_and(|held| held.key == *key));
        let by_row = ListFilter { args: None, ..self.list.clone() };
        with_key && self.has_id(job.id) && by_row.admits(job) && self.meets(job, secrets)
    }

    fn has_id(&self, id: JobId) -> bool {
        self.ids.is_none_or(|(first, last)| (first..=last).contains(&id))
    }

    /// Whether a job that the store has listed meets what the store was not asked for.
    fn meets(&self, job: &Job, secrets: &Secrets) -> bool {
        let mask = secrets.mask(&job.task, &job.args);
        let text = self.list.args.as_ref();
        text.is_none_or(|text| mask.shown(&job.args).as_str().contains(text.as_str()))
            && self.rest.iter().all(|condition| condition.is_met(job, &mask))
    }

    /// Where the look begins: the newest id that is meant, or where an earlier page ended.
    fn begins(&self, cursor: Option<ListCursor>) -> Option<ListCursor> {
        let newest = self.ids.map(|(_, last)| ListCursor::beginning_with(last));
        newest.into_iter().chain(cursor).min()
    }

    /// Where the next page begins, if anything that is meant may lie there.
    fn goes_on(&self, next: Option<ListCursor>) -> Option<ListCursor> {
        next.filter(|next| self.ids.is_none_or(|(first, _)| *next > ListCursor::after(first)))
    }

    /// The next rows to look at, from there on; `None`: as much was looked at as one request may.
    fn ask(&mut self, cursor: Option<ListCursor>) -> Option<AskJobs> {
        if self.left == 0 || self.bytes == 0 {
            return None;
        }
        let limit = self.part.min(self.left);
        let looks = self.looks.clamp(limit, self.left);
        self.left -= looks;
        Some(AskJobs { filter: self.list.clone(), cursor, limit, looks: Some(looks) })
    }

    /// Fits the next rows to those that were read.
    fn learn(&mut self, page: &JobPage) {
        let bytes: usize = page.jobs.iter().map(size).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
        // Where few of the rows are listed, more can be looked at for the same number of jobs.
        self.looks = if page.reached.is_some() { self.looks.saturating_mul(4).min(LOOKS) } else { self.part };
        let fit = PART_BYTES / (bytes / page.jobs.len().max(1)).max(1);
        self.part = u32::try_from(fit).unwrap_or(MAX_PAGE).clamp(SMALLEST_PART, (self.part * 2).min(MAX_PAGE));
    }
}

/// Whether both can hold: `None` holds always.
fn only<T: PartialEq>(one: &mut Option<T>, other: Option<T>) -> bool {
    match (one.as_ref(), other) {
        (_, None) => true,
        (Some(one), Some(other)) => *one == other,
        (None, other) => {
            *one = other;
            true
        }
    }
}

fn size(job: &Job) -> usize {
    once(&job.args).chain(&job.result).map(|json| json.as_str().len()).sum()
}

impl Turnwise {
    /// A page of the jobs that a search means, newest first, from a cursor on; at most `limit`, and never more than 1000.
    ///
    /// As [`Turnwise::list`], it is bounded: where jobs are looked at one by one, all pages of one search look at 20,000 of them at most.
    /// Then [`JobPage::reached`] says how far they came, and another search may go on at [`JobPage::next`]. Secret fields are looked at as
    /// they are shown, so neither a page nor its cursor says anything about a secret.
    ///
    /// Fails as [`Turnwise::list`] does. Nothing is changed: a repeat is safe.
    pub async fn search(&self, search: &mut Search, cursor: Option<ListCursor>, limit: u32) -> Result<JobPage, Error> {
        let (limit, mut cursor) = (limit.min(MAX_PAGE), search.begins(cursor));
        if search.is_impossible() {
            return Ok(JobPage::default());
        }
        if !search.looks_closer() {
            return self.listed(search, cursor, limit).await;
        }
        let secrets = self.secrets().await?;
        if search.list.args.is_some() {
            search.list.masked = secrets.tasks().cloned().collect();
        }
        let (mut found, mut bytes) = (JobPage::default(), 0);
        loop {
            let Some(ask) = search.ask(cursor) else {
                found.next = cursor;
                found.reached = cursor.map(ListCursor::reached);
                return Ok(found);
            };
            let page = self.operators()?.list_jobs(ask).await?;
            search.learn(&page);
            for job in page.jobs {
                if !search.meets(&job, &secrets) || !search.has_id(job.id) {
                    continue;
                }
                bytes += size(&job);
                let id = job.id;
                found.jobs.push(job);
                if found.jobs.len() >= limit as usize || bytes > PAGE_BYTES {
                    found.next = Some(ListCursor::after(id));
                    return Ok(found);
                }
            }
            cursor = search.goes_on(page.next);
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }

    /// A page of what the store lists: it is asked for everything.
    async fn listed(&self, search: &Search, cursor: Option<ListCursor>, limit: u32) -> Result<JobPage, Error> {
        let mut page = self.list(AskJobs { filter: search.list.clone(), cursor, limit, looks: None }).await?;
        page.next = search.goes_on(page.next);
        if page.next.is_none() {
            page.jobs.retain(|job| search.has_id(job.id));
            page.reached = None;
        }
        Ok(page)
    }
}
