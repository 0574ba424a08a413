//! Flags, then `TURNWISE_*` variables, then `turnwise.toml`: the first of them that names a setting wins.
//!
//! Every source is brought to the same form, text by the setting's name, so that a value is read by the same code and
//! refused with the same words wherever it comes from.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    str::FromStr,
};

use toml::de::DeTable;
use turnwise::{Config, Error, Invalid, NodeName, Options, Pool, QueueName, Schema, Turnwise, access::Secret};
use turnwise_client::{Address, Client};
use turnwise_core::{secret::without_password, time::parse_span};
use turnwise_server::{Certificate, Origins, Proxies};
use turnwise_sqlite::SqliteStore;

use crate::{
    args::{Args, Command},
    audit::this_user,
    commands::{self, Tasks},
    error::{Failure, remark},
    http::{Listen, On},
    known::did_you_mean,
    pools,
};

const DEFAULT_FILE: &str = "turnwise.toml";
const DEFAULT_DATABASE: &str = "sqlite:turnwise.db";
const THREAD_NAME_PREFIX: &str = "task-";

/// Settings of every command; at the top of the file.
const COMMON: [&str; 5] = ["database", "log", "log_format", "connections", "task_connections"];
/// Settings of a node; in the file's `[executor]`.
const EXECUTOR: [&str; 13] = [
    "name",
    "core_pool_size",
    "max_pool_size",
    "thread_name_prefix",
    "queue_capacity",
    "batch_size",
    "poll_interval",
    "look_every",
    "lease",
    "wait_for_tasks_on_shutdown",
    "await_termination",
    "queues",
    "migrate",
];

/// Settings of the HTTP API; in the file's `[server]`.
const SERVER: [&str; 6] = ["listen", "tls_cert", "tls_key", "plain_http", "allow_origin", "trust_proxy"];

/// Settings of commands that ask a server; in the file's `[client]`.
const CLIENT: [&str; 4] = ["server", "token", "server_ca", "server_plain_http"];

/// Another name of TURNWISE_CORE_POOL_SIZE, as --slots is of --core-pool-size.
const SLOTS: &str = "TURNWISE_SLOTS";
const CONFIG: &str = "TURNWISE_CONFIG";

/// The tables of the file, as a person writes them.
const TABLES: [&str; 5] = ["client", "executor", "pools", "server", "tasks"];

/// Former settings of a node that are now set for all nodes at once.
const MOVED: [&str; 2] = ["retention", "scheme"];

/// Values by setting; all but `queues` have one.
pub(crate) type Said = BTreeMap<&'static str, Vec<String>>;

/// One place settings come from.
#[derive(Debug)]
enum Source {
    Flags(Said),
    Variables(Said),
    /// And the line of each.
    File(PathBuf, Said, Lines),
}

/// The line of the file that has a setting, by its name with its table: `executor.lease`.
type Lines = BTreeMap<String, usize>;

/// Where the value of a setting comes from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag(String),
    Variable(String),
    /// The file and the line.
    File(String),
    Default,
}

impl Source {
    fn get(&self, key: &str) -> Option<&[String]> {
        let (Self::Flags(said) | Self::Variables(said) | Self::File(_, said, _)) = self;
        said.get(key).map(Vec::as_slice)
    }

    fn origin(&self, table: &str, key: &str) -> Origin {
        match self {
            Self::Flags(_) => Origin::Flag(format!("--{}", key.replace('_', "-"))),
            Self::Variables(_) => Origin::Variable(variable_that_is_set(key)),
            Self::File(path, _, lines) => {
                let line = lines.get(&format!("{table}{key}")).map_or_else(String::new, |line| format!(":{line}"));
                Origin::File(format!("{}{line}", path.display()))
            }
        }
    }

