//! A person's settings: weights, limits and pauses of queues, groups, tasks and keys.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use turnwise::{
    Invalid, QueueName,
    schedules::{Schedule, Window, Zone},
    settings::{Concurrency, Fairness, OnError, Rate, Retention, Scheme, Weight},
    wire,
};
use turnwise_client::{Ask, encoded};
use turnwise_core::settings::parse_count;

use crate::{
    args::{
        GroupVerb, InstallationVerb, Known, LimitedVerb, NodeVerb, Pause, PauseKnown, QueueVerb, Seal, SetGroup,
        SetInstallation, SetLimits, SetQueue,
    },
    bulk,
    error::{Failure, remark},
    names::{self, Doubt, Kind},
    overview::{group_sentence, limits_sentence, queue_sentence},
    place::{self, Place, Shown, read},
    print,
    serve::block_on,
    settings::Settings,
};

/// The settings that are to be changed, as a server reads them.
type Map = serde_json::Map<String, Value>;

/// A change of a setting that can be removed: `None` leaves it, `Some(None)` removes it.
type Change<T> = Option<Option<T>>;

/// What is done to a queue, a group, a task or a key.
enum Deed<'a> {
    Set(&'a Map),
    Pause(Option<&'a str>),
    Resume,
    Seal,
    Unseal,
}

impl Deed<'_> {
    fn ask(&self, kind: Kind, name: &str) -> Ask {
        let path = format!("/{}s/{}", kind.word(), encoded(name));
        match self {
            Self::Set(change) => Ask::patch(path).json(json!(change).to_string()),
            Self::Pause(reason) => Ask::post(path + "/pause").json(json!({ "reason": reason }).to_string()),
            Self::Resume => Ask::post(path + "/resume"),
            Self::Seal => Ask::post(path + "/seal"),
            Self::Unseal => Ask::post(path + "/unseal"),
        }
    }
}

/// What is set then.
async fn done(place: &Place, kind: Kind, name: &str, deed: Deed<'_>) -> Result<Shown, Failure> {
    let turnwise = match place {
        Place::Server(server) => return server.ask(deed.ask(kind, name)).await,
        Place::Database(turnwise) => turnwise,
    };
    let change = match &deed {
        Deed::Set(change) => json!(change).to_string(),
        _ => "{}".to_owned(),
    };
    let bad = |unreadable: wire::Unreadable| Failure::Input(unreadable.to_string());
    match kind {
        Kind::Queue => {
            let set = match deed {
                Deed::Set(_) => {
                    let change = wire::QueueChange::read(&change).map_err(bad)?;
                    turnwise.set_queue(name, |queue| change.apply(queue)).await?
                }
                Deed::Pause(reason) => turnwise.pause_queue(name, reason.map(str::to_owned)).await?,
                Deed::Resume => turnwise.resume_queue(name).await?,
                Deed::Seal => turnwise.seal_queue(name).await?,
                Deed::Unseal => turnwise.unseal_queue(name).await?,
            };
            place::shown(&wire::QueueSet::new(name, &set))
        }
        Kind::Group => {
            let set = match deed {
                Deed::Pause(reason) => turnwise.pause_group(name, reason.map(str::to_owned)).await?,
                Deed::Resume => turnwise.resume_group(name).await?,
                _ => {
                    let change = wire::GroupChange::read(&change).map_err(bad)?;
                    turnwise.set_group(name, |group| change.apply(group)).await?
                }
            };
            place::shown(&wire::GroupSet::new(name, &set))
        }
        Kind::Task | Kind::Key => {
            let change = wire::LimitChange::read(&change).map_err(bad)?;
            let set = match kind {
                Kind::Task => turnwise.set_task(name, |task| change.apply(task)).await?,
                _ => turnwise.set_key(name, |key| change.apply(key)).await?,
            };
            place::shown(&wire::LimitSet::new(name, set))
        }
    }
}

async fn reset(place: &Place, kind: Kind, name: &str) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Reset {
        was_set: bool,
    }
    let was_set = match place {
        Place::Server(server) => {
            let ask = Ask::post(format!("/{}s/{}/reset", kind.word(), encoded(name)));
            read::<Reset>(&server.ask(ask).await?)?.was_set
        }
        Place::Database(turnwise) => match kind {
            Kind::Queue => turnwise.reset_queue(name).await?,
            Kind::Group => turnwise.reset_group(name).await?,
            Kind::Task => turnwise.reset_task(name).await?,
            Kind::Key => turnwise.reset_key(name).await?,
        },
    };
    reset_line(kind, name, was_set)
}

