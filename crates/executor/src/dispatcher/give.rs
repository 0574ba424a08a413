//! Giving out what the scheduler picks: batches on their way, and what became of them.

use std::{future::Future, pin::Pin, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use turnwise_core::{
    JobId,
    scheduler::{Input, Pick, Replies, Reply},
};
use turnwise_store::{Assign, AssignReply, BatchId, News, Page, StoreError};

use super::{Dispatcher, news::AskedAt};
use crate::{life::Life, trace::Record};

/// Batches on their way at once: the database writes one while the other is picked, or its reply is read.
const AHEAD: usize = 2;
/// Batches on what ended meanwhile, batches of which something was refused, and pages of the backlog, before everything else has
/// its turn again.
const ROUNDS: u32 = 16;
/// Between two tries of an assignment that gets no reply.
const DOUBT_PAUSE: Duration = Duration::from_millis(100);

/// A batch that was sent, and the store's reply.
struct Sent<'a> {
    batch: BatchId,
    picks: Vec<Pick>,
    /// Whether its jobs come with the reply. Those of a batch that was sent again come by mail, which shows which of the sends
    /// took them.
    expected: Expected<'a>,
    replies: Result<Vec<(JobId, AssignReply)>, StoreError>,
}

/// A batch that the mail need not bring, for its jobs come with the reply. If this is dropped without the reply, the mail must
/// bring it.
struct Expected<'a> {
    life: &'a Life,
    batch: BatchId,
    expected: bool,
}

impl Expected<'_> {
    /// The reply has brought its jobs.
    fn came(mut self) {
        self.expected = false;
    }
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        if self.expected {
            self.life.desk.unexpect(self.batch);
            // No bell rings for what a dispatcher gives to its own node.
            self.life.bell.mail.notify_one();
        }
    }
}

/// What was asked for with `T`, on its way.
type Asked<'a, T, A> = Option<(T, Pin<Box<dyn Future<Output = Result<A, StoreError>> + Send + 'a>>)>;

/// What comes while batches are on their way.
enum Came<'a> {
    Sent(Sent<'a>),
    Page((Option<JobId>, Result<Page, StoreError>)),
    News((AskedAt, Result<News, StoreError>)),
    /// Something may have ended here.
    Ends,
}

/// The answer; never, if nothing was asked for.
async fn answer<T, A>(asked: &mut Asked<'_, T, A>) -> (T, Result<A, StoreError>) {
    let Some((_, coming)) = asked else { return std::future::pending().await };
    let came = coming.await;
    let (what, _) = asked.take().expect("just seen");
    (what, came)
}

impl<'a> Dispatcher<'a> {
    /// Passes the input to the scheduler, and gives out what it picks until it picks no more.
    pub(super) async fn act(&mut self, input: Input) -> Result<(), StoreError> {
        let picks = self.tell(input);
        if picks.is_empty() {
            return Ok(());
        }
        self.give(picks).await
    }

    /// Gives out these and what follows: what ends meanwhile makes room, the next pages of the backlog are taken in as they
    /// come, and news are asked for when it is time. Nothing is on its way when this is over, whichever way it ends.
    ///
    /// While the backlog is read, turns are taken among the jobs that were read so far; so it is read faster than jobs run.
    pub(super) async fn give(&mut self, mut picks: Vec<Pick>) -> Result<(), StoreError> {
        let mut rounds = ROUNDS;
        let mut on_their_way = FuturesUnordered::new();
        let (mut page, mut news): (Asked<'a, _, _>, Asked<'a, _, _>) = (None, None);
        let mut ended = Ok(());
        loop {
            while !picks.is_empty() && on_their_way.len() < AHEAD {
                on_their_way.push(self.assign(std::mem::take(&mut picks)));
                if on_their_way.len() < AHEAD {
                    picks = self.tell(Input::Tick);
                }
            }
            if self.life.draining.is_up() || !self.life.contact.holds() {
                rounds = 0;
            }
            if rounds > 0 {
                if page.is_none()
                    && let Some(after) = self.backlog.next_page()
                {
                    page = Some((after, Box::pin(self.page(after))));
                }
                if news.is_none() && !self.hearing.has_unseen() && self.news_are_due() {
                    // To record that it is awake again, it must have no batch in flight: both lock the dispatcher's row.
                    if self.hearing.is_asleep() {
                        rounds = 0
                    } else {
                        let (asked, answer) = self.ask_for_news(false);
                        news = Some((asked, Box::pin(answer)));
                    }
                }
            }
            if on_their_way.is_empty() && page.is_none() && news.is_none() {
                return ended;
            }
            // While picks wait to be sent, no more are wanted.
            let wanted = picks.is_empty();
            let ends_wanted = wanted && rounds > 0 && self.backlog.ends_wanted(self.rounds.given()) > 0;
            let came = tokio::select! {
                biased;
                Some(sent) = on_their_way.next() => Came::Sent(sent),
                read = answer(&mut page), if wanted && page.is_some() => Came::Page(read),
                read = answer(&mut news), if news.is_some() => Came::News(read),
                () = self.life.term.woken(), if ends_wanted => Came::Ends,
            };
            let heard = match came {
                Came::Sent(sent) => self.hear(sent).map(|replies| match replies {
                    Some(replies) => {
                        if !picks.is_empty() {
                            on_their_way.push(self.assign(std::mem::take(&mut picks)));
                        }
                        // What is refused is picked again after a moment. With many refusals this would not end: the node that
                        // they are for may have left, which only the rest of the dispatcher's round can find out.
                        if replies.iter().any(|(_, _, reply)| !matches!(reply, Reply::Assigned(_))) {
                            rounds = rounds.saturating_sub(1);
                        }
                        match rounds {
                            0 => self.hear_only(replies),
                            _ => picks = self.tell(Input::Replied(replies)),
                        }
                    }
                    // It is sent again when all else is answered.
                    None => rounds = 0,
                }),
                Came::Page((after, read)) => {
                    rounds = rounds.saturating_sub(1);
                    read.map(|page| {
                        picks = self.take_in(after, page);
                        if self.backlog.is_just_read() {
                            // Serial queues, for one, stay closed until the whole backlog is read.
                            rounds = 0;
                        }
                    })
                }
                Came::News((asked, read)) => {
                    if !self.bring_nothing(&asked, &read) {
                        // Taken in after the batches in flight: a job that the news bring may end among those.
                        self.hearing.keep(asked, read);
                        rounds = 0;
                    }
                    Ok(())
                }
                Came::Ends => Ok(()),
            };
            if let Err(error) = heard {
                (ended, rounds, page, news) = (Err(error), 0, None, None);
            }
            if ended.is_err() {
                // What is picked now is not given out any more: the scheduler ends with this term.
                picks.clear();
            }
            if rounds == 0 || !picks.is_empty() {
                continue;
            }
            // What ended meanwhile makes room for the next batch.
            let reports = self.life.term.take_reports(self.backlog.ends_wanted(self.rounds.given()));
            if !reports.is_empty() {
                rounds -= 1;
                self.see_ends(&reports);
                picks = self.tell(Input::Settled(reports));
                if !self.open.pauses.is_empty() {
                    rounds = 0;
                }
            }
        }
    }

