//! One run of a job: the sign that asks it to stop, and what it has said and is not written yet.

use std::{
    any::Any,
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use turnwise_core::{
    Fence, JobId, Json, Timestamp,
    secret::Mask,
    story::{Finished, LOG_LINES, Level, Line, LineAt, MAX_STEPS, Progress, line},
};
use turnwise_store::{Closing, Note};

use crate::{lock::locked, outcome::TaskError, stop_sign::StopSign};

/// New lines after which the store is asked to look whether there are too many.
pub(crate) const TRIM_EVERY: u32 = 500;

/// A run. Most say nothing, so the notes are made when one first logs or reports something.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) stop: StopSign,
    /// It was settled without waiting for it any longer.
    abandoned: AtomicBool,
    notes: OnceLock<Box<Notes>>,
    /// Set before the task begins, if there is something to hide.
    mask: OnceLock<Arc<Mask>>,
    /// What the run had to wait for before it could begin, until its task takes it.
    admission: Mutex<Option<Admitted>>,
    /// What is to be committed together with the end of the run.
    closing: Mutex<Option<Box<dyn Closing>>>,
}

struct Admitted(Box<dyn Any + Send>);

impl std::fmt::Debug for Admitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Admitted")
    }
}

impl Run {
    pub(crate) fn notes(&self) -> &Notes {
        self.notes.get_or_init(|| Box::new(Notes { mask: self.mask.get().cloned(), ..Notes::default() }))
    }

    /// What the run says from now on is kept without these secrets.
    pub(crate) fn hide(&self, mask: Mask) {
        if !mask.is_empty() {
            // A run is begun once.
            let _ = self.mask.set(Arc::new(mask));
        }
    }

    /// What is to be hidden of what is said about this run.
    pub(crate) fn mask(&self) -> Option<&Mask> {
        self.mask.get().map(|mask| &**mask)
    }

    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
        self.stop.raise();
    }

    pub(crate) fn was_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }

    /// Whether it has ever said anything.
    pub(crate) fn noted(&self) -> bool {
        self.notes.get().is_some()
    }

    /// Gives up the slot until then.
    pub(crate) fn suspend(&self, until: Timestamp) {
        locked(&self.notes().pages).wake = Some(until);
        self.stop.raise();
    }

    pub(crate) fn suspended(&self) -> Option<Timestamp> {
        locked(&self.notes.get()?.pages).wake
    }

    pub(crate) fn admit(&self, admission: Box<dyn Any + Send>) {
        *locked(&self.admission) = Some(Admitted(admission));
    }

    pub(crate) fn take_admission(&self) -> Option<Box<dyn Any + Send>> {
        locked(&self.admission).take().map(|admitted| admitted.0)
    }

    pub(crate) fn close_with(&self, closing: Box<dyn Closing>) {
        *locked(&self.closing) = Some(closing);
    }

    pub(crate) fn take_closing(&self) -> Option<Box<dyn Closing>> {
        locked(&self.closing).take()
    }

    /// It was not written after all.
    pub(crate) fn put_back(&self, note: Note) {
        self.notes().put_back(note);
    }

    /// What is to be written, if anything.
    pub(crate) fn take_note(&self, job: JobId, fence: Fence) -> Option<Note> {
        self.notes.get()?.take(job, fence)
    }
}

/// What a run has said.
#[derive(Debug, Default)]
pub struct Notes {
    /// Whether something in it is not written.
    mask: Option<Arc<Mask>>,
    unwritten: AtomicBool,
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    progress: Option<Progress>,
    lines: VecDeque<Line>,
    /// Of these lines.
    bytes: usize,
    next_line: u32,
    /// As of the last time the store was asked to look for too many.
    trimmed_at: u32,
    /// Lines that stand for others, said faster than they could be written, and for how many each stands.
    gaps: Vec<(LineAt, u32)>,
    steps: Option<BTreeMap<String, Json>>,
    sleeps: u32,
    wake: Option<Timestamp>,
}

