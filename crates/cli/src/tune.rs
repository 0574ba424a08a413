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
        GroupVerb, InstallationVerb, LimitedVerb, Pause, QueueVerb, Seal, SetGroup, SetInstallation, SetLimits,
        SetQueue,
    },
    error::Failure,
    overview::{group_sentence, queue_sentence},
    print,
    serve::block_on,
    settings::Settings,
};

/// What was said about a setting that can be taken away.
type Wish<T> = Option<Option<T>>;

pub(crate) fn queue(settings: &Settings, verb: &QueueVerb) -> Result<(), Failure> {
    let (name, set) = match verb {
        QueueVerb::Set(wish) => {
            let change = queue_change(wish)?;
            (&wish.name, block_on(async { Ok(settings.open().await?.set_queue(&wish.name, change).await?) })?)
        }
        QueueVerb::Pause(Pause { name, reason }) => {
            (name, block_on(async { Ok(settings.open().await?.pause_queue(name, reason.clone()).await?) })?)
        }
        QueueVerb::Resume(wish) => {
            (&wish.name, block_on(async { Ok(settings.open().await?.resume_queue(&wish.name).await?) })?)
        }
        QueueVerb::Seal(Seal { name, undo: false }) => {
            (name, block_on(async { Ok(settings.open().await?.seal_queue(name).await?) })?)
        }
        QueueVerb::Seal(Seal { name, undo: true }) => {
            (name, block_on(async { Ok(settings.open().await?.unseal_queue(name).await?) })?)
        }
    };
    Ok(print::lines([queue_sentence(name, &set)])?)
}

pub(crate) fn group(settings: &Settings, verb: &GroupVerb) -> Result<(), Failure> {
    let (name, set) = match verb {
        GroupVerb::Set(wish) => {
            let change = group_change(wish)?;
            (&wish.name, block_on(async { Ok(settings.open().await?.set_group(&wish.name, change).await?) })?)
        }
        GroupVerb::Pause(Pause { name, reason }) => {
            (name, block_on(async { Ok(settings.open().await?.pause_group(name, reason.clone()).await?) })?)
        }
        GroupVerb::Resume(wish) => {
            (&wish.name, block_on(async { Ok(settings.open().await?.resume_group(&wish.name).await?) })?)
        }
    };
    Ok(print::lines([group_sentence(name, &set)])?)
}

pub(crate) fn task(settings: &Settings, verb: &LimitedVerb) -> Result<(), Failure> {
    let LimitedVerb::Set(wish) = verb;
    let change = limits_change(wish)?;
    let set = block_on(async { Ok(settings.open().await?.set_task(&wish.name, change).await?) })?;
    Ok(print::lines([limits_sentence("task", &wish.name, set)])?)
}

pub(crate) fn key(settings: &Settings, verb: &LimitedVerb) -> Result<(), Failure> {
    let LimitedVerb::Set(wish) = verb;
    let change = limits_change(wish)?;
    let set = block_on(async { Ok(settings.open().await?.set_key(&wish.name, change).await?) })?;
    Ok(print::lines([limits_sentence("key", &wish.name, set)])?)
}