    /// Where a person finds `key` to correct it; a flag needs no hint.
    fn hint(&self, key: &str) -> String {
        match self {
            Self::Flags(_) => String::new(),
            Self::Variables(_) => format!(" ({})", variable_that_is_set(key)),
            Self::File(path, ..) => format!(" ({})", path.display()),
        }
    }
}

/// The variable that names this setting: one of them has two.
fn variable_that_is_set(key: &str) -> String {
    let unset = std::env::var_os(variable(key)).is_none_or(|text| text.is_empty());
    let slots = key == "core_pool_size" && unset && std::env::var_os(SLOTS).is_some();
    if slots { SLOTS.to_owned() } else { variable(key) }
}

/// All settings, strongest source first.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    sources: Vec<Source>,
    /// What the file has under `[tasks]`, and the file. Only the node reads it: a bad command does not keep commands like `jobs`
    /// from working.
    tasks: Option<(PathBuf, toml::Table)>,
    /// What the file has under `[pools]`, by name.
    pools: Vec<(String, Said)>,
}

impl Settings {
    pub(crate) fn gather(args: &Args) -> Result<Self, Failure> {
        let variables = from_variables(|name| match std::env::var(name) {
            Ok(text) => Ok(Some(text)),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => Err(Failure::Input(format!("{name}: is not UTF-8"))),
        })?;
        // The program of a task has variables about its job.
        if std::env::var_os("TURNWISE_JOB_ID").is_none() {
            std::env::vars_os().filter_map(|(name, _)| unknown_variable(name.to_str()?)).for_each(|text| remark(&text));
        }
        let mut sources = vec![Source::Flags(from_flags(args)), Source::Variables(variables)];
        let named = match &args.config {
            Some(path) => Some(path.clone()),
            None => std::env::var_os(CONFIG).filter(|path| !path.is_empty()).map(PathBuf::from),
        };
        let path = named.clone().unwrap_or_else(|| DEFAULT_FILE.into());
        let (mut tasks, mut pools) = (None, Vec::new());
        match fs::read_to_string(&path) {
            Ok(text) => {
                let file = from_file(&path, &text)?;
                sources.push(Source::File(path.clone(), file.said, file.lines));
                tasks = Some((path, file.tasks));
                pools = file.pools;
            }
            // Only a file that was asked for must be there.
            Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => {}
            Err(error) => return Err(Failure::Input(format!("config: {}: {error}", path.display()))),
        }
        Ok(Self { sources, tasks, pools })
    }

    /// Every setting by its name, with its values and where they come from.
    pub(crate) fn each(&self) -> Vec<(String, Vec<String>, Origin)> {
        let mut all = Vec::new();
        for (table, keys) in [("", &COMMON[..]), ("client.", &CLIENT), ("executor.", &EXECUTOR), ("server.", &SERVER)] {
            for &key in keys {
                let found = self.all_said(key);
                let origin = found.map_or(Origin::Default, |(source, _)| source.origin(table, key));
                all.push((key.to_owned(), found.map(|(_, texts)| texts.to_vec()).unwrap_or_default(), origin));
            }
        }
        let file = self.sources.iter().find(|source| matches!(source, Source::File(..)));
        let mut add = |table: String, key: &str, texts: Vec<String>| {
            let origin = file.map_or(Origin::Default, |file| file.origin(&table, key));
            all.push((format!("{table}{key}"), texts, origin));
        };
        for (name, said) in &self.pools {
            said.iter().for_each(|(key, texts)| add(format!("pools.{name}."), key, texts.clone()));
        }
        for (name, task) in self.tasks.iter().flat_map(|(_, tasks)| tasks) {
            for (key, value) in task.as_table().into_iter().flatten() {
                let text = scalar(value).or_else(|| serde_json::to_string(value).ok()).unwrap_or_default();
                add(format!("tasks.{name}."), key, vec![text]);
            }
        }
        all
    }

