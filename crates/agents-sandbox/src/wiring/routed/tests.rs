use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sandbox_model::{HomeDisk, NetworkPolicy, WorkspaceMount};
use sandbox_runtime::contract::{ArchiveFile, ImageArchive};
use sandbox_runtime::fake::FakeRuntime;

use super::*;

/// Two runtimes, and which of them is chosen.
struct Fixture {
    dir: tempfile::TempDir,
    told: Arc<Mutex<Vec<String>>>,
    asked: Arc<AtomicUsize>,
    digest: Digest,
    archive: Vec<u8>,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("workspace")).unwrap();
        std::fs::write(dir.path().join("home.ext4"), "").unwrap();
        let file = ArchiveFile { path: "etc/".into(), content: Vec::new(), mode: 0o755, uid: 0 };
        let (digest, archive) =
            ImageArchive { layers: vec![vec![file]], ..ImageArchive::default() }.build().unwrap();
        Self { dir, told: Arc::default(), asked: Arc::default(), digest, archive }
    }

    fn driver(&self, name: &str) -> Arc<dyn Runtime> {
        Arc::new(FakeRuntime::open(self.dir.path().join(name)).unwrap())
    }

    /// A new process, in which the setting means that place.
    fn routed(&self, chosen: usize) -> Routed {
        let (asked, told) = (Arc::clone(&self.asked), Arc::clone(&self.told));
        let choose = move || {
            asked.fetch_add(1, Ordering::Relaxed);
            Ok(chosen)
        };
        Routed::new(
            vec![self.driver("one"), self.driver("two")],
            Box::new(choose),
            Box::new(move |text| told.lock().unwrap().push(text.into())),
        )
    }

    fn load(&self, runtime: &dyn Runtime) {
        let mut archive = self.archive.as_slice();
        runtime
            .load_image(&"r/small:1".parse().unwrap(), &self.digest, &mut archive, &mut |_, _| {})
            .unwrap();
    }

    fn spec(&self, name: &str) -> SandboxSpec {
        SandboxSpec {
            name: name.parse().unwrap(),
            image: "r/small:1".parse().unwrap(),
            image_digest: self.digest.clone(),
            resources: Resources { cpus: 1, memory: ByteSize::mib(64) },
            root_disk: ByteSize::gib(1),
            tmp: ByteSize::mib(16),
            home: HomeDisk { path: self.dir.path().join("home.ext4") },
            workspace: WorkspaceMount {
                source: self.dir.path().join("workspace"),
                quota: ByteSize::mib(16),
                host_uid: 0,
                host_gid: 0,
                guest_uid: 1000,
                guest_gid: 1000,
            },
            env: BTreeMap::new(),
            network: NetworkPolicy::default(),
            ssh_agent: false,
            labels: BTreeMap::new(),
            mounts: Vec::new(),
            ports: Vec::new(),
            secrets: Vec::new(),
            idle_timeout: Duration::from_mins(5),
            sleep: false,
        }
    }
}

fn names(runtime: &dyn Runtime) -> Vec<String> {
    runtime.list().unwrap().sandboxes.into_iter().map(|info| info.spec.name.to_string()).collect()
}

#[test]
fn a_sandbox_is_found_whatever_is_chosen_now() {
    let fixture = Fixture::new();
    let name: SandboxName = "a-sandbox-opencode".parse().unwrap();
    let first = fixture.routed(0);
    fixture.load(&first);
    first.create(&fixture.spec(name.as_str())).unwrap();
    assert!(matches!(first.create(&fixture.spec(name.as_str())), Err(RuntimeError::Exists(_))));

    let second = fixture.routed(1);
    assert_eq!(names(&second), [name.as_str()]);
    assert!(second.inspect(&name).unwrap().is_some());
    assert_eq!(second.list_images().unwrap().len(), 1);
    let reference = "r/small:1".parse().unwrap();
    assert_eq!(second.inspect_image(&reference).unwrap(), None, "new ones are made elsewhere");
    assert!(matches!(second.create(&fixture.spec(name.as_str())), Err(RuntimeError::Exists(_))));
    second.remove(&name).unwrap();
    assert_eq!(names(&first), Vec::<String>::new());
    second.remove_image(&reference).unwrap();
    assert_eq!(first.list_images().unwrap(), []);
}

#[test]
fn looking_asks_nobody_what_to_choose() {
    let fixture = Fixture::new();
    let routed = fixture.routed(1);
    let name: SandboxName = "nobody-opencode".parse().unwrap();
    assert_eq!(names(&routed), Vec::<String>::new());
    assert_eq!(routed.inspect(&name).unwrap(), None);
    assert!(matches!(routed.stop(&name, Duration::ZERO), Err(RuntimeError::NoSuchSandbox(_))));
    routed.remove(&name).unwrap();
    assert_eq!(fixture.asked.load(Ordering::Relaxed), 0);
}

#[test]
fn one_at_rest_moves_when_it_starts() {
    let fixture = Fixture::new();
    let name: SandboxName = "mover-opencode".parse().unwrap();
    let before = fixture.routed(0);
    fixture.load(&before);
    before.create(&fixture.spec(name.as_str())).unwrap();
    before.start(&name).unwrap();

    // One that runs stays where it is.
    let now = fixture.routed(1);
    fixture.load(&now);
    let boot = before.boot_id(&name).unwrap();
    now.start(&name).unwrap();
    assert_eq!(now.boot_id(&name).unwrap(), boot);
    now.stop(&name, Duration::from_secs(5)).unwrap();

    // A move that was interrupted left a second record: it counts once, and as the one that has run.
    fixture.driver("two").create(&fixture.spec(name.as_str())).unwrap();
    assert_eq!(names(&now), [name.as_str()]);
    assert_eq!(now.inspect(&name).unwrap().unwrap().status, Status::Stopped);

    now.start(&name).unwrap();
    assert!(!fixture.driver("one").has(&name).unwrap());
    assert_eq!(fixture.driver("two").inspect(&name).unwrap().unwrap().status, Status::Running);
    assert_eq!(names(&before), [name.as_str()]);
    let told = fixture.told.lock().unwrap().join("\n");
    assert!(told.contains("mover-opencode moves from"), "{told}");
    before.kill(&name).unwrap();
}

#[test]
fn one_whose_image_is_not_there_starts_where_it_is() {
    let fixture = Fixture::new();
    let name: SandboxName = "stayer-opencode".parse().unwrap();
    let before = fixture.routed(0);
    fixture.load(&before);
    before.create(&fixture.spec(name.as_str())).unwrap();
    let now = fixture.routed(1);
    now.start(&name).unwrap();
    assert!(fixture.driver("one").boot_id(&name).unwrap().is_some());
    now.kill(&name).unwrap();
}
