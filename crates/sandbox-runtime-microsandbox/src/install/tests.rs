use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fs_err as fs;
use fs_err::os::unix::fs::OpenOptionsExt;
use sha2::{Digest, Sha256};

use super::pins::{LIBKRUNFW, Pin};
use super::*;

struct Fixture {
    dir: tempfile::TempDir,
    home: MsbFiles,
    pins: Pins,
    contents: [Vec<u8>; 2],
}

fn noise(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|i| ((i * i) >> 7).to_le_bytes()[0] ^ seed).collect()
}

impl Fixture {
    fn new() -> Self {
        Self::in_dir(tempfile::tempdir().unwrap(), 700_000)
    }

    fn in_dir(dir: tempfile::TempDir, length: usize) -> Self {
        let contents = [noise(length, 1), noise(length / 2, 2)];
        let pin = |name, dir, mode, content: &[u8]| Pin {
            name,
            dir,
            mode,
            size: content.len() as u64,
            sha256: hex::encode(Sha256::digest(content)),
        };
        let files = [pin("msb", "bin", 0o700, &contents[0]), pin(LIBKRUNFW, "lib", 0o600, &contents[1])];
        let pins = Pins { version: "1.2.3", arch: "x86_64", files };
        let home = MsbFiles { dir: dir.path().join("data/msb") };
        Self { dir, home, pins, contents }
    }

    fn folder(&self) -> RuntimeSource {
        let folder = self.dir.path().join("folder");
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::write(folder.join("bin/msb"), &self.contents[0]).unwrap();
        fs::write(folder.join(LIBKRUNFW), &self.contents[1]).unwrap();
        RuntimeSource { path: Some(folder), ..RuntimeSource::default() }
    }

    fn wheel(&self) -> PathBuf {
        let path = self.dir.path().join("microsandbox-1.2.3-cp310-abi3-any.whl");
        let mut zip = zip::ZipWriter::new(fs::File::create(&path).unwrap());
        let options = zip::write::SimpleFileOptions::default();
        zip.start_file("microsandbox/__init__.py", options).unwrap();
        zip.start_file("microsandbox/_bundled/bin/msb", options).unwrap();
        zip.write_all(&self.contents[0]).unwrap();
        zip.start_file(format!("microsandbox/_bundled/lib/{LIBKRUNFW}"), options).unwrap();
        zip.write_all(&self.contents[1]).unwrap();
        zip.finish().unwrap();
        path
    }

    fn tarball(&self) -> PathBuf {
        let path = self.dir.path().join("microsandbox.tar.gz");
        let file = fs::File::create(&path).unwrap();
        let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(file, flate2::Compression::fast()));
        for (name, content) in ["msb", LIBKRUNFW].into_iter().zip(&self.contents) {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o755);
            tar.append_data(&mut header, name, &content[..]).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap();
        path
    }

    /// The outcome, and what was reported without the byte counts.
    fn ensure(&self, source: &RuntimeSource) -> (Result<Installed, RuntimeInstallError>, Vec<InstallEvent>) {
        let mut events = Vec::new();
        let outcome = ensure_pinned(&self.home, &self.pins, source, &mut |event| {
            if !matches!(event, InstallEvent::Fetched { .. }) {
                events.push(event);
            }
        });
        (outcome, events)
    }

    fn assert_whole(&self) {
        let version = self.home.version("1.2.3");
        assert!(fs::read(version.join("bin/msb")).unwrap() == self.contents[0]);
        assert!(fs::read(version.join("lib").join(LIBKRUNFW)).unwrap() == self.contents[1]);
        for link in ["libkrunfw.so.5", "libkrunfw.so"] {
            assert!(fs::read(self.home.dir.join("lib").join(link)).unwrap() == self.contents[1]);
        }
        assert!(fs::read(self.home.dir.join("bin/msb")).unwrap() == self.contents[0]);
        let mut names: Vec<_> =
            fs::read_dir(&self.home.dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["1.2.3", "bin", "install.lock", "installed.json", "lib"]);
    }
}

fn no_source() -> RuntimeSource {
    RuntimeSource { pip: false, ..RuntimeSource::default() }
}

fn from(path: PathBuf) -> RuntimeSource {
    RuntimeSource { path: Some(path), ..RuntimeSource::default() }
}

