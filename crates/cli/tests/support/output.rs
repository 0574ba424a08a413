//! How a command has ended, and what it has said.

use std::process::Output;

/// What it has printed; it must have succeeded.
pub(crate) fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The one line on stderr of a command that ended with `code`.
pub(crate) fn refused(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let text = said(output);
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

/// What it said on stderr.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
