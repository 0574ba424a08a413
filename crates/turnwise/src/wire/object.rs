//! Reading one JSON object whose names are known, value by value, so that an error says which value it is about.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt,
};

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use turnwise_core::Invalid;

/// What is wrong with a text that came in; one line, beginning with the name of the value where it is about one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Unreadable {
    text: String,
    /// The names and places that lead to the value, the outermost first.
    path: Vec<String>,
    malformed: bool,
}

impl Unreadable {
    fn about(name: Option<&str>, text: String, malformed: bool) -> Self {
        Self { text, path: name.map(str::to_owned).into_iter().collect(), malformed }
    }

    /// The same, about a value inside this one.
    pub(super) fn within(mut self, name: impl ToString) -> Self {
        let name = name.to_string();
        self.text = format!("{name}: {}", self.text);
        self.path.insert(0, name);
        self
    }

    /// Where the value is, as a JSON pointer such as `/jobs/3/priority`; empty where it is about the whole text.
    pub fn pointer(&self) -> String {
        self.path.iter().map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1"))).collect()
    }

    /// Whether the text is no JSON at all; else a value in it is wrong, or its name.
    pub fn is_malformed(&self) -> bool {
        self.malformed
    }
}

impl From<Invalid> for Unreadable {
    fn from(invalid: Invalid) -> Self {
        Self::about(Some(invalid.field), invalid.to_string(), false)
    }
}

/// Hands each name and value of the object to `put`. Syntax errors are the decoder's, and come first; of the values that `put`
/// refuses the first is reported. A `null` is not handed on.
pub(super) fn read<'a, const N: usize>(
    text: &'a str,
    names: [&'static str; N],
    mut put: impl FnMut(&'static str, &'a RawValue) -> Result<(), Invalid>,
) -> Result<(), Unreadable> {
    read_with_nulls(text, names, |name, value| if value.get() == "null" { Ok(()) } else { put(name, value) })
}

/// As [`read`]; a `null` is handed on, too.
pub(super) fn read_with_nulls<'a, const N: usize>(
    json: &'a str,
    names: [&'static str; N],
    mut put: impl FnMut(&'static str, &'a RawValue) -> Result<(), Invalid>,
) -> Result<(), Unreadable> {
    // Where the reader is: the decoder's own errors do not say which value they are about.
    let name = Cell::new(None);
    let unknown = RefCell::new(None);
    let mut wrong = None;
    let mut decoder = serde_json::Deserializer::from_str(json);
    let put = |name, value: &'a RawValue| {
        if let Err(invalid) = put(name, value) {
            wrong.get_or_insert(invalid);
        }
    };
    let read = decoder.deserialize_map(Object { names: &names, name: &name, unknown: &unknown, put }).and_then(|()| {
        name.set(None);
        decoder.end()
    });
    if let Err(error) = read {
        let malformed = !error.is_data();
        let text = error.to_string();
        // A text of one line: its number is always 1.
        let text = text.replace(" at line 1 column ", " at column ").replace(" at line 2 column 0", " at its end");
        let (name, unknown) = (name.get(), unknown.into_inner());
        if !malformed && name.is_none() && unknown.is_none() {
            // The decoder's words repeat the value, which may be what the caller wanted to hide.
            return Err(Unreadable::about(None, format!("must be a JSON object, not {}", kind(json)), malformed));
        }
        let text = name.map_or(text.clone(), |name: &str| format!("{name}: {text}"));
        return Err(Unreadable::about(name.or(unknown.as_deref()), text, malformed));
    }
    wrong.map_or(Ok(()), |invalid| Err(invalid.into()))
}

struct Object<'n, P> {
    names: &'n [&'static str],
    name: &'n Cell<Option<&'static str>>,
    /// A name that is not known.
    unknown: &'n RefCell<Option<String>>,
    put: P,
}

