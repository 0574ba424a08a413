//! The command line. Values stay text here and core parses them, so that every error names its field in the same way.

use std::{path::PathBuf, process::ExitCode, sync::LazyLock};

use clap::{Parser, Subcommand, error::ErrorKind};

use crate::error::complain;

/// The heading of the options that every command has.
const EVERYWHERE: &str = "Global options";

/// A durable job queue in which every group gets its turn.
///
/// Settings come from flags, then from TURNWISE_* variables (TURNWISE_DATABASE, TURNWISE_SLOTS, …), then from
/// turnwise.toml.
#[derive(Debug, Parser)]
#[command(name = "turnwise", version = version(), propagate_version = true)]
pub(crate) struct Args {
    /// sqlite:FILE or postgres://USER@HOST/NAME [default: sqlite:turnwise.db]
    #[arg(long, global = true, value_name = "URL", help_heading = EVERYWHERE)]
    pub(crate) database: Option<String>,
    /// The file with the settings [default: turnwise.toml, if there is one]
    #[arg(long, global = true, value_name = "FILE", help_heading = EVERYWHERE)]
    pub(crate) config: Option<PathBuf>,
    /// What to log to stderr: error, warn, info, debug, trace, or a filter like turnwise_executor=debug
    #[arg(long, global = true, value_name = "LEVEL", help_heading = EVERYWHERE)]
    pub(crate) log: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What this binary is, and which schemas it works with.
fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let (postgres, sqlite) = (turnwise_postgres::schema_version(), turnwise_sqlite::schema_version());
        format!("{} (schema versions: PostgreSQL {postgres}, SQLite {sqlite})", turnwise::VERSION)
    });
    &VERSION
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows groups taking turns, live and without a database: one group floods, the others come later
    Demo(Demo),
    /// Runs a node: takes jobs and runs their tasks
    Serve(Box<Serve>),
    /// Submits a job and prints its id
    Enqueue(Box<Enqueue>),
    /// Lists jobs, newest first
    Jobs(Jobs),
    /// Shows everything that is recorded about a job, and what it waits for
    Job(ShowJob),
    /// Shows the log of a job
    Logs(Logs),
    /// Cancels jobs: at once, or, if a node has the job, by a request to that node to stop it
    Cancel(Chosen),
    /// Runs stuck jobs now, and failed or cancelled ones again
    Retry(Retry),
    /// Marks stuck jobs as failed
    Fail(Chosen),
    /// Lists nodes
    Nodes(Table),
    /// Explains why a job does not run yet, and when it will
    Why(OneJob),
    /// Lists queues: their settings and how many jobs they have
    Queues(Queues),
    /// Sets, pauses, resumes, seals, empties or resets a queue
    Queue(OneQueue),
    /// Lists groups: their settings and how many jobs they have
    Groups(Table),
    /// Sets, pauses, resumes or resets a group
    Group(OneGroup),
    /// Adds, lists, pauses, resumes, removes or runs a schedule, which submits jobs periodically
    Schedule(OneSchedule),
    /// Lists tasks: their limits, how many jobs they have, and how many nodes know them
    Tasks(Table),
    /// Limits a task, across all queues and groups
    Task(OneLimited),
    /// Lists the keys that jobs share: their limits and how many jobs they have
    Keys(Table),
    /// Limits a key that jobs share
    Key(OneLimited),
    /// Shows or changes the settings that all nodes share: the counting scheme, how long finished jobs and their logs are kept
    Installation(Installation),
    /// Shows how long groups would wait if something were changed; changes nothing
    Simulate(Simulate),
    /// Shows live which groups use the slots, and which share each is entitled to by its weight
    Top(Top),
    /// Measures how fast this database handles jobs; submits jobs of its own and deletes them afterwards
    Bench(Box<Bench>),
    /// Deletes finished jobs whose retention is over
    Prune(Prune),
    /// Brings the schema of the database up to date
    Migrate(Migrate),
    /// Prints a script that completes commands and options in a shell
    Completions(Completions),
    /// Prints the manual page, or writes one page for each command into a folder
    Man(Man),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell to write for
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// Write turnwise.1, turnwise-serve.1 and so on into this folder instead of printing
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Demo {
    /// Number of groups, including the one that floods [default: 100]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) groups: Option<String>,
    /// Jobs that run at a time [default: 4]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) slots: Option<String>,
    /// Longest duration of the demo, in minutes
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) minutes: Option<String>,
    /// Longest duration of the demo, in seconds [default: 20]
    #[arg(long, value_name = "N", conflicts_with = "minutes", allow_hyphen_values = true)]
    pub(crate) seconds: Option<String>,
    /// Jobs that the flood submits [default: about half of what the slots can do in the time]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) flood: Option<String>,
    /// Without fairness: first come, first served
    #[arg(long)]
    pub(crate) fifo: bool,
    /// Also draw a picture of it into this SVG file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// The node's name, unique in the fleet [default: the host's name; with a number where a node of it runs already]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Slots: jobs that run at a time, as a rule [default: two per core]
    #[arg(long, visible_alias = "slots", value_name = "N", allow_hyphen_values = true)]
    pub(crate) core_pool_size: Option<String>,
    /// Most slots while all are busy and the buffer of jobs held ready is full [default: as --core-pool-size]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) max_pool_size: Option<String>,
    /// Register the demo tasks noop, sleep {"ms":n}, flaky {"fail":n} and spin {"ms":n}
    #[arg(long)]
    pub(crate) demo_tasks: bool,
    /// Exit with code 0 when no job is left that could run
    #[arg(long)]
    pub(crate) until_empty: bool,
    /// Serve this queue only; may be repeated [default: all queues that are bound to no pool of the settings file]
    #[arg(long = "queue", value_name = "QUEUE")]
    pub(crate) queues: Vec<String>,
    /// How long a node counts as alive without a heartbeat [default: 5s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) lease: Option<String>,
    /// How often to look for jobs that no notification announced [default: 5s on PostgreSQL while notifications arrive, else 1s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) poll_interval: Option<String>,
    /// After at most this many assigned jobs, look for jobs that no notification announced [default: 1000]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) look_every: Option<String>,
    /// Name prefix of the threads that run tasks; a number follows it [default: task-]
    #[arg(long, value_name = "TEXT")]
    pub(crate) thread_name_prefix: Option<String>,
    /// Most jobs held ready on this node beyond its slots [default: 8000]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) queue_capacity: Option<String>,
    /// Most jobs assigned to this node at once, and most jobs settled at once [default: 2000]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) batch_size: Option<String>,
    /// Whether running tasks may finish when the node stops [default: true]
    #[arg(long, value_name = "BOOL")]
    pub(crate) wait_for_tasks_on_shutdown: Option<String>,
    /// How long running tasks may take to finish when the node stops [default: 30s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) await_termination: Option<String>,
    /// Most connections to PostgreSQL, not counting those of transactional tasks [default: 10]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) connections: Option<String>,
    /// Most transactional tasks with an open transaction; each uses a connection of its own [default: one for each slot]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) task_connections: Option<String>,
    /// Bring an older schema on PostgreSQL up to date before starting; nodes of earlier versions may not work with the new one
    #[arg(long)]
    pub(crate) migrate: bool,
    /// Append a record of the run to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Enqueue {
    /// The task's name
    #[arg(required_unless_present = "stdin")]
    pub(crate) task: Option<String>,
    /// The task's arguments: JSON, @FILE with JSON, or - for JSON from stdin [default: null]
    #[arg(value_name = "JSON", allow_negative_numbers = true)]
    pub(crate) args: Option<String>,
    /// The job's queue [default: default]
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// The group that the job belongs to, like a customer; groups take turns [default: default]
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// A name for a limited resource that jobs share; all jobs with the same key share one limit
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// 1 (first) to 10 (last), or high (3) or low (8); 1 to 5 count as high, 6 to 10 as low [default: 5]
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) priority: Option<String>,
    /// Start the job not before this time, like 2030-01-31T08:30:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "in", allow_hyphen_values = true)]
    pub(crate) at: Option<String>,
    /// Start the job not before this much time has passed, like 10s, 5m or 2h
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) r#in: Option<String>,
    /// When to retry a failed run: durations:10s,20s or exponential:10s,5 or manual or none [default: the task's own policy, else
    /// exponential:10s,5]
    #[arg(long, value_name = "POLICY", allow_hyphen_values = true)]
    pub(crate) retry: Option<String>,
    /// How long a run may take, like 30s [default: the task's own limit]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) timeout: Option<String>,
    /// Fail the job without a run if it has not begun after this long, like 10m
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) expires: Option<String>,
    /// At most one job with this key at a time: while another job holds the key, its id is printed and nothing is added
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) unique: Option<String>,
    /// At most one job of this task with these arguments at a time
    #[arg(long, conflicts_with = "unique")]
    pub(crate) unique_by_args: bool,
    /// What the key is unique within: task, queue, group, or any other name [default: task]
    #[arg(long, value_name = "SCOPE", allow_hyphen_values = true)]
    pub(crate) unique_scope: Option<String>,
    /// Hold the key for this long from the submit, like 10m, whether the job has ended or not [default: until the job has ended]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) unique_for: Option<String>,
    /// What to do while another job holds the key: keep that job, reject this one (exit code 3), or replace-args of that job
    /// if it has not begun
    /// [default: keep]
    #[arg(long, value_name = "POLICY", allow_hyphen_values = true)]
    pub(crate) on_duplicate: Option<String>,
    /// Begin only when these jobs have ended
    #[arg(long, value_name = "ID[,ID…]", value_delimiter = ',')]
    pub(crate) after: Vec<String>,
    /// What to do with this job when one of those fails or is cancelled: fail, run or cancel [default: fail]
    #[arg(long, value_name = "WHAT", requires = "after")]
    pub(crate) on_failure: Option<String>,
    /// Go on as this task, with the same arguments, when the retries run out [default: the task's own setting]
    #[arg(long, value_name = "TASK", allow_hyphen_values = true)]
    pub(crate) on_exhausted: Option<String>,
    /// Read jobs from stdin, one JSON object a line (task, args, queue, group, key, priority, at, in, retry, timeout,
    /// expires, unique, unique_by_args, unique_scope, unique_for, on_duplicate, as, after, on_failure,
    /// on_exhausted): all are stored or none.
    /// "as" names a job for the other lines, "after" is a list of names and ids, or "*" for all other lines
    #[arg(long, conflicts_with_all = ["task", "args", "queue", "group", "key", "priority", "at", "in", "retry", "timeout", "expires", "unique", "unique_by_args", "unique_scope", "unique_for", "on_duplicate", "after", "on_failure", "on_exhausted"])]
    pub(crate) stdin: bool,
    /// Wait until the jobs have ended. Prints the result of each, a line of JSON, instead of its id, which goes to stderr. Exit code 0:
    /// all succeeded; 4: one failed; 5: one was cancelled
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Jobs {
    /// waiting, scheduled, running, stuck, success, failed or cancelled; may be repeated
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',')]
    pub(crate) states: Vec<String>,
    /// Only jobs of this queue
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Only jobs of this group
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// Only jobs of this task
    #[arg(long)]
    pub(crate) task: Option<String>,
    /// Submitted at this time or later: like 2030-01-31T08:30:00Z, or like 2h for two hours ago
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) since: Option<String>,
    /// Submitted before this time, written as for --since
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) until: Option<String>,
    /// The job that holds this unique key now; several, if the key is held in several scopes
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) unique: Option<String>,
    /// With this text in the arguments, as they were written; looks at the newest 20000 jobs that meet the other conditions
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) args_contain: Option<String>,
    /// At most this many, up to 1000000 [default: 100]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) limit: Option<String>,
    /// Count the jobs by their error instead of listing them; without --limit, up to 1000000 jobs
    #[arg(long, value_name = "error", value_parser = ["error"])]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) table: Table,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowJob {
    /// The job's id
    pub(crate) id: String,
    /// One JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
    /// Show its state and progress until it ends. Exit code 0: it succeeded; 4: it failed; 5: it was cancelled
    #[arg(long, conflicts_with = "json")]
    pub(crate) watch: bool,
    /// Show which jobs wait for which, around this job
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    pub(crate) graph: bool,
    /// Also draw the graph into this SVG file
    #[arg(long, value_name = "FILE", requires = "graph")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Logs {
    /// The job's id
    pub(crate) id: String,
    /// Keep printing new lines until the job ends
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// The last N lines only
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) lines: Option<String>,
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneJob {
    /// The job's id
    pub(crate) id: String,
    /// One JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Queues {
    #[command(flatten)]
    pub(crate) table: Table,
    /// Count all jobs, however long that takes [default: the oldest 100000; if there are more, counts are shown like 100+]
    #[arg(long)]
    pub(crate) exact: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Chosen {
    /// Ids, or beginnings that only one job's id has
    #[arg(required_unless_present = "filter", value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// All jobs that match these conditions: state (default: for retry failed, else all it can be done to), task, queue, group,
    /// fingerprint; like "task=mail fingerprint=3f0c…"
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "ids", num_args = 1..)]
    pub(crate) filter: Vec<String>,
    /// At most this many, newest first
    #[arg(long, value_name = "N", requires = "filter", allow_hyphen_values = true)]
    pub(crate) limit: Option<String>,
    /// Only show which jobs it would be done to
    #[arg(long, requires = "filter")]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short, requires = "filter")]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    pub(crate) chosen: Chosen,
    /// Also run jobs once more that have succeeded: their tasks do all of it again
    #[arg(long)]
    pub(crate) again: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    /// drain: run a full table of jobs. submit: store jobs one by one, from many callers at once. bulk: store them in
    /// batches of 10000. latency: one job every 50 ms, from its commit to its start. lifecycle: submit and run at once,
    /// from submit to stored end. pinned: drain while another session holds a snapshot open. idle: how many statements a node
    /// sends that has nothing to do
    #[arg(long, value_name = "MODE", default_value = "drain", hide_possible_values = true,
        value_parser = ["drain", "submit", "bulk", "latency", "lifecycle", "pinned", "idle"])]
    pub(crate) mode: String,
    /// Number of jobs [default: 100000; 20000 for submit and lifecycle, 200 for latency, 300000 for pinned]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) jobs: Option<String>,
    /// Number of groups that the jobs are spread over, in turn [default: 1000]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) groups: Option<String>,
    /// Size of a job's arguments, at least [default: 100]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    pub(crate) args_bytes: Option<String>,
    /// Jobs that run at a time [default: as in the settings of a node]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) slots: Option<String>,
    /// Callers that submit at the same time, in the modes submit and lifecycle [default: 50]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) callers: Option<String>,
    /// How long to measure an idle node, in seconds [default: 30]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) seconds: Option<String>,
    /// For latency: the submitter, the dispatcher and the node that runs the jobs share nothing but the database
    #[arg(long)]
    pub(crate) other_node: bool,
    /// Whether finished jobs are deleted at once, or kept until the measurement ends
    #[arg(long, value_name = "WHAT", default_value = "delete", value_parser = ["delete", "keep"])]
    pub(crate) history: String,
    /// Measure although other jobs or nodes use this database; they are left alone
    #[arg(long)]
    pub(crate) force: bool,
    /// One JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Prune {
    /// Use this retention instead of the one set for the installation: 7d, or success=0,failed=30d; 0 = keep none. Shows how many
    /// jobs that are and asks before it deletes them
    #[arg(long, value_name = "RETENTION")]
    pub(crate) retention: Option<String>,
    /// Only show how many jobs would be deleted
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// How a listing is printed.
#[derive(Debug, clap::Args)]
pub(crate) struct Table {
    /// One JSON array instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Do not cut lines to the width of the terminal
    #[arg(long, conflicts_with = "json")]
    pub(crate) wide: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Listing {
    /// JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneQueue {
    #[command(subcommand)]
    pub(crate) verb: QueueVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum QueueVerb {
    /// Changes the given settings and leaves the others
    Set(Box<SetQueue>),
    /// Assigns no more jobs of the queue to nodes; running jobs go on
    Pause(PauseKnown),
    /// Ends the pause
    Resume(Known),
    /// Declares that no more jobs will come: once the queue is empty it is finished, and the queues after it may start
    Seal(Seal),
    /// Cancels all jobs of the queue that no node has, after showing them; running jobs go on
    Empty(Empty),
    /// Removes everything that is set for the queue, a pause and a seal too
    Reset(Known),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Empty {
    /// The queue's name
    pub(crate) name: String,
    /// Only show which jobs would be cancelled
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// A name that something is known about: mistyped ones are refused.
#[derive(Debug, clap::Args)]
pub(crate) struct Known {
    /// Its name
    pub(crate) name: String,
    /// Although no job and no setting has this name
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Seal {
    #[command(flatten)]
    pub(crate) queue: Known,
    /// Remove the seal: more jobs may come after all
    #[arg(long)]
    pub(crate) undo: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetQueue {
    /// The queue's name
    pub(crate) name: String,
    /// Its share among the queues, 0.001 to 1000 [default: 1]
    #[arg(long, value_name = "W", allow_hyphen_values = true)]
    pub(crate) weight: Option<String>,
    /// Jobs at a time in the whole fleet: a number, serial (one by one, in the order of submission) or unlimited
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) concurrency: Option<String>,
    /// Jobs at a time on one node: a number or none
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) per_node: Option<String>,
    /// Most job starts in a period, like 10/1m, or 10/1m,20 with a burst; or none
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub(crate) rate: Option<String>,
    /// How many jobs of high and of low priority in turn: 2,1 or strict; none = as set for the installation
    #[arg(long)]
    pub(crate) scheme: Option<String>,
    /// What a turn costs a group: time (as long as the run took) or turns (one each) [default: time]
    #[arg(long)]
    pub(crate) fairness: Option<String>,
    /// What a failed job does to the queue: block, skip or pause [default: block]
    #[arg(long)]
    pub(crate) on_error: Option<String>,
    /// Wait until this queue is finished (sealed and empty); may be repeated; none = wait for no queue
    #[arg(long, value_name = "QUEUE")]
    pub(crate) after: Vec<String>,
    /// When jobs become due that have no time of their own: a cron pattern like "0 2 * * *", optionally with a field for
    /// seconds before it; or none
    #[arg(long, value_name = "CRON", allow_hyphen_values = true)]
    pub(crate) schedule: Option<String>,
    /// The time zone of the schedule, like Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "schedule")]
    pub(crate) zone: Option<String>,
    /// Start nothing in this window, like "Mon-Fri 09:00-17:00 Europe/Berlin"; days and zone (UTC) may be left out; may be
    /// repeated; none = no window
    #[arg(long, value_name = "WINDOW", allow_hyphen_values = true)]
    pub(crate) block: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneSchedule {
    #[command(subcommand)]
    pub(crate) verb: ScheduleVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleVerb {
    /// Adds a schedule, or replaces the one with this name, and shows its next times
    Add(Box<AddSchedule>),
    /// Lists schedules with their next times
    List(Table),
    /// Shows a schedule with its arguments, its last run and its next five times
    Show(ShowSchedule),
    /// Submits no more jobs for the schedule; jobs already submitted go on
    Pause(Pause),
    /// Ends the pause; times that passed during the pause are not made up for
    Resume(Named),
    /// Removes the schedule; its jobs stay
    Remove(Named),
    /// Submits its job once now, in addition to its times, and prints the job's id
    Run(Named),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowSchedule {
    /// The schedule's name
    pub(crate) name: String,
    /// One JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AddSchedule {
    /// The schedule's name
    pub(crate) name: String,
    /// The task of its jobs
    pub(crate) task: String,
    /// Its arguments: JSON, @FILE with JSON, or - for JSON from stdin [default: null]
    #[arg(allow_hyphen_values = true)]
    pub(crate) args: Option<String>,
    /// Minute, hour, day, month and weekday like "0 2 * * *", optionally with a field for seconds before them
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true, required_unless_present = "every")]
    pub(crate) cron: Option<String>,
    /// The time zone of the pattern, like Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", conflicts_with = "every", allow_hyphen_values = true)]
    pub(crate) zone: Option<String>,
    /// A fixed interval instead of a pattern: at the multiples of 10m, 1h 30m, 15s
    #[arg(long, value_name = "SPAN", conflicts_with = "cron", allow_hyphen_values = true)]
    pub(crate) every: Option<String>,
    /// The queue of its jobs [default: default]
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) queue: Option<String>,
    /// The group that its jobs belong to [default: default]
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) group: Option<String>,
    /// The key whose limit its jobs count against
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) key: Option<String>,
    /// 1 (first) to 10 (last), or high (3) or low (8); 1 to 5 count as high, 6 to 10 as low
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    pub(crate) priority: Option<String>,
    /// What to do when a run fails [default: the task's own policy]
    #[arg(long, value_name = "POLICY", allow_hyphen_values = true)]
    pub(crate) retry: Option<String>,
    /// How long a run may take
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true)]
    pub(crate) timeout: Option<String>,
    /// Go on as this task, with the same arguments, when the retries of a job run out
    #[arg(long, value_name = "TASK", allow_hyphen_values = true)]
    pub(crate) on_exhausted: Option<String>,
    /// What to do when a time comes and the last job has not ended: skip the time, wait for the end, or allow both
    /// [default: skip]
    #[arg(long, value_name = "POLICY", allow_hyphen_values = true)]
    pub(crate) overlap: Option<String>,
    /// What to do about times that passed while no node ran: skip them, one job for all, or all, 100 at most [default: one]
    #[arg(long, value_name = "POLICY", allow_hyphen_values = true)]
    pub(crate) catch_up: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneGroup {
    #[command(subcommand)]
    pub(crate) verb: GroupVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GroupVerb {
    /// Changes the given settings and leaves the others
    Set(Box<SetGroup>),
    /// Assigns no more jobs of the group to nodes; running jobs go on
    Pause(PauseKnown),
    /// Ends the pause
    Resume(Known),
    /// Removes everything that is set for the group, a pause too
    Reset(Known),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetGroup {
    /// The group's name
    pub(crate) name: String,
    /// Its share among the groups of a queue, 0.001 to 1000 [default: 1]
    #[arg(long, value_name = "W", allow_hyphen_values = true)]
    pub(crate) weight: Option<String>,
    /// Jobs at a time in the whole fleet: a number or none
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) concurrency: Option<String>,
    /// Most job starts in a period, like 10/1m, or 10/1m,20 with a burst; or none
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub(crate) rate: Option<String>,
    /// How many jobs of high and of low priority in turn: 2,1 or strict; none = as set for its queue
    #[arg(long)]
    pub(crate) scheme: Option<String>,
    /// Most waiting jobs: a number or none. While the dispatcher counts that many, submits are refused; it counts once a second,
    /// so what is submitted within a second, or in one submit, may go beyond
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) max_waiting: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Installation {
    #[command(subcommand)]
    pub(crate) verb: InstallationVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum InstallationVerb {
    /// Shows the settings
    Show(Listing),
    /// Changes the given settings and leaves the others; nodes use them from their next heartbeat on
    Set(SetInstallation),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetInstallation {
    /// How many jobs of high and of low priority in turn: 2,1 or strict; queues and groups may have their own [default: 2,1]
    #[arg(long)]
    pub(crate) scheme: Option<String>,
    /// How long finished jobs are kept, also by state: 7d, or success=0,failed=30d; 0 = they are deleted at once; none = 7d
    #[arg(long, value_name = "RETENTION")]
    pub(crate) retention: Option<String>,
    /// How many lines of a job's log are kept, the oldest go first: a number; none = 10000
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) log_lines: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneLimited {
    #[command(subcommand)]
    pub(crate) verb: LimitedVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LimitedVerb {
    /// Changes the given settings and leaves the others
    Set(SetLimits),
    /// Removes its limits
    Reset(Known),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetLimits {
    /// The name of the task or key
    pub(crate) name: String,
    /// Jobs at a time in the whole fleet: a number or none
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) concurrency: Option<String>,
    /// Most job starts in a period, like 10/1m, or 10/1m,20 with a burst; or none
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub(crate) rate: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Pause {
    /// Its name
    pub(crate) name: String,
    /// The reason for the pause, shown by `why` and the listings
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PauseKnown {
    #[command(flatten)]
    pub(crate) pause: Pause,
    /// Although no job and no setting has this name
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Named {
    /// Its name
    pub(crate) name: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Simulate {
    /// Suppose the fleet had this many slots
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) slots: Option<String>,
    /// Suppose the group had this weight; may be repeated
    #[arg(long = "weight", value_name = "GROUP=W")]
    pub(crate) weights: Vec<String>,
    /// Suppose the queue had this concurrency (a number, serial or unlimited); may be repeated
    #[arg(long, value_name = "QUEUE=N")]
    pub(crate) concurrency: Vec<String>,
    /// Suppose the group were paused; may be repeated
    #[arg(long = "pause", value_name = "GROUP")]
    pub(crate) pauses: Vec<String>,
    /// One JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Top {
    /// Print one frame and end
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Migrate {
    /// Print the SQL of all steps and change nothing
    #[arg(long)]
    pub(crate) print: bool,
    /// List the steps that are missing and change nothing; exit code 1 if there are any
    #[arg(long, conflicts_with = "print")]
    pub(crate) check: bool,
}

impl Args {
    /// Reads the command line; `Err` is the exit code for a command line that leaves nothing to do.
    pub(crate) fn read() -> Result<Self, ExitCode> {
        Self::try_parse().map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                // A closed stdout is no reason to fail: the reader has stopped reading.
                let _ = error.print();
                ExitCode::SUCCESS
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                let _ = error.print();
                ExitCode::from(2)
            }
            _ => {
                complain(&one_line(&error.to_string()));
                ExitCode::from(2)
            }
        })
    }
}

/// What is wrong and what may have been meant, without the usage below it.
fn one_line(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|part| part.lines().map(str::trim).collect::<Vec<_>>());
    let mut line = String::new();
    for (at, lines) in paragraphs.enumerate() {
        if at == 0 {
            line += lines.join(" ").trim();
        }
        let tips = lines.iter().filter_map(|tip| tip.strip_prefix("tip: ")).filter(|tip| tip.contains("similar"));
        line.extend(tips.map(|tip| format!("; {tip}")));
    }
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    /// Also of `turnwise queue set` and its like.
    #[test]
    fn every_command_and_every_argument_has_its_text() {
        fn check(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            assert!(command.get_about().is_some(), "{path}");
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{path}: {}", argument.get_id());
            }
            command.get_subcommands().for_each(|command| check(command, &path));
        }
        check(&Args::command(), "");
    }

    #[test]
    fn a_mistake_in_the_command_line_is_one_line() {
        for typed in [&["turnwise", "serve", "--slotz"][..], &["turnwise", "job"], &["turnwise", "frobnicate"]] {
            let text = one_line(&Args::try_parse_from(typed).unwrap_err().to_string());
            assert!(!text.contains('\n') && !text.starts_with("error") && text.len() > 10, "{text}");
        }
    }
}
