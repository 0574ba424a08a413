//! Which server a command asks, if it asks one.

use std::{fs, path::PathBuf};

use turnwise::{Invalid, access::Secret};
use turnwise_client::{Address, Client};

use super::{
    Settings,
    source::{Source, refused},
    truth,
};
use crate::error::Failure;

/// Whether a command works without a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alone {
    Never,
    /// And a server that a variable or the file names, where a database is named as well, is meant for other commands.
    BesideDatabase,
    Always,
}

impl Settings {
    /// The server that is to be asked; `None`: the database is opened. Of the two, the one that a stronger source names counts.
    pub(crate) fn server(&self) -> Result<Option<Client>, Failure> {
        let Some((source, server)) = self.chosen_server()? else { return Ok(None) };
        let mut plain_http = false;
        self.read("server_plain_http", &mut plain_http, |text| truth("server_plain_http", text))?;
        let address = Address::read(server, plain_http).map_err(|invalid| refused(source, &invalid))?;
        let mut ca = None;
        self.read("server_ca", &mut ca, |text| Ok(Some(PathBuf::from(text))))?;
        let mut token = None;
        self.read("token", &mut token, |text| Token::read(text).map(Some))?;
        Ok(Some(Client::new(address, token.as_ref().map(|Token(secret)| secret.as_str()), ca.as_deref())?))
    }

    /// Whether a command that can ask a server asks one.
    pub(crate) fn asks_server(&self) -> Result<bool, Failure> {
        Ok(self.chosen_server()?.is_some())
    }

    fn chosen_server(&self) -> Result<Option<(&Source, &str)>, Failure> {
        let names = |source: &&Source| source.get("server").is_some() || source.get("database").is_some();
        let Some(source) = self.sources.iter().find(names) else { return Ok(None) };
        match (source.get("server").and_then(<[_]>::first), source.get("database")) {
            (Some(_), Some(_)) => {
                let problem = Invalid::new("server", "is named together with a database; name one of them with a flag");
                Err(refused(source, &problem))
            }
            (Some(server), None) => Ok(Some((source, server))),
            (None, _) => Ok(None),
        }
    }

    /// For a command that works without a server: refuses one, instead of doing something else than was asked for.
    pub(crate) fn refuse_server(&self, alone: Alone, why: &str) -> Result<(), Failure> {
        let named = match alone {
            Alone::Never => false,
            Alone::Always => self.chosen_server()?.is_some(),
            // The one that no source names would be a file of this folder, and none is meant.
            Alone::BesideDatabase => {
                let by_flag = matches!(self.said("server"), Some((Source::Flags(_), _)));
                by_flag || self.said("server").is_some() && self.said("database").is_none()
            }
        };
        match self.said("server").filter(|_| named) {
            Some((source, _)) => {
                let problem =
                    Invalid::new("server", format!("this command does not ask one: {why}; name a --database"));
                Err(refused(source, &problem))
            }
            None => Ok(()),
        }
    }
}

/// The secret of a token.
struct Token(String);

impl Token {
    /// The secret itself, or `@` and the file that has it.
    fn read(text: &str) -> Result<Self, Invalid> {
        let secret = match text.strip_prefix('@') {
            Some("") => return Err(Invalid::new("token", "@ names no file; write @FILE")),
            Some(path) => {
                fs::read_to_string(path).map_err(|error| Invalid::new("token", format!("{path}: {error}")))?
            }
            None => text.to_owned(),
        };
        // What is no token may still be a secret: it is not repeated.
        let secret = Secret::parse(secret.trim());
        let secret =
            secret.ok_or_else(|| Invalid::new("token", "is not a token: one begins with tw_ and has 46 characters"))?;
        Ok(Self(secret.reveal().to_owned()))
    }
}