/// Sets something, and reports a name that nothing had.
async fn set(place: &Place, kind: Kind, name: &str, change: &Map) -> Result<Shown, Failure> {
    let new = Doubt::look(place, kind, &format!("new {}", kind.word()), name).await;
    let set = done(place, kind, name, Deed::Set(change)).await?;
    new.tell();
    Ok(set)
}

/// Does something to what must be known.
async fn known(place: &Place, kind: Kind, name: &str, force: bool, deed: Deed<'_>) -> Result<Shown, Failure> {
    names::check(place, kind, name, force).await?;
    done(place, kind, name, deed).await
}

pub(crate) fn queue(settings: &Settings, verb: &QueueVerb) -> Result<(), Failure> {
    if let QueueVerb::Empty(call) = verb {
        return bulk::empty(settings, call);
    }
    // All values are read before the database is touched.
    let change = if let QueueVerb::Set(call) = verb { queue_change(call)? } else { Map::new() };
    block_on(async {
        let place = &Place::find(settings).await?;
        let kind = Kind::Queue;
        let set = match verb {
            QueueVerb::Set(call) => {
                // Once it is set, the queues that it waits for are known by that.
                // Looked at before: once it is set, they are known by that.
                let mut doubts = Vec::new();
                for other in call.after.iter().filter(|other| *other != "none") {
                    doubts.push(Doubt::look(place, kind, "after", other).await);
                }
                let set = set(place, kind, &call.name, &change).await?;
                doubts.iter().for_each(Doubt::tell);
                // A person who writes 0 may want the queue to start nothing.
                if call.concurrency.as_deref() == Some("0") {
                    remark(&format!(
                        "concurrency 0 is serial: one job at a time, in the order of submission; to start none, \
                         `turnwise queue pause {}`",
                        call.name
                    ));
                }
                set
            }
            QueueVerb::Pause(PauseKnown { pause: Pause { name, reason }, force }) => {
                known(place, kind, name, *force, Deed::Pause(reason.as_deref())).await?
            }
            QueueVerb::Resume(Known { name, force }) => known(place, kind, name, *force, Deed::Resume).await?,
            QueueVerb::Seal(Seal { queue: Known { name, force }, undo }) => {
                known(place, kind, name, *force, if *undo { Deed::Unseal } else { Deed::Seal }).await?
            }
            QueueVerb::Reset(Known { name, force }) => {
                names::check(place, kind, name, *force).await?;
                return reset(place, kind, name).await;
            }
            QueueVerb::Empty(_) => return Ok(()),
        };
        Ok(print::lines([queue_sentence(&read(&set)?)])?)
    })
}

fn reset_line(kind: Kind, name: &str, was_set: bool) -> Result<(), Failure> {
    let what = if was_set { "its settings are removed; the defaults hold" } else { "nothing was set" };
    Ok(print::lines([format!("{} {name}: {what}", kind.word())])?)
}

/// What a person wants of a node.
#[derive(Debug, Deserialize)]
struct NodeSet {
    name: String,
    drained: bool,
}

pub(crate) fn node(settings: &Settings, verb: &NodeVerb) -> Result<(), Failure> {
    let (name, drain) = match verb {
        NodeVerb::Drain(call) => (&call.name, true),
        NodeVerb::Resume(call) => (&call.name, false),
    };
    let node = turnwise::NodeName::new(name)?;
    let set = block_on(async {
        Ok(match Place::find(settings).await? {
            Place::Server(server) => {
                let verb = if drain { "drain" } else { "resume" };
                server.ask(Ask::post(format!("/nodes/{}/{verb}", encoded(name)))).await?
            }
            Place::Database(turnwise) => {
                if drain {
                    turnwise.drain_node(name).await?
                } else {
                    turnwise.resume_node(name).await?
                };
                place::shown(&wire::NodeSet::new(&node, drain))?
            }
        })
    })?;
    let NodeSet { name, drained } = read(&set)?;
    let line = if drained {
        format!("node {name}: takes no more jobs from its next beat on; those in its hands go on")
    } else {
        format!("node {name}: takes jobs from its next beat on")
    };
    Ok(print::lines([line])?)
}

