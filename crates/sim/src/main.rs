//! `turnwise-sim check FILE…`: was every promise kept in this run?

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
};

use turnwise_sim::{History, Report, check};

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let files: Vec<String> = match args.next().as_deref() {
        Some("check") => args.collect(),
        _ => Vec::new(),
    };
    if files.is_empty() {
        return say("usage: turnwise-sim check FILE…\n", 2);
    }
    match History::read(&files) {
        Ok(history) => tell(&check(&history)),
        Err(error) => say(&format!("{error}\n"), 2),
    }
}

fn tell(report: &Report) -> ExitCode {
    say(&report.to_string(), u8::from(!report.violations.is_empty()))
}

fn say(text: &str, code: u8) -> ExitCode {
    // A reader who has left does not change what was found.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::from(code)
}
