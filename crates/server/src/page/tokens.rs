//! Tokens: who may ask this server for what; creating one, whose secret is shown once, and taking one back.

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use turnwise::{Timestamp, access::Scope};

use crate::{
    call::{Query, Reply},
    page::{
        Visit,
        errands::lines,
        frame::Frame,
        recipe::{Command, Recipe},
        shown::Shown,
        visit::render,
    },
    problem::Problem,
};

/// A [`turnwise::wire::Token`].
#[derive(Debug, Deserialize)]
struct Token {
    id: String,
    name: String,
    prefix: String,
    scopes: Vec<String>,
    queues: Option<Vec<String>>,
    groups: Option<Vec<String>>,
    tasks: Option<Vec<String>>,
    rate: Option<u32>,
    state: String,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
}

impl Token {
    /// What it is limited to, a line for each kind.
    fn limits(&self) -> Vec<String> {
        let limit = |kind: &str, names: &Option<Vec<String>>| {
            let names = names.as_ref()?;
            let plural = if names.len() == 1 { "" } else { "s" };
            Some(format!("{kind}{plural} {}", names.join(", ")))
        };
        let rate = self.rate.map(|rate| format!("{rate} submits a second"));
        let limits = [limit("queue", &self.queues), limit("group", &self.groups), limit("task", &self.tasks), rate];
        limits.into_iter().flatten().collect()
    }
}

#[derive(Debug, Deserialize)]
struct Tokens {
    now: Timestamp,
    tokens: Vec<Token>,
}

/// A [`turnwise::wire::CreatedToken`].
#[derive(Deserialize)]
struct Created {
    secret: String,
    #[serde(flatten)]
    token: Token,
}

struct Row {
    token: Token,
    /// Whether the caller is logged in with it.
    own: bool,
    revoke: Recipe,
}

/// What a scope allows, for people.
const MEANINGS: [(Scope, &str); 5] = [
    (Scope::Submit, "submit jobs"),
    (Scope::Read, "see jobs, queues, numbers"),
    (Scope::Operate, "also pause, cancel, retry; includes read"),
    (Scope::Admin, "also settings, schedules, tokens, audit; includes all of these"),
    (Scope::Work, "for a worker in another language"),
];

/// A scope that may be given away.
struct Choice {
    scope: Scope,
    meaning: &'static str,
    chosen: bool,
}

/// A token to create, as people write it.
#[derive(Default)]
struct Form {
    name: String,
    scopes: Vec<String>,
    queues: String,
    groups: String,
    tasks: String,
    expires: String,
    rate: String,
}

impl Form {
    fn sent(form: &Query) -> Self {
        let text = |name| form.get(name).unwrap_or_default().trim().to_owned();
        Self {
            name: text("name"),
            scopes: form.all("scopes").map(str::to_owned).collect(),
            queues: text("queues"),
            groups: text("groups"),
            tasks: text("tasks"),
            expires: text("expires"),
            rate: text("rate"),
        }
    }

    /// The body that the API takes.
    fn body(&self) -> Result<Value, Problem> {
        let mut body = Map::new();
        body.insert("name".to_owned(), json!(self.name));
        body.insert("scopes".to_owned(), json!(self.scopes));
        for (field, text) in [("queues", &self.queues), ("groups", &self.groups), ("tasks", &self.tasks)] {
            let names: Vec<_> = lines(text).collect();
            if !names.is_empty() {
                body.insert(field.to_owned(), json!(names));
            }
        }
        if !self.expires.is_empty() {
            body.insert("expires".to_owned(), json!(self.expires));
        }
        if !self.rate.is_empty() {
            let rate: u64 = self
                .rate
                .parse()
                .map_err(|_| Problem::invalid("rate", format!("rate: {:?} is not a whole number", self.rate)))?;
            body.insert("rate".to_owned(), json!(rate));
        }
        Ok(Value::Object(body))
    }
}

#[derive(Template)]
#[template(path = "tokens.html")]
struct Page {
    frame: Frame,
    rows: Vec<Row>,
    form: Form,
    choices: Vec<Choice>,
    wrong: Option<String>,
    recipe: Recipe,
    create: Recipe,
}

impl Page {
    fn revoke_path(&self, token: &Token) -> String {
        format!("{}tokens/{}/revoke", self.frame.root, token.id)
    }
}

pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    page(&visit, Form::default(), None).await
}

async fn page(visit: &Visit, form: Form, wrong: Option<String>) -> Result<Reply, Problem> {
    let Tokens { now, tokens } = visit.get("listTokens", "", &[]).await?;
    // The first one is for making others.
    let (name, scopes) = if tokens.is_empty() { ("ann", "admin") } else { ("nightly import", "submit,read") };
    let body = json!({ "name": name, "scopes": scopes.split(',').collect::<Vec<_>>(), "expires": "30d" });
    let command = Command::new("token create").option("--name", name).option("--scope", scopes);
    let own = visit.asker.caller.token().map(|id| id.to_string());
    let rows = tokens.into_iter().map(|token| Row {
        own: own.as_ref() == Some(&token.id),
        revoke: visit.action("revokeToken", &token.id, None, Some(Command::new("token revoke").value(&token.id))),
        token,
    });
    let granted = visit.asker.caller.grant.scopes();
    let choices = MEANINGS.into_iter().filter(|(scope, _)| granted.iter().any(|own| own.includes(*scope)));
    let choice = |(scope, meaning): (Scope, &'static str)| Choice {
        scope,
        meaning,
        chosen: form.scopes.contains(&scope.to_string()),
    };
    render(&Page {
        rows: rows.collect(),
        choices: choices.map(choice).collect(),
        recipe: visit.table("listTokens", "", &[], Some(Command::new("token list"))),
        create: visit.action("createToken", "", Some(&body), Some(command.option("--expires", "30d"))),
        frame: Frame::of(visit, "tokens", "Tokens").at(now).json("tokens"),
        form,
        wrong,
    })
}

/// The one page that has a secret.
#[derive(Template)]
#[template(path = "token.html")]
struct OnlyOnce {
    frame: Frame,
    created: Created,
    /// Whether no token was needed before: from now on one is.
    first: bool,
}

/// Creates one. The answer is no redirection: the secret is in no address, and a page that is read again does not have it.
pub(crate) async fn create(visit: Visit) -> Result<Reply, Problem> {
    let form = Form::sent(&visit.form);
    let created = match form.body() {
        Ok(body) => visit.send::<Created>("createToken", "", Some(&body)).await,
        Err(problem) => Err(problem),
    };
    match created {
        Ok(created) => {
            let frame = Frame::of(&visit, "tokens", format!("Token {}", created.token.name));
            render(&OnlyOnce { frame, created, first: visit.asker.caller.bearer().is_none() })
        }
        Err(problem) if (400..500).contains(&problem.status()) && visit.may("createToken") => {
            let status = problem.status_code();
            Ok(page(&visit, form, Some(problem.detail().to_owned())).await?.status(status))
        }
        Err(problem) => Err(problem),
    }
}