    fn assign(&mut self, picks: Vec<Pick>) -> impl Future<Output = Sent<'a>> + use<'a> {
        self.rounds.give(picks.len());
        let batch = self.new_batch();
        // Its jobs come with the reply, and are not to come twice.
        let expected = self.life.desk.expect(batch);
        self.send(batch, picks, expected)
    }

    fn new_batch(&self) -> BatchId {
        let node = &self.life.node;
        BatchId::in_order(node.clock.now(), node.chance.random())
    }

    fn send(&self, batch: BatchId, picks: Vec<Pick>, expected: bool) -> impl Future<Output = Sent<'a>> + use<'a> {
        let (life, epoch) = (self.life, self.epoch);
        let expected = Expected { life, batch, expected };
        async move {
            let assign = Assign { holder: life.incarnation, epoch, batch, picks: picks.clone() };
            let replies = life.store.assign(assign).await;
            Sent { batch, picks, expected, replies }
        }
    }

    /// `None`: no reply; the picks are in doubt.
    fn hear(&mut self, sent: Sent<'_>) -> Result<Option<Replies>, StoreError> {
        let life = self.life;
        let Sent { batch, picks, expected, replies } = sent;
        let replies = match replies {
            Ok(replies) => replies,
            Err(error) if error.is_transient() => {
                life.node.logs.no_answer("an assignment got no reply", &error);
                drop(expected);
                self.open.doubts.push(picks);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let mut mine = Vec::with_capacity(replies.len());
        let mut answers = Vec::with_capacity(replies.len());
        for (pick, (id, reply)) in picks.iter().zip(replies) {
            debug_assert_eq!(pick.job, id, "the answers come in the order of the picks");
            let reply = match reply {
                AssignReply::Mine(job) => {
                    let fence = job.fence;
                    mine.push(*job);
                    Reply::Assigned(fence)
                }
                AssignReply::Theirs(fence) => Reply::Assigned(fence),
                AssignReply::Locked => Reply::Locked,
                AssignReply::Changed(head) => Reply::Changed(head),
                AssignReply::Gone => Reply::Gone,
            };
            if let Reply::Assigned(fence) = &reply {
                life.trace(|| Record::Assign { job: id, fence: fence.0, to: pick.node });
            }
            answers.push((id, pick.fence, reply));
        }
        if !expected.expected {
            // No bell rings for what a dispatcher gives to its own node.
            life.bell.mail.notify_one();
        } else if mine.is_empty() {
            drop(expected);
        } else {
            expected.came();
            life.desk.accept(batch, mine);
        }
        Ok(Some(answers))
    }

    /// Passes the replies to the scheduler, and asks it later what to do.
    fn hear_only(&mut self, replies: Replies) {
        self.scheduler.hear(self.life.node.clock.now(), replies);
        self.rounds.ask_later();
    }

    /// Sends again what got no reply, each time as a new batch: the node may have read the first one already, and would never
    /// see the jobs that a repeat adds to it.
    pub(super) async fn repeat_doubtful(&mut self) -> Result<(), StoreError> {
        for _ in 0..self.open.doubts.len() {
            let picks = self.open.doubts.remove(0);
            let sent = self.send(self.new_batch(), picks, false).await;
            match self.hear(sent)? {
                Some(replies) => self.act(Input::Replied(replies)).await?,
                None => tokio::time::sleep(DOUBT_PAUSE).await,
            }
        }
        Ok(())
    }
}
