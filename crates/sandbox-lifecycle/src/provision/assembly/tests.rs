use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};

use sandbox_model::{CheckoutSlug, RepoSlug};
use sandbox_state::Environment;

use super::*;
use crate::HomeMapping;

/// A home, a project, and nothing in them.
struct Place {
    dir: tempfile::TempDir,
    settings: ProvisionSettings,
    mounts: Vec<ExtraMount>,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap().join("home");
        fs_err::create_dir_all(dir.path().join("project/.agents-sandbox")).unwrap();
        let settings = ProvisionSettings {
            home: BTreeMap::new(),
            host_config: false,
            habits: true,
            host_home: Some(home),
        };
        Self { dir, settings, mounts: Vec::new() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(path)
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.path(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
        self
    }

    fn map(&mut self, target: &str, source: &str) -> &mut HomeMapping {
        let mapping = HomeMapping { source: self.path(source), startup: false, root: false };
        self.settings.home.entry(target.into()).or_insert(mapping)
    }

    fn layout(&self) -> Layout {
        let home = self.settings.host_home.clone();
        Layout::new(&Environment { home, ..Environment::default() }).unwrap()
    }

    fn assemble(&self, agent: AgentName) -> Result<Assembly> {
        let project = Project {
            repository: None,
            checkout: CheckoutSlug::new("project", self.dir.path()),
            repo: Some(RepoSlug::new("project", b"https://forge.example/project")),
            root: self.path("project"),
            subdir: PathBuf::new(),
            config_dir: self.path("project/.agents-sandbox"),
        };
        assemble(&self.layout(), &project, &self.mounts, agent, &self.settings)
    }

    fn files(&self, agent: AgentName) -> BTreeMap<String, String> {
        let assembly = self.assemble(agent).unwrap();
        let text = |entry: Entry| String::from_utf8(entry.content).unwrap();
        assembly.files.into_iter().map(|(path, entry)| (path, text(entry))).collect()
    }

    fn repository() -> String {
        format!("home/.config/agents-sandbox/{}", RepoSlug::new("project", b"https://forge.example/project"))
    }
}

const USER: &str = "home/.config/agents-sandbox";
const PROJECT: &str = "project/.agents-sandbox";

#[test]
fn snippets_become_one_document_and_the_rest_is_copied() {
    let place = Place::new();
    place
        .write(&format!("{USER}/opencode/agent/a.md"), "user")
        .write(&format!("{USER}/opencode/opencode-a.json5"), "{ model: 'x', mcp: { a: 1 }, } // mine")
        .write(&format!("{}/opencode/opencode.jsonc", Place::repository()), r#"{"model":"y","mcp":{"r":3}}"#)
        .write(&format!("{}/opencode/agent/b.md", Place::repository()), "repository")
        .write(&format!("{PROJECT}/opencode/agent/a.md"), "project")
        .write(&format!("{PROJECT}/opencode/config.json"), "{}")
        .write(&format!("{PROJECT}/opencode/opencode.json"), r#"{"mcp":{"b":2}}"#);
    let files = place.files(AgentName::OPENCODE);
    assert_eq!(
        files.keys().collect::<Vec<_>>(),
        [".config/opencode/agent/a.md", ".config/opencode/agent/b.md", ".config/opencode/opencode.jsonc"]
    );
    assert_eq!(files[".config/opencode/agent/a.md"], "project");
    let merged: Value = serde_json::from_str(&files[".config/opencode/opencode.jsonc"]).unwrap();
    assert_eq!(merged, serde_json::json!({ "model": "y", "mcp": { "a": 1, "r": 3, "b": 2 } }));
    let assembly = place.assemble(AgentName::OPENCODE).unwrap();
    assert!(assembly.hidden.iter().any(|name| name == ".config/opencode/opencode.json"));
    assert!(!assembly.hidden.iter().any(|name| name == ".config/opencode/opencode.jsonc"));
    assert_eq!(assembly.warnings.len(), 1, "{:?}", assembly.warnings);
    let fates: Vec<&Fate> = assembly.items.iter().map(|item| &item.fate).collect();
    assert!(fates.contains(&&Fate::Left("would hide the merged document")), "{fates:?}");
    assert_eq!(
        assembly.items[0].fate,
        Fate::Replaced { by: place.path(&format!("{PROJECT}/opencode/agent/a.md")) }
    );
    // The same folders mean nothing to another agent.
    assert_eq!(place.files(AgentName::literal("pi")).len(), 0);
}

#[test]
fn only_files_directly_in_the_folder_are_snippets() {
    for (agent, folder, snippet, below, guest) in [
        (AgentName::literal("claude-code"), "claude", "settings.json", "settings.d/x.json", ".claude"),
        (AgentName::literal("pi"), "pi", "settings.json", "settings/settings.json", ".pi/agent"),
        (AgentName::OPENCODE, "opencode", "opencode.json", "opencode-tools/data.json", ".config/opencode"),
    ] {
        let place = Place::new();
        // A list, and then no JSON at all: as a snippet either would be refused.
        for (layer, text) in [(USER, "[1]"), (PROJECT, "not json")] {
            place.write(&format!("{layer}/{folder}/{below}"), text);
        }
        place.write(&format!("{USER}/{folder}/{snippet}"), r#"{"model":"x"}"#);
        let files = place.files(agent);
        let target = format!("{guest}/{below}");
        assert_eq!(files.get(&target).map(String::as_str), Some("not json"), "{agent}: {files:?}");
        assert_eq!(files.len(), 2, "{agent}: {files:?}");
        let assembly = place.assemble(agent).unwrap();
        assert_eq!(assembly.document, Some(serde_json::json!({ "model": "x" })), "{agent}");
        let fates: Vec<&Fate> = assembly.items.iter().map(|item| &item.fate).collect();
        let replaced = Fate::Replaced { by: place.path(&format!("{PROJECT}/{folder}/{below}")) };
        assert_eq!(fates, [&replaced, &Fate::Merged, &Fate::Copied], "{agent}");
    }
}

#[test]
fn a_snippet_that_is_none_is_named() {
    for text in ["{", "[]", "\u{1}"] {
        let place = Place::new();
        place.write(&format!("{USER}/claude/settings.json"), text);
        let error = place.assemble(AgentName::literal("claude-code")).unwrap_err().to_string();
        assert!(error.contains("/claude/settings.json: "), "{error}");
    }
}

#[test]
fn habits_come_and_configuration_only_when_asked_and_credentials_never() {
    let mut place = Place::new();
    for (agent, folder, rest) in [
        (AgentName::OPENCODE, ".config/opencode", "opencode.json"),
        (AgentName::literal("pi"), ".pi/agent", "settings.json"),
        (AgentName::literal("claude-code"), ".claude", "settings.json"),
    ] {
        let own = &profile(agent).unwrap().own;
        for credentials in own.credentials {
            place.write(&format!("home/{credentials}"), "hunter2");
        }
        place
            .write(&format!("home/{folder}/skills/deploy/SKILL.md"), "how to")
            .write(&format!("home/{folder}/skills/deploy/.env"), "hunter2")
            .write(&format!("home/{folder}/{rest}"), "{}")
            .write(&format!("home/{folder}/unknown/state"), "not configuration of claude");
        let skill = format!("{folder}/skills/deploy/SKILL.md");
        place.settings.host_config = false;
        assert_eq!(place.files(agent).keys().collect::<Vec<_>>(), [&skill], "{agent}");
        place.settings.host_config = true;
        let files = place.files(agent);
        assert!(files.contains_key(&format!("{folder}/{rest}")), "{agent}: {files:?}");
        assert!(!files.values().any(|text| text.contains("hunter2")), "{agent}: {files:?}");
        assert!(!files.contains_key(".claude/unknown/state"));
        place.settings.habits = false;
        place.settings.host_config = false;
        assert_eq!(place.files(agent).len(), 0, "{agent}");
        place.settings.habits = true;
        // By name, the user can have anything.
        place.map(own.credentials[0], &format!("home/{}", own.credentials[0]));
        assert_eq!(place.files(agent)[own.credentials[0]], "hunter2");
        place.settings.home.clear();
    }
}

#[test]
fn snippets_win_over_the_hosts_configuration_and_mappings_over_copies() {
    let mut place = Place::new();
    place
        .write("home/.config/opencode/opencode.json", r#"{"model":"host"}"#)
        .write(&format!("{USER}/opencode/opencode.json"), r#"{"model":"snippet"}"#)
        .write(&format!("{USER}/opencode/AGENTS.md"), "copied")
        .write("home/notes.md", "mapped");
    place.settings.host_config = true;
    place.map(".config/opencode/AGENTS.md", "home/notes.md");
    let files = place.files(AgentName::OPENCODE);
    assert!(!files.contains_key(".config/opencode/opencode.json"), "{files:?}");
    assert!(files[".config/opencode/opencode.jsonc"].contains("snippet"));
    assert_eq!(files[".config/opencode/AGENTS.md"], "mapped");
    place.map(".config/opencode/opencode.jsonc", "home/notes.md");
    let error = place.assemble(AgentName::OPENCODE).unwrap_err().to_string();
    assert!(error.contains("write a snippet instead"), "{error}");
}

#[test]
fn mappings_keep_bits_and_follow_no_link_of_the_project() {
    let mut place = Place::new();
    place
        .write("home/tools/run", "#!/bin/sh")
        .write("home/secret", "hunter2")
        .write("project/setup.sh", "echo");
    for (path, mode) in [("home/tools", 0o700), ("home/tools/run", 0o755)] {
        fs_err::set_permissions(place.path(path), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    symlink(place.path("home/secret"), place.path("project/link")).unwrap();
    symlink(place.path("home/secret"), place.path("home/tools/link")).unwrap();
    place.map("bin", "home/tools");
    place.map("stolen", "project/link");
    place.map("missing", "home/missing");
    let hook = place.map("setup", "project/setup.sh");
    (hook.startup, hook.root) = (true, true);
    let assembly = place.assemble(AgentName::literal("pi")).unwrap();
    // The positive control: the user's own link is followed.
    assert_eq!(assembly.files.keys().collect::<Vec<_>>(), ["bin/link", "bin/run", "setup"]);
    assert_eq!((assembly.files["bin/run"].mode, assembly.folders["bin"]), (0o755, 0o700));
    assert_eq!(assembly.hooks, [Hook { target: "setup".into(), root: true }]);
    assert_eq!(assembly.warnings.len(), 2, "{:?}", assembly.warnings);
}

#[test]
fn no_link_is_followed_where_this_sandbox_or_another_can_write() {
    let mut place = Place::new();
    place
        .write("home/.ssh/key", "hunter2")
        .write("home/.claude/commands/plain.md", "mine")
        .write("home/lib/plain", "mine");
    symlink(place.path("home/.ssh/key"), place.path("home/.claude/commands/x.md")).unwrap();
    symlink(place.path("home/.ssh"), place.path("home/lib/out")).unwrap();
    place.map("lib", "home/lib");
    place.map("out", "home/lib/out");
    let copied = |place: &Place| {
        let assembly = place.assemble(AgentName::literal("claude-code")).unwrap();
        (assembly.files.into_keys().collect::<Vec<_>>().join(" "), assembly.warnings.len())
    };
    let (command, plain) = (".claude/commands/x.md", ".claude/commands/plain.md lib/plain");
    // The user's own links. To read a folder is no way to make one, and a single file holds none.
    let all = (format!(".claude/commands/plain.md {command} lib/out/key lib/plain out/key"), 0);
    assert_eq!(copied(&place), all);
    let mount = |source: &str, readonly| ExtraMount {
        target: "/mounted".into(),
        source: place.path(source),
        readonly,
    };
    let read = [mount("home", true), mount("home/.claude/commands/plain.md", false)];
    let (claude, whole) = (mount("home/.claude", false), mount("home", false));
    place.mounts = read.to_vec();
    assert_eq!(copied(&place), all);

    place.mounts = vec![claude];
    assert_eq!(copied(&place), (".claude/commands/plain.md lib/out/key lib/plain out/key".into(), 1));
    place.mounts = vec![whole];
    assert_eq!(copied(&place), (plain.into(), 3));
    // Whatever the settings say by now, and whose sandbox it was.
    place.mounts.clear();
    sandbox_state::remember_writable(&place.layout(), &place.path("home/lib")).unwrap();
    assert_eq!(copied(&place), (format!(".claude/commands/plain.md {command} lib/plain"), 2));
    let other = place.layout().checkout_root(&place.path("home/.claude"));
    sandbox_state::write_private(&other, place.path("home/.claude").as_os_str().as_encoded_bytes()).unwrap();
    assert_eq!(copied(&place), (plain.into(), 3));
}
