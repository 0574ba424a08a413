//! A node in the foreground: ready, work, stop.

use std::{
    collections::BTreeSet,
    io::{self, IsTerminal, Write},
    time::Duration,
};

use serde_json::json;
use tokio::{
    runtime,
    signal::unix::{Signal, SignalKind, signal},
};
use tracing_subscriber::{
    EnvFilter, Layer, filter::LevelFilter, layer::SubscriberExt, registry::LookupSpan, util::SubscriberInitExt,
};
use turnwise::{Config, Executor, Invalid, JobLog, NodeName, Pool, Registry, StartError, Turnwise};
use turnwise_core::{secret::without_password, time::print_span};
use turnwise_executor::trace::Trace;

use crate::{
    args, demo,
    error::Failure,
    http::{Http, Listen},
    known,
    otlp::Otlp,
    place::Place,
    settings::Settings,
};

/// Between two tries to find out whether any job is left, while the database does not answer.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// The exit code that a shell reports for an interrupted process.
const INTERRUPTED: i32 = 130;
/// How long the drop of running tasks may take after the second signal to stop. Tasks that block a thread, and the one that
/// waits for the node's orderly end, take all of it.
const LAST_MOMENT: Duration = Duration::from_millis(500);

/// Running jobs that a stopping node names.
const NAMED: usize = 5;
/// Names that are tried for a node whose name no person chose, while other nodes take them at the same time.
const NAME_TRIES: u32 = 10;

/// How a node came to its end.
enum End {
    Orderly,
    /// After a second signal: no job is given back; other nodes take the jobs over, as after a crash.
    AtOnce(Box<Executor>),
}

/// Runs a short command, which needs no more than one thread.
pub(crate) fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(no_runtime)?.block_on(command)
}

/// Does `work` until it is done or a person interrupts it. The signal counts from here on, also while it is not awaited; even where the
/// caller's shell has it ignored, as it does for commands in the background.
pub(crate) async fn until_interrupted<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let mut interrupt = listen_for(SignalKind::interrupt())?;
    tokio::select! {
        done = work => done,
        _ = interrupt.recv() => Err(Failure::Interrupted),
    }
}

fn listen_for(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::Other(format!("cannot listen for signals: {error}")))
}

pub(crate) fn serve(settings: &Settings, call: &args::Serve) -> Result<(), Failure> {
    // What tasks log goes to their jobs' logs too, whatever the level on stderr.
    let to_jobs = JobLog::new().with_filter(LevelFilter::INFO);
    let otlp = Otlp::from_variables()?;
    tracing_subscriber::registry().with(stderr_log(settings, "info")?).with(to_jobs).with(otlp.layer()).init();
    Otlp::say_if_left_out();
    let (registry, elsewhere) = known_tasks(settings, call)?;
    let trace = match &call.trace {
        Some(path) => {
            let bad = |error| Invalid::new("trace", format!("{}: {error}", path.display()));
            Trace::to_file(path).map_err(bad)?
        }
        None => Trace::off(),
    };
    let listen = settings.listen()?;
    let parts = Parts {
        config: settings.executor()?,
        named: settings.names_node(),
        pools: settings.pools()?,
        registry,
        elsewhere,
        trace,
    };
    // Tasks have threads of their own.
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(no_runtime)?;
    let served = runtime.block_on(run(settings, call, listen, &otlp, parts));
    if let Ok(End::AtOnce(executor)) = served {
        // Not by `exit` alone, which would leave the programs of command tasks running.
        executor.abandon(LAST_MOMENT);
        std::process::exit(INTERRUPTED);
    }
    otlp.flush();
    runtime.shutdown_background();
    served.map(|_| ())
}

/// The tasks of this node, and those of other nodes that they may go on as.
fn known_tasks(settings: &Settings, call: &args::Serve) -> Result<(Registry, BTreeSet<String>), Failure> {
    let mut registry = if call.demo_tasks { demo::tasks().map_err(StartError::from)? } else { Registry::new() };
    let mut tasks = settings.tasks()?;
    for command in std::mem::take(&mut tasks.commands) {
        registry.add(command).map_err(|error| Failure::Input(error.to_string()))?;
    }
    tasks.check(&registry).map_err(|problem| settings.bad_task(&problem))?;
    let elsewhere = tasks.needed_elsewhere(&registry);
    Ok((registry, elsewhere))
}

