use std::collections::BTreeMap;
use std::io::Read;

use sandbox_model::{Digest, ImageRef};

use super::check::{check, check_eq, check_error, fail};
use super::sandbox::{Sandbox, read_text, unique_name};
use super::{ArchiveFile, Case, Failure, Harness, ImageArchive, Outcome};
use crate::RuntimeError;

pub(super) const CASES: &[Case] = &[
    Case::core("image_load_inspect_list_remove", load_inspect_list_remove),
    Case::core("image_load_again_reads_nothing", load_again),
    Case::core("image_not_an_archive", not_an_archive),
    Case::core("image_reference_moves_on", moves_on),
    Case::core("image_export_dir", export_dir),
    Case::core("image_content_stays_for_its_sandbox", content_stays),
];

/// A small image that nobody else loads; it cannot boot.
struct Small {
    reference: ImageRef,
    digest: Digest,
    archive: Vec<u8>,
}

fn file(path: &str, content: &str, mode: u32) -> ArchiveFile {
    let uid = if path.starts_with("home/dev") { 1000 } else { 0 };
    ArchiveFile { path: path.into(), content: content.into(), mode, uid }
}

impl Small {
    fn new(word: &str) -> Outcome<Self> {
        let name = unique_name()?;
        let image = ImageArchive {
            layers: vec![
                vec![
                    file("etc/", "", 0o755),
                    file("etc/name", name.as_str(), 0o644),
                    file("home/", "", 0o755),
                    file("home/dev/", "", 0o750),
                    file("home/dev/.profile", "first", 0o644),
                    file("home/dev/gone", "x", 0o644),
                    file("home/dev/old/", "", 0o755),
                    file("home/dev/old/file", "x", 0o644),
                ],
                vec![
                    file("home/dev/.profile", word, 0o600),
                    file("home/dev/.wh.gone", "", 0o644),
                    file("home/dev/old/.wh..wh..opq", "", 0o644),
                    file("home/dev/old/new", "y", 0o755),
                ],
            ],
            env: vec![("PATH".into(), "/usr/bin:/bin".into()), ("WORD".into(), format!("{word} = {word}"))],
            labels: BTreeMap::from([("word".to_string(), word.to_string())]),
        };
        let (digest, archive) = image.build()?;
        let reference =
            format!("contract/{name}:latest").parse().map_err(|error| Failure(format!("{error}")))?;
        Ok(Self { reference, digest, archive })
    }

    fn load(&self, harness: &dyn Harness) -> Outcome<crate::ImageInfo> {
        let mut archive = self.archive.as_slice();
        Ok(harness.runtime().load_image(&self.reference, &self.digest, &mut archive, &mut |_, _| {})?)
    }
}

fn load_inspect_list_remove(harness: &dyn Harness) -> Outcome {
    let (runtime, image) = (harness.runtime(), Small::new("word")?);
    check_eq!(runtime.inspect_image(&image.reference)?, None, "inspect before the load");
    let info = image.load(harness)?;
    check_eq!(info.reference, image.reference, "reference");
    check_eq!(info.digest, image.digest, "digest");
    check_eq!(info.labels.get("word").map(String::as_str), Some("word"), "label");
    check!(
        info.env.contains(&("WORD".into(), "word = word".into())),
        "the variable is not in {:?}",
        info.env
    );
    check!(info.size.bytes() > 0, "an image of no bytes");
    check_eq!(runtime.inspect_image(&image.reference)?.as_ref(), Some(&info), "inspect");
    let listed = runtime.list_images()?;
    check!(listed.contains(&info), "not listed: {listed:?}");
    for _ in 0..2 {
        runtime.remove_image(&image.reference)?;
        check_eq!(runtime.inspect_image(&image.reference)?, None, "inspect after the removal");
    }
    let to = harness.workspace_dir()?.join("export");
    check_error!(
        runtime.export_image_dir(&image.digest, "/home/dev", &to),
        RuntimeError::NoSuchContent(_),
        "export of removed content"
    );
    Ok(())
}

struct Unreadable;

