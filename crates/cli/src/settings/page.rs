//! docs/guides/settings.md, printed from what the code knows: the keys from [`super::keys`], [`crate::pools`] and [`crate::commands`], their
//! meaning from the help of `turnwise serve`.

use std::{env, fs, path::Path};

use clap::{Arg, CommandFactory};

use super::keys::{CLIENT, COMMON, EXECUTOR, MOVED, SERVER, SLOTS, variable};
use crate::{args::Args, commands, pools};

const INTRODUCTION: &str = r#"# The settings file

Printed from the code by a test; change the help of `turnwise serve`, then run
`TURNWISE_BLESS=1 cargo test -p turnwise-cli the_page_of_settings`.

`turnwise.toml` is read from the folder in which a command is run; `--config FILE` or `TURNWISE_CONFIG` names another file. A flag
comes before a variable (`TURNWISE_…`; an empty one counts as not set), and a variable before the file. An unknown key is
refused, with the keys that there are. Durations are written like `200ms`, `30s`, `5m`, `2h` or `7d`.

```toml
database = "postgres://jobs@db.example.com/jobs?sslmode=verify-full"
log = "info"
connections = 10

[executor]
name = "worker-1"
core_pool_size = 8
max_pool_size = 16
await_termination = "1m"

[server]
listen = "127.0.0.1:8080"

[pools.mail]
queues = ["mail", "newsletter"]
core_pool_size = 2

[tasks.thumbnail]
command = ["convert", "{args.from}", "-resize", "{args.width}", "{args.to}"]
timeout = "30s"
```
"#;

/// What `[tasks.NAME]` may have: key, default, meaning.
const OF_A_TASK: [[&str; 3]; 14] = [
    ["command", "", "the program and its words"],
    ["env", "`[]`", "names of the node's variables that the program gets too"],
    ["cwd", "the node's", "the folder it runs in"],
    ["timeout", "none", "how long a run may take; a job's own comes first"],
    ["retry", "`exponential:10s,5`", "when a failed run is tried again; a job's own comes first"],
    ["stdin", "`args`", "what it reads: `args`, the arguments as JSON, or `none`"],
    ["result", "`auto`", "what its output is: `auto`, `json`, `text` or `none`"],
    ["fail_codes", "`[65]`", "exit codes after which the job fails without a retry"],
    ["snooze_codes", "`[75]`", "exit codes after which the job runs again later, without having spent an attempt"],
    ["snooze", "`1m`", "how much later"],
    ["next", "none", "the task that the job goes on as after a success"],
    ["on_exhausted", "none", "the task that the job goes on as when its retries have run out"],
    ["secret", "`[]`", "[secret fields](secrets.md) of the arguments, as JSON pointers: shown nowhere"],
    [
        "elsewhere",
        "none",
        "`true` instead of all the others: nodes elsewhere run the task, so `next` and `on_exhausted` may name it",
    ],
];

/// The same, of a task that is an HTTP endpoint.
const OF_AN_HTTP_TASK: [[&str; 3]; 11] = [
    ["url", "", "where its jobs are posted"],
    [
        "sign_env",
        "`[]`",
        "variables with the secrets that sign what is posted: the new one and, for a while, the old one",
    ],
    ["sign_files", "`[]`", "the same, as files"],
    ["ca", "the machine's", "a PEM file with the roots to trust"],
    ["proxy", "none", "`http://HOST:PORT`: a proxy to go through"],
    ["private_addresses", "`true`", "whether the host may be on this machine or in a private network"],
    ["timeout", "`1m`", "how long a run may take; a job's own comes first"],
    ["retry", "`exponential:10s,5`", "when a failed run is tried again; a job's own comes first"],
    ["next", "none", "the task that the job goes on as after a success"],
    ["on_exhausted", "none", "the task that the job goes on as when its retries have run out"],
    ["secret", "`[]`", "[secret fields](secrets.md) of the arguments, as JSON pointers: posted, and shown nowhere"],
];

fn page() -> String {
    let moved: Vec<_> = MOVED.iter().map(|key| format!("`{key}`")).collect();
    let sections = [
        INTRODUCTION.to_owned(),
        format!(
            "## For every command\n\nAt the top of the file.\n\n{}",
            table(&["key", "default", "variable", "flag", ""], COMMON.iter().map(|key| of_a_node(key)))
        ),
        format!(
            "## `[client]`\n\nCommands that ask a [server](server.md) instead of opening a database. If a server and a database are named, \
             the stronger source counts: a flag, then a variable, then the file.\n\n{}",
            table(&["key", "default", "variable", "flag", ""], CLIENT.iter().map(|key| of_a_node(key)))
        ),
        format!(
            "## `[executor]`\n\nThe node that `turnwise serve` runs, and its own [pool](pools.md).\n\n{}",
            table(&["key", "default", "variable", "flag", ""], EXECUTOR.iter().map(|key| of_a_node(key)))
        ),
        format!(
            "## `[server]`\n\nThe [HTTP API](http.md) of `turnwise serve`.\n\n{}",
            table(&["key", "default", "variable", "flag", ""], SERVER.iter().map(|key| of_a_node(key)))
        ),
        format!(
            "## `[pools.NAME]`\n\nA [pool](pools.md) beside the node's own, for some queues alone. What it does not set is as in \
             `[executor]`.\n\n{}",
            table(&["key", "default", ""], pools::KEYS.iter().map(|key| of_a_pool(key)))
        ),
        format!(
            "## `[tasks.NAME]`\n\nA task that is a program ([commands.md](commands.md)).\n\n{}",
            table(&["key", "default", ""], OF_A_TASK.iter().map(of_a_task))
        ),
        format!(
            "A task that is an HTTP endpoint ([http-tasks.md](http-tasks.md)).\n\n{}",
            table(&["key", "default", ""], OF_AN_HTTP_TASK.iter().map(of_a_task))
        ),
        format!(
            "## What is not in the file\n\n{} and the log's length are set for all nodes at once, in the database: \
             `turnwise installation set`. So are queues, groups, tasks and keys ([limits.md](limits.md)) and \
             [schedules](schedules.md).\n",
            moved.join(", ")
        ),
    ];
    sections.join("\n")
}

