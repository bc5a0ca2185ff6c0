//! Whole flows over local processes in place of virtual machines.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use rustix::process::Signal;

use crate::environment::{TestEnvironment, without_hash};

#[test]
fn a_command_runs_and_its_code_comes_back() {
    let environment = TestEnvironment::new();
    let ran = environment.run(&["exec", "--", "sh", "-c", "echo out; echo err >&2; exit 42"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(42), "out\n"), "{ran}");
    assert!(ran.stderr.ends_with("err\n"), "{ran}");
    assert_eq!(environment.run(&["exec", "true"]).code, Some(0));
    assert_eq!(environment.run(&["exec", "--", "sh", "-c", "kill -TERM $$"]).code, Some(143));
}

#[test]
fn a_command_that_is_not_there() {
    let environment = TestEnvironment::new();
    let ran = environment.run(&["exec", "--", "no-such-command"]);
    assert_eq!(ran.code, Some(127), "{ran}");
    assert!(
        ran.stderr.contains("error: the command could not be run in the sandbox: no-such-command"),
        "{ran}"
    );
    for word in [".agents-sandbox/Dockerfile", "apt-get install -y PACKAGE", "`agents-sandbox build`"] {
        assert!(ran.stderr.contains(word), "{word}: {ran}");
    }
    // Neither the command's own code nor a path says that the image lacks a program.
    for (words, code) in [(&["exec", "/no/such"][..], 127), (&["exec", "--", "sh", "-c", "exit 127"], 127)] {
        let ran = environment.run(words);
        assert!(ran.code == Some(code) && !ran.stderr.contains("Dockerfile"), "{words:?}: {ran}");
    }
}

#[test]
fn words_arrive_byte_for_byte() {
    let environment = TestEnvironment::new();
    let words: [&[u8]; 9] =
        [b"a b", b"'\"`$(id)", b"line\nbreak", b"", b"--", b"-q", b"--version", b"\xff\xfe", b"tab\there"];
    let head = ["exec", "--", "printf", "<%s>"].map(OsStr::new);
    let all: Vec<&OsStr> = head.into_iter().chain(words.iter().map(|word| OsStr::from_bytes(word))).collect();
    let ran = environment.run(&all);
    let expected: Vec<u8> = words.iter().flat_map(|word| [b"<", *word, b">"].concat()).collect();
    assert_eq!(ran.raw_stdout, expected, "{ran}");
}

#[test]
fn variables_and_folders() {
    let environment = TestEnvironment::new();
    environment.write("project/deep/er/file", "");
    let mut command = environment.command(&[
        "exec",
        "-l",
        "warning",
        "-e",
        "A=1=2",
        "-e",
        "FROM_HERE",
        "-e",
        "NOT_HERE",
        "--",
        "sh",
        "-c",
        "echo $A $FROM_HERE ${NOT_HERE-unset}; pwd",
    ]);
    command.env("FROM_HERE", "here").current_dir(environment.project().join("deep"));
    assert_snapshot!(environment.finish(&mut command), @"
    1=2 here unset
    $ROOT/project/deep
    ");
    let ran = environment.run(&["exec", "-w", "deep/er", "--", "pwd"]).success();
    assert_snapshot!(ran, @"$ROOT/project/deep/er");
}

#[test]
fn input_is_passed_on_only_when_asked() {
    let environment = TestEnvironment::new();
    let feed = |words: &[&str], input: &[u8]| {
        let mut child = environment
            .command(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            // A command without input may end before it is written.
            scope.spawn(move || stdin.write_all(input));
            child.wait_with_output().unwrap().stdout
        })
    };
    assert_eq!(feed(&["exec", "-i", "--", "cat"], b"over here"), b"over here");
    assert_eq!(feed(&["exec", "--", "cat"], b"over here"), b"");
    let many: Vec<u8> = (0..20_000_000_u32).map(|number| (number % 251) as u8).collect();
    let back = feed(&["exec", "-i", "--", "cat"], &many);
    assert!(back == many, "{} bytes of {} came back", back.len(), many.len());
}

