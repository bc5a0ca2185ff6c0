//! Whom the guest trusts beside those whom its image does.

use std::io::{self, Read};
use std::path::Path;
use std::process::exit;

use crate::console::say;

/// The argument that has a guest which booted by itself trust the certificates (PEM) on standard input, or none any more
/// where there is nothing.
pub const MODE: &str = "trust";
/// More than one authority has.
const MOST: u64 = 1 << 20;

/// Where distributions keep the one file with all trusted certificates; Debian's first.
const BUNDLES: [&str; 4] = [
    "etc/ssl/certs/ca-certificates.crt",
    "etc/pki/tls/certs/ca-bundle.crt",
    "etc/ssl/ca-bundle.pem",
    "etc/ssl/cert.pem",
];
/// Where `update-ca-certificates` finds local certificates, so that a later run of it keeps ours.
const LOCAL: &str = "usr/local/share/ca-certificates/sandbox-network.crt";
/// Readers of PEM skip lines outside of certificates, so these are comments to them.
const BEGIN: &str = "# sandbox network: begin\n";
const END: &str = "# sandbox network: end\n";

/// Serves [`MODE`].
pub fn run() -> ! {
    let mut pem = String::new();
    let read = io::stdin().take(MOST).read_to_string(&mut pem);
    match read.and_then(|_| install(Path::new("/"), Some(pem.as_str()).filter(|pem| !pem.is_empty()))) {
        Ok(()) => exit(0),
        Err(error) => {
            say(format_args!("certificates cannot be trusted: {error}"));
            exit(1)
        }
    }
}

/// Makes the system below `root` trust `pem` beside its own certificates, and what an earlier boot added no
/// longer.
pub(crate) fn install(root: &Path, pem: Option<&str>) -> io::Result<()> {
    let local = root.join(LOCAL);
    match pem {
        Some(pem) => {
            fs_err::create_dir_all(local.parent().unwrap_or(root))?;
            fs_err::write(&local, pem)?;
        }
        // Nothing was added, or all of it is taken away: it takes a while to search a bundle.
        None if !local.exists() => return Ok(()),
        None => {}
    }
    let present: Vec<_> =
        BUNDLES.iter().map(|bundle| root.join(bundle)).filter(|path| path.is_file()).collect();
    for path in &present {
        let old = String::from_utf8_lossy(&fs_err::read(path)?).into_owned();
        let new = with_block(&old, pem);
        if new != old {
            fs_err::write(path, new)?;
        }
    }
    let first = root.join(BUNDLES[0]);
    if let (Some(other), Some(_), false) = (present.first(), pem, first.exists()) {
        // Programs that take no file but a named one are told this name.
        fs_err::create_dir_all(first.parent().unwrap_or(root))?;
        let target = other.strip_prefix(root).unwrap_or(other);
        std::os::unix::fs::symlink(Path::new("/").join(target), &first)?;
    }
    if let (true, Some(pem)) = (present.is_empty(), pem) {
        let path = first;
        fs_err::create_dir_all(path.parent().unwrap_or(root))?;
        fs_err::write(&path, with_block("", Some(pem)))?;
    }
    // Last, so that whoever is interrupted begins anew.
    if pem.is_none() {
        fs_err::remove_file(&local)?;
    }
    Ok(())
}

/// The bundle with our block replaced, added or taken away.
fn with_block(bundle: &str, pem: Option<&str>) -> String {
    let (before, after) = match (bundle.find(BEGIN), bundle.find(END)) {
        (Some(begin), Some(end)) if begin < end => (&bundle[..begin], &bundle[end + END.len()..]),
        _ => (bundle, ""),
    };
    let mut text = before.to_owned();
    if let Some(pem) = pem {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(BEGIN);
        text.push_str(pem.trim_end());
        text.push('\n');
        text.push_str(END);
    }
    text.push_str(after);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----\n";

    #[test]
    fn the_block_comes_changes_and_goes() {
        let image = "-----BEGIN CERTIFICATE-----\nimage\n-----END CERTIFICATE-----";
        let first = with_block(image, Some(OURS));
        assert!(first.starts_with(image) && first.contains("\nours\n"), "{first}");
        assert_eq!(with_block(&first, Some(OURS)), first);
        let second = with_block(&first, Some("other"));
        assert!(second.contains("other") && !second.contains("ours"), "{second}");
        assert_eq!(with_block(&second, None).trim_end(), image);
    }

    #[test]
    fn a_bundle_elsewhere_has_the_name_that_programs_are_told() {
        let root = tempfile::tempdir().unwrap();
        fs_err::create_dir_all(root.path().join("etc/pki/tls/certs")).unwrap();
        fs_err::write(root.path().join(BUNDLES[1]), "image").unwrap();
        install(root.path(), None).unwrap();
        assert!(!root.path().join(BUNDLES[0]).is_symlink(), "nobody is told");
        install(root.path(), Some(OURS)).unwrap();
        let target = fs_err::read_link(root.path().join(BUNDLES[0])).unwrap();
        assert_eq!(target, Path::new("/").join(BUNDLES[1]));
    }

    #[test]
    fn an_image_without_a_bundle_gets_one() {
        let root = tempfile::tempdir().unwrap();
        install(root.path(), Some(OURS)).unwrap();
        let bundle = fs_err::read_to_string(root.path().join(BUNDLES[0])).unwrap();
        assert!(bundle.contains("ours"), "{bundle}");
        install(root.path(), None).unwrap();
        assert_eq!(fs_err::read_to_string(root.path().join(BUNDLES[0])).unwrap(), "");
        assert!(!root.path().join(LOCAL).exists());
    }
}
