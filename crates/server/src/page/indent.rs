//! JSON with line breaks, for people; numbers and texts stay as they are written.

pub(crate) fn indent(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    // What stands outside of texts decides about lines; texts are taken over whole.
    let mut depth = 0_usize;
    let mut rest = json;
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(c) = rest.chars().next() {
        if c == '"' {
            let end = end_of_text(rest);
            text.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '{' | '[' => {
                text.push(c);
                let inside = rest.trim_start();
                if let Some(close) = inside.chars().next().filter(|next| matches!(next, '}' | ']')) {
                    text.push(close);
                    rest = &inside[1..];
                } else {
                    depth += 1;
                    line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut text, depth);
                text.push(c);
            }
            ',' => {
                text.push(c);
                line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => text.push(c),
        }
    }
    text
}

/// Where the text that begins here ends, with its quotation marks.
fn end_of_text(json: &str) -> usize {
    let mut escaped = false;
    for (at, c) in json.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_stay_as_they_are() {
        let json = r#"{"a":1.50,"b":[],"c":{ },"d":[1,2],"e":"x\"],{ \\"}"#;
        let lines = "{\n  \"a\": 1.50,\n  \"b\": [],\n  \"c\": {},\n  \"d\": [\n    1,\n    2\n  ],\n  \"e\": \"x\\\"],{ \\\\\"\n}";
        assert_eq!(indent(json), lines);
        assert_eq!((indent("null"), indent("\"open")), ("null".to_owned(), "\"open".to_owned()));
    }
}
