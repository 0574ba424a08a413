//! Watching: the news for readers that are not the dispatcher.

use std::{collections::BTreeSet, time::Duration};

use tokio_postgres::{Row, types::ToSql};
use turnwise_core::{JobId, Timestamp};
use turnwise_store::{
    Change, Result, StoreError,
    operators::{AskWatch, EndedJob, InHands, WatchCursor, Watched},
};
use uuid::Uuid;

use crate::{
    after,
    connect::connection,
    errors::failed,
    news::changed,
    rows::{self, Moment, Names, get},
    session::Session,
    store::Inner,
};

/// A job that ended after a look may have begun to end before it: no transaction of a settle or a decision is open for so long. It only
/// spares looks at old slices of history.
const ENDING: Duration = Duration::from_secs(3_600);

/// What stands for the lineage in a cursor from before the first node has beaten: a number for the place, and for the run of the server as
/// its statistics know it, which a crash resets. A person who resets them makes watchers begin anew, no more. A lineage is never negative.
fn unbegun(place: i64) -> i64 {
    -1 - (place & i64::MAX)
}

pub(crate) async fn watch(store: &Inner, ask: &AskWatch) -> Result<Watched> {
    let fail = failed("watch");
    let client = connection(&store.pools.people).await?;
    let parts = ask.cursor.as_ref().and_then(WatchCursor::parts);
    let read = parts.and_then(|(lineage, since, place)| Some((lineage, since, Snapshot::read(place)?)));
    let Some((lineage, since, from)) = read else {
        let row = client.query_one(include_str!("../sql/watch_begin.sql"), &[]).await.map_err(fail)?;
        let here = Here {
            lineage: get(&row, 0)?,
            snapshot: get(&row, 1)?,
            now: rows::now(&row, 2)?,
            place: get(&row, 3)?,
            floor: None,
        };
        return Ok(Watched::nothing(here.now, here.cursor(), ask.cursor.is_some()));
    };
    let most = i64::from(ask.most);
    let binds: [&(dyn ToSql + Sync); 3] = [&from.to_string(), &most, &(lineage < 0)];
    let rows = client.query(include_str!("../sql/watch.sql"), &binds).await.map_err(fail)?;
    let here = rows.iter().find(|row| matches!(get::<i32>(row, KIND), Ok(0)));
    let here = Here::read(here.ok_or_else(|| StoreError::broken("watch", "no answer"))?)?;
    if !here.goes_on_from(lineage, &from) {
        return Ok(Watched::nothing(here.now, here.cursor(), true));
    }
    let mut watched = Watched { since, ..Watched::nothing(here.now, here.cursor(), false) };
    let mut names = Names::default();
    let (mut changes, mut cut) = (Vec::new(), false);
    for row in &rows {
        match get::<i32>(row, KIND)? {
            0 => {}
            1 => watched.jobs.extend(rows::head(row, HEAD, &mut names)?),
            3 => (watched.memos, cut) = (get(row, FAILED)?, get::<i64>(row, CHANGE)? >= most),
            _ => changes.push(((get::<i64>(row, CHANGE)?, get::<i64>(row, CHANGE + 1)?), changed(row, &mut names)?)),
        }
    }
    let heads = changes.iter_mut().filter_map(|(_, change): &mut (_, Change)| change.head.as_mut());
    after::complete(&client, watched.jobs.iter_mut().chain(heads)).await?;
    watched.jobs.sort_unstable_by_key(|head| head.seq);
    watched.jobs.truncate(ask.most as usize);
    changes.sort_unstable_by_key(|(order, _)| *order);
    watched.changes = changes.into_iter().map(|(_, change)| change).collect();
    watched.more = cut || watched.jobs.len() >= ask.most as usize || watched.changes.len() >= ask.most as usize;
    if ask.ends {
        watched.ended = ended(&client, &watched.changes, since.minus(ENDING), &mut names).await?;
    }
    Ok(watched)
}

async fn ended(
    client: &impl Session,
    changes: &[Change],
    after: Timestamp,
    names: &mut Names,
) -> Result<Vec<EndedJob>> {
    let gone = changes.iter().filter(|change| change.head.is_none()).map(|change| change.id);
    let gone: Vec<Uuid> = gone.collect::<BTreeSet<JobId>>().into_iter().map(|id| id.uuid()).collect();
    if gone.is_empty() {
        return Ok(Vec::new());
    }
    let sql = include_str!("../sql/watch_ended.sql");
    let rows = client.query(sql, &[&gone, &Moment(after)]).await.map_err(failed("watch"))?;
    rows.iter().map(|row| rows::ended(row, names)).collect()
}

