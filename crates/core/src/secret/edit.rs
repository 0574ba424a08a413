//! Arguments that a person edits without seeing their secrets.
//!
//! What the person gets has a marker at each secret's place, and what comes back has the stored value again wherever a marker still
//! stands. A marker names the place that its value was at: so an item of a list that was moved keeps its own secret, and not the one of
//! the item that stood there before.

use std::{collections::BTreeSet, ops::Range};

use serde_json::value::RawValue;

use super::{MASKED, Pointer};
use crate::{
    json::{Json, Members, find, members},
    name::Invalid,
};

/// What stands for the value of this place.
fn marker(pointer: &Pointer) -> String {
    match pointer.as_str() {
        "" => MASKED.to_owned(),
        place => format!("[secret {place}]"),
    }
}

/// The arguments with a marker in the place of each secret.
pub fn to_edit(pointers: &BTreeSet<Pointer>, args: &Json) -> Json {
    let text = args.as_str();
    let Ok(root) = serde_json::from_str::<&RawValue>(text) else {
        // Only checked JSON is stored. What cannot be read is not shown.
        return Json::stored(format!("\"{MASKED}\""));
    };
    let mut marked = Vec::new();
    for pointer in pointers {
        let mut found = Vec::new();
        find(root, &pointer.names(), &mut found);
        marked.extend(found.into_iter().map(|value| (range_in(text, value), marker(pointer))));
    }
    // Of secrets within one another the outermost hides all.
    marked.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
    let mut end = 0;
    marked.retain(|(range, _)| {
        let outermost = range.start >= end;
        end = end.max(range.end);
        outermost
    });
    let marked = marked.into_iter().map(|(range, marker)| (range, serde_json::Value::from(marker).to_string()));
    Json::stored(spliced(text, marked.collect()))
}

/// What [`to_edit`] gave, as a person has changed it, with the stored values in place of the markers. `before` are the secret places of the
/// stored arguments, `then` those of the task that gets these.
///
/// Refuses, naming the field `args`, a marker where the value would not be secret any more, and one without a stored value: better
/// than to submit the marker as if it were the value. `[secret]` stands for the value of its own place, too, as lists and other pages show
/// it; not within an array, where the place may have moved. Any other text is what it says.
pub fn restore(
    stored: &Json,
    before: &BTreeSet<Pointer>,
    then: &BTreeSet<Pointer>,
    edited: &Json,
) -> Result<Json, Invalid> {
    let read = |json: &'_ Json| serde_json::from_str::<Box<RawValue>>(json.as_str());
    let (Ok(from), Ok(to)) = (read(stored), read(edited)) else {
        return Err(Invalid::new("args", "cannot be read"));
    };
    let mut restored = Restored { from: &from, before, then, text: to.get(), values: Vec::new() };
    restored.walk(&to, &mut Vec::new(), false)?;
    let values = restored.values;
    Json::parse("args", &spliced(to.get(), values))
}

struct Restored<'a> {
    from: &'a RawValue,
    before: &'a BTreeSet<Pointer>,
    then: &'a BTreeSet<Pointer>,
    /// What is restored, where the places of the values are in.
    text: &'a str,
    values: Vec<(Range<usize>, String)>,
}

impl Restored<'_> {
    fn walk(&mut self, value: &RawValue, path: &mut Vec<String>, in_array: bool) -> Result<(), Invalid> {
        match members(value) {
            Members::Object(entries) => {
                for (name, value) in entries {
                    path.push(name);
                    self.walk(value, path, in_array)?;
                    path.pop();
                }
            }
            Members::Array(items) => {
                for (at, value) in items.into_iter().enumerate() {
                    path.push(at.to_string());
                    self.walk(value, path, true)?;
                    path.pop();
                }
            }
            Members::Text(text) => {
                if let Some(kept) = self.kept(&text, path, in_array)? {
                    self.values.push((range_in(self.text, value), kept));
                }
            }
            Members::Other => {}
        }
        Ok(())
    }

    /// The stored value that this text at this place stands for; `None`: it is a text.
    fn kept(&self, text: &str, path: &[String], in_array: bool) -> Result<Option<String>, Invalid> {
        let is_here = |pointer: &&Pointer| pointer.names() == path;
        let is_secret = self.then.iter().any(|pointer| is_here(&pointer));
        let named = self.before.iter().find(|pointer| !pointer.as_str().is_empty() && marker(pointer) == text);
        let bad = |problem: String| Err(Invalid::new("args", problem));
        let place = place(path);
        let pointer = match named {
            Some(_) if !is_secret => {
                return bad(format!("{text:?} at {place} would not be secret there; write a value in its place"));
            }
            Some(pointer) => pointer,
            None if text != MASKED || !is_secret => return Ok(None),
            None if in_array => {
                return bad(format!(
                    "{text:?} at {place} may have moved within its array; write \"[secret POINTER]\" for the value that was at that place"
                ));
            }
            None => match self.before.iter().find(is_here) {
                Some(pointer) => pointer,
                None => return bad(format!("{text:?} at {place} was not secret before; write a value in its place")),
            },
        };
        let mut found = Vec::new();
        find(self.from, &pointer.names(), &mut found);
        // Of a name that comes twice the last counts, as for every reader.
        match found.last() {
            Some(value) => Ok(Some(value.get().to_owned())),
            None => bad(format!("{text:?} at {place}: the job has no value at {pointer}; write one")),
        }
    }
}

fn place(path: &[String]) -> String {
    match path {
        [] => "the top".to_owned(),
        names => names.iter().map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1"))).collect(),
    }
}

