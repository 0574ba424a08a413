//! The terminal: how wide it is, a question to the person at it, and keys that count without Enter.

use std::{
    io::{self, BufRead, IsTerminal, Read, Write},
    thread,
};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc;

use crate::error::Failure;

/// Columns of the terminal that stdout is; `None`: it is none, or does not know.
pub(crate) fn width() -> Option<usize> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = tcgetwinsize(&stdout).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Asks the person at the terminal; where there is no terminal, a flag must have answered.
pub(crate) fn agreed(question: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::Input(
            "yes: there is no terminal to ask for confirmation; give --yes, or --dry-run to only look".to_owned(),
        ));
    }
    let asked = |error: io::Error| Failure::Other(format!("asking: {error}"));
    write!(io::stderr(), "{question} [y/N] ").map_err(asked)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(asked)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Keys as they are pressed, which the terminal neither collects into lines nor shows. Ctrl-C stays a signal.
pub(crate) struct Keys {
    before: Termios,
    pressed: mpsc::Receiver<u8>,
}

impl Keys {
    /// `None`: there is no terminal to read from.
    pub(crate) fn listen() -> Option<Self> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return None;
        }
        let before = tcgetattr(&stdin).ok()?;
        let mut single = before.clone();
        single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(&stdin, OptionalActions::Now, &single).ok()?;
        // More keys than this before one is read mean nothing more.
        let (press, pressed) = mpsc::channel(8);
        // Ends with the process: a read of a terminal cannot be called off.
        thread::spawn(move || {
            let mut key = [0];
            while io::stdin().read(&mut key).is_ok_and(|count| count == 1) {
                if press.blocking_send(key[0]).is_err() {
                    break;
                }
            }
        });
        Some(Self { before, pressed })
    }

    pub(crate) async fn next(&mut self) -> Option<u8> {
        self.pressed.recv().await
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // A terminal that has gone away needs nothing restored.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