    /// The pools beside the node's own.
    pub(crate) fn pools(&self) -> Result<Vec<(String, Pool)>, Failure> {
        let read = |(name, said): &(String, Said)| {
            let place = self.tasks.as_ref().map(|(path, _)| format!("{}: ", path.display())).unwrap_or_default();
            let pool = pools::read(said).map_err(|invalid| Failure::Input(format!("{place}pools.{name}.{invalid}")))?;
            Ok((name.clone(), pool))
        };
        self.pools.iter().map(read).collect()
    }

    /// What the file says about tasks, all of it read.
    pub(crate) fn tasks(&self) -> Result<Tasks, Failure> {
        let Some((_, tasks)) = &self.tasks else { return Ok(Tasks::default()) };
        commands::read(tasks).map_err(|problem| self.bad_task(&problem))
    }

    /// Something is wrong with a task of the file.
    pub(crate) fn bad_task(&self, problem: &str) -> Failure {
        let place = self.tasks.as_ref().map(|(path, _)| format!("{}: ", path.display())).unwrap_or_default();
        Failure::Input(format!("{place}{problem}"))
    }

    pub(crate) fn database(&self) -> &str {
        self.said("database").map_or(DEFAULT_DATABASE, |(_, said)| said)
    }

    /// The server that is to be asked; `None`: the database is opened. Of the two, the one that a stronger source names counts.
    pub(crate) fn server(&self) -> Result<Option<Client>, Failure> {
        let Some((source, server)) = self.chosen_server()? else { return Ok(None) };
        let mut plain_http = false;
        self.read("server_plain_http", &mut plain_http, |text| truth("server_plain_http", text))?;
        let address = Address::read(server, plain_http).map_err(|invalid| refused(source, &invalid))?;
        let mut ca = None;
        self.read("server_ca", &mut ca, |text| Ok(Some(PathBuf::from(text))))?;
        let mut token = None;
        self.read("token", &mut token, |text| Token::read(text).map(Some))?;
        Ok(Some(Client::new(address, token.as_ref().map(|Token(secret)| secret.as_str()), ca.as_deref())?))
    }

    fn chosen_server(&self) -> Result<Option<(&Source, &str)>, Failure> {
        let names = |source: &&Source| source.get("server").is_some() || source.get("database").is_some();
        let Some(source) = self.sources.iter().find(names) else { return Ok(None) };
        match (source.get("server").and_then(<[_]>::first), source.get("database")) {
            (Some(_), Some(_)) => {
                let problem = Invalid::new("server", "is named together with a database; name one of them with a flag");
                Err(refused(source, &problem))
            }
            (Some(server), None) => Ok(Some((source, server))),
            (None, _) => Ok(None),
        }
    }

    /// For a command that works without a server: refuses one, instead of doing something else than was asked for.
    pub(crate) fn refuse_server(&self, alone: Alone, why: &str) -> Result<(), Failure> {
        let named = match alone {
            Alone::Never => false,
            Alone::Always => self.chosen_server()?.is_some(),
            // The one that no source names would be a file of this folder, and none is meant.
            Alone::BesideDatabase => {
                let by_flag = matches!(self.said("server"), Some((Source::Flags(_), _)));
                by_flag || self.said("server").is_some() && self.said("database").is_none()
            }
        };
        match self.said("server").filter(|_| named) {
            Some((source, _)) => {
                let problem =
                    Invalid::new("server", format!("this command does not ask one: {why}; name a --database"));
                Err(refused(source, &problem))
            }
            None => Ok(()),
        }
    }

    pub(crate) fn log(&self) -> Option<&str> {
        self.said("log").map(|(_, said)| said)
    }

    /// Whether the log is written as JSON.
    pub(crate) fn log_as_json(&self) -> Result<bool, Failure> {
        let mut json = false;
        self.read("log_format", &mut json, |text| match text {
            "text" => Ok(false),
            "json" => Ok(true),
            _ => Err(Invalid::new("log_format", format!("must be text or json, not {text:?}"))),
        })?;
        Ok(json)
    }

