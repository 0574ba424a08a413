//! `/metrics`, for Prometheus: what happened in the installation since its beginning, what waits now, and what this process does.
//!
//! Numbers of the installation are read from the store, where they only grow; every server answers the same. Numbers of a process carry the
//! name of its node.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::http::StatusCode;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};
use turnwise::{
    Executor, PoolStats, QueueName, Stats,
    statistics::{AskStatistics, BOUNDS, By, Counted, Histogram, Of, Point, Row, Step, Sums},
};
use turnwise_core::access::Target;

use crate::{
    call::{Call, Reply},
    limits::{SCRAPED_GROUPS, SCRAPED_QUEUES, SCRAPED_SHARE_TIME, SCRAPED_TASKS, WAITING_AGE},
    names::counted,
    problem::Problem,
    routes::{Route, Verb},
};

/// The format that Prometheus asks for first.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Of unfinished jobs.
const STATES: [&str; 4] = ["waiting", "scheduled", "running", "stuck"];

/// What this process counts for itself.
#[derive(Default)]
pub(crate) struct Metrics {
    node: OnceLock<Executor>,
    /// By route.
    http: OnceLock<Vec<HttpTally>>,
    /// What waits, as it was last read.
    waiting: Mutex<Option<(Instant, Vec<WaitingQueue>)>>,
}

#[derive(Debug)]
struct HttpTally {
    verb: Verb,
    path: &'static str,
    /// By the first digit of their status, from 1xx on.
    answers: [AtomicU64; 5],
    micros: AtomicU64,
}

#[derive(Debug, Clone)]
struct WaitingQueue {
    queue: QueueName,
    /// By state, as in [`STATES`].
    jobs: [usize; 4],
    oldest: Option<Duration>,
}

impl Metrics {
    /// How long ago the database has answered the node of this process.
    pub(crate) fn node_heard(&self) -> Option<Duration> {
        self.node.get()?.stats().lease_age
    }

    pub(crate) fn set_node(&self, node: Executor) {
        // A process has one node.
        let _ = self.node.set(node);
    }

    pub(crate) fn set_routes(&self, routes: &'static [Route]) {
        let tally = |route: &Route| HttpTally {
            verb: route.verb,
            path: route.path,
            answers: Default::default(),
            micros: AtomicU64::new(0),
        };
        self.http.get_or_init(|| routes.iter().map(tally).collect());
    }

    /// A request to the route with this number was answered.
    pub(crate) fn answered(&self, route: usize, status: StatusCode, took: Duration) {
        if let Some(tally) = self.http.get().and_then(|http| http.get(route)) {
            let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
            tally.answers[class].fetch_add(1, Ordering::Relaxed);
            tally.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }
}

pub(crate) async fn serve(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Installation)?;
    let turnwise = call.turnwise();
    let totals = turnwise.totals().await?;
    let waiting = waiting(&call).await;
    let shares = shares(&call, &totals).await?;
    let fleet = turnwise.nodes().await?;
    let (mut alive, mut slots) = (0, 0);
    for node in fleet.nodes.iter().filter(|node| node.alive(fleet.now)) {
        (alive, slots) = (alive + 1, slots + u64::from(node.slots));
    }
    let losses = fleet.losses.len();
    let queues = busiest(totals.iter().map(|row| (row.queue.clone(), row.sums.ended())), SCRAPED_QUEUES);
    let installation = Installation { totals, queues, waiting, shares, nodes: [alive, slots, losses as u64] };
    let mut registry = Registry::with_prefix("turnwise");
    registry.register_collector(Box::new(installation));
    registry.register_collector(Box::new(Process::of(call.service.metrics())));
    let mut body = String::new();
    text::encode(&mut body, &registry).map_err(|fmt::Error| Problem::away("the metrics could not be written"))?;
    Ok(Reply::of(CONTENT_TYPE, body))
}

/// What waits. To count it takes a look at the backlog, so several scrapes share one.
async fn waiting(call: &Call) -> Vec<WaitingQueue> {
    let kept = &call.service.metrics().waiting;
    let known = kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (fresh, known) = known.map_or((false, Vec::new()), |(at, known)| (at.elapsed() < WAITING_AGE, known));
    if fresh {
        return known;
    }
    // Another request may look at the backlog for long: the other numbers do not wait for it.
    let Ok(overview) = counted(call).await else { return known };
    let queues = overview.queues.iter().map(|(name, queue)| WaitingQueue {
        queue: name.clone(),
        jobs: [queue.jobs.waiting, queue.jobs.scheduled, queue.jobs.running, queue.jobs.stuck],
        oldest: queue.oldest.map(|due| overview.now.since(due)),
    });
    let mut waiting: Vec<_> = queues.collect();
    waiting.sort_by_key(|queue| Reverse(queue.jobs.iter().sum::<usize>()));
    waiting.truncate(SCRAPED_QUEUES);
    *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), waiting.clone()));
    waiting
}

