//! How the user's git signs.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sandbox_files::{LastLink, read_text};

use crate::error::CommandError;

/// A public key is a line.
const LIMIT: u64 = 16 << 10;
/// For all that git says of its configuration.
const ANSWER_LIMIT: u64 = 1 << 20;
/// git answers within milliseconds; a home on a network needs longer.
const PATIENCE: Duration = Duration::from_secs(10);
const KEYS: [&str; 4] = ["gpg.format", "user.signingkey", "commit.gpgsign", "tag.gpgsign"];

/// The key that signs, and what git signs unasked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signing {
    /// The public key's kind and data, as in its file.
    pub public: String,
    /// The data itself.
    pub key: Vec<u8>,
    pub commits: bool,
    pub tags: bool,
}

impl Signing {
    /// git's configuration as variables, behind what `env` has of them: they are gone with the setting, and no
    /// file of the home is touched.
    pub fn environment(&self, env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let taken: usize = env.get("GIT_CONFIG_COUNT").and_then(|count| count.parse().ok()).unwrap_or(0);
        let entries = [
            ("gpg.format", "ssh".to_string()),
            ("user.signingkey", format!("key::{}", self.public)),
            ("commit.gpgsign", self.commits.to_string()),
            ("tag.gpgsign", self.tags.to_string()),
        ];
        let mut variables =
            BTreeMap::from([("GIT_CONFIG_COUNT".into(), (taken + entries.len()).to_string())]);
        for (number, (key, value)) in (taken..).zip(entries) {
            variables.insert(format!("GIT_CONFIG_KEY_{number}"), key.into());
            variables.insert(format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        variables
    }
}

/// Reads the user's own settings, never those of the repository, which the sandbox writes.
pub fn signing(root: &Path) -> Result<Signing, CommandError> {
    let found = of_the_user(&listed(root, PATIENCE)?);
    let is = |key: &str| {
        found.get(key).is_some_and(|value| matches!(value.as_str(), "" | "true" | "yes" | "on" | "1"))
    };
    let refuse = |problem: String| {
        CommandError::new(format!("git cannot sign in the sandbox: {problem}"))
            .hint("`git.signing` takes over ssh signatures: git config --global gpg.format ssh, and user.signingkey")
    };
    match found.get("gpg.format").map(String::as_str) {
        Some("ssh") => {}
        format => {
            let format = format.unwrap_or("openpgp");
            return Err(refuse(format!("gpg.format is {format} in your git configuration, and not ssh")));
        }
    }
    let key = found
        .get("user.signingkey")
        .ok_or_else(|| refuse("there is no user.signingkey in your git configuration".into()))?;
    let text = public_key(key).map_err(|problem| refuse(format!("user.signingkey {key}: {problem}")))?;
    let (public, key) =
        parse(&text).ok_or_else(|| refuse(format!("user.signingkey {key} is no public key of ssh")))?;
    Ok(Signing { public, key, commits: is("commit.gpgsign"), tags: is("tag.gpgsign") })
}

/// What git says of every layer, in its own order. It runs nothing for it, but it follows the includes of the
/// repository's file, which the sandbox writes: one of them can be a pipe that nobody fills.
fn listed(root: &Path, patience: Duration) -> Result<Vec<u8>, CommandError> {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).args(["config", "--null", "--show-scope", "--list"]);
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT"] {
        command.env_remove(name);
    }
    said(&mut command, patience)
        .map_err(|problem| CommandError::new("git cannot be asked how it signs").excerpt(&problem))
}

/// All that a command prints, if it ends well in time.
fn said(command: &mut Command, patience: Duration) -> Result<Vec<u8>, String> {
    let text = |error: std::io::Error| error.to_string();
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(text)?;
    let reading = [child.stdout.take().map(heard), child.stderr.take().map(heard)];
    let mut outcome = Ok([Vec::new(), Vec::new()]);
    let end = Instant::now() + patience;
    for (place, pipe) in reading.into_iter().flatten().enumerate() {
        match (pipe.recv_timeout(end.saturating_duration_since(Instant::now())), &mut outcome) {
            (Ok(Ok(bytes)), _) if bytes.len() as u64 > ANSWER_LIMIT => {
                outcome = Err(format!("it says more than {} MiB", ANSWER_LIMIT >> 20));
            }
            (Ok(Ok(bytes)), Ok(pipes)) => pipes[place] = bytes,
            (Ok(Ok(_)), Err(_)) => {}
            (Ok(Err(error)), _) => outcome = Err(error.to_string()),
            (Err(_), _) => outcome = Err(format!("it does not answer within {} s", patience.as_secs())),
        }
    }
    if outcome.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().map_err(text)?;
    let [printed, complained] = outcome?;
    if status.success() { Ok(printed) } else { Err(String::from_utf8_lossy(&complained).trim().to_string()) }
}

/// What arrives on a pipe until its end, at most one byte more than is taken.
fn heard(pipe: impl Read + Send + 'static) -> Receiver<std::io::Result<Vec<u8>>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.take(ANSWER_LIMIT + 1).read_to_end(&mut bytes);
        // Nobody waits any more where it took too long.
        let _ = sender.send(read.map(|_| bytes));
    });
    receiver
}

