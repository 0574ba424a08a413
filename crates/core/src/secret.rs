//! Secret fields of a task's arguments: where they are, and how a job looks without them.
//!
//! The arguments are stored as they are, for the task needs them. What is shown of a job passes a [`Mask`]: a secret field of the
//! arguments is replaced, and so is every place where its value is repeated, in an error, a log or a result.

mod edit;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::Range,
    sync::Arc,
};

use serde_json::value::RawValue;

use crate::{
    failure::{Failure, MAX_ERROR_BYTES},
    job::Job,
    json::{Json, Members, find, members},
    name::{Invalid, TaskName},
    story::Progress,
};

pub use edit::{restore, to_edit};

/// What is shown in place of a secret.
pub const MASKED: &str = "[secret]";
/// Longest pointer, in bytes.
pub const MAX_POINTER_BYTES: usize = 1_000;
/// Most secret fields of one task.
pub const MAX_POINTERS: usize = 100;
/// Most secret fields of all tasks together.
pub const MAX_SECRETS: usize = 10_000;
/// A shorter value is not looked for in texts: it would be found everywhere.
pub const MIN_CHARS: usize = 3;
/// Most values that are looked for in a text. Where there are more, no text of the job is shown at all.
const MAX_VALUES: usize = 200;

/// A place in a JSON document (RFC 6901), such as `/card/number`; the empty text is the whole document.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pointer(Arc<str>);

impl Pointer {
    /// Refuses, naming the field `secret`, what is not a JSON pointer.
    pub fn new(text: impl AsRef<str>) -> Result<Self, Invalid> {
        let text = text.as_ref();
        let bad = |problem: &str| {
            let like = "write it like /card/number";
            Invalid::new("secret", format!("{text:?} {problem}; {like}"))
        };
        if text.len() > MAX_POINTER_BYTES {
            return Err(Invalid::new("secret", format!("a pointer has at most {MAX_POINTER_BYTES} bytes")));
        }
        if !text.is_empty() && !text.starts_with('/') {
            return Err(bad("is not a JSON pointer: it must begin with a slash"));
        }
        if text.chars().any(char::is_control) {
            return Err(bad("must not contain control characters"));
        }
        if text.split('~').skip(1).any(|rest| !rest.starts_with(['0', '1'])) {
            return Err(bad("is not a JSON pointer: ~ is written ~0, and / within a name ~1"));
        }
        Ok(Self(Arc::from(text)))
    }

    /// Read back from the database, where only checked ones are written.
    pub fn stored(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn names(&self) -> Vec<String> {
        self.0.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~")).collect()
    }
}

impl fmt::Debug for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads the secret fields of one task.
pub fn pointers<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<BTreeSet<Pointer>, Invalid> {
    let read: BTreeSet<Pointer> = texts.into_iter().map(Pointer::new).collect::<Result<_, _>>()?;
    if read.len() > MAX_POINTERS {
        return Err(Invalid::new("secret", format!("a task has at most {MAX_POINTERS} secret fields")));
    }
    Ok(read)
}

/// The secret fields of all tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Secrets(BTreeMap<TaskName, BTreeSet<Pointer>>);

impl Secrets {
    /// No secret fields.
    pub fn none() -> &'static Self {
        static NONE: Secrets = Secrets(BTreeMap::new());
        &NONE
    }

    /// Adds a field.
    pub fn add(&mut self, task: TaskName, pointer: Pointer) {
        self.0.entry(task).or_default().insert(pointer);
    }

    /// Whether no task has any.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many secret fields all tasks have together.
    pub fn len(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }

    /// The secret fields of a task; `None`: it has none.
    pub fn of(&self, task: &TaskName) -> Option<&BTreeSet<Pointer>> {
        self.0.get(task)
    }

    /// Whether this field of this task is secret.
    pub fn has(&self, task: &TaskName, pointer: &Pointer) -> bool {
        self.of(task).is_some_and(|pointers| pointers.contains(pointer))
    }

    /// The tasks that have secret fields.
    pub fn tasks(&self) -> impl Iterator<Item = &TaskName> {
        self.0.keys()
    }

