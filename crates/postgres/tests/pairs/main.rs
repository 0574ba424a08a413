//! Every two calls that may touch the same job, key, memo, node or lead meet on PostgreSQL: the first is held before its
//! commit, the second is started, the first is let go. Each answer and the state afterwards must be those that the memory
//! store, one call at a time, gives for one of the orders. A call that was not done is repeated, as its caller would.
//!
//! All of them take minutes: a run has one in five, another fifth each second; `TURNWISE_FULL=1` has all. `TURNWISE_PAIRS` picks
//! meetings by a part of their name, as a failure prints it.
//!
//! [`stages`] what is there and which calls are made → [`call`] a call as a value, [`access`] those about tokens → [`database`] holding, being blocked,
//! strangers → [`state`] what can be read afterwards.

mod access;
mod call;
mod database;
mod stages;
mod state;
#[path = "../still/mod.rs"]
mod still;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io::Write,
    sync::Mutex,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use call::{Answer, Both, Call, Level, Subject};
use database::{Database, Party};
use stages::Stage;
use state::{Glance, State};
use tokio::task::JoinHandle;
use turnwise_store::{Options, conformance::MemoryHarness};

/// Databases that pairs run in at the same time.
const LANES: usize = 4;
/// For a call that never ends; it is not waited for otherwise.
const FOR_EVER: Duration = Duration::from_secs(60);
/// How often a caller repeats what was not done, before that is a failure.
const REPEATS: usize = 4;

/// How the two meet.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Meeting {
    /// The first is held before its commit; the second waits for it, or does not.
    Commit,
    /// The same, where the second has to wait: it gives up before the first is let go, by itself or as if by a time limit.
    GivesUp,
    /// The first has its snapshot and has done nothing else; the second runs.
    Snapshot,
    /// The first is held before its commit, and a stranger has locked this row before both: they queue up behind it, each with
    /// the locks it has by then, and the stranger goes last. Two that lock in opposite orders deadlock here.
    Stranger(Subject),
}

#[derive(Clone)]
struct Pair {
    first: (String, Call),
    second: (String, Call),
    meeting: Meeting,
}

/// One call and its repeats: what was asked, and what was answered.
type Story = Vec<(Call, Answer)>;

#[test]
fn two_calls_that_meet_are_done_one_after_the_other() {
    let began = std::time::Instant::now();
    let mut total = Tally::default();
    for stage in Stage::ALL {
        let Cast { pairs, left_out } = on_a_thread(cast(stage));
        say(&format!("{stage:?}: {} meetings, and those in which one gives up", pairs.len()));
        left_out.iter().for_each(|(why, times)| say(&format!("{times:6} × left out: {why}")));
        let pairs = Mutex::new(VecDeque::from(pairs));
        std::thread::scope(|scope| {
            let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(|| on_a_thread(lane(stage, &pairs)))).collect();
            lanes.into_iter().for_each(|lane| total.add(lane.join().expect("a lane panicked")));
        });
    }
    let Tally { meetings, waited, .. } = total;
    say(&format!("{meetings} meetings in {:.1?}; in {waited} the second had to wait", began.elapsed()));
    total.undone.iter().for_each(|(why, times)| say(&format!("{times:6} × not done at first: {why}")));
    let failures = total.failures;
    assert!(failures.is_empty(), "{} meetings failed:\n\n{}", failures.len(), failures.join("\n"));
}

#[derive(Default)]
struct Tally {
    meetings: usize,
    waited: usize,
    /// The replies after which callers repeated their call, and how often.
    undone: BTreeMap<String, usize>,
    failures: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.meetings += other.meetings;
        self.waited += other.waited;
        other.undone.into_iter().for_each(|(why, times)| *self.undone.entry(why).or_default() += times);
        self.failures.extend(other.failures);
    }

    fn fail(&mut self, name: &str, wrong: &str) {
        say(&format!("{name}\n{wrong}"));
        self.failures.push(format!("{name}\n{wrong}"));
    }
}

/// Past the capture of the test runner: how many there were is wanted also when all is well.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn on_a_thread<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

/// All that may meet on this stage, and what is left out.
struct Cast {
    pairs: Vec<Pair>,
    left_out: BTreeMap<&'static str, usize>,
}

