//! Tidy is a test: what the compiler does not see but a reader relies on.
//!
//! Each rule is a function from a repository to the list of its offences, so that each is tried on a small repository
//! that breaks it before it judges ours.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The crates `core` may use: data and time as values, nothing that waits, reads a clock or communicates.
const CORE_MAY_USE: [&str; 8] = ["croner", "foldhash", "jiff", "serde", "serde_json", "sha2", "thiserror", "uuid"];

/// SQLite has one writer, which is a thread of its own there: callers who come together share its commits, however many jobs
/// they bring. Its file may be replaced while it is open. PostgreSQL has one way to bring callers together, and another for many jobs. Only PostgreSQL is connected to, and only
/// there callers have one of two drivers.
const ONLY_IN_SQLITE: [&str; 3] = ["location.rs", "open_file.rs", "writer.rs"];
/// A folder stands for all that is in it.
const ONLY_IN_POSTGRES: [&str; 6] = ["connect.rs", "connect", "gather.rs", "session.rs", "sqlx.rs", "submit.rs"];

#[test]
fn the_two_drivers_have_the_same_files() {
    assert_tidy(unmirrored_drivers(&repository()));
}

#[test]
fn every_sql_file_is_used() {
    assert_tidy(unused_sql(&repository()));
}

#[test]
fn every_relative_link_in_the_docs_leads_somewhere() {
    assert_tidy(dead_links(&repository()));
}

#[test]
fn core_depends_on_nothing_that_waits_or_talks() {
    assert_tidy(foreign_dependencies_of_core(&repository()));
}

#[test]
fn only_sqlite_opens_the_file() {
    assert_tidy(opened_files(&repository()));
}

#[test]
fn every_rust_file_is_compiled() {
    assert_tidy(unreachable_rust(&repository()));
}

#[test]
fn every_test_that_a_page_links_to_is_there() {
    assert_tidy(promised_tests(&repository()));
}

fn assert_tidy(offences: Vec<String>) {
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

fn unmirrored_drivers(root: &Path) -> Vec<String> {
    let names = |driver: &str| -> BTreeSet<PathBuf> {
        let source = root.join("crates").join(driver).join("src");
        files(&source, "rs").iter().map(|file| relative(&source, file)).collect()
    };
    let (sqlite, postgres) = (names("sqlite"), names("postgres"));
    let only = |file: &Path, here: &str, there: &str| {
        format!("crates/{here}/src/{} has no counterpart in crates/{there}/src", file.display())
    };
    let known = |names: &[&str], file: &Path| names.iter().any(|name| file.starts_with(name));
    let in_sqlite = sqlite.difference(&postgres).filter(|file| !known(&ONLY_IN_SQLITE, file));
    let in_sqlite = in_sqlite.map(|file| only(file, "sqlite", "postgres"));
    let in_postgres = postgres.difference(&sqlite).filter(|file| !known(&ONLY_IN_POSTGRES, file));
    let in_postgres = in_postgres.map(|file| only(file, "postgres", "sqlite"));
    in_sqlite.chain(in_postgres).collect()
}

fn unused_sql(root: &Path) -> Vec<String> {
    let included: BTreeSet<PathBuf> = files(&root.join("crates"), "rs")
        .iter()
        .flat_map(|file| {
            let folder = file.parent().expect("a file is in a folder").to_owned();
            included_texts(&read(file)).into_iter().map(move |path| normal(&folder.join(path)))
        })
        .collect();
    files(&root.join("crates"), "sql")
        .into_iter()
        .filter(|file| {
            let path = relative(root, file);
            let folder = path.components().nth(2).map(Component::as_os_str);
            folder.is_some_and(|folder| folder == "sql" || folder == "migrations")
        })
        .filter(|file| !included.contains(&normal(file)))
        .map(|file| format!("{} is in no include_str!", relative(root, &file).display()))
        .collect()
}

/// The literal paths of all `include_str!("…")`, over line breaks too.
fn included_texts(source: &str) -> Vec<String> {
    let calls = without_line_comments(source);
    let calls = calls.split("include_str!").skip(1);
    calls
        .filter_map(|call| call.trim_start().strip_prefix('(')?.trim_start().strip_prefix('"')?.split('"').next())
        .map(str::to_owned)
        .collect()
}

fn dead_links(root: &Path) -> Vec<String> {
    let mut dead = Vec::new();
    for file in files(root, "md") {
        let folder = file.parent().expect("a file is in a folder");
        for target in links(&read(&file)) {
            let outside = target.contains("://") || target.starts_with("mailto:");
            let path = target.split(['#', '?']).next().unwrap_or_default();
            let path = path.replace("%20", " ");
            let place = match path.strip_prefix('/') {
                Some(from_root) => root.join(from_root),
                None => folder.join(&path),
            };
            if !outside && !path.is_empty() && !place.exists() {
                dead.push(format!("{}: the link to {target} leads nowhere", relative(root, &file).display()));
            }
        }
    }
    dead
}

/// The targets of `[text](target)` and of `[name]: target` outside of code.
fn links(markdown: &str) -> Vec<String> {
    let mut fenced = false;
    let mut targets = Vec::new();
    for line in markdown.lines() {
        let start = line.trim_start();
        if start.starts_with("```") || start.starts_with("~~~") {
            fenced = !fenced;
            continue;
        }
        if fenced {
            continue;
        }
        // Every second piece between backquotes is code.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
        for rest in prose.split("](").skip(1) {
            targets.extend(rest.split([')', ' ']).next().map(|target| target.trim_matches(['<', '>']).to_owned()));
        }
        if prose.starts_with('[')
            && let Some((_, target)) = prose.split_once("]: ")
        {
            targets.extend(target.split_whitespace().next().map(str::to_owned));
        }
    }
    targets
}

/// Links like [`name_of_a_test`](file.rs) to a file without that function.
fn promised_tests(root: &Path) -> Vec<String> {
    let mut missing = Vec::new();
    for file in files(root, "md") {
        let folder = file.parent().expect("a file is in a folder");
        let text = read(&file);
        for link in text.split("[`").skip(1) {
            let Some((name, rest)) = link.split_once("`](") else { continue };
            let Some((target, _)) = rest.split_once(')') else { continue };
            let is_name = name.chars().all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit());
            if !(is_name && target.ends_with(".rs")) {
                continue;
            }
            let source = fs::read_to_string(folder.join(target)).unwrap_or_default();
            if !source.contains(&format!("fn {name}(")) {
                missing.push(format!("{}: there is no {name} in {target}", relative(root, &file).display()));
            }
        }
    }
    missing
}

