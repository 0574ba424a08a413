//! The places that settings come from: each is a [`Source`] of texts by the setting's name.

use std::{collections::BTreeMap, path::PathBuf};

use turnwise::Invalid;

use super::keys::{CLIENT, COMMON, CONFIG, EXECUTOR, MOVED, SERVER, SLOTS, moved, variable};
use crate::{
    args::{Args, Command},
    error::Failure,
    known::did_you_mean,
};

/// Values by setting; all but `queues` have one.
pub(crate) type Said = BTreeMap<&'static str, Vec<String>>;

/// One place settings come from.
#[derive(Debug)]
pub(super) enum Source {
    Flags(Said),
    Variables(Said),
    /// And the line of each.
    File(PathBuf, Said, Lines),
}

/// The line of the file that has a setting, by its name with its table: `executor.lease`.
pub(super) type Lines = BTreeMap<String, usize>;

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
    pub(super) fn get(&self, key: &str) -> Option<&[String]> {
        let (Self::Flags(said) | Self::Variables(said) | Self::File(_, said, _)) = self;
        said.get(key).map(Vec::as_slice)
    }

    pub(super) fn origin(&self, table: &str, key: &str) -> Origin {
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
    pub(super) fn hint(&self, key: &str) -> String {
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

pub(super) fn refused(source: &Source, invalid: &Invalid) -> Failure {
    Failure::Input(format!("{invalid}{}", source.hint(invalid.field)))
}

pub(super) fn from_flags(args: &Args) -> Said {
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
        say("embed_origin", &serve.embed_origin);
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
pub(super) fn from_variables(get: impl Fn(&str) -> Result<Option<String>, Failure>) -> Result<Said, Failure> {
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
pub(super) fn unknown_variable(name: &str) -> Option<String> {
    let known = COMMON.into_iter().chain(CLIENT).chain(EXECUTOR).chain(SERVER).chain(MOVED).map(variable);
    let known = known.chain([SLOTS, CONFIG].map(str::to_owned));
    let known: Vec<String> = known.collect();
    if !name.starts_with("TURNWISE_") || known.iter().any(|known| known == name) {
        return None;
    }
    let meant = did_you_mean(name, known.iter().map(String::as_str));
    Some(format!("warning: {name} is not a setting and has no effect{meant}"))
}
