//! Where a command finds its jobs: in a database that it opens itself, or at a server that it asks.
//!
//! Both give the same: JSON as [`turnwise::wire`] has it. `--json` prints it as it comes, and tables are made of it, once for both.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};
use turnwise::{Invalid, JobId, Timestamp, Turnwise, wire};
use turnwise_client::{Ask, Client, Error};

use crate::{error::Failure, settings::Settings};

/// One thing as the outside sees it: JSON.
pub(crate) type Shown = Box<RawValue>;

/// Most that a server puts on a page.
const PAGE: u32 = 1_000;
/// Ids that are named where a person's beginning of an id fits several.
const NAMED_IDS: usize = 5;

pub(crate) enum Place {
    Database(Box<Turnwise>),
    Server(Box<Server>),
}

impl Place {
    /// The server that the settings name, or the database as it is: neither a file nor a schema is made.
    pub(crate) async fn find(settings: &Settings) -> Result<Self, Failure> {
        Ok(match settings.server()? {
            Some(client) => Self::Server(Box::new(Server::new(client))),
            None => Self::Database(Box::new(settings.open().await?)),
        })
    }

    /// For a command that submits: a file that is not there yet is made.
    pub(crate) async fn to_submit(settings: &Settings) -> Result<Self, Failure> {
        Ok(match settings.server()? {
            Some(client) => Self::Server(Box::new(Server::new(client))),
            None => Self::Database(Box::new(settings.open_to_submit().await?)),
        })
    }

    pub(crate) async fn now(&self) -> Result<Timestamp, Failure> {
        match self {
            Self::Database(turnwise) => Ok(turnwise.now().await?),
            Self::Server(server) => server.now().await,
        }
    }

    /// The job that a person means by an id, or by the beginning of one.
    pub(crate) async fn find_id(&self, text: &str) -> Result<JobId, Failure> {
        match self {
            Self::Database(turnwise) => Ok(turnwise.find_id(text).await?),
            Self::Server(server) => server.find_id(text).await,
        }
    }
}

/// As the outside sees it.
pub(crate) fn shown(item: &impl Serialize) -> Result<Shown, Failure> {
    to_raw_value(item).map_err(|error| Failure::Other(format!("it cannot be written as JSON: {error}")))
}

/// What a table or a sentence needs of it.
pub(crate) fn read<T: DeserializeOwned>(shown: &RawValue) -> Result<T, Failure> {
    serde_json::from_str(shown.get()).map_err(|error| {
        Failure::Other(format!("the answer is not understood: {error}; the server may be another version's"))
    })
}

/// A server, as commands ask it.
pub(crate) struct Server(Client);

impl Server {
    pub(crate) fn new(client: Client) -> Self {
        Self(client)
    }

    pub(crate) async fn ask(&self, ask: Ask) -> Result<Shown, Failure> {
        Ok(self.answer(&ask).await?.0)
    }

    /// The answer, and what the server refused to do.
    pub(crate) async fn try_ask(&self, ask: Ask) -> Result<Shown, Error> {
        Ok(self.try_answer(&ask).await?.0)
    }

    /// The answer, and when it was given.
    pub(crate) async fn answer(&self, ask: &Ask) -> Result<(Shown, Timestamp), Failure> {
        Ok(self.try_answer(ask).await?)
    }

    pub(crate) async fn try_answer(&self, ask: &Ask) -> Result<(Shown, Timestamp), Error> {
        let answer = self.0.ask(ask).await?;
        let bad = |error| Error::Foreign(format!("{} answers no JSON: {error}", self.0.address()));
        Ok((RawValue::from_string(answer.text).map_err(bad)?, answer.at.unwrap_or(Timestamp::MIN)))
    }

    /// As the head of an answer names it, to the second.
    async fn now(&self) -> Result<Timestamp, Failure> {
        Ok(self.answer(&Ask::get("/session")).await?.1)
    }

