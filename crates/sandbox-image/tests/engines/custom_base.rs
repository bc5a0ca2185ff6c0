//! Projects with a base of their own. Nothing but the bootstrap needs a network: node and npm are stubs.

use std::time::{Duration, Instant};

use sandbox_image::ImageError;
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

const DOCKERFILE: &str = "\
FROM localhost/agents-sandbox/base:trixie AS start
COPY stubs/ /usr/local/bin/
FROM start
COPY setup.conf /etc/setup.conf
RUN echo from-the-project > /home/dev/note
";

/// A real one: a broken certificate would break every program that reads the bundle.
const CERTIFICATE: &str = include_str!("test-ca.pem");

fn flow() {
    let mut shop = Workshop::open();
    let bundle = shop.home().join("bundle.pem");
    std::fs::write(&bundle, CERTIFICATE).unwrap();
    shop.ca_bundle = Some(bundle);
    shop.write("Dockerfile", DOCKERFILE);
    shop.write("setup.conf", "colour = blue\n");
    shop.write("env.secret.yaml", "TOKEN: hunter2\n");
    for name in ["stubs/node", "stubs/npm"] {
        shop.write_program(name, "#!/bin/sh\necho v24.0.0\n");
    }

    a_project_is_built(&shop);
    an_unchanged_project_is_not_built_again(&shop);
    a_change_at_the_end_uses_the_layers_before_it(&shop);
    a_failure_shows_its_last_lines_and_keeps_the_former_image(&shop);
    a_cancelled_build_leaves_nothing_in_the_way(&shop);
    an_image_is_listed_and_removed(&shop);
}

fn a_project_is_built(shop: &Workshop) {
    let built = shop.ensure(&mut Log::default(), false).unwrap();
    assert!(built.built);
    let image = shop.image();
    assert_eq!(image.id, built.digest.hex());
    assert_eq!(image.text("/etc/setup.conf"), "colour = blue\n");
    assert_eq!(image.text("/etc/agents-sandbox/agent-source"), "tool\n");
    assert_eq!(image.text("/opt/agents-sandbox/bin/opencode"), "#!/bin/sh\necho 9.9.9\n");
    assert!(image.text("/etc/ssl/certs/ca-certificates.crt").contains(CERTIFICATE));
    assert_eq!(image.text("/etc/agents-sandbox/host-ca.crt"), CERTIFICATE);

    let (uid, gid) = Workshop::dev();
    let entry = format!("dev:x:{uid}:{gid}::/home/dev:/usr/bin/bash");
    let passwd = image.text("/etc/passwd");
    assert!(passwd.lines().any(|line| line == entry), "{entry} is not in {passwd}");
    // The project's layers ran as root; the home is dev's all the same.
    assert_eq!(image.text("/home/dev/note"), "from-the-project\n");
    for path in ["/home/dev/note", "/home/dev/.bashrc", "/home/dev/.local/bin", "/workspace"] {
        assert_eq!(image.get(path).unwrap().uid, u64::from(uid), "{path}");
    }
    assert_eq!(image.get("/etc/setup.conf").unwrap().uid, 0);

    assert_eq!(image.config["config"]["User"], "dev");
    assert_eq!(image.config["config"]["WorkingDir"], "/workspace");
    assert_eq!(image.env("OPENCODE_DISABLE_AUTOUPDATE"), Some("true"));
    let path = "/home/dev/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/agents-sandbox/bin";
    assert_eq!(image.env("PATH"), Some(path));
    assert_eq!(image.env("AGENTS_SANDBOX_IMAGE_PATH"), Some(path));
    assert_eq!(image.env("USER_UID"), None);
    assert_eq!(image.label(labels::AGENT), "opencode");
    assert!(image.label(labels::BASE).starts_with("localhost/agents-sandbox/base:trixie@sha256:"));
}

fn an_unchanged_project_is_not_built_again(shop: &Workshop) {
    let before = shop.engine.inspect(shop.reference().as_str()).unwrap().unwrap();
    // Our own settings and secrets are no content of the image.
    shop.write("config.yaml", "cpus: 2\n");
    let again = shop.ensure(&mut Log::default(), false).unwrap();
    assert!(!again.built);
    assert_eq!(again.digest, before.id);
}

fn a_change_at_the_end_uses_the_layers_before_it(shop: &Workshop) {
    shop.write("setup.conf", "colour = red\n");
    let mut log = Log::default();
    assert!(shop.ensure(&mut log, false).unwrap().built);
    assert!(log.lines.iter().filter(|line| line.contains("Using cache")).count() >= 10, "{:#?}", log.lines);
    let image = shop.image();
    assert_eq!(image.text("/etc/setup.conf"), "colour = red\n");
    let leaked = image.paths().filter(|path| path.contains("secret.yaml") || path.contains("-build")).count();
    assert_eq!(leaked, 0);
}

fn a_failure_shows_its_last_lines_and_keeps_the_former_image(shop: &Workshop) {
    let before = shop.engine.inspect(shop.reference().as_str()).unwrap().unwrap();
    shop.write("Dockerfile", &format!("{DOCKERFILE}RUN echo the reason >&2; exit 41\n"));
    let error = shop.ensure(&mut Log::default(), false).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("RUN echo the reason >&2; exit 41"), "{text}\n{:#?}", error.last_lines());
    let last = error.last_lines();
    assert!(last.len() <= 40 && last.iter().any(|line| line == "the reason"), "{last:#?}");
    assert_eq!(shop.engine.inspect(shop.reference().as_str()).unwrap().unwrap(), before);

    shop.write("Dockerfile", &format!("{DOCKERFILE}COPY missing /\n"));
    let error = shop.ensure(&mut Log::default(), false).unwrap_err();
    assert!(error.last_lines().iter().any(|line| line.contains("missing")), "{error}");
}

fn a_cancelled_build_leaves_nothing_in_the_way(shop: &Workshop) {
    shop.write("Dockerfile", &format!("{DOCKERFILE}RUN echo asleep; exec sleep 61.25\n"));
    let mut log = Log { cancel_at: Some("asleep"), ..Log::default() };
    let started = Instant::now();
    let error = shop.ensure(&mut log, false).unwrap_err();
    assert!(matches!(error, ImageError::Cancelled), "{error}");
    assert!(started.elapsed() < Duration::from_secs(45));
    assert_eq!((shop.containers(), shop.mounts()), (0, Vec::new()));
    shop.write("Dockerfile", DOCKERFILE);
    assert!(shop.ensure(&mut Log::default(), true).unwrap().built);
}

fn an_image_is_listed_and_removed(shop: &Workshop) {
    let reference = shop.reference();
    let listed = shop.engine.list_managed().unwrap();
    let named =
        listed.iter().find(|listed| listed.names.iter().any(|name| name == reference.as_str())).unwrap();
    assert!(named.size.bytes() > 50_000_000, "{named:?}");
    shop.engine.remove(reference.as_str()).unwrap();
    shop.engine.remove(reference.as_str()).unwrap();
    assert_eq!(shop.engine.inspect(reference.as_str()).unwrap(), None);
}