/// Where a part of a text stands in it.
fn range_in(text: &str, part: &RawValue) -> Range<usize> {
    let begin = part.get().as_ptr() as usize - text.as_ptr() as usize;
    begin..begin + part.get().len()
}

/// The text with other texts at these places, which follow one another.
fn spliced(text: &str, parts: Vec<(Range<usize>, String)>) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut done = 0;
    for (range, part) in parts {
        whole.push_str(&text[done..range.start]);
        whole.push_str(&part);
        done = range.end;
    }
    whole.push_str(&text[done..]);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::pointers;

    fn set(texts: &[&str]) -> BTreeSet<Pointer> {
        pointers(texts).unwrap()
    }

    fn json(text: &str) -> Json {
        Json::parse("args", text).unwrap()
    }

    /// What the secret places of this job's arguments come to, edited so.
    fn edited(secret: &[&str], stored: &str, edit: &str) -> Result<String, String> {
        let secret = set(secret);
        let restored = restore(&json(stored), &secret, &secret, &json(edit));
        restored.map(|json| json.as_str().to_owned()).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn what_is_left_alone_is_stored_to_the_letter() {
        for (secret, stored) in [
            (vec!["/card/number"], r#"{"n":1.50,  "card":{"number":"4111","name":"é\u0041"}}"#),
            (vec!["/cards/0/number", "/cards/1/number"], r#"{"cards":[{"number":"1"},{"number":{"a":[2]}}]}"#),
            (vec!["/card", "/card/number"], r#"{"card":{"number":"4111"}}"#),
            (vec![""], r#"["all of it"]"#),
            (vec!["/a~1b/c~0d"], r#"{"a/b":{"c~d":12345678901234567890}}"#),
            (vec!["/none"], r#"{"a":"[secret]"}"#),
        ] {
            let shown = to_edit(&set(&secret), &json(stored));
            for value in ["4111", "1}", "all of it", "12345678901234567890", "[2]"] {
                assert!(!shown.as_str().contains(value), "{shown}");
            }
            assert_eq!(edited(&secret, stored, shown.as_str()).unwrap(), stored, "{shown}");
        }
    }

    #[test]
    fn a_changed_sibling_leaves_a_secret_and_a_typed_value_replaces_it() {
        let stored = r#"{"card":{"number":"4111","name":"Ann"},"n":1}"#;
        let secret = ["/card/number"];
        let typed = |number: &str| format!(r#"{{"n":2,"card":{{"name":"Bob","number":{number}}}}}"#);
        for (number, kept) in [
            (r#""[secret /card/number]""#, r#""4111""#),
            (r#""[secret]""#, r#""4111""#),
            (r#""4242""#, r#""4242""#),
            ("null", "null"),
            (r#""[secret]!""#, r#""[secret]!""#),
            (r#""[secret /card/other]""#, r#""[secret /card/other]""#),
        ] {
            assert_eq!(edited(&secret, stored, &typed(number)).unwrap(), typed(kept));
        }
    }

    #[test]
    fn an_item_that_moved_keeps_its_own_secret() {
        let stored = r#"[{"to":"ann","pin":"1"},{"to":"bob","pin":"2"}]"#;
        let secret = ["/0/pin", "/1/pin"];
        let moved = r#"[{"to":"bob","pin":"[secret /1/pin]"},{"to":"ann","pin":"[secret /0/pin]"}]"#;
        let kept = r#"[{"to":"bob","pin":"2"},{"to":"ann","pin":"1"}]"#;
        assert_eq!(edited(&secret, stored, moved).unwrap(), kept);
        let removed = r#"[{"to":"bob","pin":"[secret /1/pin]"}]"#;
        assert_eq!(edited(&secret, stored, removed).unwrap(), r#"[{"to":"bob","pin":"2"}]"#);
        // It does not say which one it was.
        let bare = edited(&secret, stored, r#"[{"to":"bob","pin":"[secret]"}]"#).unwrap_err();
        assert!(bare.starts_with("args: \"[secret]\" at /0/pin may have moved"), "{bare}");
    }

    #[test]
    fn a_secret_goes_to_no_place_that_is_not_secret() {
        let stored = r#"{"card":"4111","note":"x"}"#;
        let elsewhere = edited(&["/card"], stored, r#"{"card":"1","note":"[secret /card]"}"#).unwrap_err();
        assert_eq!(
            elsewhere,
            r#"args: "[secret /card]" at /note would not be secret there; write a value in its place"#
        );
        // On purpose, where nothing is secret: a text.
        assert_eq!(edited(&["/card"], stored, r#"{"note":"[secret]"}"#).unwrap(), r#"{"note":"[secret]"}"#);
        // Of another task, for which it is not secret.
        let other = restore(&json(stored), &set(&["/card"]), &set(&[]), &json(r#"{"card":"[secret /card]"}"#));
        assert!(other.unwrap_err().to_string().contains("would not be secret there"));
        let missing = edited(&["/card", "/pin"], stored, r#"{"card":"1","pin":"[secret /pin]"}"#).unwrap_err();
        assert_eq!(missing, r#"args: "[secret /pin]" at /pin: the job has no value at /pin; write one"#);
    }

    #[test]
    fn of_a_name_that_comes_twice_the_last_value_counts() {
        let stored = r#"{"card":"1","card":"2"}"#;
        assert_eq!(
            to_edit(&set(&["/card"]), &json(stored)).as_str(),
            r#"{"card":"[secret /card]","card":"[secret /card]"}"#
        );
        assert_eq!(edited(&["/card"], stored, r#"{"card":"[secret]"}"#).unwrap(), r#"{"card":"2"}"#);
    }
}
