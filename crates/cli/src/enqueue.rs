//! Submitting: one job from the command line, or many from stdin, all or none.

use std::{
    borrow::Cow,
    cell::Cell,
    collections::HashMap,
    fmt,
    io::{self, BufRead, Read},
};

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use turnwise::{Duplicate, Invalid, JobId, JobRequest, Priority, Timestamp};
use turnwise_core::time::parse_span;

use crate::{
    args,
    error::{Failure, remark},
    print,
    serve::block_on,
    settings::Settings,
};

/// Longest line of stdin: room for the largest arguments and then some, so that a file without line breaks is refused
/// before it fills the memory.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

pub(crate) fn enqueue(settings: &Settings, wish: &args::Enqueue) -> Result<(), Failure> {
    // All input is read before the database is touched: what is refused leaves no trace.
    let requests = if wish.stdin {
        read_lines(io::stdin().lock())?
    } else {
        let written = typed(wish);
        let after = written.after.iter().map(|id| id.parse()).collect::<Result<Vec<JobId>, _>>();
        vec![written.request()?.after_jobs(after.map_err(|invalid| Invalid::new("after", invalid.to_string()))?)]
    };
    let enqueued = block_on(async { Ok(settings.open_lasting().await?.submit_each(requests).await?) })?;
    for (id, duplicate) in enqueued.iter().filter_map(|reply| Some((reply.id, reply.duplicate?))) {
        remark(&match duplicate {
            Duplicate::Kept => format!("job {id} holds the unique key; nothing was added"),
            Duplicate::Replaced => format!("job {id} holds the unique key; its arguments were replaced"),
            Duplicate::TooLate => format!("job {id} holds the unique key and has begun; it keeps its arguments"),
            Duplicate::OtherTask => {
                format!("job {id} of another task holds the unique key; it keeps its arguments")
            }
        });
    }
    Ok(print::lines(enqueued.iter().map(|reply| reply.id))?)
}

/// A job as the caller wrote it.
#[derive(Debug, Default)]
struct Written<'a> {
    task: Option<Cow<'a, str>>,
    args: Option<&'a str>,
    queue: Option<Cow<'a, str>>,
    group: Option<Cow<'a, str>>,
    key: Option<Cow<'a, str>>,
    priority: Option<Cow<'a, str>>,
    at: Option<Cow<'a, str>>,
    r#in: Option<Cow<'a, str>>,
    retry: Option<Cow<'a, str>>,
    timeout: Option<Cow<'a, str>>,
    expires: Option<Cow<'a, str>>,
    unique: Option<Cow<'a, str>>,
    unique_by_args: bool,
    unique_scope: Option<Cow<'a, str>>,
    unique_for: Option<Cow<'a, str>>,
    on_duplicate: Option<Cow<'a, str>>,
    /// What the other lines call it.
    r#as: Option<Cow<'a, str>>,
    /// Names and ids.
    after: Vec<String>,
    on_failure: Option<Cow<'a, str>>,
}

impl Written<'_> {
    /// The job to submit, without those it waits for, or the first thing that is wrong with it.
    fn request(&self) -> Result<JobRequest, Invalid> {
        let task = self.task.as_deref().ok_or_else(|| Invalid::new("task", "is missing"))?;
        let mut request = JobRequest::from_json(task, self.args.unwrap_or("null"));
        if let Some(queue) = &self.queue {
            request = request.queue(queue);
        }
        if let Some(group) = &self.group {
            request = request.group(group);
        }
        if let Some(key) = &self.key {
            request = request.key(key);
        }
        if let Some(priority) = &self.priority {
            request = request.priority(priority.parse::<Priority>()?.get().into());
        }
        match (&self.at, &self.r#in) {
            (Some(_), Some(_)) => return Err(Invalid::new("in", "cannot be given together with at")),
            (Some(at), None) => request = request.at(at.parse::<Timestamp>()?),
            (None, Some(wait)) => request = request.delay(parse_span("in", wait)?),
            (None, None) => {}
        }
        if let Some(retry) = &self.retry {
            request = request.retry(retry.parse()?);
        }
        if let Some(limit) = &self.timeout {
            request = request.timeout(parse_span("timeout", limit)?);
        }
        if let Some(span) = &self.expires {
            request = request.begin_within(parse_span("expires", span)?);
        }
        match &self.unique {
            Some(_) if self.unique_by_args => {
                return Err(Invalid::new("unique_by_args", "cannot be given together with unique"));
            }
            Some(key) => request = request.unique(key),
            None if self.unique_by_args => request = request.unique_by_args(),
            None => {}
        }
        if let Some(scope) = &self.unique_scope {
            request = request.unique_within(scope.parse()?);
        }
        if let Some(period) = &self.unique_for {
            request = request.unique_for(parse_span("unique_for", period)?);
        }
        if let Some(policy) = &self.on_duplicate {
            request = request.on_duplicate(policy.parse()?);
        }
        if let Some(what) = &self.on_failure {
            request = request.on_failure(what.parse()?);
            if self.after.is_empty() {
                return Err(Invalid::new("on_failure", "is of no use without after"));
            }
        }
        // A request keeps its mistakes until it is submitted; here they must be known while the line is.
        request.clone().into_job(Timestamp::MIN)?;
        Ok(request)
    }
}

