//! A person's settings: weights, limits and pauses of queues, groups, tasks and keys.

use std::str::FromStr;

use turnwise::{
    Invalid, QueueName,
    schedules::{Schedule, Window, Zone},
    settings::{
        Concurrency, Fairness, GroupSettings, InstallationSettings, LimitSettings, OnError, QueueSettings, Rate,
        Retention, Scheme, Weight,
    },
};
use turnwise_core::{settings::parse_count, story::LOG_LINES};

use crate::{
    args::{
        GroupVerb, InstallationVerb, Known, LimitedVerb, Pause, PauseKnown, QueueVerb, Seal, SetGroup, SetInstallation,
        SetLimits, SetQueue,
    },
    bulk,
    error::Failure,
    names::{self, Kind, New},
    overview::{group_sentence, queue_sentence},
    print,
    serve::block_on,
    settings::Settings,
};

/// A change of a setting that can be removed: `None` leaves it, `Some(None)` removes it.
type Change<T> = Option<Option<T>>;

pub(crate) fn queue(settings: &Settings, verb: &QueueVerb) -> Result<(), Failure> {
    if let QueueVerb::Empty(call) = verb {
        return bulk::empty(settings, call);
    }
    // All values are read before the database is touched.
    let change = if let QueueVerb::Set(call) = verb { Some(queue_change(call)?) } else { None };
    block_on(async {
        let turnwise = settings.open().await?;
        let known = async |name: &str, force| names::check(&turnwise, Kind::Queue, name, force).await;
        let (name, set) = match (verb, change) {
            (QueueVerb::Set(call), Some(change)) => {
                let new = New::look(&turnwise, Kind::Queue, &call.name).await?;
                let set = turnwise.set_queue(&call.name, change).await?;
                new.tell();
                (&call.name, set)
            }
            (QueueVerb::Pause(PauseKnown { pause: Pause { name, reason }, force }), _) => {
                known(name, *force).await?;
                (name, turnwise.pause_queue(name, reason.clone()).await?)
            }
            (QueueVerb::Resume(Known { name, force }), _) => {
                known(name, *force).await?;
                (name, turnwise.resume_queue(name).await?)
            }
            (QueueVerb::Seal(Seal { queue: Known { name, force }, undo }), _) => {
                known(name, *force).await?;
                let sealed = if *undo { turnwise.unseal_queue(name).await? } else { turnwise.seal_queue(name).await? };
                (name, sealed)
            }
            (QueueVerb::Reset(Known { name, force }), _) => {
                known(name, *force).await?;
                return reset_line(Kind::Queue, name, turnwise.reset_queue(name).await?);
            }
            (QueueVerb::Empty(_) | QueueVerb::Set(_), _) => return Ok(()),
        };
        Ok(print::lines([queue_sentence(name, &set)])?)
    })
}

fn reset_line(kind: Kind, name: &str, was_set: bool) -> Result<(), Failure> {
    let what = if was_set { "its settings are removed; the defaults hold" } else { "nothing was set" };
    Ok(print::lines([format!("{} {name}: {what}", kind.word())])?)
}

pub(crate) fn group(settings: &Settings, verb: &GroupVerb) -> Result<(), Failure> {
    let change = if let GroupVerb::Set(call) = verb { Some(group_change(call)?) } else { None };
    block_on(async {
        let turnwise = settings.open().await?;
        let known = async |name: &str, force| names::check(&turnwise, Kind::Group, name, force).await;
        let (name, set) = match (verb, change) {
            (GroupVerb::Set(call), Some(change)) => {
                let new = New::look(&turnwise, Kind::Group, &call.name).await?;
                let set = turnwise.set_group(&call.name, change).await?;
                new.tell();
                (&call.name, set)
            }
            (GroupVerb::Pause(PauseKnown { pause: Pause { name, reason }, force }), _) => {
                known(name, *force).await?;
                (name, turnwise.pause_group(name, reason.clone()).await?)
            }
            (GroupVerb::Resume(Known { name, force }), _) => {
                known(name, *force).await?;
                (name, turnwise.resume_group(name).await?)
            }
            (GroupVerb::Reset(Known { name, force }), _) => {
                known(name, *force).await?;
                return reset_line(Kind::Group, name, turnwise.reset_group(name).await?);
            }
            (GroupVerb::Set(_), None) => return Ok(()),
        };
        Ok(print::lines([group_sentence(name, &set)])?)
    })
}

pub(crate) fn task(settings: &Settings, verb: &LimitedVerb) -> Result<(), Failure> {
    limited(settings, Kind::Task, verb)
}

pub(crate) fn key(settings: &Settings, verb: &LimitedVerb) -> Result<(), Failure> {
    limited(settings, Kind::Key, verb)
}

fn limited(settings: &Settings, kind: Kind, verb: &LimitedVerb) -> Result<(), Failure> {
    match verb {
        LimitedVerb::Set(call) => {
            let change = limits_change(call)?;
            block_on(async {
                let turnwise = settings.open().await?;
                let new = New::look(&turnwise, kind, &call.name).await?;
                let set = match kind {
                    Kind::Task => turnwise.set_task(&call.name, change).await?,
                    _ => turnwise.set_key(&call.name, change).await?,
                };
                new.tell();
                Ok(print::lines([limits_sentence(kind.word(), &call.name, set)])?)
            })
        }
        LimitedVerb::Reset(Known { name, force }) => block_on(async {
            let turnwise = settings.open().await?;
            names::check(&turnwise, kind, name, *force).await?;
            let was_set = match kind {
                Kind::Task => turnwise.reset_task(name).await?,
                _ => turnwise.reset_key(name).await?,
            };
            reset_line(kind, name, was_set)
        }),
    }
}

