//! The commands that pages show: each is taken from a page and given to a shell, and does what it says. Real binary, both databases.

mod support;

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::Command,
};

use serde_json::json;
use support::{Place, on_both_databases};

on_both_databases!(every_command_of_a_page_can_be_pasted,);

/// The page, as a browser gets it.
fn page(server: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(server).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    answer
}

/// The commands in it, as a person copies them.
fn commands(html: &str) -> Vec<String> {
    let line = |part: &str| {
        let signs = [("&#34;", "\""), ("&#39;", "'"), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&")];
        let line = part.split("</code>").next().unwrap().to_owned();
        signs.iter().fold(line, |text, (escaped, sign)| text.replace(escaped, sign))
    };
    html.split("<code class=\"cli\">").skip(1).map(line).collect()
}

fn every_command_of_a_page_can_be_pasted(place: &Place) {
    let node = place.serve(&["--queue", "none", "--listen", "127.0.0.1:0"]);
    let (_, address) = node.ready.split_once("http://").unwrap_or_else(|| panic!("no address: {}", node.ready));
    let server = address.trim();
    let group = "it's $HOME";
    let id = place.enqueue(&["noop", "--group", group]);
    place.enqueue(&["noop", "--group", group, "--after", &id]);
    let encoded = "it%27s%20%24HOME";
    let binary = Path::new(env!("CARGO_BIN_EXE_turnwise")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut pasted = 0;
    for page_of in [
        "/".to_owned(),
        "/fairness".to_owned(),
        "/jobs".to_owned(),
        format!("/jobs?filter=group:%22{encoded}%22"),
        format!("/groups/{encoded}"),
        format!("/groups/{encoded}/what-if?weight=3"),
        format!("/jobs/{id}"),
        format!("/jobs/{id}/why"),
        format!("/jobs/{id}/resubmit"),
    ] {
        for line in commands(&page(server, &page_of)) {
            let run =
                Command::new("sh").args(["-c", &line]).current_dir(place.path()).env("PATH", &path).output().unwrap();
            let said = String::from_utf8_lossy(&run.stderr).into_owned();
            // What it finds wrong is an answer, too.
            let answered = run.status.success() || line.starts_with("turnwise doctor");
            // A job that was changed or cancelled by the line before is not in a state for the next one.
            assert!(answered || said.contains("cannot be"), "{page_of}: {line}: {said}");
            pasted += 1;
        }
    }
    assert!(pasted > 20, "{pasted} commands");
    let lines = place.json(&["audit", "--json"]);
    let done: Vec<_> = lines.as_array().unwrap().iter().map(|line| (&line["verb"], &line["target"])).collect();
    for (verb, target) in
        [("set", format!("group:{group}")), ("pause", format!("group:{group}")), ("cancel", format!("job:{id}"))]
    {
        assert!(done.contains(&(&json!(verb), &json!(target))), "{verb} {target}: {done:?}");
    }
}