/// The last value of each key in the user's own and the machine's layer.
fn of_the_user(listed: &[u8]) -> BTreeMap<&'static str, String> {
    let text = String::from_utf8_lossy(listed);
    let mut found = BTreeMap::new();
    let mut words = text.split('\0');
    while let (Some(scope), Some(entry)) = (words.next(), words.next()) {
        let (name, value) = entry.split_once('\n').unwrap_or((entry, ""));
        if let Some(key) = KEYS.into_iter().find(|key| *key == name)
            && matches!(scope, "global" | "system")
        {
            found.insert(key, value.to_string());
        }
    }
    found
}

/// As git reads `user.signingkey`: the key itself, or the file it is in.
fn public_key(value: &str) -> Result<String, String> {
    if let Some(key) = value.strip_prefix("key::") {
        return Ok(key.into());
    }
    if value.starts_with("ssh-") {
        return Ok(value.into());
    }
    let path = match (value.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(value),
    };
    if !path.is_absolute() {
        return Err("write an absolute path, or one that starts with ~/".into());
    }
    // A private key stays where it is: its public one lies beside it.
    let beside = PathBuf::from(format!("{}.pub", path.display()));
    let public = path.extension().is_some_and(|extension| extension == "pub");
    let path = if public || !beside.exists() { path } else { beside };
    read_text(&path, LastLink::Followed, LIMIT).map_err(|error| format!("{}: {error}", path.display()))
}

/// Kind and data of a public key's line, without its comment.
fn parse(text: &str) -> Option<(String, Vec<u8>)> {
    let mut words = text.lines().next()?.split_whitespace();
    let (kind, data) = (words.next()?, words.next()?);
    let key = STANDARD.decode(data).ok()?;
    // The kind is in the data once more.
    let length = u32::from_be_bytes(*key.first_chunk()?) as usize;
    (key.get(4..4 + length)? == kind.as_bytes()).then(|| (format!("{kind} {data}"), key.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJVNGNZ3VwUkVzTtVAZVlBVU3WJLwYVqYyEZqHfcb1L";

    #[test]
    fn the_repository_has_no_say() {
        let listed = b"system\0gpg.format\nssh\0global\0user.signingkey\n~/a.pub\0global\0commit.gpgsign\0\
            local\0user.signingkey\n/etc/shadow\0local\0gpg.format\nopenpgp\0command\0tag.gpgsign\ntrue\0";
        let found: Vec<_> = of_the_user(listed).into_iter().collect();
        let expected = [("commit.gpgsign", ""), ("gpg.format", "ssh"), ("user.signingkey", "~/a.pub")];
        assert_eq!(found, expected.map(|(key, value)| (key, value.to_string())));
    }

    #[test]
    fn a_command_that_does_not_end_or_says_too_much_is_given_up() {
        let wait = |line: &str, patience| said(Command::new("sh").args(["-c", line]), patience);
        let ask = |line| wait(line, Duration::from_mins(1));
        assert_eq!(ask("echo yes; echo no >&2").as_deref(), Ok(&b"yes\n"[..]));
        assert_eq!(ask("echo no >&2; exit 3"), Err("no".into()));
        assert_eq!(
            wait("exec sleep 60", Duration::from_secs(1)),
            Err("it does not answer within 1 s".into())
        );
        assert_eq!(ask("exec yes"), Err("it says more than 1 MiB".into()));
    }

    #[test]
    fn a_repository_that_includes_a_pipe_stops_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let git = |words: &[&str]| {
            let mut command = Command::new("git");
            assert!(command.arg("-C").arg(dir.path()).args(words).status().unwrap().success());
        };
        git(&["init", "--quiet"]);
        git(&["config", "include.path", "../pipe"]);
        assert!(listed(dir.path(), PATIENCE).is_ok());
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("pipe"), 0o600.into()).unwrap();
        assert!(listed(dir.path(), Duration::from_secs(1)).is_err());
    }

    #[test]
    fn a_key_is_its_kind_and_data() {
        let (public, key) = parse(&format!("{KEY} me@home\nanother line")).unwrap();
        assert_eq!((public.as_str(), key.len()), (KEY, 51));
        for text in ["", "ssh-ed25519", "ssh-rsa AAAA", &KEY.replace("ssh-ed25519", "ssh-rsa"), "-----BEGIN"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_private_key_is_never_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("id");
        std::fs::write(&path, "private").unwrap();
        std::fs::write(dir.path().join("id.pub"), KEY).unwrap();
        assert_eq!(public_key(path.to_str().unwrap()).unwrap(), KEY);
        assert_eq!(public_key(&format!("key::{KEY}")).unwrap(), KEY);
        assert!(public_key("id").is_err());
        assert!(public_key("/dev/zero").unwrap_err().contains("regular"));
    }

    #[test]
    fn variables_come_behind_the_users_own() {
        let signing = Signing { public: "k".into(), key: vec![], commits: true, tags: false };
        let env = signing.environment(&BTreeMap::from([("GIT_CONFIG_COUNT".into(), "1".into())]));
        let text: Vec<String> = env.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(
            text.join(" "),
            "GIT_CONFIG_COUNT=5 GIT_CONFIG_KEY_1=gpg.format GIT_CONFIG_KEY_2=user.signingkey \
            GIT_CONFIG_KEY_3=commit.gpgsign GIT_CONFIG_KEY_4=tag.gpgsign GIT_CONFIG_VALUE_1=ssh \
            GIT_CONFIG_VALUE_2=key::k GIT_CONFIG_VALUE_3=true GIT_CONFIG_VALUE_4=false"
        );
    }
}