pub(crate) fn group(settings: &Settings, verb: &GroupVerb) -> Result<(), Failure> {
    let change = if let GroupVerb::Set(call) = verb { group_change(call)? } else { Map::new() };
    block_on(async {
        let place = &Place::find(settings).await?;
        let kind = Kind::Group;
        let set = match verb {
            GroupVerb::Set(call) => set(place, kind, &call.name, &change).await?,
            GroupVerb::Pause(PauseKnown { pause: Pause { name, reason }, force }) => {
                known(place, kind, name, *force, Deed::Pause(reason.as_deref())).await?
            }
            GroupVerb::Resume(Known { name, force }) => known(place, kind, name, *force, Deed::Resume).await?,
            GroupVerb::Reset(Known { name, force }) => {
                names::check(place, kind, name, *force).await?;
                return reset(place, kind, name).await;
            }
        };
        Ok(print::lines([group_sentence(&read(&set)?)])?)
    })
}

pub(crate) fn task(settings: &Settings, verb: &LimitedVerb) -> Result<(), Failure> {
    limited(settings, Kind::Task, verb)
}

pub(crate) fn key(settings: &Settings, verb: &LimitedVerb) -> Result<(), Failure> {
    limited(settings, Kind::Key, verb)
}

fn limited(settings: &Settings, kind: Kind, verb: &LimitedVerb) -> Result<(), Failure> {
    let change = if let LimitedVerb::Set(call) = verb { limits_change(call)? } else { Map::new() };
    block_on(async {
        let place = &Place::find(settings).await?;
        match verb {
            LimitedVerb::Set(call) => {
                let set = set(place, kind, &call.name, &change).await?;
                Ok(print::lines([limits_sentence(kind.word(), &read(&set)?)])?)
            }
            LimitedVerb::Reset(Known { name, force }) => {
                names::check(place, kind, name, *force).await?;
                reset(place, kind, name).await
            }
        }
    })
}

pub(crate) fn installation(settings: &Settings, verb: &InstallationVerb) -> Result<(), Failure> {
    match verb {
        InstallationVerb::Show(call) => {
            let set = block_on(async {
                match Place::find(settings).await? {
                    Place::Database(turnwise) => {
                        place::shown(&wire::InstallationSet::new(turnwise.settings().await?.installation))
                    }
                    Place::Server(server) => server.ask(Ask::get("/installation")).await,
                }
            })?;
            if call.json { print::indented(set.get())? } else { print::lines([installation_sentence(&set)?])? }
        }
        InstallationVerb::Set(call) => {
            let change = json!(installation_change(call)?).to_string();
            let set = block_on(async {
                match Place::find(settings).await? {
                    Place::Database(turnwise) => {
                        let change = wire::InstallationChange::read(&change);
                        let change = change.map_err(|unreadable| Failure::Input(unreadable.to_string()))?;
                        let set = turnwise.set_installation(|installation| change.apply(installation)).await?;
                        place::shown(&wire::InstallationSet::new(set))
                    }
                    Place::Server(server) => server.ask(Ask::patch("/installation").json(change)).await,
                }
            })?;
            print::lines([installation_sentence(&set)?])?;
        }
    }
    Ok(())
}

fn installation_sentence(set: &Shown) -> Result<String, Failure> {
    #[derive(Deserialize)]
    struct Set {
        scheme: Scheme,
        retention: Retention,
        log_lines: u32,
    }
    let Set { scheme, retention, log_lines } = read(set)?;
    Ok(format!("installation: scheme {scheme}, retention {retention}, log lines {log_lines}"))
}

fn installation_change(call: &SetInstallation) -> Result<Map, Failure> {
    let scheme: Option<Scheme> = parsed(&call.scheme)?;
    let retention: Change<Retention> = read_or_none(&call.retention, str::parse)?;
    let log_lines = read_or_none(&call.log_lines, |text| parse_count("log_lines", text))?;
    something(&[&call.scheme, &call.retention, &call.log_lines], "--scheme, --retention or --log-lines")?;
    let mut change = Map::new();
    put(&mut change, "scheme", scheme);
    put(&mut change, "retention", retention);
    put(&mut change, "log_lines", log_lines);
    Ok(change)
}

