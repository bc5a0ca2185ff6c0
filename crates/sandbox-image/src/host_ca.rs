use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use fs_err as fs;
use sha2::{Digest, Sha256};

use crate::{ImageError, Result};

/// `image.host-ca`: whether images trust what the host trusts beyond its distribution's own certificates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HostCaSetting {
    /// Where the host has such certificates.
    #[default]
    Auto,
    /// As `Auto`, but a host that has none is an error.
    On,
    /// Images trust what their distribution ships, and nothing more.
    Off,
}

/// A text that is no value of `image.host-ca`; it holds the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a value for the host's certificates; write auto, on or off")]
pub struct UnknownHostCa(pub String);

impl FromStr for HostCaSetting {
    type Err = UnknownHostCa;

    fn from_str(text: &str) -> Result<Self, UnknownHostCa> {
        match text {
            "auto" => Ok(Self::Auto),
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => Err(UnknownHostCa(text.into())),
        }
    }
}

const BUNDLES: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];
const DISTRIBUTION: &str = "/usr/share/ca-certificates";
const LARGEST_BUNDLE: u64 = 16 << 20;

/// The certificates that the host's administrator added, each as one PEM block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostCa {
    certificates: Vec<String>,
}

impl HostCa {
    /// Reads the host's bundle (`bundle`, or the usual places) without what its distribution ships.
    pub fn read(setting: HostCaSetting, bundle: Option<&Path>) -> Result<Self> {
        if setting == HostCaSetting::Off {
            return Ok(Self::default());
        }
        let usual = || BUNDLES.iter().map(PathBuf::from).find(|path| path.exists());
        let bundle = bundle.map(PathBuf::from).or_else(usual);
        Self::wanted(setting, bundle.as_deref(), Path::new(DISTRIBUTION))
    }

    fn wanted(setting: HostCaSetting, bundle: Option<&Path>, distribution: &Path) -> Result<Self> {
        let found = bundle.map(|path| Self::from_files(path, distribution)).transpose()?.unwrap_or_default();
        if setting != HostCaSetting::On || !found.is_empty() {
            return Ok(found);
        }
        let problem = match bundle {
            Some(_) => "has no certificate but those that the distribution ships",
            None => "there is no such file",
        };
        Err(ImageError::HostCa {
            path: bundle.unwrap_or(Path::new(BUNDLES[0])).into(),
            problem: problem.into(),
        })
    }

    fn from_files(bundle: &Path, distribution: &Path) -> Result<Self> {
        let unusable = |problem: String| ImageError::HostCa { path: bundle.into(), problem };
        let size = fs::metadata(bundle).map_err(|error| unusable(error.to_string()))?.len();
        if size > LARGEST_BUNDLE {
            return Err(unusable(format!("{size} bytes are too many for a certificate bundle")));
        }
        let text = fs::read(bundle).map_err(|error| unusable(error.to_string()))?;
        let mut known = BTreeSet::new();
        collect_known(distribution, &mut known)?;
        let certificates: BTreeSet<String> =
            blocks(&String::from_utf8_lossy(&text)).filter(|block| !known.contains(block)).collect();
        Ok(Self { certificates: certificates.into_iter().collect() })
    }

    /// Whether the host trusts nothing beyond its distribution's own.
    pub fn is_empty(&self) -> bool {
        self.certificates.is_empty()
    }

    /// How many certificates there are, each counted once.
    pub fn len(&self) -> usize {
        self.certificates.len()
    }

    /// A file name by content, and the PEM text.
    pub(crate) fn files(&self) -> impl Iterator<Item = (String, &str)> {
        self.certificates.iter().map(|pem| {
            let hash = hex::encode(Sha256::digest(pem.as_bytes()));
            (format!("host-{}.crt", &hash[..16]), pem.as_str())
        })
    }
}

fn collect_known(dir: &Path, known: &mut BTreeSet<String>) -> Result<()> {
    if !dir.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect_known(&path, known)?;
        } else {
            known.extend(blocks(&String::from_utf8_lossy(&fs::read(&path)?)));
        }
    }
    Ok(())
}

/// The PEM certificates of a text, in one form: comments, blanks and line ends of the original are gone.
fn blocks(text: &str) -> impl Iterator<Item = String> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    text.split(BEGIN).skip(1).filter_map(|rest| rest.split_once(END)).map(|(body, _)| {
        let lines: Vec<&str> = body.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        format!("{BEGIN}\n{}\n{END}\n", lines.join("\n"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOZILLA: &str = "-----BEGIN CERTIFICATE-----\r\nAAAA\r\nBBBB\r\n-----END CERTIFICATE-----\r\n";
    const COMPANY: &str = "-----BEGIN CERTIFICATE-----\nCCCC\n-----END CERTIFICATE-----\n";

    #[test]
    fn only_what_the_distribution_does_not_ship_is_carried_over() {
        let dir = tempfile::tempdir().unwrap();
        let shipped = dir.path().join("shipped/mozilla");
        fs::create_dir_all(&shipped).unwrap();
        fs::write(shipped.join("a.crt"), MOZILLA).unwrap();
        let bundle = dir.path().join("bundle.crt");
        fs::write(&bundle, format!("# comment\n{}{COMPANY}{COMPANY}", MOZILLA.replace('\r', ""))).unwrap();
        let ca = HostCa::from_files(&bundle, &dir.path().join("shipped")).unwrap();
        assert_eq!(ca.files().map(|(_, pem)| pem).collect::<Vec<_>>(), [COMPANY]);
        let all = HostCa::from_files(&bundle, &dir.path().join("missing")).unwrap();
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn only_where_they_are_demanded_is_it_an_error_to_find_none() {
        let dir = tempfile::tempdir().unwrap();
        let shipped = dir.path().join("shipped");
        fs::create_dir_all(&shipped).unwrap();
        fs::write(shipped.join("a.crt"), MOZILLA).unwrap();
        let bundle = dir.path().join("bundle.crt");
        let read = |setting, bundle| HostCa::wanted(setting, bundle, &shipped).map(|found| found.len());
        let problem = |bundle| read(HostCaSetting::On, bundle).unwrap_err().to_string();
        fs::write(&bundle, MOZILLA).unwrap();
        assert_eq!(read(HostCaSetting::Auto, Some(&bundle)).unwrap(), 0);
        let error = problem(Some(bundle.as_path()));
        assert!(error.contains("bundle.crt") && error.contains("has no certificate but"), "{error}");
        assert_eq!(read(HostCaSetting::Auto, None).unwrap(), 0);
        let error = problem(None);
        assert!(error.contains(BUNDLES[0]) && error.contains("there is no such file"), "{error}");
        fs::write(&bundle, format!("{MOZILLA}{COMPANY}")).unwrap();
        for setting in [HostCaSetting::Auto, HostCaSetting::On] {
            assert_eq!(read(setting, Some(&bundle)).unwrap(), 1, "{setting:?}");
        }
    }

    #[test]
    fn a_named_bundle_that_is_missing_is_an_error_that_names_it() {
        let error = HostCa::read(HostCaSetting::Auto, Some(Path::new("/nowhere/ca.pem"))).unwrap_err();
        assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
        assert!(HostCa::read(HostCaSetting::Off, Some(Path::new("/nowhere/ca.pem"))).unwrap().is_empty());
    }
}
