//! Reads for people: one job, and lists of jobs.

use turnwise_core::{Job, JobId};
use turnwise_store::{Filter, Result};

use crate::{
    connect::connection,
    errors::failed,
    rows::{self, Moment, Names},
    session::Session,
    store::Inner,
    unique,
};

pub(crate) async fn job(store: &Inner, id: JobId) -> Result<Option<Job>> {
    let fail = failed("read a job");
    let client = connection(&store.pools.people).await?;
    let rows = client.query(include_str!("../sql/job.sql"), &[&id.uuid()]).await.map_err(fail)?;
    rows.first().map(|row| rows::job(row, &mut Names::default())).transpose()
}

pub(crate) async fn jobs(store: &Inner, filter: &Filter) -> Result<Vec<Job>> {
    let fail = failed("list jobs");
    let client = connection(&store.pools.people).await?;
    if let Some(key) = &filter.unique {
        let mut jobs = Vec::new();
        for id in unique::holders(&client, key).await? {
            let rows = client.query(include_str!("../sql/job.sql"), &[&id.uuid()]).await.map_err(fail)?;
            let found = rows.first().map(|row| rows::job(row, &mut Names::default())).transpose()?;
            jobs.extend(found.filter(|job| filter.admits(job)));
        }
        return Ok(newest(jobs, filter));
    }
    let states: Vec<i16> = filter.states.iter().map(|state| state.code()).collect();
    let (since, until) = (filter.since.map(Moment), filter.until.map(Moment));
    let (first, last) = filter.id_range();
    let binds: [&(dyn tokio_postgres::types::ToSql + Sync); 9] = [
        &states,
        &filter.queue,
        &filter.group,
        &filter.task,
        &i64::from(filter.limit()),
        &since,
        &until,
        &first.uuid(),
        &last.uuid(),
    ];
    let rows = client.query(include_str!("../sql/jobs.sql"), &binds).await.map_err(fail)?;
    let mut names = Names::default();
    let jobs: Vec<Job> = rows.iter().map(|row| rows::job(row, &mut names)).collect::<Result<_>>()?;
    Ok(newest(jobs, filter))
}

fn newest(mut jobs: Vec<Job>, filter: &Filter) -> Vec<Job> {
    jobs.sort_unstable_by_key(|job| std::cmp::Reverse(job.id));
    jobs.truncate(filter.limit() as usize);
    jobs
}
