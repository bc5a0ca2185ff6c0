use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

use sandbox_model::ByteSize;
use sandbox_state::Environment;

use super::*;
use crate::{Archive, BuildRequest, EngineImage, EngineName, Step};

/// An engine that has what it was given, and a registry behind it that can be reached or not.
#[derive(Debug, Default)]
struct StandIn {
    reachable: bool,
    has: Mutex<Vec<String>>,
    asked: Mutex<Vec<String>>,
}

impl StandIn {
    /// What it was told to fetch and to build since this was asked for the last time.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    fn get(&self, verb: &str, reference: &str) {
        self.asked.lock().unwrap().push(format!("{verb} {reference}"));
        self.has.lock().unwrap().push(reference.into());
    }
}

fn id() -> Digest {
    "ab".repeat(32).parse().unwrap()
}

impl Engine for StandIn {
    fn name(&self) -> EngineName {
        EngineName::Buildah
    }

    fn inspect(&self, reference: &str) -> Result<Option<EngineImage>> {
        let image = || EngineImage {
            id: id(),
            names: vec![reference.into()],
            size: ByteSize::mib(1),
            created: 0,
            labels: BTreeMap::new(),
        };
        Ok(self.has.lock().unwrap().iter().any(|name| name == reference).then(image))
    }

    fn list_managed(&self) -> Result<Vec<EngineImage>> {
        Ok(Vec::new())
    }

    fn pull(&self, reference: &str, deadline: Duration, _: &mut dyn Events) -> Result<()> {
        if self.reachable {
            self.get("pull", reference);
            return Ok(());
        }
        self.asked.lock().unwrap().push(format!("pull {reference}"));
        Err(ImageError::Deadline { tool: "buildah pull".into(), deadline })
    }

    fn build(&self, request: &BuildRequest<'_>, _: &mut dyn Events) -> Result<Digest> {
        assert!(request.context.join("rootfs.tar").is_file(), "what it is made of is at hand");
        self.get("build", request.tag);
        Ok(id())
    }

    fn save(&self, reference: &str) -> Result<Archive> {
        Err(ImageError::NoImage(reference.into()))
    }

    fn remove(&self, _: &str) -> Result<()> {
        Ok(())
    }
}

#[derive(Default)]
struct Log(Vec<String>);

impl Events for Log {
    fn stage(&mut self, _: &str) {}

    fn step(&mut self, _: &Step) {}

    fn log(&mut self, line: &str) {
        self.0.push(line.into());
    }

    fn waiting(&mut self, _: &str) {}

    fn cancelled(&self) -> bool {
        false
    }
}

struct Place {
    _home: tempfile::TempDir,
    layout: Layout,
    engine: StandIn,
    log: Log,
}

impl Place {
    fn new(reachable: bool) -> Self {
        let home = tempfile::tempdir().unwrap();
        let environment = Environment { home: Some(home.path().into()), ..Environment::default() };
        let layout = Layout::new(&environment).unwrap();
        let engine = StandIn { reachable, ..StandIn::default() };
        Self { _home: home, layout, engine, log: Log::default() }
    }

    fn automatic(&mut self, refresh: bool) -> Result<String> {
        let found = resolve(&self.engine, &BaseSetting::Auto, refresh, &self.layout, &mut self.log)?;
        assert_eq!(found.id, id());
        Ok(found.reference)
    }
}

#[test]
fn a_registry_that_answers_has_the_base_and_is_asked_once() {
    let mut place = Place::new(true);
    let pull = format!("pull {DEFAULT_BASE}");
    for (refresh, asked) in [(false, vec![pull.clone()]), (false, vec![]), (true, vec![pull])] {
        assert_eq!(place.automatic(refresh).unwrap(), DEFAULT_BASE);
        assert_eq!(place.engine.asked(), asked);
    }
}

#[test]
fn a_base_that_is_named_is_not_replaced_by_another() {
    let mut place = Place::new(false);
    let named = BaseSetting::Reference("mirror.example/debian:13".parse().unwrap());
    let outcome = resolve(&place.engine, &named, false, &place.layout, &mut place.log);
    assert!(matches!(outcome, Err(ImageError::Deadline { .. })), "{outcome:?}");
    assert_eq!(place.engine.asked(), ["pull mirror.example/debian:13"]);
}

/// Set for a process of this test alone, whose PATH has stand-ins.
const INSIDE: &str = "SANDBOX_IMAGE_TEST_INSIDE";

/// Runs the test that calls it again, with these scripts found before every other program, or as the only ones.
/// Returns whether this is that process.
fn with_programs(scripts: &[(&str, &str)], alone: bool) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, script) in scripts {
        let path = dir.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut path: Vec<PathBuf> = vec![dir.path().into()];
    if !alone {
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    }
    let name = std::thread::current().name().unwrap().to_string();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture"])
        .env(INSIDE, "yes")
        .env("PATH", std::env::join_paths(path).unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    false
}

/// apt knows a mirror.
const APT: (&str, &str) = ("apt-get", "echo 'http://mirror.example/debian|trixie|Debian|Debian|main'");
const APT_CONFIG: (&str, &str) = ("apt-config", "exit 0");
/// Writes what it is asked for.
const MMDEBSTRAP: (&str, &str) =
    ("mmdebstrap", "for word; do case $word in */.new-*.tar) echo rootfs >\"$word\" ;; esac; done");

#[test]
fn a_registry_out_of_reach_leads_to_a_base_from_the_machines_mirror() {
    if !with_programs(&[APT, APT_CONFIG, MMDEBSTRAP], false) {
        return;
    }
    let mut place = Place::new(false);
    let made = bootstrapped("trixie");
    assert_eq!(place.automatic(false).unwrap(), made);
    assert_eq!(place.engine.asked(), [format!("pull {DEFAULT_BASE}"), format!("build {made}")]);
    assert!(place.log.0.iter().any(|line| line.contains("cannot be fetched")), "{:?}", place.log.0);
    // From then on no registry is asked, also where the engine has lost the image.
    assert_eq!(place.automatic(false).unwrap(), made);
    assert!(place.engine.asked().is_empty());
    place.engine.has.lock().unwrap().clear();
    assert_eq!(place.automatic(false).unwrap(), made);
    assert_eq!(place.engine.asked(), [format!("build {made}")]);
}

#[test]
fn neither_a_registry_nor_mmdebstrap_is_told_as_one() {
    if !with_programs(&[APT, APT_CONFIG], true) {
        return;
    }
    let mut place = Place::new(false);
    let outcome = place.automatic(false);
    assert!(
        matches!(&outcome, Err(ImageError::NoBootstrap { reference }) if reference == DEFAULT_BASE),
        "{outcome:?}"
    );
}