#[test]
fn every_kind_of_source_gives_the_same_private_home() {
    use std::os::unix::fs::PermissionsExt;

    let fixtures = [Fixture::new(), Fixture::new(), Fixture::new()];
    let sources = [fixtures[0].folder(), from(fixtures[1].wheel()), from(fixtures[2].tarball())];
    for (fixture, source) in fixtures.iter().zip(sources) {
        let (outcome, events) = fixture.ensure(&source);
        let installed = outcome.unwrap();
        assert_eq!(installed.msb, fixture.home.dir.join("1.2.3/bin/msb"));
        assert_eq!(installed.libkrunfw, fixture.home.dir.join("1.2.3/lib").join(LIBKRUNFW));
        assert!(
            matches!(events[..], [InstallEvent::Asking { .. }, InstallEvent::Installed { .. }]),
            "{events:?}"
        );
        fixture.assert_whole();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&fixture.home.dir), 0o700);
        assert_eq!(mode(&installed.msb), 0o700);
        assert_eq!(mode(&installed.libkrunfw), 0o600);

        // A second call asks nobody.
        let (outcome, events) = fixture.ensure(&no_source());
        assert_eq!((outcome.unwrap(), events), (installed, vec![]));
    }
}

#[test]
fn damage_is_noticed_and_repaired() {
    let fixture = Fixture::new();
    let source = fixture.folder();
    let installed = fixture.ensure(&source).0.unwrap();

    let mut file = fs::OpenOptions::new().write(true).mode(0o700).open(&installed.msb).unwrap();
    file.write_all(b"x").unwrap();
    drop(file);
    let (outcome, _) = fixture.ensure(&no_source());
    assert!(matches!(outcome, Err(RuntimeInstallError::NoSource(_))), "{outcome:?}");
    let (outcome, events) = fixture.ensure(&source);
    outcome.unwrap();
    assert!(
        matches!(&events[0], InstallEvent::Damaged { problem } if problem.contains("bin/msb")),
        "{events:?}"
    );
    fixture.assert_whole();

    fs::remove_file(&installed.libkrunfw).unwrap();
    let (outcome, events) = fixture.ensure(&source);
    outcome.unwrap();
    assert!(
        matches!(&events[0], InstallEvent::Damaged { problem } if problem.contains("got nothing")),
        "{events:?}"
    );
    fixture.assert_whole();
}

#[test]
fn files_that_only_look_different_are_read_again_and_kept() {
    let fixture = Fixture::new();
    let installed = fixture.ensure(&fixture.folder()).0.unwrap();
    fs::set_permissions(&installed.msb, fs::metadata(&installed.msb).unwrap().permissions()).unwrap();
    fs::remove_file(fixture.home.dir.join("bin")).unwrap();
    fs::create_dir(fixture.home.dir.join("bin")).unwrap();
    fs::remove_file(fixture.home.dir.join("lib/libkrunfw.so")).unwrap_or_default();
    std::os::unix::fs::symlink(LIBKRUNFW, fixture.home.dir.join("lib/libkrunfw.so")).unwrap();
    let (outcome, events) = fixture.ensure(&no_source());
    assert_eq!((outcome.unwrap(), events), (installed, vec![]));
    fixture.assert_whole();
}

#[test]
fn a_file_that_is_not_the_pinned_one_is_named_with_both_hashes() {
    let fixture = Fixture::new();
    let source = fixture.folder();
    let folder = source.path.clone().unwrap();
    fs::write(folder.join(LIBKRUNFW), b"something else").unwrap();
    let (outcome, _) = fixture.ensure(&source);
    let text = outcome.unwrap_err().to_string();
    let got = hex::encode(Sha256::digest(b"something else"));
    for part in [LIBKRUNFW, &fixture.pins.files[1].sha256, &got, folder.to_str().unwrap()] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!fixture.home.version("1.2.3").exists());

    fs::remove_file(folder.join(LIBKRUNFW)).unwrap();
    let text = fixture.ensure(&source).0.unwrap_err().to_string();
    assert!(text.ends_with(&format!("has no file `{LIBKRUNFW}`")), "{text}");
}

#[test]
fn archives_that_are_none_are_refused() {
    let fixture = Fixture::new();
    let path = fixture.dir.path().join("archive");
    let outcome = |content: &[u8]| {
        fs::write(&path, content).unwrap();
        fixture.ensure(&from(path.clone())).0.unwrap_err()
    };
    assert!(matches!(outcome(b""), RuntimeInstallError::NotAnArchive { .. }));
    assert!(matches!(outcome(b"<html>"), RuntimeInstallError::NotAnArchive { .. }));
    for good in [fixture.wheel(), fixture.tarball()] {
        let whole = fs::read(good).unwrap();
        for cut in [2, 40, whole.len() / 2, whole.len() - 40] {
            let error = outcome(&whole[..cut]);
            assert!(
                matches!(
                    error,
                    RuntimeInstallError::BadArchive { .. }
                        | RuntimeInstallError::WrongFile { .. }
                        | RuntimeInstallError::Incomplete { .. }
                ),
                "{cut}: {error:?}"
            );
        }
    }
    assert!(!fixture.home.version("1.2.3").exists());
}

