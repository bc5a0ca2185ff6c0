//! Lists the agents: every file in `src/agents` is one.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/agents");
    let mut modules = Vec::new();
    for entry in fs::read_dir("src/agents")? {
        modules.extend(module(&entry?.path()));
    }
    modules.sort();
    let list =
        format!("macro_rules! each_agent {{ ($do:ident) => {{ $do! {{ {} }} }} }}\n", modules.join(" "));
    let folder = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    fs::write(folder.join("agents.rs"), list)
}

/// What an editor leaves beside a file is none.
fn module(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.strip_suffix(".rs")?;
    name.starts_with(|first: char| first.is_ascii_lowercase()).then(|| name.into())
}
