use sandbox_lifecycle::{Declined, HomeChoice, RunningChoice, UpRequest, stop, up};
use sandbox_model::{ByteSize, NetworkProfile};
use sandbox_runtime::Runtime;
use sandbox_runtime::fake::Faults;

use crate::Case;
use crate::lab::Lab;

pub const CASES: &[Case] = &[
    ("another_image_makes_the_sandbox_anew_and_keeps_its_home", another_image),
    ("nobody_is_cut_off_by_another_image", another_image_while_used),
    ("a_rebuild_is_done_once", rebuild),
    ("changed_settings_apply_at_the_next_start", settings),
    ("more_cpus_and_memory_count_at_once", resources),
    ("what_does_not_get_them_is_told_to_who_runs_it", refused_resources),
    ("another_network_restarts_a_sandbox_that_nobody_uses", network),
    ("another_network_waits_for_others_unless_they_are_to_be_cut_off", network_while_used),
    ("the_user_may_quit_and_nothing_has_changed", quit),
    ("another_image_asks_what_becomes_of_the_home", home_choice),
    ("a_rebuild_that_waits_asks_when_it_is_done", home_choice_later),
    ("another_disk_size_makes_the_sandbox_anew", disk_size),
];

fn another_image() {
    let lab = Lab::new();
    drop(lab.up());
    let (home, before) = (lab.home(), lab.state().image_digest);
    lab.write_dockerfile("two");
    let up = lab.up();
    assert!(up.started);
    let info = lab.runtime.inspect(&up.name).unwrap().unwrap();
    assert_ne!(Some(&info.spec.image_digest), before.as_ref());
    assert_eq!(lab.state().image_digest, Some(info.spec.image_digest));
    assert_eq!((lab.home(), info.spec.home.path), (home.clone(), home));
}

fn another_image_while_used() {
    let lab = Lab::new();
    let first = lab.up();
    let before = lab.state().image_digest;
    lab.write_dockerfile("two");
    let second = lab.up();
    assert_eq!((second.started, &second.boot_id), (false, &first.boot_id));
    assert!(lab.said.all().contains("warning: others use the sandbox"), "{}", lab.said.all());
    assert_eq!(lab.state().image_digest, before);
    drop((first, second));
    let third = lab.up();
    assert!(third.started);
    assert_ne!(lab.state().image_digest, before);
}

fn rebuild() {
    let lab = Lab::new();
    drop(lab.up());
    let calls = lab.engine_calls();
    let mut request = lab.request();
    request.rebuild = true;
    drop(up(&lab.context(), &request).unwrap());
    assert_eq!(lab.engine_calls(), calls + 1);
}

fn settings() {
    let lab = Lab::new();
    let first = lab.up();
    let mut request = lab.request();
    // More of it would count at once.
    request.settings.resources.memory = ByteSize::mib(256);
    let second = up(&lab.context(), &request).unwrap();
    assert_eq!(second.boot_id, first.boot_id);
    assert!(lab.said.all().contains("info: changed settings apply when the sandbox next starts: memory"));
    stop(&lab.context(), &lab.target(), false).unwrap();
    let third = up(&lab.context(), &request).unwrap();
    let info = lab.runtime.inspect(&third.name).unwrap().unwrap();
    assert_eq!(info.spec.resources.memory, ByteSize::mib(256));
}

fn resources() {
    let lab = Lab::new();
    let first = lab.up();
    let mut request = lab.request();
    request.settings.resources.cpus += 1;
    request.settings.resources.memory = ByteSize::gib(64);
    let second = up(&lab.context(), &request).unwrap();
    assert_eq!((second.started, &second.boot_id), (false, &first.boot_id));
    let said = lab.said.all();
    assert!(said.contains("from now on, without a restart: ") && said.contains("64G of memory"), "{said}");
    assert!(!said.contains("next starts"), "{said}");
    let info = lab.runtime.inspect(&second.name).unwrap().unwrap();
    assert_eq!(info.spec.resources, request.settings.resources);
}

fn refused_resources() {
    let lab = Lab::new();
    let _first = lab.up();
    lab.set_faults(&Faults { modify_fails: Some("it has no room".into()), ..Faults::default() });
    let mut request = lab.request();
    request.settings.resources.cpus += 1;
    for (verb, told) in [("exec", ["verbose"].as_slice()), ("run", &["verbose", "warning"])] {
        request.verb = verb;
        drop(up(&lab.context(), &request).unwrap());
        let said = lab.said.all();
        for kind in ["verbose", "info", "warning"] {
            let text = format!("{kind}: it goes on without 2 CPUs, 512M of memory: it has no room");
            assert_eq!(said.contains(&text), told.contains(&kind), "{verb}: {said}");
        }
    }
}

fn disk_size() {
    let lab = Lab::new();
    drop(lab.up());
    stop(&lab.context(), &lab.target(), false).unwrap();
    let mut request = lab.request();
    request.settings.disk_size = Some(ByteSize::gib(9));
    let up = up(&lab.context(), &request).unwrap();
    assert_eq!(lab.runtime.inspect(&up.name).unwrap().unwrap().spec.root_disk, ByteSize::gib(9));
}

