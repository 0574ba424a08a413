//! History in slices of time: made ahead, found by id, dropped whole.

mod database;
mod still;

use database::{client, fresh_url, id, job};
use tokio_postgres::Client;
use turnwise_core::lifecycle::{self, Event, JobFacts};
use turnwise_postgres::PostgresStore;
use turnwise_store::{Intervention, Options, Settled, Store};

/// A database whose clock is set by hand. The machine's own clock shows another year: it is not asked.
struct Place {
    url: String,
    store: PostgresStore,
    app: Client,
}

impl Place {
    async fn at(now: &str) -> Self {
        let url = fresh_url();
        let store = PostgresStore::open(&url, Options::default()).await.unwrap();
        let app = client(&url).await;
        app.batch_execute(still::CLOCK).await.unwrap();
        let place = Self { url, store, app };
        place.set_clock(now).await;
        place
    }

    async fn set_clock(&self, now: &str) {
        self.app.batch_execute(&format!("update turnwise.test_clock set now = '{now}'")).await.unwrap();
    }

    async fn prune(&self) -> u64 {
        self.store.prune(None, 100).await.unwrap()
    }

    /// Prunes until so many are gone: a vacuum of the server's own may be at a slice, which is then left to the next round.
    async fn prune_until(&self, many: u64) -> u64 {
        let all = async {
            let mut gone = 0;
            while gone < many {
                gone += self.prune().await;
            }
            gone
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), all).await.expect("a vacuum ends")
    }

    /// Submits these jobs and cancels them at once.
    async fn cancel(&self, numbers: std::ops::RangeInclusive<u64>) {
        self.store.enqueue(numbers.clone().map(job).collect()).await.unwrap();
        let now = self.store.nodes().await.unwrap().now;
        for n in numbers {
            let job = self.store.job(id(n)).await.unwrap().unwrap();
            let to = lifecycle::decide(&JobFacts::from(&job), &Event::Cancel, now, 0.0).unwrap();
            let cancel = Intervention { job: job.id, state: job.state, fence: job.fence, to, line: None };
            assert_eq!(self.store.control(vec![cancel]).await.unwrap(), [Settled::Applied]);
        }
    }

    async fn number(&self, sql: &str) -> i64 {
        self.app.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// The slices of cancelled jobs there are from the year 2030 on, without what is common to their names.
    async fn slices(&self) -> Vec<String> {
        let sql = "select replace(relname, 'history_cancelled_', '') from pg_class
                    where relname ~ '^history_cancelled_20[3-9]\\d+_\\d+$' and relkind = 'r' order by 1";
        self.app.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }
}

#[tokio::test]
async fn a_new_database_has_slices_for_today_and_tomorrow() {
    let url = fresh_url();
    PostgresStore::open(&url, Options::default()).await.unwrap();
    let sql = "select count(*) from pg_inherits where inhparent = 'turnwise.history_success'::regclass";
    let parts: i64 = client(&url).await.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(parts, 3, "two slices and the rest");
}

#[tokio::test]
async fn what_ended_on_an_old_day_is_gone_after_a_prune_and_its_slice_too() {
    let place = Place::at("2030-01-10 12:00+00").await;
    assert_eq!(place.prune().await, 0);
    assert_eq!(place.slices().await, ["2030011000_2030011100", "2030011100_2030011200"]);
    place.cancel(1..=3).await;
    place.app.execute("insert into turnwise.log values ($1, 1, 1, now(), 2, 'x')", &[&id(2).uuid()]).await.unwrap();
    place.app.execute("insert into turnwise.progress (job) values ($1)", &[&id(2).uuid()]).await.unwrap();
    place.set_clock("2030-01-11 12:00+00").await;
    place.cancel(4..=4).await;
    assert_eq!(place.number("select count(*) from turnwise.history_cancelled_rest").await, 0);

    place.set_clock("2030-01-17 23:59:59+00").await;
    assert_eq!(place.prune().await, 0);
    place.set_clock("2030-01-18 00:00+00").await;
    assert_eq!(place.prune_until(3).await, 3);
    let left = ["2030011100_2030011200", "2030011700_2030011800", "2030011800_2030011900", "2030011900_2030012000"];
    assert_eq!(place.slices().await, left);
    for n in 1..=3 {
        assert_eq!(place.store.job(id(n)).await.unwrap(), None);
    }
    assert!(place.store.job(id(4)).await.unwrap().is_some());
    assert_eq!(place.number("select (select count(*) from turnwise.log) + count(*) from turnwise.progress").await, 0);
}

#[tokio::test]
async fn a_slice_that_is_being_read_does_not_hold_up_a_prune_and_goes_with_a_later_one() {
    let place = Place::at("2030-01-10 12:00+00").await;
    place.prune().await;
    place.cancel(1..=1).await;
    place.set_clock("2030-01-20 12:00+00").await;
    let mut reader = client(&place.url).await;
    let reading = reader.transaction().await.unwrap();
    reading.query("select from turnwise.history", &[]).await.unwrap();
    assert_eq!(place.prune().await, 0);
    assert!(place.store.job(id(1)).await.unwrap().is_some());
    reading.commit().await.unwrap();
    assert_eq!(place.prune_until(1).await, 1);
    assert_eq!(place.store.job(id(1)).await.unwrap(), None);
}

