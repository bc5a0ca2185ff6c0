//! Reading one value from where it is.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sandbox_config::SecretSource;
use sandbox_lifecycle::open_host_file;

/// Longer than any credential; the engine has to hold it for each connection.
const LIMIT: u64 = 64 << 10;

/// There is nothing at all.
const EMPTY: &str = "it is empty";

/// The value, or why it cannot be read, as the end of a sentence. Never with a part of the value.
///
/// A file is read through links, but none in one of the `walls`: whoever works in a sandbox can make links there.
pub fn value(source: &SecretSource, walls: &[PathBuf]) -> Result<String, String> {
    match source {
        SecretSource::Literal(value) => Ok(value.reveal().to_string()),
        SecretSource::Env(name) => match std::env::var(name) {
            Ok(value) if value.is_empty() => Err("it is empty".into()),
            Ok(value) => Ok(value),
            Err(std::env::VarError::NotPresent) => Err("it is not set".into()),
            Err(std::env::VarError::NotUnicode(_)) => Err("it is not UTF-8".into()),
        },
        SecretSource::File(path) => file(path, walls),
        SecretSource::Command(words) => match &words[..] {
            [line] => printed(Command::new("sh").args(["-c", line])),
            [program, arguments @ ..] => printed(Command::new(program).args(arguments)),
            [] => Err("there is no command".into()),
        },
        SecretSource::Keyring(attributes) => {
            let words = attributes.iter().flat_map(|(name, value)| [name, value]);
            printed(Command::new("secret-tool").arg("lookup").args(words)).map_err(|problem| {
                format!("{problem}; `secret-tool` (package libsecret-tools) asks the keyring")
            })
        }
    }
}

/// Only a regular file: a pipe would make us wait.
fn file(path: &Path, walls: &[PathBuf]) -> Result<String, String> {
    let file = open_host_file(path, walls)?;
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Err("it is not a regular file".into());
    }
    take(file)
}

/// What a command prints. It has the user's terminal for its errors and questions, and no input.
///
/// It does not run in the checkout: a sandbox writes there, and many a program looks for code in its folder.
fn printed(command: &mut Command) -> Result<String, String> {
    let mut child = command
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let value = child.stdout.take().map_or_else(|| Ok(String::new()), take);
    let useless = value.as_ref().is_err_and(|problem| problem != EMPTY);
    if useless {
        // It may have more to say than anybody takes.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    // One that failed mostly printed nothing, and how it ended says more than that.
    if !useless && !status.success() {
        return Err(format!("it ended with {status}"));
    }
    let value = value?;
    if value.is_empty() { Err("it printed nothing".into()) } else { Ok(value) }
}

/// Without the line breaks at its end, which editors and commands add.
fn take(from: impl Read) -> Result<String, String> {
    let mut text = String::new();
    let read = from.take(LIMIT + 1).read_to_string(&mut text);
    match read.map_err(|error: io::Error| error.to_string())? as u64 {
        0 => Err(EMPTY.into()),
        length if length > LIMIT => Err("it is longer than 64 KiB".into()),
        _ => {
            text.truncate(text.trim_end_matches(['\n', '\r']).len());
            Ok(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> Result<String, String> {
        value(&SecretSource::Command(vec![line.into()]), &[])
    }

    #[test]
    fn every_source_gives_its_value_or_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let of = |path: &Path| value(&SecretSource::File(path.into()), &[]);
        std::fs::write(&path, "abc\r\n\n").unwrap();
        assert_eq!(of(&path).as_deref(), Ok("abc"));
        assert!(of(&dir.path().join("none")).unwrap_err().contains("No such file"));
        assert_eq!(of(dir.path()), Err("it is not a regular file".into()));
        std::fs::write(&path, vec![b'x'; 70_000]).unwrap();
        assert_eq!(of(&path), Err("it is longer than 64 KiB".into()));

        assert_eq!(command("printf 'a b\\n'").as_deref(), Ok("a b"));
        let words = ["printf", "%s", "$HOME"].map(String::from).to_vec();
        assert_eq!(
            value(&SecretSource::Command(words), &[]).as_deref(),
            Ok("$HOME"),
            "no shell reads a list"
        );
        assert_eq!(command("pwd").as_deref(), Ok("/"), "not where a sandbox writes");
        let failed = command("echo half-of-it; exit 3").unwrap_err();
        assert!(failed.contains('3') && !failed.contains("half"), "{failed}");
        let silent = command("exit 3").unwrap_err();
        assert!(silent.contains("exit status: 3"), "{silent}");
        assert_eq!(command("true"), Err(EMPTY.into()));
        assert_eq!(command("yes"), Err("it is longer than 64 KiB".into()), "and does not wait for it");
        let unset = SecretSource::Env("NO_SUCH_VARIABLE_HERE".into());
        assert_eq!(value(&unset, &[]), Err("it is not set".into()));
    }

    #[test]
    fn no_file_is_read_through_a_link_where_a_sandbox_writes() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        std::fs::create_dir(dir.join("shared")).unwrap();
        for path in ["key", "shared/token"] {
            std::fs::write(dir.join(path), "abc").unwrap();
        }
        std::os::unix::fs::symlink("../key", dir.join("shared/link")).unwrap();
        let of = |path: &str, walls: &[PathBuf]| value(&SecretSource::File(dir.join(path)), walls);
        let walls = [dir.join("shared")];
        assert!(of("shared/link", &walls).unwrap_err().contains("through a link"));
        assert_eq!(of("shared/token", &walls).as_deref(), Ok("abc"));
        assert_eq!(of("shared/link", &[]).as_deref(), Ok("abc"), "a link of the user's");
    }
}
