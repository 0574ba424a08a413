//! What may be written next in a filter: fields, signs, states, and the names that there are.

use std::collections::BTreeSet;

use askama::Template;
use serde::Deserialize;
use serde_json::Value;
use turnwise::filter::{Wanted, suggest};

use crate::{
    call::Reply,
    page::{
        Visit,
        frame::Frame,
        jobs::{Row, quoted},
        visit::render,
    },
    problem::Problem,
};

/// Suggestions at a time.
const LISTED: usize = 12;
/// Names that are read for suggestions.
const NAMES: &str = "1000";

/// One of them: what is read, and what the filter is then.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Choice {
    label: String,
    filter: String,
    /// Where one goes on writing, as browsers count.
    place: usize,
}

#[derive(Template)]
#[template(path = "suggest.html")]
struct Page {
    frame: Frame,
    choices: Vec<Choice>,
}

/// For the script of the page: the filter as it is written, and where.
pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    let filter = visit.query.get("filter").unwrap_or_default().to_owned();
    let at = visit.query.get("at").and_then(|at| at.parse().ok()).unwrap_or(usize::MAX);
    let place = bytes(&filter, at);
    let suggestion = suggest(&filter, place);
    let put = |word: String, label: String| {
        let (before, after) = (&filter[..suggestion.replaces.start], &filter[suggestion.replaces.end..]);
        let place = utf16(before) + utf16(&word);
        Choice { label, filter: format!("{before}{word}{after}"), place }
    };
    let words: Vec<(String, String)> = match &suggestion.wanted {
        Wanted::Field(fields) => fields.iter().map(|field| begun(field)).map(|word| (word.clone(), word)).collect(),
        Wanted::Sign(signs) => signs.iter().map(|sign| ((*sign).to_owned(), (*sign).to_owned())).collect(),
        Wanted::Value(field, known) => {
            let names = match names_of(field) {
                Some(source) if known.is_empty() => names(&visit, source, &suggestion.begun).await?,
                _ => known.iter().map(|value| (*value).to_owned()).collect(),
            };
            // What is complete is not suggested.
            let open = names.into_iter().filter(|name| *name != suggestion.begun);
            let end = if filter[suggestion.replaces.end..].is_empty() { " " } else { "" };
            open.map(|name| (quoted(&name) + end, name)).collect()
        }
        _ => Vec::new(),
    };
    let choices = words.into_iter().take(LISTED).map(|(word, label)| put(word, label)).collect();
    render(&Page { frame: Frame::of(&visit, "jobs", "Suggestions"), choices })
}

/// A field as it is begun: with its usual sign.
fn begun(field: &str) -> String {
    let sign = match field {
        "args" | "result" => ".",
        "error" => "~",
        "priority" | "attempt" => "=",
        _ => ":",
    };
    format!("{field}{sign}")
}

/// Where names come from: the route, its list, and what of each item it is.
type Source = (&'static str, &'static str, &'static str);

fn names_of(field: &str) -> Option<Source> {
    match field {
        "queue" => Some(("listQueues", "queues", "name")),
        "group" => Some(("listGroups", "groups", "name")),
        "task" => Some(("listTasks", "tasks", "name")),
        "key" => Some(("listKeys", "keys", "name")),
        "node" => Some(("listNodes", "nodes", "name")),
        "fingerprint" => Some(("listErrors", "errors", "fingerprint")),
        _ => None,
    }
}

#[derive(Deserialize)]
struct Named(serde_json::Map<String, Value>);

impl Named {
    fn names(&self, (_, list, name): Source) -> impl Iterator<Item = String> {
        let items = self.0.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(move |item| Some(item.get(name)?.as_str()?.to_owned()))
    }

    fn has_more(&self) -> bool {
        self.0.get("next").is_some_and(|next| !next.is_null())
    }
}

/// The names that begin so, and after them those that have it within.
async fn names(visit: &Visit, source: Source, begun: &str) -> Result<Vec<String>, Problem> {
    let route = source.0;
    if !visit.may(route) {
        return Ok(Vec::new());
    }
    let paged = matches!(route, "listQueues" | "listGroups" | "listTasks" | "listKeys");
    let asked: &[(&str, &str)] = if paged { &[("limit", NAMES)] } else { &[] };
    let known: Named = match visit.kept_of(route, asked).await? {
        Some(known) => known,
        None => visit.get(route, "", asked).await?,
    };
    let mut all: Vec<String> = known.names(source).collect();
    if let Some(after) = before(begun).filter(|_| known.has_more()) {
        // Of very many names the ones that begin so are read by themselves.
        let more: Named = visit.get(route, "", &[("limit", "100"), ("after", &after)]).await?;
        all.extend(more.names(source));
    }
    all.sort();
    all.dedup();
    let (first, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|name| name.starts_with(begun));
    let lower = begun.to_lowercase();
    let within = others.into_iter().filter(|name| name.to_lowercase().contains(&lower));
    Ok(first.into_iter().chain(within).take(LISTED + 1).collect())
}

/// A text that sorts right before all that begin with this one; `None`: it is empty.
fn before(begun: &str) -> Option<String> {
    let mut text = begun.to_owned();
    let last = text.pop()?;
    let less = (0..u32::from(last)).rev().find_map(char::from_u32);
    text.extend(less.into_iter().chain([char::MAX]));
    Some(text)
}

/// All that one may begin a condition with, for a browser without the script: after what is written. Names are those of the jobs that are
/// listed: to look for others would take longer than the list itself.
pub(crate) fn words(filter: &str, listed: &[Row]) -> Vec<String> {
    let Wanted::Field(fields) = suggest("", 0).wanted else { return Vec::new() };
    let Wanted::Value(_, states) = suggest("state:", 6).wanted else { return Vec::new() };
    let mut words: Vec<String> = fields.iter().filter(|field| **field != "state").map(|field| begun(field)).collect();
    words.extend(states.iter().map(|state| format!("state:{state}")));
    let of_row = |row: &Row| {
        [("queue", &row.queue), ("task", &row.task), ("group", &row.group)]
            .map(|(field, name)| format!("{field}:{}", quoted(name)))
    };
    words.extend(listed.iter().flat_map(of_row).collect::<BTreeSet<_>>());
    let filter = filter.trim();
    if filter.is_empty() { words } else { words.into_iter().map(|word| format!("{filter} {word}")).collect() }
}

fn utf16(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// Where this place is, which a browser counts in another way.
fn bytes(text: &str, at: usize) -> usize {
    let mut left = at;
    let past = text.char_indices().find(|(_, c)| {
        let here = left == 0;
        left = left.saturating_sub(c.len_utf16());
        here
    });
    past.map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_a_browser() {
        // The smile is two units for a browser, and four bytes.
        let text = "task:é😀x";
        for (at, place) in [(0, 0), (5, 5), (6, 7), (8, 11), (9, 12), (usize::MAX, 12)] {
            assert_eq!(bytes(text, at), place, "{at}");
        }
        assert_eq!(utf16(text), 9);
    }

    #[test]
    fn what_sorts_before_a_beginning_sorts_after_what_is_before_it() {
        let text = before("acme").unwrap();
        assert!(text.as_str() > "acmdz" && text.as_str() < "acme", "{text:?}");
        assert_eq!(before(""), None);
    }
}