    /// Opens the database for a command that submits. Where it is a file that is not there yet, the file is made. A database in memory is
    /// refused: it would end with the command.
    pub(crate) async fn open_to_submit(&self) -> Result<Turnwise, Failure> {
        let url = self.database();
        if url.starts_with("memory:") || url.starts_with("sqlite::memory:") {
            let problem =
                format!("database: {url} ends with this command, and its jobs with it; name a file or a server");
            return Err(Failure::Input(problem));
        }
        let options = Options { schema: self.schema_to_submit()?, ..self.options()? };
        Ok(self.open_with(options).await?.acting_as(this_user()))
    }

    /// What a command that submits may do to the schema: make a file that is not there yet, and nothing to a database that is.
    fn schema_to_submit(&self) -> Result<Schema, Failure> {
        let url = self.database();
        let file = if url.starts_with("sqlite:") { SqliteStore::file(url)? } else { None };
        Ok(if file.is_some_and(|file| !file.exists()) { Schema::Automatic } else { Schema::Existing })
    }

    /// Opens the database for a node, which makes the schema where there is none. On PostgreSQL it brings an older one up to date only
    /// if that was asked for: other nodes may still need it.
    pub(crate) async fn open_for_a_node(&self) -> Result<Turnwise, Failure> {
        let mut migrate = false;
        self.read("migrate", &mut migrate, |text| truth("migrate", text))?;
        let schema = if migrate { Schema::Migrate } else { Schema::Create };
        self.check_named()?;
        self.open_with(Options { schema, ..self.options()? }).await
    }

    /// Opens the database as it is: neither a file nor a schema is made, and none is changed. What the command changes then is this user's.
    pub(crate) async fn open(&self) -> Result<Turnwise, Failure> {
        let opened = self.open_with(Options { schema: Schema::Existing, ..self.options()? }).await?;
        Ok(opened.acting_as(this_user()))
    }

    /// Refuses an address of PostgreSQL that names no database: what is to be made would land in one that was not chosen.
    pub(crate) fn check_named(&self) -> Result<(), Failure> {
        let url = self.database();
        if !url.starts_with("sqlite:") && !url.starts_with("memory:") && !turnwise_postgres::names_database(url)? {
            let problem = format!("{} names no database; write postgres://USER@HOST/NAME", without_password(url));
            return Err(Invalid::new("database", problem).into());
        }
        Ok(())
    }

    pub(crate) async fn open_with(&self, options: Options) -> Result<Turnwise, Failure> {
        let url = self.database();
        let opened = Turnwise::open_with(url, options).await;
        opened.map_err(|error| match error {
            // The message repeats a mistyped address, but without its password.
            Error::Invalid(mut invalid) => {
                invalid.problem = invalid.problem.replace(url, &without_password(url));
                invalid.into()
            }
            other => other.into(),
        })
    }

    pub(crate) fn options(&self) -> Result<Options, Failure> {
        let mut options = Options::default();
        self.read("connections", &mut options.connections, |text| match number("connections", text)? {
            0..3 => {
                Err(Invalid::new("connections", "must be at least 3: one listens, one submits, one is the node's own"))
            }
            enough => Ok(enough),
        })?;
        self.read("task_connections", &mut options.task_connections, |text| match number("task_connections", text)? {
            0 => Err(Invalid::new("task_connections", "must be at least 1")),
            most => Ok(Some(most)),
        })?;
        Ok(options)
    }

    /// Whether a person chose the node's name.
    pub(crate) fn names_node(&self) -> bool {
        self.said("name").is_some()
    }

