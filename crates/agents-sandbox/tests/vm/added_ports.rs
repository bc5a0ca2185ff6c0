//! Ports that were added while a sandbox ran: there again when it wakes, and gone when it boots.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use crate::beside::{GUEST_PORT, SERVER, answer};
use crate::house::{Case, House, Outcome, told};

pub const CASES: [Case; 1] =
    [("ports_that_were_added_wake_with_the_sandbox", ports_that_were_added_wake_with_the_sandbox)];

fn ports_that_were_added_wake_with_the_sandbox() -> Outcome {
    let house = House::new()?;
    let script = format!("perl -e '{SERVER}' </dev/null >/dev/null 2>&1; echo up");
    house.succeeds(&["exec", "--", "sh", "-c", &script])?;
    let free = [TcpListener::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0")];
    let mut addresses = Vec::new();
    for listener in free {
        addresses.push(listener.and_then(|listener| listener.local_addr()).map_err(told)?);
    }
    let [one, other] = [addresses[0], addresses[1]];
    let words = |address: SocketAddr| format!("{}:{GUEST_PORT}", address.port());
    house.succeeds(&["ports", "add", &words(one), &words(other)])?;
    answers(one, "once it is added")?;
    answers(other, "once it is added")?;

    // The server sleeps as well, and goes on.
    house.succeeds(&["stop"])?;
    let said = wakes(&house)?;
    if said.contains("not published") {
        return Err(format!("a port that was added is closed by a wake: {said}"));
    }
    answers(one, "after the wake")?;
    answers(other, "after the wake")?;

    house.succeeds(&["stop"])?;
    let taken = TcpListener::bind(other).map_err(|error| format!("{other} while it sleeps: {error}"))?;
    let said = wakes(&house)?;
    if !said.contains(&format!("port {other} cannot be published")) || !said.contains("wakes without it") {
        return Err(format!("with {other} taken it says: {said}"));
    }
    answers(one, "beside one that is taken")?;
    let listed = house.succeeds(&["ports", "list"])?;
    if !listed.contains(&one.to_string()) || listed.contains(&other.to_string()) {
        return Err(format!("with {other} taken there are listed: {listed}"));
    }
    drop(taken);
    house.succeeds(&["ports", "add", &words(other)])?;
    answers(other, "once it is added again")?;

    house.succeeds(&["ports", "remove", &other.port().to_string()])?;
    house.succeeds(&["stop"])?;
    wakes(&house)?;
    answers(one, "after another was removed")?;
    is_closed(other, "one that was removed")?;

    house.succeeds(&["stop", "--cold"])?;
    wakes(&house)?;
    is_closed(one, "after a boot")
}

/// What the program says as it starts the sandbox.
fn wakes(house: &House) -> Outcome<String> {
    let output = house.command(&["exec", "true"]).output().map_err(told)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(said) } else { Err(format!("it does not start: {said}")) }
}

fn answers(address: SocketAddr, when: &str) -> Outcome {
    match answer(address) {
        Ok(said) if said == "LIVE" => Ok(()),
        other => Err(format!("{address} {when}: {other:?}")),
    }
}

fn is_closed(address: SocketAddr, what: &str) -> Outcome {
    match answer(address) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        other => Err(format!("{address}, {what}: {other:?}")),
    }
}
