//! A command that is told of a server leaves the databases of its own machine alone: it asks the server, or it says why it asks none.

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader, Seek, Write},
    net::TcpListener,
    path::Path,
    thread,
};

use support::Place;

const ID: &str = "01890163-d869-7739-8aea-5966c26f8ad9";

/// What a command that is told of a server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    /// Asks it.
    Ask,
    /// Says that it asks none, and does nothing.
    Refuse,
    /// Needs neither a server nor a database.
    Neither,
}

use Does::{Ask, Neither, Refuse};

/// Every command, with what it has to be told at least, and in each of the ways that it may go.
const COMMANDS: &[(&str, Does, &str)] = &[
    ("audit", Ask, "--since 1h"),
    ("bench", Refuse, "drain"),
    ("bench", Refuse, "idle"),
    ("cancel", Ask, ID),
    ("cancel", Ask, "--filter group=acme --yes"),
    ("cancel", Ask, "--filter group=acme --dry-run"),
    ("change", Ask, "ID --priority 1"),
    ("change", Ask, "--filter group=acme --priority 1 --yes"),
    ("completions", Neither, "bash"),
    ("config", Neither, ""),
    ("demo", Refuse, "--seconds 1"),
    ("doctor", Ask, ""),
    ("doctor", Ask, "--json"),
    ("enqueue", Ask, "noop"),
    ("enqueue", Ask, "noop --wait"),
    ("enqueue", Ask, "noop -"),
    ("enqueue", Ask, "--stdin"),
    ("fail", Ask, ID),
    ("fail", Ask, "--filter group=acme --yes"),
    ("group pause", Ask, "acme"),
    ("group reset", Ask, "acme"),
    ("group resume", Ask, "acme"),
    ("group set", Ask, "acme --weight 2"),
    ("groups", Ask, ""),
    ("groups", Refuse, "--exact"),
    ("installation set", Ask, "--retention 1d"),
    ("installation show", Ask, ""),
    ("job", Ask, ID),
    ("job", Ask, "0189"),
    ("job", Ask, "ID --graph"),
    ("job", Ask, "ID --watch"),
    ("jobs", Ask, ""),
    ("jobs", Ask, "--by error"),
    ("key reset", Ask, "db"),
    ("key set", Ask, "db --concurrency 1"),
    ("keys", Ask, ""),
    ("keys", Refuse, "--exact"),
    ("logs", Ask, ID),
    ("logs", Ask, "ID --follow"),
    ("man", Neither, ""),
    ("migrate", Refuse, ""),
    ("migrate", Refuse, "--check"),
    ("migrate", Refuse, "--print"),
    ("move", Refuse, "sqlite:turnwise.db sqlite:other.db"),
    ("move", Refuse, "sqlite:turnwise.db sqlite:other.db --cancel"),
    ("node drain", Ask, "some"),
    ("node resume", Ask, "some"),
    ("nodes", Ask, ""),
    ("prune", Ask, ""),
    ("prune", Refuse, "--dry-run"),
    ("prune", Refuse, "--retention 1d --yes"),
    ("queue empty", Ask, "mail --yes"),
    ("queue pause", Ask, "mail"),
    ("queue reset", Ask, "mail"),
    ("queue resume", Ask, "mail"),
    ("queue seal", Ask, "mail"),
    ("queue set", Ask, "mail --weight 2"),
    ("queues", Ask, ""),
    ("queues", Refuse, "--exact"),
    ("resubmit", Ask, ID),
    ("resubmit", Ask, "ID --show"),
    ("retry", Ask, ID),
    ("retry", Ask, "--again ID"),
    ("retry", Ask, "--filter group=acme --yes"),
    ("schedule add", Ask, "nightly noop --every 1h"),
    ("schedule list", Ask, ""),
    ("schedule pause", Ask, "nightly"),
    ("schedule remove", Ask, "nightly"),
    ("schedule resume", Ask, "nightly"),
    ("schedule run", Ask, "nightly"),
    ("schedule show", Ask, "nightly"),
    ("serve", Refuse, "--demo-tasks --until-empty --listen none"),
    ("simulate", Ask, ""),
    ("task reset", Ask, "noop"),
    ("task set", Ask, "noop --concurrency 1"),
    ("tasks", Ask, ""),
    ("tasks", Refuse, "--exact"),
    ("token create", Ask, "--name ann --scope read"),
    ("token list", Ask, ""),
    ("token revoke", Ask, "tw_0123456789"),
    ("token ticket", Ask, "--group acme --origin https://app.example"),
    ("top", Ask, "--once"),
    ("top", Ask, ""),
    ("why", Ask, ID),
];