    async fn find_id(&self, text: &str) -> Result<JobId, Failure> {
        #[derive(Deserialize)]
        struct Found {
            id: String,
        }
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        // What is no beginning of an id is refused in the words that a database would have for it.
        wire::Jobs::read_beginning(text)?;
        let listed = self.ask(Ask::get("/jobs").with("id", text).with("limit", NAMED_IDS + 1)).await?;
        let ids: Vec<Found> =
            List::read(&listed, "jobs")?.items.iter().map(|job| read(job)).collect::<Result<_, _>>()?;
        let ids: Vec<_> = ids.into_iter().map(|found| found.id).collect();
        match ids.as_slice() {
            [] => Err(turnwise::Error::NoJobBegins(text.to_owned()).into()),
            [id] => Ok(id.parse()?),
            several => {
                let some = &several[..several.len().min(NAMED_IDS)];
                let more = if several.len() > some.len() { " and more" } else { "" };
                let problem = format!("the ids of several jobs begin with {text:?}: {}{more}", some.join(", "));
                Err(Invalid::new("id", problem).into())
            }
        }
    }

    /// All pages of a listing by name, one after the other; and when they were given.
    pub(crate) async fn by_name(&self, path: &str, list: &str) -> Result<(Vec<Shown>, Timestamp), Failure> {
        let (mut items, mut after): (_, Option<String>) = (Vec::new(), None);
        loop {
            let ask = Ask::get(path).with("limit", PAGE).with_some("after", after.take());
            let (answer, at) = self.answer(&ask).await?;
            let page = List::read(&answer, list)?;
            items.extend(page.items);
            after = page.next;
            if after.is_none() {
                return Ok((items, at));
            }
        }
    }

    /// The first `limit` things of a listing by cursor.
    pub(crate) async fn by_cursor(&self, ask: &Ask, list: &str, limit: u32) -> Result<Listed, Failure> {
        self.pages(ask, list, limit, false).await
    }

    /// As [`Server::by_cursor`], however far the server has to look: for a decision about all that is found.
    pub(crate) async fn all_by_cursor(&self, ask: &Ask, list: &str, limit: u32) -> Result<Listed, Failure> {
        self.pages(ask, list, limit, true).await
    }

    async fn pages(&self, ask: &Ask, list: &str, limit: u32, to_the_end: bool) -> Result<Listed, Failure> {
        let mut listed = Listed { items: Vec::new(), at: Timestamp::MIN, reached: None };
        let mut cursor: Option<String> = None;
        loop {
            let left = limit.saturating_sub(u32::try_from(listed.items.len()).unwrap_or(u32::MAX));
            let next = ask.clone().with("limit", left.min(PAGE)).with_some("cursor", cursor.take());
            let (answer, at) = self.answer(&next).await?;
            let page = List::read(&answer, list)?;
            listed.items.extend(page.items);
            (listed.at, listed.reached) = (at, page.reached);
            cursor = page.next;
            // A server that has looked at enough says how far it came: the person decides whether to look further.
            let looked_enough = listed.reached.is_some() && !to_the_end;
            if cursor.is_none() || looked_enough || listed.items.len() >= limit as usize {
                return Ok(listed);
            }
        }
    }
}

/// What a listing by cursor came to.
pub(crate) struct Listed {
    pub(crate) items: Vec<Shown>,
    /// When it was given.
    pub(crate) at: Timestamp,
    /// How far the server looked, if it did not look at all.
    pub(crate) reached: Option<Timestamp>,
}

/// A page of a listing.
pub(crate) struct List {
    pub(crate) items: Vec<Shown>,
    next: Option<String>,
    reached: Option<Timestamp>,
}

impl List {
    /// Whether there is another page, or more to look at.
    pub(crate) fn goes_on(&self) -> bool {
        self.next.is_some()
    }

    /// `list` is the name that its items have.
    pub(crate) fn read(answer: &RawValue, list: &str) -> Result<Self, Failure> {
        let mut parts: std::collections::BTreeMap<String, Shown> = read(answer)?;
        let items = parts.remove(list).ok_or_else(|| Failure::Other(format!("the answer has no {list}")))?;
        let next = parts.remove("next").map(|next| read(&next)).transpose()?.flatten();
        let reached = parts.remove("reached").map(|reached| read(&reached)).transpose()?.flatten();
        Ok(Self { items: read(&items)?, next, reached })
    }
}
