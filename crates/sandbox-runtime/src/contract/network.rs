use std::io::{Read, Write};

use sandbox_model::ExecSpec;

use super::check::{check, check_eq, fail};
use super::sandbox::{Live, Sandbox, text};
use super::{Case, Harness, Outcome, Power};

pub(super) const CASES: &[Case] = &[
    Case::with(Power::Dial, "dial_reaches_a_listener", listener).borrowing(),
    Case::with(Power::Dial, "dial_to_a_closed_port_fails", closed_port).borrowing(),
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
        waited.as_ref().is_err_and(|error| matches!(
            error.kind(),
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
        )),
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
