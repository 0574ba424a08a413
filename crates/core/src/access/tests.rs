use std::{collections::BTreeSet, fmt::Write as _};

use proptest::prelude::*;

use super::*;
use crate::{
    job::{JobId, NewJob, Step},
    json::Json,
    name::UniqueKey,
    terms::Terms,
    time::Timestamp,
    unique::Unique,
};

const NAMES: [&str; 3] = ["a", "b", "c"];

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

fn group(name: &str) -> GroupName {
    GroupName::new(name).unwrap()
}

fn task(name: &str) -> TaskName {
    TaskName::new(name).unwrap()
}

fn limits(queues: &[&str], groups: &[&str], tasks: &[&str]) -> Limits {
    fn some<N: Ord>(names: &[&str], name: impl Fn(&str) -> N) -> Option<BTreeSet<N>> {
        (!names.is_empty()).then(|| names.iter().map(|text| name(text)).collect())
    }
    Limits { queues: some(queues, queue), groups: some(groups, group), tasks: some(tasks, task) }
}

fn grant(scopes: &[Scope], limits: Limits) -> Grant {
    Grant::new(scopes.iter().copied(), limits).unwrap()
}

fn new_job(queue_name: &str, group_name: &str, task_name: &str) -> NewJob {
    let mut job = NewJob::new(JobId::from_parts(1, [1; 10]), task(task_name), Json::null());
    (job.queue, job.group) = (queue(queue_name), group(group_name));
    job
}

/// Every set of the three names, none included as "not limited".
fn all_sets() -> Vec<Vec<&'static str>> {
    (0..8).map(|bits: u32| (0..3).filter(|n| bits >> n & 1 == 1).map(|n| NAMES[n as usize]).collect()).collect()
}

#[test]
fn scopes_are_read_as_they_are_printed() {
    for scope in Scope::ALL {
        assert_eq!(scope.to_string().parse(), Ok(scope));
    }
    assert_eq!(
        "root".parse::<Scope>().unwrap_err().to_string(),
        r#"scope: must be one of submit, read, operate, admin, work, not "root""#
    );
}

#[test]
fn a_scope_includes_those_below_it_and_no_other() {
    use Scope::{Admin, Operate, Read, Submit, Work};
    let included =
        |scope: Scope| Scope::ALL.into_iter().filter(move |other| scope.includes(*other)).collect::<Vec<_>>();
    assert_eq!(included(Submit), [Submit]);
    assert_eq!(included(Read), [Read]);
    assert_eq!(included(Operate), [Read, Operate]);
    assert_eq!(included(Admin), [Submit, Read, Operate, Admin]);
    assert_eq!(included(Work), [Work]);
}

/// Every set of scopes and every action: refused for the missing scope, or not for a scope at all.
#[test]
fn without_the_scope_nothing_is_allowed_and_nothing_is_told() {
    for bits in 1..32_u32 {
        let scopes: Vec<Scope> = (0..5).filter(|n| bits >> n & 1 == 1).map(|n| Scope::ALL[n as usize]).collect();
        let grant = grant(&scopes, Limits::default());
        for action in Action::ALL {
            let needs = action.scope();
            let expected =
                if scopes.iter().any(|own| own.includes(needs)) { Ok(()) } else { Err(Refusal::Scope(needs)) };
            assert_eq!(grant.check(*action, Target::Many), expected, "{scopes:?} {action:?}");
            assert_eq!(grant.check(*action, Target::Installation), expected, "{scopes:?} {action:?}");
        }
    }
    let (here, there) = (new_job("a", "a", "a"), new_job("b", "b", "b"));
    let blind = grant(&[Scope::Submit], limits(&["a"], &["a"], &["a"]));
    for job in [&here, &there] {
        let answer = blind.check(Action::ReadJob, Target::New(job));
        assert_eq!(answer, Err(Refusal::Scope(Scope::Read)), "the same for its own and for others' jobs");
    }
}

