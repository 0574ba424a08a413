//! The Rust code of README.md and docs/guides, so that it compiles. Each block of a page is here line by line, in the module
//! of its page; [`every_rust_block_of_the_guides_is_compiled_here`] compares. What stands around a block is what its reader
//! has of their own.

#![allow(dead_code, clippy::print_stdout, reason = "it is compiled; most of it needs a database to run")]

use std::{fs, path::Path};

const HERE: &str = include_str!("guides.rs");

mod readme {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Extract {
        document: u64,
    }

    #[derive(serde::Serialize)]
    struct Summary(String);

    struct Db;

    impl Db {
        async fn summary_of(&self, document: u64) -> Result<Summary, anyhow::Error> {
            Ok(Summary(format!("of {document}")))
        }
    }

    use turnwise::{Executor, State, Turnwise, task};

    #[task("extract", retry = "exponential:10s,5")]
    async fn extract(args: Extract, db: State<Db>) -> Result<Summary, anyhow::Error> {
        db.summary_of(args.document).await
    }

    async fn start(db: Db) -> Result<Executor, anyhow::Error> {
        let turnwise = Turnwise::open("postgres://jobs@db.example.com/jobs?sslmode=verify-full").await?;
        let executor = turnwise.executor()?.state(db).build()?;
        executor.start().await?;
        turnwise.submit(extract.job(Extract { document: 7 }).group("acme")).await?;
        Ok(executor)
    }
}

mod audit {
    use turnwise::{
        Turnwise,
        audit::{Actor, AskAudit, AuditPage},
    };

    async fn who_did_what(turnwise: Turnwise) -> Result<AuditPage, turnwise::Error> {
        let turnwise = turnwise.acting_as(Actor::named("deploy script")?);
        turnwise.pause_queue("mail", Some("release 7".to_owned())).await?;
        let page = turnwise.audit(AskAudit { limit: 100, ..AskAudit::default() }).await?;
        Ok(page)
    }
}

mod secrets {
    use turnwise::{TaskError, task};

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Order {
        pin: String,
    }

    #[task("charge", secret = ["/card/number", "/pin"])]
    async fn charge(order: Order) -> Result<(), TaskError> {
        drop(order);
        Ok(())
    }
}

mod after {
    use turnwise::{OnFailure, Turnwise, task};

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Fetch {
        page: u32,
    }

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Join {}

    #[task("fetch", register = false)]
    async fn fetch(_: Fetch) {}

    #[task("join", register = false)]
    async fn join(_: Join) {}

    async fn batch(turnwise: Turnwise) -> Result<(), turnwise::Error> {
        let pages = (1..=40).map(|page| fetch.job(Fetch { page }));
        turnwise.submit_batch(pages, join.job(Join {}).on_failure(OnFailure::Run)).await?;
        Ok(())
    }
}

mod pools {
    use turnwise::{EventKind, Turnwise};

    fn pools(turnwise: Turnwise) -> Result<(), anyhow::Error> {
        let executor = turnwise
            .executor()?
            .configure(|config| config.core_pool_size = 5)
            .pool("mail", |pool| pool.queues(["mail", "newsletter"]).core_pool_size(2))
            .build()?;

        let listener = executor.on(EventKind::Idle, |_| println!("nothing left"));
        listener.remove();
        Ok(())
    }
}

mod tasks {
    use std::time::{Duration, Instant};

    use turnwise::{Ctx, Executor, Inner, Outcome, TaskError, Turnwise, task};

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Extract {
        document: u64,
    }

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Index {
        document: u64,
    }

    #[task("index", register = false)]
    async fn index(_: Index) {}

    async fn fetch(document: u64) -> Result<String, TaskError> {
        Ok(document.to_string())
    }

    async fn tidy(_: Ctx, _: Extract) {}

