use std::io::{Read, Seek};
use std::path::Path;

use fs_err as fs;

use super::RuntimeInstallError;
use super::pins::{Pin, Pins};
use super::place::Staged;

/// Takes both files out of an archive, wherever in it they are. Nothing else of it is written.
pub(crate) fn unpack(path: &Path, pins: &Pins, staged: &Staged) -> Result<(), RuntimeInstallError> {
    let mut file = fs::File::open(path)?;
    let mut magic = [0; 2];
    let kind = file.read_exact(&mut magic).map(|()| magic);
    file.rewind()?;
    let mut taken = Vec::new();
    match kind {
        Ok([b'P', b'K']) => unzip(file, path, pins, staged, &mut taken)?,
        Ok([0x1f, 0x8b]) => untar(file, path, pins, staged, &mut taken)?,
        _ => return Err(RuntimeInstallError::NotAnArchive { path: path.into() }),
    }
    match pins.files.iter().find(|pin| !taken.contains(&pin.name)) {
        Some(pin) => {
            Err(RuntimeInstallError::Incomplete { source_name: path.display().to_string(), file: pin.name })
        }
        None => Ok(()),
    }
}

/// The pin of an entry that carries one of the files and was not taken yet.
fn wanted<'a>(pins: &'a Pins, entry: &Path, taken: &[&'static str]) -> Option<&'a Pin> {
    pins.files
        .iter()
        .find(|pin| entry.file_name().is_some_and(|name| name == pin.name) && !taken.contains(&pin.name))
}

fn unzip(
    file: fs::File,
    path: &Path,
    pins: &Pins,
    staged: &Staged,
    taken: &mut Vec<&'static str>,
) -> Result<(), RuntimeInstallError> {
    let bad = |error: zip::result::ZipError| RuntimeInstallError::BadArchive {
        path: path.into(),
        problem: error.to_string(),
    };
    let mut archive = zip::ZipArchive::new(file).map_err(bad)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(bad)?;
        let name = entry.name().map_err(bad)?.into_owned();
        if let Some(pin) = wanted(pins, Path::new(&name), taken).filter(|_| entry.is_file()) {
            staged.take(pin, &mut entry, &path.display().to_string()).map_err(|error| broken(error, path))?;
            taken.push(pin.name);
        }
    }
    Ok(())
}

fn untar(
    file: fs::File,
    path: &Path,
    pins: &Pins,
    staged: &Staged,
    taken: &mut Vec<&'static str>,
) -> Result<(), RuntimeInstallError> {
    let bad = |error: std::io::Error| RuntimeInstallError::BadArchive {
        path: path.into(),
        problem: error.to_string(),
    };
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    for entry in archive.entries().map_err(bad)? {
        let mut entry = entry.map_err(bad)?;
        let name = entry.path().map_err(bad)?.into_owned();
        if let Some(pin) = wanted(pins, &name, taken).filter(|_| entry.header().entry_type().is_file()) {
            staged.take(pin, &mut entry, &path.display().to_string()).map_err(|error| broken(error, path))?;
            taken.push(pin.name);
        }
    }
    Ok(())
}

/// A read error of a compressed stream means a damaged archive, not a failing disk.
fn broken(error: RuntimeInstallError, path: &Path) -> RuntimeInstallError {
    use std::io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};

    match error {
        RuntimeInstallError::Io(error)
            if matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof) =>
        {
            RuntimeInstallError::BadArchive { path: path.into(), problem: error.to_string() }
        }
        other => other,
    }
}
