//! A host behind a proxy, as its user sees it.

use std::net::TcpListener;

use crate::environment::TestEnvironment;

const CONFIG: &str = "home/config/agents-sandbox/config.yaml";

#[test]
fn the_proxy_is_shown_with_where_it_comes_from_and_without_its_password() {
    let environment = TestEnvironment::new();
    environment.write(
        CONFIG,
        "network:\n  proxy: http://me:hunter22@proxy.corp:3128\n  no-proxy: [.corp, 10.0.0.0/8]\n",
    );
    for arguments in [&["config", "show", "--origin"][..], &["config", "show", "--format", "json"]] {
        let ran = environment.run(arguments);
        assert_eq!(ran.code, Some(0), "{ran}");
        assert!(
            ran.stdout.contains("http://me:***@proxy.corp:3128") && ran.stdout.contains("10.0.0.0/8"),
            "{ran}"
        );
        assert!(!format!("{ran}").contains("hunter22"), "{ran}");
    }
    // An error shows the line that it is about.
    environment
        .write(CONFIG, "network: {proxy: 'http://me:hunter22@proxy.corp:3128', no-proxy: [<local>]}\n");
    let ran = environment.run(&["config", "show"]);
    assert!(ran.stderr.contains("`<local>`") && ran.stderr.contains("@proxy.corp:3128"), "{ran}");
    assert!(!ran.stderr.contains("hunter22"), "{ran}");
    environment.write(CONFIG, "network:\n  proxy: ftp://me:hunter22@proxy.corp:3128\n");
    let ran = environment.run(&["config", "show"]);
    assert!(ran.stderr.contains("none of http, https, socks5 and socks5h"), "{ran}");
    assert!(!ran.stderr.contains("hunter22"), "{ran}");
}

#[test]
fn doctor_says_which_proxy_is_used_and_whether_it_answers() {
    let environment = TestEnvironment::new();
    let row = |variables: &[(&str, &str)]| {
        let mut command = environment.command(&["doctor", "--format", "json"]);
        let ran = environment.finish(command.envs(variables.iter().copied()));
        assert!(!format!("{ran}").contains("hunter22"), "{ran}");
        let findings: Vec<serde_json::Value> = serde_json::from_str(&ran.stdout).unwrap();
        findings.into_iter().find(|finding| finding["check"] == "proxy")
    };
    assert_eq!(row(&[]), None);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("http://me:hunter22@127.0.0.1:{port}");
    let found = row(&[("HTTPS_PROXY", &url), ("NO_PROXY", ".corp.example")]).unwrap();
    assert_eq!(found["grade"], "good");
    let detail =
        format!("http://me:***@127.0.0.1:{port} (of the environment); directly (NO_PROXY): corp.example");
    assert_eq!(found["detail"], detail);
    drop(listener);
    let found = row(&[("all_proxy", &url)]).unwrap();
    assert_eq!(found["grade"], "note", "{found}");
    assert!(found["detail"].as_str().unwrap().contains("does not answer"), "{found}");
    let found = row(&[("https_proxy", "http://me:hunter22@")]).unwrap();
    assert_eq!(found["grade"], "missing", "{found}");
    assert!(found["detail"].as_str().unwrap().contains("https_proxy"), "{found}");
    // The settings stand above the variables.
    environment.write(CONFIG, "network: {proxy: none}\n");
    assert_eq!(row(&[("HTTPS_PROXY", &url)]), None);
}

#[test]
fn a_project_cannot_say_who_sees_its_connections() {
    let environment = TestEnvironment::new();
    for key in ["proxy: http://evil.example:3128", "no-proxy: ['*']"] {
        environment.write("project/.agents-sandbox/config.yaml", &format!("network:\n  {key}\n"));
        let ran = environment.run(&["config", "show"]);
        assert!(ran.stderr.contains("a project's file cannot set `network."), "{ran}");
    }
}
