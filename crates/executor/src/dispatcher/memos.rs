//! What is written down in memos: what people have set, and what the next dispatcher should know.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::Instant;
use turnwise_core::{
    GroupName, QueueName, Timestamp,
    scheduler::Input,
    settings::{QueueSettings, Settings},
};
use turnwise_store::{
    MemoKind, NewMemo, StoreError,
    memo::{self, Draft, SETTINGS, full_memo},
};

use super::{Dispatcher, charges::WrittenCharges};

/// How often charges are written down, and how many at a time.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);
const SAVE_MEMOS: usize = 10_000;

#[derive(Debug)]
pub(super) struct Memos {
    settings: Settings,
    /// Charges as they are written in the store, and how many jobs had been given out then.
    charges: WrittenCharges,
    given_before: u64,
    /// Groups that are written down as full: submits to them are refused.
    full: BTreeSet<GroupName>,
    next_save: Instant,
}

impl Memos {
    pub(super) fn new() -> Self {
        Self {
            settings: Settings::default(),
            charges: WrittenCharges::default(),
            given_before: 0,
            full: BTreeSet::new(),
            next_save: Instant::now(),
        }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }
}

impl Dispatcher<'_> {
    pub(super) async fn save_if_due(&mut self) -> Result<(), StoreError> {
        if Instant::now() >= self.memos.next_save { self.save().await } else { Ok(()) }
    }

    /// What people have set, and what the last dispatcher remembered.
    pub(super) async fn recall(&mut self) -> Result<(), StoreError> {
        let kinds = SETTINGS
            .into_iter()
            .chain([
                MemoKind::Charge,
                MemoKind::Full,
                MemoKind::Seen,
                MemoKind::Schedule,
                MemoKind::Fired,
                MemoKind::Led,
            ])
            .collect();
        let memos = self.life.store.recall(kinds).await?;
        let named = |kind| memos.iter().filter(move |memo| memo.kind == kind);
        let node = &self.life.node;
        self.remember(memo::led_memo(&memos, &node.config.name, node.clock.now()).into_iter().collect()).await?;
        self.memos.full = named(MemoKind::Full).filter_map(|memo| GroupName::new(&memo.name).ok()).collect();
        let charges = memo::charges(&memos);
        self.memos.charges = WrittenCharges::new(&charges);
        self.see_settings(memo::settings(&memos)).await?;
        self.look_back(&memos).await?;
        self.schedules.recall(&memos, &self.life.node.logs);
        self.act(Input::Charges(charges)).await
    }

    pub(super) async fn see_settings(&mut self, settings: Settings) -> Result<(), StoreError> {
        self.hearing.see_seals(&settings);
        self.memos.settings = settings.clone();
        self.act(Input::Settings(settings)).await
    }

    /// Writes down charges that have changed and groups that have become full or are so no more.
    pub(super) async fn save(&mut self) -> Result<(), StoreError> {
        self.memos.next_save = Instant::now() + SAVE_INTERVAL;
        let mut memos = if self.rounds.given() == self.memos.given_before {
            Vec::new()
        } else {
            self.memos.charges.changed(self.scheduler.charges(), SAVE_MEMOS)
        };
        self.memos.given_before = self.rounds.given();
        let seen = self.seen_memo();
        memos.extend(seen.clone());
        let mut open = std::mem::take(&mut self.memos.full);
        for (group, waiting, limit) in self.scheduler.admissions() {
            if waiting < limit {
                continue;
            }
            if !open.remove(&group) {
                memos.push(full_memo(&group, Some((waiting, limit))));
            }
            self.memos.full.insert(group);
        }
        for group in open {
            memos.push(full_memo(&group, None));
        }
        if self.remember(memos).await?
            && let Some(seen) = seen
        {
            self.seen_written(seen.value);
        }
        Ok(())
    }

    /// Sealed queues that nothing more can come to: that is a setting too, so that all processes agree on which queues are
    /// finished.
    pub(super) async fn write_quiet(&mut self, quiet: Vec<(QueueName, Timestamp)>) -> Result<(), StoreError> {
        if quiet.is_empty() {
            return Ok(());
        }
        let now = self.life.node.clock.now();
        let changes = quiet.into_iter().map(|(queue, sealed)| {
            (queue, move |set: &mut QueueSettings| {
                let changed = set.sealed == Some(sealed) && !set.closed();
                if changed {
                    set.quiet = Some(now.max(sealed));
                }
                changed
            })
        });
        match self.change_queues(changes.collect()).await? {
            Some(settings) => self.see_settings(settings).await,
            None => Ok(()),
        }
    }

    /// Changes what is set for queues. A change returns whether there is something to write. `None`: another program wrote
    /// meanwhile, or the store did not answer; nothing is lost by trying again.
    pub(super) async fn change_queues(
        &self,
        changes: Vec<(QueueName, impl FnOnce(&mut QueueSettings) -> bool)>,
    ) -> Result<Option<Settings>, StoreError> {
        let (store, lead) = (&*self.life.store, Some((self.life.incarnation, self.epoch)));
        let change = async {
            let mut draft = Draft::read(store, SETTINGS).await?;
            let mut settings = memo::settings(draft.memos());
            for (queue, change) in changes {
                let set = settings.queues.entry(queue.clone()).or_default();
                if change(set) {
                    draft.set(MemoKind::Queue, queue.as_str(), Some(set))?;
                }
            }
            Ok(draft.write(store, lead).await?.then_some(settings))
        };
        match change.await {
            Err(StoreError::Transient { .. }) => Ok(None),
            changed => changed,
        }
    }

    /// Whether it is written.
    pub(super) async fn remember(&self, memos: Vec<NewMemo>) -> Result<bool, StoreError> {
        if memos.is_empty() {
            return Ok(true);
        }
        match self.life.store.remember(Some((self.life.incarnation, self.epoch)), memos).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_transient() => {
                self.life.node.logs.no_answer("could not write down charges", &error);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
