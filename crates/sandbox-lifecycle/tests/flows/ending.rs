use std::sync::Arc;
use std::time::Duration;

use sandbox_lifecycle::{
    Context, Ended, LifecycleError, ListFilter, Target, agent_activity, keeper_status, kill, list, logs,
    remove, rest, stop, up,
};
use sandbox_runtime::fake::Faults;
use sandbox_runtime::{Runtime, StopOutcome};
use sandbox_state::{DaemonRecord, write_record};

use crate::Case;
use crate::lab::Lab;

pub const CASES: &[Case] = &[
    ("stop_keeps_the_state_and_is_harmless_to_repeat", stop_keeps),
    ("a_forced_stop_removes_the_state_also_at_rest", stop_removes),
    ("kill_powers_off_at_once", kill_now),
    ("what_a_killed_start_left_is_ended_by_whatever_ends_a_sandbox", half_a_start_ends),
    ("remove_refuses_a_running_sandbox_and_keeps_its_record", remove_running),
    ("an_idle_sandbox_stops_and_a_client_that_comes_meanwhile_waits", idle),
    ("a_broken_record_is_a_row_of_its_own", broken_record),
    ("a_server_that_slept_is_asked_whoever_wakes_the_sandbox", slept_server),
    ("the_list_says_what_holds_a_sandbox", holders),
];

/// Whoever wakes it for a shell has nothing to do with the server.
fn slept_server() {
    let lab = Lab::new();
    let mut request = lab.request();
    request.settings.sleep = true;
    let up = up(&lab.context(), &request).unwrap();
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut record = DaemonRecord::new(&up.boot_id, &up.guest_boot, unused, "secret".into());
    let write = |record: &DaemonRecord| write_record(&lab.files().daemon(), record).unwrap();
    write(&record);
    let mut activity = agent_activity(Arc::new(lab.runtime.clone()), &up.name, lab.files());
    assert!(activity.poll().is_err(), "a server that does not answer");
    let slept = lab.runtime.sleep(&up.name, None, Duration::from_secs(5)).unwrap();
    assert_eq!(slept.outcome, StopOutcome::Asleep, "{:?}", slept.why_not);
    lab.runtime.start(&up.name).unwrap();
    assert!(activity.poll().is_err(), "it goes on, and nobody knows what it does");
    // As whoever attaches after the wake writes it, and one of another guest.
    let woken = lab.runtime.boot_id(&up.name).unwrap().unwrap();
    record.set_boot(&woken, &up.guest_boot);
    write(&record);
    assert!(activity.poll().is_err());
    write(&DaemonRecord { boot_id: "another".into(), guest_boot: None, ..record.clone() });
    assert!(activity.poll().unwrap().is_empty());
    write(&record);
    lab.runtime.stop(&up.name, Duration::from_secs(5)).unwrap();
    lab.runtime.start(&up.name).unwrap();
    assert!(activity.poll().unwrap().is_empty(), "a server of a boot that is over");
}

fn stop_keeps() {
    let lab = Lab::new();
    let nothing = stop(&lab.context(), &lab.target(), false).unwrap();
    assert!(!nothing.existed && !nothing.was_running && !nothing.removed);
    drop(lab.up());
    let ended = stop(&lab.context(), &lab.target(), false).unwrap();
    assert!(ended.existed && ended.was_running && !ended.removed);
    assert_eq!(lab.status(), "stopped");
    let again = stop(&lab.context(), &lab.target(), false).unwrap();
    assert!(again.existed && !again.was_running);
    assert!(lab.state().home_volume.is_some());
}

fn stop_removes() {
    let lab = Lab::new();
    drop(lab.up());
    let home = lab.home();
    stop(&lab.context(), &lab.target(), false).unwrap();
    let ended = stop(&lab.context(), &lab.target(), true).unwrap();
    assert!(!ended.was_running && ended.removed);
    assert_eq!((lab.status().as_str(), lab.state().home_volume), ("none", None));
    assert!(home.is_file(), "a home volume is never removed");
    // What is recorded goes even where there is no sandbox any more.
    drop(lab.up());
    remove(&lab.context(), &lab.name(), true).unwrap();
    let ended = stop(&lab.context(), &lab.target(), true).unwrap();
    assert!(!ended.existed && ended.removed && !lab.files().state().exists());
}