    /// Each secret field with its task, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&TaskName, &Pointer)> {
        self.0.iter().flat_map(|(task, pointers)| pointers.iter().map(move |pointer| (task, pointer)))
    }

    /// A job may go on as another task with the same arguments: what is secret for the first is secret there. `next` says which tasks
    /// those are.
    #[must_use]
    pub fn carried_on<'a, I: IntoIterator<Item = &'a TaskName>>(mut self, next: impl Fn(&TaskName) -> I) -> Self {
        for (task, pointers) in self.0.clone() {
            let (mut seen, mut open) = (BTreeSet::from([task.clone()]), vec![task]);
            while let Some(task) = open.pop() {
                for to in next(&task).into_iter().filter(|to| seen.insert((*to).clone())) {
                    self.0.entry(to.clone()).or_default().extend(pointers.iter().cloned());
                    open.push(to.clone());
                }
            }
        }
        self
    }

    /// What hides the secrets of a job with these arguments.
    pub fn mask(&self, task: &TaskName, args: &Json) -> Mask {
        self.of(task).map_or_else(Mask::default, |pointers| Mask::new(pointers, args))
    }

    /// What hides the secrets of a job whose arguments were not read: if its task has any, all of its texts.
    pub fn mask_unread(&self, task: &TaskName) -> Mask {
        Mask { all: self.of(task).is_some(), ..Mask::default() }
    }

    /// The error of a job as it may be shown.
    pub fn error_of<'a>(&self, job: &'a Job) -> Option<Cow<'a, str>> {
        job.error.as_deref().map(|error| self.mask(&job.task, &job.args).text(error))
    }

    /// The result of a job as it may be shown.
    pub fn result_of<'a>(&self, job: &'a Job) -> Option<Cow<'a, Json>> {
        job.result.as_ref().map(|result| self.mask(&job.task, &job.args).json(result))
    }
}

/// Hides the secrets of one job: its secret fields, and their values wherever they are repeated.
#[derive(Clone, Default)]
pub struct Mask {
    /// The arguments without them; `None`: there are none in them.
    args: Option<Json>,
    /// What to look for in texts.
    values: Vec<String>,
    /// No text is shown.
    all: bool,
}

/// Shows how many values there are, not the values.
impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mask").field("args", &self.args).field("values", &self.values.len()).finish()
    }
}

impl Mask {
    /// Builds the mask for these arguments, of a task with these secret fields.
    pub fn new(pointers: &BTreeSet<Pointer>, args: &Json) -> Self {
        let text = args.as_str();
        let Ok(root) = serde_json::from_str::<&RawValue>(text) else {
            // Only checked JSON is stored. What cannot be read is not shown.
            return Self { args: Some(masked()), all: true, ..Self::default() };
        };
        let mut found = Vec::new();
        for pointer in pointers {
            find(root, &pointer.names(), &mut found);
        }
        if found.is_empty() {
            return Self::default();
        }
        let mut values = BTreeSet::new();
        found.iter().for_each(|value| collect(value, &mut values));
        let ranges = found.iter().map(|value| {
            let begin = value.get().as_ptr() as usize - text.as_ptr() as usize;
            begin..begin + value.get().len()
        });
        let shown = replace(text, ranges.collect(), &format!("\"{MASKED}\""));
        let values: Vec<_> = values.into_iter().collect();
        Self { args: Some(Json::stored(shown)), all: values.len() > MAX_VALUES, values }
    }

    /// Whether there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.args.is_none() && !self.all
    }

    /// The job's arguments as they may be shown.
    pub fn shown<'a>(&self, args: &'a Json) -> Cow<'a, Json> {
        self.args.clone().map_or(Cow::Borrowed(args), Cow::Owned)
    }

    /// A text as it may be shown.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.all {
            return Cow::Owned(MASKED.to_owned());
        }
        let found = self.values.iter().flat_map(|value| text.match_indices(value.as_str()));
        let ranges: Vec<_> = found.map(|(begin, value)| begin..begin + value.len()).collect();
        if ranges.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(replace(text, ranges, MASKED)) }
    }

    /// A JSON document as it may be shown: texts in it, and numbers that are one of the values.
    pub fn json<'a>(&self, json: &'a Json) -> Cow<'a, Json> {
        if self.values.is_empty() && self.all {
            return Cow::Owned(masked());
        }
        if self.values.is_empty() {
            return Cow::Borrowed(json);
        }
        let (mut shown, mut changed) = (String::new(), false);
        match serde_json::from_str::<&RawValue>(json.as_str()) {
            Ok(root) => self.write(root, &mut shown, &mut changed),
            Err(_) => return Cow::Owned(masked()),
        }
        if changed { Cow::Owned(Json::stored(shown)) } else { Cow::Borrowed(json) }
    }

    /// A failure as it may be shown. Of a text that was cut off, the end may be the beginning of a secret.
    #[must_use]
    pub fn failure(&self, failure: Failure) -> Failure {
        if self.values.is_empty() && !self.all {
            return failure;
        }
        let Failure { mut chain, place } = failure;
        // A cut leaves at most a character's bytes of the room.
        if chain.iter().map(String::len).sum::<usize>() + 4 > MAX_ERROR_BYTES
            && let Some(last) = chain.last_mut()
        {
            let begun = self.values.iter().filter_map(|value| begun_at_the_end(last, value)).min();
            if let Some(begin) = begun {
                last.replace_range(begin.., MASKED);
            }
        }
        for text in &mut chain {
            if let Cow::Owned(shown) = self.text(text) {
                *text = shown;
            }
        }
        Failure { chain, place }
    }

    /// A report of a run as it may be shown.
    #[must_use]
    pub fn progress(&self, progress: Progress) -> Progress {
        match self.text(&progress.text) {
            Cow::Owned(text) => Progress { text, ..progress },
            Cow::Borrowed(_) => progress,
        }
    }

    fn write(&self, value: &RawValue, shown: &mut String, changed: &mut bool) {
        let raw = value.get();
        let mut put = |text: &str, raw: Option<&str>| match (self.text(text), raw) {
            (Cow::Borrowed(_), Some(raw)) => shown.push_str(raw),
            (other, _) => {
                *changed |= other != text;
                shown.push_str(&serde_json::Value::from(other.into_owned()).to_string());
            }
        };
        match members(value) {
            Members::Object(entries) => {
                shown.push('{');
                for (at, (name, value)) in entries.into_iter().enumerate() {
                    if at > 0 {
                        shown.push(',');
                    }
                    let hidden = self.text(&name);
                    *changed |= hidden != name;
                    shown.push_str(&serde_json::Value::from(hidden.into_owned()).to_string());
                    shown.push(':');
                    self.write(value, shown, changed);
                }
                shown.push('}');
            }
            Members::Array(items) => {
                shown.push('[');
                for (at, value) in items.into_iter().enumerate() {
                    if at > 0 {
                        shown.push(',');
                    }
                    self.write(value, shown, changed);
                }
                shown.push(']');
            }
            Members::Text(text) => put(&text, Some(raw)),
            Members::Other if self.values.iter().any(|value| value == raw) => put(raw, None),
            Members::Other => shown.push_str(raw),
        }
    }
}

