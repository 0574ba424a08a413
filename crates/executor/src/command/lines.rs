//! The lines that a program writes, for the log of its job.

use turnwise_core::story::MAX_LINE_BYTES;

use crate::ctx::Ctx;

/// The job's log as bytes arrive for it.
pub(super) struct Log<'a> {
    ctx: &'a Ctx,
    lines: Lines,
    last: Option<String>,
}

impl<'a> Log<'a> {
    pub(super) fn new(ctx: &'a Ctx) -> Self {
        Self { ctx, lines: Lines::default(), last: None }
    }

    pub(super) fn hear(&mut self, bytes: &[u8]) {
        let Self { ctx, lines, last } = self;
        lines.hear(bytes, |line| {
            ctx.log(line);
            if !line.trim().is_empty() {
                *last = Some(line.to_owned());
            }
        });
    }

    /// Writes a line without an end, too. Returns the last line that was not blank.
    pub(super) fn finish(mut self) -> Option<String> {
        if !self.lines.pending.is_empty() {
            self.hear(b"\n");
        }
        self.last
    }
}

/// Cuts a stream of bytes into lines no longer than a log takes; a longer one goes on in the next.
#[derive(Debug, Default)]
struct Lines {
    pending: Vec<u8>,
}

impl Lines {
    fn hear(&mut self, mut bytes: &[u8], mut say: impl FnMut(&str)) {
        while !bytes.is_empty() {
            let room = MAX_LINE_BYTES - self.pending.len();
            let end = bytes.iter().position(|&byte| byte == b'\n');
            match end.filter(|&end| end <= room) {
                Some(end) => {
                    self.pending.extend_from_slice(&bytes[..end]);
                    bytes = &bytes[end + 1..];
                    let line = self.pending.strip_suffix(b"\r").unwrap_or(&self.pending);
                    say(&String::from_utf8_lossy(line));
                    self.pending.clear();
                }
                None => {
                    let (now, later) = bytes.split_at(room.min(bytes.len()));
                    self.pending.extend_from_slice(now);
                    bytes = later;
                    if self.pending.len() == MAX_LINE_BYTES && !bytes.is_empty() {
                        let rest = self.pending.split_off(whole_characters(&self.pending));
                        say(&String::from_utf8_lossy(&self.pending));
                        self.pending = rest;
                    }
                }
            }
        }
    }
}

/// The length of `bytes` without a character that is cut off at their end.
fn whole_characters(bytes: &[u8]) -> usize {
    let last = bytes.iter().rev().take(4).position(|byte| byte & 0xc0 != 0x80);
    // From the last byte that begins a character: it may be whole, which only the decoder knows.
    let begin = last.map_or(bytes.len(), |back| bytes.len() - 1 - back);
    match std::str::from_utf8(&bytes[begin..]) {
        Err(error) if error.error_len().is_none() && begin > 0 => begin,
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut said) = (Lines::default(), Vec::new());
        chunks.iter().for_each(|chunk| lines.hear(chunk, |line| said.push(line.to_owned())));
        said
    }

    #[test]
    fn bytes_become_lines_wherever_they_are_cut() {
        let whole = "one\ntwo é\r\n\nthree\n".as_bytes();
        for cut in 0..whole.len() {
            assert_eq!(lines(&[&whole[..cut], &whole[cut..]]), ["one", "two é", "", "three"], "{cut}");
        }
        assert_eq!(lines(&[b"no end"]), [""; 0]);
    }

    #[test]
    fn a_long_line_goes_on_in_the_next_without_losing_a_character() {
        let text = "é".repeat(MAX_LINE_BYTES) + "x";
        for shift in ["", "a"] {
            let said = lines(&[shift.as_bytes(), text.as_bytes(), b"\n"]);
            assert!(said.iter().all(|line| line.len() <= MAX_LINE_BYTES));
            assert_eq!(said.concat(), format!("{shift}{text}"));
        }
        let exact = "x".repeat(MAX_LINE_BYTES);
        assert_eq!(lines(&[exact.as_bytes(), b"\n", b"next\n"]), [exact.as_str(), "next"]);
        // What is no text at all is bounded as well.
        assert_eq!(lines(&[&[0x80; 3 * MAX_LINE_BYTES], b"\n"]).len(), 3);
    }
}
