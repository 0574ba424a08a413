//! A picture as a file of its own: with its style sheet, a size and a background.

use crate::text::escape;

/// The style sheet of all pictures, for light and dark: a page serves it with its own, a file holds it.
///
/// It defines the palette as properties of `:root`, too (`--state-failed`, `--series-0`, `--ink` and their like), so that a page uses
/// the same colours. `data-theme="light"` or `"dark"` at the root element overrides what the reader's system prefers.
pub const CSS: &str = include_str!("chart.css");

/// The picture, as a file that any browser shows.
///
/// What is no picture of this crate is returned as it came.
#[must_use]
pub fn standalone(svg: &str) -> String {
    const DESCRIBED: &str = "</desc>\n";
    let size = svg.split_once(" viewBox=\"0 0 ").and_then(|(_, rest)| rest.split_once('"')?.0.split_once(' '));
    let (Some((width, height)), Some((head, body)), Some(("", _))) =
        (size, svg.split_once(DESCRIBED), svg.split_once("<svg "))
    else {
        return svg.to_owned();
    };
    // The size is that of the picture where nothing else says how large it is to be, as in a page of Markdown.
    let head = head.replacen(" role=", &format!(" width=\"{width}\" height=\"{height}\" role="), 1);
    let style = escape(CSS.chars());
    format!(
        "{head}{DESCRIBED}<style>\n{style}</style>\n<rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n{body}"
    )
}