fn foreign_dependencies_of_core(root: &Path) -> Vec<String> {
    dependencies(&read(&root.join("crates/core/Cargo.toml")))
        .into_iter()
        .filter(|name| !CORE_MAY_USE.contains(&name.as_str()))
        .map(|name| format!("crates/core/Cargo.toml depends on {name}"))
        .collect()
}

/// Closing a file drops all locks of a process on it, those of SQLite too: its driver opens none.
fn opened_files(root: &Path) -> Vec<String> {
    let opens = ["File::", "OpenOptions", "fs::read(", "fs::read_to_string", "fs::copy", "fs::write", "rustix"];
    let mut offences = Vec::new();
    for file in files(&root.join("crates/sqlite/src"), "rs") {
        let source = without_line_comments(&read(&file));
        let code = source.split("mod tests {").next().unwrap_or_default();
        let names = |call: &&&str| code.contains(&format!("::{call}")) || code.contains(&format!(" {call}"));
        offences.extend(opens.iter().filter(names).map(|call| {
            format!("{}: {call} may close a file that SQLite has locked", relative(root, &file).display())
        }));
    }
    offences
}

/// The names below every `[dependencies]` and `[build-dependencies]`, those of a target too; tests may use more.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut within = false;
    let mut names = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
            let listed = |kind: &str| section == kind || section.ends_with(&format!(".{kind}"));
            within = listed("dependencies") || listed("build-dependencies");
            let single = ["dependencies.", "build-dependencies."].iter().find_map(|kind| {
                let (before, name) = section.split_once(kind)?;
                (before.is_empty() || before.ends_with('.')).then_some(name)
            });
            names.extend(single.map(str::to_owned));
        } else if within && line.contains('=') && !line.starts_with('#') {
            names.extend(line.split(['.', ' ', '=']).next().map(|name| name.trim_matches('"').to_owned()));
        }
    }
    names
}

fn unreachable_rust(root: &Path) -> Vec<String> {
    let all: BTreeSet<PathBuf> = files(root, "rs").iter().map(|file| normal(file)).collect();
    let packages = files(root, "toml").into_iter().filter(|file| file.ends_with("Cargo.toml"));
    let mut reached = BTreeSet::new();
    let mut next: Vec<PathBuf> = packages.flat_map(|manifest| crate_roots(&manifest, &all)).collect();
    while let Some(file) = next.pop() {
        if all.contains(&file) && reached.insert(file.clone()) {
            next.extend(modules(&file, &read(&file)));
        }
    }
    all.difference(&reached).map(|file| format!("{} is reached by no `mod`", relative(root, file).display())).collect()
}

