//! The command line. Values stay text here and core parses them, so that every error names its field in the same way.

mod audit;
mod jobs;
mod schedules;
mod settings;
mod tokens;

use std::{ffi::OsString, path::PathBuf, process::ExitCode, sync::LazyLock};

use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};

pub(crate) use audit::*;
pub(crate) use jobs::*;
pub(crate) use schedules::*;
pub(crate) use settings::*;
pub(crate) use tokens::*;

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
    /// Ask the server at this address, like https://jobs.example.com or http://127.0.0.1:8080, instead of opening a database
    #[arg(long, global = true, value_name = "URL", help_heading = EVERYWHERE)]
    pub(crate) server: Option<String>,
    /// The token to show to the server; @FILE reads it from a file, so that it is in no list of processes
    #[arg(long, global = true, value_name = "TOKEN", help_heading = EVERYWHERE)]
    pub(crate) token: Option<String>,
    /// Trust the certificates in this PEM file, instead of this machine's, when the server is asked by https
    #[arg(long, global = true, value_name = "FILE", help_heading = EVERYWHERE)]
    pub(crate) server_ca: Option<String>,
    /// Ask a server on another machine without encryption: tokens and jobs can be read on their way [default: false]
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub(crate) server_plain_http: bool,
    /// The file with the settings [default: turnwise.toml, if there is one]
    #[arg(long, global = true, value_name = "FILE", help_heading = EVERYWHERE)]
    pub(crate) config: Option<PathBuf>,
    /// What to log to stderr: error, warn, info, debug, trace, or a filter like turnwise_executor=debug [default: info for `serve`, warn for `bench`; the others log nothing]
    #[arg(long, global = true, value_name = "LEVEL", help_heading = EVERYWHERE)]
    pub(crate) log: Option<String>,
    /// How the log is written: text, or json with an object a line [default: text]
    #[arg(long, global = true, value_name = "FORM", help_heading = EVERYWHERE)]
    pub(crate) log_format: Option<String>,
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
    /// Runs a node: takes jobs and runs their tasks, and answers HTTP
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
    /// Changes the priority, the due time or the queue of jobs that are waiting or stuck
    Change(Box<Change>),
    /// Submits a job like another one, with changes, and prints its id; the other one stays as it is
    Resubmit(Box<Resubmit>),
    /// Lists nodes
    Nodes(Table),
    /// Drains a node, or lets it take jobs again
    Node(OneNode),
    /// Explains why a job does not run yet, and when it will
    Why(OneJob),
    /// Lists queues: their settings and how many jobs they have
    Queues(Counted),
    /// Sets, pauses, resumes, seals, empties or resets a queue
    Queue(OneQueue),
    /// Lists groups: their settings and how many jobs they have
    Groups(Counted),
    /// Sets, pauses, resumes or resets a group
    Group(OneGroup),
    /// Adds, lists, pauses, resumes, removes or runs a schedule, which submits jobs periodically
    Schedule(OneSchedule),
    /// Creates, lists or revokes tokens, by which callers of a server are known
    Token(OneToken),
    /// Lists the changes that people and programs made, newest first: who, what, before and after
    Audit(Audit),
    /// Lists tasks: their limits, how many jobs they have, and how many nodes know them
    Tasks(Counted),
    /// Limits a task, across all queues and groups
    Task(OneLimited),
    /// Lists the keys that jobs share: their limits and how many jobs they have
    Keys(Counted),
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
    /// Moves everything to another database: jobs, history, settings, schedules, tokens, statistics
    ///
    /// The source is closed first: it takes neither jobs nor nodes from then on, and its errors name the target. A move that was ended at
    /// any moment goes on when it is begun again.
    Move(Move),
    /// Says what is wrong with the database, the nodes and the jobs, and what to do; changes nothing
    Doctor(Doctor),
    /// Prints every setting of this machine's commands and node, its value and where that comes from
    Config(Table),
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
    /// Exit with code 0 when no job is left that this node could run, now, later, or after another node has failed with it
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
    /// Where the HTTP API answers: an address like 127.0.0.1:9000, a port, or none [default: 127.0.0.1:8080, or a free port if that is taken]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Answer by TLS, with the certificate in this PEM file, and after it those that lead to its root; read again when it changes
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<String>,
    /// The private key of the certificate, a PEM file
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<String>,
    /// Web pages of these origins may ask, with a token of their own; several are separated by commas
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Option<String>,
    /// Pages of these origins may embed the page of a tenant's jobs, each with a ticket; several are separated by commas
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) embed_origin: Option<String>,
    /// Networks of proxies whose X-Forwarded-For, -Host, -Proto and -Prefix count, like 10.0.0.0/8; several with commas between
    #[arg(long, value_name = "CIDR")]
    pub(crate) trust_proxy: Option<String>,
    /// Answer without TLS on an address that other machines reach; needs a token to exist [default: false]
    #[arg(long)]
    pub(crate) plain_http: bool,
    /// Bring an older schema on PostgreSQL up to date before starting; nodes of earlier versions may not work with the new one [default: false]
    #[arg(long)]
    pub(crate) migrate: bool,
    /// Append a record of the run to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Counted {
    #[command(flatten)]
    pub(crate) table: Table,
    /// Count all jobs, however long that takes [default: the oldest 100000; if there are more, counts are shown like 100+]
    #[arg(long)]
    pub(crate) exact: bool,
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