/// What the busiest groups of the busiest queues used in the last minutes, and could claim.
async fn shares(call: &Call, totals: &[Row]) -> Result<Vec<Point>, Problem> {
    let mut busy: BTreeMap<&QueueName, u64> = BTreeMap::new();
    for row in totals {
        *busy.entry(&row.queue).or_default() += row.sums.used;
    }
    let mut busy: Vec<_> = busy.into_iter().map(|(queue, used)| (used, queue)).collect();
    busy.sort_by(|a, b| b.cmp(a));
    let until = Step::Minute.begin(call.turnwise().now().await?);
    let mut shares = Vec::new();
    for (_, queue) in busy.into_iter().take(SCRAPED_QUEUES) {
        let ask = AskStatistics {
            queue: Some(queue.clone()),
            since: Some(until.minus(SCRAPED_SHARE_TIME)),
            until: Some(until),
            ..AskStatistics::by(By::Group, Step::Minute)
        };
        let mut groups: BTreeMap<Of, Sums> = BTreeMap::new();
        for point in call.turnwise().statistics(&ask).await? {
            groups.entry(point.row.of).or_default().add(&point.row.sums);
        }
        let mut groups: Vec<_> = groups.into_iter().filter(|(of, _)| matches!(of, Of::Group(_))).collect();
        groups.sort_by_key(|(_, sums)| Reverse((sums.used, sums.entitled)));
        groups.truncate(SCRAPED_GROUPS);
        let point = |(of, sums)| Point { at: until, step: Step::Minute, row: Row { queue: queue.clone(), of, sums } };
        shares.extend(groups.into_iter().map(point));
    }
    Ok(shares)
}

/// The names with the most ends, at most so many. A name may come and go with its rank: a series that is away does not fall. Those without
/// series are not added up to one, which would fall whenever one of them gets its own.
fn busiest<N: Ord + Clone>(names: impl Iterator<Item = (N, u64)>, most: usize) -> BTreeSet<N> {
    let mut sums: BTreeMap<N, u64> = BTreeMap::new();
    names.for_each(|(name, ended)| *sums.entry(name).or_default() += ended);
    let mut sums: Vec<_> = sums.into_iter().map(|(name, ended)| (Reverse(ended), name)).collect();
    sums.sort();
    sums.into_iter().take(most).map(|(_, name)| name).collect()
}

/// The rows of tasks with series of their own.
fn of_busiest_tasks(totals: &[Row]) -> impl Iterator<Item = &Row> {
    let name = |row: &Row| (row.queue.clone(), row.of.clone());
    let names = busiest(totals.iter().map(|row| (name(row), row.sums.ended())), SCRAPED_TASKS);
    totals.iter().filter(move |row| names.contains(&name(row)))
}

/// What all servers of the installation say alike.
#[derive(Debug)]
struct Installation {
    totals: Vec<Row>,
    /// The busiest ones.
    queues: BTreeSet<QueueName>,
    waiting: Vec<WaitingQueue>,
    shares: Vec<Point>,
    /// Alive, their slots, and those lost within a day.
    nodes: [u64; 3],
}

type Encoded = Result<(), fmt::Error>;

/// One metric of several series.
struct Family<'a>(MetricEncoder<'a>);

impl<'a> Family<'a> {
    fn begin(
        encoder: &'a mut DescriptorEncoder<'_>,
        name: &'a str,
        help: &str,
        unit: Option<&'a Unit>,
        kind: MetricType,
    ) -> Result<Self, fmt::Error> {
        Ok(Self(encoder.encode_descriptor(name, help, unit, kind)?))
    }

    fn counter(&mut self, labels: &impl EncodeLabelSet, value: u64) -> Encoded {
        ConstCounter::new(value).encode(self.0.encode_family(labels)?)
    }

    fn seconds(&mut self, labels: &impl EncodeLabelSet, micros: u64) -> Encoded {
        ConstCounter::new(Duration::from_micros(micros).as_secs_f64()).encode(self.0.encode_family(labels)?)
    }

    fn gauge(&mut self, labels: &impl EncodeLabelSet, value: f64) -> Encoded {
        ConstGauge::new(value).encode(self.0.encode_family(labels)?)
    }

