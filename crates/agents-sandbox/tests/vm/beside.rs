//! What a machine has beside the checkout: published ports, and folders of the host, one of them read-only
//! whatever the guest's own root does.

use std::fmt::Display;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use sandbox_model::{ExecSpec, ExecUser, ExtraMount, PortForward, SandboxSpec};
use sandbox_runtime::contract::Harness;
use sandbox_runtime::{Runtime, StopOutcome};

use crate::contract::QemuHarness;

pub const CASE: &str = "ports_and_folders_beside_the_checkout";
/// Where the guest's server listens, on its loopback alone: a port that elsewhere is root's.
pub const GUEST_PORT: u16 = 80;
/// Answers one connection after another with what it got, in capitals.
pub const SERVER: &str = "use Socket; socket(my $s, PF_INET, SOCK_STREAM, 0); setsockopt($s, SOL_SOCKET, SO_REUSEADDR, 1); \
     bind($s, sockaddr_in(80, INADDR_LOOPBACK)) or die; listen($s, 16); $SIG{HUP} = q(IGNORE); fork and exit; \
     while (accept(my $c, $s)) { local $/; my $got = <$c>; print $c uc $got; close $c }";

fn text(error: impl Display) -> String {
    error.to_string()
}

/// One machine for all of it: a boot is what costs.
pub fn run() -> Result<(), String> {
    let harness = QemuHarness::new()?;
    let spec = spec(&harness)?;
    let runtime = harness.runtime();
    let name = spec.name.clone();
    runtime
        .load_image(
            &spec.image,
            &spec.image_digest,
            &mut fs::File::open(&harness.image().archive).map_err(text)?,
            &mut |_, _| {},
        )
        .map_err(text)?;
    runtime.create(&spec).map_err(text)?;
    let ended = runtime.start(&name).map_err(text).and_then(|()| checks(runtime, &spec));
    let stopped = runtime.stop(&name, Duration::from_secs(20)).map_err(text);
    let again = taken(runtime, &spec);
    runtime.remove(&name).map_err(text)?;
    ended?;
    again?;
    (stopped? == StopOutcome::Graceful).then_some(()).ok_or_else(|| "the stop took force".into())
}

fn spec(harness: &QemuHarness) -> Result<SandboxSpec, String> {
    let folder = || harness.workspace_dir().and_then(|dir| dir.canonicalize()).map_err(text);
    let (data, kept, third) = (folder()?, folder()?, folder()?);
    fs::write(third.join("file"), "first").map_err(text)?;
    fs::write(third.join("other"), "not shown").map_err(text)?;
    fs::write(data.join("there"), "from the host").map_err(text)?;
    fs::write(kept.join("there"), "as it was").map_err(text)?;
    // Nobody listens there now; whoever takes it before the machine does makes the case fail, not pass.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).map_err(text)?;
    Ok(SandboxSpec {
        resources: harness.resources(),
        mounts: vec![
            ExtraMount { target: "/data".into(), source: data, readonly: false },
            ExtraMount { target: "/etc/single".into(), source: third.join("file"), readonly: true },
            ExtraMount { target: "/home/dev/kept".into(), source: kept, readonly: true },
            ExtraMount { target: "/home/dev/single".into(), source: third.join("file"), readonly: false },
        ],
        ports: vec![PortForward { bind: None, host: free.port(), guest: GUEST_PORT }],
        ..crate::spec::plain(harness, "beside")?
    })
}

