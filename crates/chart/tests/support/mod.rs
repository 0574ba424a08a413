//! A reader of XML that accepts nothing which is not well formed, and takes it apart.

use std::collections::BTreeMap;

/// An element, at its depth in the tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Element {
    pub(crate) depth: usize,
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, String>,
}

/// What was read.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) elements: Vec<Element>,
    /// All that stands between tags.
    pub(crate) text: String,
}

impl Document {
    pub(crate) fn read(xml: &str) -> Self {
        let mut document = Self { elements: Vec::new(), text: String::new() };
        let mut open: Vec<&str> = Vec::new();
        let mut rest = xml;
        while let Some(begin) = rest.find('<') {
            let outside = &rest[..begin];
            assert!(!open.is_empty() || outside.trim().is_empty(), "outside of everything: {outside}");
            document.text += &plain(outside);
            let length = rest[begin..].find('>').unwrap_or_else(|| panic!("an open tag: {}", &rest[begin..]));
            let tag = &rest[begin + 1..begin + length];
            rest = &rest[begin + length + 1..];
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name));
                continue;
            }
            let (tag, closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
            let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
            assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic()), "<{tag}>");
            let attributes = attributes_of(attributes);
            document.elements.push(Element { depth: open.len(), name: name.to_owned(), attributes });
            if !closed {
                open.push(name);
            }
        }
        assert!(open.is_empty() && rest.trim().is_empty(), "still open: {open:?}, then {rest:?}");
        document
    }

    /// What must not depend on texts: the elements, the names of their attributes, and their classes.
    pub(crate) fn tree(&self) -> Vec<(usize, &str, Vec<&str>, &str)> {
        self.elements.iter().map(Element::shape).collect()
    }
}

impl Element {
    fn shape(&self) -> (usize, &str, Vec<&str>, &str) {
        let names = self.attributes.keys().map(String::as_str).collect();
        (self.depth, &self.name, names, self.attributes.get("class").map_or("", String::as_str))
    }
}

fn attributes_of(mut rest: &str) -> BTreeMap<String, String> {
    let mut attributes = BTreeMap::new();
    while !rest.trim().is_empty() {
        let (name, behind) = rest.trim_start().split_once("=\"").unwrap_or_else(|| panic!("no value: {rest}"));
        let (value, behind) = behind.split_once('"').unwrap_or_else(|| panic!("an open value: {rest}"));
        assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{name:?}");
        assert!(behind.is_empty() || behind.starts_with(' '), "{behind:?} behind a value");
        assert!(attributes.insert(name.to_owned(), plain(value)).is_none(), "{name} twice");
        rest = behind;
    }
    attributes
}

/// A text without its escapes; the characters must be some that XML 1.0 allows.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut parts = text.split('&');
    plain += parts.next().unwrap_or_default();
    for part in parts {
        let (entity, behind) = part.split_once(';').unwrap_or_else(|| panic!("a bare &: {text}"));
        plain += match entity {
            "amp" => "&",
            "lt" => "<",
            "gt" => ">",
            "quot" => "\"",
            "#39" => "'",
            other => panic!("&{other};"),
        };
        plain += behind;
    }
    assert!(!text.contains('<'), "{text}");
    let legal = |c: char| matches!(c, '\n' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    assert!(plain.chars().all(|c| legal(c) && !matches!(c, '\u{7f}'..='\u{9f}')), "{plain:?}");
    plain
}
