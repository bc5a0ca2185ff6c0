use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};

use sandbox_model::{ExecSpec, PortForward};

use super::check::{check, check_eq, fail};
use super::sandbox::{Live, Sandbox, text};
use super::{Case, Harness, Outcome, Power};

pub(super) const CASES: &[Case] = &[
    Case::with(Power::Dial, "dial_reaches_a_listener", listener).borrowing(),
    Case::with(Power::Dial, "dial_to_a_closed_port_fails", closed_port).borrowing(),
    Case::with(Power::LivePorts, "ports_open_and_close_while_it_runs", live_ports).borrowing(),
];

/// Answers each connection with what it got, in capitals, once that has ended.
const SERVER: &str = r#"
use Socket;
socket(my $s, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
bind($s, sockaddr_in(0, INADDR_LOOPBACK)) or die "bind: $!";
listen($s, 16) or die "listen: $!";
my ($port) = sockaddr_in(getsockname($s));
$| = 1;
print "port $port.\n";
while (accept(my $c, $s)) {
    local $/;
    my $got = <$c>;
    print $c uc $got;
    close $c;
}
"#;

fn serve(sandbox: &Sandbox<'_>) -> Outcome<(Live, u16)> {
    let mut server = sandbox.live(&ExecSpec::new(["perl", "-e", SERVER]))?;
    server.expect(".\n")?;
    let said = text(&server.stdout);
    let port = said.trim().strip_prefix("port ").and_then(|rest| rest.strip_suffix('.'));
    match port.and_then(|port| port.parse().ok()) {
        Some(port) => Ok((server, port)),
        None => fail!("the listener said {said:?}"),
    }
}

fn listener(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let (_server, port) = serve(&sandbox)?;
    for round in 0..3 {
        let mut connection = sandbox.runtime().dial(sandbox.name(), port)?;
        connection.set_timeout(Some(harness.patience()))?;
        let big = format!("round {round} ").repeat(100_000);
        let mut writer = connection.try_clone()?;
        let sent = big.clone();
        let feeder = std::thread::spawn(move || -> Outcome {
            writer.write_all(sent.as_bytes())?;
            Ok(writer.shutdown_write()?)
        });
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        match feeder.join() {
            Ok(result) => result?,
            Err(_) => fail!("a thread panicked"),
        }
        check_eq!(answer.len(), big.len(), "length of the answer");
        check!(answer == big.to_uppercase(), "the answer is another one");
    }
    // A reader that waits in vain gets its time-out.
    let mut idle = sandbox.runtime().dial(sandbox.name(), port)?;
    idle.set_timeout(Some(std::time::Duration::from_millis(200)))?;
    let waited = idle.read(&mut [0]);
    check!(
        waited
            .as_ref()
            .is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)),
        "a read with a time-out ended with {waited:?}"
    );
    Ok(())
}

fn closed_port(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let (mut server, port) = serve(&sandbox)?;
    // The positive control: it is the listener that makes the difference.
    drop(sandbox.runtime().dial(sandbox.name(), port)?);
    server.input.signal(9)?;
    server.end()??;
    check!(sandbox.runtime().dial(sandbox.name(), port).is_err(), "a connection to a closed port");
    Ok(())
}

/// What leads to the guest's loopback, from a port of this computer that nobody has.
fn leading(guest: u16) -> Outcome<PortForward> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(PortForward { bind: None, host: free.local_addr()?.port(), guest })
}

/// The answer to what is sent through a port.
fn asked(port: PortForward, text: &str) -> Outcome<String> {
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port.host))?;
    connection.write_all(text.as_bytes())?;
    connection.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer)
}

fn live_ports(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let (runtime, name) = (sandbox.runtime(), sandbox.name());
    let (_server, guest) = serve(&sandbox)?;
    let [first, second, taken] = [leading(guest)?, leading(guest)?, leading(guest)?];
    let known = || -> Outcome<Vec<PortForward>> {
        let info = runtime.inspect(name)?;
        Ok(info.map_or_else(Vec::new, |info| info.spec.ports))
    };
    let before = known()?;
    let is_closed = |port: PortForward| {
        let outcome = TcpStream::connect((Ipv4Addr::LOCALHOST, port.host));
        outcome.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    check!(is_closed(first), "a port answers that nobody opened");

    runtime.change_ports(name, &[first], &[])?;
    let text = "through a port ".repeat(100_000);
    check!(asked(first, &text)? == text.to_uppercase(), "the answer through a port is another one");
    check!(known()?.contains(&first), "a port that is open is not known");

    // One of them cannot be had, so that neither is opened and none is closed.
    let holder = TcpListener::bind((Ipv4Addr::LOCALHOST, taken.host))?;
    let refused = runtime.change_ports(name, &[second, taken], &[first]);
    check!(refused.is_err(), "a port that is taken was published");
    check!(is_closed(second), "a port was opened beside one that could not be");
    check_eq!(asked(first, "still")?, "STILL", "the answer through the port that stayed");
    drop(holder);

    runtime.change_ports(name, &[second], &[first])?;
    check!(is_closed(first), "a port that was closed answers");
    check_eq!(asked(second, "now")?, "NOW", "the answer through the other port");
    runtime.change_ports(name, &[], &[second])?;
    check!(is_closed(second), "a port that was closed answers");
    check_eq!(known()?, before, "the ports of the record");
    Ok(())
}