fn checks(runtime: &dyn Runtime, spec: &SandboxSpec) -> Result<(), String> {
    let guest = |user, script: &str| {
        let command = ExecSpec { user, ..ExecSpec::new(["sh", "-c", script]) };
        let said = runtime
            .exec(&spec.name, &command)
            .and_then(sandbox_runtime::ExecSession::collect)
            .map_err(text)?;
        let out = [said.stdout, said.stderr].concat();
        Ok::<_, String>(String::from_utf8_lossy(&out).trim().to_string())
    };
    same(
        "both folders",
        &guest(ExecUser::Dev, "cat /data/there /home/dev/kept/there")?,
        "from the hostas it was",
    )?;
    same("writing", &guest(ExecUser::Dev, "echo made > /data/new && echo done")?, "done")?;
    let made = fs::read_to_string(spec.mounts[0].source.join("new")).map_err(text)?;
    same("what the guest made", &made, "made\n")?;
    // The mount's own flag first, then without it: the server is what refuses.
    let script = "mount -o remount,rw /home/dev/kept && echo again; \
         echo x > /home/dev/kept/new; echo y > /home/dev/kept/there; rm /home/dev/kept/there; \
         mkdir /home/dev/kept/d; chmod 600 /home/dev/kept/there; echo end";
    let said = guest(ExecUser::Root, script)?;
    if !said.contains("again") || said.matches("Read-only file system").count() != 5 {
        return Err(format!("a folder that is only read took a change: {said}"));
    }
    let kept = &spec.mounts[2].source;
    same("what is only read", &fs::read_to_string(kept.join("there")).map_err(text)?, "as it was")?;
    same("its entries", &fs::read_dir(kept).map_err(text)?.count().to_string(), "1")?;

    single(&guest, &spec.mounts[3].source)?;

    let port = spec.ports[0];
    guest(ExecUser::Dev, &format!("perl -e '{SERVER}' </dev/null >/dev/null 2>&1; echo up"))?;
    live(runtime, spec)?;
    for address in port.addresses() {
        let big = "through the port ".repeat(100_000);
        let mut stream = TcpStream::connect(address).map_err(text)?;
        stream.set_read_timeout(Some(Duration::from_mins(1))).map_err(text)?;
        let mut writer = stream.try_clone().map_err(text)?;
        let sent = big.clone();
        let feeder = std::thread::spawn(move || {
            writer.write_all(sent.as_bytes()).and_then(|()| writer.shutdown(Shutdown::Write))
        });
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(text)?;
        feeder.join().map_err(|_| "the feeder panicked")?.map_err(text)?;
        if answer != big.to_uppercase() {
            return Err(format!("{} bytes came back through {address}", answer.len()));
        }
    }
    Ok(())
}

/// Another port to the same server, opened and closed while the guest runs.
fn live(runtime: &dyn Runtime, spec: &SandboxSpec) -> Result<(), String> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).map_err(text)?;
    let port = PortForward { bind: None, host: free.port(), guest: GUEST_PORT };
    let address = port.addresses()[0];
    let refused = |when: &str| match answer(address) {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Ok(()),
        other => Err(format!("{when} was opened: {other:?}")),
    };
    refused("it answers before it")?;
    runtime.change_ports(&spec.name, &[port], &[]).map_err(text)?;
    same("a port that was opened", &answer(address).map_err(text)?, "LIVE")?;
    runtime.change_ports(&spec.name, &[], &[port]).map_err(text)?;
    refused("it answers after it was closed, and before it")
}

/// What the server says to `live`.
pub fn answer(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    stream.write_all(b"live")?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn same(what: &str, found: &str, expected: &str) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?} is not {expected:?}")) }
}

/// One file at two places, one of them only read; the host puts another one in its place.
fn single(guest: &impl Fn(ExecUser, &str) -> Result<String, String>, file: &Path) -> Result<(), String> {
    let both = "cat /etc/single /home/dev/single";
    same("the file", &guest(ExecUser::Dev, both)?, "firstfirst")?;
    fs::write(file.with_extension("new"), "second, and longer").map_err(text)?;
    fs::rename(file.with_extension("new"), file).map_err(text)?;
    // As long as the guest may believe what it knew.
    std::thread::sleep(Duration::from_millis(1500));
    same("the new file", &guest(ExecUser::Dev, both)?, "second, and longersecond, and longer")?;
    same("writing it", &guest(ExecUser::Dev, "echo third > /home/dev/single && echo done")?, "done")?;
    same("what was written", &fs::read_to_string(file).map_err(text)?, "third\n")?;
    let script = "mount -o remount,rw /etc/single && echo again; echo x > /etc/single; \
         rm /home/dev/single; mv /home/dev/single /home/dev/away; ls /run/agents-sandbox-mounts; echo end";
    let said = guest(ExecUser::Root, script)?;
    let refused = ["again", "Read-only file system", "Device or resource busy", "No such file"];
    if let Some(missing) = refused.iter().find(|word| !said.contains(**word)) {
        return Err(format!("a file that is mounted was changed ({missing}): {said}"));
    }
    same("the file at the end", &fs::read_to_string(file).map_err(text)?, "third\n")
}

/// A port that someone else has is named, and the machine does not start.
fn taken(runtime: &dyn Runtime, spec: &SandboxSpec) -> Result<(), String> {
    let address = spec.ports[0].addresses()[0];
    let _other = TcpListener::bind(address).map_err(|error| format!("{address} after the stop: {error}"))?;
    match runtime.start(&spec.name) {
        Err(error) if error.to_string().contains(&format!("port {address} cannot be published")) => Ok(()),
        other => Err(format!("with its port taken: {other:?}")),
    }
}
