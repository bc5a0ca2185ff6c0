use std::io::{ErrorKind, Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use sandbox_lifecycle::Reporter;
use sha2::{Digest, Sha256};

use super::source::DEADLINE;
use super::{Release, Source};
use crate::commands::PROGRAM;
use crate::error::CommandError;

/// Puts a release in the place of `program`, whose mode it gets. Fails with nothing changed where the file
/// is not the one of the checksum, or is not that version of this program.
pub fn install(
    reporter: &dyn Reporter,
    source: &Source,
    release: &Release,
    program: &Path,
) -> Result<(), CommandError> {
    let program = fs_err::canonicalize(program)?;
    let dir = program.parent().unwrap_or(Path::new("/"));
    let mut file =
        tempfile::Builder::new().prefix(".new-").tempfile_in(dir).map_err(|error| refused(dir, &error))?;
    let mut step = reporter.begin("fetching the release");
    source
        .fetch(&release.file, DEADLINE, file.as_file_mut(), &mut |done, total| step.progress(done, total))?;
    step.finish(None);
    let found = sum(file.as_file_mut())?;
    if found != release.sha256 {
        return Err(CommandError::new(format!(
            "{} is not what its checksum says; nothing was changed",
            release.file
        ))
        .excerpt(&format!("SHA256SUMS  {}\nthe file    {found}", release.sha256))
        .hint("fetch it again; if it stays so, the place it comes from is broken"));
    }
    let mode = fs_err::metadata(&program)?.permissions().mode() & 0o777;
    file.as_file().set_permissions(std::fs::Permissions::from_mode(mode | 0o100))?;
    file.as_file().sync_all()?;
    // A program that is open for writing cannot be run.
    let path = file.into_temp_path();
    says_its_version(&path, release)?;
    path.persist(&program).map_err(|error| refused(dir, &error.error))?;
    fs_err::File::open(dir)?.sync_all()?;
    Ok(())
}

fn sum(file: &mut std::fs::File) -> std::io::Result<String> {
    file.rewind()?;
    let mut hash = Sha256::new();
    let mut chunk = vec![0; 1 << 16];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hex::encode(hash.finalize())),
            count => hash.update(&chunk[..count]),
        }
    }
}

fn says_its_version(path: &Path, release: &Release) -> Result<(), CommandError> {
    let expected = format!("{PROGRAM} {}", release.version);
    let said = Command::new(path).arg("version").stdin(Stdio::null()).output();
    let (text, problem) = match said {
        Ok(output) => (String::from_utf8_lossy(&output.stdout).trim().to_string(), output.status.to_string()),
        Err(error) => (String::new(), error.to_string()),
    };
    if text == expected {
        return Ok(());
    }
    Err(CommandError::new(format!("{} does not run as `{expected}`; nothing was changed", release.file))
        .excerpt(if text.is_empty() { &problem } else { &text }))
}

fn refused(dir: &Path, error: &std::io::Error) -> CommandError {
    let new =
        CommandError::new(format!("this program's folder {} cannot be written: {error}", dir.display()));
    if error.kind() == ErrorKind::PermissionDenied {
        return new.hint("upgrade it the way it was installed: as its owner, or with the package manager");
    }
    new
}
