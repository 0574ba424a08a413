//! Which database a command opens, and what it may do to its schema.

use turnwise::{Invalid, Options, Schema, Turnwise};
use turnwise_core::secret::without_password;
use turnwise_sqlite::SqliteStore;

use super::{Settings, number, source::refused, truth};
use crate::{audit::this_user, error::Failure};

const DEFAULT_DATABASE: &str = "sqlite:turnwise.db";

impl Settings {
    pub(crate) fn database(&self) -> &str {
        self.said("database").map_or(DEFAULT_DATABASE, |(_, said)| said)
    }

    /// Refuses an address that cannot be read, and names the place where it stands. Opens nothing.
    pub(crate) fn check_database(&self) -> Result<(), Failure> {
        let url = self.database();
        let shown = without_password(url);
        let checked = if ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
            let problem = format!(
                "{shown:?} is no database; a server is named with --server, and a database is written sqlite:FILE or \
                 postgres://USER@HOST/NAME"
            );
            Err(Invalid::new("database", problem))
        } else {
            Turnwise::check_url(url)
        };
        checked.map_err(|mut invalid| {
            // The message repeats a mistyped address, but without its password.
            invalid.problem = invalid.problem.replace(url, &shown);
            match self.said("database") {
                Some((source, _)) => refused(source, &invalid),
                None => invalid.into(),
            }
        })
    }

    /// Opens the database for a command that submits. Where it is a file that is not there yet, the file is made. A database in memory is
    /// refused: it would end with the command.
    pub(crate) async fn open_to_submit(&self) -> Result<Turnwise, Failure> {
        let url = self.database();
        if url.starts_with("memory:") || url.starts_with("sqlite::memory:") {
            let problem =
                format!("database: {url} ends with this command, and its jobs with it; name a file or a server");
            return Err(Failure::Input(problem));
        }
        let options = Options { schema: self.schema_to_submit()?, ..self.options()? };
        Ok(self.open_with(options).await?.acting_as(this_user()))
    }

    /// What a command that submits may do to the schema: make a file that is not there yet, and nothing to a database that is.
    fn schema_to_submit(&self) -> Result<Schema, Failure> {
        let url = self.database();
        let file = if url.starts_with("sqlite:") { SqliteStore::file(url)? } else { None };
        Ok(if file.is_some_and(|file| !file.exists()) { Schema::Automatic } else { Schema::Existing })
    }

    /// Opens the database for a node, which makes the schema where there is none. On PostgreSQL it brings an older one up to date only
    /// if that was asked for: other nodes may still need it.
    pub(crate) async fn open_for_a_node(&self) -> Result<Turnwise, Failure> {
        let mut migrate = false;
        self.read("migrate", &mut migrate, |text| truth("migrate", text))?;
        let schema = if migrate { Schema::Migrate } else { Schema::Create };
        self.check_named()?;
        self.open_with(Options { schema, ..self.options()? }).await
    }

    /// Opens the database as it is: neither a file nor a schema is made, and none is changed. What the command changes then is this user's.
    pub(crate) async fn open(&self) -> Result<Turnwise, Failure> {
        let opened = self.open_with(Options { schema: Schema::Existing, ..self.options()? }).await?;
        Ok(opened.acting_as(this_user()))
    }

    /// Refuses an address of PostgreSQL that names no database: what is to be made would land in one that was not chosen.
    pub(crate) fn check_named(&self) -> Result<(), Failure> {
        let url = self.database();
        if !url.starts_with("sqlite:") && !url.starts_with("memory:") && !turnwise_postgres::names_database(url)? {
            let problem = format!("{} names no database; write postgres://USER@HOST/NAME", without_password(url));
            return Err(Invalid::new("database", problem).into());
        }
        Ok(())
    }

    pub(crate) async fn open_with(&self, options: Options) -> Result<Turnwise, Failure> {
        Ok(Turnwise::open_with(self.database(), options).await?)
    }

    pub(crate) fn options(&self) -> Result<Options, Failure> {
        let mut options = Options::default();
        self.read("connections", &mut options.connections, |text| match number("connections", text)? {
            0..3 => {
                Err(Invalid::new("connections", "must be at least 3: one listens, one submits, one is the node's own"))
            }
            enough => Ok(enough),
        })?;
        self.read("task_connections", &mut options.task_connections, |text| match number("task_connections", text)? {
            0 => Err(Invalid::new("task_connections", "must be at least 1")),
            most => Ok(Some(most)),
        })?;
        Ok(options)
    }
}
