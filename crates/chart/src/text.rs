//! Texts of callers: without what XML or a reader cannot cope with, and cut to the room they have.

/// The longest text that a picture keeps, in characters: a name may be a megabyte.
const LONGEST: usize = 300;

/// The text on one line, without control characters and without marks that turn the direction of what follows.
pub(crate) fn clean(text: &str) -> String {
    let mut chars = text.chars().map(harmless);
    let mut kept: String = chars.by_ref().take(LONGEST).collect();
    if chars.next().is_some() {
        kept.push('…');
    }
    kept
}

/// Clean, and ready to stand in markup, between tags or in an attribute.
pub(crate) fn escaped(text: &str) -> String {
    escape(clean(text).chars())
}

/// The same for an address, which leads elsewhere if it is cut.
pub(crate) fn address(text: &str) -> String {
    escape(text.chars().map(harmless))
}

/// Ready to stand in markup, with all its characters.
pub(crate) fn escape(chars: impl Iterator<Item = char>) -> String {
    let mut escaped = String::new();
    for c in chars {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

fn harmless(c: char) -> char {
    match c {
        '\t' | '\n' | '\r' => ' ',
        c if c.is_control() || turns(c) || is_no_character(c) => '\u{fffd}',
        c => c,
    }
}

/// A name that goes on in a sentence: one that is written from right to left does not turn what stands around it.
pub(crate) fn named(name: &str) -> String {
    let name = clean(name);
    if name.chars().any(|c| matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')) {
        format!("\u{2068}{name}\u{2069}")
    } else {
        name
    }
}

/// As much of the text as has room in so many units, at a size of the font.
pub(crate) fn fit(text: &str, room: f64, size: f64) -> String {
    let text = clean(text);
    if breadth(&text, size) <= room {
        return text;
    }
    let room = room - size;
    let mut used = 0.0;
    let kept = text.chars().take_while(|&c| {
        used += part(c) * size;
        used <= room
    });
    kept.chain(['…']).collect()
}

/// About as wide as a browser draws the text: fonts differ, so a little more than most need.
pub(crate) fn breadth(text: &str, size: f64) -> f64 {
    text.chars().map(part).sum::<f64>() * size
}

/// The width of a character as a part of the font's size.
fn part(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' => 0.33,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' | '"' => 0.42,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' | '—' => 0.95,
        'A'..='Z' | '&' => 0.72,
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200d}' | '\u{2068}' | '\u{2069}' | '\u{fe00}'..='\u{fe0f}' => 0.0,
        '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' => 1.05,
        '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}' | '\u{1f300}'..='\u{3ffff}' => 1.3,
        _ => 0.6,
    }
}

/// Embeddings, overrides and isolates: with them a name can show itself as another one.
fn turns(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What no document may hold; line separators, which some readers break a line at.
fn is_no_character(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}' | '\u{fdd0}'..='\u{fdef}') || u32::from(c) & 0xfffe == 0xfffe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_a_text() {
        assert_eq!(
            escaped("<a & \"b\" 'c'>\0\u{202e}\n"),
            "&lt;a &amp; &quot;b&quot; &#39;c&#39;&gt;\u{fffd}\u{fffd} "
        );
        assert_eq!(clean(&"x".repeat(1_000_000)).chars().count(), LONGEST + 1);
        assert_eq!(named("שלום"), "\u{2068}שלום\u{2069}");
    }

    #[test]
    fn a_text_is_cut_to_its_room_and_says_so() {
        assert_eq!(fit("short", 100.0, 13.0), "short");
        let cut = fit("a-very-long-name-of-a-group", 100.0, 13.0);
        assert!(cut.ends_with('…') && breadth(&cut, 13.0) <= 100.0, "{cut}");
        assert_eq!(fit("x", 0.0, 13.0), "…");
    }
}
