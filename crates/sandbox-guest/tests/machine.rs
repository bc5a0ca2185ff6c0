//! Requests about the machine as a whole, on a machine that only takes notes.

#![allow(clippy::unwrap_used)]

mod common;

use common::{FakeMachine, Host, sh};
use sandbox_guest::LinkEnd;
use sandbox_wire::{BootConfig, GuestReply, GuestRequest};

fn boot() -> GuestRequest {
    GuestRequest::Boot(Box::new(BootConfig {
        hostname: "box".into(),
        unix_nanos: 0,
        base_device: "/dev/vda".into(),
        base_fstype: "erofs".into(),
        root_device: "/dev/vdb".into(),
        mounts: Vec::new(),
        network: None,
        env: vec![("FROM_BOOT".into(), "1".into())],
        user: common::me(),
        ssh_agent: false,
    }))
}

#[tokio::test]
async fn commands_wait_for_the_boot_and_get_its_environment() {
    let host = Host::with(FakeMachine::default(), None);
    let ran = host.run("true").await;
    assert!(ran.failed.unwrap().1.contains("not booted"));
    assert_eq!(host.ask(&boot()).await, GuestReply::Ok);
    let mut request = sh("echo $FROM_BOOT");
    request.user = String::new();
    assert_eq!(host.exec(request).await.finish().await.text(), "1\n");
    assert!(matches!(host.ask(&boot()).await, GuestReply::Failed(reason) if reason.contains("already")));
    assert_eq!(host.machine.calls(), ["boot box"]);
}

#[tokio::test]
async fn a_failed_boot_names_its_step_and_runs_nothing() {
    let host = Host::with(FakeMachine { boot_fails: true, ..FakeMachine::default() }, None);
    let GuestReply::Failed(reason) = host.ask(&boot()).await else { panic!("it booted") };
    assert!(reason.starts_with("mounting home: "), "{reason}");
    assert!(host.run("true").await.failed.is_some());
}

#[tokio::test]
async fn the_clock_is_set() {
    let host = Host::booted();
    assert_eq!(host.ask(&GuestRequest::SetClock { unix_nanos: 12 }).await, GuestReply::Ok);
    assert_eq!(host.machine.calls(), ["clock 12"]);
}

#[tokio::test]
async fn a_shutdown_is_answered_before_the_power_goes() {
    let host = Host::booted();
    assert_eq!(host.ask(&GuestRequest::Shutdown { grace_millis: 1500 }).await, GuestReply::Ok);
    assert_eq!(host.machine.calls(), ["shut down 1500"]);
    assert_eq!(host.served.await.unwrap(), LinkEnd::PowerOff);
}

#[tokio::test]
async fn before_sleep_the_disks_are_settled_and_the_link_ends() {
    let host = Host::booted();
    assert_eq!(host.ask(&GuestRequest::Sleep { token: [7; 16] }).await, GuestReply::Ok);
    assert_eq!(host.machine.calls(), ["settle"]);
    assert_eq!(host.served.await.unwrap(), LinkEnd::Asleep([7; 16]));
}
