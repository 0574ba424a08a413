//! The binary `turnwise`.
//!
//! [`args`] what was typed → [`settings`] flags, variables and file together → [`serve`] a node, with its [`demo`]
//! tasks · [`enqueue`] submitting · [`look`] jobs and nodes · [`decide`] cancel, retry, fail · [`migrate`] the schema →
//! [`print`] tables and JSON, [`error`] one line and an exit code.

mod args;
mod settings;
mod serve;
mod demo;
mod enqueue;
mod look;
mod decide;
mod migrate;
mod print;
mod error;

use std::process::ExitCode;

use crate::{
    args::{Args, Command},
    error::{Failure, complain},
    settings::Settings,
};

fn main() -> ExitCode {
    let args = match Args::read() {
        Ok(args) => args,
        Err(code) => return code,
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.text().into_iter().for_each(complain);
            failure.code()
        }
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    let settings = Settings::gather(args)?;
    match &args.command {
        Command::Serve(wish) => serve::serve(&settings, wish),
        Command::Enqueue(wish) => enqueue::enqueue(&settings, wish),
        Command::Jobs(wish) => look::jobs(&settings, wish),
        Command::Job(wish) => look::job(&settings, wish),
        Command::Nodes(wish) => look::nodes(&settings, wish),
        Command::Cancel(wish) => decide::cancel(&settings, wish),
        Command::Retry(wish) => decide::retry(&settings, wish),
        Command::Fail(wish) => decide::fail(&settings, wish),
        Command::Migrate(wish) => migrate::migrate(&settings, wish),
    }
}