    /// Where the HTTP API answers.
    pub(crate) fn listen(&self) -> Result<Listen, Failure> {
        let mut listen = Listen::default();
        self.read("listen", &mut listen.on, On::read)?;
        self.read("plain_http", &mut listen.plain_http, |text| truth("plain_http", text))?;
        self.read("allow_origin", &mut listen.origins, |text| {
            let mut origins = Origins::default();
            text.split(',').map(str::trim).try_for_each(|origin| origins.allow(origin))?;
            Ok(origins)
        })?;
        self.read("trust_proxy", &mut listen.proxies, |text| {
            let mut proxies = Proxies::default();
            text.split(',').map(str::trim).try_for_each(|network| proxies.trust(network))?;
            Ok(proxies)
        })?;
        let (mut cert, mut key) = (None, None);
        self.read("tls_cert", &mut cert, |text| Ok(Some(PathBuf::from(text))))?;
        self.read("tls_key", &mut key, |text| Ok(Some(PathBuf::from(text))))?;
        listen.certificate = match (cert, key) {
            (Some(cert), Some(key)) => Some(Certificate::read(cert, key)?),
            (None, None) => None,
            (Some(_), None) => return Err(Invalid::new("tls_key", "is missing beside tls_cert").into()),
            (None, Some(_)) => return Err(Invalid::new("tls_cert", "is missing beside tls_key").into()),
        };
        Ok(listen)
    }

    /// How the node is set up.
    pub(crate) fn executor(&self) -> Result<Config, Failure> {
        let mut config = match self.said("name") {
            Some((source, name)) => Config::new(NodeName::new(name).map_err(|invalid| refused(source, &invalid))?),
            None => Config::for_this_host()?,
        };
        config.thread_name_prefix = Some(THREAD_NAME_PREFIX.to_owned());
        self.read("core_pool_size", &mut config.core_pool_size, |text| number("core_pool_size", text))?;
        self.read("max_pool_size", &mut config.max_pool_size, |text| number("max_pool_size", text).map(Some))?;
        self.read("thread_name_prefix", &mut config.thread_name_prefix, |text| Ok(Some(text.to_owned())))?;
        self.read("queue_capacity", &mut config.queue_capacity, |text| number("queue_capacity", text))?;
        self.read("batch_size", &mut config.batch_size, |text| number("batch_size", text))?;
        self.read("look_every", &mut config.look_every, |text| number("look_every", text))?;
        self.read("poll_interval", &mut config.poll_interval, |text| parse_span("poll_interval", text).map(Some))?;
        self.read("lease", &mut config.lease, |text| parse_span("lease", text))?;
        self.read("await_termination", &mut config.await_termination, |text| parse_span("await_termination", text))?;
        self.read("wait_for_tasks_on_shutdown", &mut config.wait_for_tasks_on_shutdown, |text| {
            truth("wait_for_tasks_on_shutdown", text)
        })?;
        if let Some((source, names)) = self.all_said("queues").filter(|(_, names)| !names.is_empty()) {
            let queues = names.iter().map(QueueName::new).collect::<Result<_, _>>();
            config.queues = Some(queues.map_err(|invalid| refused(source, &invalid))?);
        }
        config.validate().map_err(|invalid| match self.all_said(invalid.field) {
            Some((source, _)) => refused(source, &invalid),
            None => invalid.into(),
        })?;
        Ok(config)
    }

    /// Replaces the default by the setting of `key`, if there is one.
    fn read<T>(
        &self,
        key: &'static str,
        value: &mut T,
        read: impl FnOnce(&str) -> Result<T, Invalid>,
    ) -> Result<(), Failure> {
        if let Some((source, text)) = self.said(key) {
            *value = read(text).map_err(|invalid| refused(source, &invalid))?;
        }
        Ok(())
    }

    fn said(&self, key: &str) -> Option<(&Source, &str)> {
        let (source, texts) = self.all_said(key)?;
        texts.first().map(|text| (source, text.as_str()))
    }

    fn all_said(&self, key: &str) -> Option<(&Source, &[String])> {
        self.sources.iter().find_map(|source| source.get(key).map(|texts| (source, texts)))
    }
}

/// Whether a command works without a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alone {
    Never,
    /// And a server that a variable or the file names, where a database is named as well, is meant for other commands.
    BesideDatabase,
    Always,
}

