//! The binary `turnwise`.
//!
//! [`args`] what was typed → [`settings`] flags, variables and file together, [`pools`] of the file → [`serve`] a node, with its [`commands`]
//! and [`demo`] tasks · [`story`] the groups' turns, live · [`enqueue`] submitting · [`look`] jobs and nodes, [`graph`] who waits for whom · [`logs`] what they say · [`decide`] cancel,
//! retry, fail · [`troubles`] the same by error and in bulk · [`tune`] weights, limits and pauses · [`schedule`] jobs that come again and again · [`overview`] queues and groups · [`why`] a job waits ·
//! [`simulate`] what if · [`top`] who uses the slots · [`bench`] how fast it is · [`migrate`] the schema → [`print`] tables and JSON, [`error`] one
//! line and an exit code.

mod args;
mod settings;
mod pools;
mod serve;
mod commands;
mod demo;
mod story;
mod enqueue;
mod look;
mod graph;
mod logs;
mod decide;
mod troubles;
mod tune;
mod schedule;
mod overview;
mod why;
mod simulate;
mod top;
mod bench;
mod migrate;
mod prune;
mod print;
mod error;

use std::process::ExitCode;

use crate::{
    args::{Args, Command},
    error::{Failure, complain},
    settings::Settings,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
        Command::Demo(wish) => story::demo(wish),
        Command::Serve(wish) => serve::serve(&settings, wish),
        Command::Enqueue(wish) => enqueue::enqueue(&settings, wish),
        Command::Jobs(wish) => look::jobs(&settings, wish),
        Command::Job(wish) => look::job(&settings, wish),
        Command::Logs(wish) => logs::logs(&settings, wish),
        Command::Nodes(wish) => look::nodes(&settings, wish),
        Command::Cancel(wish) => decide::cancel(&settings, &wish.ids),
        Command::Retry(wish) if wish.filter.is_empty() => decide::retry(&settings, &wish.ids),
        Command::Retry(wish) => troubles::retry(&settings, wish),
        Command::Bench(wish) => bench::bench(&settings, wish),
        Command::Prune(wish) => prune::prune(&settings, wish),
        Command::Fail(wish) => decide::fail(&settings, &wish.ids),
        Command::Why(wish) => why::why(&settings, wish),
        Command::Queues(wish) => overview::queues(&settings, wish),
        Command::Queue(wish) => tune::queue(&settings, &wish.verb),
        Command::Groups(wish) => overview::groups(&settings, wish),
        Command::Group(wish) => tune::group(&settings, &wish.verb),
        Command::Schedule(wish) => schedule::schedule(&settings, &wish.verb),
        Command::Task(wish) => tune::task(&settings, &wish.verb),
        Command::Key(wish) => tune::key(&settings, &wish.verb),
        Command::Installation(wish) => tune::installation(&settings, &wish.verb),
        Command::Simulate(wish) => simulate::simulate(&settings, wish),
        Command::Top(wish) => top::top(&settings, wish),
        Command::Migrate(wish) => migrate::migrate(&settings, wish),
    }
}
