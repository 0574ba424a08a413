//! README.md and the guides, tried out: every command of a ```sh block is run with the real binary, in the order of its page, in
//! an empty folder; every ```toml block starts a node; every ```sql block is run on PostgreSQL; ```python and ```js are compiled, the
//! latter where node is installed. (Rust: crates/turnwise/tests/guides.rs.)
//!
//! Above a block may stand `<!-- not run: why -->`, and then it must still be a script; or `<!-- only read: why -->` where its commands
//! would take too long: then their options must exist. A command that is to fail says so: `# exit code 3`.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    net::TcpListener,
    os::unix::{fs::symlink, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use tokio_postgres::NoTls;
use turnwise_testpg::Cluster;

/// A page takes as long as its demo; one that hangs fails.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a person has at hand whose words the scripts use: a node in the background, stopped at the end.
const PREAMBLE: &str = r#"set -eu
if ! command -v sqlite3 >/dev/null; then
    # The `.backup` of SQLite's own shell, where that is not installed.
    sqlite3() { python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).backup(sqlite3.connect(sys.argv[2].split("\x27")[1]))' "$@"; }
fi
nodes=
trap 'kill $nodes 2>/dev/null || :; wait || :' EXIT
serve() {
    turnwise serve "$@" >node.out 2>&1 &
    nodes="$nodes $!"
    until grep -q ready node.out; do
        kill -0 $! || { cat node.out >&2; exit 98; }
        sleep 0.1
    done
}
"#;

#[derive(Debug, PartialEq)]
enum Treatment {
    Run,
    OnlyRead,
    NotRun,
}

#[derive(Debug)]
struct Block<'a> {
    line: usize,
    language: &'a str,
    treatment: Treatment,
    text: Vec<&'a str>,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let (mut found, mut before) = (Vec::new(), "");
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let treatment = match before {
                note if note.starts_with("<!-- not run: ") => Treatment::NotRun,
                note if note.starts_with("<!-- only read: ") => Treatment::OnlyRead,
                _ => Treatment::Run,
            };
            let text = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            found.push(Block { line: at + 1, language, treatment, text });
        }
        before = line;
    }
    found
}

fn root() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