/// The files cargo compiles by their place, and those the manifest names.
fn crate_roots(manifest: &Path, all: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let package = normal(manifest.parent().expect("a manifest is in a folder"));
    let text = read(manifest);
    let named = text.lines().filter_map(|line| line.trim().strip_prefix("path")?.split('"').nth(1));
    let mut roots: Vec<PathBuf> = named.map(|path| normal(&package.join(path))).collect();
    roots.extend(["build.rs", "src/lib.rs", "src/main.rs"].map(|file| package.join(file)));
    for folder in ["src/bin", "tests", "examples", "benches"].map(|folder| package.join(folder)) {
        let by_place = |file: &&PathBuf| {
            let parent = file.parent();
            parent == Some(&folder) || (file.ends_with("main.rs") && parent.and_then(Path::parent) == Some(&folder))
        };
        roots.extend(all.iter().filter(by_place).cloned());
    }
    roots
}

/// Where the modules that `file` declares without a body may be.
fn modules(file: &Path, source: &str) -> Vec<PathBuf> {
    let folder = file.parent().expect("a file is in a folder");
    let stem = file.file_stem().expect("a file has a name");
    let code = without_line_comments(source);
    let mut places = Vec::new();
    let mut path_attribute = None;
    // Modules with a body that are open at this line, each with its indentation: rustfmt closes them at the same one.
    let mut open: Vec<(usize, String)> = Vec::new();
    for line in code.lines() {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if line == "}" && open.last().is_some_and(|(opened, _)| *opened == indent) {
            open.pop();
        }
        if let Some(path) = line.strip_prefix("#[path") {
            path_attribute = path.split('"').nth(1).map(|path| normal(&folder.join(path)));
        }
        let Some(declared) = declared_module(line) else { continue };
        match declared {
            (name, true) => open.push((indent, name.to_owned())),
            (name, false) => {
                let inside: PathBuf = open.iter().map(|(_, name)| name.as_str()).collect();
                // Crate roots and mod.rs have their modules beside them, others in the folder of their name. Which
                // files are roots depends on the manifest, so both places count.
                for place in [folder.to_owned(), folder.join(stem)] {
                    places.push(normal(&place.join(&inside).join(name).with_extension("rs")));
                    places.push(normal(&place.join(&inside).join(name).join("mod.rs")));
                }
                places.extend(path_attribute.take());
            }
        }
    }
    places
}

/// `pub(crate) mod name;` → the name, and whether a body follows.
fn declared_module(line: &str) -> Option<(&str, bool)> {
    let before = line.strip_prefix("mod ").map(|rest| ("", rest)).or_else(|| line.split_once(" mod "));
    let (visibility, rest) = before?;
    let known = visibility.rsplit(']').next().unwrap_or_default().trim();
    if !(known.is_empty() || known == "pub" || (known.starts_with("pub(") && known.ends_with(')'))) {
        return None;
    }
    let end = rest.find(|character: char| !character.is_alphanumeric() && character != '_')?;
    match rest[end..].trim_start().chars().next()? {
        ';' => Some((&rest[..end], false)),
        '{' if !rest.trim_end().ends_with('}') => Some((&rest[..end], true)),
        _ => None,
    }
}