/// All values are read before the database is touched.
fn queue_change(call: &SetQueue) -> Result<Map, Failure> {
    let weight: Option<Weight> = parsed(&call.weight)?;
    let concurrency: Option<Concurrency> = parsed(&call.concurrency)?;
    let per_node = read_or_none(&call.per_node, |text| parse_count("per_node", text))?;
    let rate: Change<Rate> = read_or_none(&call.rate, str::parse)?;
    let scheme: Change<Scheme> = read_or_none(&call.scheme, str::parse)?;
    let fairness: Option<Fairness> = parsed(&call.fairness)?;
    let on_error: Option<OnError> = parsed(&call.on_error)?;
    let after = match call.after.as_slice() {
        [] => None,
        [none] if none == "none" => Some(Vec::new()),
        names => Some(names.iter().map(QueueName::new).collect::<Result<Vec<_>, _>>()?),
    };
    let schedule = read_or_none(&call.schedule, |cron| {
        let zone = call.zone.as_deref().map_or(Ok(Zone::UTC), str::parse)?;
        Schedule::new(cron, zone)
    })?;
    let block = match call.block.as_slice() {
        [] => None,
        [none] if none == "none" => Some(Vec::new()),
        windows => Some(windows.iter().map(|window| window.parse()).collect::<Result<Vec<Window>, _>>()?),
    };
    let (first_after, first_block) = (call.after.first().cloned(), call.block.first().cloned());
    let said = [
        &call.weight,
        &call.concurrency,
        &call.per_node,
        &call.rate,
        &call.scheme,
        &call.fairness,
        &call.on_error,
        &first_after,
        &call.schedule,
        &first_block,
    ];
    something(
        &said,
        "--weight, --concurrency, --per-node, --rate, --scheme, --fairness, --on-error, --after, --schedule or --block",
    )?;
    let mut change = Map::new();
    put(&mut change, "weight", weight);
    put(&mut change, "concurrency", concurrency);
    put(&mut change, "per_node", per_node);
    put(&mut change, "rate", rate);
    put(&mut change, "scheme", scheme);
    put(&mut change, "fairness", fairness);
    put(&mut change, "on_error", on_error);
    put(&mut change, "after", after);
    // A pattern and its zone are two values to the outside.
    put(&mut change, "schedule", schedule.as_ref().map(|set| set.as_ref().and(call.schedule.as_ref())));
    put(&mut change, "zone", schedule.flatten().and(call.zone.as_ref()));
    put(&mut change, "block", block);
    Ok(change)
}

fn group_change(call: &SetGroup) -> Result<Map, Failure> {
    let weight: Option<Weight> = parsed(&call.weight)?;
    let concurrency = read_or_none(&call.concurrency, |text| parse_count("concurrency", text))?;
    let rate: Change<Rate> = read_or_none(&call.rate, str::parse)?;
    let scheme: Change<Scheme> = read_or_none(&call.scheme, str::parse)?;
    let max_waiting = read_or_none(&call.max_waiting, |text| parse_count("max_waiting", text))?;
    let said = [&call.weight, &call.concurrency, &call.rate, &call.scheme, &call.max_waiting];
    something(&said, "--weight, --concurrency, --rate, --scheme or --max-waiting")?;
    let mut change = Map::new();
    put(&mut change, "weight", weight);
    put(&mut change, "concurrency", concurrency);
    put(&mut change, "rate", rate);
    put(&mut change, "scheme", scheme);
    put(&mut change, "max_waiting", max_waiting);
    Ok(change)
}

fn limits_change(call: &SetLimits) -> Result<Map, Failure> {
    let concurrency = read_or_none(&call.concurrency, |text| parse_count("concurrency", text))?;
    let rate: Change<Rate> = read_or_none(&call.rate, str::parse)?;
    something(&[&call.concurrency, &call.rate], "--concurrency or --rate")?;
    let mut change = Map::new();
    put(&mut change, "concurrency", concurrency);
    put(&mut change, "rate", rate);
    Ok(change)
}

/// What is left out stays as it is; `null` takes it back to its default.
fn put<T: Serialize>(change: &mut Map, name: &str, value: Option<T>) {
    if let Some(value) = value {
        change.insert(name.to_owned(), json!(value));
    }
}

fn something(said: &[&Option<String>], flags: &str) -> Result<(), Failure> {
    if said.iter().all(|value| value.is_none()) {
        return Err(Failure::Input(format!("set: no setting is given; write {flags}")));
    }
    Ok(())
}

fn parsed<T: FromStr<Err = Invalid>>(text: &Option<String>) -> Result<Option<T>, Invalid> {
    text.as_deref().map(str::parse).transpose()
}

fn read_or_none<T>(text: &Option<String>, read: impl FnOnce(&str) -> Result<T, Invalid>) -> Result<Change<T>, Invalid> {
    match text.as_deref() {
        None => Ok(None),
        Some("none") => Ok(Some(None)),
        Some(text) => read(text).map(|value| Some(Some(value))),
    }
}