impl Pages {
    fn skip_oldest(&mut self) {
        let Some(oldest) = self.lines.pop_front() else { return };
        self.bytes -= oldest.text.len();
        let lost = self.stands_for(oldest.at);
        // The gap is reported where it is: in the oldest line that is left, whose own text is lost with that.
        if let Some(at) = self.lines.front().map(|oldest| oldest.at) {
            let lost = lost.saturating_add(self.stands_for(at));
            self.gaps.push((at, lost));
            let oldest = &mut self.lines[0];
            self.bytes -= oldest.text.len();
            oldest.text = format!("({lost} lines were written faster than they could be kept)");
            self.bytes += oldest.text.len();
        }
    }

    /// How many lines are lost with this one.
    fn stands_for(&mut self, line: LineAt) -> u32 {
        let gap = self.gaps.iter().position(|(at, _)| *at == line);
        gap.map_or(1, |gap| self.gaps.swap_remove(gap).1)
    }
}

/// How much a run may have said that is not written yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) lines: usize,
    pub(crate) bytes: usize,
}

impl Room {
    /// Of all runs of a node together, about, unless it has very many slots.
    const BYTES: usize = 64 * 1024 * 1024;

    pub(crate) fn new(slots: u32) -> Self {
        let bytes = (Self::BYTES / slots.max(1) as usize).clamp(64 * 1024, 1024 * 1024);
        Self { lines: LOG_LINES as usize, bytes }
    }
}

impl Notes {
    pub(crate) fn progress(&self, progress: Progress) {
        let progress = match &self.mask {
            Some(mask) => mask.progress(progress),
            None => progress,
        };
        locked(&self.pages).progress = Some(progress);
        self.unwritten.store(true, Ordering::Release);
    }

    /// Adds a line; of more than `room` has that are not written yet, the oldest go, as they would in the store.
    pub(crate) fn log(&self, time: Timestamp, fence: Fence, level: Level, text: &str, room: Room) {
        let text = self.mask.as_ref().map_or(Cow::Borrowed(text), |mask| mask.text(text));
        let mut pages = locked(&self.pages);
        let at = LineAt { fence, number: pages.next_line };
        pages.next_line = pages.next_line.saturating_add(1);
        let text = line(&text);
        pages.bytes += text.len();
        pages.lines.push_back(Line { at, time, level, text });
        while pages.lines.len() > 1 && (pages.lines.len() > room.lines || pages.bytes > room.bytes) {
            pages.skip_oldest();
        }
        drop(pages);
        self.unwritten.store(true, Ordering::Release);
    }

    fn take(&self, job: JobId, fence: Fence) -> Option<Note> {
        if !self.unwritten.swap(false, Ordering::AcqRel) {
            return None;
        }
        let mut pages = locked(&self.pages);
        let lines: Vec<Line> = pages.lines.drain(..).collect();
        pages.bytes = 0;
        // They may be put back.
        pages.gaps.retain(|(at, _)| lines.iter().any(|line| line.at == *at));
        // Earlier runs may have left a full log behind.
        let trim = !lines.is_empty()
            && (pages.next_line - pages.trimmed_at >= TRIM_EVERY || (fence.assignments() > 1 && pages.trimmed_at == 0));
        if trim {
            pages.trimmed_at = pages.next_line;
        }
        Some(Note { job, fence, progress: pages.progress.take(), lines, trim, steps: Vec::new() })
    }

    fn put_back(&self, note: Note) {
        let mut pages = locked(&self.pages);
        for line in note.lines.into_iter().rev() {
            pages.bytes += line.text.len();
            pages.lines.push_front(line);
        }
        if let Some(progress) = note.progress {
            pages.progress.get_or_insert(progress);
        }
        drop(pages);
        self.unwritten.store(true, Ordering::Release);
    }

    pub(crate) fn steps_are_read(&self) -> bool {
        locked(&self.pages).steps.is_some()
    }

    pub(crate) fn read_steps(&self, steps: Vec<Finished>) {
        let known = steps.into_iter().map(|step| (step.name, step.result));
        locked(&self.pages).steps.get_or_insert_default().extend(known);
    }

