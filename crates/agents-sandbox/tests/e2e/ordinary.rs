use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::account::Account;

/// Someone without any right of root's: an own home, an own copy of the program, a rootless image engine.
///
/// Root makes a user for it; anyone else is such a person already.
pub struct Person {
    /// Gone with all that was its own when the person is.
    account: Option<Account>,
    home: PathBuf,
    program: PathBuf,
    project: PathBuf,
    _scratch: Option<tempfile::TempDir>,
}

impl Person {
    pub fn new() -> Self {
        if !rustix::process::geteuid().is_root() {
            let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let home = scratch.path().to_path_buf();
            let project = home.join("ordinary-project");
            fs::create_dir(&project).unwrap();
            let program = PathBuf::from(env!("CARGO_BIN_EXE_agents-sandbox"));
            return Self { account: None, home, program, project, _scratch: Some(scratch) };
        }
        let account = Account::make(format!("asb-e2e-{}", std::process::id()));
        let home = account.home.clone();
        let program = home.join("agents-sandbox");
        fs::copy(env!("CARGO_BIN_EXE_agents-sandbox"), &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let project = home.join("ordinary-project");
        let person = Self { account: Some(account), home, program, project, _scratch: None };
        assert!(person.run("mkdir", &["ordinary-project".into()]).status.success());
        person
    }

    /// Runs a command as the person, in the home until there is a project.
    fn run(&self, program: &str, arguments: &[String]) -> Output {
        let mut command = match &self.account {
            Some(account) => {
                let mut command = Command::new("/usr/sbin/runuser");
                command.args(["-u", &account.name, "--", program]);
                command
            }
            None => Command::new(program),
        };
        let dir = if self.project.exists() { &self.project } else { &self.home };
        command
            .args(arguments)
            .current_dir(dir)
            .env("HOME", &self.home)
            // No folder of root's, and none that an ordinary login lacks.
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("AGENTS_SANDBOX_IMAGE_ENGINE", "buildah")
            .stdin(Stdio::null());
        for name in
            ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"]
        {
            command.env_remove(name);
        }
        command.output().unwrap()
    }

    /// Runs our program; its standard output.
    pub fn sandbox(&self, arguments: &[&str]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_string()).collect();
        let output = self.run(&self.program.to_string_lossy(), &arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.project.join(path)).unwrap()
    }

    /// Whether what a sandbox wrote belongs to the person.
    pub fn owns(&self, path: &str) -> bool {
        use std::os::unix::fs::MetadataExt;
        let (file, home) =
            (fs::metadata(self.project.join(path)).unwrap(), fs::metadata(&self.home).unwrap());
        (file.uid(), file.gid()) == (home.uid(), home.gid())
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let program = self.program.to_string_lossy().into_owned();
        let _ = self.run(&program, &["kill".into(), "--force".into()]);
    }
}
