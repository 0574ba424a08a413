//! Stories: the notes of running jobs, and what else is stored about a job besides its row.

use std::collections::HashMap;

use tokio_postgres::Row;
use turnwise_core::{
    Failure, Fence, Incarnation, JobId, Json, NodeName, TaskName,
    lifecycle::Ending,
    story::{Attempt, Finished, Level, Line, LineAt, MAX_AWAITED_BY, Progress, Story},
};
use turnwise_store::{AskStory, Note, Result, Settled, StoreError};
use uuid::Uuid;

use crate::{
    after,
    connect::connection,
    errors::failed,
    rows::{self, JsonText, Moment, get},
    session::{Binds, Part, Session},
    settle::read_facts,
    store::Inner,
};

const NOTE: &str = include_str!("../sql/note.sql");
const TRIM: &str = include_str!("../sql/trim_log.sql");

pub(crate) async fn note(store: &Inner, node: Incarnation, notes: &[Note]) -> Result<Vec<Settled>> {
    let fail = failed("note");
    // Sorted by id, so that two batches never lock in opposite orders. Stable: of two notes of a run the later one stands.
    let mut order: Vec<usize> = (0..notes.len()).collect();
    order.sort_by_key(|at| notes[*at].job);
    let sorted: Vec<&Note> = order.iter().map(|at| &notes[*at]).collect();
    let notes_in_order = Notes::of(&sorted, store.kept.now().log_lines);

    let client = connection(&store.pools.note).await?;
    let parts = notes_in_order.parts(&node.0);
    let taken = client.in_one_write("begin", &parts).await.map_err(fail)?.swap_remove(0);
    let mut replies = vec![Settled::Superseded; notes.len()];
    for row in &taken {
        let place = usize::try_from(get::<i32>(row, 0)? - 1).ok().and_then(|place| order.get(place));
        let at = *place.ok_or_else(|| StoreError::broken("note", "a note that was not written was taken"))?;
        replies[at] = Settled::Applied;
    }
    if taken.len() < notes.len() {
        let missing = notes.iter().zip(&replies).filter(|(_, reply)| **reply != Settled::Applied);
        let missing: Vec<Uuid> = missing.map(|(note, _)| note.job.uuid()).collect();
        let facts = read_facts(&client, &missing).await?;
        for (note, reply) in notes.iter().zip(&mut replies).filter(|(_, reply)| **reply != Settled::Applied) {
            // Only a lock can have kept it from being written.
            if facts.get(&note.job).is_some_and(|now| now.in_hands_of(node) && now.fence == note.fence) {
                *reply = Settled::Locked;
            }
        }
    }
    Ok(replies)
}

/// Notes as statements.
pub(crate) struct Notes<'a> {
    columns: Columns<'a>,
    trims: Trims,
    keep: i64,
}

impl<'a> Notes<'a> {
    /// Sorted by id. `keep`: how many lines of each log.
    pub(crate) fn of(notes: &[&'a Note], keep: u32) -> Self {
        Self { columns: Columns::of(notes), trims: Trims::of(notes), keep: keep.into() }
    }

    pub(crate) fn parts<'b>(&'b self, node: &'b Uuid) -> Vec<Part<'b>> {
        let mut parts = vec![Part::of(NOTE, self.columns.binds(node))];
        if !self.trims.ids.is_empty() {
            let binds: Binds<'_> = vec![node, &self.trims.ids, &self.trims.fences, &self.keep];
            parts.push(Part::of(TRIM, binds));
        }
        parts
    }
}

/// Notes as columns, in the order of the binds; `of` is the place of the note something belongs to, from 1.
#[derive(Default)]
struct Columns<'a> {
    ids: Vec<Uuid>,
    fences: Vec<i64>,
    lines: Lines<'a>,
    steps: Steps<'a>,
    progress: Standings<'a>,
}

#[derive(Default)]
struct Lines<'a> {
    of: Vec<i32>,
    fences: Vec<i64>,
    numbers: Vec<i64>,
    times: Vec<Moment>,
    levels: Vec<i16>,
    texts: Vec<&'a str>,
}

#[derive(Default)]
struct Steps<'a> {
    of: Vec<i32>,
    names: Vec<&'a str>,
    results: Vec<&'a str>,
}

#[derive(Default)]
struct Standings<'a> {
    of: Vec<i32>,
    done: Vec<i64>,
    total: Vec<i64>,
    texts: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    fn of(notes: &[&'a Note]) -> Self {
        let mut columns = Self::default();
        // One row can be written once in a statement, and of several notes of a run the last one counts.
        let mut last: HashMap<(JobId, Fence), (i32, &Progress)> = HashMap::new();
        for (n, note) in (1..).zip(notes) {
            columns.ids.push(note.job.uuid());
            columns.fences.push(note.fence.0);
            note.lines.iter().for_each(|line| columns.lines.push(n, line));
            note.steps.iter().for_each(|step| columns.steps.push(n, step));
            last.extend(note.progress.as_ref().map(|progress| ((note.job, note.fence), (n, progress))));
        }
        last.values().for_each(|(n, progress)| columns.progress.push(*n, progress));
        columns
    }

    fn binds<'b>(&'b self, node: &'b Uuid) -> Binds<'b> {
        let Self { ids, fences, lines, steps, progress } = self;
        vec![
            node,
            ids,
            fences,
            &lines.of,
            &lines.fences,
            &lines.numbers,
            &lines.times,
            &lines.levels,
            &lines.texts,
            &steps.of,
            &steps.names,
            &steps.results,
            &progress.of,
            &progress.done,
            &progress.total,
            &progress.texts,
        ]
    }
}

