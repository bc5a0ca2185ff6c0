//! A machine on a host behind a proxy: what the guest may reach leaves through it, without a setting in the guest,
//! and nobody finds the proxy's password.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use memchr::memmem;
use sandbox_model::{ExecSpec, InvalidProxy, NetworkPolicy, NoProxy, Proxies, SandboxSpec, SecretValues};
use sandbox_runtime::contract::Harness;

use crate::contract::QemuHarness;
use crate::proxies::{Proxy, Table};
use crate::secrets::{in_file, in_memory, parent};
use crate::world;

type Outcome<T = ()> = Result<T, String>;

pub const CASE: &str = "a_guest_behind_a_proxy_never_sees_its_password";
/// A variable with the proxy. Not one of those that programs read: what the case itself fetches does not go there.
const VARIABLE: &str = "CORP_PROXY";
/// `me:hunter22-of-the-proxy`.
const PASSWORD: &str = "hunter22-of-the-proxy";
const AUTHORIZATION: &str = "Basic bWU6aHVudGVyMjItb2YtdGhlLXByb3h5";
const GRACE: Duration = Duration::from_secs(20);

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Runs the case in a process with the variable that a person behind a proxy has.
pub fn run() -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(text)?;
    let server = listener.local_addr().map_err(text)?;
    let heard = world::serve(listener, |socket| socket);
    let table: Table = ["open.example.com:80", "open.example.com:8080", "closed.example.com:80"]
        .map(|name| (name.to_string(), server))
        .into();
    let proxy = Proxy::http(table, Some(AUTHORIZATION));
    let output = Command::new(std::env::current_exe().map_err(text)?)
        .env(crate::CASE, CASE)
        .env(VARIABLE, format!("http://me:{PASSWORD}@127.0.0.1:{}", proxy.port))
        .stdin(Stdio::null())
        .output()
        .map_err(text)?;
    let said = [output.stdout, output.stderr].concat();
    output.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&said).into_owned())?;
    let asked: Vec<String> = proxy.asked.try_iter().collect();
    let expected = ["CONNECT open.example.com:8080 HTTP/1.1", "GET http://open.example.com/page HTTP/1.1"];
    if asked != expected {
        return Err(format!("the proxy was asked for {asked:?}"));
    }
    requests(&heard)
}

fn requests(heard: &Receiver<String>) -> Outcome {
    let requests: Vec<String> = heard.try_iter().collect();
    let fine = requests.len() == 2 && requests.iter().all(|request| !request.contains("Authorization"));
    fine.then_some(()).ok_or(format!("the server heard {requests:?}"))
}

/// One machine for all of it.
pub fn inside() -> Outcome {
    let harness = QemuHarness::new()?;
    let spec = spec(&harness)?;
    let runtime = harness.runtime();
    let mut archive = fs::File::open(&harness.image().archive).map_err(text)?;
    runtime.load_image(&spec.image, &spec.image_digest, &mut archive, &mut |_, _| {}).map_err(text)?;
    runtime.create(&spec).map_err(text)?;
    let outcome = life(&harness, &spec);
    let _ = runtime.kill(&spec.name);
    runtime.remove(&spec.name).map_err(text)?;
    outcome
}

fn spec(harness: &QemuHarness) -> Outcome<SandboxSpec> {
    Ok(SandboxSpec {
        network: NetworkPolicy {
            egress_allow: vec!["open.example.com".into()],
            // Nobody answers there: this host knows no name of the world.
            dns_servers: vec!["127.0.0.1:9".into()],
            ..NetworkPolicy::default()
        },
        ..crate::spec::plain(harness, "proxy")?
    })
}

