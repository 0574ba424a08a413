//! What people ask for.

use turnwise_core::{Job, JobId};
use turnwise_store::{Filter, Result};

use crate::{
    connect::connection,
    errors::failed,
    rows::{self, Names},
    session::Session,
    store::Inner,
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
    let states: Vec<i16> = filter.states.iter().map(|state| state.code()).collect();
    let limit = filter.limit();
    let binds: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
        [&states, &filter.queue, &filter.group, &filter.task, &i64::from(limit)];
    let rows = client.query(include_str!("../sql/jobs.sql"), &binds).await.map_err(fail)?;
    let mut names = Names::default();
    let mut jobs: Vec<Job> = rows.iter().map(|row| rows::job(row, &mut names)).collect::<Result<_>>()?;
    jobs.sort_unstable_by_key(|job| std::cmp::Reverse(job.id));
    jobs.truncate(limit as usize);
    Ok(jobs)
}
