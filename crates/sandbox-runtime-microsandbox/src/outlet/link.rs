//! The driver's side: an outlet is started before the machine, and told of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use fs_err as fs;
use ipnetwork::IpNetwork;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sandbox_model::{Proxies, SandboxSpec, SecretValue, SecretValues, holding};
use sandbox_network::{OutletAddresses, OutletConfig, RunAs};
use sandbox_runtime::RuntimeError;
use sandbox_state::{is_locked, read_record, write_record};
use serde::Serialize;

use super::rules::PLACEHOLDERS;
use super::{Booted, PASSWORD, USER, password, secrets, word};
use crate::ADDRESS_POOLS;
use crate::error::from_state;
use crate::files::{Files, SandboxPaths};
use crate::machine::{self, Seen};
use crate::options::MsbOptions;

/// It ends as soon as it is told to.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// How much of what it said goes into an error.
const LAST_WORDS: u64 = 2_000;

/// An outlet that waits for its machine. Dropping it ends it.
#[derive(Debug)]
pub struct Outlet {
    child: Option<Child>,
    /// Whether it was told of a machine.
    named: bool,
    stdout: BufReader<ChildStdout>,
    patience: Duration,
    addresses: OutletAddresses,
    /// Whether names resolve to placeholders.
    has_proxies: bool,
    /// Of its relay.
    pub password: SecretValue,
    /// What the guest has to trust, as PEM.
    pub certificate: Option<String>,
}

impl Outlet {
    /// Starts the one of a sandbox at rest; `None` for a sandbox that reaches nothing. The change lock is the caller's.
    pub fn start(
        paths: &SandboxPaths,
        options: &MsbOptions,
        spec: &SandboxSpec,
        values: &SecretValues,
        proxies: Option<&Proxies>,
    ) -> Result<Option<Self>, RuntimeError> {
        if (options.network_rules)(&spec.network)?.is_none() {
            return Ok(None);
        }
        let program = options.program.as_deref();
        let program =
            program.ok_or_else(|| RuntimeError::other("no program serves the sandbox's network"))?;
        // One whose machine is about to be gone; the next waits for its lock.
        if is_locked(&paths.outlet_lock()).map_err(from_state)? {
            word::end(&paths.outlet_socket())?;
        }
        let config = config(paths, spec, values, proxies)?;
        let certificate = config.secrets.as_ref().map(|secrets| secrets.authority.certificate.clone());
        let mut child = spawn(paths, program, values)?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(RuntimeError::other("the network process has no pipes"));
        };
        let mut stdout = BufReader::new(stdout);
        let told = tell(&mut stdin, &config).and_then(|()| line(&mut stdout, options.patience.ask));
        child.stdin = Some(stdin);
        let addresses = told.and_then(|line| Ok(serde_json::from_str(&line)?));
        let addresses: OutletAddresses = match addresses {
            Ok(addresses) => addresses,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(not_started(paths, &error));
            }
        };
        // The same ones again: then what msb was told of this sandbox stays true.
        write_record(&paths.outlet(), &addresses).map_err(from_state)?;
        let (patience, password) = (options.patience.ask, config.password);
        Ok(Some(Self {
            child: Some(child),
            named: false,
            stdout,
            patience,
            addresses,
            has_proxies: proxies.is_some(),
            password,
            certificate,
        }))
    }

    /// What `msb create` is told of it.
    pub fn words(&self) -> Vec<String> {
        let OutletAddresses { relay, resolver } = self.addresses;
        let (relay, resolver) = (format!("socks5://{relay}"), resolver.to_string());
        // After the policy's rules.
        let placeholders: &[&str] = if self.has_proxies { &["--net-rule", PLACEHOLDERS] } else { &[] };
        ["--proxy", &relay, "--socks5-username", USER, "--socks5-password-env", PASSWORD]
            .into_iter()
            .chain(["--dns-nameserver", &resolver])
            .chain(placeholders.iter().copied())
            .map(String::from)
            .collect()
    }

    /// Binds its life to that of the noted machine, which has booted.
    pub fn attend(
        mut self,
        files: &Files,
        paths: &SandboxPaths,
        spec: &SandboxSpec,
    ) -> Result<(), RuntimeError> {
        let gone = || RuntimeError::other("its machine cannot be seen, or ended as soon as it was there");
        let pid = machine::noted(paths).ok_or_else(gone)?;
        let Some(child) = &mut self.child else { return Ok(()) };
        let Some(stdin) = &mut child.stdin else { return Ok(()) };
        self.named = true;
        let watched = tell(stdin, &Booted { machine: Some(pid) });
        let watched = watched.and_then(|()| line(&mut self.stdout, self.patience));
        watched.map_err(|error| not_started(paths, &error))?;
        if machine::look(&files.home.dir, paths, &spec.name) != Seen::Up {
            return Err(gone());
        }
        // From here on it is its machine's. Somebody has to hear of its end, or it stays as a number.
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            std::thread::Builder::new().name("outlet".into()).spawn(move || child.wait())?;
        }
        Ok(())
    }
}

