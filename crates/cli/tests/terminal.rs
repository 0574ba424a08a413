//! Commands at a terminal: what fits its width, keys, and questions. Python's `pty` plays the terminal.

mod support;

use std::process::Stdio;

use support::Place;

/// Runs a program in a terminal of so many columns, types keys once a text has been printed, and prints what was on the screen and the exit
/// code. A program that hangs is killed after a minute.
const TERMINAL: &str = r#"
import fcntl, os, pty, select, signal, struct, sys, termios, time
columns, after, keys, command = int(sys.argv[1]), sys.argv[2].encode(), sys.argv[3].encode(), sys.argv[4:]
child, screen = pty.fork()
if child == 0:
    # The size must be there before the program looks.
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    os.execvp(command[0], command)
shown, begun = b"", time.time()
while True:
    if time.time() - begun > 60:
        os.kill(child, signal.SIGKILL)
    if select.select([screen], [], [], 0.1)[0]:
        try:
            part = os.read(screen, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    if keys and after in shown:
        os.write(screen, keys)
        keys = b""
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.stdout.write(shown.decode().replace("\r\n", "\n") + f"code {code}\n")
"#;

/// What was on the screen, and `code N` in the last line.
fn at_terminal(place: &Place, columns: u32, typed: (&str, &str), args: &[&str]) -> String {
    let turnwise = place.command(args);
    let (columns, program) = (columns.to_string(), turnwise.get_program().to_str().unwrap());
    let mut command = std::process::Command::new("python3");
    command.args(["-c", TERMINAL, &columns, typed.0, typed.1, program]).args(turnwise.get_args());
    command.current_dir(turnwise.get_current_dir().unwrap()).stdin(Stdio::null());
    for (name, value) in turnwise.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

const NOTHING: (&str, &str) = ("", "");

#[test]
fn a_table_is_cut_to_the_width_of_the_terminal_unless_it_is_to_be_wide() {
    let place = Place::new();
    let id = place.enqueue(&["noop", "--queue", "a-queue-with-a-long-name"]);
    let cut = at_terminal(&place, 60, NOTHING, &["jobs"]);
    let lines: Vec<_> = cut.lines().collect();
    assert_eq!(lines.len(), 3, "{cut}");
    assert!(lines[..2].iter().all(|line| line.chars().count() == 60 && line.ends_with('…')), "{cut}");
    assert!(lines[1].starts_with(&id), "{cut}");
    let wide = at_terminal(&place, 60, NOTHING, &["jobs", "--wide"]);
    assert!(wide.contains("waits: no node is running"), "{wide}");
    // No terminal: a program reads whole lines.
    assert!(place.told(&["jobs"]).contains("waits: no node is running"));
}

#[test]
fn what_if_is_cut_to_the_width_of_the_terminal_unless_it_is_to_be_wide() {
    let place = Place::new();
    place.enqueue(&["noop", "--group", "a-group-with-a-long-name"]);
    let cut = at_terminal(&place, 40, NOTHING, &["simulate", "--slots", "2"]);
    let (lines, code) = cut.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(code, "code 0", "{cut}");
    assert!(lines.lines().all(|line| line.chars().count() <= 40) && lines.contains('…'), "{cut}");
    let wide = at_terminal(&place, 40, NOTHING, &["simulate", "--slots", "2", "--wide"]);
    assert!(wide.lines().next().unwrap().ends_with("END IN") && !wide.contains('…'), "{wide}");
}

#[test]
fn q_and_ctrl_c_end_top_and_leave_the_cursor_at_the_beginning_of_a_line() {
    let place = Place::new();
    place.enqueue(&["noop"]);
    for keys in ["q", "\u{3}"] {
        let shown = at_terminal(&place, 80, ("q quits", keys), &["top"]);
        assert!(shown.ends_with("\ncode 0\n") && !shown.contains("^C"), "{shown:?}");
        let header = shown.lines().find(|line| line.starts_with("GROUP")).unwrap();
        assert!(header.trim_end().ends_with("STATE"), "{header}");
    }
}

#[test]
fn a_group_without_jobs_is_idle_and_entitled_to_nothing() {
    let place = Place::new();
    place.enqueue(&["noop", "--group", "done"]);
    place.work(&["--demo-tasks"]);
    place.enqueue(&["noop", "--group", "busy"]);
    let top = place.told(&["top", "--once"]);
    let row = |group: &str| -> Vec<String> {
        let line = top.lines().find(|line| line.starts_with(group)).unwrap_or_else(|| panic!("{group}: {top}"));
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(row("busy")[3..5], ["100.0", "%"], "{top}");
    assert_eq!(row("busy").last().unwrap(), "active");
    assert!(row("done").contains(&"-".to_owned()) && row("done").last().unwrap() == "idle", "{top}");
}

#[test]
fn a_person_is_asked_before_jobs_are_deleted_or_cancelled() {
    let place = Place::new();
    let id = place.enqueue(&["noop"]);
    let no = at_terminal(&place, 80, ("[y/N]", "n\n"), &["cancel", "--filter", "task=noop"]);
    assert!(no.contains("Cancel 1 job? [y/N]") && no.ends_with("code 0\n"), "{no}");
    assert_eq!(place.state(&id), "waiting");
    let yes = at_terminal(&place, 80, ("[y/N]", "y\n"), &["cancel", "--filter", "task=noop"]);
    assert!(yes.contains("1 job cancelled"), "{yes}");
    let no = at_terminal(&place, 80, ("[y/N]", "\n"), &["prune", "--retention", "0"]);
    assert!(no.contains("Delete 1 finished job? [y/N]"), "{no}");
    assert_eq!(place.state(&id), "cancelled");
    let yes = at_terminal(&place, 80, ("[y/N]", "yes\n"), &["prune", "--retention", "0"]);
    assert!(yes.contains("deleted\n"), "{yes}");
    place.refuses(&["job", &id], 1, "there is no job");
}
