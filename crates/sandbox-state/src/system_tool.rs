use std::io;
use std::path::PathBuf;

/// Tools for file systems and users are in folders that an ordinary user's `PATH` often lacks.
const FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// The program of that name on the `PATH`, or where programs of administrators are. Never one of the current
/// folder, which may be a project's.
pub fn find_system_tool(program: &str) -> io::Result<PathBuf> {
    let own = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&own).chain(FOLDERS.map(PathBuf::from));
    let folders = std::env::join_paths(folders).map_err(io::Error::other)?;
    which::which_in(program, Some(folders), "/")
        .map_err(|error| io::Error::new(io::ErrorKind::NotFound, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_of_administrators_is_found_and_no_other_is() {
        assert!(find_system_tool("mke2fs").unwrap().is_absolute());
        let error = find_system_tool("no-such-tool").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