/// README, the guides, and the page about queues, which is one.
fn pages() -> Vec<(String, String)> {
    let guides = fs::read_dir(root().join("docs/guides")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = guides.chain([root().join("README.md"), root().join("docs/queues.md")]).collect();
    files.sort();
    assert!(files.len() > 10, "{files:?}");
    let name = |file: &PathBuf| file.file_name().unwrap().to_string_lossy().into_owned();
    files.iter().map(|file| (name(file), fs::read_to_string(file).unwrap())).collect()
}

/// The page as a script. A block of TOML becomes the settings file from there on.
fn script(page: &str) -> String {
    let mut script = PREAMBLE.to_owned();
    for block in blocks(page) {
        script += &format!("echo '== the block at line {}' >&2\n", block.line);
        let text = block.text.join("\n");
        match block.language {
            "sh" if block.treatment == Treatment::NotRun => script += &format!("sh -n <<'SCRIPT'\n{text}\nSCRIPT\n"),
            "python" => {
                script += &format!("cat >block.py <<'PYTHON'\n{text}\nPYTHON\npython3 -m py_compile block.py\n")
            }
            "json" => script += &format!("python3 -m json.tool >/dev/null <<'JSON'\n{text}\nJSON\n"),
            "js" => {
                script += &format!("cat >block.mjs <<'JS'\n{text}\nJS\n");
                script += "if command -v node >/dev/null; then node --check block.mjs; fi\n";
            }
            _ if block.treatment == Treatment::NotRun => {}
            "sh" => script.extend(block.text.iter().map(|line| as_run(line, &block.treatment) + "\n")),
            "toml" if !is_manifest(&block) => {
                script += &format!("cat >turnwise.toml <<'TOML'\n{text}\nTOML\n");
                script += "turnwise serve --until-empty --database sqlite:settings.db\n";
            }
            "ini" => {
                let started = block.text.iter().filter_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/"));
                script.extend(started.map(|line| as_run(line, &Treatment::OnlyRead) + "\n"));
            }
            _ => {}
        }
    }
    script
}

fn is_manifest(block: &Block<'_>) -> bool {
    block.text.first() == Some(&"[dependencies]")
}

/// A line of a guide as the test's shell runs it.
fn as_run(line: &str, treatment: &Treatment) -> String {
    let line = line.replace("cargo run --bin turnwise --", "turnwise");
    let words: Vec<_> =
        line.split(' ').map(|word| if word.starts_with("postgres://") { "\"$DATABASE\"" } else { word }).collect();
    let line = words.join(" ");
    let (command, comment) = line.split_once(" # ").unwrap_or((&line, ""));
    let command = command.trim_end();
    if *treatment == Treatment::OnlyRead {
        return format!("{command} --help >/dev/null");
    }
    if let Some(code) = comment.strip_prefix("exit code ") {
        return format!("set +e; {command}; [ $? -eq {code} ] || exit 99; set -e");
    }
    match command.strip_prefix("turnwise serve") {
        Some(flags) if !flags.contains("--until-empty") => format!("serve{flags}"),
        _ => command.to_owned(),
    }
}

/// What goes wrong when the page is followed to the letter.
fn problem(name: &str, page: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("programs");
    fs::create_dir(&programs).unwrap();
    symlink(env!("CARGO_BIN_EXE_turnwise"), programs.join("turnwise")).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let file = |name: &str| folder.path().join(name);
    // The reader of a guide has a database already; README makes its own.
    let made = if name == "README.md" { "" } else { "turnwise migrate >/dev/null\n" };
    // The port that a page names may be another page's, or another program's.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).unwrap();
    let page = page.replace("127.0.0.1:8080", &free.to_string());
    fs::write(file("script"), format!("{made}{}", script(&page))).unwrap();
    let mut shell = Command::new("sh")
        .arg("script")
        .current_dir(folder.path())
        .process_group(0)
        .env_clear()
        .env("PATH", path)
        .env("HOME", folder.path())
        .env("DATABASE", Cluster::shared().fresh_database().unwrap())
        .stdin(File::open("/dev/null").unwrap())
        .stdout(File::create(file("stdout")).unwrap())
        .stderr(File::create(file("stderr")).unwrap())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + PATIENCE;
    let ended = loop {
        match shell.try_wait().unwrap() {
            Some(status) => break status.to_string(),
            None if Instant::now() > deadline => {
                // The node that the page has started, too.
                let group = format!("-{}", shell.id());
                assert!(Command::new("kill").args(["-s", "KILL", "--", &group]).status().unwrap().success());
                shell.wait().unwrap();
                break format!("is not done after {PATIENCE:?}");
            }
            None => thread::sleep(Duration::from_millis(50)),
        }
    };
    let read = |name: &str| String::from_utf8_lossy(&fs::read(file(name)).unwrap()).into_owned();
    let (said, printed) = (read("stderr"), read("stdout"));
    let last = said.lines().rfind(|line| line.starts_with("== ")).unwrap_or("nothing").to_owned();
    (ended != "exit status: 0").then(|| format!("{name}: {ended}, after {last}\n{printed}\n{said}"))
}

#[test]
fn every_command_and_every_settings_file_of_the_guides_works() {
    let pages = pages();
    let problems: Vec<_> = thread::scope(|scope| {
        let tried: Vec<_> = pages.iter().map(|(name, page)| scope.spawn(move || problem(name, page))).collect();
        tried.into_iter().filter_map(|page| page.join().unwrap()).collect()
    });
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

#[tokio::test]
async fn every_sql_block_of_the_guides_works() {
    let mut tried = 0;
    for (name, page) in pages() {
        for block in blocks(&page).iter().filter(|block| block.language == "sql") {
            if block.treatment == Treatment::NotRun {
                continue;
            }
            let database = Cluster::shared().fresh_database().unwrap();
            let migrated =
                Command::new(env!("CARGO_BIN_EXE_turnwise")).args(["migrate", "--database", &database]).output();
            assert!(migrated.unwrap().status.success());
            let (client, connection) = tokio_postgres::connect(&database, NoTls).await.unwrap();
            let connection = tokio::spawn(connection);
            let ran = client.batch_execute(&block.text.join("\n")).await;
            ran.unwrap_or_else(|error| panic!("{name}, line {}: {error:?}", block.line));
            drop(client);
            connection.await.unwrap().unwrap();
            tried += 1;
        }
    }
    assert!(tried > 0, "no SQL was found");
}

/// Blocks in other languages are neither commands nor code; a typo in the language would hide one.
#[test]
fn every_block_of_the_guides_is_of_a_known_language() {
    for (name, page) in pages() {
        for block in blocks(&page) {
            // What is in TypeScript is compiled by clients/typescript/check.
            let known =
                ["sh", "toml", "sql", "ini", "rust", "text", "python", "js", "json", "ts"].contains(&block.language);
            assert!(known, "{name}, line {}: {:?}", block.line, block.language);
        }
    }
}

#[test]
fn readme_names_the_repository_and_every_feature() {
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    let readme = read("README.md");
    let manifest: toml::Table = read("crates/turnwise/Cargo.toml").parse().unwrap();
    let workspace: toml::Table = read("Cargo.toml").parse().unwrap();
    let features: BTreeSet<_> =
        manifest["features"].as_table().unwrap().keys().filter(|name| *name != "default").collect();
    for feature in features {
        assert!(readme.contains(&format!("`{feature}`")), "README does not name the feature {feature}");
    }
    let sqlx = workspace["workspace"]["dependencies"]["sqlx"]["version"].as_str().unwrap();
    assert!(readme.contains(&format!("(https://docs.rs/sqlx) {sqlx}")), "README names another sqlx than {sqlx}");
    let repository = workspace["workspace"]["package"]["repository"].as_str().unwrap();
    let blocks = blocks(&readme);
    let dependency = blocks.iter().find(|block| is_manifest(block)).expect("README shows how to depend on it");
    let dependency: toml::Table = dependency.text.join("\n").parse().unwrap();
    assert_eq!(dependency["dependencies"]["turnwise"]["git"].as_str(), Some(repository));
    assert!(readme.contains(&format!("cargo install --locked --git {repository} turnwise-cli")));
}

#[test]
fn a_page_is_followed_to_the_letter() {
    let page = "a\n```sh\nturnwise frobnicate\n```\n";
    assert!(problem("a page", page).unwrap().starts_with("a page: exit status: 2, after == the block at line 2\n"));
    assert_eq!(problem("a page", &page.replace("frobnicate", "frobnicate   # exit code 2")), None);
    assert!(problem("a page", &page.replace("frobnicate", "jobs # exit code 2")).is_some());
    assert_eq!(problem("a page", &page.replace("a\n", "<!-- not run: why -->\n")), None);
    let read = "<!-- only read: why -->\n```sh\nturnwise bench --jobs 1000000   # long\n```\n";
    assert_eq!(problem("a page", read), None);
    assert!(problem("a page", &read.replace("--jobs", "--jbos")).is_some());
    let not_run = "<!-- not run: why -->\n```sh\nif true; then\n```\n";
    assert!(problem("a page", not_run).is_some(), "it is no script");
    assert_eq!(problem("a page", "```python\nprint(1)\n```\n"), None);
    assert!(problem("a page", "```python\nprint(\n```\n").is_some());
    assert!(problem("a page", "```toml\n[executor]\nslotz = 1\n```\n").is_some());
}
