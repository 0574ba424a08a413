//! Help, completions and manual pages, which are all printed from the command line itself.

mod support;

use std::{collections::BTreeSet, fs};

use support::{Place, refused};

/// The commands that `--help` lists, below `path`.
fn listed(place: &Place, path: &[&str]) -> Vec<String> {
    let help = place.told(&[path, &["--help"]].concat());
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let named = commands.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    named.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn the_completions_of_every_shell_name_every_command() {
    let place = Place::new();
    let commands = listed(&place, &[]);
    assert!(commands.len() > 20 && commands.contains(&"completions".to_owned()), "{commands:?}");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = place.told(&["completions", shell]);
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell}: no {command}");
        }
        assert!(script.contains("until-empty") && script.contains("max-waiting"), "{shell}: options are missing");
    }
    assert!(
        place.refused(&["completions", "tcsh"], 2).contains("possible values: bash, elvish, fish, powershell, zsh")
    );
}

#[test]
fn the_script_for_bash_is_a_script_of_bash() {
    let place = Place::new();
    fs::write(place.path().join("script"), place.told(&["completions", "bash"])).unwrap();
    let complete = r#". ./script; COMP_WORDS=(turnwise enq); COMP_CWORD=1; _turnwise turnwise enq turnwise; echo "${COMPREPLY[@]}""#;
    let bash = std::process::Command::new("bash").args(["-c", complete]).current_dir(place.path()).output().unwrap();
    assert_eq!(String::from_utf8(bash.stdout).unwrap(), "enqueue\n", "{}", String::from_utf8_lossy(&bash.stderr));
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let place = Place::new();
    let page = place.told(&["man"]);
    assert!(page.contains(".TH turnwise 1") && page.contains("TURNWISE_DATABASE"), "{page}");
    fs::create_dir(place.path().join("man")).unwrap();
    place.told(&["man", "--out", "man"]);
    let files = fs::read_dir(place.path().join("man")).unwrap();
    let files: BTreeSet<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    for command in listed(&place, &[]) {
        assert!(page.contains(&command.replace('-', "\\-")), "{command}");
        assert!(files.contains(&format!("turnwise-{command}.1")), "{command}: {files:?}");
        for verb in listed(&place, &[&command]) {
            assert!(files.contains(&format!("turnwise-{command}-{verb}.1")), "{command} {verb}: {files:?}");
        }
    }
    assert!(fs::read_to_string(place.path().join("man/turnwise-serve.1")).unwrap().contains("until\\-empty"));
    assert!(place.refused(&["man", "--out", "nowhere"], 2).contains("nowhere"));
}

/// A broken settings file keeps no reader from the manual.
#[test]
fn reference_needs_no_settings() {
    let place = Place::new();
    fs::write(place.path().join("turnwise.toml"), "nonsense = 1").unwrap();
    place.refused(&["jobs"], 2);
    place.told(&["completions", "bash"]);
    place.told(&["man"]);
}

#[test]
fn help_keeps_the_options_of_every_command_apart() {
    let help = Place::new().told(&["serve", "--help"]);
    let (own, global) = help.split_once("Global options:\n").unwrap_or_else(|| panic!("{help}"));
    assert!(own.contains("--until-empty") && !own.contains("--database"), "{help}");
    for flag in ["--database <URL>", "--config <FILE>", "--log <LEVEL>"] {
        assert!(global.contains(flag), "{flag}: {help}");
    }
    assert!(!global.contains("--until-empty"), "{help}");
}

#[test]
fn a_mistyped_command_or_option_is_answered_with_the_one_that_was_meant() {
    let place = Place::new();
    for (typed, meant) in [(&["enqeue", "mail"][..], "'enqueue'"), (&["serve", "--slotz", "3"], "'--slots'")] {
        let line = refused(&place.run(typed), 2);
        assert!(line.contains(meant), "{line}");
    }
}
