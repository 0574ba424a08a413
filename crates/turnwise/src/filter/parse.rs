//! A filter from its text. Every error names a place in it, and what was expected there.

use std::{collections::BTreeSet, fmt, str::FromStr};

use turnwise_core::{Fingerprint, Invalid, JobState, Priority, time::parse_span};

use super::{
    Check, Compare, Condition, Count, Document, FIELDS, Ids, JobFilter, Literal, MAX_FILTER_CHARS, Moment, Pattern,
    Test,
};
use crate::wire;

/// Edits between two words that are taken for one another.
const TYPING_MISTAKE: usize = 2;

/// Signs that end a field's name.
const SIGNS: [char; 6] = [':', '=', '!', '<', '>', '~'];

/// What is wrong with a filter, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at character {character}: {problem}")]
#[non_exhaustive]
pub struct FilterError {
    /// The place in the text, in bytes from its beginning; its length where something is missing at the end.
    pub at: usize,
    /// The same as people count: characters, from 1.
    pub character: usize,
    /// What is wrong there, and mostly what to write instead.
    pub problem: String,
}

/// Whether a name is read as it is, without quotation marks.
pub(super) fn is_bare_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(ends_name)
}

/// The same of a value.
pub(super) fn is_bare_value(text: &str) -> bool {
    !text.is_empty() && !text.contains(ends_value)
}

pub(super) fn ends_name(c: char) -> bool {
    SIGNS.contains(&c) || c == '.' || ends_value(c)
}

pub(super) fn ends_value(c: char) -> bool {
    c.is_whitespace() || c == ',' || c == '"'
}

/// `; did you mean "task"?` if one of these is nearly this word; else nothing.
fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let nearly = known.into_iter().map(|known| (strsim::damerau_levenshtein(word, known), known));
    let nearest = nearly.filter(|(edits, _)| *edits <= TYPING_MISTAKE && *edits < word.chars().count()).min();
    nearest.map(|(_, known)| format!("; did you mean {known:?}?"))
}

impl FromStr for JobFilter {
    type Err = FilterError;

    /// Reads any text of at most [`MAX_FILTER_CHARS`] characters, or says what is wrong with it and where.
    fn from_str(text: &str) -> Result<Self, FilterError> {
        let mut reader = Reader { text, at: 0 };
        if let Some((at, _)) = text.char_indices().nth(MAX_FILTER_CHARS) {
            return Err(reader.error(at, format!("a filter has at most {MAX_FILTER_CHARS} characters")));
        }
        if let Some(at) = text.find(char::is_control) {
            return Err(reader.error(at, "a filter has no control characters; write it in one line"));
        }
        let mut filter = Self::default();
        loop {
            reader.take_while(char::is_whitespace);
            if reader.rest().is_empty() {
                return Ok(filter);
            }
            filter.add(reader.condition()?);
        }
    }
}

impl JobFilter {
    /// A job has one state, one task and so on: where such a field is named twice, any of its values is meant.
    fn add(&mut self, condition: Condition) {
        let mut earlier = self.conditions.iter_mut().filter(|earlier| !earlier.negated && !condition.negated);
        if !earlier.any(|earlier| earlier.test.takes_in(&condition.test)) {
            self.conditions.push(condition);
        }
    }
}

impl Test {
    /// Adds the values of a test of the same field, if a job has one value there.
    fn takes_in(&mut self, other: &Self) -> bool {
        fn add<T: Ord + Clone>(to: &mut BTreeSet<T>, values: &BTreeSet<T>) -> bool {
            to.extend(values.iter().cloned());
            true
        }
        match (self, other) {
            (Self::State(to), Self::State(values)) => add(to, values),
            (Self::Queue(to), Self::Queue(values)) => add(to, values),
            (Self::Group(to), Self::Group(values)) => add(to, values),
            (Self::Task(to), Self::Task(values)) => add(to, values),
            (Self::Node(to), Self::Node(values)) => add(to, values),
            (Self::Unique(to), Self::Unique(values)) => add(to, values),
            (Self::Key(to), Self::Key(values)) => add(to, values),
            (Self::Schedule(to), Self::Schedule(values)) => add(to, values),
            (Self::Fingerprint(to), Self::Fingerprint(values)) => add(to, values),
            (Self::Id(to), Self::Id(values)) => add(to, values),
            _ => false,
        }
    }
}

#[derive(Clone, Copy)]
enum Sign {
    Compare(Compare),
    Not,
    Has,
}

/// A value as it was written.
struct Word {
    at: usize,
    text: String,
    quoted: bool,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error(&self, at: usize, problem: impl fmt::Display) -> FilterError {
        FilterError { at, character: self.text[..at].chars().count() + 1, problem: problem.to_string() }
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = self.rest().starts_with(sign);
        if found {
            self.at += sign.len();
        }
        found
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let (taken, _) = rest.split_at(rest.find(|c| !wanted(c)).unwrap_or(rest.len()));
        self.at += taken.len();
        taken
    }