fn masked() -> Json {
    Json::stored(format!("\"{MASKED}\""))
}

/// The texts and numbers of a value, in each form that an error may repeat them in.
fn collect(value: &RawValue, values: &mut BTreeSet<String>) {
    let mut add = |text: &str| {
        if text.chars().count() >= MIN_CHARS {
            values.insert(text.to_owned());
        }
    };
    match members(value) {
        Members::Object(entries) => entries.into_iter().for_each(|(_, value)| collect(value, values)),
        Members::Array(items) => items.into_iter().for_each(|value| collect(value, values)),
        Members::Text(text) => {
            let raw = value.get();
            let debug = format!("{text:?}");
            add(&text);
            add(&raw[1..raw.len() - 1]);
            add(&debug[1..debug.len() - 1]);
            // A log has one line at a time.
            text.lines().map(str::trim).for_each(add);
        }
        Members::Other if !matches!(value.get(), "true" | "false" | "null") => add(value.get()),
        Members::Other => {}
    }
}

/// Where a text ends with the beginning of a value.
fn begun_at_the_end(text: &str, value: &str) -> Option<usize> {
    let ends = value.char_indices().map(|(at, _)| at).skip(MIN_CHARS);
    let begun: Vec<_> = ends.filter(|end| text.ends_with(&value[..*end])).collect();
    begun.last().map(|end| text.len() - end)
}

/// The text with each of these ranges replaced; ranges that touch one another are replaced together.
fn replace(text: &str, mut ranges: Vec<Range<usize>>, by: &str) -> String {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut shown = String::with_capacity(text.len());
    let mut ranges = ranges.into_iter().peekable();
    let mut done = 0;
    while let Some(mut range) = ranges.next() {
        while let Some(next) = ranges.next_if(|next| next.start < range.end) {
            range.end = range.end.max(next.end);
        }
        shown.push_str(&text[done..range.start]);
        shown.push_str(by);
        done = range.end;
    }
    shown.push_str(&text[done..]);
    shown
}

/// A database's address as it may be shown.
pub fn without_password(address: &str) -> String {
    let harmless = |pair: &&str| !pair.split('=').next().unwrap_or_default().trim().ends_with("password");
    let Some((scheme, rest)) = address.split_once("://") else {
        // Another form of address, such as `host=db password=…`; or none at all.
        return address.split(' ').filter(harmless).collect::<Vec<_>>().join(" ");
    };
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    // Up to the last @: a password with an @ in it is hidden to its end.
    let place = match place.rsplit_once('@') {
        Some((who, place)) => format!("{}@{place}", who.split_once(':').map_or(who, |(user, _)| user)),
        None => place.to_owned(),
    };
    let query: Vec<_> = query.into_iter().flat_map(|query| query.split('&')).filter(harmless).collect();
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{scheme}://{place}{mark}{}", query.join("&"))
}

#[cfg(test)]
mod tests;