pub(crate) async fn in_hands(store: &Inner, most: u32) -> Result<InHands> {
    let client = connection(&store.pools.people).await?;
    let rows = client.query(include_str!("../sql/in_hands.sql"), &[&i64::from(most)]).await;
    let rows = rows.map_err(failed("read what nodes have in their hands"))?;
    let (mut now, mut jobs, mut names) = (None, Vec::new(), Names::default());
    for row in &rows {
        match rows::moment(row, 13)? {
            Some(time) => now = Some(time),
            None => jobs.push(rows::in_hands(row, &mut names)?),
        }
    }
    let now = now.ok_or_else(|| StoreError::broken("read what nodes have in their hands", "no answer"))?;
    Ok(InHands { now, more: jobs.len() >= most as usize, jobs })
}

/// What the statement saw.
struct Here {
    lineage: Option<i64>,
    snapshot: String,
    now: Timestamp,
    /// See [`unbegun`]; where it is asked for.
    place: Option<i64>,
    /// All that was deleted is visible in it.
    floor: Option<String>,
}

impl Here {
    fn read(row: &Row) -> Result<Self> {
        let (lineage, snapshot, floor) = (get(row, RAN)?, get(row, SNAPSHOT)?, get(row, FLOOR)?);
        Ok(Self { lineage, snapshot, now: rows::now(row, NOW)?, place: get(row, CHANGE)?, floor })
    }

    fn cursor(&self) -> WatchCursor {
        let lineage = self.lineage.unwrap_or_else(|| unbegun(self.place.unwrap_or_default()));
        WatchCursor::new(lineage, self.now, &self.snapshot)
    }

    fn goes_on_from(&self, lineage: i64, from: &Snapshot) -> bool {
        let read = |text: &str| Snapshot::read(text);
        (self.lineage == Some(lineage) || self.place.is_some_and(|place| lineage == unbegun(place)))
            && read(&self.snapshot).is_some_and(|now| now.has_seen(from))
            && self.floor.as_deref().is_none_or(|floor| read(floor).is_some_and(|floor| from.has_seen(&floor)))
    }
}

/// A snapshot's text is `xmin:xmax:xip,…`: transactions from xmax on are not visible, nor are those in xip, which were open.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Snapshot {
    xmin: i64,
    xmax: i64,
    /// In their order.
    xip: Vec<i64>,
}

impl Snapshot {
    /// `None`: PostgreSQL would not read it either.
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let (xmin, xmax) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let xip = parts.next()?.split(',').filter(|id| !id.is_empty()).map(|id| id.parse().ok());
        let xip = xip.collect::<Option<Vec<i64>>>()?;
        let in_order = xip.windows(2).all(|two| two[0] < two[1]);
        let within = xip.iter().all(|id| (xmin..xmax).contains(id));
        (0 < xmin && xmin <= xmax && in_order && within).then_some(Self { xmin, xmax, xip })
    }

    /// Whether all that is visible in the other is visible in this one.
    fn has_seen(&self, other: &Self) -> bool {
        let hidden = |id: &i64| *id >= other.xmax || other.xip.binary_search(id).is_ok();
        other.xmax <= self.xmax && self.xip.iter().all(hidden)
    }
}

impl std::fmt::Display for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let xip: Vec<_> = self.xip.iter().map(ToString::to_string).collect();
        write!(f, "{}:{}:{}", self.xmin, self.xmax, xip.join(","))
    }
}

/// Columns of `watch.sql`; those of heads and changes are where `news.sql` has them.
const KIND: usize = 0;
const CHANGE: usize = 1;
const RAN: usize = 4;
const FAILED: usize = 5;
const SNAPSHOT: usize = 7;
const NOW: usize = 8;
const HEAD: usize = 9;
const FLOOR: usize = 25;

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str) -> Snapshot {
        Snapshot::read(text).unwrap_or_else(|| panic!("{text} is one"))
    }

    #[test]
    fn a_snapshot_is_read_as_it_is_written_and_nothing_else_is_one() {
        for text in ["1:1:", "10:20:", "10:20:10", "10:20:10,15,19"] {
            assert_eq!(snapshot(text).to_string(), text);
        }
        for other in [
            "",
            "1:1",
            "0:1:",
            "-1:1:",
            "2:1:",
            "10:20:9",
            "10:20:20",
            "10:20:15,12",
            "10:20:12,12",
            "a:b:",
            "1:99999999999999999999:",
        ] {
            assert_eq!(Snapshot::read(other), None, "{other}");
        }
    }

    #[test]
    fn a_later_snapshot_has_seen_an_earlier_one_and_not_the_other_way_round() {
        let in_order =
            ["10:10:", "10:12:10,11", "10:12:10", "10:15:10,13", "15:15:", "16:20:17", "20:20:"].map(snapshot);
        for (n, earlier) in in_order.iter().enumerate() {
            for (m, later) in in_order.iter().enumerate() {
                assert_eq!(later.has_seen(earlier), n <= m, "{later} {earlier}");
            }
        }
    }
}