fn without_line_comments(source: &str) -> String {
    source.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

fn repository() -> PathBuf {
    normal(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
}

/// All files below `folder` that end with `extension`; not what was built, and nothing hidden.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut next = vec![folder.to_owned()];
    while let Some(folder) = next.pop() {
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let skipped = name == "target" || name == "node_modules" || name.as_encoded_bytes().starts_with(b".");
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !skipped => next.push(path),
                Ok(kind) if kind.is_file() && path.extension().is_some_and(|found| found == extension) => {
                    found.push(path);
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("read {}: {error}", file.display()))
}

fn relative(root: &Path, file: &Path) -> PathBuf {
    file.strip_prefix(root).unwrap_or(file).to_owned()
}

/// The path without `.` and `..`, whether it exists or not.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

/// A repository of these files, which breaks the rule under test.
fn untidy(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files.iter().copied().collect::<BTreeMap<_, _>>() {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

#[test]
fn a_file_of_one_driver_only_is_an_offence() {
    let root = untidy(&[
        ("crates/sqlite/src/assign.rs", ""),
        ("crates/sqlite/src/settle.rs", ""),
        ("crates/sqlite/src/writer.rs", ""),
        ("crates/postgres/src/assign.rs", ""),
        ("crates/postgres/src/writer.rs", ""),
        ("crates/postgres/src/pool.rs", ""),
    ]);
    assert_eq!(
        unmirrored_drivers(root.path()),
        [
            "crates/sqlite/src/settle.rs has no counterpart in crates/postgres/src",
            "crates/postgres/src/pool.rs has no counterpart in crates/sqlite/src",
        ]
    );
}

#[test]
fn an_sql_file_that_no_code_includes_is_an_offence() {
    let root = untidy(&[
        ("crates/a/src/lib.rs", "const A: &str = include_str!(\n    \"../sql/used.sql\"\n);"),
        ("crates/a/src/b.rs", "// include_str!(\"../sql/commented.sql\")"),
        ("crates/a/sql/used.sql", ""),
        ("crates/a/sql/commented.sql", ""),
        ("crates/a/sql/deep/unused.sql", ""),
        ("crates/a/migrations/0001_begin.sql", ""),
        ("crates/a/tests/example.sql", ""),
    ]);
    assert_eq!(
        unused_sql(root.path()),
        ["migrations/0001_begin.sql", "sql/commented.sql", "sql/deep/unused.sql"]
            .map(|file| format!("crates/a/{file} is in no include_str!"))
    );
}

#[test]
fn a_link_to_nothing_is_an_offence() {
    let page = "[a](docs/page.md#part) [b](gone.md) [c](https://example.org) [d](#here) `[e](code.md)`\n\
                ```\n[f](fenced.md)\n```\n[g]: gone-too.md\n";
    let root = untidy(&[("README.md", page), ("docs/page.md", "[up](../README.md) [side](other.md \"title\")")]);
    assert_eq!(
        dead_links(root.path()),
        [
            "README.md: the link to gone.md leads nowhere",
            "README.md: the link to gone-too.md leads nowhere",
            "docs/page.md: the link to other.md leads nowhere",
        ]
    );
}

#[test]
fn a_test_that_is_named_and_not_there_is_an_offence() {
    let page = "[`it_holds`](tests/a.rs) [`it_is_gone`](tests/a.rs) [`Type`](tests/a.rs) [`it_is_gone`](other.md)";
    let root = untidy(&[("README.md", page), ("tests/a.rs", "#[test]\nfn it_holds() {}\n")]);
    assert_eq!(promised_tests(root.path()), ["README.md: there is no it_is_gone in tests/a.rs"]);
}

#[test]
fn a_clock_or_a_runtime_in_core_is_an_offence() {
    let manifest = "[package]\nname = \"core\"\n[dependencies]\nserde = \"1\"\ntokio.workspace = true\n\
                    [target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n[dependencies.rand]\nversion = \"0.9\"\n\
                    [dev-dependencies]\nproptest = \"1\"\n";
    let root = untidy(&[("crates/core/Cargo.toml", manifest)]);
    assert_eq!(
        foreign_dependencies_of_core(root.path()),
        ["tokio", "libc", "rand"].map(|name| format!("crates/core/Cargo.toml depends on {name}"))
    );
}

#[test]
fn a_driver_of_sqlite_that_opens_a_file_is_an_offence() {
    let opening = "fn head() { let file = std::fs::File::open(path); }\n// File::open\n";
    let root = untidy(&[
        ("crates/sqlite/src/store.rs", opening),
        ("crates/sqlite/src/other.rs", "struct OpenFile;\nimpl OpenFile { fn read() { OpenFile::check(); } }\n"),
        ("crates/sqlite/src/tested.rs", "mod tests { use std::fs::File; fn a() { File::open(path); } }\n"),
        ("crates/postgres/src/store.rs", opening),
    ]);
    assert_eq!(
        opened_files(root.path()),
        ["crates/sqlite/src/store.rs: File:: may close a file that SQLite has locked"]
    );
}

#[test]
fn a_rust_file_without_its_mod_is_an_offence() {
    let root = untidy(&[
        ("crates/a/Cargo.toml", "[package]\nname = \"a\"\n"),
        (
            "crates/a/src/lib.rs",
            "pub mod one;\n#[cfg(test)]\nmod two;\n// mod forgotten;\nmod inline {\n    mod deep;\n}\n",
        ),
        ("crates/a/src/one.rs", "pub(crate) mod child;\n"),
        ("crates/a/src/one/child.rs", ""),
        ("crates/a/src/one/orphan.rs", ""),
        ("crates/a/src/two/mod.rs", "#[path = \"odd-name.rs\"]\nmod odd;\n"),
        ("crates/a/src/two/odd-name.rs", ""),
        ("crates/a/src/inline/deep.rs", ""),
        ("crates/a/src/forgotten.rs", ""),
        ("crates/a/src/bin/tool.rs", ""),
        ("crates/a/tests/whole.rs", ""),
        ("crates/a/tests/suite/main.rs", "mod part;\n"),
        ("crates/a/tests/suite/part.rs", ""),
        ("crates/a/tests/suite/lost.rs", ""),
        ("stray.rs", ""),
    ]);
    assert_eq!(
        unreachable_rust(root.path()),
        [
            "crates/a/src/forgotten.rs is reached by no `mod`",
            "crates/a/src/one/orphan.rs is reached by no `mod`",
            "crates/a/tests/suite/lost.rs is reached by no `mod`",
            "stray.rs is reached by no `mod`",
        ]
    );
}