/// What a node is made of.
#[derive(Clone)]
struct Parts {
    config: Config,
    /// Whether a person chose the name; one that was not chosen may get a number.
    named: bool,
    pools: Vec<(String, Pool)>,
    registry: Registry,
    /// Tasks of other nodes that those of this one may go on as.
    elsewhere: BTreeSet<String>,
    trace: Trace,
}

async fn run(
    settings: &Settings,
    call: &args::Serve,
    listen: Listen,
    otlp: &Otlp,
    parts: Parts,
) -> Result<End, Failure> {
    let mut signals = Signals::new()?;
    // Before the node: an address that cannot be had ends the command while nothing has begun.
    let listener = listen.bind().await?;
    let turnwise = tokio::select! {
        opened = settings.open_for_a_node() => opened?,
        () = signals.next() => return Ok(End::Orderly),
    };
    listen.check(&turnwise).await?;
    let executor = tokio::select! {
        started = start(&turnwise, parts.clone()) => started?,
        () = signals.next() => return Ok(End::Orderly),
    };
    let http = listener.map(|listener| Http::start(&turnwise, listener, listen)).transpose()?;
    if let Some(http) = &http {
        http.watch(&executor);
        http.send_spans_to(otlp);
    }
    let ready = ready_line(executor.name(), &parts, settings.database(), http.as_ref());
    // Other nodes may start later: no reason not to work.
    for line in known::unknown(&Place::Database(Box::new(turnwise.clone())), &parts.elsewhere).await.unwrap_or_default()
    {
        tracing::warn!("{line}");
    }
    // The process that started the node may have stopped reading; the node works all the same.
    let _ = writeln!(io::stdout(), "{ready}").and_then(|()| io::stdout().flush());
    tokio::select! {
        () = signals.next() => say(settings, "INFO", &stopping(&executor, &parts.config)),
        () = drained(&executor), if call.until_empty => tracing::info!("stopping: no job is left to run"),
    }
    if let Some(http) = &http {
        http.stop_soon();
    }
    tokio::select! {
        () = executor.stop() => {}
        () = signals.next() => {
            say(settings, "WARN", &abandoned(&executor, &parts.config));
            return Ok(End::AtOnce(Box::new(executor)));
        }
    }
    // Last: until here a caller could learn how its job ended.
    if let Some(http) = http {
        tokio::select! {
            () = http.stop() => {}
            () = signals.next() => {}
        }
    }
    let stale = executor.stats().stale;
    if stale > 0 {
        let _ = writeln!(io::stderr(), "refused {stale} stale settles: the jobs were no longer this node's");
    }
    Ok(End::Orderly)
}