async fn cast(stage: Stage) -> Cast {
    let only = std::env::var("TURNWISE_PAIRS").unwrap_or_default();
    let scene = stage.make(&memory(stage)).await;
    let calls = stage.calls(&scene).await;
    let mut pairs = Vec::new();
    let mut left_out = BTreeMap::new();
    for first in calls.iter().filter(|(_, call)| call.writes()) {
        for second in &calls {
            match why_not(stage, &first.1, &second.1) {
                Some(why) => *left_out.entry(why).or_default() += 1,
                None => {
                    let pair = |meeting| Pair { first: first.clone(), second: second.clone(), meeting };
                    pairs.extend(meetings(stage, &first.1, &second.1).into_iter().map(pair));
                }
            }
        }
    }
    pairs.retain(|pair| pair.name(stage).contains(&only));
    if only.is_empty() && std::env::var_os("TURNWISE_FULL").is_none() {
        let fifth = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() % 5);
        let mut at = 0;
        pairs.retain(|_| {
            at += 1;
            at % 5 == fifth
        });
    }
    Cast { pairs, left_out }
}

/// Why two calls need not meet on this stage.
fn why_not(stage: Stage, first: &Call, second: &Call) -> Option<&'static str> {
    let ends = |call: &Call| call.touches().contains(&Subject::History);
    match (first.own_transaction(), second.own_transaction()) {
        _ if first.common(second).is_empty() => Some("they have nothing in common"),
        (Some(one), Some(other)) if one != other => {
            Some("own transactions of two levels: neither shows the other its level")
        }
        _ if stage == Stage::NothingKept && !ends(first) && !ends(second) => {
            Some("nothing ends: the other stages show the same")
        }
        _ if second.is_documented(first) => Some("submits by an old snapshot what has ended: documented"),
        _ => None,
    }
}

/// The ways in which these two meet.
fn meetings(stage: Stage, first: &Call, second: &Call) -> Vec<Meeting> {
    let mut meetings = vec![Meeting::Commit];
    if first.own_transaction().is_some_and(Level::keeps_its_snapshot) && !first.is_documented(second) {
        meetings.push(Meeting::Snapshot);
    }
    let common = first.common(second);
    let lockable =
        |subjects: BTreeSet<Subject>| subjects.into_iter().filter(|subject| stages::is_there(stage, subject));
    meetings.extend(lockable(common.clone()).map(Meeting::Stranger));
    if first.is_a_batch() || second.is_a_batch() {
        // A row that only one of them touches, in the same statement.
        let mut others = lockable(first.touches()).chain(lockable(second.touches()));
        let job = |subject: &Subject| matches!(subject, Subject::Job(_)) && !common.contains(subject);
        meetings.extend(others.rfind(job).map(Meeting::Stranger));
    }
    meetings
}

impl Pair {
    fn name(&self, stage: Stage) -> String {
        format!("{stage:?}: {} × {} ({:?})", self.first.0, self.second.0, self.meeting)
    }
}

fn memory(stage: Stage) -> MemoryHarness {
    MemoryHarness::new(Options { retention: Some(stage.retention()), ..Options::default() })
}

async fn lane(stage: Stage, pairs: &Mutex<VecDeque<Pair>>) -> Tally {
    let mut database = Database::new(stage).await;
    let mut tally = Tally::default();
    loop {
        let Some(pair) = pairs.lock().expect("no panic").pop_front() else { return tally };
        tally.meetings += 1;
        match meet(&database, &pair).await {
            Ok(met) => {
                tally.waited += usize::from(met.waited);
                if met.waited && pair.meeting == Meeting::Commit {
                    pairs.lock().expect("no panic").push_back(Pair { meeting: Meeting::GivesUp, ..pair.clone() });
                }
                let undone = || met.first.iter().chain(&met.second).filter_map(|(_, answer)| answer.undone());
                undone().for_each(|why| *tally.undone.entry(why).or_default() += 1);
                // The caller may repeat it; but a deadlock is our mistake, and takes a second.
                let deadlock = undone().find(|why| why.contains("deadlock"));
                if let Some(wrong) = deadlock.or(judge(stage, &met).await) {
                    tally.fail(&pair.name(stage), &wrong);
                }
            }
            Err(wrong) => {
                tally.fail(&pair.name(stage), &format!("    {wrong}\n"));
                // Something may still be under way in this one.
                database = Database::new(stage).await;
            }
        }
    }
}

