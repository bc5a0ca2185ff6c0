use std::ffi::OsStr;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fs_err as fs;

use super::pins::Pins;
use super::{Events, InstallEvent, RuntimeInstallError, child};

const OUTPUT_LINES: usize = 12;

/// The user's own pip, with the user's own settings: index, proxy, certificates.
#[derive(Debug, Clone)]
pub(crate) struct Pip {
    words: Vec<PathBuf>,
}

impl Pip {
    /// The first of `pip3`, `pip` and `python3 -m pip` that answers.
    pub fn find() -> Result<Self, RuntimeInstallError> {
        Self::find_in(&std::env::var_os("PATH").unwrap_or_default())
    }

    fn find_in(path: &OsStr) -> Result<Self, RuntimeInstallError> {
        let candidates = [("pip3", &[][..]), ("pip", &[]), ("python3", &["-m", "pip"])];
        for (program, arguments) in candidates {
            let Ok(program) = which::which_in(program, Some(path), "/") else { continue };
            let words = std::iter::once(program).chain(arguments.iter().map(PathBuf::from)).collect();
            let pip = Self { words };
            // Not in the current folder: `python3 -m` runs a `pip.py` it finds there.
            let answers = pip.command(Path::new("/")).arg("--version").stdout(Stdio::null()).status();
            if answers.is_ok_and(|status| status.success()) {
                return Ok(pip);
            }
        }
        Err(RuntimeInstallError::PipMissing)
    }

    fn command(&self, dir: &Path) -> Command {
        let mut command = Command::new(&self.words[0]);
        command
            .args(&self.words[1..])
            .current_dir(dir)
            .env("PIP_NO_INPUT", "1")
            .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        child::dies_with_us(&mut command);
        command
    }

    /// The wheel is only unpacked here, never installed: so its platform is named, whatever the
    /// machine's own Python is.
    fn arguments(pins: &Pins) -> Vec<String> {
        let fixed = ["--no-deps", "--only-binary=:all:", "--progress-bar", "off"];
        let platform = [
            format!("--platform=manylinux_2_28_{}", pins.arch),
            "--implementation=cp".into(),
            "--python-version=3.12".into(),
            "--abi=abi3".into(),
            format!("microsandbox=={}", pins.version),
        ];
        fixed.map(String::from).into_iter().chain(platform).collect()
    }

    /// The command line, for people.
    pub fn describe(&self, pins: &Pins) -> String {
        let name = |word: &PathBuf| word.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let words = self.words.iter().map(name).chain(["download".into()]);
        words.chain([format!("microsandbox=={}", pins.version)]).collect::<Vec<_>>().join(" ")
    }

    /// Downloads the wheel into the empty folder `dir`.
    pub fn download(
        &self,
        pins: &Pins,
        dir: &Path,
        deadline: Duration,
        events: Events<'_>,
    ) -> Result<PathBuf, RuntimeInstallError> {
        let log_path = dir.join("pip.log");
        let log = fs::File::create(&log_path)?.into_parts().0;
        // Everything pip writes is in `dir`, so that a kill leaves nothing elsewhere, and so that its
        // growth can be shown.
        let wheels = dir.join("wheels");
        fs::create_dir(&wheels)?;
        let child = self
            .command(dir)
            .arg("download")
            .arg("--dest")
            .arg(&wheels)
            .args(Self::arguments(pins))
            .env("TMPDIR", dir)
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let status =
            wait(child, deadline, &mut || events(InstallEvent::Fetched { bytes: size(dir), total: None }))?;
        let (command, output) = (self.describe(pins), last_lines(&log_path));
        match status {
            None => Err(RuntimeInstallError::PipTooSlow { command, limit: deadline, output }),
            Some(status) if !status.success() => {
                Err(RuntimeInstallError::PipFailed { command, status: status.to_string(), output })
            }
            Some(status) => fs::read_dir(&wheels)?
                .filter_map(Result::ok)
                .map(|entry| entry.path())
                .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
                .ok_or(RuntimeInstallError::PipFailed {
                    command,
                    status: format!("{status}, but no wheel was written"),
                    output,
                }),
        }
    }
}

