//! Name → task. Collected from the `#[task]` annotations of the program, or registered one by one.

use std::{collections::BTreeMap, sync::Arc};

use turnwise_core::{Invalid, RetryPolicy, TaskName, secret::Secrets, worker::TaskLookup};

use crate::task::{AnyTask, Task};

/// A task that an annotation left for the registry to find.
pub struct Annotated(fn() -> AnyTask);

impl Annotated {
    pub const fn new(make: fn() -> AnyTask) -> Self {
        Self(make)
    }
}

inventory::collect!(Annotated);

/// Two tasks with one name: which of them would run?
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("two tasks are named {0:?}; give one of them another name")]
pub struct DuplicateTask(pub String);

/// Why a task was not registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// A task of this name is registered already, and stays so.
    #[error(transparent)]
    Duplicate(#[from] DuplicateTask),
    /// The task's name or one of its policies cannot be used; the text says which.
    #[error("task {task:?}: {invalid}")]
    Invalid { task: String, invalid: Invalid },
}

/// The tasks that a node can run, by name.
#[derive(Debug, Default, Clone)]
pub struct Registry {
    tasks: BTreeMap<TaskName, Arc<AnyTask>>,
}

impl Registry {
    /// A registry without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// All tasks annotated with `#[task]` in this program; an error if two of them have one name or one cannot be used.
    pub fn annotated() -> Result<Self, RegistryError> {
        let mut registry = Self::new();
        for Annotated(make) in inventory::iter::<Annotated> {
            registry.add(make())?;
        }
        Ok(registry)
    }

    /// Adds a task; calls can be chained. After an error it is not added, and the registry is as it was.
    pub fn register(&mut self, task: impl Task) -> Result<&mut Self, RegistryError> {
        self.add(AnyTask::new(task))?;
        Ok(self)
    }

    /// As [`Registry::register`], for a task whose types are forgotten, such as a command.
    pub fn add(&mut self, task: AnyTask) -> Result<(), RegistryError> {
        let invalid = |invalid| RegistryError::Invalid { task: task.name().to_owned(), invalid };
        let name = TaskName::new(task.name()).map_err(invalid)?;
        task.policies().map_err(invalid)?;
        if self.tasks.contains_key(&name) {
            return Err(DuplicateTask(task.name().to_owned()).into());
        }
        self.tasks.insert(name, Arc::new(task));
        Ok(())
    }

    /// The task of this name; `None` if there is none.
    pub fn get(&self, name: &TaskName) -> Option<&Arc<AnyTask>> {
        self.tasks.get(name)
    }

    /// The names of all tasks, sorted; a node reports them to the dispatcher when it joins.
    pub fn names(&self) -> impl Iterator<Item = &TaskName> {
        self.tasks.keys()
    }

    /// All tasks, sorted by name.
    pub fn tasks(&self) -> impl Iterator<Item = &AnyTask> {
        self.tasks.values().map(|task| &**task)
    }

    /// The secret fields of all tasks. What is secret for a task is secret for those that its jobs go on as with the
    /// same arguments.
    pub fn secrets(&self) -> Secrets {
        let mut secrets = Secrets::default();
        for (name, task) in &self.tasks {
            task.known().secret.iter().for_each(|pointer| secrets.add(name.clone(), pointer.clone()));
        }
        secrets.carried_on(|task| self.get(task).map(|task| task.hands_args_to()).into_iter().flatten())
    }

    /// Whether no task was registered: a node with this registry gets no jobs.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}

impl TaskLookup for Registry {
    fn retry(&self, task: &TaskName) -> Option<&RetryPolicy> {
        self.get(task)?.known().retry.as_ref()
    }

    fn on_exhausted(&self, task: &TaskName) -> Option<&TaskName> {
        self.get(task)?.known().on_exhausted.as_ref()
    }
}
