//! Tables for people, JSON for programs.

use std::{
    fs::{self, OpenOptions},
    io::{self, BufWriter, StdoutLock, Write},
    path::Path,
};

use comfy_table::{Table, presets::NOTHING};
use serde::Serialize;
use turnwise::Invalid;
pub(crate) use turnwise_core::time::{print_about as about, print_age as age};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::terminal;

/// Stdout with a buffer: a listing may have a million lines.
fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(64 * 1024, io::stdout().lock())
}

/// Prints one thing a line.
pub(crate) fn lines<T: std::fmt::Display>(lines: impl IntoIterator<Item = T>) -> io::Result<()> {
    let mut out = stdout();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

/// Writes a picture to the file that a person named.
pub(crate) fn picture(file: &Path, svg: &str) -> Result<(), Invalid> {
    fs::write(file, svg).map_err(|error| unwritable(file, &error))
}

/// Refuses a file that no picture can be written to. What it holds stays until there is one.
pub(crate) fn check_picture(file: &Path) -> Result<(), Invalid> {
    OpenOptions::new().append(true).create(true).open(file).map(drop).map_err(|error| unwritable(file, &error))
}

fn unwritable(file: &Path, error: &io::Error) -> Invalid {
    Invalid::new("svg", format!("{}: {error}", file.display()))
}

/// Prints one array, with one item a line so that `grep` and `diff` are useful.
pub(crate) fn array<T: Serialize>(items: impl IntoIterator<Item = T>) -> io::Result<()> {
    let mut out = stdout();
    let mut before = "[\n";
    for item in items {
        out.write_all(before.as_bytes())?;
        serde_json::to_writer(&mut out, &item)?;
        before = ",\n";
    }
    out.write_all(if before == "[\n" { b"[]\n" } else { b"\n]\n" })?;
    out.flush()
}

pub(crate) fn object(item: &impl Serialize) -> io::Result<()> {
    indented(&serde_json::to_string(item)?)
}

/// Prints an object, a name a line.
pub(crate) fn indented(json: &str) -> io::Result<()> {
    let mut out = stdout();
    writeln!(out, "{}", indent(json))?;
    out.flush()
}

/// JSON with line breaks, as serde_json writes it; numbers and texts stay as they are written.
fn indent(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    // Behind an opening bracket, until it is known whether it is empty.
    let mut open = false;
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth));
    };
    for c in json.chars() {
        if quoted {
            text.push(c);
            (quoted, escaped) = (escaped || c != '"', !escaped && c == '\\');
            continue;
        }
        if c.is_ascii_whitespace() {
            continue;
        }
        if matches!(c, '}' | ']') {
            depth = depth.saturating_sub(1);
            if !open {
                line(&mut text, depth);
            }
            open = false;
            text.push(c);
            continue;
        }
        if open {
            line(&mut text, depth);
            open = false;
        }
        text.push(c);
        match c {
            '{' | '[' => {
                depth += 1;
                open = true;
            }
            ',' => line(&mut text, depth),
            ':' => text.push(' '),
            '"' => quoted = true,
            _ => {}
        }
    }
    text
}

/// Prints columns under their names, each line cut to the width of the terminal unless it is to be `wide`. What is not a terminal
/// gets whole lines: a program reads them.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    wide: bool,
) -> io::Result<()> {
    let width = if wide { None } else { terminal::width() };
    lines(columns(header, rows).into_iter().map(|line| cut(line, width)))
}

/// The line, or as much of it as fits and a sign that there is more.
pub(crate) fn cut(line: String, width: Option<usize>) -> String {
    let Some(width) = width.filter(|width| line.width() > *width) else { return line };
    let mut room = width.saturating_sub(1);
    let fits = |c: &char| {
        let next = room.checked_sub(c.width().unwrap_or(0));
        room = next.unwrap_or(0);
        next.is_some()
    };
    line.chars().take_while(fits).collect::<String>() + "…"
}

/// `1 job`, `2 jobs`.
pub(crate) fn count(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

/// The lines of a table.
pub(crate) fn columns<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header).add_rows(rows.into_iter().map(Vec::from));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

/// The value, or `-` if there is none.
pub(crate) fn shown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Prints `name  value` lines.
pub(crate) fn fields<'a>(fields: impl IntoIterator<Item = (&'a str, String)>) -> io::Result<()> {
    lines(fields.into_iter().map(|(name, value)| format!("{name:<17} {}", clean(&value)).trim_end().to_owned()))
}

/// The beginning of a text, in one line: enough for a table's cell.
pub(crate) fn brief(text: &str) -> String {
    const WIDTH: usize = 60;
    let line = text.lines().next().unwrap_or_default();
    let mut chars = line.chars();
    let head: String = chars.by_ref().take(WIDTH).collect();
    let more = chars.next().is_some() || text.lines().nth(1).is_some();
    clean(&head) + if more { "…" } else { "" }
}

/// Removes control characters: what tasks write into results and errors must not reach the terminal as a command to it.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_where_the_terminal_ends() {
        let cut = |line: &str, width| cut(line.to_owned(), Some(width));
        assert_eq!(cut("a line", 6), "a line");
        assert_eq!(cut("a line", 5), "a li…");
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(super::cut("a line".to_owned(), None), "a line");
    }

    #[test]
    fn json_is_indented_as_serde_does_it_and_numbers_stay_as_they_are() {
        let json = r#"{"a":[],"b":{},"c":[1,{"d":"x: {\\\"[,"}],"e":null,"f":[[]],"g":"\\"}"#;
        let value: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(indent(json), serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(indent("{ \"a\" :1.50e3 }"), "{\n  \"a\": 1.50e3\n}");
        assert_eq!((indent("[]"), indent("7")), ("[]".to_owned(), "7".to_owned()));
    }

    #[test]
    fn a_cell_is_one_short_line_without_control_codes() {
        assert_eq!(brief("short"), "short");
        assert_eq!(brief("one\ntwo"), "one…");
        assert_eq!(brief("\u{1b}[2Jgone"), "\u{fffd}[2Jgone");
        assert_eq!(brief(&"é".repeat(100)), "é".repeat(60) + "…");
    }
}
