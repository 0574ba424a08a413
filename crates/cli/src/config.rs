//! The settings of this machine's commands and node: each with its value, and where that comes from.

use clap::CommandFactory;
use serde::Serialize;
use turnwise_core::secret::without_password;

use crate::{
    args::{Args, Table},
    error::Failure,
    print,
    settings::{Origin, Settings},
};

/// What stands for a secret.
const HIDDEN: &str = "(hidden)";

/// A setting as it is printed.
#[derive(Debug, Serialize)]
struct Setting {
    name: String,
    /// `null`: it has none.
    value: Option<String>,
    /// `flag`, `variable`, `file` or `default`.
    from: &'static str,
    /// The flag, the variable, or the file with the line; `null` of a default.
    place: Option<String>,
}

pub(crate) fn config(settings: &Settings, call: &Table) -> Result<(), Failure> {
    let all = settings.each().into_iter().map(|(name, values, origin)| {
        let value = match &origin {
            Origin::Default => default(&name),
            _ => Some(shown(&name, &values.join(", "))),
        };
        let (from, place) = match origin {
            Origin::Flag(flag) => ("flag", Some(flag)),
            Origin::Variable(variable) => ("variable", Some(variable)),
            Origin::File(place) => ("file", Some(place)),
            Origin::Default => ("default", None),
        };
        Setting { name, value, from, place }
    });
    if call.json {
        return Ok(print::array(all)?);
    }
    let row = |setting: Setting| {
        let place = setting.place.map_or_else(String::new, |place| format!(" {place}"));
        [setting.name, print::clean(&print::shown(setting.value)), format!("{}{place}", setting.from)]
    };
    Ok(print::table(["SETTING", "VALUE", "FROM"], all.map(row), call.wide)?)
}

/// Without what is secret in it.
fn shown(name: &str, value: &str) -> String {
    match name {
        "database" => without_password(value),
        // Only the name of a file is no secret; and what may be a secret in an address is refused when it is used.
        "token" if !value.starts_with('@') => HIDDEN.to_owned(),
        "server" if value.contains(['@', '?', '#']) => HIDDEN.to_owned(),
        _ => value.to_owned(),
    }
}

/// As the help names it: a default may depend on the machine.
fn default(name: &str) -> Option<String> {
    let command = Args::command();
    let serve = command.find_subcommand("serve")?;
    let flag = command.get_arguments().chain(serve.get_arguments()).find(|flag| flag.get_id() == name)?;
    let help = flag.get_help()?.to_string();
    let (_, default) = help.split_once(" [default: ")?;
    Some(default.trim_end_matches(']').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_defaults_are_those_of_the_help() {
        assert_eq!(shown("database", "postgres://ann:s3cret@db/jobs"), "postgres://ann@db/jobs");
        assert_eq!(shown("token", "tw_secret"), HIDDEN);
        assert_eq!(shown("token", "@token.txt"), "@token.txt");
        assert_eq!(shown("server", "https://tw_secret@jobs"), HIDDEN);
        assert_eq!(shown("server", "https://jobs"), "https://jobs");
        assert_eq!(default("lease").as_deref(), Some("5s"));
        assert_eq!(default("token"), None);
    }
}
