//! JSON as text, checked once at the border and kept to the letter.
//!
//! The text is not parsed into a tree and written again: numbers keep their digits and objects their order, on every
//! store. Checked is what would fail later: syntax, size, depth, and the NUL that no database column takes.

use std::{fmt, sync::Arc};

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{error::Category, value::RawValue};

use crate::name::Invalid;

/// Default limit of a job's arguments and of its result.
pub const MAX_JSON_BYTES: usize = 1024 * 1024;
/// Deepest nesting. A decoder with a stack frame per level must survive it in the smallest thread.
pub const MAX_JSON_DEPTH: usize = 64;

/// Valid JSON text within the limits.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Arc<str>);

impl Json {
    /// Checks `text`, naming `field` in the error.
    pub fn parse(field: &'static str, text: &str) -> Result<Self, Invalid> {
        if text.len() > MAX_JSON_BYTES {
            return Err(Invalid::new(
                field,
                format!("is {} bytes long, at most {MAX_JSON_BYTES} are allowed", text.len()),
            ));
        }
        let mut decoder = serde_json::Deserializer::from_str(text);
        // Our own depth check is tighter than the decoder's.
        Check { left: MAX_JSON_DEPTH }.deserialize(&mut decoder).and_then(|()| decoder.end()).map_err(|error| {
            match error.classify() {
                Category::Syntax | Category::Eof => Invalid::new(field, format!("is not JSON: {error}")),
                Category::Data | Category::Io => Invalid::new(field, error.to_string()),
            }
        })?;
        Ok(Self(Arc::from(text.trim())))
    }

    /// Writes `value` as JSON, naming `field` in the error.
    pub fn encode(field: &'static str, value: &impl serde::Serialize) -> Result<Self, Invalid> {
        let text = serde_json::to_string(value).map_err(|error| Invalid::new(field, error.to_string()))?;
        Self::parse(field, &text)
    }

    /// Text read back from the database, where only checked JSON is written.
    pub fn stored(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text `null`: what a task without arguments gets.
    pub fn null() -> Self {
        Self(Arc::from("null"))
    }

    /// The text as it was given, without white space around it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads the text as a `T`; an error where it is valid JSON of another shape.
    pub fn decode<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl serde::Serialize for Json {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &serde_json::value::RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// Walks a document without keeping any of it.
#[derive(Clone, Copy)]
struct Check {
    left: usize,
}

impl Check {
    fn below<E: de::Error>(self) -> Result<Self, E> {
        let left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| E::custom(format_args!("is nested deeper than {MAX_JSON_DEPTH} levels")))?;
        Ok(Self { left })
    }
}

impl<'de> DeserializeSeed<'de> for Check {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, decoder: D) -> Result<(), D::Error> {
        decoder.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Check {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        if text.contains('\0') { Err(E::custom("must not contain a NUL byte")) } else { Ok(()) }
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let below = self.below()?;
        while items.next_element_seed(below)?.is_some() {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let below = self.below()?;
        while entries.next_key_seed(below)?.is_some() {
            entries.next_value_seed(below)?;
        }
        Ok(())
    }
}

/// What a value consists of.
#[derive(Debug)]
pub enum Members<'a> {
    /// Its entries, also those whose name comes twice.
    Object(Vec<(String, &'a RawValue)>),
    /// Its items.
    Array(Vec<&'a RawValue>),
    /// What the text says.
    Text(String),
    /// A number, `true`, `false` or `null`: as it is written.
    Other,
}

/// Takes a value apart, one level deep.
pub fn members(value: &RawValue) -> Members<'_> {
    let text = value.get();
    let read = match text.as_bytes().first() {
        Some(b'{') => serde_json::Deserializer::from_str(text).deserialize_map(Entries).map(Members::Object),
        Some(b'[') => serde_json::from_str(text).map(Members::Array),
        Some(b'"') => serde_json::from_str(text).map(Members::Text),
        _ => Ok(Members::Other),
    };
    read.unwrap_or(Members::Other)
}

/// The entries of an object, also those whose name comes twice.
struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(entries)
    }
}

/// The values at a place, which is named from the outermost name on, or by its number in an array: several if a name comes twice.
pub fn find<'a>(value: &'a RawValue, names: &[String], found: &mut Vec<&'a RawValue>) {
    let Some((first, rest)) = names.split_first() else {
        found.push(value);
        return;
    };
    match members(value) {
        Members::Object(entries) => {
            entries.into_iter().filter(|(name, _)| name == first).for_each(|(_, value)| find(value, rest, found));
        }
        Members::Array(items) => {
            if let Some(item) = first.parse::<usize>().ok().and_then(|at| items.get(at)) {
                find(item, rest, found);
            }
        }
        Members::Text(_) | Members::Other => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kept_to_the_letter() {
        let text = r#"{"b":1.50,"a":12345678901234567890,"c":"\u00e9"}"#;
        assert_eq!(Json::parse("args", text).unwrap().as_str(), text);
        assert_eq!(Json::parse("args", "  null ").unwrap(), Json::null());
    }

    #[test]
    fn hostile_text_is_refused_with_its_field() {
        let deep = format!("{}{}", "[".repeat(MAX_JSON_DEPTH + 1), "]".repeat(MAX_JSON_DEPTH + 1));
        let large = format!("\"{}\"", "x".repeat(MAX_JSON_BYTES));
        for (text, part) in [
            ("{", "EOF"),
            ("{} {}", "trailing"),
            (r#""\u0000""#, "NUL"),
            (r#"{"a\u0000":1}"#, "NUL"),
            (r#""\ud800""#, "hex escape"),
            ("1e999", "out of range"),
            (deep.as_str(), "deeper than 64"),
            (large.as_str(), "at most 1048576"),
            ("", "EOF"),
        ] {
            let error = Json::parse("args", text).unwrap_err().to_string();
            assert!(error.starts_with("args: ") && error.contains(part), "{error}");
        }
    }

    #[test]
    fn the_deepest_allowed_document_passes() {
        let deep = format!("{}{}", "[".repeat(MAX_JSON_DEPTH), "]".repeat(MAX_JSON_DEPTH));
        assert!(Json::parse("args", &deep).is_ok());
    }
}