fn kill_now() {
    let lab = Lab::new();
    let up = lab.up();
    let ended = kill(&lab.context(), &lab.target(), false).unwrap();
    assert!(ended.existed && ended.was_running);
    assert!(matches!(lab.status().as_str(), "stopped" | "crashed"), "{}", lab.status());
    drop(up);
    assert!(lab.up().started);
    assert!(kill(&lab.context(), &lab.target(), true).unwrap().removed);
    assert_eq!(lab.status(), "none");
}

type End = fn(&Context<'_>, &Target, bool) -> Result<Ended, LifecycleError>;

fn half_a_start_ends() {
    let rests = |context: &Context<'_>, target: &Target, _: bool| rest(context, target);
    for end in [stop as End, kill, rests] {
        let lab = Lab::new();
        drop(lab.up());
        let boot = lab.dir.join("fake/sandboxes").join(lab.name().as_str()).join("boot.json");
        let mut half: serde_json::Value = serde_json::from_slice(&std::fs::read(&boot).unwrap()).unwrap();
        half["ready"] = false.into();
        std::fs::write(&boot, half.to_string()).unwrap();
        let machine = || lab.runtime.machine_pid(&lab.name()).unwrap();
        assert!(lab.status() == "crashed" && machine().is_some(), "{}", lab.status());
        end(&lab.context(), &lab.target(), false).unwrap();
        assert_eq!(machine(), None);
    }
}

fn remove_running() {
    let lab = Lab::new();
    let error = remove(&lab.context(), &lab.name(), false).unwrap_err();
    assert!(matches!(error, LifecycleError::NoSuchSandbox(_)), "{error:?}");
    drop(lab.up());
    let home = lab.home();
    let error = remove(&lab.context(), &lab.name(), false).unwrap_err();
    assert!(matches!(error, LifecycleError::Running(_)), "{error:?}");
    assert_eq!(lab.status(), "running");
    assert!(remove(&lab.context(), &lab.name(), true).unwrap().was_running);
    assert_eq!(lab.status(), "none");
    drop(lab.up());
    assert_eq!(lab.home(), home, "the next run takes the recorded home");
}

fn idle() {
    let lab = Lab::new();
    lab.set_timeout(Duration::from_millis(300));
    lab.set_faults(&Faults { stop_millis: 1500, ..Faults::default() });
    let first = lab.up();
    let boot = first.boot_id.clone();
    drop(first);
    lab.wait_for_status("draining");
    let second = lab.up();
    assert!(second.started);
    assert_ne!(second.boot_id, boot);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(lab.boot_id(), Some(second.boot_id), "a held sandbox stays");
}

fn broken_record() {
    let lab = Lab::new();
    drop(lab.up());
    stop(&lab.context(), &lab.target(), false).unwrap();
    std::fs::write(lab.runtime.record_path(&lab.name()), "{").unwrap();
    let listing = list(&lab.context(), &ListFilter::default()).unwrap();
    assert_eq!((listing.rows.len(), listing.broken.len()), (0, 1));
    remove(&lab.context(), &lab.name(), false).unwrap();
    assert_eq!(list(&lab.context(), &ListFilter::default()).unwrap().broken.len(), 0);
}

fn holders() {
    let lab = Lab::new();
    let up = lab.up();
    let filter = ListFilter { running: true, ask_keepers: true, ..ListFilter::default() };
    let listing = list(&lab.context(), &filter).unwrap();
    assert_eq!(listing.rows[0].name, lab.name().as_str());
    let keeper = listing.rows[0].keeper.as_ref().unwrap();
    assert_eq!(keeper.clients.iter().map(|client| client.verb.as_str()).collect::<Vec<_>>(), ["run"]);
    assert_eq!(keeper_status(&lab.context(), &lab.target()).as_ref(), Some(keeper));
    let logs = logs(&lab.context(), &lab.target()).unwrap();
    assert!(logs.iter().any(|log| log.name == "keeper" && log.path.is_file()), "{logs:?}");
    drop(up);
}
