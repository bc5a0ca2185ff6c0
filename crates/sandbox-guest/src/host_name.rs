//! The host under our own name for it, in a guest whose init knows another one.

use std::fmt::Write;
use std::io;
use std::path::Path;

use sandbox_model::HOST_NAMES;

/// Gives what a file of hosts calls by any of the host's names all the others as well. A file that names no
/// host of ours stays as it is.
pub fn add(hosts: &Path) -> io::Result<()> {
    let text = fs_err::read_to_string(hosts)?;
    let more = missing(&text);
    if more.is_empty() {
        return Ok(());
    }
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    fs_err::write(hosts, format!("{text}{end}{more}"))
}

/// The lines that a text lacks.
fn missing(text: &str) -> String {
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().split_whitespace().collect())
        .collect();
    let names = |address: &str, name: &str| {
        lines
            .iter()
            .any(|line| line.first() == Some(&address) && line.iter().skip(1).any(|word| *word == name))
    };
    let mut more = String::new();
    for line in &lines {
        let Some((address, words)) = line.split_first() else { continue };
        if !words.iter().any(|word| HOST_NAMES.contains(word)) {
            continue;
        }
        for name in HOST_NAMES.iter().filter(|name| !names(address, name)) {
            let _ = writeln!(more, "{address} {name}");
        }
    }
    more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_the_host_gets_both_names_once() {
        let dir = tempfile::tempdir().unwrap();
        let hosts = dir.path().join("hosts");
        let foreign = "127.0.0.1 localhost\n172.16.0.29\thost.microsandbox.internal\nfd42::1 host.microsandbox.internal # v6";
        fs_err::write(&hosts, foreign).unwrap();
        add(&hosts).unwrap();
        let once = fs_err::read_to_string(&hosts).unwrap();
        let more = "\n172.16.0.29 host.agents-sandbox.internal\nfd42::1 host.agents-sandbox.internal\n";
        assert_eq!(once, format!("{foreign}{more}"));
        add(&hosts).unwrap();
        assert_eq!(fs_err::read_to_string(&hosts).unwrap(), once);
        assert_eq!(missing("127.0.0.1 localhost\n# 1.1.1.1 host.microsandbox.internal\n"), "");
    }
}
