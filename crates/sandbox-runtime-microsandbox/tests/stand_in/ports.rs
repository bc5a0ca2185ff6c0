//! Ports of this computer that lead into the guest.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use sandbox_model::{PortForward, SandboxSpec};
use sandbox_runtime::{Runtime, RuntimeError};
use sandbox_state::{Lock, LockMode, bind_socket};
use sandbox_wire::{LinkRequest, read_json};

use crate::fixture::{Fixture, eventually, kill, name};

/// What listens on the guest's loopback: it greets, and sends back what it is sent.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            std::thread::spawn(move || {
                client.write_all(b"hello").unwrap();
                let mut other = client.try_clone().unwrap();
                std::io::copy(&mut client, &mut other)
            });
        }
    });
    port
}

/// A port of this computer that nobody has.
fn free() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn leading(guest: u16) -> PortForward {
    PortForward { bind: None, host: free(), guest }
}

fn is_free(port: PortForward) -> bool {
    port.addresses().iter().all(|address| TcpListener::bind(address).is_ok())
}

fn connected(port: PortForward) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port.host)).ok()?;
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let mut greeting = [0; 5];
    stream.read_exact(&mut greeting).ok()?;
    assert_eq!(&greeting, b"hello");
    Some(stream)
}

fn is_echoed(stream: &mut TcpStream) -> bool {
    let mut word = [0; 4];
    stream.write_all(b"word").is_ok() && stream.read_exact(&mut word).is_ok() && &word == b"word"
}

fn created(ports: &[PortForward]) -> Fixture {
    let fixture = Fixture::linked();
    fixture.load().unwrap();
    fixture.runtime.create(&SandboxSpec { ports: ports.to_vec(), ..fixture.spec() }).unwrap();
    fixture
}

fn started(ports: &[PortForward]) -> Fixture {
    let fixture = created(ports);
    fixture.runtime.start(&name()).unwrap();
    fixture
}

/// Those of its record, and of them those that were added.
fn known(fixture: &Fixture) -> (Vec<PortForward>, Vec<PortForward>) {
    let info = fixture.runtime.inspect(&name()).unwrap().unwrap();
    (info.spec.ports, info.added_ports)
}

#[test]
fn they_lead_to_its_loopback_from_the_start_and_are_free_after_the_stop() {
    let port = leading(server());
    let fixture = started(&[port]);
    assert!(is_echoed(&mut connected(port).unwrap()));
    fixture.runtime.stop(&name(), Duration::from_secs(1)).unwrap();
    assert!(is_free(port));
}

#[test]
fn one_that_is_taken_keeps_it_from_starting_and_nothing_was_begun() {
    let (port, other) = (leading(server()), leading(1));
    let fixture = created(&[other, port]);
    let taken = TcpListener::bind(("127.0.0.1", port.host)).unwrap();
    let before = fixture.status();
    let error = fixture.runtime.start(&name()).unwrap_err().to_string();
    assert!(error.contains(&format!("port 127.0.0.1:{} cannot be published", port.host)), "{error}");
    assert_eq!((fixture.calls("create"), fixture.link_process(), fixture.status()), (0, None, before));
    assert!(is_free(other));
    drop(taken);
    fixture.runtime.start(&name()).unwrap();
    connected(port).unwrap();
}

#[test]
fn a_boot_that_fails_frees_them() {
    let port = leading(1);
    let fixture = created(&[port]);
    fixture.fail("create", "error: failed to start\n");
    fixture.runtime.start(&name()).unwrap_err();
    assert!(is_free(port));
}

#[test]
fn they_change_while_it_runs_all_or_none() {
    let server = server();
    let [first, second, taken] = [leading(server), leading(server), leading(server)];
    let fixture = started(&[]);
    fixture.runtime.change_ports(&name(), &[first], &[]).unwrap();
    let mut held = connected(first).unwrap();

    let holder = TcpListener::bind(("127.0.0.1", taken.host)).unwrap();
    let error = fixture.runtime.change_ports(&name(), &[second, taken], &[first]).unwrap_err().to_string();
    assert!(error.contains("cannot be published"), "{error}");
    assert_eq!(known(&fixture), (vec![first], vec![]));
    assert!(connected(first).is_some() && is_free(second));
    drop(holder);

    fixture.runtime.change_ports(&name(), &[second], &[first]).unwrap();
    assert_eq!(known(&fixture), (vec![second], vec![]));
    assert!(is_free(first) && connected(second).is_some());
    assert!(is_echoed(&mut held), "a connection goes on");
}

