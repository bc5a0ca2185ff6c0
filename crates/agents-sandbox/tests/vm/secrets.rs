//! A secret with a real machine: its host gets the value, and nobody finds it anywhere else, however they look.

use std::fs;
use std::hash::BuildHasher;
use std::io::{Read, Seek, SeekFrom};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use memchr::memmem;
use sandbox_model::{
    ExecSpec, ExecUser, InvalidProxy, NetworkPolicy, NoProxy, Proxies, SandboxSpec, SecretSpec, SecretValue,
    SecretValues,
};
use sandbox_runtime::contract::Harness;
use sandbox_runtime::{RuntimeError, StopOutcome};

use crate::contract::QemuHarness;
use crate::proxies::Proxy;
use crate::world::World;

type Outcome<T = ()> = Result<T, String>;

pub const CASE: &str = "secrets_are_nowhere_but_where_they_belong";
const NAMES: [&str; 2] = ["api.example.com", "other.example.com"];
const GRACE: Duration = Duration::from_secs(20);

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Runs the case in a process whose machines trust the authority of its world alone.
pub fn run() -> Outcome {
    let roots = tempfile::NamedTempFile::new().map_err(text)?;
    fs::set_permissions(roots.path(), std::os::unix::fs::PermissionsExt::from_mode(0o644)).map_err(text)?;
    let output = Command::new(std::env::current_exe().map_err(text)?)
        .env(crate::CASE, CASE)
        .env("SSL_CERT_FILE", roots.path())
        .env_remove("SSL_CERT_DIR")
        .stdin(Stdio::null())
        .output()
        .map_err(text)?;
    let said = [output.stdout, output.stderr].concat();
    output.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&said).into_owned())
}

struct Case {
    harness: QemuHarness,
    spec: SandboxSpec,
    values: SecretValues,
    /// Not in this program's own text, which the machine's processes share.
    value: String,
    port: u16,
    heard: Receiver<String>,
    proxies: Proxies,
    _proxy: Proxy,
}

/// One machine for all of it: a boot is what costs.
pub fn inside() -> Outcome {
    let case = Case::new()?;
    let (runtime, name) = (case.harness.runtime(), case.spec.name.clone());
    let image = &case.harness.image().archive;
    let mut archive = fs::File::open(image).map_err(text)?;
    runtime
        .load_image(&case.spec.image, &case.spec.image_digest, &mut archive, &mut |_, _| {})
        .map_err(text)?;
    runtime.create(&case.spec).map_err(text)?;
    let outcome = case.life();
    let _ = runtime.kill(&name);
    runtime.remove(&name).map_err(text)?;
    outcome
}

impl Case {
    fn new() -> Outcome<Self> {
        let world = World::new();
        let roots = std::env::var_os("SSL_CERT_FILE").ok_or("nobody said whom to trust")?;
        fs::write(roots, &world.root_pem).map_err(text)?;
        let listener = TcpListener::bind("127.0.0.1:0").map_err(text)?;
        let port = listener.local_addr().map_err(text)?.port();
        let heard = world.https(listener, &NAMES);
        // A company's proxy, which alone knows the names.
        let server = SocketAddr::from(([127, 0, 0, 1], port));
        let proxy = Proxy::http(NAMES.map(|name| (format!("{name}:{port}"), server)).into(), None);
        let url = format!("http://127.0.0.1:{}", proxy.port).parse();
        let proxies = Proxies::one(url.map_err(|error: InvalidProxy| text(error))?, NoProxy::default());
        let harness = QemuHarness::new()?;
        let value = format!("sk-{:016x}", std::collections::hash_map::RandomState::new().hash_one(port));
        let spec = SandboxSpec {
            network: NetworkPolicy {
                egress_allow: NAMES.map(String::from).to_vec(),
                dns_servers: vec!["127.0.0.1:9".into()],
                ..NetworkPolicy::default()
            },
            secrets: vec![SecretSpec {
                name: "API_KEY".into(),
                hosts: vec![format!("{}:{port}", NAMES[0]).parse().map_err(text)?],
                headers: vec!["authorization".into()],
                query: false,
                body: false,
                fingerprint: "f".into(),
            }],
            sleep: harness.runtime().capabilities().sleep,
            ..crate::spec::plain(&harness, "secrets")?
        };
        let values = SecretValues::from([("API_KEY".into(), SecretValue::new(value.clone()))]);
        Ok(Self { harness, spec, values, value, port, heard, proxies, _proxy: proxy })
    }