    #[task("extract", retry = "durations:10s,1m", timeout = "5m", on_exhausted = "apologise", clean_up = tidy)]
    async fn extract(args: Extract, ctx: Ctx) -> Result<Outcome, TaskError> {
        let text = ctx.step("fetch", fetch(args.document)).await?; // once, whatever happens after
        ctx.progress(1, 2, "fetched");
        ctx.sleep(Duration::from_secs(3600)).await?; // gives its slot back
        ctx.log(format!("{} characters", text.len()));
        Ok(Outcome::next(index.job(Index { document: args.document }))) // the same job goes on as another task
    }

    async fn timed(ctx: Ctx, inner: Inner) -> Outcome {
        let began = Instant::now();
        let outcome = inner.run(ctx.clone()).await;
        ctx.log(format!("took {:?}", began.elapsed()));
        outcome
    }

    fn with_timing(turnwise: &Turnwise) -> Result<Executor, anyhow::Error> {
        Ok(turnwise.executor()?.middleware(timed).build()?)
    }
}

mod testing {
    use std::{sync::Arc, time::Duration};

    use turnwise::{Ctx, Executor, JobState, Registry, State, TaskError, Turnwise, task, testing::Kit};

    trait Mailer: Send + Sync {
        fn send(&self, account: u64, attempt: u32) -> Result<(), TaskError>;
    }

    /// Refuses the first attempt.
    struct Moody;

    impl Mailer for Moody {
        fn send(&self, account: u64, attempt: u32) -> Result<(), TaskError> {
            if attempt == 1 { Err(TaskError::new(format!("no mail for {account} today"))) } else { Ok(()) }
        }
    }

    struct Smtp;

    impl Smtp {
        fn new() -> Self {
            Self
        }
    }

    impl Mailer for Smtp {
        fn send(&self, _: u64, _: u32) -> Result<(), TaskError> {
            Ok(())
        }
    }

    struct Archive;

    impl Archive {
        fn open() -> Result<Self, anyhow::Error> {
            Ok(Self)
        }
    }

    #[task("welcome", retry = "durations:10s", register = false)]
    async fn welcome(
        account: u64,
        ctx: Ctx,
        mailer: State<dyn Mailer>,
        turnwise: State<Turnwise>,
    ) -> Result<(), TaskError> {
        ctx.log(format!("attempt {}", ctx.attempt()));
        mailer.send(account, ctx.attempt())?;
        turnwise.submit(receipt.job(account)).await?;
        Ok(())
    }

    #[task("receipt", register = false)]
    async fn receipt(_: u64) {}

    #[tokio::test]
    async fn a_mail_that_fails_is_sent_later() -> Result<(), anyhow::Error> {
        let mut tasks = Registry::new();
        tasks.register(welcome)?.register(receipt)?; // or Registry::annotated()?
        let kit = Kit::with(tasks, |node| node.shared::<dyn Mailer>(Arc::new(Moody))).await?; // as for an executor

        let ran = kit.run(welcome.job(7)).await?; // submits it and runs it once
        assert_eq!(ran.state, JobState::Stuck); // a retry is not hidden: it is stuck, and due
        assert_eq!(ran.log(), ["attempt 1"]);

        kit.advance(Duration::from_secs(10)); // or kit.advance_to_next().await?
        kit.drain().await?; // runs all that is due, and what that submits
        assert_eq!(kit.look(ran.id).await?.state, JobState::Success);
        kit.assert_submitted(receipt, |account| *account == 7).await;
        Ok(())
    }

    fn with_state(turnwise: &Turnwise) -> Result<Executor, anyhow::Error> {
        let executor = turnwise
            .executor()?
            .state(Archive::open()?) // taken as State<Archive>
            .shared::<dyn Mailer>(Arc::new(Smtp::new())) // taken as State<dyn Mailer>: another one in tests
            .build()?;
        Ok(executor)
    }
}

mod transactions {
    use turnwise::task;

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Pay {
        account: i64,
        amount: i64,
    }

    #[task("receipt", register = false)]
    async fn receipt(_: i64) {}

