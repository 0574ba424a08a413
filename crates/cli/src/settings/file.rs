//! `turnwise.toml`: its tables, their keys, and the line of each.

use std::path::Path;

use toml::de::DeTable;

use super::{
    keys::{CLIENT, COMMON, EXECUTOR, MOVED, SERVER, TABLES, moved},
    source::{Lines, Said},
};
use crate::{error::Failure, known::did_you_mean, pools};

/// What a settings file says.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) said: Said,
    pub(super) tasks: toml::Table,
    pub(super) pools: Vec<(String, Said)>,
    pub(super) lines: Lines,
}

pub(super) fn from_file(path: &Path, text: &str) -> Result<File, Failure> {
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

pub(super) fn scalar(value: &toml::Value) -> Option<String> {
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
