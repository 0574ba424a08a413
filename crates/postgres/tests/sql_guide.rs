//! What docs/guides/sql.md shows does what it says, and it shows every parameter. The SQL is read from the guide.

mod database;

use std::time::Duration;

use database::{client, fresh_store};
use turnwise_store::{Filter, Store};

const GUIDE: &str = include_str!("../../../docs/guides/sql.md");

fn blocks() -> Vec<&'static str> {
    GUIDE.split("```sql\n").skip(1).map(|rest| rest.split("```").next().expect("a part")).collect()
}

#[tokio::test]
async fn every_statement_of_the_guide_does_what_it_says() {
    let (store, url) = fresh_store().await;
    let app = client(&url).await;
    let [plain, all, together, rejected] = blocks().try_into().expect("four blocks of SQL");
    let newest = async |limit| store.jobs(Filter { limit: Some(limit), ..Filter::default() }).await.unwrap();

    app.batch_execute(plain).await.unwrap();
    let job = newest(1).await.remove(0);
    assert_eq!((job.task.as_str(), job.args.as_str(), job.group.as_str()), ("mail", r#"{"to": "ann"}"#, "default"));

    app.batch_execute(all).await.unwrap();
    let job = newest(1).await.remove(0);
    assert_eq!((job.queue.as_str(), job.group.as_str(), job.priority.get()), ("slow", "acme", 2));
    assert_eq!(job.key.as_ref().map(|key| key.as_str()), Some("smtp"));
    assert_eq!(job.terms.timeout(), Some(Duration::from_secs(30)));
    assert_eq!(job.terms.on_exhausted().map(|step| step.task.as_str()), Some("apologise"));
    assert_eq!(job.terms.next().map(|task| task.as_str()), Some("archive"));
    assert!(job.due_at.unwrap() > job.submitted_at && job.expires_at.unwrap() > job.due_at.unwrap());

    app.batch_execute(together).await.unwrap();
    let jobs = newest(2).await;
    assert_eq!((jobs[0].task.as_str(), jobs[1].task.as_str()), ("index", "extract"));
    let waits = app.query_one("select job, awaits from turnwise.dependency", &[]).await.unwrap();
    assert_eq!((waits.get(0), waits.get(1)), (jobs[0].id.uuid(), jobs[1].id.uuid()));

    let before = newest(100).await.len();
    app.batch_execute(rejected).await.expect("the block handles the error");
    assert_eq!(newest(100).await.len(), before, "the block is taken back as a whole");
}

#[tokio::test]
async fn the_guide_has_every_parameter_of_the_function() {
    let (_, url) = fresh_store().await;
    let sql = "select unnest(proargnames) from pg_proc where oid = 'turnwise.enqueue'::regproc";
    let rows = client(&url).await.query(sql, &[]).await.unwrap();
    let names: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(names.len(), 19);
    for name in names.iter().filter(|name| *name != "group") {
        assert!(GUIDE.contains(&format!("\n| `{name}` | `")), "{name} is missing in the table");
    }
}
