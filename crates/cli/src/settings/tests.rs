//! Settings from flags, variables and a file, together.

use std::{path::Path, time::Duration};

use clap::Parser;
use turnwise::QueueName;

use super::{
    file::{File, from_file},
    source::{from_flags, from_variables},
    *,
};

fn settings(typed: &[&str], variables: &[(&str, &str)], file: &str) -> Result<Settings, Failure> {
    let args = Args::try_parse_from([&["turnwise", "serve"], typed].concat()).unwrap();
    let get = |name: &str| Ok(variables.iter().find(|(key, _)| *key == name).map(|(_, text)| (*text).to_owned()));
    let path = Path::new("turnwise.toml");
    let File { said, tasks, pools, lines } = from_file(path, file)?;
    Ok(Settings {
        sources: vec![
            Source::Flags(from_flags(&args)),
            Source::Variables(from_variables(get)?),
            Source::File(path.to_owned(), said, lines),
        ],
        tasks: Some((path.to_owned(), tasks)),
        pools,
    })
}

fn refusal<T>(result: Result<T, Failure>) -> String {
    match result {
        Err(Failure::Input(text)) => text,
        Err(other) => panic!("refused as {other:?}"),
        Ok(_) => panic!("not refused"),
    }
}

const FILE: &str = r#"
    database = "sqlite:file.db"
    [executor]
    name = "file"
    core_pool_size = 1
    max_pool_size = 3
    thread_name_prefix = "worker-"
    queue_capacity = 7
    batch_size = 8
    poll_interval = "2s"
    look_every = 9
    lease = "10s"
    wait_for_tasks_on_shutdown = false
    await_termination = "1m"
    queues = ["mail", "a, b"]
"#;

#[test]
fn every_setting_can_be_said_in_the_file() {
    let settings = settings(&[], &[], FILE).unwrap();
    let config = settings.executor().unwrap();
    assert_eq!(settings.database(), "sqlite:file.db");
    assert_eq!((config.name.as_str(), config.queue_capacity, config.batch_size), ("file", 7, 8));
    assert_eq!((config.core_pool_size, config.max_pool_size), (1, Some(3)));
    assert_eq!(config.thread_name_prefix.as_deref(), Some("worker-"));
    assert_eq!((config.poll_interval, config.lease), (Some(Duration::from_secs(2)), Duration::from_secs(10)));
    assert_eq!((config.wait_for_tasks_on_shutdown, config.await_termination), (false, Duration::from_secs(60)));
    assert_eq!(config.look_every, 9);
    let queues: Vec<_> = config.queues.iter().flatten().map(QueueName::as_str).collect();
    assert_eq!(queues, ["a, b", "mail"]);
}

#[test]
fn what_is_set_for_all_nodes_is_refused_with_the_command_that_sets_it() {
    for file in ["retention = '1d'", "[retention]\nfailed = '30d'"] {
        let refusal = refusal(settings(&[], &[], file));
        assert_eq!(
            refusal,
            "turnwise.toml: retention is set for all nodes at once; use: turnwise installation set --retention …"
        );
    }
    let scheme = "scheme is set for all nodes at once; use: turnwise installation set --scheme …";
    assert_eq!(refusal(settings(&[], &[], "[executor]\nscheme = '3,1'")), format!("turnwise.toml: {scheme}"));
    let variable = ("TURNWISE_SCHEME", "3,1");
    assert_eq!(refusal(settings(&[], &[variable], "")), format!("TURNWISE_SCHEME: {scheme}"));
}

#[test]
fn a_flag_outweighs_a_variable_and_a_variable_the_file() {
    let variables = [("TURNWISE_CORE_POOL_SIZE", "2"), ("TURNWISE_NAME", "variable"), ("TURNWISE_LEASE", "")];
    let settings = settings(&["--slots", "3", "--queue", "flag"], &variables, FILE).unwrap();
    let config = settings.executor().unwrap();
    assert_eq!((config.core_pool_size, config.name.as_str(), config.lease), (3, "variable", Duration::from_secs(10)));
    assert_eq!(config.queues.unwrap().into_iter().map(|queue| queue.to_string()).collect::<Vec<_>>(), ["flag"]);
}

