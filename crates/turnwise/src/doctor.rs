//! What is wrong with an installation, and what to do about it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), turnwise::Error> {
//! use turnwise::{Turnwise, doctor::Verdict};
//!
//! let turnwise = Turnwise::open("memory:").await?;
//! let nodes = turnwise.diagnose(1_000).await?.into_iter().find(|found| found.subject == "nodes").unwrap();
//! assert_eq!((nodes.verdict, nodes.text.as_str()), (Verdict::Bad, "none is alive: no job runs"));
//! assert_eq!(nodes.advice.as_deref(), Some("start one with `turnwise serve`"));
//! # Ok(()) }
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant, SystemTime},
};

pub use turnwise_core::doctor::{Finding, Verdict};
use turnwise_core::{
    doctor::{Lost, Picture, diagnose, lead_changes},
    strays::{self, Holder},
};
use turnwise_executor::Config;
use turnwise_store::{Load, MemoKind, memo};

use crate::{Error, Turnwise};

/// Jobs per read.
const PAGE: u32 = 10_000;

/// Unfinished jobs that are looked at for strays: a stray grows old, so the oldest are likeliest to be one. The page of the overview asks for
/// this as well, and a look at all would cost it as much as counting them.
const STRAYS: usize = 200;

impl Turnwise {
    /// Looks at the database, the nodes and the jobs, and says of each thing how it is. It changes nothing.
    ///
    /// Jobs are counted as by [`Turnwise::overview_by_dispatcher`]: at most `jobs` of them are looked at. The clock that is compared with the
    /// database's is that of the machine that this process runs on.
    ///
    /// [`Error::Invalid`] on a store without a [side for operators](Turnwise::operators).
    pub async fn diagnose(&self, jobs: usize) -> Result<Vec<Finding>, Error> {
        let vitals = self.operators()?.vitals().await?;
        // A database without a server has no clock of its own.
        let clock = if vitals.connections.is_some() { Some(self.clock_offset().await?) } else { None };
        let fleet = self.nodes().await?;
        let led = memo::led(&self.store().recall(vec![MemoKind::Led]).await?);
        let overview = self.overview_by_dispatcher(jobs).await?;
        let living = || fleet.nodes.iter().filter(|node| node.alive(fleet.now));
        let lost =
            fleet.losses.iter().map(|loss| Lost { name: loss.node.name.clone(), at: loss.lost_at, held: loss.held });
        let unknown = overview.tasks.iter().filter(|(_, task)| task.nodes == 0 && !task.jobs.is_empty());
        let picture = Picture {
            schema: vitals.schema.zip(self.schema_version()),
            machine: Config::for_this_host()
                .map_or_else(|_| "this machine".to_owned(), |config| config.name.to_string()),
            clock,
            nodes: living().count(),
            dispatcher: living().find(|node| node.dispatcher).map(|node| node.name.clone()),
            lead_changes: lead_changes(&led, fleet.now),
            lost: lost.collect(),
            unknown: unknown.map(|(name, task)| (name.clone(), task.jobs.waiting + task.jobs.stuck)).collect(),
            strays: self.strays(STRAYS).await?,
            more: overview.more,
            vitals,
        };
        Ok(diagnose(&picture))
    }

    /// Of the oldest `most` unfinished jobs, those that are said to be in a node's hands and are in none.
    async fn strays(&self, most: usize) -> Result<usize, Error> {
        let store = self.store();
        let (mut held, mut after, mut left) = (BTreeSet::new(), None, most);
        loop {
            let limit = u32::try_from(left).unwrap_or(PAGE).min(PAGE);
            let page = store.load(Load::After { id: after, limit }).await?;
            left = left.saturating_sub(page.jobs.len());
            held.extend(page.jobs.iter().filter(|head| head.state.assigned()).map(|head| (head.id, head.fence)));
            after = page.next;
            if after.is_none() || left == 0 {
                break;
            }
        }
        // Each is read after what it is compared with may have changed: a batch stands until all of its jobs are settled, and a node leaves
        // when it has none.
        for head in store.load(Load::InHands(None)).await?.jobs {
            held.remove(&(head.id, head.fence));
        }
        if held.is_empty() {
            return Ok(0);
        }
        let still = store.load(Load::These(held.iter().map(|(id, _)| *id).collect())).await?.jobs;
        let fleet = store.nodes().await?;
        let holders: BTreeMap<_, _> = fleet
            .nodes
            .iter()
            .map(|node| (node.incarnation, if node.alive(fleet.now) { Holder::Living } else { Holder::Silent }))
            .collect();
        let stray = still.iter().filter(|head| head.state.assigned() && held.contains(&(head.id, head.fence)));
        let holder = |node| holders.get(&node).copied().unwrap_or(Holder::Unknown);
        Ok(stray.filter_map(|head| strays::decide(holder(head.node?), false)).count())
    }

    /// How far the database's clock is ahead of this machine's, in microseconds: it was read between two looks at ours.
    async fn clock_offset(&self) -> Result<(i64, Duration), Error> {
        // The first question may have to wait for a connection.
        self.now().await?;
        let (asked, before) = (Instant::now(), SystemTime::now());
        let there = self.now().await?;
        let within = asked.elapsed() / 2;
        let here = before.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + within;
        let here = i64::try_from(here.as_micros()).unwrap_or(i64::MAX);
        Ok((there.micros().saturating_sub(here), within))
    }
}