    mod on_postgres {
        use turnwise::{TaskError, Tx, task};

        use super::{Pay, receipt};

        #[task("pay", timeout = "30s")]
        async fn pay(args: Pay, tx: &Tx) -> Result<i64, TaskError> {
            let update = "update account set balance = balance - $1 where id = $2 returning balance";
            let row = tx.query_one(update, &[&args.amount, &args.account]).await?;
            tx.submit(receipt.job(args.account)).await?; // exists if this is committed
            tx.progress(1, 1, "paid"); // seen if this is committed
            Ok(row.get(0))
        }
    }

    mod on_sqlite {
        use turnwise::{SqliteTx, TaskError, task};

        use super::{Pay, receipt};

        async fn exchange_rate() -> Result<i64, TaskError> {
            Ok(1)
        }

        #[task("pay")]
        async fn pay(args: Pay, tx: SqliteTx) -> Result<(), TaskError> {
            let rate = exchange_rate().await?; // before: no other write waits for it
            tx.progress(1, 1, "paid").at_end(move |db| {
                let update = "update account set balance = balance - ?1 where id = ?2";
                db.execute(update, (args.amount * rate, args.account))?;
                db.submit(receipt.job(args.account))?;
                Ok(())
            });
            Ok(())
        }
    }
}

mod unique {
    use std::time::Duration;

    use turnwise::{Turnwise, task};

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Sync {
        account: u64,
    }

    #[task("sync", register = false)]
    async fn sync(_: Sync) {}

    async fn twice(turnwise: Turnwise) -> Result<(), anyhow::Error> {
        // The id is its own, or that of the job that holds the key.
        let id = turnwise.submit(sync.job(Sync { account: 7 }).unique("account-7")).await?;

        let hour = Duration::from_secs(3600);
        let request = sync.job(Sync { account: 7 }).unique_by_args().unique_for(hour);
        let replies = turnwise.submit_each([request]).await?; // replies[0].new, .duplicate
        assert!(replies[0].new || replies[0].id != id);
        Ok(())
    }
}

/// The pages with Rust blocks to compile.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guides = fs::read_dir(root.join("docs/guides")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = guides.chain([root.join("README.md")]).collect();
    files.sort();
    let page = |file: &std::path::PathBuf| {
        (file.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(file).unwrap())
    };
    files.iter().map(page).collect()
}

/// Lines without their indentation; empty ones do not count.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// The Rust blocks of a page that are not in the source, by the number of their first line.
fn missing(page: &str, source: &str) -> Vec<usize> {
    let (source, mut found, mut rest) = (lines(source), Vec::new(), page.lines().enumerate());
    while let Some((at, line)) = rest.next() {
        if line.starts_with("```rust") {
            let block: Vec<_> = rest.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            let block = block.join("\n");
            let block = lines(&block);
            let compiled = line == "```rust" && source.windows(block.len()).any(|part| part == block);
            if block.is_empty() || !compiled {
                found.push(at + 1);
            }
        }
    }
    found
}

#[test]
fn every_rust_block_of_the_guides_is_compiled_here() {
    let (mut blocks, mut offences) = (0, Vec::new());
    for (name, page) in pages() {
        blocks += page.lines().filter(|line| line.starts_with("```rust")).count();
        offences.extend(missing(&page, HERE).into_iter().map(|line| format!("{name}, line {line}")));
    }
    assert!(blocks >= 10, "only {blocks} blocks were found");
    assert_eq!(offences, [""; 0], "these blocks are not in tests/guides.rs, line by line");
}

#[test]
fn a_block_that_is_not_compiled_is_noticed() {
    let page =
        "text\n```rust\nlet a = 1;\n\n  let b = a;\n```\n```rust\nlet c = 1;\n```\n```rust,ignore\nlet a = 1;\n```\n";
    assert_eq!(missing(page, "fn f() {\n    let a = 1;\n    let b = a;\n}\n"), [7, 10]);
}