/// All 512 limits by all 27 jobs, compared with the sentence "a job must be within all of them".
#[test]
fn a_limited_token_finds_its_own_jobs_and_no_others() {
    for queues in all_sets() {
        for groups in all_sets() {
            for tasks in all_sets() {
                let grant = grant(&[Scope::Admin], limits(&queues, &groups, &tasks));
                let limited = !(queues.is_empty() && groups.is_empty() && tasks.is_empty());
                assert_eq!(grant.is_limited(), limited);
                for job in (0..27).map(|n| new_job(NAMES[n % 3], NAMES[n / 3 % 3], NAMES[n / 9])) {
                    let inside = [
                        queues.is_empty() || queues.contains(&job.queue.as_str()),
                        groups.is_empty() || groups.contains(&job.group.as_str()),
                        tasks.is_empty() || tasks.contains(&job.task.as_str()),
                    ] == [true; 3];
                    assert_eq!(grant.covers(&job.queue, &job.group, &job.task), inside);
                    let expected = if inside { Ok(()) } else { Err(Refusal::NotFound) };
                    assert_eq!(grant.may_submit(&job), expected);
                    for action in [Action::ReadJob, Action::DecideJob, Action::ChangeJob, Action::SetSchedule] {
                        assert_eq!(grant.check(action, Target::New(&job)), expected, "{action:?} {job:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_job_that_may_go_on_as_anothers_task_is_not_the_tokens_to_submit() {
    let step = |name: &str, terms: Terms| Step { task: task(name), args: Json::null(), retry: None, terms };
    let with = |set: &dyn Fn(&mut Terms)| {
        let mut job = new_job("a", "a", "a");
        set(&mut job.terms);
        job
    };
    let goes_on = |to: &str| with(&|terms| terms.set_next(task(to)));
    let falls_back = |to: &str| with(&|terms| terms.set_on_exhausted(step(to, Terms::default())).unwrap());
    let nested = |to: &str| {
        with(&|terms| {
            let inner = falls_back(to).terms;
            terms.set_on_exhausted(step("a", inner)).unwrap();
        })
    };
    let after_a_step = |to: &str| with(&|terms| terms.set_on_exhausted(step("b", goes_on(to).terms)).unwrap());
    let limited = grant(&[Scope::Admin], limits(&[], &[], &["a", "b"]));
    let by_group = grant(&[Scope::Admin], limits(&["a"], &["a"], &[]));
    for (made, allowed) in [("b", Ok(())), ("c", Err(Refusal::NotFound))] {
        for job in [goes_on(made), falls_back(made), nested(made), after_a_step(made)] {
            assert_eq!(limited.may_submit(&job), allowed, "{job:?}");
            assert_eq!(limited.check(Action::SetSchedule, Target::New(&job)), allowed, "{job:?}");
            assert_eq!(by_group.may_submit(&job), Ok(()), "its tasks are not limited: {job:?}");
        }
    }
}

#[test]
fn a_queue_with_others_jobs_is_seen_but_not_changed() {
    let operator = |limits| grant(&[Scope::Admin], limits);
    let cases = [
        (limits(&["a"], &[], &[]), Ok(()), Ok(())),
        (limits(&["b"], &[], &[]), Err(Refusal::NotFound), Err(Refusal::NotFound)),
        (limits(&["a"], &["a"], &[]), Ok(()), Err(Refusal::Limited)),
        (limits(&[], &["a"], &[]), Ok(()), Err(Refusal::Limited)),
        (limits(&[], &[], &["a"]), Ok(()), Err(Refusal::Limited)),
        (limits(&["b"], &["a"], &[]), Err(Refusal::NotFound), Err(Refusal::NotFound)),
        (Limits::default(), Ok(()), Ok(())),
    ];
    for (limits, seen, changed) in cases {
        let grant = operator(limits.clone());
        assert_eq!(grant.check(Action::ReadQueue, Target::Queue(&queue("a"))), seen, "{limits:?}");
        for action in [Action::OperateQueue, Action::SetQueue] {
            assert_eq!(grant.check(action, Target::Queue(&queue("a"))), changed, "{limits:?}");
        }
        // The same for groups and tasks, with the limits turned round.
        let turned = Limits {
            queues: limits.tasks.map(|names| names.iter().map(|name| queue(name.as_str())).collect()),
            groups: limits.queues.map(|names| names.iter().map(|name| group(name.as_str())).collect()),
            tasks: limits.groups.map(|names| names.iter().map(|name| task(name.as_str())).collect()),
        };
        let grant = operator(turned.clone());
        assert_eq!(grant.check(Action::ReadGroup, Target::Group(&group("a"))), seen, "{turned:?}");
        assert_eq!(grant.check(Action::SetGroup, Target::Group(&group("a"))), changed, "{turned:?}");
        let again = Limits {
            queues: turned.tasks.map(|names| names.iter().map(|name| queue(name.as_str())).collect()),
            groups: turned.queues.map(|names| names.iter().map(|name| group(name.as_str())).collect()),
            tasks: turned.groups.map(|names| names.iter().map(|name| task(name.as_str())).collect()),
        };
        let grant = operator(again.clone());
        assert_eq!(grant.check(Action::ReadTask, Target::Task(&task("a"))), seen, "{again:?}");
        assert_eq!(grant.check(Action::SetTask, Target::Task(&task("a"))), changed, "{again:?}");
    }
}

#[test]
fn a_limited_token_is_told_of_queues_that_its_limits_name_and_of_no_other() {
    let told = |limits| {
        let grant = grant(&[Scope::Read], limits);
        NAMES.map(|name| grant.is_told_of(&queue(name)))
    };
    assert_eq!(told(Limits::default()), [true; 3]);
    assert_eq!(told(limits(&["a", "b"], &[], &[])), [true, true, false]);
    assert_eq!(told(limits(&["a"], &["a"], &["a"])), [true, false, false]);
    for others in [limits(&[], &["a"], &[]), limits(&[], &[], &["a"]), limits(&[], &["a"], &["a"])] {
        assert_eq!(told(others), [false; 3], "it does not say which queues its jobs are in");
    }
    assert!(!grant(&[Scope::Submit], Limits::default()).is_told_of(&queue("a")));
}

#[test]
fn what_belongs_to_everybody_needs_a_token_without_limits() {
    let all = [Scope::Submit, Scope::Read, Scope::Operate, Scope::Admin];
    for limits in [limits(&["a"], &[], &[]), limits(&[], &["a"], &[]), limits(&[], &[], &["a"])] {
        let grant = grant(&all, limits);
        for action in [Action::Simulate, Action::ReadNodes, Action::ReadInstallation, Action::Prune, Action::Tokens] {
            assert_eq!(grant.check(action, Target::Installation), Err(Refusal::Limited), "{action:?}");
            assert_eq!(grant.check(action, Target::Many), Err(Refusal::Limited), "{action:?}");
        }
        for action in [Action::ReadKey, Action::SetKey] {
            assert_eq!(grant.check(action, Target::Key), Err(Refusal::NotFound), "{action:?}");
        }
        assert_eq!(grant.check(Action::ListJobs, Target::Many), Ok(()));
        assert_eq!(grant.check(Action::ListJobs, Target::Installation), Err(Refusal::Limited));
    }
    let unlimited = Grant::unlimited();
    assert!(!unlimited.is_limited());
    for action in Action::ALL {
        assert_eq!(unlimited.check(*action, Target::Installation), Ok(()), "{action:?}");
    }
}

#[test]
fn a_grant_that_makes_no_sense_is_refused_with_its_field() {
    let refused = |scopes: &[Scope], limits| Grant::new(scopes.iter().copied(), limits).unwrap_err().to_string();
    assert_eq!(refused(&[], Limits::default()), "scope: must name at least one");
    assert_eq!(
        refused(&[Scope::Read, Scope::Work], limits(&[], &["a"], &[])),
        "group: a token with the scope work cannot be limited to groups; limit it to queues or tasks"
    );
    assert!(Grant::new([Scope::Work], limits(&["a"], &[], &["b"])).is_ok());
    let none = Limits { tasks: Some(BTreeSet::new()), ..Limits::default() };
    assert_eq!(refused(&[Scope::Read], none), "task: a limit must name at least one; leave it out for no limit");
    let many = (0..=MAX_LIMIT_NAMES).map(|n| queue(&n.to_string())).collect();
    let many = Limits { queues: Some(many), ..Limits::default() };
    assert_eq!(refused(&[Scope::Read], many), "queue: a token is limited to at most 100 names, not 101");
}

#[test]
fn a_stored_grant_that_is_not_understood_is_an_error_and_not_a_wider_grant() {
    let read = |text: &str| serde_json::from_str::<Grant>(text).map_err(|error| error.to_string());
    let grant = read(r#"{"scopes":["read"],"limits":{"groups":["a"]}}"#).unwrap();
    assert_eq!(grant, super::tests::grant(&[Scope::Read], limits(&[], &["a"], &[])));
    assert!(read(r#"{"scopes":["read"],"limits":{"regions":["eu"]}}"#).unwrap_err().contains("regions"));
    assert!(read(r#"{"scopes":["read"],"until":"noon"}"#).unwrap_err().contains("until"));
    assert!(read(r#"{"scopes":["read","rule"]}"#).unwrap_err().contains("rule"));
    assert!(read(r#"{"scopes":["work"],"limits":{"groups":["a"]}}"#).unwrap_err().contains("work"));
}

fn scope_text(grant: &Grant, job: &NewJob, scope: unique::Scope) -> String {
    let mut job = job.clone();
    job.unique = Some(Box::new(Unique { scope, ..Unique::new(UniqueKey::new("k").unwrap()) }));
    grant.narrow_unique(&mut job);
    job.unique.as_ref().unwrap().scope.of(&job)
}

#[test]
fn a_limited_tokens_unique_keys_are_its_own() {
    let tenant = grant(&[Scope::Submit], limits(&[], &["a"], &[]));
    let job = new_job("q", "a", "mail");
    assert_eq!(scope_text(&tenant, &job, unique::Scope::Group), "group:a");
    assert_eq!(scope_text(&tenant, &job, unique::Scope::Task), r#"scope:["group:a","task:mail"]"#);
    let whole = grant(&[Scope::Submit], Limits::default());
    assert_eq!(scope_text(&whole, &job, unique::Scope::Task), "task:mail");
    let mut without = new_job("q", "a", "mail");
    tenant.narrow_unique(&mut without);
    assert_eq!(without.unique, None);
}

fn names() -> impl Strategy<Value = String> {
    // With what JSON and the scopes' own texts are made of.
    proptest::string::string_regex(r#"[ab:,"\[\]\\]{1,6}"#).unwrap()
}

proptest! {
    /// Two jobs that no grant of a tenant covers both never meet at one key, whatever their names and scopes are.
    #[test]
    fn jobs_of_two_tenants_never_share_a_key(
        groups in (names(), names()), tasks in (names(), names()), scopes in (names(), names()), pick in (0..4, 0..4),
    ) {
        prop_assume!(groups.0 != groups.1);
        let text = |group_name: &str, task_name: &str, scope: &str, pick: i32| {
            let scope = match pick {
                0 => unique::Scope::Task,
                1 => unique::Scope::Queue,
                2 => unique::Scope::Group,
                _ => unique::Scope::Named(ScopeName::new(scope).unwrap()),
            };
            let tenant = grant(&[Scope::Submit], limits(&[], &[group_name], &[]));
            scope_text(&tenant, &new_job("q", group_name, task_name), scope)
        };
        prop_assert_ne!(
            text(&groups.0, &tasks.0, &scopes.0, pick.0),
            text(&groups.1, &tasks.1, &scopes.1, pick.1)
        );
    }

    /// Taking a limit away never takes a permission away, and a token that is checked is what its scopes and limits say.
    #[test]
    fn a_wider_token_may_do_all_that_a_narrower_one_may(
        scopes in proptest::sample::subsequence(vec![Scope::Submit, Scope::Read, Scope::Operate, Scope::Admin], 1..=4),
        sets in (0_usize..8, 0_usize..8, 0_usize..8), drop in 0..3, n in 0_usize..27,
    ) {
        let all = all_sets();
        let narrow = limits(&all[sets.0], &all[sets.1], &all[sets.2]);
        let mut wide = narrow.clone();
        match drop {
            0 => wide.queues = None,
            1 => wide.groups = None,
            _ => wide.tasks = None,
        }
        let (narrow, wide) = (grant(&scopes, narrow), grant(&scopes, wide));
        let job = new_job(NAMES[n % 3], NAMES[n / 3 % 3], NAMES[n / 9]);
        let targets = [
            Target::New(&job), Target::Queue(&job.queue), Target::Group(&job.group), Target::Task(&job.task),
            Target::Key, Target::Many, Target::Installation,
        ];
        for action in Action::ALL {
            for target in targets {
                if narrow.check(*action, target).is_ok() {
                    prop_assert_eq!(wide.check(*action, target), Ok(()), "{:?} {:?}", action, target);
                }
            }
        }
    }

    #[test]
    fn a_grant_survives_being_stored(
        scopes in proptest::sample::subsequence(Scope::ALL.to_vec(), 1..=5), sets in (0_usize..8, 0_usize..8, 0_usize..8),
    ) {
        let all = all_sets();
        let limits = limits(&all[sets.0], if scopes.contains(&Scope::Work) { &[] } else { &all[sets.1] }, &all[sets.2]);
        let grant = grant(&scopes, limits);
        let text = serde_json::to_string(&grant).unwrap();
        prop_assert_eq!(serde_json::from_str::<Grant>(&text).unwrap(), grant);
    }
}

fn token() -> Token {
    let id = TokenId(uuid::Uuid::from_u128(7));
    let (name, prefix) = (crate::name::TokenName::new("ci").unwrap(), "tw_abc".to_owned());
    let token = NewToken { id, name, prefix, grant: Grant::unlimited(), rate: None, expires_at: None };
    token.created(Timestamp::from_micros(0))
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(0).plus(std::time::Duration::from_secs(seconds))
}

#[test]
fn a_token_is_good_until_it_is_revoked_or_expires() {
    assert_eq!(token().state(at(u64::from(u32::MAX))), TokenState::Active);
    let brief = Token { expires_at: Some(at(60)), ..token() };
    assert_eq!((brief.state(at(59)), brief.state(at(60))), (TokenState::Active, TokenState::Expired));
    let revoked = Token { revoked_at: Some(at(10)), ..brief };
    assert_eq!((revoked.state(at(0)), revoked.state(at(99))), (TokenState::Revoked, TokenState::Revoked));
}

#[test]
fn a_use_is_written_once_a_minute() {
    assert!(token().notes_use(at(0)));
    let used = Token { last_used_at: Some(at(100)), ..token() };
    assert!(!used.notes_use(at(159)) && used.notes_use(at(160)));
}

#[test]
fn a_dead_token_is_listed_for_four_hundred_days() {
    let days = 400 * 86_400;
    assert!(!token().is_spent(at(10 * days)));
    for dead in [Token { expires_at: Some(at(60)), ..token() }, Token { revoked_at: Some(at(60)), ..token() }] {
        assert!(!dead.is_spent(at(days + 59)) && dead.is_spent(at(days + 60)));
    }
}

/// `docs/access.md` is the table of actions in words. Run with `TURNWISE_BLESS=1` to write it anew.
#[test]
fn the_table_of_scopes_in_the_docs_is_printed_from_the_actions() {
    let mut page = String::from(
        "# What a token may do\n\nPrinted from `turnwise_core::access::Action` by a test; change the list there, then run\n\
         `TURNWISE_BLESS=1 cargo test -p turnwise-core the_table_of_scopes`. How tokens are made and revoked:\n\
         [guide](guides/access.md).\n\n",
    );
    page.push_str("| |");
    for scope in Scope::ALL {
        write!(page, " {scope} |").unwrap();
    }
    page.push_str(" limited to queues, groups or tasks |\n|---|---|---|---|---|---|---|\n");
    for action in Action::ALL {
        write!(page, "| {} |", action.words()).unwrap();
        for scope in Scope::ALL {
            page.push_str(if scope.includes(action.scope()) { " yes |" } else { " |" });
        }
        page.push_str(match action.reach() {
            Reach::Own if *action == Action::ReadKey => " no: a key belongs to no queue, group or task |\n",
            Reach::Own => " its own |\n",
            Reach::Whole if *action == Action::SetKey => " no: a key belongs to no queue, group or task |\n",
            Reach::Whole => " if all jobs of it are its own |\n",
            Reach::Installation => " no |\n",
        });
    }
    page.push_str(
        "\nA job is a limited token's own if its queue, its group and its task are all within the token's limits. Whatever is not its\n\
         own is answered as if it did not exist (404, not 403), also if it is named inside a request. A queue belongs to a token\n\
         with all its jobs if the token is limited to queues, and neither to groups nor to tasks; groups and tasks likewise.\n\
         A token with the scope `work` cannot be limited to groups. The unique keys of a limited token's jobs are compared\n\
         only with those of jobs that are within the same limits. A job or schedule that a limited token makes may go on (`next`,\n\
         `on_exhausted`) only as tasks within its limits.\n",
    );
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/access.md");
    if std::env::var_os("TURNWISE_BLESS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), page, "docs/access.md is out of date");
}