/// Waits for the child, reporting twice a second; `None` when it was killed at the deadline.
fn wait(
    mut child: Child,
    deadline: Duration,
    tick: &mut dyn FnMut(),
) -> Result<Option<ExitStatus>, RuntimeInstallError> {
    let begin = Instant::now();
    let mut told = begin;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begin.elapsed() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        if told.elapsed() >= Duration::from_millis(500) {
            told = Instant::now();
            tick();
        }
        std::thread::sleep(Duration::from_millis(25));
    }
}

/// Bytes of all files below `dir`.
fn size(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let sizes = entries.filter_map(Result::ok).filter_map(|entry| {
        let metadata = entry.metadata().ok()?;
        Some(if metadata.is_dir() { size(&entry.path()) } else { metadata.len() })
    });
    sizes.sum()
}

fn last_lines(log: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(mut file) = fs::File::open(log) {
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let _ = file.seek(SeekFrom::Start(length.saturating_sub(8192)));
        let _ = file.read_to_end(&mut bytes);
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(OUTPUT_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use fs_err::os::unix::fs::OpenOptionsExt;

    use super::*;

    fn script(dir: &Path, name: &str, body: &str) -> Pip {
        let path = dir.join(name);
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o755).open(&path).unwrap();
        write!(file, "#!/bin/sh\n{body}\n").unwrap();
        Pip { words: vec![path] }
    }

    fn download(body: &str, deadline: Duration) -> Result<Vec<u8>, RuntimeInstallError> {
        let dir = tempfile::tempdir().unwrap();
        let fetched = dir.path().join("fetched");
        fs::create_dir(&fetched).unwrap();
        let pip = script(dir.path(), "pip3", body);
        let pins = Pins::for_arch("x86_64").unwrap();
        Ok(fs::read(pip.download(&pins, &fetched, deadline, &mut |_| {})?).unwrap())
    }

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn a_wheel_is_found_whatever_pip_called_it() {
        // Input that never ends would hang here.
        let body = r#"cat >/dev/null
            while [ $# -gt 1 ]; do [ "$1" = --dest ] && dest=$2; shift; done
            [ "$1" = microsandbox==0.7.11 ] && [ "$TMPDIR" = "$PWD" ] && printf wheel > "$dest/any-name.whl""#;
        assert_eq!(download(body, LONG).unwrap(), b"wheel");
    }

    #[test]
    fn a_failing_pip_tells_its_last_lines() {
        let error = download("seq 100; echo 'no such host' >&2; exit 3", LONG).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("exit status: 3") && text.ends_with("99\n100\nno such host"), "{text}");
        assert!(!text.contains("\n80\n"), "{text}");
        assert!(text.starts_with("`pip3 download microsandbox==0.7.11` failed"), "{text}");

        let error = download("exit 0", LONG).unwrap_err();
        assert!(error.to_string().contains("no wheel was written"), "{error}");
    }

    #[test]
    fn a_pip_that_hangs_is_ended_at_the_deadline() {
        let begin = Instant::now();
        let error = download("echo asking; exec sleep 600", Duration::from_millis(300)).unwrap_err();
        assert!(
            matches!(&error, RuntimeInstallError::PipTooSlow { output, .. } if output == "asking"),
            "{error:?}"
        );
        assert!(begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn the_first_pip_that_answers_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let find = || Pip::find_in(dir.path().as_os_str());
        let missing = find().unwrap_err();
        assert!(matches!(missing, RuntimeInstallError::PipMissing), "{missing}");
        script(dir.path(), "pip3", "exit 1");
        script(dir.path(), "python3", "[ \"$*\" = '-m pip --version' ]");
        let found = find().unwrap();
        assert_eq!(found.words, [dir.path().join("python3"), "-m".into(), "pip".into()]);
        script(dir.path(), "pip3", "exit 0");
        assert_eq!(find().unwrap().words, [dir.path().join("pip3")]);
    }
}
