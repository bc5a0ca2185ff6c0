use std::fs;
use std::os::unix::fs::symlink;

use sandbox_lifecycle::{Provisioned, provision};
use sandbox_model::ExecSpec;
use sandbox_runtime::Runtime;

use crate::Case;
use crate::lab::Lab;

pub const CASES: &[Case] = &[("configuration_is_copied_once_and_again_when_it_changes", copies)];

fn guest_file(lab: &Lab, path: &str) -> String {
    let spec = ExecSpec::new(["sh", "-c", "cat \"$HOME/$1\"", "sh", path]);
    let collected = lab.runtime.exec(&lab.name(), &spec).unwrap().collect().unwrap();
    String::from_utf8(collected.stdout).unwrap()
}

fn copies() {
    let lab = Lab::new();
    let up = lab.up();
    let (context, request) = (lab.context(), lab.request());
    assert_eq!(provision(&context, &request, &up).unwrap(), Provisioned::Nothing);

    let user = context.layout.config.join("opencode");
    fs::create_dir_all(user.join("agent")).unwrap();
    fs::write(user.join("opencode.json"), r#"{"model":"a","x":{"y":1}}"#).unwrap();
    fs::write(user.join("agent/review.md"), "review").unwrap();
    let project = request.project.config_dir.join("opencode");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("opencode.json"), r#"{"model":"b"}"#).unwrap();
    // The agent writes the project: a link there must not reach what the sandbox does not have.
    let secret = lab.dir.join("secret");
    fs::write(&secret, "private").unwrap();
    symlink(&secret, project.join("notes.md")).unwrap();

    assert_eq!(provision(&context, &request, &up).unwrap(), Provisioned::Written(2));
    let merged: serde_json::Value =
        serde_json::from_str(&guest_file(&lab, ".config/opencode/opencode.jsonc")).unwrap();
    assert_eq!(merged, serde_json::json!({ "model": "b", "x": { "y": 1 } }));
    assert_eq!(guest_file(&lab, ".config/opencode/agent/review.md"), "review");
    assert_eq!(guest_file(&lab, ".config/opencode/notes.md"), "");
    assert!(lab.said.all().contains("notes.md is a symbolic link"), "{}", lab.said.all());
    assert_eq!(provision(&context, &request, &up).unwrap(), Provisioned::Unchanged);

    fs::write(user.join("agent/review.md"), "review again").unwrap();
    assert_eq!(provision(&context, &request, &up).unwrap(), Provisioned::Written(2));
    assert_eq!(guest_file(&lab, ".config/opencode/agent/review.md"), "review again");
}