/// The secret of a token.
struct Token(String);

impl Token {
    /// The secret itself, or `@` and the file that has it.
    fn read(text: &str) -> Result<Self, Invalid> {
        let secret = match text.strip_prefix('@') {
            Some(path) => {
                fs::read_to_string(path).map_err(|error| Invalid::new("token", format!("{path}: {error}")))?
            }
            None => text.to_owned(),
        };
        // What is no token may still be a secret: it is not repeated.
        let secret = Secret::parse(secret.trim());
        let secret =
            secret.ok_or_else(|| Invalid::new("token", "is not a token: one begins with tw_ and has 46 characters"))?;
        Ok(Self(secret.reveal().to_owned()))
    }
}

fn refused(source: &Source, invalid: &Invalid) -> Failure {
    Failure::Input(format!("{invalid}{}", source.hint(invalid.field)))
}

pub(crate) fn number<N: FromStr>(field: &'static str, text: &str) -> Result<N, Invalid> {
    text.parse().map_err(|_| Invalid::new(field, format!("{text:?} is not a whole number within bounds")))
}

pub(crate) fn truth(field: &'static str, text: &str) -> Result<bool, Invalid> {
    text.parse().map_err(|_| Invalid::new(field, format!("must be true or false, not {text:?}")))
}

fn variable(key: &str) -> String {
    format!("TURNWISE_{}", key.to_uppercase())
}

fn from_flags(args: &Args) -> Said {
    let mut said = Said::new();
    let mut say = |key, text: &Option<String>| {
        if let Some(text) = text {
            said.insert(key, vec![text.clone()]);
        }
    };
    say("database", &args.database);
    say("log", &args.log);
    say("log_format", &args.log_format);
    say("server", &args.server);
    say("token", &args.token);
    say("server_ca", &args.server_ca);
    if args.server_plain_http {
        said.insert("server_plain_http", vec!["true".to_owned()]);
    }
    let mut say = |key, text: &Option<String>| {
        if let Some(text) = text {
            said.insert(key, vec![text.clone()]);
        }
    };
    if let Command::Serve(serve) = &args.command {
        say("name", &serve.name);
        say("core_pool_size", &serve.core_pool_size);
        say("max_pool_size", &serve.max_pool_size);
        say("thread_name_prefix", &serve.thread_name_prefix);
        say("queue_capacity", &serve.queue_capacity);
        say("batch_size", &serve.batch_size);
        say("poll_interval", &serve.poll_interval);
        say("look_every", &serve.look_every);
        say("lease", &serve.lease);
        say("wait_for_tasks_on_shutdown", &serve.wait_for_tasks_on_shutdown);
        say("await_termination", &serve.await_termination);
        say("connections", &serve.connections);
        say("task_connections", &serve.task_connections);
        say("listen", &serve.listen);
        say("tls_cert", &serve.tls_cert);
        say("tls_key", &serve.tls_key);
        say("allow_origin", &serve.allow_origin);
        say("trust_proxy", &serve.trust_proxy);
        for (key, _) in [("migrate", serve.migrate), ("plain_http", serve.plain_http)].iter().filter(|(_, said)| *said)
        {
            said.insert(key, vec!["true".to_owned()]);
        }
        if !serve.queues.is_empty() {
            said.insert("queues", serve.queues.clone());
        }
    }
    said
}

/// An empty variable counts as unset: that is how a shell or a container file unsets one.
fn from_variables(get: impl Fn(&str) -> Result<Option<String>, Failure>) -> Result<Said, Failure> {
    let mut said = Said::new();
    for key in COMMON.into_iter().chain(CLIENT).chain(EXECUTOR).chain(SERVER) {
        let mut text = get(&variable(key))?;
        if key == "core_pool_size" && text.as_ref().is_none_or(String::is_empty) {
            text = get(SLOTS)?;
        }
        let Some(text) = text.filter(|text| !text.is_empty()) else { continue };
        let texts = match key {
            "queues" => text.split(',').map(|name| name.trim().to_owned()).collect(),
            _ => vec![text],
        };
        said.insert(key, texts);
    }
    for key in MOVED {
        if get(&variable(key))?.is_some_and(|text| !text.is_empty()) {
            return Err(Failure::Input(format!("{}: {}", variable(key), moved(key))));
        }
    }
    Ok(said)
}

