//! Flags, then `TURNWISE_*` variables, then `turnwise.toml`: the first of them that names a setting wins.
//!
//! Every source is brought to the same form, text by the setting's name, so that a value is read by the same code and
//! refused with the same words wherever it comes from.
//!
//! `keys` their names → `source` the places they come from → `file` what the file may say → `server`, `database` and `node` what is made of
//! them.

mod database;
mod file;
mod keys;
mod node;
mod server;
mod source;
#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;

use std::{fs, io, path::PathBuf, str::FromStr};

use turnwise::{Invalid, Pool};

pub(crate) use self::{
    server::Alone,
    source::{Origin, Said},
};

use self::{
    file::{from_file, scalar},
    keys::{CLIENT, COMMON, CONFIG, EXECUTOR, SERVER},
    source::{Source, from_flags, from_variables, refused, unknown_variable},
};
use crate::{
    args::Args,
    commands::{self, Tasks},
    error::{Failure, remark},
    pools,
};

const DEFAULT_FILE: &str = "turnwise.toml";

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

pub(crate) fn number<N: FromStr>(field: &'static str, text: &str) -> Result<N, Invalid> {
    text.parse().map_err(|_| Invalid::new(field, format!("{text:?} is not a whole number within bounds")))
}

pub(crate) fn truth(field: &'static str, text: &str) -> Result<bool, Invalid> {
    text.parse().map_err(|_| Invalid::new(field, format!("must be true or false, not {text:?}")))
}