    pub(crate) fn step(&self, name: &str) -> Option<Json> {
        locked(&self.pages).steps.as_ref()?.get(name).cloned()
    }

    pub(crate) fn finished(&self, step: Finished) {
        locked(&self.pages).steps.get_or_insert_default().insert(step.name, step.result);
    }

    pub(crate) fn check_room(&self) -> Result<(), TaskError> {
        if locked(&self.pages).steps.as_ref().is_some_and(|steps| steps.len() >= MAX_STEPS) {
            Err(TaskError::new(format!("a job has at most {MAX_STEPS} steps")))
        } else {
            Ok(())
        }
    }

    /// Sleeps are steps too, distinguished by their order.
    pub(crate) fn next_sleep(&self) -> u32 {
        let mut pages = locked(&self.pages);
        pages.sleeps += 1;
        pages.sleeps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_taken_once_and_the_oldest_lines_go_first() {
        let run = Run::default();
        let job = JobId::from_uuid(uuid::Uuid::nil());
        assert!(!run.noted() && run.take_note(job, Fence(1)).is_none());
        for n in 0..5 {
            run.notes().log(
                Timestamp::MIN,
                Fence(1),
                Level::Info,
                &format!("line {n}"),
                Room { lines: 3, bytes: 1_000 },
            );
        }
        run.notes().progress(Progress::new(1, 2, "half"));
        let note = run.take_note(job, Fence(1)).unwrap();
        let texts: Vec<_> = note.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["(3 lines were written faster than they could be kept)", "line 3", "line 4"]);
        assert_eq!(note.lines[0].at.number, 2);
        assert!(note.progress.is_some() && run.take_note(job, Fence(1)).is_none());
    }

    #[test]
    fn every_line_that_is_lost_is_counted_once_whether_or_not_the_others_could_be_written() {
        let (run, job) = (Run::default(), JobId::from_uuid(uuid::Uuid::nil()));
        let say = |lines: std::ops::Range<u32>| {
            let room = Room { lines: 3, bytes: 1_000 };
            lines.for_each(|n| run.notes().log(Timestamp::MIN, Fence(1), Level::Info, &n.to_string(), room));
        };
        let texts = |note: &Note| note.lines.iter().map(|line| line.text.clone()).collect::<Vec<_>>();
        let gap = |lost: u32| format!("({lost} lines were written faster than they could be kept)");
        say(0..5);
        let note = run.take_note(job, Fence(1)).unwrap();
        run.put_back(note);
        say(5..6);
        assert_eq!(texts(&run.take_note(job, Fence(1)).unwrap()), [gap(4), "4".into(), "5".into()], "0 to 3 are lost");
        // A later gap is another one.
        say(6..11);
        assert_eq!(texts(&run.take_note(job, Fence(1)).unwrap()), [gap(3), "9".into(), "10".into()], "6 to 8 are lost");
    }

    #[test]
    fn long_lines_that_are_not_written_have_a_bound_in_bytes() {
        let (run, job) = (Run::default(), JobId::from_uuid(uuid::Uuid::nil()));
        let room = Room::new(1_000);
        assert_eq!(room.bytes, 67_108);
        for _ in 0..1_000 {
            run.notes().log(Timestamp::MIN, Fence(1), Level::Info, &"x".repeat(4_000), room);
        }
        let note = run.take_note(job, Fence(1)).unwrap();
        let bytes: usize = note.lines.iter().map(|line| line.text.len()).sum();
        assert!((60_000..=room.bytes).contains(&bytes), "{bytes}");
        let skipped = 1_000 - (note.lines.len() - 1);
        assert_eq!(note.lines[0].text, format!("({skipped} lines were written faster than they could be kept)"));
        run.put_back(note);
        run.notes().log(Timestamp::MIN, Fence(1), Level::Info, &"x".repeat(4_000), room);
        let bytes: usize = run.take_note(job, Fence(1)).unwrap().lines.iter().map(|line| line.text.len()).sum();
        assert!(bytes <= room.bytes, "{bytes}");
    }
}
