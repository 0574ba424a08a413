//! The roles of docs/guides/postgres.md are enough for the commands that the guide names for them. Real binary; the SQL is read from the
//! guide. (What the roles cannot do: crates/postgres/tests/grants.rs.)

mod support;

use support::{Place, said, succeeded, until};
use turnwise_testpg::Cluster;

const GUIDE: &str = include_str!("../../../docs/guides/postgres.md");

/// A database with the roles of the guide, under names of its own: roles belong to the whole cluster.
struct Site {
    url: String,
    prefix: String,
}

impl Site {
    /// As the guide has it: the administrator's part, the migration, the administrator again, the owner's part.
    fn granted() -> Self {
        let url = Cluster::shared().fresh_database().unwrap();
        let prefix = url.rsplit('/').next().unwrap().to_owned();
        let section = GUIDE.split("\n## ").find(|section| section.starts_with("Roles and grants\n")).unwrap();
        let blocks = section.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        let blocks: Vec<_> = blocks.map(|block| block.replace("jobs_", &format!("{prefix}_"))).collect();
        let site = Self { url, prefix };
        let [schema, roles, grants] = &blocks[..] else { panic!("three blocks of SQL: {blocks:?}") };
        Cluster::shared().psql(&site.url, schema).unwrap();
        succeeded(&site.role("owner").run(&["migrate"]));
        Cluster::shared().psql(&site.url, roles).unwrap();
        Cluster::shared().psql(&site.url_of("owner"), grants).unwrap();
        site
    }

    fn url_of(&self, role: &str) -> String {
        self.url.replace("//postgres@", &format!("//{}_{role}@", self.prefix))
    }

    /// Where commands are run as this role.
    fn role(&self, role: &str) -> Place {
        Place::on(self.url_of(role))
    }
}

#[test]
fn a_role_that_submits_is_enough_for_turnwise_enqueue() {
    let site = Site::granted();
    let (owner, submit) = (site.role("owner"), site.role("submit"));
    for flags in [&["--in", "10m"][..], &["--at", "2099-01-01T00:00:00Z"], &["--expires", "1h"], &["--unique", "k"]] {
        let id = submit.enqueue(&[&["mail"], flags].concat());
        assert_eq!(owner.state(&id), "waiting", "{flags:?}");
    }
    let all = (0..300).map(|n| serde_json::json!({"task": "mail", "args": n, "in": "10m"}));
    assert_eq!(submit.enqueue_all(all).len(), 300);
}

#[test]
fn a_role_that_submits_is_told_why_a_submit_is_refused() {
    let site = Site::granted();
    let (owner, submit) = (site.role("owner"), site.role("submit"));
    let nobody = "01890000-0000-7000-8000-000000000000";
    submit.refuses(&["enqueue", "mail", "--after", nobody], 1, &format!("after: there is no job {nobody}"));
    owner.told(&["group", "set", "acme", "--max-waiting", "2"]);
    let node = site.role("work").serve(&["--demo-tasks", "--listen", "none"]);
    for _ in 0..2 {
        submit.enqueue(&["nobody-knows", "--group", "acme"]);
    }
    let text = until("the group to be full", || {
        let output = submit.run(&["enqueue", "nobody-knows", "--group", "acme"]);
        (!output.status.success()).then(|| said(&output))
    });
    assert!(text.contains("waiting jobs; its limit is 2") && !text.contains("permission"), "{text}");
    node.stop();
}

#[test]
fn a_role_that_looks_is_enough_for_the_commands_that_look() {
    let site = Site::granted();
    let (submit, look) = (site.role("submit"), site.role("look"));
    let node = site.role("work").serve(&["--demo-tasks", "--listen", "none"]);
    let waits = submit.enqueue(&["nobody-knows", "--group", "acme"]);
    let ended = submit.enqueue(&["noop"]);
    look.wait_for_state(&ended, "success");
    assert!(look.told(&["jobs"]).contains("nobody-knows"));
    assert!(look.why(&waits).contains("it will not start unless something changes"));
    look.told(&["top", "--once"]);
    for command in [&["queues"][..], &["groups"], &["nodes"], &["tasks"], &["schedule", "list"]] {
        look.told(command);
    }
    look.told(&["simulate", "--weight", "acme=2"]);
    look.told(&["logs", &ended]);
    // What it finds is bad: no node knows the task. That it could look is what counts.
    let output = look.run(&["doctor"]);
    let found = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(
        found.contains("nobody-knows") && !format!("{found}{}", said(&output)).contains("permission"),
        "{output:?}"
    );
    node.stop();
}
