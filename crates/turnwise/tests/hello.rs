//! The example of README.md, run as it says there.

use turnwise::{Filter, JobState, Turnwise};

#[path = "../examples/hello.rs"]
mod hello;

#[test]
fn hello_runs_all_of_its_jobs_and_a_second_start_as_many_again() {
    let folder = tempfile::tempdir().unwrap();
    // It keeps its jobs in the folder it is started in. This is the only test of this program.
    std::env::set_current_dir(folder.path()).unwrap();
    for jobs in [18, 36] {
        hello::main().unwrap();
        let ended = async {
            let turnwise = Turnwise::open("sqlite:hello.db").await.unwrap();
            turnwise.jobs(Filter { states: vec![JobState::Success], ..Filter::default() }).await.unwrap().len()
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        assert_eq!(runtime.block_on(ended), jobs);
    }
}
