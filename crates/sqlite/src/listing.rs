//! Lists of jobs for operators.

use rusqlite::{Connection, Params, params};
use turnwise_core::{JobId, JobState, Timestamp};
use turnwise_store::operators::{AskJobs, FoundBy, JobPage, Looked};

use crate::{
    errors::Failure,
    read,
    rows::{self, Names},
    unique,
};

type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn list_jobs(conn: &Connection, ask: &AskJobs, now: Timestamp) -> Result<JobPage> {
    let Some(first) = ask.first() else { return Ok(JobPage::default()) };
    let id = first.as_bytes();
    let (unfinished, finished) = (ask.filter.wants(false), ask.filter.wants(true));
    let mut looked = Vec::new();
    match ask.filter.found_by() {
        FoundBy::UniqueKey(key) => {
            let mut held = Looked::default();
            for id in unique::holders(conn, key.as_str(), now)?.into_iter().filter(|id| *id <= first) {
                held.jobs.extend(read::job(conn, id, now)?.filter(|job| ask.filter.admits(job)));
            }
            return Ok(JobPage::of([held], ask.limit()));
        }
        FoundBy::Groups(groups) => {
            let [success, failed, cancelled] = [JobState::Success, JobState::Failed, JobState::Cancelled]
                .map(|state| ask.filter.wants_state(state).then(|| state.code()));
            for group in groups.iter().map(|group| group.as_str()) {
                if unfinished {
                    looked.push(look(conn, include_str!("../sql/list_group.sql"), params![id, group], ask)?);
                }
                if finished {
                    let binds = params![id, group, success, failed, cancelled];
                    looked.push(look(conn, include_str!("../sql/list_group_history.sql"), binds, ask)?);
                }
            }
        }
        FoundBy::Fingerprint(kind) => {
            if unfinished {
                looked.push(look(conn, include_str!("../sql/list_fingerprint.sql"), params![id, kind], ask)?);
            }
            if finished {
                looked.push(look(conn, include_str!("../sql/list_failed.sql"), params![id, kind], ask)?);
            }
        }
        FoundBy::Id => {
            if unfinished {
                looked.push(look(conn, include_str!("../sql/list_jobs.sql"), params![id], ask)?);
            }
            if finished {
                looked.push(look(conn, include_str!("../sql/list_history.sql"), params![id], ask)?);
            }
        }
    }
    let mut page = JobPage::of(looked, ask.limit());
    unique::show_held(conn, &mut page.jobs, now)?;
    Ok(page)
}

/// Goes through the rows of a statement, newest first, until the page is full or enough were looked at.
fn look(conn: &Connection, sql: &str, binds: impl Params, ask: &AskJobs) -> Result<Looked> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut found = statement.query(binds)?;
    let (mut looked, mut names) = (Looked::default(), Names::default());
    for _ in 0..ask.looks() {
        if looked.jobs.len() >= ask.limit() as usize {
            return Ok(looked);
        }
        let Some(row) = found.next()? else { return Ok(Looked { down_to: None, ..looked }) };
        looked.down_to = Some(JobId::from_uuid(rows::uuid(row, 0)?));
        // Arguments may be long, and text is looked for in them as they lie there.
        let text = ask.filter.args.as_deref().unwrap_or_default();
        let masked = !ask.filter.masked.is_empty();
        if !text.is_empty() && !masked && !row.get_ref(2)?.as_str().is_ok_and(|args| args.contains(text)) {
            continue;
        }
        let job = rows::job(row, &mut names)?;
        looked.jobs.extend(ask.filter.admits(&job).then_some(job));
    }
    let more = found.next()?.is_some();
    Ok(if more { looked } else { Looked { down_to: None, ..looked } })
}