/// A warning about a variable that looks like a setting and is none.
fn unknown_variable(name: &str) -> Option<String> {
    let known = COMMON.into_iter().chain(CLIENT).chain(EXECUTOR).chain(SERVER).chain(MOVED).map(variable);
    let known = known.chain([SLOTS, CONFIG].map(str::to_owned));
    let known: Vec<String> = known.collect();
    if !name.starts_with("TURNWISE_") || known.iter().any(|known| known == name) {
        return None;
    }
    let meant = did_you_mean(name, known.iter().map(String::as_str));
    Some(format!("warning: {name} is not a setting and has no effect{meant}"))
}

/// What a settings file says.
#[derive(Debug, Default)]
struct File {
    said: Said,
    tasks: toml::Table,
    pools: Vec<(String, Said)>,
    lines: Lines,
}

/// The line of every key, up to those of `[tasks.NAME]`.
fn lines(text: &str) -> Lines {
    fn walk(text: &str, place: &str, table: &DeTable<'_>, found: &mut Lines) {
        for (key, value) in table.iter() {
            let name = format!("{place}{}", key.get_ref());
            let line = 1 + text.get(..key.span().start).unwrap_or_default().matches('\n').count();
            if let Some(table) = value.get_ref().as_table() {
                walk(text, &format!("{name}."), table, found);
            }
            found.insert(name, line);
        }
    }
    let mut found = Lines::new();
    if let Ok(table) = DeTable::parse(text) {
        walk(text, "", table.get_ref(), &mut found);
    }
    found
}

fn from_file(path: &Path, text: &str) -> Result<File, Failure> {
    let bad = |problem: String| Failure::Input(format!("{}: {problem}", path.display()));
    let file: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        bad(format!("line {line}: {}", error.message()))
    })?;
    let mut read = File { lines: lines(text), ..File::default() };
    for (key, value) in &file {
        match (COMMON.into_iter().find(|known| known == key), value) {
            (None, _) if MOVED.contains(&key.as_str()) => return Err(bad(moved(key))),
            (Some(key), value) => {
                read.said.insert(key, vec![scalar(value).ok_or_else(|| bad(format!("{key}: must be a text")))?])
            }
            (None, toml::Value::Table(executor)) if key == "executor" => {
                read.said.extend(from_table(executor, "executor.", &EXECUTOR).map_err(bad)?);
                None
            }
            (None, toml::Value::Table(server)) if key == "server" => {
                read.said.extend(from_table(server, "server.", &SERVER).map_err(bad)?);
                None
            }
            (None, toml::Value::Table(client)) if key == "client" => {
                read.said.extend(from_table(client, "client.", &CLIENT).map_err(bad)?);
                None
            }
            (None, toml::Value::Table(pools)) if key == "pools" => {
                for (name, pool) in pools {
                    let place = format!("pools.{name}");
                    let pool = pool.as_table().ok_or_else(|| bad(format!("{place}: must be a table")))?;
                    let said = from_table(pool, &format!("{place}."), &pools::KEYS).map_err(bad)?;
                    read.pools.push((name.clone(), said));
                }
                None
            }
            (None, toml::Value::Table(table)) if key == "tasks" => {
                read.tasks.clone_from(table);
                None
            }
            (None, _) if TABLES.contains(&key.as_str()) => {
                return Err(bad(format!("{key}: must be a table")));
            }
            (None, _) => return Err(bad(unknown(key, "", &COMMON))),
        };
    }
    Ok(read)
}