#[test]
fn a_bad_value_is_refused_with_its_name_and_its_place() {
    let executor = |typed: &[&str], variables: &[(&str, &str)], file: &str| {
        refusal(settings(typed, variables, file).unwrap().executor())
    };
    assert!(executor(&["--slots", "many"], &[], "").starts_with("core_pool_size: \"many\""));
    let variable = ("TURNWISE_CORE_POOL_SIZE", "0");
    assert_eq!(executor(&[], &[variable], ""), "core_pool_size: must be 1 to 100000 slots (TURNWISE_CORE_POOL_SIZE)");
    let less = ["--core-pool-size", "3", "--max-pool-size", "2"];
    assert_eq!(executor(&less, &[], ""), "max_pool_size: must be core_pool_size to 100000");
    assert!(executor(&[], &[], "[executor]\nlease = 10").ends_with("(turnwise.toml)"));
    assert!(executor(&["--queue", ""], &[], "").starts_with("queue: must not be empty"));
    assert!(refusal(settings(&["--connections", "2"], &[], "").unwrap().options()).contains("at least 3"));
    assert!(refusal(settings(&[], &[], "task_connections = 0").unwrap().options()).contains("at least 1"));
    let said =
        settings(&["--connections", "7"], &[], "connections = 8\ntask_connections = 2").unwrap().options().unwrap();
    assert_eq!((said.connections, said.task_connections), (7, Some(2)));
}

#[test]
fn an_unknown_key_or_a_broken_file_is_refused_with_its_place() {
    let file = |text| refusal(settings(&[], &[], text));
    assert!(file("databse = 'x'").starts_with("turnwise.toml: unknown key \"databse\""));
    assert!(file("[executor]\nslotz = 1").starts_with("turnwise.toml: unknown key \"executor.slotz\""));
    let lost = "turnwise.toml: unknown key \"batch_size\"; it belongs under [executor]";
    assert!(file("batch_size = 1").starts_with(lost));
    assert!(file("listen = 'none'").starts_with("turnwise.toml: unknown key \"listen\"; it belongs under [server]"));
    // The tables are named, and the name that was probably meant.
    for (text, last) in [
        ("databse = 'x'", "[server] and [tasks.NAME]; did you mean \"database\"?"),
        ("[executer]\nlease = '1s'", "; did you mean \"executor\"?"),
        ("[executor]\nlaese = '1s'", ", migrate; did you mean \"lease\"?"),
        ("[pools.mail]\nqueue = ['x']", "; did you mean \"queues\"?"),
        ("anything = 1", "; tables are [client], [executor], [pools.NAME], [server] and [tasks.NAME]"),
    ] {
        assert!(file(text).ends_with(last), "{text}: {}", file(text));
    }
    assert!(file("\n[executor\n").starts_with("turnwise.toml: line 2: "));
    assert!(file("[executor]\nqueues = 'mail'").starts_with("turnwise.toml: executor.queues: "));
}

#[test]
fn a_bad_command_is_refused_with_its_place_when_it_is_asked_for() {
    let settings_of = |text| settings(&[], &[], text);
    assert!(refusal(settings_of("tasks = 1")).starts_with("turnwise.toml: tasks: must be a table"));
    let bad = settings_of("[tasks.mail]\ncommand = []").unwrap();
    assert_eq!(refusal(bad.tasks()), "turnwise.toml: tasks.mail: command: must name a program");
    let good = settings_of("[tasks.mail]\ncommand = ['sendmail', '-t']").unwrap().tasks().unwrap().commands;
    assert_eq!(good.iter().map(turnwise::AnyTask::name).collect::<Vec<_>>(), ["mail"]);
    assert!(settings_of("").unwrap().tasks().unwrap().commands.is_empty());
}

#[test]
fn a_bad_pool_is_refused_with_its_place() {
    let file = |text| refusal(settings(&[], &[], text));
    assert_eq!(file("pools = 1"), "turnwise.toml: pools: must be a table");
    assert_eq!(file("[pools]\nmail = 1"), "turnwise.toml: pools.mail: must be a table");
    assert!(
        file("[pools.mail]\nlease = '1s'").starts_with("turnwise.toml: unknown key \"pools.mail.lease\"; known are ")
    );
    assert!(file("[pools.mail]\nqueues = 'mail'").starts_with("turnwise.toml: pools.mail.queues: must be an array"));
    let bad = settings(&[], &[], "[pools.mail]\nqueues = ['mail']\ncore_pool_size = 'many'").unwrap();
    assert!(refusal(bad.pools()).starts_with("turnwise.toml: pools.mail.core_pool_size: \"many\""));
    let good = settings(&[], &[], "[pools.mail]\nqueues = ['mail']\n[pools.pdf]\nqueues = ['pdf']").unwrap();
    assert_eq!(good.pools().unwrap().into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["mail", "pdf"]);
}