#[tokio::test]
async fn what_finds_no_slice_is_kept_all_the_same_and_goes_in_its_time() {
    let place = Place::at("2040-01-10 12:00+00").await;
    place.cancel(1..=1).await;
    assert_eq!(place.number("select count(*) from turnwise.history_cancelled_rest").await, 1);
    place.prune().await;
    // Today's slice cannot be made any more: the rest already holds a job of today.
    assert_eq!(place.slices().await, ["2040011100_2040011200"]);
    place.cancel(2..=2).await;
    place.set_clock("2040-01-17 12:00+00").await;
    assert_eq!(place.prune().await, 0);
    place.set_clock("2040-01-18 12:00+00").await;
    assert_eq!(place.prune_until(2).await, 2);
    assert_eq!(place.number("select count(*) from turnwise.history").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_prunes_at_once_do_not_collide() {
    let place = Place::at("2030-01-10 12:00+00").await;
    place.prune().await;
    place.cancel(1..=20).await;
    place.set_clock("2030-01-20 12:00+00").await;
    let prunes = (0..6).map(|_| {
        let store = place.store.clone();
        tokio::spawn(async move { store.prune(None, 100).await })
    });
    for prune in prunes.collect::<Vec<_>>() {
        prune.await.unwrap().unwrap();
    }
    place.prune().await;
    assert_eq!(place.number("select count(*) from turnwise.history").await, 0);
    assert_eq!(place.slices().await, ["2030012000_2030012100", "2030012100_2030012200"]);
}

#[tokio::test]
async fn a_look_by_id_reads_no_slice_whole() {
    let place = Place::at("2030-01-10 12:00+00").await;
    for day in 10..15 {
        place.set_clock(&format!("2030-01-{day} 12:00+00")).await;
        place.prune().await;
        place.cancel(day * 100..=day * 100 + 50).await;
    }
    // Known ones, new ones below them, and new ones above them.
    let again = place.store.enqueue((950..1_600).map(job).collect()).await.unwrap();
    assert_eq!(again.iter().filter(|job| !job.new).count(), 5 * 51);
    assert!(place.store.job(id(1_020)).await.unwrap().is_some());
    let Place { store, app, url, .. } = place;
    drop((store, app));
    let app = client(&url).await;
    // Statistics arrive when the backends that made them end; ask until they have.
    let stored = "select n_tup_ins from pg_stat_user_tables where schemaname = 'turnwise' and relname = 'job'";
    while app.query_one(stored, &[]).await.unwrap().get::<_, i64>(0) < 650 {
        tokio::task::yield_now().await;
    }
    let whole = "select sum(seq_tup_read)::bigint from pg_stat_user_tables where relname ~ '^history_'";
    assert_eq!(app.query_one(whole, &[]).await.unwrap().get::<_, i64>(0), 0);
}

/// Three jobs that waited for ten thousand each: more rows than are deleted in one round.
async fn waited_for_many(place: &Place) {
    place.cancel(1..=3).await;
    for n in 1..=3 {
        let many = "insert into turnwise.dependency (job, awaits, on_failure)
                    select $1, gen_random_uuid(), 'fail' from generate_series(1, 10000)";
        place.app.execute(many, &[&id(n).uuid()]).await.unwrap();
    }
}

/// Dependencies of jobs that are gone.
const ORPHANS: &str = "select count(*) from turnwise.dependency
                        where not exists (select from turnwise.history where history.id = dependency.job)";

#[tokio::test]
async fn a_slice_whose_jobs_waited_for_many_goes_in_rounds_and_leaves_nothing() {
    let place = Place::at("2030-01-10 12:00+00").await;
    place.prune().await;
    waited_for_many(&place).await;
    place.set_clock("2030-01-20 12:00+00").await;
    assert_eq!(place.prune().await, 100, "a full round: there is more");
    assert_eq!(place.number("select count(*) from turnwise.history").await, 3);
    assert_eq!(place.number("select count(*) from turnwise.dependency").await, 10_000);
    assert_eq!(place.prune_until(3).await, 3);
    assert_eq!(place.number("select count(*) from turnwise.dependency").await, 0);
    assert_eq!(place.slices().await, ["2030012000_2030012100", "2030012100_2030012200"]);
}

#[tokio::test]
async fn jobs_without_a_slice_that_waited_for_many_go_in_rounds_and_leave_nothing() {
    let place = Place::at("2040-01-10 12:00+00").await;
    waited_for_many(&place).await;
    assert_eq!(place.number("select count(*) from turnwise.history_cancelled_rest").await, 3);
    place.set_clock("2040-01-20 12:00+00").await;
    assert_eq!(place.prune().await, 100, "a full round: there is more");
    assert_eq!(place.number("select count(*) from turnwise.dependency").await, 10_000);
    assert_eq!(place.number(ORPHANS).await, 0, "a job with dependencies left is still there");
    while place.number("select count(*) from turnwise.history").await > 0 {
        place.prune().await;
        assert_eq!(place.number(ORPHANS).await, 0);
    }
    assert_eq!(place.number("select count(*) from turnwise.dependency").await, 0);
}