#[test]
fn a_reader_that_leaves_ends_the_command_quietly() {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "true"]);
    let mut child = environment
        .command(&["exec", "--", "yes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141), "{output:?}");
    assert_eq!(output.stderr, b"");
}

#[test]
fn fifty_at_once_share_one_sandbox() {
    let environment = TestEnvironment::new();
    let runtime = environment.path("runtime").display().to_string();
    let mut running: Vec<_> = (0..50)
        .map(|number| {
            // Of every boot that is up: one of another sandbox, or a second one of this, would be another word.
            let boots = "grep -oh '\"id\": *\"[^\"]*\"' \"$0\"/sandboxes/*/boot.json";
            let script = format!("echo {number}; {boots}; exit {number}");
            let mut command = environment.command(&["exec", "--", "sh", "-c", &script, &runtime]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut boots = BTreeSet::new();
    for (number, child) in running.drain(..).enumerate() {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), i32::try_from(number).ok(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let (first, boot) = text.split_once('\n').unwrap();
        assert_eq!(first, number.to_string());
        assert!(boot.starts_with("\"id\":"), "{text}");
        boots.insert(boot.to_string());
    }
    assert_eq!(boots.len(), 1, "it booted more than once: {boots:#?}");
    let names = environment.run(&["list", "--names"]).success();
    assert_eq!(names.lines().count(), 1, "{names}");
}

#[test]
fn the_life_of_a_sandbox() {
    let environment = TestEnvironment::new();
    assert_snapshot!(environment.run(&["list"]), @"there are no sandboxes");
    assert_eq!(environment.run(&["list", "--format", "json"]).success(), "[]\n");
    assert_snapshot!(without_hash(&environment.run(&["stop"]).to_string()), @"there is no sandbox project-HASH-opencode");
    environment.run(&["exec", "true"]);
    let table = environment.run(&["list"]).success();
    assert_snapshot!(without_hash(&table[..table.rfind("running").unwrap() + 7]), @"
    NAME IMAGE STATUS CREATED
    project-HASH-opencode agents-sandbox/runner-project-HASH:opencode-latest running
    ");
    let name = environment.run(&["list", "--names"]).success().trim().to_string();
    assert_snapshot!(without_hash(&environment.run(&["sandbox", "remove", &name]).to_string()), @"
    error: sandbox `project-HASH-opencode` is running
    hint: `agents-sandbox sandbox remove --force project-HASH-opencode` stops it first
    [exit 1]
    ");
    assert_snapshot!(without_hash(&environment.run(&["stop", "-n", "-f"]).to_string()), @"would stop and remove project-HASH-opencode");
    assert_snapshot!(without_hash(&environment.run(&["stop"]).to_string()), @"project-HASH-opencode is stopped, its memory is saved");
    let entry = environment.json(&["list", "--format", "json"]);
    assert_eq!(
        (&entry[0]["status"], &entry[0]["detail"]),
        (&"stopped".into(), &"memory saved".into()),
        "{entry:#}"
    );
    let listed = environment.run(&["list"]);
    assert!(listed.stdout.contains("stopped") && !listed.stdout.contains("memory"), "{listed}");
    assert!(listed.stderr.starts_with(&format!("{name}: memory saved (")), "{listed}");
    // What would be lost is said before it is.
    for (words, begin) in [
        (&["sandbox", "remove", "-n"][..], "would remove"),
        (&["stop", "-n", "-f"], "would remove"),
        (&["kill", "-n", "-f"], "would remove"),
    ] {
        let told = environment.run(words);
        let (begin, end) = (format!("{begin} {name}, with its saved memory ("), "to go on from it");
        assert!(told.stderr.starts_with(&begin) && told.stderr.contains(end), "{words:?}: {told}");
    }
    environment.run(&["exec", "true"]).success();
    assert_snapshot!(without_hash(&environment.run(&["stop", "--cold"]).to_string()), @"project-HASH-opencode is stopped");
    assert_eq!(environment.json(&["list", "--format", "json"])[0]["saved_memory"], serde_json::Value::Null);
    assert_snapshot!(without_hash(&environment.run(&["stop"]).to_string()), @"project-HASH-opencode is not running");
    assert_eq!(environment.run(&["list", "--running", "--names"]).success(), "");
    assert_eq!(environment.run(&["list", "--stopped", "--names"]).success().trim(), name);
    assert_snapshot!(without_hash(&environment.run(&["sandbox", "remove", &name]).to_string()), @"project-HASH-opencode is removed; its home volume stays");
    assert_snapshot!(without_hash(&environment.run(&["sandbox", "remove", &name]).to_string()), @"
    error: there is no sandbox `project-HASH-opencode`
    hint: `agents-sandbox list` shows the sandboxes there are
    [exit 1]
    ");
}

/// Nobody would look for it any more.
#[test]
fn whoever_removes_a_sandbox_hears_of_the_memory_that_goes_with_it() {
    let environment = TestEnvironment::new();
    for words in [&["sandbox", "remove"][..], &["stop", "-f"], &["kill", "-f"]] {
        environment.run(&["exec", "true"]).success();
        environment.run(&["stop"]).success();
        let removed = environment.run(words);
        assert!(removed.stderr.contains("removed, with its saved memory ("), "{words:?}: {removed}");
        // Without memory there is nothing to say.
        environment.run(&["exec", "true"]).success();
        environment.run(&["stop", "--cold"]).success();
        let removed = environment.run(words);
        assert!(removed.code == Some(0) && !removed.stderr.contains("memory"), "{words:?}: {removed}");
    }
}

#[test]
fn where_there_is_nothing_to_stop_the_other_agents_sandbox_is_named() {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "--agent", "pi", "true"]).success();
    for verb in ["stop", "kill"] {
        for words in [&[verb][..], &[verb, "-n"]] {
            let ran = environment.run(words);
            let mut lines = ran.stderr.lines();
            assert!(lines.next().unwrap().starts_with("there is no sandbox project-"), "{words:?}: {ran}");
            let hint = format!("that of pi is there: `agents-sandbox {verb} --agent pi`");
            assert_eq!((ran.code, lines.next()), (Some(0), Some(hint.as_str())), "{words:?}: {ran}");
        }
    }
    let stopped = environment.run(&["stop", "--agent", "pi"]);
    assert!(stopped.stderr.contains("-pi is stopped") && !stopped.stderr.contains("that of"), "{stopped}");
}

#[test]
fn removal_stops_first_only_by_force() {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "true"]);
    let name = environment.run(&["list", "--names"]).success().trim().to_string();
    assert_eq!(environment.run(&["sandbox", "remove", &name]).code, Some(1));
    assert_eq!(environment.run(&["sandbox", "remove", "-n", &name]).code, Some(1), "as it would without");
    let told = environment.run(&["sandbox", "remove", "-n", "-f", &name]);
    assert!(told.stderr.starts_with("would stop and remove "), "{told}");
    assert_eq!(environment.sandbox(), name);
    // Without a name it is the sandbox of the folder one stands in.
    assert_eq!(environment.run(&["sandbox", "remove"]).code, Some(1), "it runs");
    let other = environment.run(&["sandbox", "remove", "--force", "--agent", "pi"]);
    assert!(other.stderr.contains("there is no sandbox `project-"), "{other}");
    let removed = environment.run(&["sandbox", "remove", "--force"]);
    assert_snapshot!(without_hash(&removed.to_string()), @"project-HASH-opencode is stopped and removed; its home volume stays");
    // The home stays for the next run.
    let volumes = std::fs::read_dir(environment.path("home/data/agents-sandbox/volumes")).unwrap();
    assert_eq!(volumes.count(), 1);
}

#[test]
fn lists_for_programs_and_by_label() {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "true"]);
    environment.run(&["exec", "--agent", "pi", "true"]);
    let list = || environment.json(&["list", "--format", "json", "--label", "agent=pi"]);
    let begun = Instant::now();
    // The keeper asks the agent before it knows that nothing holds the sandbox.
    let json = loop {
        let json = list();
        if json[0]["detail"] != "held: the agent is being asked" || begun.elapsed().as_secs() > 30 {
            break json;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(json.as_array().unwrap().len(), 1, "{json:#}");
    assert_eq!(json[0]["status"], "running");
    assert_eq!(json[0]["labels"]["org.agents-sandbox.agent"], "pi");
    // Nobody is attached any more.
    assert!(json[0]["detail"].as_str().unwrap().starts_with("stops in"), "{json:#}");
    assert!(json[0]["created"].as_str().unwrap().ends_with('Z'));
    let count = |words: &[&str]| environment.run(words).success().lines().count();
    assert_eq!(count(&["list", "--names"]), 2);
    assert_eq!(count(&["list", "--names", "--limit", "1"]), 1);
    assert_eq!(count(&["list", "--names", "--label", "agent=pi", "--label", "project=other"]), 0);
    let inspected = environment.run(&["sandbox", "inspect", "--agent", "pi"]).success();
    let inspected: serde_json::Value = serde_json::from_str(&inspected).unwrap();
    assert_eq!(inspected["name"], json[0]["name"]);
    assert_eq!(inspected["runtime"], "fake");
    for agent in ["opencode", "pi"] {
        environment.run(&["kill", "-f", "--agent", agent]).success();
    }
    assert_eq!(count(&["list", "--names"]), 0);
}

#[test]
fn a_broken_record_is_one_row() {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "true"]);
    environment.run(&["stop"]).success();
    environment.write("runtime/sandboxes/evil\x1b[31m/record.json", "{");
    environment.write("runtime/sandboxes/torn-opencode/record.json", "{");
    let ran = environment.run(&["list"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(
        ran.stdout.lines().any(|line| line.starts_with("torn-opencode") && line.contains("broken")),
        "{ran}"
    );
    assert!(ran.stdout.contains("stopped"), "{ran}");
    assert!(!ran.to_string().contains('\x1b'), "{ran}");
    let json = environment.run(&["list", "--format", "json"]).success();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json.as_array().unwrap().iter().filter(|row| row["status"] == "broken").count(), 2);
}

#[test]
fn logs_tell_what_happened() {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "true"]);
    environment.run(&["stop"]).success();
    let all = environment.run(&["logs"]).success();
    for log in ["==> console", "==> machine", "==> keeper"] {
        assert!(all.contains(log), "{all}");
    }
    let keeper = environment.run(&["logs", "keeper"]).success();
    assert!(keeper.contains("held by 1 client") && !keeper.contains("==>"), "{keeper}");
    assert_eq!(environment.run(&["logs", "keeper", "--tail", "1"]).success().lines().count(), 1);
    let name = environment.run(&["list", "--names"]).success();
    assert_eq!(environment.run(&["logs", name.trim(), "keeper"]).success(), keeper);
    let mut child =
        environment.command(&["logs", "console", "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut console = std::fs::OpenOptions::new()
        .append(true)
        .open(environment.path(&format!("runtime/sandboxes/{}/console.log", name.trim())))
        .unwrap();
    writeln!(console, "\x1b[2Jnews from the guest").unwrap();
    let mut seen = String::new();
    let mut reader = std::io::BufReader::new(child.stdout.take().unwrap());
    while !seen.contains("news from the guest") {
        assert_ne!(std::io::BufRead::read_line(&mut reader, &mut seen).unwrap(), 0, "{seen}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!seen.contains('\x1b'), "{seen:?}");
}

#[test]
fn signals_reach_the_command() {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "true"]);
    let script = "trap 'echo got it; exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = environment
        .command(&["exec", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut reader = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    line.clear();
    std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
    assert_eq!(line, "got it\n");
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

#[test]
fn a_sandbox_nobody_uses_stops_by_itself() {
    let environment = TestEnvironment::new();
    environment.write("home/config/agents-sandbox/config.yaml", "auto-stop-timeout: 200ms\n");
    environment.run(&["exec", "true"]);
    let begun = Instant::now();
    while environment.run(&["list", "--running", "--names"]).success() != "" {
        assert!(begun.elapsed() < Duration::from_secs(20), "it goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_dry_run_makes_nothing() {
    let environment = TestEnvironment::new();
    let ran = environment.run(&["run", "-n", "--cpus", "2", "--memory", "1G", "--", "fix it", "-y"]);
    assert_snapshot!(without_hash(&ran.to_string()), @r#"
    sandbox project-HASH-opencode
    checkout $ROOT/project
    agent opencode "fix it" -y
    machine 2 CPUs, 1G memory
    network none, and opencode.ai:443, api.anthropic.com:443, api.openai.com:443, generativelanguage.googleapis.com:443, openrouter.ai:443, auth.openai.com:443, chatgpt.com:443
    image would be built
    home would be made
    status would be made
    "#);
    assert_eq!(environment.run(&["list", "--names"]).success(), "");
}

#[test]
fn a_thousand_records_are_listed() {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "true"]);
    environment.run(&["stop"]).success();
    let name = environment.run(&["list", "--names"]).success().trim().to_string();
    let sandboxes = environment.path("runtime/sandboxes");
    let record = std::fs::read_to_string(sandboxes.join(&name).join("record.json")).unwrap();
    for number in 0..1000 {
        let other = format!("other{number}-opencode");
        std::fs::create_dir(sandboxes.join(&other)).unwrap();
        std::fs::write(sandboxes.join(&other).join("record.json"), record.replace(&name, &other)).unwrap();
    }
    assert_eq!(environment.run(&["list"]).success().lines().count(), 1002);
}

#[test]
fn a_boot_that_fails_says_why_and_blocks_nothing() {
    let environment = TestEnvironment::new();
    environment.write("runtime/faults.json", "{\"boot-fails\": \"no bootable device\"}");
    assert_snapshot!(without_hash(&environment.run(&["exec", "-l", "warning", "true"]).to_string()), @"
    error: sandbox `project-HASH-opencode` did not boot: no bootable device
    │ project-HASH-opencode no bootable device
    hint: `agents-sandbox logs` shows the whole console
    hint: `agents-sandbox doctor` finds out what is missing on this computer
    hint: `agents-sandbox sandbox remove project-HASH-opencode` and another run make it anew, with the same home
    [exit 1]
    ");
    let json = environment.run(&["list", "--format", "json"]).success();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["status"], "crashed", "{json:#}");
    assert!(json[0]["detail"].as_str().unwrap().contains("no bootable device"), "{json:#}");
    environment.write("runtime/faults.json", "{}");
    assert_eq!(environment.run(&["exec", "true"]).code, Some(0));
}

#[test]
fn steps_are_lines_where_nobody_watches() {
    let environment = TestEnvironment::new();
    environment.write("runtime/faults.json", "{\"boot-millis\": 500}");
    let told = environment.run(&["exec", "true"]).stderr;
    assert!(told.contains("starting the sandbox …\n"), "{told}");
    environment.run(&["stop", "--cold"]).success();
    assert_eq!(environment.run(&["exec", "-l", "warning", "true"]).stderr, "");
    environment.run(&["stop", "--cold"]).success();
    let told = environment.run(&["exec", "-l", "verbose", "true"]).stderr;
    // However long it took here.
    let ended = |line: &str| line.contains("starting the sandbox (") && line.ends_with(" s)");
    assert!(told.lines().any(ended), "{told}");
}

/// A process that will not go is no reason to wait for ever; that it had to be ended is said.
#[test]
fn a_stop_that_had_to_power_off_says_so() {
    let environment = TestEnvironment::new();
    environment.run(&["exec", "true"]).success();
    let mut client = environment
        .command(&["exec", "--", "sh", "-c", "trap '' TERM HUP INT; echo ready; while :; do sleep 0.1; done"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut reader = std::io::BufReader::new(client.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
    let ran = environment.run(&["stop", "--cold"]);
    client.wait().unwrap();
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(ran.stderr.contains("did not end by itself and was powered off"), "{ran}");
}

/// Ctrl-C while a sandbox boots ends the boot with it: no sandbox is left that nobody watches over.
#[test]
fn an_interrupted_boot_ends_and_blocks_nothing() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let environment = TestEnvironment::new();
        environment.write("runtime/faults.json", "{\"boot-millis\": 60000}");
        let mut child = environment.command(&["exec", "true"]).stderr(Stdio::piped()).spawn().unwrap();
        let mut reader = std::io::BufReader::new(child.stderr.take().unwrap());
        let mut told = String::new();
        while !told.contains("starting the sandbox") {
            assert_ne!(std::io::BufRead::read_line(&mut reader, &mut told).unwrap(), 0, "{told}");
        }
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code));
        std::io::Read::read_to_string(&mut reader, &mut told).unwrap();
        assert!(told.ends_with("error: interrupted\n"), "{told}");
        let json = environment.run(&["list", "--format", "json"]).success();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(["stopped", "crashed"].contains(&json[0]["status"].as_str().unwrap()), "{json:#}");
        environment.write("runtime/faults.json", "{}");
        assert_eq!(environment.run(&["exec", "true"]).code, Some(0));
    }
}