fn moved(key: &str) -> String {
    format!("{key} is set for all nodes at once; use: turnwise installation set --{key} …")
}

fn from_table(table: &toml::Table, place: &str, known: &[&'static str]) -> Result<Said, String> {
    let mut said = Said::new();
    for (key, value) in table {
        let Some(&known) = known.iter().find(|known| *known == key) else {
            return Err(if MOVED.contains(&key.as_str()) { moved(key) } else { unknown(key, place, known) });
        };
        let texts = match (known, value) {
            ("queues", toml::Value::Array(names)) => {
                names.iter().map(|name| name.as_str().map(str::to_owned)).collect()
            }
            ("queues", _) => None,
            (_, value) => scalar(value).map(|text| vec![text]),
        };
        let wanted = if known == "queues" { "an array of texts" } else { "one value" };
        said.insert(known, texts.ok_or_else(|| format!("{place}{known}: must be {wanted}"))?);
    }
    Ok(said)
}

fn scalar(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(truth) => Some(truth.to_string()),
        _ => None,
    }
}

fn unknown(key: &str, table: &str, known: &[&str]) -> String {
    let belongs = match key {
        _ if !table.is_empty() => "",
        key if CLIENT.contains(&key) => "; it belongs under [client]",
        key if !EXECUTOR.contains(&key) && !SERVER.contains(&key) => "",
        key if SERVER.contains(&key) => "; it belongs under [server]",
        _ => "; it belongs under [executor]",
    };
    let (tables, names) = if table.is_empty() {
        ("; tables are [client], [executor], [pools.NAME], [server] and [tasks.NAME]", &TABLES[..])
    } else {
        ("", &[][..])
    };
    let meant = if belongs.is_empty() { did_you_mean(key, known.iter().chain(names).copied()) } else { String::new() };
    format!("unknown key {:?}{belongs}; known are {}{tables}{meant}", format!("{table}{key}"), known.join(", "))
}

#[cfg(test)]
mod page;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;

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
        assert_eq!(
            (config.core_pool_size, config.name.as_str(), config.lease),
            (3, "variable", Duration::from_secs(10))
        );
        assert_eq!(config.queues.unwrap().into_iter().map(|queue| queue.to_string()).collect::<Vec<_>>(), ["flag"]);
    }

    #[test]
    fn a_bad_value_is_refused_with_its_name_and_its_place() {
        let executor = |typed: &[&str], variables: &[(&str, &str)], file: &str| {
            refusal(settings(typed, variables, file).unwrap().executor())
        };
        assert!(executor(&["--slots", "many"], &[], "").starts_with("core_pool_size: \"many\""));
        let variable = ("TURNWISE_CORE_POOL_SIZE", "0");
        assert_eq!(
            executor(&[], &[variable], ""),
            "core_pool_size: must be 1 to 100000 slots (TURNWISE_CORE_POOL_SIZE)"
        );
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
        assert!(
            file("listen = 'none'").starts_with("turnwise.toml: unknown key \"listen\"; it belongs under [server]")
        );
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
            file("[pools.mail]\nlease = '1s'")
                .starts_with("turnwise.toml: unknown key \"pools.mail.lease\"; known are ")
        );
        assert!(
            file("[pools.mail]\nqueues = 'mail'").starts_with("turnwise.toml: pools.mail.queues: must be an array")
        );
        let bad = settings(&[], &[], "[pools.mail]\nqueues = ['mail']\ncore_pool_size = 'many'").unwrap();
        assert!(refusal(bad.pools()).starts_with("turnwise.toml: pools.mail.core_pool_size: \"many\""));
        let good = settings(&[], &[], "[pools.mail]\nqueues = ['mail']\n[pools.pdf]\nqueues = ['pdf']").unwrap();
        assert_eq!(good.pools().unwrap().into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["mail", "pdf"]);
    }
}
