//! Lists of jobs for operators.

use std::collections::BTreeSet;

use tokio_postgres::Row;
use turnwise_core::{JobId, JobState};
use turnwise_store::{
    Result,
    operators::{AskJobs, FoundBy, JobPage, ListFilter, Looked},
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

/// For the jobs of a group: the plan goes down the index that has them in order, which is never a detour where a page is wanted.
const IN_ORDER: &str = "set local enable_sort = off; set local enable_bitmapscan = off";

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

const BY_GROUP: [Look; 2] = [
    Look {
        list: include_str!("../sql/list_group.sql"),
        edge: include_str!("../sql/list_edge_group.sql"),
        finished: false,
    },
    Look {
        list: include_str!("../sql/list_group_history.sql"),
        edge: include_str!("../sql/list_edge_group_history.sql"),
        finished: true,
    },
];

pub(crate) async fn list_jobs(store: &Inner, ask: &AskJobs) -> Result<JobPage> {
    let fail = failed("list jobs");
    let Some(first) = ask.first() else { return Ok(JobPage::default()) };
    let (filter, limit) = (&ask.filter, ask.limit());
    let client = connection(&store.pools.people).await?;
    if let FoundBy::UniqueKey(key) = filter.found_by() {
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
    let (unfinished, finished) = (states(filter, false), states(filter, true));
    let of_kind = matches!(filter.found_by(), FoundBy::Fingerprint(_));
    let groups = match filter.found_by() {
        FoundBy::Groups(_) => names.groups.as_deref(),
        _ => None,
    };
    let wanted: Vec<(&Look, Option<&&str>)> = match groups {
        Some(groups) => groups.iter().flat_map(|group| BY_GROUP.iter().map(move |look| (look, Some(group)))).collect(),
        None if of_kind => BY_FINGERPRINT.iter().map(|look| (look, None)).collect(),
        None => ALL.iter().map(|look| (look, None)).collect(),
    };
    let (mut parts, mut edges) = (Vec::new(), Vec::new());
    for (look, group) in wanted {
        let states = if look.finished { &finished } else { &unfinished };
        if states.is_empty() {
            continue;
        }
        let group: Option<Bind<'_>> = group.map(|group| group as Bind<'_>);
        let mut list: Vec<Bind<'_>> = vec![
            &id,
            &looks,
            &rows,
            states,
            &names.queues,
            group.unwrap_or(&names.groups),
            &names.tasks,
            &node,
            &since,
            &until,
            &filter.args,
            &names.masked,
        ];
        let mut edge: Vec<Bind<'_>> = vec![&id, &looks];
        edge.extend(group);
        if of_kind || group.is_some() {
            list.push(&filter.fingerprint);
        }
        if look.finished {
            edge.push(if of_kind { &filter.fingerprint } else { states });
        }
        parts.push(Part::of(look.list, list));
        // Where every row is one that is asked for, a page that is not full ends with the table.
        let every = (look.finished || filter.states.is_empty()) && only_by_states(filter, group.is_some());
        edges.push(!every);
        if !every {
            parts.push(Part::of(look.edge, edge));
        }
    }
    let then = if groups.is_some() { IN_ORDER } else { "" };
    let answers = client.in_a_transaction(BEGIN, then, &parts).await.map_err(fail)?;
    let mut answers = answers.into_iter();
    let mut looked = Vec::with_capacity(edges.len());
    for edge in edges {
        let (found, edge) = (answers.next(), if edge { answers.next() } else { None });
        looked.push(read_look(&found.unwrap_or_default(), &edge.unwrap_or_default(), limit)?);
    }
    let mut page = JobPage::of(looked, limit);
    unique::show_held(&client, &mut page.jobs).await?;
    Ok(page)
}

/// Whether nothing else is asked for than states, and groups where those lead to the jobs.
fn only_by_states(filter: &ListFilter, by_group: bool) -> bool {
    let groups = if by_group { None } else { filter.groups.clone() };
    ListFilter { states: BTreeSet::new(), groups, ..filter.clone() }.is_empty()
}

/// The wanted states that are finished, or those that are not.
fn states(filter: &ListFilter, finished: bool) -> Vec<i16> {
    let wanted = |state: &JobState| state.finished() == finished && filter.wants_state(*state);
    JobState::ALL.into_iter().filter(wanted).map(JobState::code).collect()
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

fn read_look(found: &[Row], edge: &[Row], limit: u32) -> Result<Looked> {
    let mut names = Names::default();
    let jobs = found.iter().map(|row| rows::job(row, &mut names)).collect::<Result<Vec<_>>>()?;
    // A full page stops the look before its edge.
    let down_to = match jobs.last() {
        Some(last) if jobs.len() >= limit as usize => Some(last.id),
        _ => edge.first().map(|row| get(row, 0).map(JobId::from_uuid)).transpose()?,
    };
    Ok(Looked { jobs, down_to })
}
