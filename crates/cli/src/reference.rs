//! The command line itself, for a shell that completes it and for `man`.

use std::io::{self, Write};

use clap::CommandFactory;

use crate::{
    args::{self, Args},
    error::Failure,
};

const PROGRAM: &str = "turnwise";

pub(crate) fn completions(call: &args::Completions) -> Result<(), Failure> {
    // Made in memory first: the generator panics where it cannot write, as with `| head`.
    let mut script = Vec::new();
    clap_complete::generate(call.shell, &mut Args::command(), PROGRAM, &mut script);
    Ok(io::stdout().write_all(&script)?)
}

pub(crate) fn man(call: &args::Man) -> Result<(), Failure> {
    match &call.out {
        Some(folder) => clap_mangen::generate_to(Args::command(), folder)
            .map_err(|error| Failure::Input(format!("out: {}: {error}", folder.display()))),
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Args::command()).render(&mut page)?;
            Ok(io::stdout().write_all(&page)?)
        }
    }
}
