//! Tasks that are programs: `[tasks.NAME]` in `turnwise.toml`.

use std::path::PathBuf;

use serde::Deserialize;
use turnwise::{AnyTask, CommandTask, Invalid, Policies};

/// A task as the file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    command: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
    cwd: Option<PathBuf>,
    timeout: Option<String>,
    retry: Option<String>,
    stdin: Option<String>,
    result: Option<String>,
    #[serde(default)]
    fail_codes: Vec<i32>,
}

/// The tasks of the table `[tasks]`, or what is wrong with the first bad one, by its name.
pub(crate) fn read(tasks: &toml::Table) -> Result<Vec<AnyTask>, String> {
    let read = |(name, value): (&String, &toml::Value)| {
        let bad = |problem: String| format!("tasks.{name}: {problem}");
        if value.get("command").is_some_and(toml::Value::is_str) {
            return Err(bad("command: must be an array of words; there is no shell to take a text apart".to_owned()));
        }
        let written: Written =
            value.clone().try_into().map_err(|error: toml::de::Error| bad(error.message().to_owned()))?;
        written.task(name).map_err(|invalid| bad(invalid.to_string()))
    };
    tasks.iter().map(read).collect()
}

impl Written {
    fn task(self, name: &str) -> Result<AnyTask, Invalid> {
        let mut command = CommandTask::new(&self.command)?.pass(self.env)?.fail_codes(self.fail_codes)?;
        if let Some(directory) = self.cwd {
            command = command.cwd(directory);
        }
        if let Some(stdin) = self.stdin {
            command = command.stdin(stdin.parse()?);
        }
        if let Some(form) = self.result {
            command = command.result(form.parse()?);
        }
        let policies = Policies::read(self.retry.as_deref(), self.timeout.as_deref(), None)?;
        Ok(command.into_task(name).with_policies(policies))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(text: &str) -> Result<Vec<AnyTask>, String> {
        read(&text.parse().unwrap())
    }

    #[test]
    fn every_option_of_a_command_is_read() {
        let all = r#"
            [thumbnail]
            command = ["convert", "{args.from}", "--width={args.width}", "{id}"]
            env = ["PATH", "HOME"]
            cwd = "/tmp"
            timeout = "30s"
            retry = "durations:1s,2s"
            stdin = "none"
            result = "json"
            fail_codes = [2, 64]
            [least]
            command = ["true"]
        "#;
        let tasks = tasks(all).unwrap();
        let names: Vec<_> = tasks.iter().map(AnyTask::name).collect();
        assert_eq!(names, ["least", "thumbnail"]);
        let thumbnail = tasks[1].policies().unwrap();
        assert_eq!(thumbnail.timeout, Some(std::time::Duration::from_secs(30)));
        assert_eq!(thumbnail.retry.as_ref().unwrap().to_string(), "durations:1s,2s");
        let least = tasks[0].policies().unwrap();
        assert!(least.timeout.is_none() && least.retry.is_none());
    }

    #[test]
    fn a_bad_command_is_refused_with_the_name_of_its_task() {
        for (text, problem) in [
            ("a.command = []", "tasks.a: command: must name a program"),
            ("a.command = ['{args.x}']", "tasks.a: command: the program itself must not come from the job"),
            ("a.command = ['x', '{arg}']", "tasks.a: command: \"{arg}\": unknown placeholder {arg}"),
            ("a.command = ['x', '{args']", "tasks.a: command: \"{args\": a brace stands alone"),
            ("a.command = 'ls -l'", "tasks.a: command: must be an array of words"),
            ("a.command = ['x', 1]", "tasks.a: invalid type: integer `1`"),
            ("a.cwd = '/'", "tasks.a: missing field `command`"),
            ("a.comand = ['x']", "tasks.a: unknown field `comand`"),
            ("a = 'x'", "tasks.a: invalid type: string \"x\""),
            ("a = { command = ['x'], timeout = '30' }", "tasks.a: timeout: \"30\" is not a duration"),
            ("a = { command = ['x'], retry = 'often' }", "tasks.a: retry: "),
            ("a = { command = ['x'], result = 'yaml' }", "tasks.a: result: \"yaml\" is not one of"),
            ("a = { command = ['x'], stdin = 'file' }", "tasks.a: stdin: \"file\" is not one of"),
            ("a = { command = ['x'], fail_codes = [0] }", "tasks.a: fail_codes: 0 is not"),
            ("a = { command = ['x'], env = ['A=1'] }", "tasks.a: env: \"A=1\" is not the name"),
        ] {
            let told = tasks(text).unwrap_err();
            assert!(told.starts_with(problem), "{text}: {told}");
        }
    }
}