fn typed(wish: &args::Enqueue) -> Written<'_> {
    let text = |value: &'_ Option<String>| value.clone().map(Cow::Owned);
    Written {
        task: text(&wish.task),
        args: wish.args.as_deref(),
        queue: text(&wish.queue),
        group: text(&wish.group),
        key: text(&wish.key),
        priority: text(&wish.priority),
        at: text(&wish.at),
        r#in: text(&wish.r#in),
        retry: text(&wish.retry),
        timeout: text(&wish.timeout),
        expires: text(&wish.expires),
        unique: text(&wish.unique),
        unique_by_args: wish.unique_by_args,
        unique_scope: text(&wish.unique_scope),
        unique_for: text(&wish.unique_for),
        on_duplicate: text(&wish.on_duplicate),
        r#as: None,
        after: wish.after.clone(),
        on_failure: text(&wish.on_failure),
    }
}

/// One JSON object a line; empty lines are skipped. The error names the line.
fn read_lines(mut input: impl BufRead) -> Result<Vec<JobRequest>, Failure> {
    let mut batch = Batch::default();
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        // One byte more than allowed, to tell a line of exactly the limit from a longer one.
        let limit = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX).saturating_add(1);
        let length = input.by_ref().take(limit).read_until(b'\n', &mut line);
        if length.map_err(|error| Failure::Other(format!("reading stdin: {error}")))? == 0 {
            break;
        }
        match read_line(&line) {
            Ok(Some((request, links))) => batch.push(number, request, links)?,
            Ok(None) => {}
            Err(problem) => return Err(Failure::Input(format!("line {number}: {problem}"))),
        }
    }
    batch.link()
}

fn read_line(line: &[u8]) -> Result<Option<(JobRequest, Links)>, String> {
    if line.len() > MAX_LINE_BYTES {
        return Err(format!("args: the line is longer than {MAX_LINE_BYTES} bytes"));
    }
    let line =
        std::str::from_utf8(line).map_err(|error| format!("is not UTF-8 from byte {}", error.valid_up_to() + 1))?;
    if line.trim().is_empty() {
        return Ok(None);
    }
    // Where in the line the reader is: the decoder's own errors do not say whose value they are about.
    let field = Cell::new(None);
    let mut decoder = serde_json::Deserializer::from_str(line);
    let read = decoder.deserialize_map(Fields { field: &field }).and_then(|read| {
        field.set(None);
        decoder.end().map(|()| read)
    });
    match read {
        Ok(written) => {
            let request = written.and_then(|written| Ok((written.request()?, Links::of(written))));
            request.map(Some).map_err(|invalid| invalid.to_string())
        }
        Err(error) => {
            let text = error.to_string();
            // Each line is a document of its own: its number there is always 1.
            let text = text.replace(" at line 1 column ", " at column ").replace(" at line 2 column 0", " at its end");
            Err(field.get().map_or(text.clone(), |field| format!("{field}: {text}")))
        }
    }
}

/// How a line is tied to others.
#[derive(Debug)]
struct Links {
    name: Option<String>,
    after: Vec<String>,
}