/// Commands that have no others below them, as the binary lists them in its manual pages.
fn leaves(place: &Place) -> BTreeSet<String> {
    let folder = place.path().join("man");
    fs::create_dir(&folder).unwrap();
    place.told(&["man", "--out", "man"]);
    let names: BTreeSet<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| Some(name.strip_prefix("turnwise-")?.strip_suffix(".1")?.to_owned()))
        .filter(|name| !name.split('-').any(|word| word == "help"))
        .collect();
    fs::remove_dir_all(folder).unwrap();
    let has_others = |name: &str| names.iter().any(|other| other.starts_with(&format!("{name}-")));
    names.iter().filter(|name| !has_others(name)).map(|name| name.replacen('-', " ", 1)).collect()
}

/// Every file of the folder and what is in it.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let file = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.unwrap().path();
        (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap())
    };
    fs::read_dir(folder).unwrap().map(file).collect()
}

/// Something that answers HTTP and is no turnwise server: a command that asks it says so, and does not ask again.
fn another_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    // Ends with the test.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let head = BufReader::new(stream.try_clone().unwrap()).lines();
            let empty = head.map_while(Result::ok).find(|line| line.is_empty());
            if empty.is_some() {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nhi");
            }
        }
    });
    server
}

#[test]
fn every_command_has_its_line_here() {
    let listed: BTreeSet<String> = COMMANDS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(listed, leaves(&Place::new()));
}

#[test]
fn no_command_that_is_told_of_a_server_opens_or_makes_a_database() {
    let server = another_server();
    let flag = ["--server".to_owned(), server.clone()];
    let variable = [("TURNWISE_SERVER", server.as_str())];
    // A job, and also the arguments of one.
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(b"{\"task\": \"noop\"}\n").unwrap();
    // What is no database cannot be opened without a complaint; and where there is no file, none may come.
    for there in [None, Some("what a person wrote, and no database")] {
        for by_flag in [true, false] {
            for (name, does, more) in COMMANDS {
                let place = Place::new();
                if let Some(text) = there {
                    fs::write(place.path().join("turnwise.db"), text).unwrap();
                }
                let before = files(place.path());
                let more = more.replace("ID", ID);
                let words = name.split(' ').chain(more.split(' ')).filter(|word| !word.is_empty());
                let words: Vec<&str> = flag.iter().map(String::as_str).filter(|_| by_flag).chain(words).collect();
                let mut command = place.command(&words);
                if !by_flag {
                    command.envs(variable);
                }
                input.rewind().unwrap();
                let output = command.stdin(input.try_clone().unwrap()).output().unwrap();
                let told = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
                let by = if by_flag { "--server" } else { "TURNWISE_SERVER" };
                let case = format!("{words:?} by {by}: {told}");
                // The demo has a database of its own, in memory: a server that a variable names is for other commands.
                let does = if *name == "demo" && !by_flag { Neither } else { *does };
                match does {
                    Ask => assert!(told.contains(&format!("{server} answers with 200 OK, but not as")), "{case}"),
                    Refuse => assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true), "{case}"),
                    Neither => assert!(output.status.success(), "{case}"),
                }
                assert_eq!(files(place.path()), before, "{case}");
            }
        }
    }
}

/// On a machine with both, a person who starts a node means the database.
#[test]
fn a_node_works_on_the_database_that_is_named_beside_a_server() {
    let place = Place::on_sqlite();
    let mut command = place.command(&["serve", "--demo-tasks", "--until-empty", "--listen", "none"]);
    let output = command.env("TURNWISE_SERVER", another_server()).output().unwrap();
    assert!(support::succeeded(&output).contains("jobs.db"), "{output:?}");
}
