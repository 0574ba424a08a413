//! Stories: what is recorded about jobs' runs; written while the job is in the writing node's hands, read by any caller.

use rusqlite::{Connection, OptionalExtension, params};
use turnwise_core::{
    Incarnation, JobId, Timestamp,
    lifecycle::Ending,
    story::{Line, MAX_ATTEMPTS, Story},
};
use turnwise_store::{AskStory, Note, Settled, Settlement};

use crate::{
    after,
    errors::Failure,
    rows::{self, Names},
    settle::{JobRow, RunEnd},
};

type Result<T> = std::result::Result<T, Failure>;

/// `keep`: how many lines of each log.
pub(crate) fn note(conn: &Connection, node: Incarnation, notes: &[Note], keep: u32) -> Result<Vec<Settled>> {
    let mut replies = Vec::with_capacity(notes.len());
    for note in notes {
        let held = JobRow::read(conn, note.job)?
            .is_some_and(|row| row.fence == note.fence && row.state.assigned() && row.node == Some(node));
        if held {
            write(conn, note, keep)?;
        }
        replies.push(if held { Settled::Applied } else { Settled::Superseded });
    }
    Ok(replies)
}

fn write(conn: &Connection, note: &Note, keep: u32) -> Result<()> {
    let job = note.job.as_bytes();
    if let Some(progress) = &note.progress {
        conn.prepare_cached(include_str!("../sql/note_progress.sql"))?.execute(params![
            job,
            progress.done.cast_signed(),
            progress.total.cast_signed(),
            progress.text
        ])?;
    }
    let mut add = conn.prepare_cached(include_str!("../sql/note_line.sql"))?;
    for Line { at, time, level, text } in &note.lines {
        add.execute(params![job, at.fence.0, at.number, time.micros(), level.code(), text])?;
    }
    if note.trim {
        let over = conn.prepare_cached(include_str!("../sql/trim_log.sql"))?.execute(params![job, keep])?;
        if over > 0 {
            conn.prepare_cached(include_str!("../sql/note_dropped.sql"))?.execute(params![job, over.cast_signed()])?;
        }
    }
    let mut finish = conn.prepare_cached(include_str!("../sql/note_step.sql"))?;
    for step in &note.steps {
        finish.execute(params![job, step.name, step.result.as_str()])?;
    }
    Ok(())
}

/// Writes down the run that `settlement` ends; before the job's own row is changed, which says what was run.
pub(crate) fn keep_attempt(
    conn: &Connection,
    settlement: &Settlement,
    row: &JobRow,
    run: &RunEnd<'_>,
    ending: Ending,
) -> Result<()> {
    let failure = settlement.to.error.as_ref();
    let chain = failure.map(|failure| serde_json::to_string(&failure.chain).expect("texts are JSON"));
    conn.prepare_cached(include_str!("../sql/settle_attempts.sql"))?.execute(params![
        row.seq,
        row.fence.0,
        ending.code(),
        run.node_name,
        run.started_at.map(Timestamp::micros),
        run.finished_at.map(Timestamp::micros),
        chain,
        failure.and_then(|failure| failure.place.as_deref()),
    ])?;
    // Every attempt has a fence of its own, from 1: before there were that many fences, nothing can be over.
    if row.fence.0 > i64::from(MAX_ATTEMPTS) {
        let mut trim = conn.prepare_cached(include_str!("../sql/trim_attempts.sql"))?;
        trim.execute(params![row.id.as_bytes(), MAX_ATTEMPTS])?;
    }
    Ok(())
}

pub(crate) fn forget_steps(conn: &Connection, id: JobId) -> Result<usize> {
    Ok(conn.prepare_cached(include_str!("../sql/forget_steps.sql"))?.execute([id.as_bytes()])?)
}

/// Deletes a job's story; returns the number of rows.
pub(crate) fn forget(conn: &Connection, id: JobId) -> Result<usize> {
    let job = [id.as_bytes()];
    let attempts = conn.prepare_cached(include_str!("../sql/forget_attempts.sql"))?.execute(job)?;
    let lines = conn.prepare_cached(include_str!("../sql/forget_log.sql"))?.execute(job)?;
    let progress = conn.prepare_cached(include_str!("../sql/forget_progress.sql"))?.execute(job)?;
    Ok(attempts + lines + progress + forget_steps(conn, id)? + after::forget(conn, id)?)
}

/// Deletes the stories of these jobs; returns the number of rows. Most jobs have none and cost nothing: the next job with a story
/// is looked up, instead of searching five tables for each job.
pub(crate) fn forget_all(conn: &Connection, mut ids: Vec<JobId>) -> Result<usize> {
    ids.sort_unstable();
    let mut next_story = conn.prepare_cached(include_str!("../sql/prune_next_story.sql"))?;
    let mut rows = 0;
    let mut left = &ids[..];
    while let Some(first) = left.first() {
        let next = next_story.query_row([first.as_bytes()], |row| rows::maybe_uuid(row, 0))?;
        let Some(next) = next.map(JobId::from_uuid) else { break };
        left = &left[left.partition_point(|id| *id < next)..];
        if let Some(rest) = left.strip_prefix(&[next]) {
            rows += forget(conn, next)?;
            left = rest;
        }
    }
    Ok(rows)
}

pub(crate) fn story(conn: &Connection, ask: &AskStory) -> Result<Story> {
    let job = ask.job.as_bytes();
    let mut progress = conn.prepare_cached(include_str!("../sql/story_progress.sql"))?;
    let (progress, dropped) = progress.query_row([job], rows::progress).optional()?.unwrap_or_default();
    let mut story = Story { progress, dropped, ..Story::default() };
    if let Some(after) = ask.after {
        let mut lines = conn.prepare_cached(include_str!("../sql/story_next_lines.sql"))?;
        let lines = lines.query_map(params![job, ask.lines, after.fence.0, after.number], rows::line)?;
        story.lines = lines.collect::<rusqlite::Result<_>>()?;
        return Ok(story);
    }
    let mut lines = conn.prepare_cached(include_str!("../sql/story_last_lines.sql"))?;
    let lines = lines.query_map(params![job, ask.lines], rows::line)?;
    story.lines = lines.collect::<rusqlite::Result<_>>()?;
    story.lines.reverse();
    let mut names = Names::default();
    let mut attempts = conn.prepare_cached(include_str!("../sql/story_attempts.sql"))?;
    let attempts = attempts.query_map([job], |row| rows::attempt(row, &mut names))?;
    story.attempts = attempts.collect::<rusqlite::Result<_>>()?;
    let mut steps = conn.prepare_cached(include_str!("../sql/story_steps.sql"))?;
    story.steps = steps.query_map([job], rows::finished)?.collect::<rusqlite::Result<_>>()?;
    (story.after, story.awaited_by) = after::both_sides(conn, ask.job)?;
    Ok(story)
}