    fn condition(&mut self) -> Result<Condition, FilterError> {
        let negated = self.take("-");
        let begin = self.at;
        let name = self.take_while(|c| !ends_name(c));
        let field = FIELDS.into_iter().find(|field| *field == name);
        let Some(field) = field else { return Err(self.no_field(begin, name)) };
        let path = self.path(field)?;
        let (sign_at, sign) = (self.at, self.sign(begin)?);
        let words = self.words()?;
        let (negated, compare) = match sign {
            Sign::Not => (!negated, Some(Compare::Equal)),
            Sign::Compare(compare) => (negated, Some(compare)),
            Sign::Has => (negated, None),
        };
        let no_sign = |wanted: &str| self.error(sign_at, format!("{field} is followed by {wanted}"));
        let equal = || match compare {
            Some(Compare::Equal) => Ok(()),
            _ => Err(no_sign(": or != and names")),
        };
        let document = |document| match compare {
            Some(compare) => {
                let values = words.iter().map(|word| Literal::new(word.text.clone(), word.quoted)).collect();
                Ok(Test::Value(document, path.clone(), Check::Compare(compare, values)))
            }
            None => Ok(Test::Value(document, path.clone(), Check::Has(self.patterns(&words)?))),
        };
        let test = match field {
            "args" => document(Document::Args)?,
            "result" => document(Document::Result)?,
            "error" if compare.is_some() => {
                return Err(no_sign("~ and a text, as in error~timeout; a kind of error is a fingerprint"));
            }
            "error" => Test::Error(self.patterns(&words)?),
            "priority" | "attempt" => {
                let compare = compare.ok_or_else(|| no_sign(": != < <= > or >= and a number"))?;
                let (count, values) = match field {
                    "priority" => {
                        (Count::Priority, self.values(&words, |text| Ok(text.parse::<Priority>()?.get().into()))?)
                    }
                    _ => (Count::Attempt, self.values(&words, whole)?),
                };
                Test::Number(count, compare, values)
            }
            "since" | "until" => {
                equal().map_err(|_| no_sign(": and a time, as in since:2h"))?;
                let [word] = &words[..] else { return Err(self.error(words[1].at, format!("{field} takes one time"))) };
                let moment = moment(&word.text).map_err(|invalid| self.error(word.at, invalid.problem))?;
                if field == "since" { Test::Since(moment) } else { Test::Until(moment) }
            }
            _ => {
                equal()?;
                match field {
                    "state" => Test::State(self.values(&words, state)?),
                    "queue" => Test::Queue(self.values(&words, str::parse)?),
                    "group" => Test::Group(self.values(&words, str::parse)?),
                    "task" => Test::Task(self.values(&words, str::parse)?),
                    "node" => Test::Node(self.values(&words, str::parse)?),
                    "unique" => Test::Unique(self.values(&words, str::parse)?),
                    "key" => Test::Key(self.values(&words, str::parse)?),
                    "schedule" => Test::Schedule(self.values(&words, str::parse)?),
                    "fingerprint" => Test::Fingerprint(self.values(&words, fingerprint)?),
                    _ => Test::Id(self.values(&words, ids)?),
                }
            }
        };
        Ok(Condition { negated, test })
    }

    fn no_field(&self, begin: usize, name: &str) -> FilterError {
        if name.is_empty() {
            return self.error(begin, "a field's name was expected, as in task:mail");
        }
        if !self.rest().starts_with(SIGNS) {
            let like = "write FIELD:VALUE, as in task:mail, or look for a text with error~ or args~";
            return self.error(begin, format!("{name:?} is not a condition; {like}"));
        }
        let hint = did_you_mean(name, FIELDS).unwrap_or_else(|| format!("; known are {}", FIELDS.join(", ")));
        self.error(begin, format!("there is no field {name:?}{hint}"))
    }

    /// The names after `args` or `result`.
    fn path(&mut self, field: &str) -> Result<Vec<String>, FilterError> {
        let mut path = Vec::new();
        while self.rest().starts_with('.') {
            if !matches!(field, "args" | "result") {
                return Err(self.error(self.at, format!("{field} has no parts; only args and result have")));
            }
            self.at += 1;
            let begin = self.at;
            let name = match self.quoted()? {
                Some(name) => name,
                None => self.take_while(|c| !ends_name(c)).to_owned(),
            };
            if self.at == begin {
                return Err(self.error(begin, "a name was expected after the dot, as in args.pages"));
            }
            path.push(name);
        }
        Ok(path)
    }

