//! What runs have reported.

use turnwise_core::{
    Incarnation,
    story::{MAX_AWAITED_BY, Story},
};

use super::{Data, MemoryStore};
use crate::store::{AskStory, Note, Result, Settled};

pub(super) fn note(store: &MemoryStore, node: Incarnation, notes: Vec<Note>) -> Result<Vec<Settled>> {
    let mut data = store.data();
    let keep = store.kept.now().log_lines as usize;
    Ok(notes.into_iter().map(|note| data.note_one(node, note, keep)).collect())
}

pub(super) fn story(store: &MemoryStore, ask: AskStory) -> Result<Story> {
    let data = store.data();
    let none = Story::default();
    let story = data.stories.get(&ask.job).unwrap_or(&none);
    let limit = ask.lines as usize;
    Ok(match ask.after {
        None => {
            let skip = story.lines.len().saturating_sub(limit);
            Story {
                lines: story.lines[skip..].to_vec(),
                after: data.after.get(&ask.job).cloned().unwrap_or_default(),
                awaited_by: data.awaited_by(ask.job).take(MAX_AWAITED_BY as usize).collect(),
                ..story.clone()
            }
        }
        Some(after) => Story {
            attempts: Vec::new(),
            steps: Vec::new(),
            lines: story.lines.iter().filter(|line| line.at > after).take(limit).cloned().collect(),
            ..story.clone()
        },
    })
}

impl Data {
    pub(super) fn note_one(&mut self, node: Incarnation, note: Note, keep: usize) -> Settled {
        let held = self.jobs.get(&note.job).is_some_and(|row| row.fence == note.fence && row.in_hands_of(node));
        if !held {
            return Settled::Superseded;
        }
        let story = self.stories.entry(note.job).or_default();
        story.progress = note.progress.or(story.progress.take());
        for line in note.lines {
            if let Err(at) = story.lines.binary_search_by_key(&line.at, |line| line.at) {
                story.lines.insert(at, line);
            }
        }
        if note.trim {
            let over = story.lines.len().saturating_sub(keep);
            story.lines.drain(..over);
            story.dropped += over as u64;
        }
        for step in note.steps {
            if let Err(at) = story.steps.binary_search_by(|known| known.name.cmp(&step.name)) {
                story.steps.insert(at, step);
            }
        }
        Settled::Applied
    }
}