#[test]
fn those_that_were_added_are_told_apart() {
    let [own, added] = [leading(1), leading(2)];
    let fixture = started(&[own]);
    fixture.runtime.add_ports(&name(), &[added]).unwrap();
    assert_eq!(known(&fixture), (vec![own, added], vec![added]));
    let resources = fixture.spec().resources;
    fixture.runtime.modify(&name(), resources).unwrap();
    assert_eq!(known(&fixture), (vec![own, added], vec![added]), "another change leaves them");
    fixture.runtime.change_ports(&name(), &[], &[added]).unwrap();
    assert_eq!(known(&fixture), (vec![own], vec![]));
    assert!(is_free(added) && !is_free(own));
}

#[test]
fn at_rest_they_are_noted() {
    let [first, second] = [leading(1), leading(2)];
    let fixture = created(&[first]);
    fixture.runtime.change_ports(&name(), &[second], &[first]).unwrap();
    assert_eq!(known(&fixture), (vec![second], vec![]));
    assert!(is_free(second));
}

/// Whatever asks something of the guest brings them back, and so does their own change.
#[test]
fn a_killed_process_takes_them_along_until_the_next_command() {
    let server = server();
    let [first, second] = [leading(server), leading(server)];
    let fixture = started(&[first]);
    let end = || {
        kill(fixture.link_process().unwrap());
        eventually("its end", || fixture.link_process().is_none());
        assert!(connected(first).is_none());
    };
    end();
    fixture.another(b"another").sessions(&name()).unwrap();
    assert!(connected(first).is_some());
    end();
    fixture.runtime.change_ports(&name(), &[second], &[]).unwrap();
    assert!(connected(first).is_some() && connected(second).is_some());
}

#[test]
fn those_that_others_took_meanwhile_are_told_and_the_rest_comes_back() {
    let server = server();
    let [first, second] = [leading(server), leading(server)];
    let fixture = started(&[first, second]);
    kill(fixture.link_process().unwrap());
    eventually("its end", || fixture.link_process().is_none());
    let _taken = TcpListener::bind(("127.0.0.1", first.host)).unwrap();
    fixture.runtime.sessions(&name()).unwrap();
    assert!(connected(second).is_some());
    let told = fixture.told.lock().unwrap().join("\n");
    let said = format!("port 127.0.0.1:{} cannot be published", first.host);
    assert!(told.contains(&said) && !told.contains(&second.host.to_string()), "{told}");
}

#[test]
fn those_that_an_earlier_version_opened_wait_for_the_next_start() {
    let [own, other] = [leading(1), leading(2)];
    let fixture = started(&[own]);
    let waits = || {
        let refused = fixture.runtime.change_ports(&name(), &[other], &[own]);
        assert!(matches!(refused, Err(RuntimeError::Unsupported(_))), "{refused:?}");
        assert_eq!(known(&fixture), (vec![own], vec![]));
    };
    // `msb` has them, and keeps them whatever else changes.
    let applied = fixture.file("applied.json");
    let line = fs::read_to_string(&applied).unwrap();
    fs::write(&applied, line.replacen('[', "[\"-p\",", 1)).unwrap();
    waits();
    fixture.runtime.modify(&name(), fixture.spec().resources).unwrap();
    waits();
    fs::write(&applied, line).unwrap();

    // A link process that knows of no ports.
    kill(fixture.link_process().unwrap());
    eventually("its end", || fixture.link_process().is_none());
    let listener = bind_socket(&fixture.file("link.sock")).unwrap();
    let _lock = Lock::try_take(&fixture.file("link.lock"), LockMode::Exclusive, "link").unwrap();
    let asked = std::thread::spawn(move || {
        let mut client = listener.accept().unwrap().0;
        assert!(matches!(read_json(&mut client), Ok(LinkRequest::Ports { .. })));
    });
    waits();
    asked.join().unwrap();
}
