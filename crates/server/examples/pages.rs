//! Prints all pages, and what their forms are sent to, as JSON: what tries them in a browser (tests/browser) needs a case for each.

use std::io::{self, Write as _};

use serde_json::{Value, json};
use turnwise_server::pages;

fn main() -> io::Result<()> {
    let row = |page: &turnwise_server::Page| json!({ "verb": page.verb.method().as_str(), "path": page.path, "errand": page.errand() });
    let rows: Vec<Value> = pages().iter().map(row).collect();
    writeln!(io::stdout(), "{:#}", Value::from(rows))
}