    fn histogram(&mut self, labels: &impl EncodeLabelSet, histogram: &Histogram) -> Encoded {
        let seconds = |micros: u64| Duration::from_micros(micros).as_secs_f64();
        let bounds = BOUNDS.iter().map(|bound| seconds(*bound)).chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds.zip(histogram.buckets).collect();
        let mut series = self.0.encode_family(labels)?;
        series.encode_histogram::<NoLabelSet>(seconds(histogram.micros), histogram.count(), &buckets, None)
    }
}

fn task(of: &Of) -> &str {
    match of {
        Of::Task(task) => task.as_str(),
        _ => "",
    }
}

impl Collector for Installation {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Encoded {
        let encoder = &mut encoder;
        let help = "Jobs that nodes have got, by queue and task.";
        let mut started = Family::begin(encoder, "jobs_started", help, None, MetricType::Counter)?;
        for Row { queue, of, sums } in of_busiest_tasks(&self.totals) {
            started.counter(&[("queue", queue.as_str()), ("task", task(of))], sums.count(Counted::Started))?;
        }
        let help = "Runs that are over and jobs that ended without one, by queue, task and outcome.";
        let mut ended = Family::begin(encoder, "runs_ended", help, None, MetricType::Counter)?;
        for Row { queue, of, sums } in of_busiest_tasks(&self.totals) {
            for outcome in Counted::ALL.into_iter().skip(1) {
                let labels = [("queue", queue.as_str()), ("task", task(of)), ("outcome", outcome.name())];
                ended.counter(&labels, sums.count(outcome))?;
            }
        }
        let help = "How long runs have had their slots, by queue and task.";
        let mut used = Family::begin(encoder, "slot", help, Some(&Unit::Seconds), MetricType::Counter)?;
        for Row { queue, of, sums } in of_busiest_tasks(&self.totals) {
            used.seconds(&[("queue", queue.as_str()), ("task", task(of))], sums.runs().micros)?;
        }
        let mut by_queue: BTreeMap<&QueueName, [Histogram; 2]> = BTreeMap::new();
        for row in self.totals.iter().filter(|row| self.queues.contains(&row.queue)) {
            let [waits, runs] = by_queue.entry(&row.queue).or_default();
            waits.add(&row.sums.histogram(Counted::Started));
            runs.add(&row.sums.runs());
        }
        let help = "How long jobs had been due when a node got them, by queue.";
        let mut waits = Family::begin(encoder, "wait", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (queue, [histogram, _]) in &by_queue {
            waits.histogram(&[("queue", queue.as_str())], histogram)?;
        }
        let help = "How long runs took, by queue.";
        let mut runs = Family::begin(encoder, "run", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (queue, [_, histogram]) in &by_queue {
            runs.histogram(&[("queue", queue.as_str())], histogram)?;
        }
        let help = "Unfinished jobs, by queue and state.";
        let mut jobs = Family::begin(encoder, "jobs", help, None, MetricType::Gauge)?;
        let idle = || self.queues.iter().filter(|queue| !self.waiting.iter().any(|known| known.queue == **queue));
        for WaitingQueue { queue, jobs: states, .. } in &self.waiting {
            for (state, count) in STATES.into_iter().zip(states) {
                let count = u32::try_from(*count).unwrap_or(u32::MAX);
                jobs.gauge(&[("queue", queue.as_str()), ("state", state)], f64::from(count))?;
            }
        }
        for queue in idle() {
            for state in STATES {
                jobs.gauge(&[("queue", queue.as_str()), ("state", state)], 0.0)?;
            }
        }
        let help = "For how long the job that has waited longest has been due, by queue.";
        let mut oldest = Family::begin(encoder, "oldest_wait", help, Some(&Unit::Seconds), MetricType::Gauge)?;
        for waiting in &self.waiting {
            let age = waiting.oldest.unwrap_or_default();
            oldest.gauge(&[("queue", waiting.queue.as_str())], age.as_secs_f64())?;
        }
        for queue in idle() {
            oldest.gauge(&[("queue", queue.as_str())], 0.0)?;
        }
        let per_second = |micros: u64| Duration::from_micros(micros).as_secs_f64() / SCRAPED_SHARE_TIME.as_secs_f64();
        for (name, help, number) in [
            (
                "group_used_slots",
                "Slots that a group used on average in the last minutes; the busiest groups only.",
                (|sums: &Sums| sums.used) as fn(&Sums) -> u64,
            ),
            (
                "group_entitled_slots",
                "Slots that a group could claim while it had jobs ready; the same groups.",
                |sums: &Sums| sums.entitled,
            ),
        ] {
            let mut share = Family::begin(encoder, name, help, None, MetricType::Gauge)?;
            for Point { row: Row { queue, of, sums }, .. } in &self.shares {
                let Of::Group(group) = of else { continue };
                share.gauge(&[("queue", queue.as_str()), ("group", group.as_str())], per_second(number(sums)))?;
            }
        }
        let names = ["nodes", "slots", "lost_nodes"];
        let helps = ["Nodes that are alive.", "Their slots.", "Nodes that were lost within a day."];
        for ((name, help), number) in names.into_iter().zip(helps).zip(self.nodes) {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            Family::begin(encoder, name, help, None, MetricType::Gauge)?.0.encode_gauge(&f64::from(number))?;
        }
        Ok(())
    }
}

/// What only this process knows.
#[derive(Debug)]
struct Process {
    node: Option<NodeNow>,
    http: Vec<(&'static str, &'static str, [u64; 5], u64)>,
}

#[derive(Debug)]
struct NodeNow {
    name: String,
    stats: Stats,
    pools: Vec<PoolStats>,
}

impl Process {
    fn of(metrics: &Metrics) -> Self {
        let node = metrics.node.get().map(|node| NodeNow {
            name: node.name().to_string(),
            stats: node.stats(),
            pools: node.pools(),
        });
        let http = metrics.http.get().into_iter().flatten().map(|tally| {
            let answers = tally.answers.each_ref().map(|count| count.load(Ordering::Relaxed));
            let method = match tally.verb {
                Verb::Get => "GET",
                Verb::Post => "POST",
                Verb::Put => "PUT",
                Verb::Patch => "PATCH",
                Verb::Delete => "DELETE",
            };
            (tally.path, method, answers, tally.micros.load(Ordering::Relaxed))
        });
        Self { node, http: http.filter(|(_, _, answers, _)| answers.iter().any(|count| *count > 0)).collect() }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Encoded {
        let encoder = &mut encoder;
        let name = self.node.as_ref().map_or("", |node| node.name.as_str());
        if let Some(NodeNow { stats, pools, .. }) = &self.node {
            let counters = [
                ("node_settled", "Ends of runs that this node has stored.", stats.settled),
                ("node_stale", "Writes of this node that were refused, the job being in other hands.", stats.stale),
                ("node_lost", "Times that this node was declared lost and joined anew.", stats.lost),
                ("node_looks", "Looks for news by the dispatcher of this node.", stats.looks),
                ("node_rings", "Rings that woke the dispatcher of this node.", stats.rings),
            ];
            for (metric, help, value) in counters {
                Family::begin(encoder, metric, help, None, MetricType::Counter)?.counter(&[("node", name)], value)?;
            }
            let help = "The term in which this node dispatches; absent while it does not.";
            let mut epoch = Family::begin(encoder, "dispatcher_epoch", help, None, MetricType::Gauge)?;
            if let Some(epoch_now) = stats.epoch {
                ConstGauge::new(epoch_now).encode(epoch.0.encode_family(&[("node", name)])?)?;
            }
            let help = "How long ago the last beat of this node was sent that the database has answered.";
            let mut age = Family::begin(encoder, "lease_age", help, Some(&Unit::Seconds), MetricType::Gauge)?;
            if let Some(age_now) = stats.lease_age {
                age.gauge(&[("node", name)], age_now.as_secs_f64())?;
            }
            let help = "Slots of a pool that are open.";
            let mut slots = Family::begin(encoder, "pool_slots", help, None, MetricType::Gauge)?;
            for pool in pools {
                slots.gauge(&[("node", name), ("pool", pool.name.as_str())], f64::from(pool.slots))?;
            }
            let help = "Tasks that run in a pool.";
            let mut running = Family::begin(encoder, "pool_running", help, None, MetricType::Gauge)?;
            for pool in pools {
                let count = u32::try_from(pool.running).unwrap_or(u32::MAX);
                running.gauge(&[("node", name), ("pool", pool.name.as_str())], f64::from(count))?;
            }
        }
        let help = "Requests that were answered, by route and the first digit of the status.";
        let mut requests = Family::begin(encoder, "http_requests", help, None, MetricType::Counter)?;
        for (path, method, answers, _) in &self.http {
            for (status, count) in ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(answers) {
                if *count > 0 {
                    let labels = [("node", name), ("route", *path), ("method", *method), ("status", status)];
                    requests.counter(&labels, *count)?;
                }
            }
        }
        let help = "How long requests took, all together, by route; long polls with their wait.";
        let mut took = Family::begin(encoder, "http_request", help, Some(&Unit::Seconds), MetricType::Counter)?;
        for (path, method, _, micros) in &self.http {
            took.seconds(&[("node", name), ("route", *path), ("method", *method)], *micros)?;
        }
        Ok(())
    }
}