/// How findings are printed.
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// One JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
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
    /// Suppose nodes had at most so many jobs of the group at a time (a number or unlimited); may be repeated
    #[arg(long = "group-concurrency", value_name = "GROUP=N")]
    pub(crate) group_concurrency: Vec<String>,
    /// Suppose the group were paused; may be repeated
    #[arg(long = "pause", value_name = "GROUP")]
    pub(crate) pauses: Vec<String>,
    /// One JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Do not cut lines to the width of the terminal
    #[arg(long, conflicts_with = "json")]
    pub(crate) wide: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Top {
    /// Print one frame and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Print each frame as one line of JSON, with all groups
    #[arg(long)]
    pub(crate) json: bool,
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

#[derive(Debug, clap::Args)]
pub(crate) struct Move {
    /// The database to move from, sqlite:FILE or postgres://USER@HOST/NAME; no node may be alive on it
    #[arg(value_name = "SOURCE")]
    pub(crate) source: String,
    /// The database to move to; it must be empty, and gets the schema if it has none
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// Give up a move that is not finished: empty the target, and open the source again
    #[arg(long)]
    pub(crate) cancel: bool,
    /// One JSON object at the end instead of lines
    #[arg(long, conflicts_with = "cancel")]
    pub(crate) json: bool,
}

impl Args {
    /// Reads the command line; `Err` is the exit code for a command line that leaves nothing to do.
    pub(crate) fn read() -> Result<Self, ExitCode> {
        let typed: Vec<OsString> = std::env::args_os().collect();
        if let Some(problem) = swallowed(&Self::command(), &typed) {
            complain(&problem);
            return Err(ExitCode::from(2));
        }
        Self::try_parse().map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                // A closed stdout is no reason to fail: the reader has stopped reading.
                let _ = error.print();
                ExitCode::SUCCESS
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                let _ = error.print();
                complain("a command is missing: one of those above");
                ExitCode::from(2)
            }
            _ => {
                complain(&one_line(&error.to_string()));
                ExitCode::from(2)
            }
        })
    }
}

/// An option whose value was forgotten must not take the next option for it: `--unique --wait` is no key. A value that begins so is
/// written with `=`.
fn swallowed(root: &clap::Command, typed: &[OsString]) -> Option<String> {
    let mut command = root;
    let mut typed = typed.iter().skip(1).map(|text| text.to_string_lossy());
    while let Some(text) = typed.next() {
        let Some(name) = text.strip_prefix("--") else {
            command = command.find_subcommand(text.as_ref()).unwrap_or(command);
            continue;
        };
        if name.is_empty() {
            return None;
        }
        let called = |arg: &&clap::Arg| {
            arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
        };
        let Some(option) = command.get_arguments().chain(root.get_arguments()).find(called) else { continue };
        if !option.get_action().takes_values() {
            continue;
        }
        let value = typed.next()?;
        if value.starts_with("--") && option.is_allow_hyphen_values_set() {
            return Some(format!(
                "--{name} needs a value, and {value} looks like an option; if it is the value, write --{name}={value}"
            ));
        }
    }
    None
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