impl<'de, P: FnMut(&'static str, &'de RawValue)> Visitor<'de> for Object<'_, P> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        let mut seen = Vec::with_capacity(self.names.len());
        while let Some(key) = entries.next_key::<String>()? {
            let Some(name) = self.names.iter().copied().find(|name| *name == key) else {
                let problem = format!("unknown name {key:?}; known are {}", self.names.join(", "));
                self.unknown.replace(Some(key));
                return Err(A::Error::custom(problem));
            };
            self.name.set(Some(name));
            if seen.contains(&name) {
                return Err(A::Error::custom("is given twice"));
            }
            seen.push(name);
            (self.put)(name, entries.next_value()?);
            self.name.set(None);
        }
        Ok(())
    }
}

pub(super) fn text<'a>(name: &'static str, value: &'a RawValue) -> Result<Cow<'a, str>, Invalid> {
    if !value.get().starts_with('"') {
        return Err(Invalid::new(name, format!("must be a text, not {}", brief(value))));
    }
    serde_json::from_str::<String>(value.get()).map(Cow::Owned).map_err(|error| Invalid::new(name, error.to_string()))
}

/// A text, or a number as it is written.
pub(super) fn plain<'a>(name: &'static str, value: &'a RawValue) -> Result<Cow<'a, str>, Invalid> {
    if value.get().starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Ok(Cow::Borrowed(value.get()));
    }
    text(name, value)
}

/// A number as it is written.
pub(super) fn number<'a>(name: &'static str, value: &'a RawValue) -> Result<&'a str, Invalid> {
    if !value.get().starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Err(Invalid::new(name, format!("must be a number, not {}", brief(value))));
    }
    Ok(value.get())
}

/// The members of an object, each a text or a number.
pub(super) fn pairs(name: &'static str, value: &RawValue) -> Result<Vec<(String, String)>, Invalid> {
    let problem = || Invalid::new(name, format!("must be an object of texts or numbers, not {}", brief(value)));
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(value.get()).map_err(|_| problem())?;
    let read = |(key, value)| Ok((key, plain(name, value)?.into_owned()));
    members.into_iter().map(read).collect()
}

/// A text, or an array of them.
pub(super) fn texts(name: &'static str, value: &RawValue) -> Result<Vec<String>, Invalid> {
    if value.get().starts_with('"') {
        return Ok(vec![text(name, value)?.into_owned()]);
    }
    let problem = |_| {
        let what = if value.get().starts_with('[') { "one of other values".to_owned() } else { brief(value) };
        Invalid::new(name, format!("must be an array of texts, not {what}"))
    };
    serde_json::from_str(value.get()).map_err(problem)
}

/// An array, each of its values as it is written.
pub(super) fn list<'a>(name: &'static str, value: &'a RawValue) -> Result<Vec<&'a RawValue>, Invalid> {
    let problem = |_| Invalid::new(name, format!("must be an array, not {}", brief(value)));
    serde_json::from_str(value.get()).map_err(problem)
}

/// A whole number that is not negative.
pub(super) fn count(name: &'static str, value: &RawValue) -> Result<u64, Invalid> {
    let problem = |_| Invalid::new(name, format!("must be a whole number, not {}", brief(value)));
    value.get().parse().map_err(problem)
}

pub(super) fn truth(name: &'static str, value: &RawValue) -> Result<bool, Invalid> {
    let problem = |_| Invalid::new(name, format!("must be true or false, not {}", brief(value)));
    value.get().parse().map_err(problem)
}

/// The beginning of a value, in one line. Of an object or an array only that it is one: it may be a job's arguments, in the wrong place.
fn brief(value: &RawValue) -> String {
    const WIDTH: usize = 60;
    if value.get().starts_with(['{', '[']) {
        return kind(value.get()).to_owned();
    }
    let mut chars = value.get().chars().map(|c| if c.is_control() { ' ' } else { c });
    let head: String = chars.by_ref().take(WIDTH).collect();
    head + if chars.next().is_some() { "…" } else { "" }
}

/// What a JSON value is, whatever it says.
fn kind(json: &str) -> &'static str {
    match json.trim_start().as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a text",
        Some(b't' | b'f') => "a truth value",
        Some(b'n') => "null",
        _ => "a number",
    }
}
