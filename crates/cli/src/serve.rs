//! A node in the foreground: ready, work, stop.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use tokio::{
    runtime,
    signal::unix::{Signal, SignalKind, signal},
};
use tracing_subscriber::{
    EnvFilter, Layer, filter::LevelFilter, layer::SubscriberExt, registry::LookupSpan, util::SubscriberInitExt,
};
use turnwise::{Config, Executor, Invalid, JobLog, Pool, Registry, StartError};
use turnwise_executor::trace::Trace;

use crate::{
    args, demo,
    error::Failure,
    settings::{Settings, without_password},
};

/// Between two tries to find out whether anything is left, while the database does not answer.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// As a shell tells of a process that was interrupted.
const INTERRUPTED: i32 = 130;
/// For running tasks to be dropped when the node is told for the second time to stop. Those that block a thread, and the
/// one that waits for the node's orderly end, take all of it.
const LAST_MOMENT: Duration = Duration::from_millis(500);

/// How a node came to its end.
enum End {
    Orderly,
    /// Told twice to stop: nothing is given back, others take it over as after a crash.
    AtOnce(Box<Executor>),
}

/// Runs a short command, which needs no more than one thread.
pub(crate) fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(no_runtime)?.block_on(command)
}

pub(crate) fn serve(settings: &Settings, wish: &args::Serve) -> Result<(), Failure> {
    // What tasks say goes to their jobs' logs too, however little of it stderr shows.
    let to_jobs = JobLog::new().with_filter(LevelFilter::INFO);
    tracing_subscriber::registry().with(stderr_log(settings, "info")?).with(to_jobs).init();
    let (config, pools) = (settings.executor()?, settings.pools()?);
    let registry = known_tasks(settings, wish)?;
    let trace = match &wish.trace {
        Some(path) => {
            let bad = |error| Invalid::new("trace", format!("{}: {error}", path.display()));
            Trace::to_file(path).map_err(bad)?
        }
        None => Trace::off(),
    };
    // Tasks have threads of their own.
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(no_runtime)?;
    let served = runtime.block_on(run(settings, wish, config, pools, registry, trace));
    if let Ok(End::AtOnce(executor)) = served {
        // Not by `exit` alone, which would leave the programs of command tasks running.
        executor.abandon(LAST_MOMENT);
        std::process::exit(INTERRUPTED);
    }
    runtime.shutdown_background();
    served.map(|_| ())
}

fn known_tasks(settings: &Settings, wish: &args::Serve) -> Result<Registry, Failure> {
    let mut registry = if wish.demo_tasks { demo::tasks().map_err(StartError::from)? } else { Registry::new() };
    for command in settings.commands()? {
        registry.add(command).map_err(|error| Failure::Input(error.to_string()))?;
    }
    Ok(registry)
}

async fn run(
    settings: &Settings,
    wish: &args::Serve,
    config: Config,
    pools: Vec<(String, Pool)>,
    registry: Registry,
    trace: Trace,
) -> Result<End, Failure> {
    let mut signals = Signals::new()?;
    let ready = ready_line(&config, &pools, settings.database(), &registry);
    let turnwise = tokio::select! {
        opened = settings.open() => opened?,
        () = signals.next() => return Ok(End::Orderly),
    };
    let builder = turnwise.executor_with(config).registry(registry).trace(trace);
    let builder = pools.into_iter().fold(builder, |builder, (name, pool)| builder.pool(name, |_| pool));
    let executor = builder.build()?;
    tokio::select! {
        started = executor.start() => started?,
        () = signals.next() => return Ok(End::Orderly),
    }
    // Whoever started the node may have stopped reading; that is no reason not to work.
    let _ = writeln!(io::stdout(), "{ready}").and_then(|()| io::stdout().flush());
    tokio::select! {
        () = signals.next() => tracing::info!("stopping"),
        () = drained(&executor), if wish.until_empty => tracing::info!("nothing is left to run"),
    }
    tokio::select! {
        () = executor.stop() => {}
        () = signals.next() => return Ok(End::AtOnce(Box::new(executor))),
    }
    let stale = executor.stats().stale;
    if stale > 0 {
        let _ = writeln!(io::stderr(), "refused {stale} stale settles");
    }
    Ok(End::Orderly)
}

/// The one line on stdout; programs that start nodes wait for it.
fn ready_line(config: &Config, pools: &[(String, Pool)], database: &str, registry: &Registry) -> String {
    let Config { name, core_pool_size, max_pool_size, .. } = config;
    let slots = match max_pool_size {
        Some(most) if most > core_pool_size => format!("{core_pool_size} to {most} slots"),
        _ => format!("{core_pool_size} slots"),
    };
    let names: Vec<_> = pools.iter().map(|(name, _)| name.as_str()).collect();
    let pools = if names.is_empty() { String::new() } else { format!(", pools {}", names.join(" ")) };
    let tasks: Vec<_> = registry.names().map(ToString::to_string).collect();
    let tasks = if tasks.is_empty() {
        "no tasks known (it dispatches for other nodes; try --demo-tasks)".to_owned()
    } else {
        format!("tasks {}", tasks.join(" "))
    };
    format!("ready: node {name}, database {}, {slots}{pools}, {tasks}", without_password(database))
}

/// Waits until nothing is left, also through an outage of the database.
async fn drained(executor: &Executor) {
    while let Err(error) = executor.drained().await {
        tracing::warn!(%error, "could not see whether anything is left");
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

/// SIGTERM and SIGINT, which mean the same here.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn new() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::Other(format!("listening for signals: {error}")));
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The log on stderr. Asked for once, it is the only one of the process.
pub(crate) fn stderr_log<S>(settings: &Settings, unless_said: &str) -> Result<impl Layer<S> + use<S>, Failure>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
{
    let filter = settings.log().unwrap_or(unless_said);
    let filter: EnvFilter = filter.parse().map_err(|error| Invalid::new("log", format!("{filter:?}: {error}")))?;
    let stderr = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    Ok(stderr.with_filter(filter))
}

pub(crate) fn no_runtime(error: io::Error) -> Failure {
    Failure::Other(format!("starting threads: {error}"))
}