/// What came of a meeting on PostgreSQL.
struct Met {
    /// The second had to wait for the first.
    waited: bool,
    first: Story,
    second: Story,
    state: State,
    missed: Vec<String>,
}

async fn meet(database: &Database, pair: &Pair) -> Result<Met, String> {
    let begin = database.put_back().await;
    let [first, second] = &[database.first.to_call(&pair.first.1).await, database.second.to_call(&pair.second.1).await];
    let pause = pair.meeting == Meeting::Snapshot;
    if !pause {
        database.shut().await;
    }
    if let Meeting::Stranger(subject) = &pair.meeting {
        database.lock(subject).await;
    }
    let one = start(first, &pair.first.1, pause);
    if pause {
        until(async || first.has_begun() || one.is_finished()).await?
    } else {
        at_rest(database, first, &one).await?
    }
    let glance = Glance::at(&*database.observer.store, &begin, database.epoch).await;
    let other = start(second, &pair.second.1, false);
    match pair.meeting {
        Meeting::GivesUp => {
            let given_up = async || {
                database.cancel(second).await;
                other.is_finished()
            };
            until(given_up).await?;
        }
        _ => at_rest(database, second, &other).await?,
    }
    let waited = !other.is_finished();
    if pause {
        first.go_on();
    } else {
        database.open().await;
    }
    if let Meeting::Stranger(_) = pair.meeting {
        at_rest(database, first, &one).await?;
        at_rest(database, second, &other).await?;
        database.unlock().await;
    }
    let both = async { (one.await, other.await) };
    let (one, other) = tokio::time::timeout(FOR_EVER, both).await.map_err(|_| "they never end".to_owned())?;
    let panicked = |error: tokio::task::JoinError| format!("it panicked: {error}");
    let first = again_until_done(database, first, one.map_err(panicked)?).await?;
    let second = again_until_done(database, second, other.map_err(panicked)?).await?;
    let missed = glance.missed(&*database.observer.store, &begin, database.epoch).await;
    let state = state::read(&database.observer, &begin, database.epoch).await;
    Ok(Met { waited, first, second, state, missed })
}

fn start(party: &Party, call: &Call, pause: bool) -> JoinHandle<(Call, Answer)> {
    let (party, call) = (party.clone(), call.clone());
    tokio::spawn(async move { party.call(&call, pause).await })
}

/// Until the call has ended, or waits for a lock in the database.
async fn at_rest(database: &Database, party: &Party, call: &JoinHandle<(Call, Answer)>) -> Result<(), String> {
    until(async || call.is_finished() || database.is_blocked(party).await).await
}

async fn until(condition: impl AsyncFn() -> bool) -> Result<(), String> {
    let look = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(FOR_EVER, look).await.map_err(|_| "it neither ends nor waits for a lock".to_owned())
}

/// The caller repeats what was not done.
async fn again_until_done(database: &Database, party: &Party, begun: (Call, Answer)) -> Result<Story, String> {
    let mut story = vec![begun];
    for _ in 0..REPEATS {
        let (call, answer) = story.last().expect("it has begun");
        let rest = match answer {
            Answer::Parts(parts) => call.split(parts).1,
            Answer::NotDone(_) | Answer::Doubt(_) => Some(call.clone()),
        };
        let Some(rest) = rest else { break };
        let repeat = party.call(&rest, false).await;
        story.push(repeat);
    }
    let (call, answer) = story.last().expect("it has begun");
    if !matches!(answer, Answer::Parts(parts) if !parts.contains(&None)) {
        return Err(format!("it is not done, however often it is repeated: {story:#?}"));
    }
    if let Call::Prune = call {
        // Pruning goes in rounds, and leaves for the next one what another lock or snapshot blocks. So it may have done anything
        // until now, and there is one more round with nothing in its way.
        story.iter_mut().for_each(|(_, answer)| *answer = Answer::Doubt("prune goes in rounds".into()));
        story.push(database.prune_alone(party).await?);
    }
    Ok(story)
}

