//! Assign: picked jobs into nodes' hands; and what a node finds there.

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    ops::RangeInclusive,
};

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};
use turnwise_core::{Fence, Incarnation, JobId, JobState, Timestamp, job::AssignedJob, scheduler::Pick};
use turnwise_store::{Assign, AssignReply, BatchId, Delivery, Mail};

use crate::{
    errors::Failure,
    news::head,
    nodes::{check_leading, node_name},
    rows::{self, Names},
};

type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn assign(conn: &Connection, assign: &Assign, now: Timestamp) -> Result<Vec<(JobId, AssignReply)>> {
    check_leading(conn, assign.holder, assign.epoch)?;
    let mut giver = Giver::prepare(conn, now)?;
    giver.take_ahead(assign)?;
    let mut there: BTreeMap<Incarnation, bool> = BTreeMap::new();
    let mut mail: BTreeMap<Incarnation, (Vec<JobId>, Vec<u8>)> = BTreeMap::new();
    let mut replies = Vec::with_capacity(assign.picks.len());
    for pick in &assign.picks {
        // No process would ever run a job that is assigned to a node that has left.
        let there = match there.entry(pick.node) {
            Entry::Occupied(there) => *there.get(),
            Entry::Vacant(unknown) => *unknown.insert(node_name(conn, pick.node)?.is_some()),
        };
        let (taken, reply) =
            if pick.node == assign.holder { giver.give_self(pick, there)? } else { giver.give_other(pick, there)? };
        if taken {
            let (jobs, limited) = mail.entry(pick.node).or_default();
            jobs.push(pick.job);
            limited.push(pick.limited.into());
        }
        replies.push((pick.job, reply));
    }
    let mut deliver = conn.prepare_cached(include_str!("../sql/assign_deliver.sql"))?;
    for (node, (jobs, limited)) in mail {
        deliver.execute(params![node.0.as_bytes(), assign.batch.0.as_bytes(), rows::pack_ids(&jobs), limited])?;
    }
    Ok(replies)
}

/// What giving one job after the other needs.
struct Giver<'a> {
    conn: &'a Connection,
    now: Timestamp,
    picked: CachedStatement<'a>,
    take: CachedStatement<'a>,
    assign: CachedStatement<'a>,
    assigned: CachedStatement<'a>,
    names: Names,
    ahead: HashMap<JobId, CurrentJob>,
}

/// A job as it stands, or stands from now on.
struct CurrentJob {
    job: AssignedJob,
    seq: i64,
    node: Option<Incarnation>,
    /// It was given away just now.
    taken: bool,
}

impl CurrentJob {
    fn read(row: &Row<'_>, names: &mut Names, limited: bool) -> rusqlite::Result<Self> {
        let job = rows::assigned(row, names, limited)?;
        Ok(Self { job, seq: row.get(15)?, node: rows::node_ref(row, 16)?, taken: false })
    }

    fn is_free(&self, fence: Fence) -> bool {
        self.job.fence == fence && !self.job.state.assigned()
    }

    fn take(&mut self) {
        (self.job.fence, self.job.state, self.taken) = (self.job.fence.next(), JobState::Scheduled, true);
    }
}

/// How many other jobs between those that are picked may be read for nothing, beyond as many as are picked.
const IN_VAIN: usize = 32;

impl<'a> Giver<'a> {
    fn prepare(conn: &'a Connection, now: Timestamp) -> Result<Self> {
        Ok(Self {
            conn,
            now,
            picked: conn.prepare_cached(include_str!("../sql/assign_picked.sql"))?,
            take: conn.prepare_cached(include_str!("../sql/assign_between.sql"))?,
            assign: conn.prepare_cached(include_str!("../sql/assign.sql"))?,
            assigned: conn.prepare_cached(include_str!("../sql/assignments_job.sql"))?,
            names: Names::default(),
            ahead: HashMap::new(),
        })
    }

    /// Reads the picks of the asking node itself in one go, and takes those that stand side by side with one statement: equal
    /// groups have their turns in the order of submission, so most of them do, and a statement for each costs twice as much.
    /// Picks that are left out here are taken one by one later.
    fn take_ahead(&mut self, assign: &Assign) -> Result<()> {
        let picks = assign.picks.iter().filter(|pick| pick.node == assign.holder);
        let mut picks: Vec<_> = picks.map(|pick| (pick.job, pick.fence, pick.limited)).collect();
        picks.sort_unstable();
        let [(first, ..), .., (last, ..)] = picks[..] else { return Ok(()) };
        let twice = picks.windows(2).any(|two| two[0].0 == two[1].0);
        if twice || node_name(self.conn, assign.holder)?.is_none() {
            return Ok(());
        }
        let mut between = self.conn.prepare_cached(include_str!("../sql/assign_picked_between.sql"))?;
        let mut rows = between.query(params![first.as_bytes(), last.as_bytes()])?;
        let (mut picks, mut free, mut in_vain) = (picks.into_iter().peekable(), Vec::new(), 0);
        while let Some(row) = rows.next()? {
            let id = JobId::from_uuid(rows::uuid(row, 0)?);
            while picks.next_if(|(pick, ..)| *pick < id).is_some() {}
            match picks.next_if(|(pick, ..)| *pick == id) {
                Some((_, fence, limited)) => {
                    let found = CurrentJob::read(row, &mut self.names, limited)?;
                    if found.is_free(fence) {
                        free.push((found.seq, fence, id));
                    }
                    self.ahead.insert(id, found);
                }
                None => in_vain += 1,
            }
            if in_vain > self.ahead.len() + IN_VAIN {
                break;
            }
        }
        free.sort_unstable();
        for run in free.chunk_by(|(one, fence, _), (next, other, _)| one + 1 == *next && fence == other) {
            let (Some((first, fence, _)), Some((last, ..))) = (run.first(), run.last()) else { continue };
            let rows = self.take(*first..=*last, *fence, assign.holder)?;
            assert_eq!(rows, run.len(), "what was free is not, in the same transaction");
            for (.., id) in run {
                self.ahead.entry(*id).and_modify(CurrentJob::take);
            }
        }
        Ok(())
    }

