//! What went wrong in a run: the full text, and a fingerprint that is the same when the same failure comes again.

use std::fmt;

use uuid::Uuid;

/// Longest error text that is kept, in bytes.
pub const MAX_ERROR_BYTES: usize = 8 * 1024;
/// Most causes that are kept.
pub const MAX_CAUSES: usize = 32;

/// How a run failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The error's own text, then each cause. Never empty.
    pub chain: Vec<String>,
    /// Where in the code, as far as that is known: `src/extract.rs:41:9`.
    pub place: Option<String>,
}

impl Failure {
    /// Without causes and place. Of a text longer than [`MAX_ERROR_BYTES`] the end is cut off.
    pub fn new(text: impl Into<String>) -> Self {
        Self { chain: vec![clean(&text.into(), MAX_ERROR_BYTES)], place: None }
    }

    /// An error with all its causes. What is longer than can be kept loses its end, causes before texts.
    pub fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut chain = Vec::new();
        let (mut next, mut room) = (Some(error), MAX_ERROR_BYTES);
        while let Some(error) = next.filter(|_| chain.len() < MAX_CAUSES && room > 0) {
            let text = clean(&error.to_string(), room);
            room -= text.len();
            chain.push(text);
            next = error.source();
        }
        Self { chain, place: None }
    }

    /// Adds the place in the code; of one longer than 1024 bytes the end is cut off.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.place = Some(clean(&place.to_string(), 1_024));
        self
    }

    /// The chain as one text. Many errors repeat their cause in their own text; here it is printed once.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for part in self.chain.iter().filter(|part| !part.is_empty()) {
            if text.is_empty() {
                text.push_str(part);
            } else if !text.ends_with(part.as_str()) {
                text.push_str(": ");
                text.push_str(part);
            }
        }
        clean(&text, MAX_ERROR_BYTES)
    }

    /// The same for failures of the same kind: names, numbers and quoted values in the text do not count, nor does the
    /// line of the place, which moves with every change above it.
    pub fn fingerprint(&self) -> String {
        self.print().to_string()
    }

    /// The same as a number.
    pub fn print(&self) -> Fingerprint {
        let mut shape: String = self.chain.iter().map(|part| shape(part) + "\n").collect();
        if let Some(place) = &self.place {
            shape.push_str(place.split(':').next().unwrap_or_default());
        }
        let hash = Uuid::new_v5(&Uuid::from_u128(0x7ca2_1d0e_54b1_4b0e_9a53_0f1e_5c33_0d6b), shape.as_bytes());
        Fingerprint(u64::try_from(hash.as_u128() >> 80).expect("48 bits"))
    }
}

/// What failures of the same kind have in common: twelve hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Of a number only 48 bits count.
    pub fn from_number(number: u64) -> Self {
        Self(number & ((1 << 48) - 1))
    }

    /// Its 48 bits.
    pub fn number(self) -> u64 {
        self.0
    }

    /// `None`: not twelve hexadecimal digits.
    pub fn from_text(text: &str) -> Option<Self> {
        let digits = text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        digits.then(|| u64::from_str_radix(text, 16).ok()).flatten().map(Self)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

/// The beginning of a text, since the first lines say what happened. No database column takes a NUL byte.
fn clean(text: &str, room: usize) -> String {
    let mut end = text.len().min(room);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].replace('\0', "?")
}

/// A text without what differs from case to case.
fn shape(text: &str) -> String {
    let mut shape = String::with_capacity(text.len());
    let mut quoted = text.split(['"', '`']);
    while let Some(plain) = quoted.next() {
        for (at, word) in plain.split_whitespace().enumerate() {
            if at > 0 || plain.starts_with(char::is_whitespace) {
                shape.push(' ');
            }
            // A word with a digit in it is a number, an id, an address or a file of this one case.
            let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
            if bare.bytes().any(|byte| byte.is_ascii_digit()) {
                shape.push_str(&word.replacen(bare, "#", 1))
            } else {
                shape.push_str(word)
            }
        }
        if quoted.next().is_some() {
            shape.push_str(" \"…\"");
        }
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("could not read {0}")]
    struct Outer(&'static str, #[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("connection reset")]
    struct Inner;

    #[test]
    fn every_cause_is_kept_and_said_once() {
        let failure = Failure::of(&Outer("page 7", Inner));
        assert_eq!(failure.chain, ["could not read page 7", "connection reset"]);
        assert_eq!(failure.text(), "could not read page 7: connection reset");
        let repeated = Failure { chain: vec!["outer: inner".into(), "inner".into()], place: None };
        assert_eq!(repeated.text(), "outer: inner");
    }

    #[test]
    fn the_same_error_has_the_same_fingerprint_and_other_errors_have_others() {
        let print = |text: &str| Failure::new(text).fingerprint();
        assert_eq!(print("no row 17 in \"acme\""), print("no row 4711 in \"beta\""));
        assert_eq!(
            print("job 0190c5a2-7b3e-7def-8a11-0123456789ab is gone"),
            print("job 0190c5a2-dead-7def-8a11-00000000face is gone")
        );
        assert_ne!(print("no row 17"), print("no column 17"));
        let refused = Failure::new("refused");
        assert_eq!(refused.fingerprint(), "b7b6402df93b", "stored fingerprints outlive a release");
        assert_eq!(Fingerprint::from_text(&refused.fingerprint()), Some(refused.print()));
        assert_eq!((Fingerprint::from_text("abc"), Fingerprint::from_text("+00000000000")), (None, None));
        assert_ne!(print("refused"), Failure::new("refused").at("src/mail.rs:3:1").fingerprint());
        assert_eq!(
            Failure::new("refused").at("src/mail.rs:3:1").fingerprint(),
            Failure::new("refused").at("src/mail.rs:99:5").fingerprint()
        );
    }

    #[test]
    fn a_long_or_strange_error_is_kept_within_bounds() {
        let failure = Failure::new(format!("{}é\0", "x".repeat(MAX_ERROR_BYTES - 1)));
        assert!(failure.text().len() <= MAX_ERROR_BYTES);
        assert_eq!(Failure::new("a\0b").text(), "a?b");
        assert_eq!(Failure::new("").text(), "");
    }
}