impl Links {
    fn of(written: Written<'_>) -> Self {
        Self { name: written.r#as.map(Cow::into_owned), after: written.after }
    }

    fn after_all(&self) -> bool {
        self.after == [EVERYBODY]
    }
}

/// In `after`: all other lines that do not say the same.
const EVERYBODY: &str = "*";

/// The lines of one input, which may name one another.
#[derive(Debug, Default)]
struct Batch {
    lines: Vec<(u64, JobRequest, Links)>,
    names: HashMap<String, JobId>,
}

impl Batch {
    fn push(&mut self, number: u64, request: JobRequest, links: Links) -> Result<(), Failure> {
        if let Some(name) = &links.name {
            let refuse = |problem: &str| Err(Failure::Input(format!("line {number}: as: {name:?} {problem}")));
            if name == EVERYBODY || name.parse::<JobId>().is_ok() {
                return refuse("means something else in after");
            }
            if self.names.insert(name.clone(), request.job_id()?).is_some() {
                return refuse("is another line's name already");
            }
        }
        self.lines.push((number, request, links));
        Ok(())
    }

    /// The jobs, each told whom it waits for.
    fn link(self) -> Result<Vec<JobRequest>, Failure> {
        let others: Vec<JobId> = self
            .lines
            .iter()
            .filter(|(_, _, links)| !links.after_all())
            .map(|(_, request, _)| request.job_id())
            .collect::<Result<_, _>>()?;
        let names = self.names;
        let find = |number: u64, name: &String| match (names.get(name), name.parse()) {
            (Some(id), _) => Ok(*id),
            (None, Ok(id)) => Ok(id),
            (None, Err(_)) => Err(Failure::Input(format!(
                "line {number}: after: {name:?} is neither a job id nor another line's \"as\""
            ))),
        };
        let link = |(number, request, links): (u64, JobRequest, Links)| {
            if links.after_all() {
                return Ok(request.after_jobs(others.iter().copied()));
            }
            let after = links.after.iter().map(|name| find(number, name)).collect::<Result<Vec<_>, _>>()?;
            let request = request.after_jobs(after);
            match request.clone().into_job(Timestamp::MIN) {
                Ok(_) => Ok(request),
                Err(invalid) => Err(Failure::Input(format!("line {number}: {invalid}"))),
            }
        };
        self.lines.into_iter().map(link).collect()
    }
}

/// Reads the fields of one object. Syntax errors are the decoder's; a wrong value is an [`Invalid`] of its field.
struct Fields<'f> {
    field: &'f Cell<Option<&'static str>>,
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Result<Written<'de>, Invalid>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        const NAMES: [&str; 19] = [
            "task",
            "args",
            "queue",
            "group",
            "key",
            "priority",
            "at",
            "in",
            "retry",
            "timeout",
            "expires",
            "unique",
            "unique_by_args",
            "unique_scope",
            "unique_for",
            "on_duplicate",
            "as",
            "after",
            "on_failure",
        ];
        let mut written = Written::default();
        let mut wrong = None;
        let mut seen = Vec::with_capacity(NAMES.len());
        while let Some(key) = entries.next_key::<String>()? {
            let Some(name) = NAMES.into_iter().find(|name| *name == key) else {
                return Err(A::Error::custom(format!("unknown name {key:?}; known are {}", NAMES.join(", "))));
            };
            self.field.set(Some(name));
            if seen.contains(&name) {
                return Err(A::Error::custom("is given twice"));
            }
            seen.push(name);
            let value: &RawValue = entries.next_value()?;
            // The first wrong value is told, unless the line turns out not to be JSON at all.
            if let Err(invalid) = written.put(name, value) {
                wrong.get_or_insert(invalid);
            }
            self.field.set(None);
        }
        Ok(wrong.map_or(Ok(written), Err))
    }
}

impl<'a> Written<'a> {
    /// `null` is as if the name had not been given.
    fn put(&mut self, name: &'static str, value: &'a RawValue) -> Result<(), Invalid> {
        if value.get() == "null" {
            return Ok(());
        }
        match name {
            "args" => self.args = Some(value.get()),
            "task" => self.task = Some(text(name, value)?),
            "queue" => self.queue = Some(text(name, value)?),
            "group" => self.group = Some(text(name, value)?),
            "key" => self.key = Some(text(name, value)?),
            "priority" if !value.get().starts_with('"') => self.priority = Some(Cow::Borrowed(value.get())),
            "priority" => self.priority = Some(text(name, value)?),
            "at" => self.at = Some(text(name, value)?),
            "in" => self.r#in = Some(text(name, value)?),
            "timeout" => self.timeout = Some(text(name, value)?),
            "expires" => self.expires = Some(text(name, value)?),
            "unique" => self.unique = Some(text(name, value)?),
            "unique_by_args" => {
                let given = value.get().parse().map_err(|_| {
                    Invalid::new(name, format!("must be true or false, not {}", print::brief(value.get())))
                });
                self.unique_by_args = given?;
            }
            "unique_scope" => self.unique_scope = Some(text(name, value)?),
            "unique_for" => self.unique_for = Some(text(name, value)?),
            "on_duplicate" => self.on_duplicate = Some(text(name, value)?),
            "as" => self.r#as = Some(text(name, value)?),
            "after" => self.after = texts(name, value)?,
            "on_failure" => self.on_failure = Some(text(name, value)?),
            _ => self.retry = Some(text(name, value)?),
        }
        Ok(())
    }
}