impl Read for Unreadable {
    fn read(&mut self, _buffer: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("this archive must not be read"))
    }
}

fn load_again(harness: &dyn Harness) -> Outcome {
    let (runtime, image) = (harness.runtime(), Small::new("word")?);
    image.load(harness)?;
    runtime.load_image(&image.reference, &image.digest, &mut Unreadable, &mut |_, _| {})?;
    let second: ImageRef =
        format!("{}-2", image.reference).parse().map_err(|error| Failure(format!("{error}")))?;
    runtime.load_image(&second, &image.digest, &mut Unreadable, &mut |_, _| {})?;
    runtime.remove_image(&image.reference)?;
    check!(runtime.inspect_image(&second)?.is_some(), "the second reference went with the first");
    runtime.remove_image(&second)?;
    Ok(())
}

fn not_an_archive(harness: &dyn Harness) -> Outcome {
    let (runtime, image) = (harness.runtime(), Small::new("word")?);
    let cut = &image.archive[..image.archive.len() / 3];
    for bytes in [&b"this is no archive"[..], cut, b""] {
        let mut archive = bytes;
        check_error!(
            runtime.load_image(&image.reference, &image.digest, &mut archive, &mut |_, _| {}),
            RuntimeError::BadArchive(_),
            "{} bytes of no archive",
            bytes.len()
        );
        check_eq!(runtime.inspect_image(&image.reference)?, None, "after a failed load");
    }
    // Nothing half-made stays in the way.
    image.load(harness)?;
    runtime.remove_image(&image.reference)?;
    Ok(())
}

fn moves_on(harness: &dyn Harness) -> Outcome {
    let (runtime, first, mut second) = (harness.runtime(), Small::new("first")?, Small::new("second")?);
    second.reference = first.reference.clone();
    first.load(harness)?;
    second.load(harness)?;
    let info = runtime.inspect_image(&first.reference)?;
    check_eq!(info.map(|info| info.digest), Some(second.digest), "digest after the second load");
    runtime.remove_image(&first.reference)?;
    Ok(())
}

fn export_dir(harness: &dyn Harness) -> Outcome {
    use std::os::unix::fs::PermissionsExt;
    let (runtime, image) = (harness.runtime(), Small::new("second layer")?);
    image.load(harness)?;
    let to = harness.workspace_dir()?.join("export");
    runtime.export_image_dir(&image.digest, "/home/dev", &to)?;
    check_eq!(read_text(&to.join(".profile"))?, "second layer", "a file of two layers");
    let mode = std::fs::metadata(to.join(".profile"))?.permissions().mode() & 0o777;
    check_eq!(mode, 0o600, "its mode");
    check!(!to.join("gone").exists(), "a file that the second layer removes is there");
    check!(!to.join("old/file").exists(), "a file in a folder that the second layer empties is there");
    check_eq!(read_text(&to.join("old/new"))?, "y", "a file of the second layer");
    check!(!to.join("etc").exists() && !to.join("name").exists(), "more than the folder was exported");
    runtime.remove_image(&image.reference)?;
    Ok(())
}

fn content_stays(harness: &dyn Harness) -> Outcome {
    let (runtime, image) = (harness.runtime(), Small::new("word")?);
    let mut sandbox = Sandbox::plan(harness)?;
    sandbox.spec.image = image.reference.clone();
    sandbox.spec.image_digest = image.digest.clone();
    check_error!(runtime.create(&sandbox.spec), RuntimeError::NoSuchContent(_), "create without the image");
    image.load(harness)?;
    runtime.create(&sandbox.spec)?;
    runtime.remove_image(&image.reference)?;
    check_eq!(runtime.inspect_image(&image.reference)?, None, "inspect after the removal");
    let dir = harness.workspace_dir()?;
    runtime.export_image_dir(&image.digest, "/home/dev", &dir.join("used"))?;
    runtime.remove(sandbox.name())?;
    match runtime.export_image_dir(&image.digest, "/home/dev", &dir.join("unused")) {
        Err(RuntimeError::NoSuchContent(_)) => Ok(()),
        other => fail!("export after the last use is gone: {other:?}"),
    }
}