impl<'a> Lines<'a> {
    fn push(&mut self, of: i32, line: &'a Line) {
        self.of.push(of);
        self.fences.push(line.at.fence.0);
        self.numbers.push(line.at.number.into());
        self.times.push(Moment(line.time));
        self.levels.push(line.level.code());
        self.texts.push(&line.text);
    }
}

impl<'a> Steps<'a> {
    fn push(&mut self, of: i32, step: &'a Finished) {
        self.of.push(of);
        self.names.push(&step.name);
        self.results.push(step.result.as_str());
    }
}

impl<'a> Standings<'a> {
    fn push(&mut self, of: i32, progress: &'a Progress) {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.of.push(of);
        self.done.push(number(progress.done));
        self.total.push(number(progress.total));
        self.texts.push(&progress.text);
    }
}

/// The jobs whose logs are to be looked at.
struct Trims {
    ids: Vec<Uuid>,
    fences: Vec<i64>,
}

impl Trims {
    fn of(notes: &[&Note]) -> Self {
        let (ids, fences) = notes.iter().filter(|note| note.trim).map(|note| (note.job.uuid(), note.fence.0)).unzip();
        Self { ids, fences }
    }
}

const AWAITED_BY: i64 = MAX_AWAITED_BY as i64;

pub(crate) async fn story(store: &Inner, ask: &AskStory) -> Result<Story> {
    let fail = failed("read a story");
    let client = connection(&store.pools.people).await?;
    let (job, limit) = (ask.job.uuid(), i64::from(ask.lines));
    let (fence, number) = ask.after.map_or((0, 0), |LineAt { fence, number }| (fence.0, i64::from(number)));
    let statements: &[(&str, Binds<'_>)] = match ask.after {
        None => &[
            (include_str!("../sql/story_progress.sql"), vec![&job]),
            (include_str!("../sql/story_last_lines.sql"), vec![&job, &limit]),
            (include_str!("../sql/story_attempts.sql"), vec![&job]),
            (include_str!("../sql/story_steps.sql"), vec![&job]),
            (include_str!("../sql/story_after.sql"), vec![&job]),
            (include_str!("../sql/story_awaited_by.sql"), vec![&job, &AWAITED_BY]),
        ],
        Some(_) => &[
            (include_str!("../sql/story_progress.sql"), vec![&job]),
            (include_str!("../sql/story_next_lines.sql"), vec![&job, &limit, &fence, &number]),
        ],
    };
    let parts: Vec<Part<'_>> = statements.iter().map(|(sql, binds)| Part::of(sql, binds.clone())).collect();
    // One snapshot: a line that is counted as dropped is not returned as well.
    let begin = "begin transaction isolation level repeatable read read only";
    let mut replies = client.in_one_write(begin, &parts).await.map_err(fail)?.into_iter();
    let mut next = || replies.next().unwrap_or_default();
    let (progress, dropped) = next().first().map_or(Ok((None, 0)), progress_and_dropped)?;
    let mut lines: Vec<Line> = next().iter().map(line).collect::<Result<_>>()?;
    if ask.after.is_none() {
        lines.reverse();
    }
    let attempts = next().iter().map(attempt).collect::<Result<_>>()?;
    let steps = next().iter().map(step).collect::<Result<_>>()?;
    let after = after::after(&next())?;
    let awaited_by = next().iter().map(|row| get(row, 0).map(JobId::from_uuid)).collect::<Result<_>>()?;
    Ok(Story { attempts, progress, steps, lines, dropped, after, awaited_by })
}

fn progress_and_dropped(row: &Row) -> Result<(Option<Progress>, u64)> {
    let count = |at| Ok::<_, StoreError>(get::<Option<i64>>(row, at)?.and_then(|count| u64::try_from(count).ok()));
    let progress = match count(0)? {
        Some(done) => {
            let text = get::<Option<String>>(row, 2)?.unwrap_or_default();
            Some(Progress { done, total: count(1)?.unwrap_or(0), text })
        }
        None => None,
    };
    Ok((progress, count(3)?.unwrap_or(0)))
}

fn line(row: &Row) -> Result<Line> {
    let number = u32::try_from(get::<i64>(row, 1)?).unwrap_or(u32::MAX);
    let level = get(row, 3)?;
    let level =
        Level::from_code(level).ok_or_else(|| StoreError::broken("read a line", format!("{level} is not a level")))?;
    Ok(Line { at: LineAt { fence: Fence(get(row, 0)?), number }, time: rows::now(row, 2)?, level, text: get(row, 4)? })
}

fn attempt(row: &Row) -> Result<Attempt> {
    let ending = get(row, 3)?;
    let ending = Ending::from_code(ending)
        .ok_or_else(|| StoreError::broken("read an attempt", format!("{ending} is not an ending")))?;
    let failure = match get::<Option<JsonText<'_>>>(row, 7)? {
        Some(chain) => {
            let chain =
                Json::from(chain).decode().map_err(|error| StoreError::broken("read an attempt's failure", error))?;
            Some(Failure { chain, place: get(row, 8)? })
        }
        None => None,
    };
    Ok(Attempt {
        fence: Fence(get(row, 0)?),
        number: rows::count(row, 1)?,
        task: TaskName::stored(get::<&str>(row, 2)?.into()),
        ending,
        node: get::<Option<&str>>(row, 4)?.map(|name| NodeName::stored(name.into())),
        started_at: rows::moment(row, 5)?,
        finished_at: rows::moment(row, 6)?,
        failure,
    })
}

fn step(row: &Row) -> Result<Finished> {
    Ok(Finished { name: get(row, 0)?, result: get::<JsonText<'_>>(row, 1)?.into() })
}