    fn life(&self) -> Outcome {
        let (runtime, name) = (self.harness.runtime(), &self.spec.name);
        match runtime.start(name) {
            Err(RuntimeError::NoSecretValue { secret, .. }) if secret == "API_KEY" => {}
            other => return Err(format!("without the value: {other:?}")),
        }
        runtime.start_with(name, &self.values, Some(&self.proxies)).map_err(text)?;
        let stand_in = self.guest(ExecUser::Dev, "echo $API_KEY; echo $API_KEY > ~/kept; sync")?;
        same("the guest's variable", &stand_in, "$MSB_API_KEY")?;
        let clock: f64 = self.guest(ExecUser::Dev, "date +%s.%N")?.parse().map_err(text)?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_err(text)?;
        // Certificates that are made this second count from two seconds ago.
        if now.as_secs_f64() - clock > 1.5 {
            return Err(format!("the guest's clock says {clock}, the host's {now:?}"));
        }
        self.requests("after a boot", &self.value)?;
        self.look_at_processes()?;
        let (specs, values) = self.rotated();
        runtime.change_secret_values(name, &specs, &values).map_err(text)?;
        let value = values["API_KEY"].reveal();
        let begin = std::time::Instant::now();
        // The bridge is told by a pipe.
        while let Err(problem) = self.requests("with another value", value) {
            if begin.elapsed() > GRACE {
                return Err(problem);
            }
        }
        runtime.change_secret_values(name, &self.spec.secrets, &self.values).map_err(text)?;
        if self.spec.sleep {
            let slept = runtime.sleep(name, None, GRACE).map_err(text)?;
            if slept.outcome != StopOutcome::Asleep {
                return Err(format!("it did not fall asleep: {slept:?}"));
            }
            self.look_at_files("asleep")?;
            // The guest goes on with the authority that it trusted before.
            runtime.start_with(name, &self.values, Some(&self.proxies)).map_err(text)?;
            self.requests("after a sleep", &self.value)?;
        }
        runtime.stop(name, GRACE).map_err(text)?;
        self.look_at_files("stopped")
    }

    /// The same secret with another value.
    fn rotated(&self) -> (Vec<SecretSpec>, SecretValues) {
        let specs = self.spec.secrets.iter().cloned();
        let specs = specs.map(|secret| SecretSpec { fingerprint: "g".into(), ..secret }).collect();
        (specs, SecretValues::from([("API_KEY".into(), SecretValue::new(format!("{}-second", self.value)))]))
    }

    fn guest(&self, user: ExecUser, script: &str) -> Outcome<String> {
        let command = ExecSpec { user, ..ExecSpec::new(["sh", "-c", script]) };
        let said = self
            .harness
            .runtime()
            .exec(&self.spec.name, &command)
            .and_then(sandbox_runtime::ExecSession::collect)
            .map_err(text)?;
        let out = [said.stdout, said.stderr].concat();
        Ok(String::from_utf8_lossy(&out).trim().to_string())
    }

    /// Asks both hosts over https, with a client of the image's own that trusts what the system trusts.
    fn requests(&self, when: &str, value: &str) -> Outcome {
        let ask = |host: &str| {
            let url = format!("{host}:{}", self.port);
            self.guest(
                ExecUser::Root,
                &format!(
                    "rm -f /tmp/got; printf 'machine {url} login user password %s\\n' \"$API_KEY\" > /etc/apt/auth.conf; \
                     timeout 60 /usr/lib/apt/apt-helper -o Acquire::Retries=0 download-file https://{url}/x /tmp/got 2>&1"
                ),
            )
        };
        let said = ask(NAMES[0])?;
        let heard = self.heard.recv_timeout(GRACE).map_err(|_| format!("{when}: no request: {said}"))?;
        let wanted = base64(&format!("user:{value}"));
        if !heard.contains(&format!("Basic {wanted}")) {
            return Err(format!("{when}: the host got another credential: {heard}"));
        }
        let said = ask(NAMES[1])?;
        match self.heard.recv_timeout(Duration::from_secs(1)) {
            Ok(heard) => Err(format!("{when}: another host got {heard}")),
            Err(_) if said.contains("403") => Ok(()),
            Err(_) => Err(format!("{when}: another host was refused otherwise: {said}")),
        }
    }

