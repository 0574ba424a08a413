//! A word of a command as it is written in the settings, and as it is given to the program.
//!
//! A word stays one word: what is put into it is never split, quoted or read again, so nothing in a job's arguments can
//! become a second argument or another placeholder.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use turnwise_core::{Fence, JobId, Json};

/// What the placeholders stand for in one run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Values<'a> {
    pub(super) args: &'a Json,
    pub(super) id: JobId,
    pub(super) queue: &'a str,
    pub(super) group: &'a str,
    pub(super) attempt: u32,
    pub(super) fence: Fence,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Args,
    /// The names on the way to a field of the arguments.
    Field(Vec<String>),
    Id,
    Queue,
    Group,
    Attempt,
    Fence,
}

impl Word {
    /// Reads a word; the error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.contains('\0') {
            return Err(format!("{text:?}: must not contain a NUL byte"));
        }
        let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            let (before, brace) = rest.split_at(at);
            plain.push_str(before);
            if brace.starts_with("{{") || brace.starts_with("}}") {
                plain.push_str(&brace[..1]);
                rest = &brace[2..];
                continue;
            }
            let closed = brace.strip_prefix('{').and_then(|inner| inner.split_once('}'));
            let (name, after) = closed.ok_or_else(|| {
                format!("{text:?}: a brace stands alone; write {{{{ or }}}} for a brace that is no placeholder")
            })?;
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::parse(name).map_err(|problem| format!("{text:?}: {problem}"))?);
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self(pieces))
    }

    /// The word's text, if it has no placeholder.
    pub(super) fn plain(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The word with its placeholders filled; the error names a field that is not there.
    pub(super) fn fill(&self, values: &Values<'_>) -> Result<String, String> {
        self.0.iter().map(|piece| piece.fill(values)).collect()
    }
}

impl Piece {
    fn parse(name: &str) -> Result<Self, String> {
        Ok(match name {
            "args" => Self::Args,
            "id" => Self::Id,
            "queue" => Self::Queue,
            "group" => Self::Group,
            "attempt" => Self::Attempt,
            "fence" => Self::Fence,
            _ => {
                let path = name.strip_prefix("args.").map(|path| path.split('.').map(str::to_owned).collect());
                let good = |path: &Vec<String>| path.iter().all(|name| !name.is_empty() && !name.contains('{'));
                Self::Field(path.filter(good).ok_or_else(|| {
                    let known = "{args}, {args.FIELD}, {id}, {queue}, {group}, {attempt}, {fence}";
                    format!(
                        "unknown placeholder {{{name}}}; known are {known}; write {{{{ or }}}} for a brace that is no placeholder"
                    )
                })?)
            }
        })
    }

    fn fill(&self, values: &Values<'_>) -> Result<String, String> {
        Ok(match self {
            Self::Text(text) => text.clone(),
            Self::Args => values.args.as_str().to_owned(),
            Self::Field(path) => field(values.args, path)?,
            Self::Id => values.id.to_string(),
            Self::Queue => values.queue.to_owned(),
            Self::Group => values.group.to_owned(),
            Self::Attempt => values.attempt.to_string(),
            Self::Fence => values.fence.0.to_string(),
        })
    }
}

/// A field's value as text: a string's own, otherwise the JSON to the letter.
fn field(args: &Json, path: &[String]) -> Result<String, String> {
    let problem = |what: &str| format!("args.{} {what}", path.join("."));
    let mut here: &RawValue = args.decode().map_err(|error| format!("args: {error}"))?;
    for name in path {
        // What is no object has no fields.
        let fields: BTreeMap<String, &RawValue> = serde_json::from_str(here.get()).unwrap_or_default();
        here = fields.get(name).ok_or_else(|| problem("is missing"))?;
    }
    match here.get() {
        "null" => Err(problem("is null")),
        text if text.starts_with('"') => serde_json::from_str(text).map_err(|error| problem(&error.to_string())),
        text => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(word: &str, args: &str) -> Result<String, String> {
        let args = Json::parse("args", args).unwrap();
        let id = JobId::from_uuid(uuid::Uuid::nil());
        let values = Values { args: &args, id, queue: "mail", group: "acme {id}", attempt: 2, fence: Fence(7) };
        Word::parse(word).unwrap().fill(&values)
    }

    #[test]
    fn a_value_is_put_in_as_it_is() {
        let args = r#"{"s":"a \"b\"\n$(c) {id}","n":1.50,"big":12345678901234567890,"t":true,"a":[1, 2],"o":{"p":{"q":"deep"}}}"#;
        for (word, text) in [
            ("{args.s}", "a \"b\"\n$(c) {id}"),
            ("{args.n}", "1.50"),
            ("{args.big}", "12345678901234567890"),
            ("{args.t}", "true"),
            ("{args.a}", "[1, 2]"),
            ("{args.o.p}", r#"{"q":"deep"}"#),
            ("--to={args.o.p.q}.txt", "--to=deep.txt"),
            ("{args}", args),
            ("{queue}/{group}/{attempt}/{fence}", "mail/acme {id}/2/7"),
            ("{id}", "00000000-0000-0000-0000-000000000000"),
            ("{{args}}", "{args}"),
            ("{{{fence}}}", "{7}"),
            ("", ""),
            ("plain", "plain"),
        ] {
            assert_eq!(filled(word, args).as_deref(), Ok(text), "{word}");
        }
    }

    #[test]
    fn a_field_that_is_not_there_is_named() {
        for (word, args, problem) in [
            ("{args.a}", "{}", "args.a is missing"),
            ("{args.a}", r#"{"a":null}"#, "args.a is null"),
            ("{args.a.b}", r#"{"a":"text"}"#, "args.a.b is missing"),
            ("{args.a}", "null", "args.a is missing"),
            ("{args.a}", "[1]", "args.a is missing"),
        ] {
            assert_eq!(filled(word, args).unwrap_err(), problem, "{word} of {args}");
        }
    }

    #[test]
    fn a_bad_word_is_refused_with_what_is_wrong() {
        for (word, part) in [
            ("{arg.file}", "unknown placeholder {arg.file}"),
            ("{}", "unknown placeholder {}"),
            ("{}", "{fence}; write {{ or }} for a brace that is no placeholder"),
            ("{ id }", "unknown placeholder { id }"),
            ("{args.}", "unknown placeholder {args.}"),
            ("{args..a}", "unknown placeholder"),
            ("{args.{id}}", "unknown placeholder"),
            ("{args.file", "a brace stands alone"),
            ("a}b", "a brace stands alone"),
            ("{id}}", "a brace stands alone"),
            ("a\0b", "NUL"),
        ] {
            let problem = Word::parse(word).unwrap_err();
            assert!(problem.contains(part) && problem.contains(&format!("{word:?}")), "{word}: {problem}");
        }
    }

    #[test]
    fn only_a_word_without_placeholders_is_plain() {
        let plain = |word| Word::parse(word).unwrap().plain().map(str::to_owned);
        assert_eq!((plain("a{{b}}"), plain("")), (Some("a{b}".to_owned()), Some(String::new())));
        assert_eq!(plain("a{id}"), None);
    }
}
