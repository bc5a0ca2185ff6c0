//! A port of the host's loopback that leads to the agent's server in the sandbox.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use sandbox_model::SandboxName;
use sandbox_runtime::{Connection, Runtime};

use crate::{Daemon, Result, Up};

/// Only this computer reaches it, and the server behind it wants its password. It is open for as long as the
/// process lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// On the loopback, with the port that the system chose.
    pub address: SocketAddrV4,
}

/// Opens a port that the system chooses and passes every connection on to the server.
pub fn serve(runtime: Arc<dyn Runtime>, up: &Up, daemon: &Daemon) -> Result<Served> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let (sandbox, guest_port) = (up.name.clone(), daemon.port);
    thread::Builder::new().name("serve".into()).spawn(move || {
        for client in listener.incoming() {
            let Ok(client) = client else {
                // Out of descriptors: those who knock wait until someone leaves.
                thread::sleep(std::time::Duration::from_millis(50));
                continue;
            };
            let (runtime, sandbox) = (Arc::clone(&runtime), sandbox.clone());
            // Without a thread the client sees its connection close.
            let _ = thread::Builder::new()
                .name("client".into())
                .spawn(move || pass_on(&client, runtime.as_ref(), &sandbox, guest_port));
        }
    })?;
    Ok(Served { address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port) })
}

/// Until both sides have said all. A server that cannot be reached is a connection that closes.
fn pass_on(client: &TcpStream, runtime: &dyn Runtime, sandbox: &SandboxName, port: u16) {
    let passed = runtime.dial(sandbox, port).and_then(|server| both_ways(client, server));
    if passed.is_err() {
        let _ = client.shutdown(Shutdown::Both);
    }
}

fn both_ways(client: &TcpStream, mut server: Box<dyn Connection>) -> sandbox_runtime::Result<()> {
    let mut to_server = server.try_clone()?;
    thread::scope(|scope| {
        scope.spawn(move || {
            let _ = copy(&mut &*client, to_server.as_mut());
            let _ = to_server.shutdown_write();
        });
        let copied = copy(server.as_mut(), &mut &*client);
        // A client that waits for an answer which does not come any more would hold the other direction.
        let _ = client.shutdown(if copied.is_ok() { Shutdown::Write } else { Shutdown::Both });
        Ok(())
    })
}

fn copy(from: &mut (impl Read + ?Sized), to: &mut (impl Write + ?Sized)) -> std::io::Result<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.write_all(&buffer[..count])?;
                to.flush()?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
