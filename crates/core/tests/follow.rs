//! A scheduler that follows another one chooses as that one does.

use std::time::Duration;

use proptest::{collection::vec, prelude::*};
use turnwise_core::{
    Fence, GroupName, JobHead, JobState, Node,
    scheduler::{Input, Output, Pick, Reply, Scheduler, Settled},
    settings::{GroupSettings, Settings},
};

mod table;

use table::{at, head, node};

fn picks(outputs: Vec<Output>) -> Vec<Pick> {
    let assigned = outputs.into_iter().find_map(|output| match output {
        Output::Assign(picks) => Some(picks),
        _ => None,
    });
    assigned.unwrap_or_default()
}

/// One group has a larger share.
fn settings() -> Settings {
    let heavy = GroupSettings { weight: "3".parse().unwrap(), ..GroupSettings::default() };
    Settings { groups: [(GroupName::new("b").unwrap(), heavy)].into(), ..Settings::default() }
}

/// A leader gives out one job after the other, and a follower hears of it: that each run began and ended or, where that is not `seen`,
/// only that it ended. Would the follower choose the same?
fn compare(runs: &[(u64, bool)]) -> Result<(), TestCaseError> {
    let (mut leader, mut follower) = (Scheduler::new(10), Scheduler::new(10));
    let open = vec![node(1, 1, &["t"])];
    let closed: Vec<_> = open.iter().cloned().map(|node| Node { slots: 0, ..node }).collect();
    let heads: Vec<JobHead> = (0..90).map(|n| head(n, ["a", "b", "c"][usize::try_from(n % 3).unwrap()])).collect();
    let mut now = 100;
    for scheduler in [&mut leader, &mut follower] {
        scheduler.handle(at(now), Input::Settings(settings()));
        scheduler.handle(at(now), Input::Nodes(closed.clone()));
        scheduler.handle(at(now), Input::Jobs(heads.clone()));
    }
    let mut given = picks(leader.handle(at(now), Input::Nodes(open.clone())));
    for &(ran, seen) in runs {
        let Some(pick) = given.pop() else { break };
        leader.hear(at(now), vec![(pick.job, pick.fence, Reply::Assigned(Fence(1)))]);
        if seen {
            let of = heads.iter().find(|head| head.id == pick.job).unwrap();
            let assigned = JobHead { state: JobState::Running, fence: Fence(1), node: Some(pick.node), ..of.clone() };
            follower.follow_given(at(now), vec![assigned]);
            prop_assert_eq!(follower.in_hands(), vec![pick.job]);
        }
        now += ran;
        let ran = Some(Duration::from_secs(ran));
        let settled =
            Settled { id: pick.job, fence: Fence(1), ran, rest: None, failed: false, well: true, error: None };
        follower.follow_settled(at(now), vec![settled.clone()]);
        given = picks(leader.handle(at(now), Input::Settled(vec![settled])));
        let next = picks(follower.clone().handle(at(now), Input::Nodes(open.clone())));
        let jobs = |picks: &[Pick]| picks.iter().map(|pick| pick.job).collect::<Vec<_>>();
        prop_assert_eq!(jobs(&next), jobs(&given));
        prop_assert_eq!(follower.totals().all.jobs(), leader.totals().all.jobs());
    }
    Ok(())
}

proptest! {
    #[test]
    fn whose_turn_it_is_is_the_same_in_both(runs in vec((1..20_u64, any::<bool>()), 1..60)) {
        compare(&runs)?;
    }
}