fn public(lab: &Lab) -> UpRequest {
    let mut request = lab.request();
    request.settings.network.profile = NetworkProfile::Public;
    request.settings.env.insert("TOKEN".into(), "hunter2".into());
    request
}

fn profile(lab: &Lab) -> NetworkProfile {
    lab.runtime.inspect(&lab.name()).unwrap().unwrap().spec.network.profile
}

fn network() {
    let lab = Lab::new();
    let first = lab.up();
    let boot = first.boot_id.clone();
    drop(first);
    let second = up(&lab.context(), &public(&lab)).unwrap();
    assert!(second.started && second.boot_id != boot);
    assert_eq!(profile(&lab), NetworkProfile::Public);
    let said = lab.said.all();
    assert!(
        said.contains("info: changed since the sandbox last ran: network: none → public; env: "),
        "{said}"
    );
    assert!(said.contains("TOKEN") && !said.contains("hunter2") && !said.contains("question"), "{said}");
    drop(second);
    stop(&lab.context(), &lab.target(), false).unwrap();
    drop(lab.up());
    assert_eq!(profile(&lab), NetworkProfile::None);
}

fn network_while_used() {
    let lab = Lab::new();
    let first = lab.up();
    let second = up(&lab.context(), &public(&lab)).unwrap();
    assert_eq!((second.started, &second.boot_id), (false, &first.boot_id));
    assert_eq!(profile(&lab), NetworkProfile::None);
    let said = lab.said.all();
    assert!(said.contains("question: held by 1 client network: none → public; env: "), "{said}");
    assert!(said.contains("warning: others use the sandbox") && !said.contains("hunter2"), "{said}");
    drop(second);
    lab.said.answers.lock().unwrap().0 = RunningChoice::Proceed;
    let third = up(&lab.context(), &public(&lab)).unwrap();
    assert!(third.started && third.boot_id != first.boot_id);
    assert_eq!(profile(&lab), NetworkProfile::Public);
}

fn quit() {
    let lab = Lab::new();
    let first = lab.up();
    let before = lab.state();
    *lab.said.answers.lock().unwrap() = (RunningChoice::Quit, HomeChoice::Quit);
    let mut request = public(&lab);
    request.settings.resources.cpus += 1;
    let error = up(&lab.context(), &request).unwrap_err();
    assert!(Declined::is(&error), "{error:?}");
    assert_eq!(lab.boot_id(), Some(first.boot_id.clone()));
    let info = lab.runtime.inspect(&lab.name()).unwrap().unwrap();
    assert_eq!(info.spec.resources, lab.request().settings.resources, "nothing that runs is another");
    drop(first);
    stop(&lab.context(), &lab.target(), false).unwrap();
    lab.write_dockerfile("two");
    let error = up(&lab.context(), &lab.request()).unwrap_err();
    assert!(Declined::is(&error) && lab.state() == before, "{error:?}");
    assert_eq!(lab.volumes().len(), 1);
}

fn home_choice() {
    let lab = Lab::new();
    lab.rested(0);
    let first = lab.home();
    for (text, choice, volumes) in [
        ("two", HomeChoice::Keep, 1),
        ("three", HomeChoice::Reset, 2),
        ("four\nadd new", HomeChoice::Migrate, 3),
    ] {
        lab.write_dockerfile(text);
        lab.said.answers.lock().unwrap().1 = choice;
        let up = lab.up();
        assert!(up.started);
        assert_eq!(lab.volumes().len(), volumes, "{choice:?}");
        let info = lab.runtime.inspect(&up.name).unwrap().unwrap();
        assert_eq!(
            (&info.spec.home.path, Some(&info.spec.image_digest)),
            (&lab.home(), lab.state().image_digest.as_ref())
        );
        drop(up);
        let asked = lab.said.all().matches("question: home").count();
        drop(lab.up());
        assert_eq!(lab.said.all().matches("question: home").count(), asked, "it is asked once");
    }
    assert!(first.is_file() && lab.said.all().contains("info: the image changed; the home volume"));
    // A home that is new anyway is no reason to ask, nor is another disk size.
    let asked = lab.said.all().matches("question: home").count();
    stop(&lab.context(), &lab.target(), false).unwrap();
    std::fs::remove_file(lab.home()).unwrap();
    lab.write_dockerfile("five");
    assert!(lab.up().started);
    assert_eq!(lab.said.all().matches("question: home").count(), asked);
    let mut request = lab.request();
    request.settings.disk_size = Some(ByteSize::gib(9));
    assert!(up(&lab.context(), &request).unwrap().started);
    assert_eq!(lab.said.all().matches("question: home").count(), asked);
    // A sandbox that was removed is made anew too.
    sandbox_lifecycle::remove(&lab.context(), &lab.name(), true).unwrap();
    lab.write_dockerfile("six");
    assert!(lab.up().started);
    assert_eq!(lab.said.all().matches("question: home").count(), asked + 1);
}

fn home_choice_later() {
    let lab = Lab::new();
    let first = lab.up();
    lab.write_dockerfile("two");
    drop(lab.up());
    assert!(!lab.said.all().contains("question: home"), "{}", lab.said.all());
    drop(first);
    drop(lab.up());
    assert!(lab.said.all().contains("question: home"), "{}", lab.said.all());
}
