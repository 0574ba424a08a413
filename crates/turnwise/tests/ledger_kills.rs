//! Nodes in processes of their own, killed and stopped in the middle of transactional tasks: every deposit is booked
//! exactly once, and has exactly one receipt.

mod schema;
mod ledger;
mod wait;

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command, Stdio},
};

use ledger::{ACCOUNTS, Bank, Deposit, How, deposit};
use turnwise::{Filter, JobState};
use wait::until;

const DATABASE: &str = "LEDGER_DATABASE";
const NAME: &str = "LEDGER_NODE";

/// Not a test: what the others run as a process. It lives until its standard input is closed.
#[test]
#[ignore = "run by the other tests of this file, as a process"]
fn a_node() {
    let (url, name) = (std::env::var(DATABASE).unwrap(), std::env::var(NAME).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let turnwise = schema::open(&url).await;
        let executor = ledger::executor(&turnwise, url.starts_with("sqlite:"), |config| {
            config.name = turnwise::NodeName::new(&name).unwrap();
        });
        executor.start().await.unwrap();
        writeln!(std::io::stderr(), "ready").unwrap();
        tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await.unwrap().unwrap();
        executor.stop().await;
    });
}

/// Killed when it is dropped.
struct Node(Child);

impl Node {
    fn start(bank: &Bank, name: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_node", "--ignored", "--nocapture"]).env(DATABASE, &bank.url).env(NAME, name);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("ready")), "{name} did not start");
        // A process that writes to a closed pipe panics: read on.
        std::thread::spawn(move || said.for_each(drop));
        Self(child)
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args(["-s", signal, &self.0.id().to_string()]).status().unwrap();
        assert!(status.success(), "kill -s {signal}");
    }

    fn stop(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // One that has ended already is not an error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn count(bank: &Bank, states: &[JobState]) -> usize {
    let task = Some("deposit".to_owned());
    let filter = Filter { task, states: states.to_vec(), limit: Some(100_000), ..Filter::default() };
    bank.turnwise.jobs(filter).await.unwrap().len()
}

/// Every job that ended well is booked once and has one receipt; nothing else is there.
async fn assert_balanced(bank: &Bank, jobs: usize) {
    let filter = Filter { task: Some("deposit".to_owned()), limit: Some(100_000), ..Filter::default() };
    let mut well: Vec<String> = Vec::new();
    for job in bank.turnwise.jobs(filter).await.unwrap() {
        match job.state {
            JobState::Success => well.push(job.id.to_string()),
            // Its node died under it too often.
            JobState::Failed => assert!(job.error.as_deref().unwrap_or_default().starts_with("poison"), "{job:?}"),
            other => panic!("{other}: {job:?}"),
        }
    }
    well.sort();
    assert!(well.len() > jobs / 2, "{} of {jobs} are not the rule", well.len());
    assert_eq!(bank.entries(), well);
    assert_eq!(usize::try_from(bank.total()).unwrap(), well.len());
    let mut receipts: Vec<String> =
        bank.receipts().await.iter().map(|job| job.args.as_str().trim_matches('"').to_owned()).collect();
    receipts.sort();
    assert_eq!(receipts, well);
}

async fn nodes_killed_among_deposits_book_each_of_them_once(bank: Bank) {
    const JOBS: usize = 400;
    for n in 0..JOBS {
        let account = 1 + i64::try_from(n).unwrap() % ACCOUNTS;
        bank.submit(Deposit { account, how: How::Well, millis: 20 }).await;
    }
    for (round, done) in [JOBS / 8, JOBS / 4, JOBS / 2].into_iter().enumerate() {
        let node = Node::start(&bank, &format!("node {round}"));
        until("deposits", async || count(&bank, &[JobState::Success]).await >= done).await;
        node.signal("KILL");
    }
    let last = Node::start(&bank, "last");
    until("the end of all", async || count(&bank, &[]).await == JOBS && open(&bank).await == 0).await;
    last.stop();
    assert_balanced(&bank, JOBS).await;
    let filter = Filter { task: Some("deposit".to_owned()), limit: Some(100_000), ..Filter::default() };
    let jobs = bank.turnwise.jobs(filter).await.unwrap();
    assert!(jobs.iter().any(|job| job.counts.crashes > 0), "no node was killed in the middle of a run");
}

async fn open(bank: &Bank) -> usize {
    count(bank, &[JobState::Waiting, JobState::Scheduled, JobState::Running, JobState::Stuck]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_killed_among_deposits_book_each_of_them_once_through_pgbouncer() {
    nodes_killed_among_deposits_book_each_of_them_once(Bank::through_pgbouncer().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_killed_among_deposits_book_each_of_them_once_on_postgres() {
    nodes_killed_among_deposits_book_each_of_them_once(Bank::in_postgres().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_killed_among_deposits_book_each_of_them_once_on_sqlite() {
    nodes_killed_among_deposits_book_each_of_them_once(Bank::in_sqlite().await).await;
}

/// The one that sleeps has its writes done and its locks in its hands; the other one takes the job over and must not wait
/// for them. When the sleeper wakes up, it commits nothing.
async fn a_node_that_wakes_up_after_its_lease_commits_nothing(bank: Bank) {
    let sleeper = Node::start(&bank, "sleeper");
    let id = bank.submit(Deposit { millis: 1_500, ..deposit(How::Well) }).await;
    bank.reached(id, |job| job.state == JobState::Running).await;
    if !bank.is_sqlite() {
        let open = "select count(*) from pg_stat_activity where application_name like 'turnwise task %'
                       and state = 'idle in transaction'";
        until("its transaction", async || bank.ask(open) == ["1"]).await;
    }
    sleeper.signal("STOP");
    let other = Node::start(&bank, "other");
    let job = bank.ended(id).await;
    assert_eq!((job.state, job.counts.crashes), (JobState::Success, 1));
    assert_eq!((bank.entries(), bank.total()), (vec![id.to_string()], 1));
    sleeper.signal("CONT");
    // Its second life takes jobs again, so its first one is over.
    other.stop();
    let again = bank.submit(deposit(How::Well)).await;
    assert_eq!(bank.ended(again).await.state, JobState::Success);
    sleeper.stop();
    assert_balanced(&bank, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_wakes_up_after_its_lease_commits_nothing_on_postgres() {
    a_node_that_wakes_up_after_its_lease_commits_nothing(Bank::in_postgres().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_wakes_up_after_its_lease_commits_nothing_on_sqlite() {
    a_node_that_wakes_up_after_its_lease_commits_nothing(Bank::in_sqlite().await).await;
}