/// A text, or an array of them.
fn texts(name: &'static str, value: &RawValue) -> Result<Vec<String>, Invalid> {
    if value.get().starts_with('"') {
        return Ok(vec![text(name, value)?.into_owned()]);
    }
    let problem = |_| Invalid::new(name, format!("must be an array of texts, not {}", print::brief(value.get())));
    serde_json::from_str(value.get()).map_err(problem)
}

fn text<'a>(name: &'static str, value: &'a RawValue) -> Result<Cow<'a, str>, Invalid> {
    if !value.get().starts_with('"') {
        return Err(Invalid::new(name, format!("must be a text, not {}", print::brief(value.get()))));
    }
    serde_json::from_str::<String>(value.get()).map(Cow::Owned).map_err(|error| Invalid::new(name, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(lines: &str) -> String {
        match read_lines(lines.as_bytes()) {
            Err(Failure::Input(text)) => text,
            other => panic!("not refused: {other:?}"),
        }
    }

    #[test]
    fn a_line_says_all_that_a_command_can() {
        let line = r#"{"task":"t","args":{"b":1.50,"a":[ ]},"queue":"q","group":"g","key":"k","priority":"low","at":"2030-01-31T08:30:00Z","retry":"durations:1s,2s"}"#;
        let mut requests = read_lines(format!("\n{line}\n \r\n{line}").as_bytes()).unwrap();
        assert_eq!(requests.len(), 2);
        let job = requests.remove(0).into_job(Timestamp::MIN).unwrap();
        assert_eq!(job.args.as_str(), r#"{"b":1.50,"a":[ ]}"#);
        assert_eq!((job.task.as_str(), job.queue.as_str(), job.group.as_str()), ("t", "q", "g"));
        assert_eq!(job.key.as_ref().map(|key| key.as_str()), Some("k"));
        assert_eq!((job.priority.get(), job.retry.to_string().as_str()), (8, "durations:1s,2s"));
        assert_eq!(job.due.unwrap().to_string(), "2030-01-31T08:30:00.000000Z");
    }

    #[test]
    fn lines_name_one_another_and_a_star_is_all_others() {
        let lines = r#"{"task":"join","after":["a","b"],"on_failure":"run"}
            {"task":"t","as":"a"}
            {"task":"t","as":"b","after":"a"}
            {"task":"end","after":"*"}"#;
        let jobs: Vec<_> = read_lines(lines.as_bytes())
            .unwrap()
            .into_iter()
            .map(|job| job.into_job(Timestamp::MIN).unwrap())
            .collect();
        let ids = |of: &[usize]| {
            let mut ids: Vec<_> = of.iter().map(|&at| jobs[at].id).collect();
            ids.sort_unstable();
            ids
        };
        let after: Vec<_> = jobs.iter().map(|job| job.after.ids().to_vec()).collect();
        assert_eq!(after, [ids(&[1, 2]), ids(&[]), ids(&[1]), ids(&[0, 1, 2])]);
        assert_eq!(jobs[0].after.on_failure().map(|what| what.name()), Some("run"));
        for (line, told) in [
            (r#"{"task":"t","after":["c"]}"#, r#"line 1: after: "c" is neither a job id nor another line's "as""#),
            (r#"{"task":"t","after":[7]}"#, "line 1: after: must be an array of texts, not [7]"),
            (r#"{"task":"t","as":"*"}"#, r#"line 1: as: "*" means something else in after"#),
            ("{\"task\":\"t\",\"as\":\"a\"}\n{\"task\":\"t\",\"as\":\"a\"}", "line 2: as: \"a\" is another"),
            (r#"{"task":"t","on_failure":"run"}"#, "line 1: on_failure: is of no use without after"),
            (r#"{"task":"t","after":"*","on_failure":"go"}"#, "line 1: on_failure: must be fail, run or cancel"),
        ] {
            let text = refusal(line);
            assert!(text.starts_with(told), "{line}: {text}");
        }
    }

    #[test]
    fn names_left_out_or_null_are_the_defaults() {
        let requests = read_lines(&br#"{"task":"t","args":null,"priority":null,"in":null}"#[..]).unwrap();
        let job = requests[0].clone().into_job(Timestamp::MIN).unwrap();
        assert_eq!((job.args.as_str(), job.priority.get(), job.queue.as_str()), ("null", 5, "default"));
        assert_eq!((job.retry.to_string().as_str(), job.key), ("exponential:10s,5", None));
    }

    #[test]
    fn a_wrong_line_is_refused_with_its_number_and_its_field() {
        let good = r#"{"task":"t"}"#;
        for (line, told) in [
            (r#"{"task":"t","priority":11}"#, "priority: must be 1"),
            (r#"{"task":"t","priority":1.5}"#, "priority: must be 1"),
            (r#"{"task":"t","priority":true}"#, "priority: must be 1"),
            (r#"{"task":"t","at":"tomorrow"}"#, "at: "),
            (r#"{"task":"t","at":5}"#, "at: must be a text, not 5"),
            (r#"{"task":"t","in":"10"}"#, "in: "),
            (r#"{"task":"t","in":"1s","at":"2030-01-31T08:30:00Z"}"#, "in: cannot be given together with at"),
            (r#"{"task":"t","retry":"often"}"#, "retry: "),
            (r#"{"task":"t","timeout":"0s"}"#, "timeout: must be longer than nothing"),
            (r#"{"task":"t","expires":"soon"}"#, "expires: "),
            (r#"{"task":"t","unique":""}"#, "unique: must not be empty"),
            (r#"{"task":"t","unique":"k","unique_by_args":true}"#, "unique_by_args: cannot be given together"),
            (r#"{"task":"t","unique_by_args":1}"#, "unique_by_args: must be true or false, not 1"),
            (r#"{"task":"t","unique":"k","unique_for":"soon"}"#, "unique_for: "),
            (r#"{"task":"t","unique":"k","unique_scope":""}"#, "unique_scope: must not be empty"),
            (
                r#"{"task":"t","unique":"k","on_duplicate":"drop"}"#,
                "on_duplicate: must be keep, reject or replace-args",
            ),
            (r#"{"task":"t","unique_for":"1m"}"#, "unique: is missing"),
            (r#"{"task":"t","args":{]}"#, "args: "),
            (r#"{"task":"t","args":"\u0000"}"#, "args: must not contain a NUL"),
            (r#"{"task":"t\u0000"}"#, "task: must not contain a NUL"),
            (r#"{"task":""}"#, "task: must not be empty"),
            (r#"{"args":{}}"#, "task: is missing"),
            (r#"{"task":"t","group":"a\nb"}"#, "group: must not contain control"),
            (r#"{"task":"t","key":""}"#, "key: must not be empty"),
            (r#"{"task":"t","key":7}"#, "key: must be a text, not 7"),
            (r#"{"task":"t","task":"u"}"#, "task: is given twice"),
            (r#"{"task":"t","prio":1}"#, "unknown name \"prio\""),
            (r#"{"task":"t"} {}"#, "trailing"),
            (r#"{"task":"t""#, "EOF"),
            ("[]", "invalid type: sequence, expected a JSON object"),
            ("nonsense", "expected"),
        ] {
            let text = refusal(&format!("{good}\n\n{line}\n{good}\n"));
            assert!(text.starts_with(&format!("line 3: {told}")) && !text.contains('\n'), "{line}: {text}");
        }
        assert!(
            matches!(read_lines(&b"{\"task\":\"\xff\"}"[..]), Err(Failure::Input(text)) if text == "line 1: is not UTF-8 from byte 10")
        );
    }

    #[test]
    fn large_and_deep_arguments_are_refused() {
        let with = |args: String| refusal(&format!(r#"{{"task":"t","args":{args}}}"#));
        assert!(with(format!("\"{}\"", "x".repeat(1024 * 1024))).starts_with("line 1: args: is 1048578 bytes long"));
        assert!(with("[".repeat(100_000) + &"]".repeat(100_000)).starts_with("line 1: args: is nested deeper"));
        assert!(with("\"".to_owned() + &"x".repeat(MAX_LINE_BYTES)).starts_with("line 1: args: the line is longer"));
    }
}