fn life(harness: &QemuHarness, spec: &SandboxSpec) -> Outcome {
    let runtime = harness.runtime();
    let proxy = std::env::var(VARIABLE).map_err(text)?.parse().map_err(|error: InvalidProxy| text(error))?;
    let proxies = Proxies::one(proxy, NoProxy::default());
    runtime.start_with(&spec.name, &SecretValues::new(), Some(&proxies)).map_err(text)?;
    let guest = |script: &str| -> Outcome<String> {
        let command = ExecSpec::new(["bash", "-c", script]);
        let said = runtime.exec(&spec.name, &command).and_then(sandbox_runtime::ExecSession::collect);
        let said = said.map_err(text)?;
        Ok(String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned())
    };
    let get = |host: &str, to: &str, port: u16| {
        guest(&format!(
            "exec 3<>/dev/tcp/{to}/{port} && printf 'GET /page HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n' >&3 && timeout 20 cat <&3"
        ))
    };
    // The doors: a tunnel, and plain HTTP.
    for port in [8080, 80] {
        let said = get("open.example.com", "open.example.com", port)?;
        if !said.contains("200 OK") {
            return Err(format!("an allowed name at port {port}: {said}"));
        }
    }
    // Denied stays denied, and at once.
    let begin = Instant::now();
    for (host, to) in [
        ("closed.example.com", "closed.example.com"),
        ("closed.example.com", "open.example.com"),
        ("open.example.com", "198.19.100.1"),
    ] {
        let said = get(host, to, 80)?;
        if said.contains("200 OK") {
            return Err(format!("{host} at {to}: {said}"));
        }
    }
    if begin.elapsed() > Duration::from_secs(30) {
        return Err(format!("the denials took {:?}", begin.elapsed()));
    }
    look(harness, spec)?;
    let variables = guest("env; cat /proc/*/environ /etc/environment /etc/apt/apt.conf.d/* 2>/dev/null")?;
    if variables.contains(PASSWORD) {
        return Err("the guest has the password".into());
    }
    runtime.stop(&spec.name, GRACE).map_err(text)?;
    for dir in [harness.sandbox_dir(&spec.name), spec.workspace.source.clone()] {
        let files = fs::read_dir(dir).map_err(text)?.flatten().map(|entry| entry.path());
        for path in files.chain([spec.home.path.clone()]).filter(|path| path.is_file()) {
            if in_file(&path, PASSWORD)? {
                return Err(format!("the password is in {}", path.display()));
            }
        }
    }
    Ok(())
}

/// Command lines and variables of every process, and the guest's memory.
fn look(harness: &QemuHarness, spec: &SandboxSpec) -> Outcome {
    let dir = harness.sandbox_dir(&spec.name);
    let (mut qemu, mut bridge) = (None, None);
    for entry in fs::read_dir("/proc").map_err(text)?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let own = pid == std::process::id();
        let found = |bytes: &[u8]| memmem::find(bytes, PASSWORD.as_bytes()).is_some();
        if own && !found(&environment) {
            return Err("nobody has the variable, so the search proves nothing".into());
        }
        if found(&line) || (!own && found(&environment)) {
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            return Err(format!("process {pid} ({line}) shows the password"));
        }
        let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        let of_ours = parent(pid).is_some_and(|parent| {
            let line = fs::read(format!("/proc/{parent}/cmdline")).unwrap_or_default();
            memmem::find(&line, dir.as_os_str().as_encoded_bytes()).is_some()
        });
        if of_ours && words.iter().any(|word| word == "network") {
            bridge = Some(pid);
        } else if of_ours && words[0].contains("qemu") {
            qemu = Some(pid);
        }
    }
    let (qemu, bridge) = qemu.zip(bridge).ok_or("the machine's processes were not found")?;
    if rustix::process::geteuid().is_root() && !in_memory(bridge, PASSWORD)? {
        return Err("the bridge does not have the password, so the search proves nothing".into());
    }
    if !in_memory(qemu, "open.example.com")? {
        return Err("the guest's memory has no name, so the search proves nothing".into());
    }
    if in_memory(qemu, PASSWORD)? { Err("the guest's memory has the password".into()) } else { Ok(()) }
}
