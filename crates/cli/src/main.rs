//! The binary `turnwise`.
//!
//! [`args`] the command line → [`settings`] flags, variables and file together, [`pools`] of the file → [`place`] the
//! database or the server that a command works on, [`view`] what it shows → [`serve`] a node, with its [`http`] listener,
//! the spans that it sends by [`otlp`], its [`commands`] and [`demo`] tasks, [`known`] to nodes or not · [`story`] the
//! groups' turns, live · [`enqueue`] submitting · [`look`] jobs and nodes, [`graph`] which jobs wait for which · [`logs`]
//! of jobs · [`dead_letters`] jobs by error · [`decide`] cancel, retry, fail, [`bulk`] the same to all jobs that a filter
//! names · [`tune`] weights, limits and pauses, [`names`] of what there is · [`schedule`] periodic jobs · [`token`] which
//! caller may ask a server · [`audit`] who changed what · [`overview`] queues, groups, tasks and keys · [`why`] a job waits
//! · [`simulate`] what if · [`top`] which groups use the slots · [`bench`] how fast it is · [`migrate`] the schema ·
//! [`moving`] everything to another database · [`doctor`] what is wrong · [`config`] the settings themselves → [`print`]
//! tables and JSON, [`terminal`] a person at it, [`error`] one line and an exit code · [`reference`] completions and manual
//! pages.

mod args;
mod settings;
mod place;
mod view;
mod pools;
mod serve;
mod http;
mod http_task;
mod otlp;
mod commands;
mod known;
mod names;
mod demo;
mod story;
mod enqueue;
mod look;
mod graph;
mod logs;
mod dead_letters;
mod decide;
mod bulk;
mod tune;
mod schedule;
mod token;
mod audit;
mod overview;
mod why;
mod simulate;
mod top;
mod bench;
mod migrate;
mod moving;
mod doctor;
mod config;
mod prune;
mod print;
mod terminal;
mod error;
mod reference;
mod resubmit;

use std::process::ExitCode;

use crate::{
    args::{Args, Command},
    bulk::Verb,
    error::{Failure, complain},
    settings::{Alone, Settings},
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
    let settings = match &args.command {
        // These print the command line itself, or use no setting, whatever the settings file says.
        Command::Completions(_) | Command::Man(_) | Command::Demo(_) => Settings::default(),
        _ => Settings::gather(args)?,
    };
    // Commands that a server cannot do for their caller.
    let (alone, why) = match &args.command {
        Command::Serve(_) => (Alone::BesideDatabase, "a node works on the database itself"),
        Command::Migrate(_) => (Alone::Always, "the schema is changed in the database itself"),
        Command::Move(_) => (Alone::Always, "both databases are opened themselves"),
        Command::Bench(_) => (Alone::Always, "the database itself is measured"),
        _ => (Alone::Never, ""),
    };
    settings.refuse_server(alone, why)?;
    let opens_database = match &args.command {
        // One shows the settings as they are, the other is told its databases in another way.
        Command::Config(_) | Command::Move(_) => false,
        _ => alone != Alone::Never || !settings.asks_server()?,
    };
    if opens_database {
        settings.check_database()?;
    }
    match &args.command {
        Command::Demo(call) => story::demo(args, call),
        Command::Serve(call) => serve::serve(&settings, call),
        Command::Enqueue(call) => enqueue::enqueue(&settings, call),
        Command::Jobs(call) => look::jobs(&settings, call),
        Command::Job(call) => look::job(&settings, call),
        Command::Logs(call) => logs::logs(&settings, call),
        Command::Nodes(call) => look::nodes(&settings, call),
        Command::Cancel(call) if call.filter.is_empty() => decide::cancel(&settings, &call.ids),
        Command::Cancel(call) => bulk::filtered(&settings, Verb::Cancel, call),
        Command::Retry(call) if call.chosen.filter.is_empty() => decide::retry(&settings, &call.chosen.ids, call.again),
        Command::Retry(call) => {
            bulk::filtered(&settings, if call.again { Verb::Again } else { Verb::Retry }, &call.chosen)
        }
        Command::Bench(call) => bench::bench(&settings, call),
        Command::Prune(call) => prune::prune(&settings, call),
        Command::Fail(call) if call.filter.is_empty() => decide::fail(&settings, &call.ids),
        Command::Fail(call) => bulk::filtered(&settings, Verb::Fail, call),
        Command::Change(call) => decide::change(&settings, call),
        Command::Resubmit(call) => resubmit::resubmit(&settings, call),
        Command::Why(call) => why::why(&settings, call),
        Command::Queues(call) => overview::queues(&settings, call),
        Command::Queue(call) => tune::queue(&settings, &call.verb),
        Command::Groups(call) => overview::groups(&settings, call),
        Command::Group(call) => tune::group(&settings, &call.verb),
        Command::Schedule(call) => schedule::schedule(&settings, &call.verb),
        Command::Token(call) => token::token(&settings, &call.verb),
        Command::Audit(call) => audit::audit(&settings, call),
        Command::Tasks(call) => overview::tasks(&settings, call),
        Command::Keys(call) => overview::keys(&settings, call),
        Command::Node(call) => tune::node(&settings, &call.verb),
        Command::Task(call) => tune::task(&settings, &call.verb),
        Command::Key(call) => tune::key(&settings, &call.verb),
        Command::Installation(call) => tune::installation(&settings, &call.verb),
        Command::Simulate(call) => simulate::simulate(&settings, call),
        Command::Top(call) => top::top(&settings, call),
        Command::Migrate(call) => migrate::migrate(&settings, call),
        Command::Move(call) => moving::moving(call),
        Command::Doctor(call) => doctor::doctor(&settings, call),
        Command::Config(call) => config::config(&settings, call),
        Command::Completions(call) => reference::completions(call),
        Command::Man(call) => reference::man(call),
    }
}