impl Drop for Outlet {
    /// There is no machine, or none that is to live.
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if self.named {
            let _ = child.kill();
        } else if let Some(mut stdin) = child.stdin.take() {
            let _ = tell(&mut stdin, &Booted { machine: None });
        }
        let begun = Instant::now();
        while let Ok(None) = child.try_wait() {
            if begun.elapsed() > ENDS_WITHIN {
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn config(
    paths: &SandboxPaths,
    spec: &SandboxSpec,
    values: &SecretValues,
    proxies: Option<&Proxies>,
) -> Result<OutletConfig, RuntimeError> {
    let [v4, v6] = ADDRESS_POOLS.map(|pool| {
        pool.parse::<IpNetwork>().map_err(|error| RuntimeError::Other {
            context: "an address pool of the runtime".into(),
            source: Some(Box::new(error)),
        })
    });
    let as_root = rustix::process::geteuid().is_root();
    let owner = RunAs { uid: spec.workspace.host_uid, gid: spec.workspace.host_gid };
    Ok(OutletConfig {
        policy: spec.network.clone(),
        gateways: [v4?, v6?],
        secrets: secrets::hand_over(paths, spec, values)?,
        proxies: proxies.cloned(),
        // A record that cannot be read costs the sandbox nothing but other ports.
        at: read_record(&paths.outlet()).unwrap_or_default(),
        user: USER.into(),
        password: password(),
        run_as: (as_root && owner.uid != 0).then_some(owner),
        log: None,
    })
}

fn spawn(paths: &SandboxPaths, program: &Path, values: &SecretValues) -> Result<Child, RuntimeError> {
    // What a guest was refused, and whatever else it says of this boot; it keeps its lines few.
    let log = fs::OpenOptions::new().create(true).write(true).truncate(true).open(paths.outlet_log())?;
    let mut command = Command::new(program);
    let variables: Vec<_> = std::env::vars_os().collect();
    let pairs = variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    for name in holding(values, pairs) {
        command.env_remove(name);
    }
    command.args(["internal", "outlet"]).arg(&paths.dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.into_parts().0);
    command.spawn().map_err(|error| RuntimeError::MissingProgram {
        program: program.display().to_string(),
        problem: error.to_string(),
    })
}

fn tell(stdin: &mut impl Write, what: &impl Serialize) -> std::io::Result<()> {
    let mut text = zeroize::Zeroizing::new(serde_json::to_vec(what)?);
    text.push(b'\n');
    stdin.write_all(&text)
}

/// Its next line. It writes one at once or not at all.
fn line(stdout: &mut BufReader<ChildStdout>, within: Duration) -> std::io::Result<String> {
    let limit = Timespec::try_from(within).map_err(std::io::Error::other)?;
    let is_silent = stdout.buffer().is_empty() && {
        let mut ready = [PollFd::new(stdout.get_ref(), PollFlags::IN)];
        poll(&mut ready, Some(&limit))? == 0
    };
    if is_silent {
        return Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "it does not answer"));
    }
    let mut line = String::new();
    stdout.read_line(&mut line)?;
    if line.is_empty() { Err(std::io::Error::other("it ended")) } else { Ok(line) }
}

fn not_started(paths: &SandboxPaths, error: &std::io::Error) -> RuntimeError {
    let mut said = String::new();
    if let Ok(log) = fs::File::open(paths.outlet_log()) {
        let _ = log.take(LAST_WORDS).read_to_string(&mut said);
    }
    let said = said.trim();
    let why = if said.is_empty() { String::new() } else { format!("; it said: {said}") };
    RuntimeError::other(format!("the process that serves the sandbox's network cannot be used: {error}{why}"))
}
