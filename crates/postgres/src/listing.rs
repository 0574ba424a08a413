//! Lists of jobs for operators.

use tokio_postgres::{Row, types::ToSql};
use turnwise_core::{JobId, JobState};
use turnwise_store::{
    Result,
    operators::{AskJobs, JobPage, ListFilter, Looked},
};

use crate::{
    connect::connection,
    errors::failed,
    read,
    rows::{self, Moment, Names, get},
    session::{Bind, Part, Session},
    store::Inner,
    unique,
};

/// Both tables are looked at in one moment: a job that ends meanwhile is in one of them.
const BEGIN: &str = "begin isolation level repeatable read read only";

/// A statement, and the one that says how far it looks.
struct Look {
    list: &'static str,
    edge: &'static str,
    finished: bool,
}

const ALL: [Look; 2] = [
    Look {
        list: include_str!("../sql/list_jobs.sql"),
        edge: include_str!("../sql/list_edge_jobs.sql"),
        finished: false,
    },
    Look {
        list: include_str!("../sql/list_history.sql"),
        edge: include_str!("../sql/list_edge_history.sql"),
        finished: true,
    },
];

const BY_FINGERPRINT: [Look; 2] = [
    Look {
        list: include_str!("../sql/list_fingerprint.sql"),
        edge: include_str!("../sql/list_edge_jobs.sql"),
        finished: false,
    },
    Look {
        list: include_str!("../sql/list_failed.sql"),
        edge: include_str!("../sql/list_edge_failed.sql"),
        finished: true,
    },
];

pub(crate) async fn list_jobs(store: &Inner, ask: &AskJobs) -> Result<JobPage> {
    let fail = failed("list jobs");
    let Some(first) = ask.first() else { return Ok(JobPage::default()) };
    let (filter, limit) = (&ask.filter, ask.limit());
    let client = connection(&store.pools.people).await?;
    if let Some(key) = &filter.unique {
        let mut looked = Looked::default();
        for id in unique::holders(&client, key.as_str()).await?.into_iter().filter(|id| *id <= first) {
            looked.jobs.extend(read::job_on(&client, id).await?.filter(|job| filter.admits(job)));
        }
        return Ok(JobPage::of([looked], limit));
    }
    let (id, looks, rows) = (first.uuid(), i64::from(ask.looks()), i64::from(limit));
    let names = Lists::of(filter);
    let (since, until) = (filter.since.map(Moment), filter.until.map(Moment));
    let node = filter.node.as_ref().map(|node| node.as_str());
    let of_kind = filter.fingerprint.is_some();
    let (unfinished, finished) = (states(filter, false), states(filter, true));
    let looking = |look: &&Look| if look.finished { !finished.is_empty() } else { !unfinished.is_empty() };
    let only_states = *filter == ListFilter { states: filter.states.clone(), ..ListFilter::default() };
    let tables = if of_kind { &BY_FINGERPRINT } else { &ALL };
    let (mut parts, mut edges) = (Vec::new(), Vec::new());
    for look in tables.iter().filter(looking) {
        let states: &(dyn ToSql + Sync) = if look.finished { &finished } else { &unfinished };
        let mut list: Vec<Bind<'_>> = vec![
            &id,
            &looks,
            &rows,
            states,
            &names.queues,
            &names.groups,
            &names.tasks,
            &node,
            &since,
            &until,
            &filter.args,
            &names.masked,
        ];
        let mut edge: Vec<Bind<'_>> = vec![&id, &looks];
        if of_kind {
            list.push(&filter.fingerprint);
        }
        if look.finished {
            edge.push(if of_kind { &filter.fingerprint } else { states });
        }
        parts.push(Part::of(look.list, list));
        // Where every row is one that is asked for, a page that is not full ends with the table.
        let every = filter.is_empty() || (look.finished && only_states);
        edges.push(!every);
        if !every {
            parts.push(Part::of(look.edge, edge));
        }
    }
    let answers = client.in_a_transaction(BEGIN, "", &parts).await.map_err(fail)?;
    let mut answers = answers.into_iter();
    let mut tables = Vec::new();
    for edge in edges {
        let (found, edge) = (answers.next(), if edge { answers.next() } else { None });
        tables.push(looked(&found.unwrap_or_default(), &edge.unwrap_or_default(), limit)?);
    }
    let mut page = JobPage::of(tables, limit);
    unique::show_held(&client, &mut page.jobs).await?;
    Ok(page)
}

/// The wanted states that are finished, or those that are not.
fn states(filter: &ListFilter, finished: bool) -> Vec<i16> {
    let wanted = |state: &JobState| filter.states.is_empty() || filter.states.contains(state);
    // By its kind of error a job is found that has not ended, or has failed.
    let of_kind = |state: &JobState| filter.fingerprint.is_none() || !state.finished() || *state == JobState::Failed;
    let all = JobState::ALL.into_iter().filter(|state| state.finished() == finished);
    all.filter(wanted).filter(of_kind).map(JobState::code).collect()
}

/// Names as the statements take them; `None`: any.
struct Lists<'a> {
    queues: Option<Vec<&'a str>>,
    groups: Option<Vec<&'a str>>,
    tasks: Option<Vec<&'a str>>,
    masked: Vec<&'a str>,
}

impl<'a> Lists<'a> {
    fn of(filter: &'a ListFilter) -> Self {
        Self {
            queues: filter.queues.as_ref().map(|names| names.iter().map(|name| name.as_str()).collect()),
            groups: filter.groups.as_ref().map(|names| names.iter().map(|name| name.as_str()).collect()),
            tasks: filter.tasks.as_ref().map(|names| names.iter().map(|name| name.as_str()).collect()),
            masked: filter.masked.iter().map(|name| name.as_str()).collect(),
        }
    }
}

fn looked(found: &[Row], edge: &[Row], limit: u32) -> Result<Looked> {
    let mut names = Names::default();
    let jobs = found.iter().map(|row| rows::job(row, &mut names)).collect::<Result<Vec<_>>>()?;
    // A full page stops the look before its edge.
    let down_to = match jobs.last() {
        Some(last) if jobs.len() >= limit as usize => Some(last.id),
        _ => edge.first().map(|row| get(row, 0).map(JobId::from_uuid)).transpose()?,
    };
    Ok(Looked { jobs, down_to })
}
