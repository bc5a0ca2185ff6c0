use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use sandbox_lifecycle::{LifecycleError, up};
use sandbox_runtime::RuntimeError;
use sandbox_runtime::fake::Faults;

use crate::Case;
use crate::lab::{Client, Lab};

pub const CASES: &[Case] = &[
    ("the_first_up_makes_everything_and_the_next_one_attaches", first_and_next),
    ("twenty_clients_at_once_get_one_sandbox", twenty_at_once),
    ("a_stopped_sandbox_starts_without_an_engine", restart),
    ("a_boot_that_fails_is_reported_and_blocks_nothing", failing_boot),
    ("a_client_killed_at_any_moment_blocks_nothing", killed_clients),
    ("a_home_volume_that_is_gone_is_replaced_with_a_warning", lost_volume),
    ("a_checkout_that_is_gone_is_an_error", lost_checkout),
    ("the_first_command_in_a_guest_finds_its_keeper", first_command),
];

/// It may need the user's ssh-agent, which the keeper hands in: on some runtimes it waits for that.
fn first_command() {
    let lab = Lab::new();
    let (bin, log) = (lab.dir.join("bin"), lab.dir.join("commands"));
    fs::create_dir(&bin).unwrap();
    let (socket, shell) = (lab.files().keeper().socket, bin.join("sh"));
    let said = format!("[ -S '{}' ] && echo kept || echo alone", socket.display());
    let script = format!("#!/bin/sh\n{{ {said}; }} >>'{}'\nexec /bin/sh \"$@\"\n", log.display());
    fs::write(&shell, script).unwrap();
    fs::set_permissions(&shell, PermissionsExt::from_mode(0o755)).unwrap();
    let mut request = lab.request();
    request.settings.env = BTreeMap::from([("PATH".into(), format!("{}:/usr/bin:/bin", bin.display()))]);
    let up = up(&lab.context(), &request).unwrap();
    assert!(up.started);
    assert_eq!(fs::read_to_string(log).unwrap(), "kept\n");
}

fn first_and_next() {
    let lab = Lab::new();
    let first = lab.up();
    assert!(first.started);
    assert_eq!(first.guest_dir, "/workspace/src");
    assert_eq!(lab.status(), "running");
    assert_eq!(first.lease.other_clients(), 0);
    let state = lab.state();
    assert!(state.image_digest.is_some() && lab.home().is_file());
    assert_eq!(lab.volumes().len(), 1, "{:?}", lab.volumes());

    let calls = lab.engine_calls();
    let begin = Instant::now();
    let next = lab.up();
    let took = begin.elapsed();
    assert!(!next.started);
    assert_eq!((next.boot_id.clone(), next.lease.other_clients()), (first.boot_id.clone(), 1));
    assert_eq!(lab.engine_calls(), calls);
    assert!(took < Duration::from_millis(500), "{took:?}");
}

fn twenty_at_once() {
    let lab = Lab::new();
    lab.set_faults(&Faults { boot_millis: 300, ..Faults::default() });
    let mut clients: Vec<Client> = (0..20).map(|_| lab.client()).collect();
    let boots: Vec<String> = clients.iter_mut().map(Client::boot_id).collect();
    assert!(boots.iter().all(|boot| !boot.is_empty() && *boot == boots[0]), "{boots:?}");
    assert_eq!(lab.boot_id().as_ref(), Some(&boots[0]));
    assert_eq!(lab.volumes().len(), 1);
    assert_eq!(lab.engine_calls(), 1);
    assert_eq!(lab.up().lease.other_clients(), 20);
}

fn restart() {
    let lab = Lab::new();
    let first = lab.up();
    let home = lab.home();
    sandbox_lifecycle::stop(&lab.context(), &lab.target(), false).unwrap();
    let calls = lab.engine_calls();
    let second = lab.up();
    assert!(second.started);
    assert_ne!(second.boot_id, first.boot_id);
    assert_eq!((lab.engine_calls(), lab.home()), (calls, home));
}

fn failing_boot() {
    let lab = Lab::new();
    lab.set_faults(&Faults { boot_fails: Some("no kernel".into()), ..Faults::default() });
    let error = up(&lab.context(), &lab.request()).unwrap_err();
    assert!(
        matches!(&error, LifecycleError::Runtime(RuntimeError::BootFailed { problem, .. }) if problem.contains("no kernel")),
        "{error:?}"
    );
    lab.set_faults(&Faults::default());
    assert!(lab.up().started);
    assert_eq!(lab.volumes().len(), 1);
}

fn killed_clients() {
    let lab = Lab::new();
    lab.set_faults(&Faults { boot_millis: 50, ..Faults::default() });
    for millis in [1, 5, 10, 20, 40, 60, 80, 120, 160, 250] {
        let mut client = lab.client();
        std::thread::sleep(Duration::from_millis(millis));
        client.kill();
        let begin = Instant::now();
        let up = lab.up();
        assert!(begin.elapsed() < Duration::from_secs(20), "after {millis} ms");
        assert_eq!(Some(up.boot_id), lab.boot_id());
        sandbox_lifecycle::stop(&lab.context(), &lab.target(), millis % 20 == 0).unwrap();
        assert!(lab.volumes().iter().all(|name| !name.starts_with(".new-")), "{:?}", lab.volumes());
    }
}

fn lost_volume() {
    let lab = Lab::new();
    drop(lab.up());
    sandbox_lifecycle::stop(&lab.context(), &lab.target(), false).unwrap();
    let lost = lab.home();
    fs::remove_file(&lost).unwrap();
    let up = lab.up();
    assert!(up.started && lab.home().is_file());
    assert!(lab.said.all().contains("warning: the recorded home volume"), "{}", lab.said.all());
}

fn lost_checkout() {
    let lab = Lab::new();
    drop(lab.up());
    let mut request = lab.request();
    request.project.root = lab.dir.join("gone");
    let error = up(&lab.context(), &request).unwrap_err();
    assert!(matches!(error, LifecycleError::CheckoutGone(_)), "{error:?}");
}
