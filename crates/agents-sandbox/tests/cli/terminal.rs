//! What a person sees, through a real terminal.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::environment::TestEnvironment;
use crate::tmux::Tmux;

/// A sandbox that runs already, so that nothing is on the screen but what a test puts there.
fn running() -> TestEnvironment {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "true"]).success();
    environment
}

fn script(environment: &TestEnvironment, text: &str) {
    environment.write("project/script", text);
}

fn number(path: &Path) -> i32 {
    let begun = Instant::now();
    loop {
        if let Ok(number) = std::fs::read_to_string(path).unwrap_or_default().trim().parse() {
            return number;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{} is not written", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[track_caller]
fn wait_for_end(pid: i32) {
    let begun = Instant::now();
    while Path::new(&format!("/proc/{pid}")).exists() {
        assert!(begun.elapsed() < Duration::from_secs(20), "process {pid} does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The shell's terminal is as a shell needs it.
#[track_caller]
pub fn assert_clean(tmux: &Tmux<'_>) {
    tmux.line("stty -a | tr ' ;' '\\n\\n' | grep -xE -- '-?(icanon|echo|isig|opost)' | sort | tr '\\n' ' '");
    tmux.wait_for("echo icanon isig opost");
    let facts =
        tmux.fact("#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{keypad_flag} #{keypad_cursor_flag}");
    assert_eq!(facts, "0 1 0 0 0");
    // The terminal puts marks around a paste only where it was left switched to that, and the shell has no word
    // for them.
    tmux.tmux(&["set-buffer", "echo a $((6 * 7)) paste"]);
    tmux.tmux(&["paste-buffer", "-p"]);
    tmux.key("Enter");
    tmux.wait_for_line("a 42 paste");
}

#[test]
fn the_command_has_the_size_of_the_terminal_and_learns_of_changes() {
    let environment = running();
    script(&environment, "stty size; trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done");
    let tmux = Tmux::new(&environment);
    tmux.line("$P exec -it -- sh script");
    tmux.wait_for_line("30 90");
    tmux.wait_for_line("ready");
    tmux.tmux(&["resize-window", "-x", "100", "-y", "40"]);
    tmux.wait_for_line("40 100");
    tmux.key("C-c");
    tmux.wait_for("shell> ");
}

#[test]
fn keys_go_to_the_command() {
    let environment = running();
    script(
        &environment,
        "again=; trap 'echo interrupted; again=1' INT; echo ready\n\
         while read -r line || [ $again ]; do [ $again ] || echo \"<$line>\"; again=; done\n\
         echo 'end of input'; exit 5",
    );
    let tmux = Tmux::new(&environment);
    tmux.line("$P exec -it -- sh script; echo \"code $?\"");
    tmux.wait_for_line("ready");
    tmux.key("C-c");
    tmux.wait_for("interrupted");
    tmux.line("hello there");
    tmux.wait_for_line("<hello there>");
    tmux.key("C-d");
    tmux.wait_for_line("end of input");
    tmux.wait_for_line("code 5");
    assert_clean(&tmux);
}

/// What is typed, pasted and clicked reaches a program that reads bytes, byte for byte; nothing of it is ours.
#[test]
fn ctrl_z_a_paste_the_mouse_and_umlauts_reach_the_command() {
    let environment = running();
    script(
        &environment,
        "stty raw -echo; printf '\\033[?2004h\\033[?1002h\\033[?1006hready:'\n\
         while :; do b=$(dd bs=64 count=1 2>/dev/null | od -An -v -tx1 | tr -d ' \\n'); printf %s \"$b\"\n\
         case $b in *71) break ;; esac; done; stty sane; echo",
    );
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P exec -it -- sh script; echo \"code $?\"");
    tmux.wait_for("ready:");
    tmux.key("C-z");
    tmux.wait_for("ready:1a");
    tmux.tmux(&["send-keys", "-l", "ä€"]);
    tmux.wait_for("1ac3a4e282ac");
    tmux.tmux(&["set-buffer", "a\nb"]);
    // Between its marks because the program asked for them, which the terminal must have heard.
    tmux.tmux(&["paste-buffer", "-p", "-r"]);
    tmux.wait_for("e282ac1b5b3230307e610a621b5b3230317e");
    let mouse: Vec<String> = b"\x1b[<0;5;7M".iter().map(|byte| format!("{byte:x}")).collect();
    let mouse: Vec<&str> = mouse.iter().map(String::as_str).collect();
    tmux.tmux(&[&["send-keys", "-H"], mouse.as_slice()].concat());
    tmux.wait_for("7e1b5b3c303b353b374d");
    tmux.key("q");
    tmux.wait_for_line("code 0");
    assert_clean(&tmux);
}

/// What a full-screen program switches: the alternate screen, no cursor, the mouse, pastes in marks, the keypad.
pub const FULL_SCREEN: &str =
    "\x1b[?1049h\x1b[?25l\x1b[?1002h\x1b[?1006h\x1b[?2004h\x1b[?1h\x1b=\x1b[31mFULL SCREEN";

#[test]
fn a_program_that_dies_leaves_a_clean_screen() {
    let environment = running();
    script(&environment, &format!("printf '{FULL_SCREEN}'; sleep 0.3; kill -9 $$"));
    let tmux = Tmux::new(&environment);
    tmux.line("echo before; $P exec -it -- sh script; echo \"code $?\"");
    tmux.wait_for("FULL SCREEN");
    // The positive control: now the terminal is not clean.
    assert_eq!(tmux.fact("#{alternate_on} #{cursor_flag} #{mouse_any_flag}"), "1 0 1");
    let screen = tmux.wait_for_line("code 137");
    assert!(screen.contains("before") && !screen.contains("FULL SCREEN"), "{screen}");
    assert_clean(&tmux);
}

#[test]
fn a_client_that_is_told_to_end_leaves_a_clean_screen() {
    let environment = running();
    script(
        &environment,
        &format!("echo $$ > command.pid; printf '{FULL_SCREEN}'; while :; do sleep 0.05; done"),
    );
    let tmux = Tmux::new(&environment);
    tmux.line("sh -c 'echo $$ > client.pid; exec \"$0\" exec -it -- sh script' $P; echo \"code $?\"");
    tmux.wait_for("FULL SCREEN");
    let command = number(&environment.path("project/command.pid"));
    let client = number(&environment.path("project/client.pid"));
    let client = rustix::process::Pid::from_raw(client).unwrap();
    rustix::process::kill_process(client, rustix::process::Signal::TERM).unwrap();
    tmux.wait_for_line("code 143");
    assert_clean(&tmux);
    wait_for_end(command);
}

#[test]
fn closing_the_window_ends_client_and_command() {
    let environment = running();
    script(&environment, "echo $$ > command.pid; echo ready; while :; do sleep 0.05; done");
    let tmux = Tmux::new(&environment);
    tmux.line("sh -c 'echo $$ > client.pid; exec \"$0\" exec -it -- sh script' $P");
    tmux.wait_for_line("ready");
    let command = number(&environment.path("project/command.pid"));
    let client = number(&environment.path("project/client.pid"));
    tmux.tmux(&["kill-server"]);
    wait_for_end(client);
    wait_for_end(command);
}

/// A sandbox whose agent pi is this script.
fn with_pi(text: &str) -> TestEnvironment {
    let environment = TestEnvironment::new();
    let home = environment.run(&["exec", "--agent", "pi", "--", "sh", "-c", "echo $HOME"]);
    let home = String::from_utf8(home.raw_stdout).unwrap();
    let bin = environment.write("bin/pi", &format!("#!/bin/sh\n{text}\n"));
    std::fs::set_permissions(&bin, std::fs::Permissions::from_mode(0o755)).unwrap();
    // What a profile leaves running has nothing to do with the agent's end.
    let profile = format!("PATH={}:$PATH\nsleep 20 &\n", bin.parent().unwrap().display());
    std::fs::write(Path::new(home.trim()).join(".bash_profile"), profile).unwrap();
    environment
}

#[test]
fn an_agent_on_the_terminal_gets_its_words_and_the_size() {
    let environment = with_pi("printf '<%s>' \"$@\" $COLORTERM; stty size; exit 9");
    let tmux = Tmux::new(&environment);
    tmux.line("COLORTERM=24bit $P run --agent pi -- 'two words' '' '\"q\"' --version; echo \"code $?\"");
    tmux.wait_for("<two words><><\"q\"><--version><24bit>30 90");
    tmux.wait_for_line("code 9");
    assert_clean(&tmux);
}

/// Agents stop themselves at Ctrl-Z, each in its own way, and wait to be continued.
#[test]
fn an_agent_that_stops_itself_goes_on() {
    let environment = with_pi(
        "trap 'continued=1' CONT; for signal in TSTP STOP STOP TSTP TSTP; do\n\
         continued=; kill -$signal 0; until [ $continued ]; do sleep 0.02; done; echo \"on after $signal\"; done\n\
         read -r line; echo \"<$line>\"; kill -KILL $$",
    );
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P run --agent pi; echo \"code $?\"");
    tmux.wait("it goes on each time", |screen| screen.matches("on after ").count() == 5);
    // It is still the one that is typed for.
    tmux.line("hello there");
    tmux.wait_for_line("<hello there>");
    let screen = tmux.wait_for_line("code 137");
    assert!(!screen.contains("Stopped") && !screen.contains("Killed"), "{screen}");
    assert_clean(&tmux);
}

#[test]
fn a_shell_is_a_login_shell_on_the_terminal() {
    let environment = running();
    let tmux = Tmux::new(&environment);
    tmux.line("COLORTERM=24bit $P shell; echo \"code $?\"");
    tmux.line("shopt -q login_shell && tty -s && echo \"a login shell: $((40 + 2)) $COLORTERM\"; exit 3");
    tmux.wait_for_line("a login shell: 42 24bit");
    tmux.wait_for_line("code 3");
    assert_clean(&tmux);
}

#[test]
fn colours_and_width_are_those_of_the_terminal() {
    let environment = running();
    let tmux = Tmux::new(&environment);
    tmux.fresh("$P list");
    let screen = tmux.wait_for("running");
    assert!(screen.lines().all(|line| line.chars().count() <= 90), "{screen}");
    let coloured = tmux.tmux(&["capture-pane", "-p", "-e"]);
    assert!(coloured.contains("\x1b[32mrunning") || coloured.contains("\x1b[38;5;2mrunning"), "{coloured:?}");
    tmux.fresh("NO_COLOR=1 $P list");
    tmux.wait("a plain table", |_| {
        let screen = tmux.tmux(&["capture-pane", "-p", "-e"]);
        screen.contains("running") && !screen.contains('\x1b')
    });
}

#[test]
fn a_command_has_the_colours_of_the_terminal() {
    let environment = running();
    script(
        &environment,
        "printf '\\033[38;2;1;22;133mblue\\033[0m '\n\
         echo \"<${TERM-none}><${COLORTERM-none}><${NO_COLOR-none}>\"",
    );
    let tmux = Tmux::new(&environment);
    tmux.fresh("env -u NO_COLOR TERM=tmux-256color COLORTERM=truecolor $P exec -it -- sh script");
    tmux.wait_for("blue <xterm-256color><truecolor><none>");
    let coloured = tmux.tmux(&["capture-pane", "-p", "-e"]);
    assert!(coloured.contains("\x1b[38;2;1;22;133mblue"), "{coloured:?}");
    tmux.fresh("env -u COLORTERM TERM=dumb NO_COLOR=1 $P exec -it -- sh script");
    tmux.wait_for("blue <dumb><none><1>");
    tmux.fresh("TERM=dumb COLORTERM=truecolor $P exec -it -e TERM=a -e COLORTERM=b -- sh script");
    tmux.wait_for("blue <a><b>");
    environment.write("home/config/agents-sandbox/env", "COLORTERM=of-the-settings\n");
    environment.run(&["stop", "--cold"]).success();
    tmux.fresh("COLORTERM=truecolor $P exec -it -- sh script");
    tmux.wait_for("<of-the-settings>");

    std::fs::remove_file(environment.path("home/config/agents-sandbox/env")).unwrap();
    environment.run(&["stop", "--cold"]).success();
    let mut piped = environment.command(&["exec", "--", "sh", "script"]);
    piped.envs([("TERM", "dumb"), ("COLORTERM", "truecolor"), ("NO_COLOR", "1")]);
    let said = environment.finish(&mut piped).success();
    assert!(said.ends_with("<none><none><none>\n"), "without a terminal there is nothing to say: {said}");
}

#[test]
fn a_step_is_seen_while_it_lasts_and_leaves_no_trace() {
    let environment = TestEnvironment::new();
    environment.write("runtime/faults.json", "{\"boot-millis\": 1500}");
    let tmux = Tmux::new(&environment);
    tmux.line("$P exec true; echo \"code $?\"");
    tmux.wait_for("starting the sandbox");
    let screen = tmux.wait_for_line("code 0");
    assert!(!screen.contains("starting the sandbox"), "{screen}");
    assert_clean(&tmux);
}
