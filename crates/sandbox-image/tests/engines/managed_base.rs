//! Our own base with our tools and node, as a project without a Dockerfile gets it. Needs the machine's
//! package mirror and a package index for Python.

use sandbox_model::labels;

use crate::user::{as_caller, as_ordinary_user};
use crate::workshop::{Log, Workshop};

#[test]
fn by_the_caller() {
    as_caller(flow);
}

#[test]
fn by_an_ordinary_user() {
    as_ordinary_user(flow);
}

fn flow() {
    let mut shop = Workshop::open();
    shop.recipe.needs_node = true;
    // The recipe sees a node and an npm that work.
    shop.recipe
        .install
        .push_str("test \"$(node -p 'process.versions.node.split(\".\")[0]')\" = 24\nnpm --version\n");
    let mut log = Log::default();
    let built = shop.ensure(&mut log, false).unwrap();
    assert!(built.built);
    assert!(log.lines.iter().any(|line| line.starts_with("v24.")), "no version of node in the log");

    let image = shop.image();
    for path in
        ["/usr/bin/git", "/usr/bin/rg", "/usr/bin/jq", "/usr/bin/curl", "/opt/agents-sandbox/bin/node"]
    {
        assert!(image.get(path).is_some_and(|file| file.mode & 0o111 != 0), "{path}");
    }
    let npm = image.get("/opt/agents-sandbox/bin/npm").unwrap();
    assert_eq!(npm.link.as_deref(), Some("../lib/node_modules/npm/bin/npm-cli.js"));
    // What only the build needed stays in the build.
    assert!(image.paths().all(|path| !path.contains("/pip/") && !path.starts_with("/tmp/")));
    assert!(image.label(labels::BASE).starts_with("localhost/agents-sandbox/base:trixie@sha256:"));
    assert!(!shop.ensure(&mut Log::default(), false).unwrap().built);
}
