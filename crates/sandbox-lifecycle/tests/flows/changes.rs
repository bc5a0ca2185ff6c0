use sandbox_lifecycle::{stop, up};
use sandbox_model::ByteSize;
use sandbox_runtime::Runtime;

use crate::Case;
use crate::lab::Lab;

pub const CASES: &[Case] = &[
    ("another_image_makes_the_sandbox_anew_and_keeps_its_home", another_image),
    ("nobody_is_cut_off_by_another_image", another_image_while_used),
    ("a_rebuild_is_done_once", rebuild),
    ("changed_settings_apply_at_the_next_start", settings),
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
    request.settings.resources.memory = ByteSize::gib(1);
    let second = up(&lab.context(), &request).unwrap();
    assert_eq!(second.boot_id, first.boot_id);
    assert!(lab.said.all().contains("info: changed settings apply when the sandbox next starts: memory"));
    stop(&lab.context(), &lab.target(), false).unwrap();
    let third = up(&lab.context(), &request).unwrap();
    let info = lab.runtime.inspect(&third.name).unwrap().unwrap();
    assert_eq!(info.spec.resources.memory, ByteSize::gib(1));
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
