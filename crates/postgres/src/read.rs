//! Reads for people: one job, lists of jobs, and what an acknowledgement means.

use std::collections::BTreeMap;

use std::collections::HashSet;

use tokio_postgres::Row;
use turnwise_core::{Job, JobId};
use turnwise_store::{Filter, Result};
use uuid::Uuid;

use crate::{
    connect::connection,
    errors::failed,
    rows::{self, Moment, Names, get},
    session::Session,
    store::Inner,
    unique,
};

pub(crate) async fn job(store: &Inner, id: JobId) -> Result<Option<Job>> {
    job_on(&connection(&store.pools.people).await?, id).await
}

pub(crate) async fn job_on(session: &impl Session, id: JobId) -> Result<Option<Job>> {
    let rows = session.query(include_str!("../sql/job.sql"), &[&id.uuid()]).await.map_err(failed("read a job"))?;
    rows.first().map(with_key).transpose()
}

/// The columns of `job.sql`.
fn with_key(row: &Row) -> Result<Job> {
    let mut job = rows::job(row, &mut Names::default())?;
    job.unique = unique::held_key(row, 25, !job.state.finished())?;
    Ok(job)
}

pub(crate) async fn jobs(store: &Inner, filter: &Filter) -> Result<Vec<Job>> {
    let fail = failed("list jobs");
    let client = connection(&store.pools.people).await?;
    if let Some(key) = &filter.unique {
        let mut jobs = Vec::new();
        for id in unique::holders(&client, key).await? {
            jobs.extend(job_on(&client, id).await?.filter(|job| filter.admits(job)));
        }
        if filter.in_hands {
            let given = client.query(include_str!("../sql/load_in_hands.sql"), &[&None::<Uuid>]).await.map_err(fail)?;
            let given = given.iter().map(|row| get(row, 0)).collect::<Result<HashSet<Option<Uuid>>>>()?;
            jobs.retain(|job| given.contains(&Some(job.id.uuid())));
        }
        return Ok(newest(jobs, filter));
    }
    let states: Vec<i16> = filter.states.iter().map(|state| state.code()).collect();
    let (since, until) = (filter.since.map(Moment), filter.until.map(Moment));
    let (first, last) = filter.id_range();
    let (unfinished, finished) = filter.tables();
    let binds: [&(dyn tokio_postgres::types::ToSql + Sync); 11] = [
        &states,
        &filter.queue,
        &filter.group,
        &filter.task,
        &i64::from(filter.limit()),
        &since,
        &until,
        &first.uuid(),
        &last.uuid(),
        &unfinished,
        &finished,
    ];
    let rows = if filter.in_hands {
        client.query(include_str!("../sql/jobs_in_hands.sql"), &binds[..9]).await.map_err(fail)?
    } else {
        client.query(include_str!("../sql/jobs.sql"), &binds).await.map_err(fail)?
    };
    let mut names = Names::default();
    let jobs: Vec<Job> = rows.iter().map(|row| rows::job(row, &mut names)).collect::<Result<_>>()?;
    let mut jobs = newest(jobs, filter);
    unique::show_held(&client, &mut jobs).await?;
    Ok(jobs)
}

/// By setting.
pub(crate) async fn durability(store: &Inner) -> Result<BTreeMap<String, String>> {
    let fail = failed("read what a commit means");
    let client = connection(&store.pools.people).await?;
    let rows = client.query(include_str!("../sql/durability.sql"), &[]).await.map_err(fail)?;
    rows.iter().map(|row| Ok((row.try_get(0).map_err(fail)?, row.try_get(1).map_err(fail)?))).collect()
}

fn newest(mut jobs: Vec<Job>, filter: &Filter) -> Vec<Job> {
    jobs.sort_unstable_by_key(|job| std::cmp::Reverse(job.id));
    jobs.truncate(filter.limit() as usize);
    jobs
}
