//! What may be written next in a filter, at the place where a person writes.

use std::ops::Range;

use turnwise_core::JobState;

use super::{
    FIELDS,
    parse::{ends_name, ends_value},
};

/// What may stand at a place of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Suggestion {
    /// The bytes of the text that a suggestion takes the place of: the word that the place is in.
    pub replaces: Range<usize>,
    /// What of that word is written before the place: suggestions begin with it.
    pub begun: String,
    /// What may stand there.
    pub wanted: Wanted,
}

/// What may stand at a place of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wanted {
    /// One of these fields.
    Field(Vec<&'static str>),
    /// A place in `args` or `result`, from the dot on; the names are the caller's to know.
    Path(&'static str),
    /// One of these signs, after a field.
    Sign(&'static [&'static str]),
    /// A value of this field: one of these, or where there are none, of those that the caller knows (names of queues, groups, tasks).
    Value(&'static str, Vec<&'static str>),
}

/// What may stand at this place of a filter, given in bytes from its beginning. Takes every text and every place: a place beyond the
/// text is its end, and one within a character is before that.
///
/// ```
/// use turnwise::filter::{Wanted, suggest};
///
/// let suggestion = suggest("task:mail sta", 13);
/// assert_eq!((suggestion.replaces, suggestion.wanted), (10..13, Wanted::Field(vec!["state"])));
/// let suggestion = suggest("state:failed,st", 15);
/// assert_eq!((suggestion.replaces, suggestion.wanted), (13..15, Wanted::Value("state", vec!["stuck"])));
/// ```
pub fn suggest(text: &str, place: usize) -> Suggestion {
    let mut place = place.min(text.len());
    while !text.is_char_boundary(place) {
        place -= 1;
    }
    let before = &text[..place];
    let begin = condition_begins(before);
    let condition = &before[begin..];
    let signless = condition.strip_prefix('-').unwrap_or(condition);
    let field_at = place - signless.len();
    let sign_at = outside(signless, |c| ends_name(c) && c != '.').next();
    let Some(sign_at) = sign_at else {
        let end = place + word(&text[place..], ends_name);
        if let Some((document, _)) = signless.split_once('.')
            && let Some(document) = known(document).filter(|name| has_parts(name))
        {
            let at = field_at + document.len();
            let end = place + word(&text[place..], |c| ends_name(c) && c != '.');
            return Suggestion { replaces: at..end, begun: text[at..place].to_owned(), wanted: Wanted::Path(document) };
        }
        if let Some(field) = known(signless).filter(|_| end == place) {
            return Suggestion { replaces: place..place, begun: String::new(), wanted: Wanted::Sign(signs(field)) };
        }
        let fields = FIELDS.into_iter().filter(|field| field.starts_with(signless)).collect();
        return Suggestion { replaces: field_at..end, begun: signless.to_owned(), wanted: Wanted::Field(fields) };
    };
    let (field, value) = signless.split_at(sign_at);
    let field = field.split('.').next().and_then(known);
    let sign = value.len() - value.trim_start_matches(['!', '<', '>', ':', '=', '~']).len();
    let value_at = field_at + sign_at + sign;
    let value = &text[value_at..place];
    let last = value_at + outside(value, |c| c == ',').last().map_or(0, |at| at + 1);
    let begun = &text[last..place];
    let end = if begun.starts_with('"') {
        // The whole text between the quotation marks.
        place + text[place..].find('"').map_or(0, |at| at + 1)
    } else {
        place + word(&text[place..], ends_value)
    };
    let begun = begun.trim_start_matches('"').to_owned();
    let Some(field) = field else {
        return Suggestion { replaces: last..end, begun, wanted: Wanted::Field(Vec::new()) };
    };
    let values = values(field).into_iter().filter(|value| value.starts_with(begun.as_str())).collect();
    Suggestion { replaces: last..end, begun, wanted: Wanted::Value(field, values) }
}

fn known(name: &str) -> Option<&'static str> {
    FIELDS.into_iter().find(|field| *field == name)
}

fn has_parts(field: &str) -> bool {
    matches!(field, "args" | "result")
}

/// Places of these characters that are not between quotation marks.
fn outside(text: &str, wanted: impl Fn(char) -> bool) -> impl Iterator<Item = usize> {
    let (mut quoted, mut escaped) = (false, false);
    text.char_indices().filter_map(move |(at, c)| {
        let here = !quoted && c != '"' && wanted(c);
        match c {
            '"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = quoted && c == '\\' && !escaped;
        here.then_some(at)
    })
}

/// Where the last condition of a text begins.
fn condition_begins(text: &str) -> usize {
    let last = outside(text, char::is_whitespace).last();
    last.map_or(0, |at| at + text[at..].chars().next().map_or(0, char::len_utf8))
}

/// How long the rest of a word is.
fn word(text: &str, ends: impl Fn(char) -> bool) -> usize {
    text.find(ends).unwrap_or(text.len())
}

fn signs(field: &str) -> &'static [&'static str] {
    match field {
        "args" | "result" => &[".", "~", "=", "!=", ">", ">=", "<", "<="],
        "error" => &["~"],
        "priority" | "attempt" => &["=", "!=", ">", ">=", "<", "<="],
        "since" | "until" => &[":"],
        _ => &[":", "!="],
    }
}

fn values(field: &str) -> Vec<&'static str> {
    match field {
        "state" => JobState::ALL.into_iter().map(JobState::name).collect(),
        "since" | "until" => vec!["15m", "1h", "24h", "7d"],
        "priority" => vec!["high", "low"],
        _ => Vec::new(),
    }
}
