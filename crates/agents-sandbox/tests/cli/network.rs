//! `network` and `ports`: changing what sandboxes reach, and seeing what leads into them.

use insta::assert_snapshot;

use crate::environment::TestEnvironment;

const USER: &str = "home/config/agents-sandbox/config.yaml";
const PROJECT: &str = "project/.agents-sandbox/config.yaml";

fn read(environment: &TestEnvironment, path: &str) -> String {
    std::fs::read_to_string(environment.path(path)).unwrap()
}

#[test]
fn a_rule_is_written_where_a_person_wrote() {
    let environment = TestEnvironment::new();
    environment.write(USER, "# mine\nnetwork:\n  profile: none # closed\n");
    assert_snapshot!(environment.run(&["network", "allow", "registry.corp.example:443", "host:11434"]), @"
    added to $ROOT/home/config/agents-sandbox/config.yaml: network.egress-allow: registry.corp.example:443
    added to $ROOT/home/config/agents-sandbox/config.yaml: network.egress-allow: host:11434
    it counts from the next start of a sandbox on
    ");
    environment.run(&["network", "deny", "*:25"]).success();
    let text = read(&environment, USER);
    assert!(text.starts_with("# mine\n") && text.contains("profile: none # closed\n"), "{text}");
    let shown = environment.run(&["config", "show"]).success();
    assert!(shown.contains("host:11434, registry.corp.example:443"), "{shown}");
    assert!(
        shown.lines().any(|line| line.starts_with("network.egress-deny") && line.contains("*:25")),
        "{shown}"
    );
    let again = environment.run(&["network", "allow", "host:11434"]);
    assert!(again.stderr.contains("has it already"), "{}", again.stderr);
    assert_eq!(again.stderr.lines().count(), 1, "nothing changed: {}", again.stderr);
    assert_eq!(read(&environment, USER), text);
}

/// Also of another agent than the settings say, and of another project.
#[test]
fn what_runs_or_sleeps_is_named_with_what_ends_it() {
    let environment = TestEnvironment::new();
    let said = |words: &[&str]| environment.run(words).stderr;
    let agent = "after `agents-sandbox stop --cold --agent pi`\n";
    environment.run(&["exec", "--agent", "pi", "true"]).success();
    assert!(said(&["network", "allow", "a.example"]).ends_with(agent));
    environment.run(&["stop", "--agent", "pi"]).success();
    assert!(said(&["network", "deny", "b.example"]).ends_with(agent), "it sleeps");
    assert!(said(&["network", "deny", "b.example", "--project"]).ends_with(agent));
    environment.run(&["stop", "--cold", "--agent", "pi"]).success();
    let told = said(&["network", "deny", "c.example", "--project"]);
    assert!(told.ends_with("of a sandbox on\n"), "nothing is to be ended: {told}");

    environment.run(&["exec", "true"]).success();
    assert!(said(&["network", "allow", "d.example"]).ends_with("after `agents-sandbox stop --cold`\n"));
    std::fs::create_dir(environment.path("other")).unwrap();
    let elsewhere = |words: &[&str]| {
        let mut command = environment.command(words);
        environment.finish(command.current_dir(environment.path("other"))).stderr
    };
    let named = format!(
        "after `agents-sandbox stop --cold {}`\n",
        environment.run(&["list", "--names", "--running"]).success().trim()
    );
    assert!(elsewhere(&["network", "allow", "e.example"]).ends_with(&named));
    assert!(elsewhere(&["network", "allow", "e.example", "--project"]).ends_with("of a sandbox on\n"));
}

#[test]
fn what_gains_nothing_by_its_next_start_is_not_to_be_ended() {
    let environment = TestEnvironment::new();
    let said = |words: &[&str]| environment.run(words).stderr;
    let stop = "stop --cold";
    environment.run(&["network", "allow", "a.example"]).success();
    environment.run(&["exec", "true"]).success();
    assert!(!said(&["network", "allow", "a.example"]).contains(stop), "it has it");
    assert!(said(&["network", "allow", "b.example"]).contains(stop), "the door");
    let again = said(&["network", "allow", "b.example"]);
    assert!(again.contains("has it already") && !again.contains("it counts"), "{again}");
    assert!(again.ends_with("without it has it after `agents-sandbox stop --cold`\n"), "{again}");

    // Its project's file replaces the user's list, for denials alone.
    environment.write(PROJECT, "network: {egress-deny: [x.example]}\n");
    std::fs::create_dir(environment.path("other")).unwrap();
    let elsewhere = |words: &[&str]| {
        let mut command = environment.command(words);
        environment.finish(command.current_dir(environment.path("other"))).stderr
    };
    let told = elsewhere(&["network", "deny", "c.example"]);
    assert!(told.ends_with("it counts from the next start of a sandbox on\n"), "{told}");
    assert!(elsewhere(&["network", "allow", "c.example"]).contains(stop), "the other door");
}

#[test]
fn what_is_no_destination_is_written_nowhere() {
    let environment = TestEnvironment::new();
    for (text, why) in
        [("host:99999", "from 1 to 65535"), ("10.0.0.0/99", "from 0 to 32"), ("127.0.0.1", "`host`")]
    {
        let refused = environment.run(&["network", "allow", "good.example", text]);
        assert_eq!(refused.code, Some(2), "{text}");
        assert!(refused.stderr.contains(why), "{text}: {}", refused.stderr);
    }
    assert!(!environment.path(USER).exists());
    environment.run(&["network", "allow", "good.example"]).success();
    assert!(environment.path(USER).exists());
}

#[test]
fn a_list_that_another_layer_replaces_is_not_added_to_in_vain() {
    let environment = TestEnvironment::new();
    environment.write(PROJECT, "network: {egress-allow: [a.example]}\n");
    let refused = environment.run(&["network", "allow", "b.example"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains(".agents-sandbox/config.yaml:1 replaces your own list"),
        "{}",
        refused.stderr
    );
    environment.run(&["network", "allow", "b.example", "--project"]).success();
    assert_eq!(read(&environment, PROJECT), "network: {egress-allow: [\"b.example\", a.example]}\n");
}

#[test]
fn a_rule_that_is_written_is_no_failure_where_sandboxes_cannot_be_looked_at() {
    let environment = TestEnvironment::new();
    environment.write("runtime", "in the place of a folder");
    assert_eq!(environment.run(&["list"]).code, Some(1), "they cannot");
    let ran = environment.run(&["network", "allow", "a.example"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(ran.stderr.ends_with("it counts from the next start of a sandbox on\n"), "{ran}");
    assert!(read(&environment, USER).contains("a.example"));
}

/// Whoever works in the sandbox made the link; the user's own files are not theirs to change.
#[test]
fn a_link_in_the_project_is_not_written_through() {
    let environment = TestEnvironment::new();
    environment.write("home/other.yaml", "cpus: 2\n");
    std::fs::create_dir_all(environment.path("project/.agents-sandbox")).unwrap();
    std::os::unix::fs::symlink(environment.path("home/other.yaml"), environment.path(PROJECT)).unwrap();
    let refused = environment.run(&["network", "allow", "a.example", "--project"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("leads out of the checkout"), "{}", refused.stderr);
    assert_eq!(read(&environment, "home/other.yaml"), "cpus: 2\n");
    std::fs::remove_file(environment.path(PROJECT)).unwrap();
    environment.run(&["network", "allow", "a.example", "--project"]).success();
    assert!(read(&environment, PROJECT).contains("a.example"));
}

#[test]
fn the_agents_provider_is_open_until_someone_says_otherwise() {
    let environment = TestEnvironment::new();
    let provider = |words: &[&str]| {
        let words: Vec<&str> = ["run", "--dry-run"].iter().chain(words).copied().collect();
        let shown = environment.run(&words).success();
        shown.lines().find(|line| line.starts_with("network")).unwrap().to_string()
    };
    assert!(provider(&["--agent", "claude-code"]).contains("none, and api.anthropic.com:443"));
    assert!(provider(&[]).contains("opencode.ai:443"));
    // Whoever has a subscription gets its token there, and talks to its models.
    let chatgpt = "auth.openai.com:443, chatgpt.com:443";
    for (agent, hosts) in [
        ("opencode", chatgpt),
        ("opencode2", chatgpt),
        ("pi", &format!("platform.claude.com:443, {chatgpt}")),
        ("claude-code", "claude.ai:443, console.anthropic.com:443, platform.claude.com:443"),
    ] {
        let open = provider(&["--agent", agent]);
        assert!(open.contains(hosts), "{agent}: {open}");
    }
    assert_eq!(provider(&["--network", "none"]).split_whitespace().collect::<Vec<_>>(), ["network", "none"]);
    let shown = environment.run(&["config", "show"]).success();
    let row = shown.lines().find(|line| line.starts_with("network.provider")).unwrap();
    assert!(row.contains("opencode.ai:443"), "{row}");
    environment.write(USER, "network: {provider: [llm.corp.example]}\n");
    assert!(provider(&[]).ends_with("none, and llm.corp.example"));
}

#[test]
fn ports_open_and_close_while_the_sandbox_runs() {
    use std::net::TcpListener;
    use std::process::Stdio;

    let environment = TestEnvironment::new();
    let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (first, second) = (free(), free());
    let (one, two) = (format!("{first}:80"), format!("{second}:81"));
    let refused = environment.run(&["ports", "add", &one]);
    assert!(refused.code == Some(1) && refused.stderr.contains("there is no sandbox"), "{refused}");
    let mut exec = environment.command(&["exec", "--", "cat"]);
    let mut held = exec.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let begin = std::time::Instant::now();
    while environment.run(&["list", "--names", "--running"]).success().is_empty() {
        assert!(begin.elapsed().as_secs() < 60, "it does not run");
    }
    let listed = || environment.run(&["ports", "list"]).success();
    environment.run(&["ports", "add", &one, &two]).success();
    assert!(
        listed().contains(&format!("127.0.0.1:{first}")) && listed().contains(&format!("[::1]:{second}"))
    );
    // Another client with settings of its own takes none of them away, and brings what is missing.
    environment.run(&["exec", "true"]).success();
    assert_eq!(listed().lines().count(), 5);
    environment.run(&["ports", "remove", &first.to_string()]).success();
    assert!(!listed().contains(&first.to_string()));
    environment.write(USER, &format!("ports: ['{one}']\n"));
    let opened = environment.run(&["run"]).stderr;
    assert!(opened.contains(&format!("opened while it runs: {one}")), "{opened}");
    assert!(listed().contains(&format!("127.0.0.1:{first}")));
    let unknown = environment.run(&["ports", "remove", "1:2"]);
    assert!(unknown.stderr.contains("publishes no port 1:2"), "{unknown}");
    let other = TcpListener::bind("[::1]:0").unwrap();
    let taken = format!("{}:80", other.local_addr().unwrap().port());
    let taken = environment.run(&["ports", "add", &taken]);
    assert!(taken.code == Some(1) && taken.stderr.contains("cannot be published"), "{taken}");
    let held_by = format!("(process {}) has it", std::process::id());
    assert!(taken.stderr.contains(&held_by) && !taken.stderr.contains("os error"), "{taken}");
    assert!(taken.stderr.contains("take another: `agents-sandbox ports add HOST:GUEST`"), "{taken}");
    // Its own are named too, and what gives them back.
    let name = environment.sandbox();
    for text in [format!("{first}:90"), format!("0.0.0.0:{first}:80")] {
        let taken = environment.run(&["ports", "add", &text]);
        let said = format!("sandbox `{name}` publishes it already, as {one}");
        assert!(taken.code == Some(1) && taken.stderr.contains(&said), "{text}: {taken}");
        let hint = format!("`agents-sandbox ports remove {one} --agent opencode` in ");
        assert!(taken.stderr.contains(&hint), "{text}: {taken}");
    }
    environment.run(&["ports", "add", &one]).success();
    let third = free();
    let twice = environment.run(&["ports", "add", &format!("{third}:1"), &format!("{third}:2")]);
    assert!(twice.code == Some(1) && twice.stderr.contains("is asked for twice"), "{twice}");
    drop(held.stdin.take());
    held.wait().unwrap();
    // What was added while it ran is gone with that boot, and whoever comes next is told.
    environment.run(&["stop", "--cold"]).success();
    let closed = environment.run(&["run"]).stderr;
    assert!(closed.contains("not published any more") && closed.contains(&two), "{closed}");
    assert!(!listed().contains(&second.to_string()) && listed().contains(&first.to_string()));
}

#[test]
fn ports_that_were_added_wake_with_the_sandbox_until_it_boots_again() {
    use std::net::TcpListener;

    let environment = TestEnvironment::new();
    let free = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let free = free.map(|listener| listener.local_addr().unwrap());
    let [stays, taken, removed] = free;
    let words = free.map(|address| format!("{}:80", address.port()));
    let listed = || environment.run(&["ports", "list"]).success();
    let is_listed = |address: std::net::SocketAddr| listed().contains(&address.to_string());
    let wake = || Held::start(&environment, &[]);
    let sleep = |held: Held| {
        held.end();
        environment.run(&["stop"]).success();
        assert_ne!(crate::kept::memory(&environment), serde_json::Value::Null);
    };

    let held = wake();
    environment.run(&["ports", "add", &words[0], &words[1], &words[2]]).success();
    // No setting waits for a start therefore.
    let told = environment.run(&["run"]).stderr;
    assert!(!told.contains("apply when the sandbox next starts"), "{told}");
    sleep(held);
    assert!(free.into_iter().all(is_listed), "{}", listed());
    let woken = environment.run(&["exec", "true"]).stderr;
    assert!(!woken.contains("published") && !woken.contains("changed since"), "{woken}");
    assert!(free.into_iter().all(is_listed), "{}", listed());

    // Another program has it by then.
    let held = wake();
    environment.run(&["ports", "remove", &removed.port().to_string()]).success();
    sleep(held);
    let other = TcpListener::bind(taken).unwrap();
    let woken = environment.run(&["exec", "true"]).stderr;
    let said = format!("port {taken} cannot be published: ");
    assert!(woken.contains(&said) && woken.contains("; the sandbox wakes without it"), "{woken}");
    assert!(is_listed(stays) && !is_listed(taken) && !is_listed(removed), "{}", listed());
    drop(other);

    // Neither is what else changes in the way: the port is there as long as the memory is.
    environment.run(&["stop"]).success();
    let woken = environment.run(&["shell", "--network", "public"]).stderr;
    let (_, changed) = woken.split_once("wakes as it was; changed since: network").expect(&woken);
    assert!(!changed.split(';').next().unwrap().contains("ports"), "{woken}");
    assert!(is_listed(stays), "{}", listed());
    environment.run(&["stop", "--cold"]).success();
    let booted = environment.run(&["exec", "true"]).stderr;
    assert!(
        booted.contains(&format!("not published any more, for no setting has it: {}", words[0])),
        "{booted}"
    );
    assert!(!is_listed(stays), "{}", listed());
}

/// A sandbox that someone uses, until its client is dropped.
struct Held(std::process::Child);

impl Held {
    fn start(environment: &TestEnvironment, variables: &[(&str, &str)]) -> Self {
        use std::process::Stdio;
        let mut exec = environment.command(&["exec", "--", "cat"]);
        exec.envs(variables.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::null());
        let held = Self(exec.spawn().unwrap());
        let begin = std::time::Instant::now();
        while environment.run(&["list", "--names", "--running"]).success().is_empty() {
            assert!(begin.elapsed().as_secs() < 60, "it does not run");
        }
        held
    }

    fn end(mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

#[test]
fn a_mount_that_is_missing_keeps_a_sandbox_from_starting_and_not_from_being_used() {
    let environment = TestEnvironment::new();
    let data = environment.path("data");
    std::fs::create_dir(&data).unwrap();
    environment.write(USER, &format!("mounts:\n  /data: {}\n", data.display()));
    let held = Held::start(&environment, &[]);
    std::fs::remove_dir(&data).unwrap();
    assert_eq!(environment.run(&["exec", "--", "echo", "there"]).success(), "there\n");
    environment.run(&["ports", "list"]).success();
    held.end();
    environment.run(&["stop", "--cold"]).success();
    for words in [&["exec", "true"][..], &["run", "--dry-run"], &["run"]] {
        let ran = environment.run(words);
        assert_eq!(ran.code, Some(1), "{ran}");
        assert!(ran.stderr.contains("error: $ROOT/data, which is mounted at /data, is not there\n"), "{ran}");
        assert!(ran.stderr.contains("hint: a mount is a folder or a file that exists; "), "{ran}");
    }
    std::fs::create_dir(&data).unwrap();
    environment.run(&["run", "--dry-run"]).success();
    environment.run(&["exec", "true"]).success();
}

#[test]
fn a_mount_that_would_hide_the_system_is_refused_before_anything_is_tried() {
    let environment = TestEnvironment::new();
    let shared = environment.path("project");
    for (target, fine) in
        [("/etc", false), ("/usr", false), ("/proc/sys", false), ("/data", true), ("/etc/mine", true)]
    {
        environment.write(USER, &format!("mounts:\n  {target}: {}\n", shared.display()));
        let ran = environment.run(&["run", "--dry-run"]);
        assert_eq!(ran.code == Some(0), fine, "{target}: {ran}");
        assert!(fine || ran.stderr.contains("the guest's system"), "{ran}");
    }
}

#[test]
fn another_proxy_is_told_to_whoever_uses_what_runs_and_counts_from_the_next_start() {
    let environment = TestEnvironment::new();
    let said = |words: &[&str], proxy: &str| {
        let mut command = environment.command(words);
        if !proxy.is_empty() {
            command.env("HTTPS_PROXY", proxy);
        }
        // There is no agent to run in here.
        let ran = environment.finish(&mut command);
        ran.stdout + &ran.stderr
    };
    let (one, other) = ("http://me:hunter22@one.corp:3128", "http://other.corp:3128");
    let held = Held::start(&environment, &[("HTTPS_PROXY", one)]);
    assert!(!said(&["run"], one).contains("network.proxy"));
    let told = said(&["run"], other);
    assert!(told.contains("apply when the sandbox next starts: network.proxy"), "{told}");
    let told = said(&["run", "--dry-run"], "");
    assert!(told.contains("network.proxy: http://me:***@one.corp:3128 → none"), "{told}");
    held.end();
    said(&["stop", "--cold"], "");
    said(&["run"], other);
    assert!(!said(&["run"], other).contains("network.proxy"));
}