fn table(head: &[&str], lines: impl Iterator<Item = Vec<String>>) -> String {
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | ").replace("|  |", "| |"));
    let head: Vec<_> = head.iter().map(|&cell| cell.to_owned()).collect();
    let rule = format!("|{}\n", "---|".repeat(head.len()));
    row(&head) + &rule + &lines.map(|line| row(&line)).collect::<String>()
}

/// The flag that sets the same.
fn flag(key: &str) -> Arg {
    let command = Args::command();
    let serve = command.find_subcommand("serve").expect("a command of its own");
    let mut flags = command.get_arguments().chain(serve.get_arguments());
    flags.find(|flag| flag.get_id() == key).unwrap_or_else(|| panic!("no flag sets {key}")).clone()
}

/// Its help, without the default, and the default.
fn meaning(flag: &Arg) -> (String, String) {
    let help = flag.get_help().expect("every flag has its help").to_string();
    let (text, default) = match help.split_once(" [default: ") {
        Some((text, default)) => (text, default.trim_end_matches(']')),
        None => (help.as_str(), "none"),
    };
    let default = if default.contains(' ') || default == "none" { default.to_owned() } else { format!("`{default}`") };
    (text.replace('|', "\\|"), default)
}

fn of_a_node(key: &str) -> Vec<String> {
    let flag = flag(key);
    let (text, default) = meaning(&flag);
    let names = flag.get_long().into_iter().chain(flag.get_visible_aliases().unwrap_or_default());
    let names: Vec<_> = names.map(|name| format!("`--{name}`")).collect();
    let mut variables = format!("`{}`", variable(key));
    if key == "core_pool_size" {
        variables += &format!(", `{SLOTS}`");
    }
    vec![format!("`{key}`"), default, variables, names.join(", "), text]
}

fn of_a_pool(key: &str) -> Vec<String> {
    let (text, default) = match key {
        "queues" => ("The queues it serves, an array; no queue may be bound to two pools".to_owned(), String::new()),
        "thread_name_prefix" => (meaning(&flag(key)).0, "the pool's name and `-`".to_owned()),
        _ => (meaning(&flag(key)).0, "as in `[executor]`".to_owned()),
    };
    vec![format!("`{key}`"), default, text]
}

#[test]
fn the_page_of_settings_is_what_the_code_knows() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/settings.md");
    if env::var_os("TURNWISE_BLESS").is_some() {
        fs::write(&path, page()).unwrap();
    }
    let hint =
        "docs/guides/settings.md is out of date: TURNWISE_BLESS=1 cargo test -p turnwise-cli the_page_of_settings";
    assert!(fs::read_to_string(&path).unwrap() == page(), "{hint}");
}

fn of_a_task([key, default, text]: &[&str; 3]) -> Vec<String> {
    vec![format!("`{key}`"), (*default).to_owned(), (*text).to_owned()]
}

/// serde lists the fields that it expects; a table with `elsewhere` has no other key.
#[test]
fn every_key_of_a_task_is_on_the_page() {
    let refusal = commands::read(&"a = { command = ['x'], nonsense = 1 }".parse().unwrap()).unwrap_err();
    let (_, expected) = refusal.split_once("expected one of ").expect("a list of fields");
    let expected: Vec<_> = expected.split(", ").map(|field| field.trim_matches('`')).collect();
    let (last, others) = OF_A_TASK.split_last().unwrap();
    assert_eq!(others.iter().map(|[key, ..]| *key).collect::<Vec<_>>(), expected);
    assert!(commands::read(&format!("a = {{ {} = true }}", last[0]).parse().unwrap()).is_ok());
    let refusal = commands::read(&"a = { url = 'http://x', nonsense = 1 }".parse().unwrap()).unwrap_err();
    let (_, expected) = refusal.split_once("expected one of ").expect("a list of fields");
    let expected: Vec<_> = expected.split(", ").map(|field| field.trim_matches('`')).collect();
    assert_eq!(OF_AN_HTTP_TASK.map(|[key, ..]| key).to_vec(), expected);
}

#[test]
fn every_variable_and_every_default_is_on_the_page() {
    let page = page();
    assert!(page.contains("`TURNWISE_SLOTS`"), "{page}");
    let row = |key: &str| page.lines().find(|line| line.starts_with(&format!("| `{key}` "))).unwrap().to_owned();
    assert!(row("log").contains("info for `serve`") && row("migrate").contains("| `false` |"), "{page}");
}