#[test]
fn an_address_is_fetched_and_a_failure_of_all_sources_lists_them() {
    let fixture = Fixture::new();
    let body = fs::read(fixture.wheel()).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let mut lines = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            let mut reader = std::io::BufReader::new(stream.try_clone().unwrap());
            std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
            let (status, body) =
                if line.contains("missing") { ("404 Not Found", &b"no"[..]) } else { ("200 OK", &body[..]) };
            write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            )
            .unwrap();
            stream.write_all(body).unwrap();
            lines.push(line);
        }
        lines
    });
    let source =
        |path: &str| RuntimeSource { url: Some(format!("http://127.0.0.1:{port}/{path}")), ..no_source() };
    let text = fixture.ensure(&source("missing")).0.unwrap_err().to_string();
    assert!(text.contains("/missing cannot be fetched: ") && text.contains("404"), "{text}");
    fixture.ensure(&source("v{version}/{arch}.whl")).0.unwrap();
    fixture.assert_whole();
    assert!(server.join().unwrap()[1].starts_with("GET /v1.2.3/x86_64.whl "));
}

/// Answers one request after the other: the head that came, then what to send.
fn serve(answers: Vec<Vec<u8>>) -> (u16, std::thread::JoinHandle<Vec<String>>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let serve = |answer: Vec<u8>| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = std::io::BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(std::io::BufRead::read_line(&mut reader, &mut head).unwrap() > 0);
            }
            stream.write_all(&answer).unwrap();
            head.to_ascii_lowercase()
        };
        answers.into_iter().map(serve).collect()
    });
    (port, server)
}

fn answer(status: &str, headers: &str, length: usize, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{headers}Connection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}

#[test]
fn a_fetch_that_broke_goes_on_where_it_ended() {
    let fixture = Fixture::new();
    let body = fs::read(fixture.wheel()).unwrap();
    let (half, tag) = (body.len() / 2, "ETag: \"one\"\r\n");
    let (port, server) = serve(vec![
        answer("200 OK", tag, body.len(), &body[..half]),
        answer("206 Partial Content", tag, body.len() - half, &body[half..]),
    ]);
    let source = RuntimeSource { url: Some(format!("http://127.0.0.1:{port}/a.whl")), ..no_source() };
    let text = fixture.ensure(&source).0.unwrap_err().to_string();
    assert!(text.contains("/a.whl cannot be fetched"), "{text}");
    fixture.ensure(&source).0.unwrap();
    fixture.assert_whole();
    let heads = server.join().unwrap();
    assert!(!heads[0].contains("range:"), "{}", heads[0]);
    assert!(heads[1].contains(&format!("range: bytes={half}-\r\n")), "{}", heads[1]);
    assert!(heads[1].contains("if-range: \"one\"\r\n"), "{}", heads[1]);
}

#[test]
fn another_content_under_the_same_address_is_fetched_whole() {
    let fixture = Fixture::new();
    let body = fs::read(fixture.wheel()).unwrap();
    let old = noise(body.len(), 9);
    let (port, server) = serve(vec![
        answer("200 OK", "ETag: \"one\"\r\n", old.len(), &old[..5000]),
        answer("200 OK", "ETag: \"two\"\r\n", body.len(), &body),
    ]);
    let source = RuntimeSource { url: Some(format!("http://127.0.0.1:{port}/a.whl")), ..no_source() };
    fixture.ensure(&source).0.unwrap_err();
    fixture.ensure(&source).0.unwrap();
    fixture.assert_whole();
    server.join().unwrap();
}

#[test]
fn a_whole_archive_that_is_wrong_is_not_gone_on_with() {
    let fixture = Fixture::new();
    let body = fs::read(fixture.wheel()).unwrap();
    let mut corrupt = body.clone();
    let middle = corrupt.len() / 2;
    corrupt[middle] ^= 1;
    let tag = "ETag: \"one\"\r\n";
    let (port, server) =
        serve(vec![answer("200 OK", tag, corrupt.len(), &corrupt), answer("200 OK", tag, body.len(), &body)]);
    let source = RuntimeSource { url: Some(format!("http://127.0.0.1:{port}/a.whl")), ..no_source() };
    fixture.ensure(&source).0.unwrap_err();
    fixture.ensure(&source).0.unwrap();
    fixture.assert_whole();
    assert!(!server.join().unwrap()[1].contains("range:"));
}