    fn sign(&mut self, begin: usize) -> Result<Sign, FilterError> {
        let signs = [
            ("!=", Sign::Not),
            (">=", Sign::Compare(Compare::AtLeast)),
            ("<=", Sign::Compare(Compare::AtMost)),
            (">", Sign::Compare(Compare::More)),
            ("<", Sign::Compare(Compare::Less)),
            (":", Sign::Compare(Compare::Equal)),
            ("=", Sign::Compare(Compare::Equal)),
            ("~", Sign::Has),
        ];
        let found = signs.into_iter().find(|(text, _)| self.take(text));
        found.map(|(_, sign)| sign).ok_or_else(|| {
            let field = &self.text[begin..self.at];
            self.error(self.at, format!("one of : = != < <= > >= ~ was expected after {field}"))
        })
    }

    /// One or more values with commas between them.
    fn words(&mut self) -> Result<Vec<Word>, FilterError> {
        let mut words = Vec::new();
        loop {
            let at = self.at;
            match self.quoted()? {
                Some(text) => words.push(Word { at, text, quoted: true }),
                None => {
                    let text = self.take_while(|c| !ends_value(c)).to_owned();
                    if text.is_empty() {
                        return Err(self.error(at, "a value was expected; an empty one is written \"\""));
                    }
                    words.push(Word { at, text, quoted: false });
                }
            }
            match self.rest().chars().next() {
                Some(',') => self.at += 1,
                None => return Ok(words),
                Some(c) if c.is_whitespace() => return Ok(words),
                Some(_) if words.last().is_some_and(|word| word.quoted) => {
                    return Err(self.error(self.at, "a space or a comma was expected after the quotation mark"));
                }
                Some(_) => {
                    return Err(self.error(self.at, "a value with a quotation mark in it begins and ends with one"));
                }
            }
        }
    }

    /// A text in quotation marks, if one begins here.
    fn quoted(&mut self) -> Result<Option<String>, FilterError> {
        let begin = self.at;
        if !self.take("\"") {
            return Ok(None);
        }
        let mut text = String::new();
        let mut signs = self.rest().char_indices();
        while let Some((at, sign)) = signs.next() {
            match sign {
                '"' => {
                    self.at += at + 1;
                    return Ok(Some(text));
                }
                '\\' => match signs.next() {
                    Some((_, escaped @ ('"' | '\\'))) => text.push(escaped),
                    _ => {
                        return Err(self.error(self.at + at, r#"between quotation marks \ is written \\, and " is \""#));
                    }
                },
                other => text.push(other),
            }
        }
        Err(self.error(begin, "this quotation mark has no other one that ends its text"))
    }

    fn patterns(&self, words: &[Word]) -> Result<Vec<Pattern>, FilterError> {
        let pattern = |word: &Word| {
            if word.text.is_empty() {
                Err(self.error(word.at, "a text to look for was expected; * is any text"))
            } else {
                Ok(Pattern::new(word.text.clone()))
            }
        };
        words.iter().map(pattern).collect()
    }

    fn values<T: Ord>(
        &self,
        words: &[Word],
        read: impl Fn(&str) -> Result<T, Invalid>,
    ) -> Result<BTreeSet<T>, FilterError> {
        let read = |word: &Word| read(&word.text).map_err(|invalid| self.error(word.at, invalid));
        words.iter().map(read).collect()
    }
}

fn state(text: &str) -> Result<JobState, Invalid> {
    text.parse().map_err(|invalid: Invalid| {
        let hint = did_you_mean(text, JobState::ALL.map(JobState::name)).unwrap_or_default();
        Invalid::new("state", invalid.problem + &hint)
    })
}

fn fingerprint(text: &str) -> Result<Fingerprint, Invalid> {
    let bad =
        || Invalid::new("fingerprint", format!("{text:?} has not the twelve hexadecimal digits of a kind of error"));
    Fingerprint::from_text(text).ok_or_else(bad)
}

fn ids(text: &str) -> Result<Ids, Invalid> {
    let (first, last) = wire::Jobs::read_beginning(text)?;
    Ok(Ids { first, last, text: text.to_owned() })
}

fn whole(text: &str) -> Result<u32, Invalid> {
    text.parse().map_err(|_| Invalid::new("attempt", format!("must be a whole number, not {text:?}")))
}

fn moment(text: &str) -> Result<Moment, Invalid> {
    if let Ok(at) = text.parse() {
        return Ok(Moment::At(at));
    }
    let like = "write it like 2030-01-31T08:30:00Z, or like 2h for two hours ago";
    let bad = |_| Invalid::new("since", format!("{text:?} is neither a time nor a duration; {like}"));
    parse_span("since", text).map(Moment::Ago).map_err(bad)
}