/// Starts the node. Where a living one has its name and no person chose it, it gets the next number that is free.
async fn start(turnwise: &Turnwise, mut parts: Parts) -> Result<Executor, Failure> {
    let host = parts.config.name.clone();
    for _ in 0..NAME_TRIES {
        let Parts { config, pools, registry, trace, .. } = parts.clone();
        let builder = turnwise.executor_with(config).registry(registry).trace(trace);
        let builder = pools.into_iter().fold(builder, |builder, (name, pool)| builder.pool(name, |_| pool));
        let executor = builder.build()?;
        match executor.start().await {
            Ok(()) => return Ok(executor),
            Err(StartError::NameTaken { .. }) if !parts.named => {
                let fleet = turnwise.nodes().await?;
                let living =
                    |name: &str| fleet.nodes.iter().any(|node| node.name.as_str() == name && node.alive(fleet.now));
                parts.config.name = NodeName::new(free_number(host.as_str(), living))?;
                tracing::info!(name = %parts.config.name, "another node of this host is called {host}");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::Other(format!("every name from {host} on is taken again and again; choose one with --name")))
}

/// `host-2`, or the first number after it whose name is not taken.
fn free_number(host: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut names = (2..).map(|number| format!("{host}-{number}"));
    names.find(|name| !taken(name)).expect("there is no end of numbers")
}

/// To stderr, whatever is logged: the person who pressed Ctrl-C waits for it.
fn say(settings: &Settings, level: &str, line: &str) {
    let line = match settings.log_as_json() {
        Ok(true) => json!({"level": level, "message": line, "target": "turnwise"}).to_string(),
        _ => line.to_owned(),
    };
    // A closed stderr is no reason not to stop.
    let _ = writeln!(io::stderr(), "{line}");
}

fn stopping(executor: &Executor, config: &Config) -> String {
    let running = executor.running();
    let wait = print_span(config.await_termination);
    let jobs = jobs_run(running);
    if running == 0 || !config.wait_for_tasks_on_shutdown {
        format!("stopping; {jobs}")
    } else {
        let (which, them) = (which_run(executor, running), if running == 1 { "it" } else { "them" });
        format!(
            "stopping; {jobs}, waiting up to {wait} for {them} to end; signal again to leave {them} to other nodes{which}"
        )
    }
}

fn abandoned(executor: &Executor, config: &Config) -> String {
    let (running, lease) = (executor.running(), print_span(config.lease));
    let (jobs, which) = (jobs_run(running), which_run(executor, running));
    format!(
        "stopping at once; {jobs}, other nodes take over what this one held when its lease of {lease} is over{which}"
    )
}

/// `; running: sleep 0190…, mail 0191… and 3 more`
fn which_run(executor: &Executor, running: usize) -> String {
    let named = executor.running_jobs(NAMED);
    if named.is_empty() {
        return String::new();
    }
    let more = match running.saturating_sub(named.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named: Vec<_> = named.into_iter().map(|(job, task)| format!("{task} {job}")).collect();
    format!("; running: {}{more}", named.join(", "))
}

fn jobs_run(running: usize) -> String {
    match running {
        0 => "no job runs".to_owned(),
        1 => "1 job runs".to_owned(),
        more => format!("{more} jobs run"),
    }
}

/// The one line on stdout; programs that start nodes wait for it.
fn ready_line(name: &NodeName, parts: &Parts, database: &str, http: Option<&Http>) -> String {
    let Parts { config: Config { core_pool_size, max_pool_size, .. }, pools, registry, .. } = parts;
    let slots = match max_pool_size {
        Some(most) if most > core_pool_size => format!("{core_pool_size} to {most} slots"),
        _ => format!("{core_pool_size} slots"),
    };
    let names: Vec<_> = pools.iter().map(|(name, _)| name.as_str()).collect();
    let pools = if names.is_empty() { String::new() } else { format!(", pools {}", names.join(" ")) };
    let tasks: Vec<_> = registry.names().map(ToString::to_string).collect();
    let tasks = if tasks.is_empty() {
        "no tasks (it only dispatches for other nodes; add [tasks.NAME] to turnwise.toml, or try --demo-tasks)"
            .to_owned()
    } else {
        format!("tasks {}", tasks.join(" "))
    };
    let http = http.map_or_else(String::new, |http| format!(", {}", http.url()));
    format!("ready: node {name}, database {}, {slots}{pools}, {tasks}{http}", without_password(database))
}

/// Waits until no job is left, also through an outage of the database.
async fn drained(executor: &Executor) {
    while let Err(error) = executor.drained().await {
        // The node itself logs that the database does not answer.
        tracing::debug!(%error, "could not find out whether any job is left; trying again");
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

/// SIGTERM, SIGINT and SIGHUP, which mean the same here: a terminal that is closed stops the node in good order.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// `None`: the node is to outlive its terminal, as `nohup` starts it.
    hang_up: Option<Signal>,
}

impl Signals {
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self {
            terminate: listen_for(SignalKind::terminate())?,
            interrupt: listen_for(SignalKind::interrupt())?,
            hang_up: if ignored(SignalKind::hangup()) { None } else { Some(listen_for(SignalKind::hangup())?) },
        })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = received(self.hang_up.as_mut()) => {}
        }
    }
}

async fn received(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether the process that started this one made it ignore the signal; where the system does not tell, it is taken to be heard.
fn ignored(signal: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u128::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask >> (signal.as_raw_value() - 1) & 1 == 1
}

/// The log on stderr. To be called once: a process has one log.
pub(crate) fn stderr_log<S>(settings: &Settings, unless_said: &str) -> Result<Box<dyn Layer<S> + Send + Sync>, Failure>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
{
    let filter = settings.log().unwrap_or(unless_said);
    let filter: EnvFilter = filter.parse().map_err(|error| Invalid::new("log", format!("{filter:?}: {error}")))?;
    let stderr = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    Ok(if settings.log_as_json()? {
        // Each line has the fields of all spans that it is in, such as the trace of a job.
        stderr.json().flatten_event(true).with_current_span(false).with_filter(filter).boxed()
    } else {
        stderr.with_ansi(io::stderr().is_terminal()).with_filter(filter).boxed()
    })
}

pub(crate) fn no_runtime(error: io::Error) -> Failure {
    Failure::Other(format!("cannot start threads: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_nobody_named_gets_the_first_free_number() {
        assert_eq!(free_number("host", |_| false), "host-2");
        assert_eq!(free_number("host", |name| ["host-2", "host-4"].contains(&name)), "host-3");
    }
}
