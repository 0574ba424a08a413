//! Tasks that need no Rust: `[tasks.NAME]` in `turnwise.toml`. A program here, an HTTP endpoint in [`http_task`].

use std::{collections::BTreeSet, path::PathBuf};

use serde::Deserialize;
use turnwise::{AnyTask, CommandTask, Invalid, Policies, Registry, TaskName};
use turnwise_core::time::parse_span;

use crate::{http_task, known::did_you_mean};

/// What the file says about tasks.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    /// Those that are programs, or HTTP endpoints.
    pub(crate) commands: Vec<AnyTask>,
    /// Those that other nodes run.
    pub(crate) elsewhere: BTreeSet<String>,
    named: Vec<Named>,
}

/// A task that another one may go on as.
#[derive(Debug)]
struct Named {
    by: String,
    option: &'static str,
    task: String,
}

impl Tasks {
    /// Refuses a task to go on as that neither this node nor, by the file, another one has: its jobs would wait for ever.
    pub(crate) fn check(&self, registry: &Registry) -> Result<(), String> {
        let here: BTreeSet<&str> = registry.names().map(TaskName::as_str).collect();
        let known = |task: &str| here.contains(task) || self.elsewhere.contains(task);
        match self.named.iter().find(|named| !known(&named.task)) {
            None => Ok(()),
            Some(Named { by, option, task }) => {
                let all = here.iter().copied().chain(self.elsewhere.iter().map(String::as_str));
                let hint = did_you_mean(task, all);
                let how = format!("if other nodes run it, say so: [tasks.{task}] elsewhere = true");
                Err(format!("tasks.{by}: {option}: there is no task {task:?}{hint} ({how})"))
            }
        }
    }

    /// The tasks of other nodes that those of this file may go on as.
    pub(crate) fn needed_elsewhere(&self, registry: &Registry) -> BTreeSet<String> {
        let here = |task: &str| registry.names().any(|name| name.as_str() == task);
        self.named.iter().map(|named| named.task.clone()).filter(|task| !here(task)).collect()
    }
}

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
    fail_codes: Option<Vec<i32>>,
    snooze_codes: Option<Vec<i32>>,
    snooze: Option<String>,
    next: Option<String>,
    on_exhausted: Option<String>,
    #[serde(default)]
    secret: Vec<String>,
}

/// A task of other nodes as the file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Elsewhere {
    elsewhere: bool,
}

/// The tasks of the table `[tasks]`, or what is wrong with the first bad one, by its name.
pub(crate) fn read(tasks: &toml::Table) -> Result<Tasks, String> {
    let mut read = Tasks::default();
    for (name, value) in tasks {
        let bad = |problem: String| format!("tasks.{name}: {problem}");
        if value.get("command").is_some_and(toml::Value::is_str) {
            return Err(bad("command: must be an array of words, like ['ls', '-l']; there is no shell".to_owned()));
        }
        let unreadable = |error: toml::de::Error| bad(error.message().to_owned());
        if value.get("elsewhere").is_some() {
            let Elsewhere { elsewhere } = value.clone().try_into().map_err(unreadable)?;
            if !elsewhere {
                return Err(bad("elsewhere: must be true, or left out".to_owned()));
            }
            TaskName::new(name).map_err(|invalid| bad(invalid.to_string()))?;
            read.elsewhere.insert(name.clone());
            continue;
        }
        let (task, next, on_exhausted) = if value.get("url").is_some() {
            let written: http_task::Written = value.clone().try_into().map_err(unreadable)?;
            let (next, on_exhausted) = (written.next.clone(), written.on_exhausted.clone());
            (written.task(name), next, on_exhausted)
        } else {
            let written: Written = value.clone().try_into().map_err(unreadable)?;
            let (next, on_exhausted) = (written.next.clone(), written.on_exhausted.clone());
            (written.task(name), next, on_exhausted)
        };
        let named = [("next", next), ("on_exhausted", on_exhausted)];
        read.named.extend(
            named.into_iter().filter_map(|(option, task)| Some(Named { by: name.clone(), option, task: task? })),
        );
        read.commands.push(task.map_err(|invalid| bad(invalid.to_string()))?);
    }
    Ok(read)
}