    /// Takes the jobs of these numbers, if all of them are picked. Returns how many.
    fn take(&mut self, numbers: RangeInclusive<i64>, fence: Fence, node: Incarnation) -> Result<usize> {
        let (first, last) = numbers.into_inner();
        Ok(self.take.execute(params![first, last, fence.0, node.0.as_bytes(), self.now.micros()])?)
    }

    /// Whether it was taken now, and the reply. The job goes with the reply, so it is read in any case: first, so that it
    /// is looked up by its id only once; no other write comes between within the transaction.
    fn give_self(&mut self, pick: &Pick, there: bool) -> Result<(bool, AssignReply)> {
        let found = match self.ahead.remove(&pick.job) {
            Some(found) => Some(found),
            None => {
                let (names, limited) = (&mut self.names, pick.limited);
                let found = self.picked.query_row([pick.job.as_bytes()], |row| CurrentJob::read(row, names, limited));
                found.optional()?
            }
        };
        let Some(mut found) = found else { return Ok((false, AssignReply::Gone)) };
        if there && !found.taken && found.is_free(pick.fence) {
            let rows = self.take(found.seq..=found.seq, pick.fence, pick.node)?;
            assert_eq!(rows, 1, "what was free is not, in the same transaction");
            found.take();
        }
        let CurrentJob { job, node, taken, .. } = found;
        // Exactly as this pick leaves it: taken now, or by an earlier call whose reply was lost.
        let before = job.state.assigned() && job.fence == pick.fence.next() && node == Some(pick.node);
        if taken || before { Ok((taken, AssignReply::Mine(Box::new(job)))) } else { Ok((false, self.not_taken(pick)?)) }
    }

    fn give_other(&mut self, pick: &Pick, there: bool) -> Result<(bool, AssignReply)> {
        let (id, node) = (pick.job.as_bytes(), pick.node.0.as_bytes());
        if there && self.assign.execute(params![id, pick.fence.0, node, self.now.micros()])? == 1 {
            return Ok((true, AssignReply::Theirs(pick.fence.next())));
        }
        let names = &mut self.names;
        let in_hands = self
            .assigned
            .query_row(params![id, node], |row| rows::assigned(row, names, pick.limited))
            .optional()?
            .filter(|job| job.fence == pick.fence.next());
        match in_hands {
            Some(job) => Ok((false, AssignReply::Theirs(job.fence))),
            None => Ok((false, self.not_taken(pick)?)),
        }
    }

    fn not_taken(&mut self, pick: &Pick) -> Result<AssignReply> {
        Ok(match head(self.conn, pick.job, &mut self.names)? {
            Some(head) if head.fence == pick.fence && !head.state.assigned() => AssignReply::Locked,
            Some(head) => AssignReply::Changed(head),
            None => AssignReply::Gone,
        })
    }
}

pub(crate) fn assignments(conn: &Connection, node: Incarnation, known: &[BatchId]) -> Result<Mail> {
    let mut batches = conn.prepare_cached(include_str!("../sql/assignments.sql"))?;
    let mut assigned = conn.prepare_cached(include_str!("../sql/assignments_job.sql"))?;
    let mut names = Names::default();
    let mut held = |id: JobId, limited: bool| {
        let params = params![id.as_bytes(), node.0.as_bytes()];
        assigned.query_row(params, |row| rows::assigned(row, &mut names, limited)).optional()
    };
    let mut mail = Mail::default();
    let mut batches = batches.query([node.0.as_bytes()])?;
    while let Some(row) = batches.next()? {
        let batch = rows::batch(row, 0)?;
        if known.contains(&batch) {
            continue;
        }
        let mut delivery = Delivery { batch, jobs: Vec::new() };
        let mut limited = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?.iter();
        for id in rows::unpack_ids(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?) {
            delivery.jobs.extend(held(id, limited.next() == Some(&1))?);
        }
        mail.batches.push(delivery);
    }
    let mut stop = conn.prepare_cached(include_str!("../sql/assignments_stop.sql"))?;
    let stop =
        stop.query_map([node.0.as_bytes()], |row| Ok((JobId::from_uuid(rows::uuid(row, 0)?), Fence(row.get(1)?))))?;
    mail.stop = stop.collect::<rusqlite::Result<_>>()?;
    Ok(mail)
}