    /// Command lines and variables of every process; the memory of QEMU, and so of the guest.
    fn look_at_processes(&self) -> Outcome {
        let dir = self.harness.sandbox_dir(&self.spec.name);
        let (mut qemu, mut bridge, mut seen) = (None, None, 0);
        for entry in fs::read_dir("/proc").map_err(text)?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            for (what, bytes) in [("command line", &line), ("environment", &environment)] {
                if memmem::find(bytes, self.value.as_bytes()).is_some() {
                    return Err(format!("the {what} of process {pid} has the value"));
                }
            }
            seen += 1;
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
        let (qemu, bridge) = qemu.zip(bridge).ok_or(format!("not found among {seen} processes"))?;
        let machine = parent(bridge).ok_or("the bridge has no parent")?;
        // What a process must not be dumped of belongs to root, and no other process of its user reads it.
        for pid in [bridge, machine] {
            same(
                "who may read it",
                &fs::metadata(format!("/proc/{pid}/mem")).map_err(text)?.uid().to_string(),
                "0",
            )?;
        }
        if rustix::process::geteuid().is_root() {
            // Whoever looks into the right process does find it.
            if !in_memory(bridge, &self.value)? {
                return Err("the bridge does not have the value, so the search proves nothing".into());
            }
        }
        if !in_memory(qemu, "$MSB_API_KEY")? {
            return Err("the guest's memory has no stand-in, so the search proves nothing".into());
        }
        if in_memory(qemu, &self.value)? {
            return Err("the guest's memory has the value".into());
        }
        Ok(())
    }

    /// Records, logs, saved memory, both disks and the checkout.
    fn look_at_files(&self, when: &str) -> Outcome {
        let dir = self.harness.sandbox_dir(&self.spec.name);
        let mut found = Vec::new();
        let mut stand_ins = 0;
        let mut files = vec![self.spec.home.path.clone()];
        for dir in [&dir, &self.spec.workspace.source] {
            files.extend(fs::read_dir(dir).map_err(text)?.flatten().map(|entry| entry.path()));
        }
        for path in files.iter().filter(|path| path.is_file()) {
            if in_file(path, &self.value)? {
                found.push(path.clone());
            }
            stand_ins += usize::from(in_file(path, "$MSB_API_KEY")?);
        }
        if stand_ins == 0 {
            return Err(format!("{when}: no file has the stand-in, so the search proves nothing"));
        }
        if found == Vec::<PathBuf>::new() {
            Ok(())
        } else {
            Err(format!("{when}: the value is in {found:?}"))
        }
    }
}

fn same(what: &str, found: &str, expected: &str) -> Outcome {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?} is not {expected:?}")) }
}

pub fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

/// Whether the text is in what a process can write.
pub fn in_memory(pid: u32, needle: &str) -> Outcome<bool> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).map_err(text)?;
    let mut memory = fs::File::open(format!("/proc/{pid}/mem")).map_err(text)?;
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let Some((Ok(start), Ok(end))) =
            range.map(|(start, end)| (u64::from_str_radix(start, 16), u64::from_str_radix(end, 16)))
        else {
            return Err(format!("no range: {line}"));
        };
        if scan(&mut memory, start, end, needle).unwrap_or(false) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the text is in a file, whose holes are passed over.
pub fn in_file(path: &Path, needle: &str) -> Outcome<bool> {
    let mut file = fs::File::open(path).map_err(text)?;
    let mut at = 0;
    while let Ok(start) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) {
        at = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(start)).map_err(text)?;
        if scan(&mut file, start, at, needle).map_err(text)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn scan(from: &mut fs::File, mut start: u64, end: u64, needle: &str) -> std::io::Result<bool> {
    const PIECE: u64 = 1 << 22;
    let finder = memmem::Finder::new(needle.as_bytes());
    let mut piece = Vec::new();
    while start < end {
        piece.clear();
        from.seek(SeekFrom::Start(start))?;
        // A little of the next piece as well: the text may lie on the border.
        from.by_ref().take((PIECE + needle.len() as u64).min(end - start)).read_to_end(&mut piece)?;
        if finder.find(&piece).is_some() {
            return Ok(true);
        }
        start += PIECE;
    }
    Ok(false)
}

fn base64(plain: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(plain)
}