#[test]
fn calls_at_once_install_once() {
    let fixture = Fixture::new();
    let source = fixture.folder();
    let installations = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                ensure_pinned(&fixture.home, &fixture.pins, &source, &mut |event| {
                    if matches!(event, InstallEvent::Installed { .. }) {
                        installations.fetch_add(1, Ordering::Relaxed);
                    }
                })
                .unwrap();
            });
        }
    });
    assert_eq!(installations.into_inner(), 1);
    fixture.assert_whole();
}

#[test]
fn an_older_version_stays_until_the_new_one_has_started_something_and_while_it_runs() {
    let fixture = Fixture::new();
    fixture.ensure(&fixture.folder()).0.unwrap();
    let old = fixture.home.version("1.2.2");
    fs::create_dir_all(old.join("bin")).unwrap();
    fs::copy("/bin/sleep", old.join("bin/msb")).unwrap();
    fixture.ensure(&no_source()).0.unwrap();
    let others = || installation::look(&fixture.home, &fixture.pins).unwrap().others;
    assert_eq!(others(), ["1.2.2"]);

    let mut running = Command::new(old.join("bin/msb")).arg("1000").spawn().unwrap();
    retire_others(&fixture.home, "1.2.3").unwrap();
    assert_eq!(others(), ["1.2.2"]);
    assert!(is_run_from(&fixture.home.dir));
    running.kill().unwrap();
    running.wait().unwrap();
    retire_others(&fixture.home, "1.2.3").unwrap();
    assert_eq!(others(), Vec::<String>::new());
    fixture.assert_whole();
}

#[test]
fn what_is_there_is_told() {
    let fixture = Fixture::new();
    let look = || installation::look(&fixture.home, &fixture.pins).unwrap().found;
    assert_eq!(look(), Found::Nothing);
    let installed = fixture.ensure(&fixture.folder()).0.unwrap();
    assert_eq!(look(), Found::Whole(installed.clone()));
    fs::write(&installed.msb, "x").unwrap();
    assert!(matches!(look(), Found::Damaged(problem) if problem.contains("bin/msb")));
}

const CHILD: &str = "SANDBOX_TEST_INSTALL_IN";

/// What is killed: it installs and damages in turn, so that the exchange is hit as often as the first
/// installation.
fn install_until_killed(home: &MsbFiles) -> ! {
    let fixture = Fixture::in_dir(tempfile::tempdir().unwrap(), 4_000_000);
    let source = fixture.folder();
    println!("ready");
    loop {
        ensure_pinned(home, &fixture.pins, &source, &mut |_| {}).unwrap();
        fs::write(home.version("1.2.3").join("bin/msb"), b"damaged").unwrap();
    }
}

#[test]
fn a_kill_at_any_moment_leaves_nothing_half_made() {
    if let Some(dir) = std::env::var_os(CHILD) {
        install_until_killed(&MsbFiles { dir: dir.into() });
    }
    let name = "install::tests::a_kill_at_any_moment_leaves_nothing_half_made";
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::in_dir(dir, 4_000_000);
    let source = fixture.folder();
    let (mut killed_inside, rounds) = (0, 25);
    for round in 0..rounds {
        fixture.home.dir = fixture.dir.path().join(format!("data-{round}/msb"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, &fixture.home.dir)
            .env("TMPDIR", fixture.dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("ready") {
            line.clear();
            assert!(std::io::BufRead::read_line(&mut out, &mut line).unwrap() > 0, "the child ended");
        }
        std::thread::sleep(Duration::from_millis(round * 7 % 90));
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());

        let version = fixture.home.version("1.2.3");
        if version.exists() {
            // The folder appears with everything in it.
            let kernel = fs::read(version.join("lib").join(LIBKRUNFW)).unwrap();
            assert!(kernel == fixture.contents[1]);
            assert!(version.join("bin/msb").is_file() && version.join("lib/libkrunfw.so").is_file());
        }
        let left = fs::read_dir(&fixture.home.dir).is_ok_and(|mut entries| {
            entries.any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with(".new-"))
        });
        killed_inside += u32::from(left);
        fixture.ensure(&source).0.unwrap();
        fixture.assert_whole();
        fs::remove_dir_all(fixture.home.dir.parent().unwrap()).unwrap();
    }
    assert!(killed_inside > 0, "no kill hit an installation under way");
}

#[test]
fn a_processor_without_pins_is_named() {
    let text = Pins::for_arch("aarch64").unwrap_err().to_string();
    assert!(text.contains("`aarch64`"), "{text}");
    assert_eq!(Pins::for_arch("x86_64").unwrap().version, "0.7.11");
}