pub(crate) fn installation(settings: &Settings, verb: &InstallationVerb) -> Result<(), Failure> {
    match verb {
        InstallationVerb::Show(call) => {
            let set = block_on(async { Ok(settings.open().await?.settings().await?.installation) })?;
            if call.json { print::object(&set)? } else { print::lines([installation_sentence(set)])? }
        }
        InstallationVerb::Set(call) => {
            let change = installation_change(call)?;
            let set = block_on(async { Ok(settings.open().await?.set_installation(change).await?) })?;
            print::lines([installation_sentence(set)])?;
        }
    }
    Ok(())
}

fn installation_sentence(set: InstallationSettings) -> String {
    let InstallationSettings { scheme, retention, log_lines } = set;
    let (retention, lines) = (retention.unwrap_or_default(), log_lines.unwrap_or(LOG_LINES));
    format!("installation: scheme {scheme}, retention {retention}, log lines {lines}")
}

fn installation_change(call: &SetInstallation) -> Result<impl FnMut(&mut InstallationSettings) + use<>, Failure> {
    let scheme: Option<Scheme> = read(&call.scheme)?;
    let retention: Change<Retention> = read_or_none(&call.retention, str::parse)?;
    let log_lines = read_or_none(&call.log_lines, |text| parse_count("log_lines", text))?;
    something(&[&call.scheme, &call.retention, &call.log_lines], "--scheme, --retention or --log-lines")?;
    Ok(move |installation: &mut InstallationSettings| {
        put(&mut installation.scheme, scheme);
        put(&mut installation.retention, retention);
        put(&mut installation.log_lines, log_lines);
    })
}

fn limits_sentence(word: &str, name: &str, set: LimitSettings) -> String {
    let shown = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    let (concurrency, rate) = (set.concurrency.map(|n| n.to_string()), set.rate.map(|rate| rate.to_string()));
    format!("{word} {name}: concurrency {}, rate {}", shown(concurrency), shown(rate))
}

/// All values are read before the database is touched.
fn queue_change(call: &SetQueue) -> Result<impl FnMut(&mut QueueSettings) + use<>, Failure> {
    let weight: Option<Weight> = read(&call.weight)?;
    let concurrency: Option<Concurrency> = read(&call.concurrency)?;
    let per_node = read_or_none(&call.per_node, |text| parse_count("per_node", text))?;
    let rate: Change<Rate> = read_or_none(&call.rate, str::parse)?;
    let scheme: Change<Scheme> = read_or_none(&call.scheme, str::parse)?;
    let fairness: Option<Fairness> = read(&call.fairness)?;
    let on_error: Option<OnError> = read(&call.on_error)?;
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
    Ok(move |queue: &mut QueueSettings| {
        put(&mut queue.weight, weight);
        put(&mut queue.concurrency, concurrency);
        put(&mut queue.per_node, per_node);
        put(&mut queue.rate, rate);
        put(&mut queue.scheme, scheme);
        put(&mut queue.fairness, fairness);
        put(&mut queue.on_error, on_error);
        if let Some(after) = &after {
            queue.after.clone_from(after);
        }
        if let Some(schedule) = &schedule {
            queue.schedule.clone_from(schedule);
        }
        if let Some(block) = &block {
            queue.block.clone_from(block);
        }
    })
}

fn group_change(call: &SetGroup) -> Result<impl FnMut(&mut GroupSettings) + use<>, Failure> {
    let weight: Option<Weight> = read(&call.weight)?;
    let concurrency = read_or_none(&call.concurrency, |text| parse_count("concurrency", text))?;
    let rate: Change<Rate> = read_or_none(&call.rate, str::parse)?;
    let scheme: Change<Scheme> = read_or_none(&call.scheme, str::parse)?;
    let max_waiting = read_or_none(&call.max_waiting, |text| parse_count("max_waiting", text))?;
    let said = [&call.weight, &call.concurrency, &call.rate, &call.scheme, &call.max_waiting];
    something(&said, "--weight, --concurrency, --rate, --scheme or --max-waiting")?;
    Ok(move |group: &mut GroupSettings| {
        put(&mut group.weight, weight);
        put(&mut group.concurrency, concurrency);
        put(&mut group.rate, rate);
        put(&mut group.scheme, scheme);
        put(&mut group.max_waiting, max_waiting);
    })
}

fn limits_change(call: &SetLimits) -> Result<impl FnMut(&mut LimitSettings) + use<>, Failure> {
    let concurrency = read_or_none(&call.concurrency, |text| parse_count("concurrency", text))?;
    let rate: Change<Rate> = read_or_none(&call.rate, str::parse)?;
    something(&[&call.concurrency, &call.rate], "--concurrency or --rate")?;
    Ok(move |limits: &mut LimitSettings| {
        put(&mut limits.concurrency, concurrency);
        put(&mut limits.rate, rate);
    })
}

fn put<T: Copy>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

fn something(said: &[&Option<String>], flags: &str) -> Result<(), Failure> {
    if said.iter().all(|value| value.is_none()) {
        return Err(Failure::Input(format!("set: no setting is given; write {flags}")));
    }
    Ok(())
}

fn read<T: FromStr<Err = Invalid>>(text: &Option<String>) -> Result<Option<T>, Invalid> {
    text.as_deref().map(str::parse).transpose()
}

fn read_or_none<T>(text: &Option<String>, read: impl FnOnce(&str) -> Result<T, Invalid>) -> Result<Change<T>, Invalid> {
    match text.as_deref() {
        None => Ok(None),
        Some("none") => Ok(Some(None)),
        Some(text) => read(text).map(|value| Some(Some(value))),
    }
}
