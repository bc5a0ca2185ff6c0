//! A sealed home, a project, a fake runtime and images made in memory, all in one folder. Several
//! processes may work in it at once.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandbox_image::EngineSetting;
use sandbox_lifecycle::prune::SeenUnnamed;
use sandbox_lifecycle::volumes::Replacement;
use sandbox_lifecycle::{
    BuildRequest, Context, Decisions, EngineImage, HomeChoice, HomeQuestion, Identity, ImageSettings, Images,
    Project, ProvisionSettings, Reporter, RunningChoice, RunningQuestion, SandboxSettings, Step, Target, Up,
    UpRequest, up,
};
use sandbox_model::{AgentName, ByteSize, CheckoutSlug, NetworkPolicy, Resources, SandboxName};
use sandbox_runtime::Runtime;
use sandbox_runtime::contract::{ArchiveFile, ImageArchive};
use sandbox_runtime::fake::{FakeRuntime, Faults};
use sandbox_state::{Environment, Layout, ProjectState, SandboxFiles, read_record};

pub struct Lab {
    pub dir: PathBuf,
    pub runtime: FakeRuntime,
    pub said: Said,
    layout: Layout,
    temp: Option<tempfile::TempDir>,
}

impl Lab {
    pub fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        fs::create_dir_all(dir.join("project/.agents-sandbox")).unwrap();
        fs::write(dir.join("project/.agents-sandbox/Dockerfile"), "one").unwrap();
        let mut lab = Self::open(&dir);
        lab.temp = Some(temp);
        lab
    }

    pub fn open(dir: &Path) -> Self {
        let environment = Environment { home: Some(dir.join("home")), ..Environment::default() };
        Self {
            dir: dir.into(),
            runtime: FakeRuntime::open(dir.join("fake")).unwrap(),
            said: Said::default(),
            layout: Layout::new(&environment).unwrap(),
            temp: None,
        }
    }

    pub fn context(&self) -> Context<'_> {
        Context {
            layout: self.layout.clone(),
            runtime: Arc::new(self.runtime.clone()),
            images: Arc::new(MemoryImages { dir: self.dir.clone() }),
            program: std::env::current_exe().unwrap(),
            version: "test",
            identity: Identity {
                uid: rustix::process::getuid().as_raw(),
                gid: rustix::process::getgid().as_raw(),
            },
            reporter: &self.said,
        }
    }

    pub fn request(&self) -> UpRequest {
        UpRequest {
            project: Project {
                repository: None,
                checkout: CheckoutSlug::new("project", &self.dir),
                repo: None,
                root: self.dir.join("project"),
                subdir: "src".into(),
                config_dir: self.dir.join("project/.agents-sandbox"),
            },
            agent: AgentName::OPENCODE,
            settings: SandboxSettings {
                resources: Resources { cpus: 1, memory: ByteSize::mib(512) },
                disk_size: None,
                tmp_size: ByteSize::gib(1),
                workspace_quota: ByteSize::gib(1),
                network: NetworkPolicy::default(),
                mounts: Vec::new(),
                ports: Vec::new(),
                secrets: Vec::new(),
                ssh_agent: None,
                env: BTreeMap::new(),
                sleep: false,
                auto_stop_timeout: self.timeout(),
                auto_stop_on_active_sessions: false,
                auto_stop_max_session_retries: 10,
            },
            secret_values: sandbox_model::SecretValues::new(),
            proxies: None,
            provision: ProvisionSettings::default(),
            image: ImageSettings::default(),
            rebuild: false,
            agent_version: None,
            keep: None,
            verb: "run",
        }
    }

    /// How long sandboxes outlive their last client; a file, so that clients in other processes agree.
    pub fn set_timeout(&self, timeout: Duration) {
        fs::write(self.dir.join("timeout"), timeout.as_millis().to_string()).unwrap();
    }

    fn timeout(&self) -> Duration {
        let millis = fs::read_to_string(self.dir.join("timeout")).unwrap_or_else(|_| "60000".into());
        Duration::from_millis(millis.parse().unwrap())
    }

    pub fn up(&self) -> Up {
        up(&self.context(), &self.request()).unwrap()
    }

    pub fn target(&self) -> Target {
        self.request().target()
    }

    pub fn name(&self) -> SandboxName {
        self.target().name()
    }

    pub fn files(&self) -> SandboxFiles {
        let target = self.target();
        self.layout.sandbox_state(&target.checkout, target.agent)
    }

    pub fn state(&self) -> ProjectState {
        read_record(&self.files().state()).unwrap().unwrap_or_default()
    }

    /// The file of the recorded home volume.
    pub fn home(&self) -> PathBuf {
        self.layout.volume(&self.state().home_volume.unwrap())
    }

    /// Everything in the folder of home volumes.
    pub fn volumes(&self) -> Vec<String> {
        let entries = fs::read_dir(self.layout.volumes()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    pub fn status(&self) -> String {
        self.runtime.inspect(&self.name()).unwrap().map_or("none".into(), |info| info.status.to_string())
    }

    pub fn boot_id(&self) -> Option<String> {
        self.runtime.boot_id(&self.name()).unwrap()
    }

    /// What the image is built from.
    pub fn write_dockerfile(&self, text: &str) {
        fs::write(self.dir.join("project/.agents-sandbox/Dockerfile"), text).unwrap();
    }

    /// An image of the engine that has lost its name.
    pub fn add_unnamed(&self) {
        let id: sandbox_model::Digest = "f".repeat(64).parse().unwrap();
        fs::write(unnamed_file(&self.dir), format!("{id}\n")).unwrap();
    }

    pub fn has_unnamed(&self) -> bool {
        !fs::read_to_string(unnamed_file(&self.dir)).unwrap_or_default().is_empty()
    }

    /// As if the sandbox had been at rest for so long.
    pub fn age(&self, days: i64) {
        let path = self.runtime.record_path(&self.name());
        let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let updated = record["updated"].as_i64().unwrap();
        record["updated"] = (updated - days * 86_400).into();
        fs::write(path, record.to_string()).unwrap();
    }

    /// A sandbox at rest with a home and an image, unused for so long.
    pub fn rested(&self, days: i64) {
        drop(self.up());
        sandbox_lifecycle::stop(&self.context(), &self.target(), false).unwrap();
        self.wait_for_keeper();
        self.age(days);
    }

    /// The same, with its memory saved; what slept before woke for it.
    pub fn asleep(&self, days: i64) {
        let mut request = self.request();
        request.settings.sleep = true;
        drop(up(&self.context(), &request).unwrap());
        assert!(sandbox_lifecycle::rest(&self.context(), &self.target()).unwrap().asleep);
        self.wait_for_keeper();
        self.age(days);
    }

    /// Until the keeper has seen that its sandbox is gone.
    fn wait_for_keeper(&self) {
        let begin = std::time::Instant::now();
        let lock = self.files().keeper().lock;
        while sandbox_state::is_locked(&lock).unwrap_or(false) && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Another home, as the volume commands ask for it.
    pub fn replacement(&self) -> Replacement {
        Replacement {
            build: self.request().build_request(),
            volume: None,
            former: Vec::new(),
            remove_old: false,
        }
    }

    /// Another process that takes the home over into a new volume.
    pub fn migrant(&self) -> Client {
        let mut command = Command::new(std::env::current_exe().unwrap());
        Client(command.arg("migrate").arg(&self.dir).stdin(Stdio::null()).spawn().unwrap())
    }

    /// How often an engine was asked.
    pub fn engine_calls(&self) -> usize {
        fs::read_to_string(self.dir.join("engine-calls")).unwrap_or_default().lines().count()
    }

    pub fn loaded_images(&self) -> usize {
        self.runtime.list_images().unwrap().len()
    }

    pub fn set_faults(&self, faults: &Faults) {
        self.runtime.set_faults(faults).unwrap();
    }

    /// Another process that brings the sandbox up and holds it.
    pub fn client(&self) -> Client {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("client").arg(&self.dir).stdin(Stdio::piped()).stdout(Stdio::piped());
        Client(command.spawn().unwrap())
    }

    pub fn wait_for_status(&self, status: &str) {
        let begin = std::time::Instant::now();
        while self.status() != status {
            assert!(begin.elapsed() < Duration::from_secs(30), "still {}", self.status());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.temp.is_some() {
            // The keeper sees that its sandbox is gone, and goes.
            let _ = self.runtime.kill(&self.name());
            self.wait_for_keeper();
        }
    }
}

/// A process that holds a lease, ended with the value.
pub struct Client(Child);

impl Client {
    /// The id of the boot it attached to.
    pub fn boot_id(&mut self) -> String {
        let mut line = String::new();
        let mut output = std::io::BufReader::new(self.0.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        line.trim().to_string()
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn client(dir: &Path) -> ExitCode {
    let lab = Lab::open(dir);
    let up = lab.up();
    println!("{}", up.boot_id);
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    drop(up);
    ExitCode::SUCCESS
}

pub fn migrate(dir: &Path) -> ExitCode {
    let lab = Lab::open(dir);
    sandbox_lifecycle::volumes::migrate(&lab.context(), &lab.replacement()).unwrap();
    ExitCode::SUCCESS
}

/// Images of one small file each, made from the text of the project's Dockerfile.
struct MemoryImages {
    dir: PathBuf,
}

fn unnamed_file(dir: &Path) -> PathBuf {
    dir.join("unnamed")
}

impl MemoryImages {
    fn image(request: &BuildRequest) -> (sandbox_model::Digest, Vec<u8>) {
        let text = fs::read(request.project.config_dir.join("Dockerfile")).unwrap();
        let folder =
            |path: &str, uid| ArchiveFile { path: path.into(), mode: 0o755, uid, content: Vec::new() };
        let file = ArchiveFile { path: "home/dev/.profile".into(), content: text, mode: 0o644, uid: 1000 };
        let mut layer = vec![folder("home/", 0), folder("home/dev/", 1000), file.clone()];
        // `add PATH` puts a file, or with a slash behind it a folder, into the home.
        for path in
            String::from_utf8_lossy(&file.content).lines().filter_map(|line| line.strip_prefix("add "))
        {
            let path = format!("home/dev/{path}");
            let content = if path.ends_with('/') { Vec::new() } else { path.clone().into_bytes() };
            layer.push(ArchiveFile { path, content, mode: 0o750, uid: 1000 });
        }
        let archive = ImageArchive { layers: vec![layer], ..ImageArchive::default() };
        archive.build().unwrap()
    }
}

impl Images for MemoryImages {
    fn content_id(&self, _: &Context<'_>, request: &BuildRequest) -> sandbox_lifecycle::Result<String> {
        Ok(Self::image(request).0.hex().to_string())
    }

    fn ensure(&self, _: &Context<'_>, request: &BuildRequest) -> sandbox_lifecycle::Result<EngineImage> {
        let calls = fs::File::options().create(true).append(true).open(self.dir.join("engine-calls"));
        writeln!(calls.unwrap(), "ensure").unwrap();
        Ok(EngineImage { digest: Self::image(request).0, built: true })
    }

    fn archive(&self, _: &Context<'_>, request: &BuildRequest) -> sandbox_lifecycle::Result<Box<dyn Read>> {
        Ok(Box::new(Cursor::new(Self::image(request).1)))
    }

    fn unnamed(&self, _: &Context<'_>, _: EngineSetting) -> sandbox_lifecycle::Result<Vec<SeenUnnamed>> {
        let text = fs::read_to_string(unnamed_file(&self.dir)).unwrap_or_default();
        let image = |id: &str| SeenUnnamed { id: id.parse().unwrap(), created: 0, size: ByteSize::mib(3) };
        Ok(text.lines().map(image).collect())
    }

    fn remove_unnamed(
        &self,
        _: &Context<'_>,
        _: EngineSetting,
        id: &sandbox_model::Digest,
    ) -> sandbox_lifecycle::Result<bool> {
        let text = fs::read_to_string(unnamed_file(&self.dir)).unwrap_or_default();
        fs::write(unnamed_file(&self.dir), text.replace(&format!("{id}\n"), "")).unwrap();
        Ok(text.contains(id.as_str()))
    }
}

/// Everything that was reported, one line each.
pub struct Said {
    lines: Mutex<Vec<String>>,
    /// What is answered to every question; each question is a line too.
    pub answers: Mutex<(RunningChoice, HomeChoice)>,
}

impl Default for Said {
    fn default() -> Self {
        Self { lines: Mutex::default(), answers: Mutex::new((RunningChoice::Keep, HomeChoice::Keep)) }
    }
}

impl Decisions for Said {
    fn running(&self, question: &RunningQuestion<'_>) -> RunningChoice {
        let changes: Vec<String> = question.changes.iter().map(ToString::to_string).collect();
        self.add("question", &format!("{} {}", question.held, changes.join("; ")));
        self.answers.lock().unwrap().0
    }

    fn home(&self, question: &HomeQuestion<'_>) -> HomeChoice {
        self.add("question", &format!("home {}", question.volume));
        self.answers.lock().unwrap().1
    }
}

impl Said {
    fn add(&self, kind: &str, text: &str) {
        self.lines.lock().unwrap().push(format!("{kind}: {text}"));
    }

    pub fn all(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }
}

impl Reporter for Said {
    fn begin(&self, title: &str) -> Box<dyn Step + '_> {
        self.add("step", title);
        Box::new(sandbox_lifecycle::Silent)
    }

    fn info(&self, text: &str) {
        self.add("info", text);
    }

    fn warning(&self, text: &str) {
        self.add("warning", text);
    }

    fn verbose(&self, text: &str) {
        self.add("verbose", text);
    }

    fn decisions(&self) -> &dyn Decisions {
        self
    }
}

pub fn keeper() -> ExitCode {
    sandbox_keeper::leave_terminal();
    let config: sandbox_keeper::KeeperConfig = serde_json::from_reader(std::io::stdin()).unwrap();
    // DIR/home/.local/state/agents-sandbox/CHECKOUT/AGENT
    let dir = config.dir.ancestors().nth(6).unwrap();
    let runtime = FakeRuntime::open(dir.join("fake")).unwrap();
    let activity = Box::new(sandbox_model::NoSessions);
    match sandbox_keeper::run(config, Arc::new(runtime), activity, &mut std::io::stdout()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => panic!("{error}"),
    }
}
