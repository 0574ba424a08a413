//! Task names that no node knows: a typing mistake is reported at once, and not by a job that waits for ever.

use std::collections::BTreeSet;

use crate::{
    error::{Failure, remark},
    look,
    place::Place,
};

/// Edits between two names that are taken for one another.
const TYPING_MISTAKE: usize = 2;

/// `; did you mean "mail"?` if a known name is nearly this one; else nothing.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let nearly = known.into_iter().map(|known| (strsim::damerau_levenshtein(name, known), known));
    let nearest = nearly.filter(|(edits, _)| *edits <= TYPING_MISTAKE && *edits < name.chars().count()).min();
    nearest.map_or_else(String::new, |(_, known)| format!("; did you mean {known:?}?"))
}

/// What is to be said about those of the tasks that no living node knows, a line each.
pub(crate) async fn unknown(place: &Place, tasks: &BTreeSet<String>) -> Result<Vec<String>, Failure> {
    let living = look::living(place).await?;
    let known: BTreeSet<&str> = living.iter().flat_map(|node| node.tasks.iter().map(String::as_str)).collect();
    let unknown = tasks.iter().map(String::as_str).filter(|task| !known.contains(task));
    Ok(unknown
        .map(|task| {
            if living.is_empty() {
                return format!("no node is alive; the task {task:?} waits until one that knows it is started");
            }
            let hint = did_you_mean(task, known.iter().copied());
            format!("no living node knows the task {task:?}; it waits until one does{hint}")
        })
        .collect())
}

/// Lines of this kind in one command; the rest are counted.
const MAX_WARNINGS: usize = 10;

/// Warns about tasks of stored jobs that no living node knows. That the nodes cannot be read, or not by this
/// token, is no failure: the jobs are stored.
pub(crate) async fn warn(place: &Place, tasks: &BTreeSet<String>) {
    let lines = unknown(place, tasks).await.unwrap_or_default();
    lines.iter().take(MAX_WARNINGS).for_each(|line| remark(&format!("warning: {line}")));
    if lines.len() > MAX_WARNINGS {
        remark(&format!("warning: and {} more tasks that no living node knows", lines.len() - MAX_WARNINGS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_mistake_is_recognised_and_another_word_is_not() {
        let known = ["mail", "report", "thumbnail"];
        assert_eq!(did_you_mean("mial", known), "; did you mean \"mail\"?");
        assert_eq!(did_you_mean("reports", known), "; did you mean \"report\"?");
        assert_eq!(did_you_mean("invoice", known), "");
        assert_eq!(did_you_mean("ma", known), "", "nothing of it would be left");
    }
}