/// `None` if the memory store gives the same for one of the orders; else what is different in the one that comes nearest.
async fn judge(stage: Stage, met: &Met) -> Option<String> {
    let mut wrong: Option<Vec<String>> = (!met.missed.is_empty()).then(|| met.missed.clone());
    let in_rounds = matches!(met.first[0].0, Call::Prune);
    if wrong.is_none() {
        for order in orders(&met.first, &met.second) {
            let different = compare(stage, &order, &met.state, in_rounds).await;
            if different.is_empty() {
                return None;
            }
            if wrong.as_ref().is_none_or(|wrong| different.len() < wrong.len()) {
                wrong = Some(different);
            }
        }
    }
    let replies =
        |story: &Story| story.iter().map(|(_, answer)| format!("{answer:?}")).collect::<Vec<_>>().join(", then ");
    let answers = format!("    first: {}\n    second: {}", replies(&met.first), replies(&met.second));
    Some(format!("{answers}\n    {}\n", wrong.unwrap_or_default().join("\n    ")))
}

/// What happened, one step after the other: a call, and the answer if it is known.
type Order = Vec<(Call, Option<Vec<String>>)>;

/// All the orders that the two could have happened in. What is in doubt happened or did not.
fn orders(first: &Story, second: &Story) -> Vec<Order> {
    let mut orders = Vec::new();
    for one in courses(first) {
        for other in courses(second) {
            orders.extend(merges(&one, &other));
        }
    }
    orders
}

fn courses(story: &Story) -> Vec<Order> {
    let mut courses = vec![Order::new()];
    for (call, answer) in story {
        match answer {
            Answer::NotDone(_) => {}
            Answer::Doubt(_) => {
                let mut with = courses.clone();
                with.iter_mut().for_each(|course| course.push((call.clone(), None)));
                courses.extend(with);
            }
            Answer::Parts(parts) => {
                let at_once = then(&courses, call, parts);
                let in_two = call.in_two(parts).map(|[(taken, its), (left, others)]| {
                    let taken = then(&courses, &taken, &its);
                    then(&taken, &left, &others)
                });
                courses = at_once.into_iter().chain(in_two.unwrap_or_default()).collect();
            }
        }
    }
    courses
}

/// The courses, each with what was done of one more call.
fn then(courses: &[Order], call: &Call, parts: &[Option<String>]) -> Vec<Order> {
    let (Some(done), _) = call.split(parts) else { return courses.to_vec() };
    let answers: Vec<String> = parts.iter().flatten().cloned().collect();
    let with = |course: &Order| {
        let last = done.variants().into_iter().map(|call| (call, Some(answers.clone())));
        last.map(|step| [&course[..], &[step]].concat()).collect::<Vec<_>>()
    };
    courses.iter().flat_map(with).collect()
}

fn merges(one: &[(Call, Option<Vec<String>>)], other: &[(Call, Option<Vec<String>>)]) -> Vec<Order> {
    let mut all = Vec::new();
    match (one, other) {
        ([], rest) | (rest, []) => all.push(rest.to_vec()),
        ([a, one_rest @ ..], [b, other_rest @ ..]) => {
            for (head, tails) in [(a, merges(one_rest, other)), (b, merges(one, other_rest))] {
                all.extend(tails.into_iter().map(|tail| [&[head.clone()][..], &tail].concat()));
            }
        }
    }
    all
}

/// What the memory store answers and shows otherwise, if it is called in this order.
async fn compare(stage: Stage, order: &Order, state: &State, in_rounds: bool) -> Vec<String> {
    let memory = memory(stage);
    let scene = stage.make(&memory).await;
    let both = Both::of(&memory).await;
    let begin = state::news(&*both.store, None, scene.epoch).await.cursor;
    let mut different = Vec::new();
    for (at, (call, answer)) in (1..).zip(order) {
        let specified = call.specified(&both).await;
        let Some(answer) = answer else { continue };
        let answer = Answer::Parts(answer.iter().cloned().map(Some).collect());
        if specified != answer {
            different.push(format!("answer {at} is {answer:?},\n        not {specified:?}"));
        }
    }
    let mut specified = state::read(&both, &begin, scene.epoch).await;
    let mut state = state.clone();
    if in_rounds {
        // A job's story is deleted before the job, in rounds: a person who retries the job in between gets it without its story;
        // if the retry was first, it keeps its story.
        let gone = format!("story {:04}", stages::OLD);
        specified.remove(&gone);
        state.remove(&gone);
    }
    for name in specified.keys().chain(state.keys()).collect::<BTreeSet<_>>() {
        if specified.get(name) != state.get(name) {
            let show = |state: &State| state.get(name).cloned().unwrap_or_else(|| "nothing".into());
            different.push(format!("{name} is {},\n        not {}", show(&state), show(&specified)));
        }
    }
    different
}