impl Written {
    fn task(self, name: &str) -> Result<AnyTask, Invalid> {
        let mut command = CommandTask::new(&self.command)?.pass(self.env)?;
        if let Some(codes) = self.fail_codes {
            command = command.fail_codes(codes)?;
        }
        if let Some(codes) = self.snooze_codes {
            command = command.snooze_codes(codes)?;
        }
        if let Some(wait) = self.snooze {
            command = command.snooze(parse_span("snooze", &wait)?)?;
        }
        if let Some(directory) = self.cwd {
            command = command.cwd(directory);
        }
        if let Some(stdin) = self.stdin {
            command = command.stdin(stdin.parse()?);
        }
        if let Some(form) = self.result {
            command = command.result(form.parse()?);
        }
        if let Some(task) = self.next {
            command = command.next(task)?;
        }
        let policies = Policies::read(self.retry.as_deref(), self.timeout.as_deref(), None)?;
        let mut policies = policies.secret(self.secret)?;
        let bad = |invalid: Invalid| Invalid::new("on_exhausted", invalid.problem);
        policies.on_exhausted = self.on_exhausted.map(TaskName::new).transpose().map_err(bad)?;
        Ok(command.into_task(name).with_policies(policies))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(text: &str) -> Result<Vec<AnyTask>, String> {
        Ok(read(&text.parse().unwrap())?.commands)
    }

    /// Whether a node that knows these tasks, and `built_in`, can start.
    fn checked(text: &str) -> Result<BTreeSet<String>, String> {
        let tasks = read(&text.parse().unwrap()).unwrap();
        let mut registry = Registry::new();
        registry.add(CommandTask::new(&["true"]).unwrap().into_task("built_in")).unwrap();
        for command in read(&text.parse().unwrap()).unwrap().commands {
            registry.add(command).unwrap();
        }
        tasks.check(&registry)?;
        Ok(tasks.needed_elsewhere(&registry))
    }

    #[test]
    fn a_task_to_go_on_as_must_be_known_to_this_node_or_by_the_file_to_another() {
        let with = |option: &str, rest: &str| checked(&format!("a = {{ command = ['x'], {option} }}\n{rest}"));
        let here = BTreeSet::new();
        assert_eq!(with("next = 'built_in', on_exhausted = 'a'", ""), Ok(here.clone()));
        assert_eq!(with("next = 'b'", "b.command = ['y']"), Ok(here));
        assert_eq!(with("next = 'send'", "send.elsewhere = true"), Ok(BTreeSet::from(["send".to_owned()])));
        let how = "(if other nodes run it, say so: [tasks.biult_in] elsewhere = true)";
        let refusal = format!("tasks.a: next: there is no task \"biult_in\"; did you mean \"built_in\"? {how}");
        assert_eq!(with("next = 'biult_in'", ""), Err(refusal));
        let refusal = with("on_exhausted = 'cleanup'", "").unwrap_err();
        assert!(refusal.starts_with("tasks.a: on_exhausted: there is no task \"cleanup\" (if"), "{refusal}");
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
            snooze_codes = [75, 100]
            snooze = "5m"
            next = "least"
            on_exhausted = "least"
            secret = ["/card/number", "/pin"]
            [least]
            command = ["true"]
        "#;
        let tasks = tasks(all).unwrap();
        let names: Vec<_> = tasks.iter().map(AnyTask::name).collect();
        assert_eq!(names, ["least", "thumbnail"]);
        let thumbnail = tasks[1].policies().unwrap();
        assert_eq!(thumbnail.timeout, Some(std::time::Duration::from_secs(30)));
        assert_eq!(thumbnail.on_exhausted.as_ref().map(TaskName::as_str), Some("least"));
        assert_eq!(thumbnail.retry.as_ref().unwrap().to_string(), "durations:1s,2s");
        assert_eq!(thumbnail.secret.iter().map(ToString::to_string).collect::<Vec<_>>(), ["/card/number", "/pin"]);
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
            ("a = { command = ['x'], snooze_codes = [0] }", "tasks.a: snooze_codes: 0 is not"),
            ("a = { command = ['x'], snooze = 'later' }", "tasks.a: snooze: \"later\" is not a duration"),
            ("a = { command = ['x'], next = '' }", "tasks.a: next: must not be empty"),
            ("a = { command = ['x'], on_exhausted = ' b' }", "tasks.a: on_exhausted: must not begin"),
            ("a = { command = ['x'], secret = ['pin'] }", "tasks.a: secret: \"pin\" is not a JSON pointer"),
            ("a = { elsewhere = false }", "tasks.a: elsewhere: must be true"),
            ("a = { elsewhere = true, command = ['x'] }", "tasks.a: unknown field `command`"),
            ("a = { command = ['x'], env = ['A=1'] }", "tasks.a: env: \"A=1\" is not the name"),
            ("a = { url = 'ftp://x' }", "tasks.a: url: must begin with https:// or http://"),
            ("a = { url = 'http://x', command = ['x'] }", "tasks.a: unknown field `command`"),
            (
                "a = { url = 'http://x', sign_env = ['TURNWISE_NO_SUCH'] }",
                "tasks.a: sign_env: the variable TURNWISE_NO_SUCH",
            ),
            ("a = { url = 'http://x', sign_files = ['/no/such'] }", "tasks.a: sign_files: /no/such: "),
            ("a = { url = 'http://x', ca = 'x.pem' }", "tasks.a: ca: has no effect"),
            ("a = { url = 'http://x', proxy = 'x' }", "tasks.a: proxy: "),
            ("a = { url = 'http://x', proxy = 'http://p', private_addresses = false }", "tasks.a: private_addresses: "),
            ("a = { url = 'http://x', timeout = '30' }", "tasks.a: timeout: \"30\" is not a duration"),
        ] {
            let refusal = tasks(text).unwrap_err();
            assert!(refusal.starts_with(problem), "{text}: {refusal}");
        }
    }
}
