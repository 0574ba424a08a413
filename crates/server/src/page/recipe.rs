//! How the same is had, or done, without the page: as JSON, by a command, by `curl`.
//!
//! A table has one made with [`Visit::table`], a form one made with [`Visit::action`]; `parts::recipe` shows it. The addresses are made
//! from the table of routes, so they are those that the page itself asks.

use std::fmt::Write as _;

use serde_json::Value;

use crate::page::{
    Visit,
    visit::{encoded, parameters},
};

/// The ways to the same without the page.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    /// A link to the JSON, for what a browser can ask for.
    pub(crate) json: Option<String>,
    /// `None`: no command does it.
    pub(crate) cli: Option<String>,
    pub(crate) curl: String,
}

/// A command of `turnwise`, made of its words.
#[derive(Debug, Clone, Default)]
pub(crate) struct Command {
    verb: &'static str,
    values: Vec<String>,
    options: Vec<(&'static str, Option<String>)>,
}

impl Command {
    /// As it stands behind `turnwise`: `group set`.
    pub(crate) fn new(verb: &'static str) -> Self {
        Self { verb, ..Self::default() }
    }

    /// With a value in its place, such as a name.
    pub(crate) fn value(mut self, value: impl Into<String>) -> Self {
        self.values.push(value.into());
        self
    }

    /// With a value behind an option: `--weight`.
    pub(crate) fn option(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.options.push((name, Some(value.into())));
        self
    }

    /// With an option that has no value.
    pub(crate) fn flag(mut self, name: &'static str) -> Self {
        self.options.push((name, None));
        self
    }

    /// As a shell takes it, to the letter.
    fn line(&self) -> String {
        let options = self.options.iter().flat_map(|(name, value)| match value {
            None => vec![(*name).to_owned()],
            // It would be taken for an option itself.
            Some(value) if value.starts_with('-') => vec![quoted(&format!("{name}={value}"))],
            Some(value) => vec![(*name).to_owned(), quoted(value)],
        });
        let values = self.values.iter().map(|value| quoted(value));
        let line = ["turnwise".to_owned(), self.verb.to_owned()].into_iter();
        let line: Vec<_> = if self.values.iter().any(|value| value.starts_with('-')) {
            line.chain(options).chain(["--".to_owned()]).chain(values).collect()
        } else {
            line.chain(values).chain(options).collect()
        };
        line.join(" ")
    }
}

/// A text as one word of a shell, which takes it to the letter.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

impl Visit {
    /// Of what a page shows: the route that it reads, with the name in its path and its parameters.
    pub(crate) fn table(
        &self,
        route: &'static str,
        name: &str,
        asked: &[(&str, &str)],
        command: Option<Command>,
    ) -> Recipe {
        let path = Self::path(route, name) + &parameters(asked.iter().copied());
        Recipe {
            curl: self.curl(None, &path, None),
            json: Some(format!("{}{path}", self.root)),
            cli: command.map(|command| self.on_this_server(command)),
        }
    }

    /// Of what a form does: the route that it asks, with the name in its path and an example of its body.
    pub(crate) fn action(
        &self,
        route: &'static str,
        name: &str,
        body: Option<&Value>,
        command: Option<Command>,
    ) -> Recipe {
        let path = Self::path(route, name);
        let method = Self::route(route).map(|route| route.verb.method());
        let method = method.map_or_else(|_| "POST".to_owned(), |method| method.to_string());
        Recipe {
            curl: self.curl(Some(&method), &path, body),
            json: None,
            cli: command.map(|command| self.on_this_server(command)),
        }
    }

    fn on_this_server(&self, command: Command) -> String {
        let address = self.address();
        let plain = address.starts_with("http://") && !is_this_machine(&address);
        let command = command.option("--server", address);
        if plain { command.flag("--server-plain-http").line() } else { command.line() }
    }

    /// The path of a route, without its first slash.
    fn path(route: &'static str, name: &str) -> String {
        let path = Self::route(route).map_or("", |route| route.path);
        let path = match (path.find('{'), path.find('}')) {
            (Some(from), Some(to)) => format!("{}{}{}", &path[..from], encoded(name), &path[to + 1..]),
            _ => path.to_owned(),
        };
        path.trim_start_matches('/').to_owned()
    }

    fn curl(&self, method: Option<&str>, path: &str, body: Option<&Value>) -> String {
        let mut line = "curl".to_owned();
        if let Some(method) = method {
            line += &format!(" -X {method}");
        }
        if self.asker.caller.bearer().is_some() {
            line += " -H \"authorization: Bearer $TURNWISE_TOKEN\"";
        }
        if let Some(body) = body {
            // Writing to a string cannot fail.
            let _ = write!(line, " -H 'content-type: application/json' -d {}", quoted(&body.to_string()));
        }
        line + " " + &quoted(&format!("{}/{path}", self.address()))
    }
}

/// The commands ask other machines in the clear only if they are told to.
fn is_this_machine(address: &str) -> bool {
    let host = address.trim_start_matches("http://");
    ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .any(|here| host.strip_prefix(here).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/'])))
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    /// What a shell makes of a line.
    fn words(line: &str) -> Vec<String> {
        let script = format!("set -f; printf '%s\\0' {line}");
        let output = process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.strip_suffix('\0').unwrap_or_default().split('\0').map(str::to_owned).collect()
    }

    #[test]
    fn a_shell_takes_every_text_to_the_letter() {
        let hostile = [
            "acme",
            "",
            "two words",
            "it's",
            "$HOME `id` $(id)",
            "a\"b\\c",
            "*?[x]{a,b}",
            "~",
            "!x",
            "#x",
            "a;b|c&d>e<f",
            "-rf",
            "--server=http://evil.example",
            "a\nb",
            "  two  ",
            "=x",
            "é\u{202e}",
            "\\'",
        ];
        for text in hostile {
            assert_eq!(words(&quoted(text)), [text]);
            let line = Command::new("group set").value(text).option("--rate", text).line();
            let dashed = if text.starts_with('-') {
                vec![format!("--rate={text}"), "--".to_owned(), text.to_owned()]
            } else {
                vec![text.to_owned(), "--rate".to_owned(), text.to_owned()]
            };
            let begins = ["turnwise", "group", "set"].map(str::to_owned);
            assert_eq!(words(&line), begins.into_iter().chain(dashed).collect::<Vec<_>>());
        }
    }

    #[test]
    fn another_machine_is_asked_in_the_clear_only_on_demand() {
        for (address, here) in [
            ("http://127.0.0.1:8080", true),
            ("http://[::1]:8080", true),
            ("http://localhost/jobs", true),
            ("http://localhost.example.com", false),
            ("http://10.0.0.7:8080", false),
        ] {
            assert_eq!(is_this_machine(address), here, "{address}");
        }
    }
}