pub(crate) fn installation(settings: &Settings, verb: &InstallationVerb) -> Result<(), Failure> {
    match verb {
        InstallationVerb::Show(wish) => {
            let set = block_on(async { Ok(settings.open().await?.settings().await?.installation) })?;
            if wish.json { print::object(&set)? } else { print::lines([installation_sentence(set)])? }
        }
        InstallationVerb::Set(wish) => {
            let change = installation_change(wish)?;
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

fn installation_change(wish: &SetInstallation) -> Result<impl FnMut(&mut InstallationSettings) + use<>, Failure> {
    let scheme: Option<Scheme> = read(&wish.scheme)?;
    let retention: Wish<Retention> = read_or_none(&wish.retention, str::parse)?;
    let log_lines = read_or_none(&wish.log_lines, |text| parse_count("log_lines", text))?;
    something(&[&wish.scheme, &wish.retention, &wish.log_lines], "--scheme, --retention or --log-lines")?;
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
fn queue_change(wish: &SetQueue) -> Result<impl FnMut(&mut QueueSettings) + use<>, Failure> {
    let weight: Option<Weight> = read(&wish.weight)?;
    let concurrency: Option<Concurrency> = read(&wish.concurrency)?;
    let per_node = read_or_none(&wish.per_node, |text| parse_count("per_node", text))?;
    let rate: Wish<Rate> = read_or_none(&wish.rate, str::parse)?;
    let scheme: Wish<Scheme> = read_or_none(&wish.scheme, str::parse)?;
    let fairness: Option<Fairness> = read(&wish.fairness)?;
    let on_error: Option<OnError> = read(&wish.on_error)?;
    let after = match wish.after.as_slice() {
        [] => None,
        [none] if none == "none" => Some(Vec::new()),
        names => Some(names.iter().map(QueueName::new).collect::<Result<Vec<_>, _>>()?),
    };
    let schedule = read_or_none(&wish.schedule, |cron| {
        let zone = wish.zone.as_deref().map_or(Ok(Zone::UTC), str::parse)?;
        Schedule::new(cron, zone)
    })?;
    let block = match wish.block.as_slice() {
        [] => None,
        [none] if none == "none" => Some(Vec::new()),
        windows => Some(windows.iter().map(|window| window.parse()).collect::<Result<Vec<Window>, _>>()?),
    };
    let (first_after, first_block) = (wish.after.first().cloned(), wish.block.first().cloned());
    let said = [
        &wish.weight,
        &wish.concurrency,
        &wish.per_node,
        &wish.rate,
        &wish.scheme,
        &wish.fairness,
        &wish.on_error,
        &first_after,
        &wish.schedule,
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

fn group_change(wish: &SetGroup) -> Result<impl FnMut(&mut GroupSettings) + use<>, Failure> {
    let weight: Option<Weight> = read(&wish.weight)?;
    let concurrency = read_or_none(&wish.concurrency, |text| parse_count("concurrency", text))?;
    let rate: Wish<Rate> = read_or_none(&wish.rate, str::parse)?;
    let scheme: Wish<Scheme> = read_or_none(&wish.scheme, str::parse)?;
    let max_waiting = read_or_none(&wish.max_waiting, |text| parse_count("max_waiting", text))?;
    let said = [&wish.weight, &wish.concurrency, &wish.rate, &wish.scheme, &wish.max_waiting];
    something(&said, "--weight, --concurrency, --rate, --scheme or --max-waiting")?;
    Ok(move |group: &mut GroupSettings| {
        put(&mut group.weight, weight);
        put(&mut group.concurrency, concurrency);
        put(&mut group.rate, rate);
        put(&mut group.scheme, scheme);
        put(&mut group.max_waiting, max_waiting);
    })
}

fn limits_change(wish: &SetLimits) -> Result<impl FnMut(&mut LimitSettings) + use<>, Failure> {
    let concurrency = read_or_none(&wish.concurrency, |text| parse_count("concurrency", text))?;
    let rate: Wish<Rate> = read_or_none(&wish.rate, str::parse)?;
    something(&[&wish.concurrency, &wish.rate], "--concurrency or --rate")?;
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
        return Err(Failure::Input(format!("set: nothing is given; write {flags}")));
    }
    Ok(())
}

fn read<T: FromStr<Err = Invalid>>(text: &Option<String>) -> Result<Option<T>, Invalid> {
    text.as_deref().map(str::parse).transpose()
}

fn read_or_none<T>(text: &Option<String>, read: impl FnOnce(&str) -> Result<T, Invalid>) -> Result<Wish<T>, Invalid> {
    match text.as_deref() {
        None => Ok(None),
        Some("none") => Ok(Some(None)),
        Some(text) => read(text).map(|value| Some(Some(value))),
    }
}
