use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use sandbox_checkout::{CheckoutError, discover};
use sandbox_model::hash_part;

use crate::lab::{Lab, hash_of, without_the_power_of_root};

const ORIGIN: &str = "git@github.com:inoio/myproject.git";

#[test]
fn a_clone_is_named_after_its_remote_and_told_apart_by_its_git_directory() {
    let lab = Lab::new();
    let one = lab.repository("one");
    let two = lab.repository("two");
    for clone in [&one, &two] {
        lab.git(clone, &["remote", "add", "origin", ORIGIN]);
    }
    let (first, second) = (discover(&one).unwrap(), discover(&two).unwrap());
    assert_eq!(first.checkout_slug.as_str(), format!("myproject-{}", hash_of(&one.join(".git"))));
    assert_eq!(first.repo_slug.as_str(), "myproject-373oarbknw0unk");
    assert_eq!(first.origin.as_deref(), Some(ORIGIN));
    assert_eq!(first.root, one);
    assert_eq!(first.project_dir, one.join(".agents-sandbox"));
    assert_eq!(first.common_dir, Some(one.join(".git")));
    assert_eq!(second.repo_slug, first.repo_slug);
    assert_ne!(second.checkout_slug, first.checkout_slug);
}

#[test]
fn the_subdirectory_is_kept_and_links_are_resolved() {
    let lab = Lab::new();
    let root = lab.repository("project");
    let inner = lab.folder("project/src/deep");
    let link = lab.path("link");
    symlink(&inner, &link).unwrap();
    let seen = discover(&link).unwrap();
    assert_eq!((seen.root.as_path(), seen.subdir.as_path()), (root.as_path(), Path::new("src/deep")));
    assert_eq!(seen.checkout_slug, discover(&root).unwrap().checkout_slug);
    assert_eq!(discover(&root).unwrap().subdir, Path::new(""));
    assert_eq!(discover(&root.join(".git/refs")).unwrap().subdir, Path::new(".git/refs"));
}

#[test]
fn the_first_url_of_origin_counts_as_written() {
    let lab = Lab::new();
    let root = lab.repository("project");
    lab.git(&root, &["config", "url.https://mirror/.insteadOf", "git@github.com:"]);
    lab.git(&root, &["remote", "add", "origin", ORIGIN]);
    lab.git(&root, &["remote", "set-url", "--add", "origin", "https://second/other.git"]);
    let seen = discover(&root).unwrap();
    assert_eq!(seen.origin.as_deref(), Some(ORIGIN));
    assert_eq!(seen.repo_slug.as_str(), "myproject-373oarbknw0unk");
}

#[test]
fn without_a_remote_the_root_is_the_input() {
    let lab = Lab::new();
    let root = lab.repository("My Project");
    let seen = discover(&root).unwrap();
    assert_eq!(seen.repo_slug.as_str(), format!("my-project-{}", hash_of(&root)));
    assert_eq!(seen.checkout_slug.as_str(), format!("my-project-{}", hash_of(&root.join(".git"))));
    assert_eq!(seen.origin, None);
}

#[test]
fn without_git_the_folder_is_the_checkout() {
    let lab = Lab::new();
    let folder = lab.folder("plain/inner");
    let seen = discover(&folder).unwrap();
    assert_eq!((seen.root.as_path(), seen.subdir.as_path()), (folder.as_path(), Path::new("")));
    assert_eq!(seen.checkout_slug.as_str(), format!("inner-{}", hash_of(&folder)));
    assert_eq!(seen.repo_slug.as_str(), seen.checkout_slug.as_str());
    assert_eq!(seen.common_dir, None);
}

#[test]
fn an_empty_dot_git_folder_is_passed_by() {
    let lab = Lab::new();
    let root = lab.repository("project");
    lab.folder("project/sub/.git");
    assert_eq!(discover(&root.join("sub")).unwrap().root, root);
}

#[test]
fn other_hashes_and_reference_stores_resolve() {
    let lab = Lab::new();
    for (name, option) in [("long", "--object-format=sha256"), ("table", "--ref-format=reftable")] {
        let root = lab.folder(name);
        lab.git(&root, &["init", "-q", option, "."]);
        assert_eq!(discover(&root).unwrap().common_dir, Some(root.join(".git")), "{name}");
    }
}

#[test]
fn names_that_are_not_text_do_no_harm() {
    let lab = Lab::new();
    let root = lab.root().join(OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&root).unwrap();
    lab.git(&root, &["init", "-q", "."]);
    let seen = discover(&root).unwrap();
    assert_eq!(seen.root, root);
    assert_eq!(seen.checkout_slug.as_str(), format!("caf-{}", hash_of(&root.join(".git"))));
    let config = root.join(".git/config");
    let mut text = std::fs::read(&config).unwrap();
    text.extend_from_slice(b"[remote \"origin\"]\n\turl = /srv/caf\xe9.git\n");
    std::fs::write(&config, text).unwrap();
    assert_eq!(
        discover(&root).unwrap().repo_slug.as_str(),
        format!("caf-{}", hash_part(b"/srv/caf\xe9.git"))
    );
}

#[test]
fn a_folder_that_is_gone_or_is_a_file_is_named() {
    let lab = Lab::new();
    let gone = lab.path("gone");
    let error = discover(&gone).unwrap_err();
    assert!(matches!(&error, CheckoutError::Folder { path, .. } if *path == gone), "{error}");
    std::fs::write(&gone, "").unwrap();
    assert!(matches!(discover(&gone).unwrap_err(), CheckoutError::NotAFolder { path } if path == gone));
}

#[test]
fn a_pointer_to_nowhere_is_an_error_that_names_it() {
    let lab = Lab::new();
    let folder = lab.folder("project/src");
    let pointer = lab.path("project/.git");
    std::fs::write(&pointer, "gitdir: ../missing/.git\n").unwrap();
    let error = discover(&folder).unwrap_err().to_string();
    assert!(error.contains(pointer.to_str().unwrap()) && error.contains("../missing/.git"), "{error}");
    std::fs::write(&pointer, "nonsense\n").unwrap();
    assert!(
        matches!(discover(&folder).unwrap_err(), CheckoutError::MalformedPointer { path, .. } if path == pointer)
    );
    std::fs::remove_file(&pointer).unwrap();
    symlink("nowhere", &pointer).unwrap();
    assert!(
        matches!(discover(&folder).unwrap_err(), CheckoutError::PointsNowhere { path, .. } if path == pointer)
    );
}

#[test]
fn a_malformed_configuration_is_an_error_that_names_it() {
    let lab = Lab::new();
    let root = lab.repository("project");
    std::fs::write(root.join(".git/config"), "[core\n").unwrap();
    let error = discover(&root).unwrap_err();
    assert!(
        matches!(&error, CheckoutError::MalformedConfig { path, .. } if *path == root.join(".git/config")),
        "{error}"
    );
}

#[test]
fn a_git_directory_that_may_not_be_read_is_an_error_that_names_it() {
    // Root reads everything, so the case is run as an ordinary user.
    let lab = Lab::new();
    let root = lab.repository("project");
    let closed = root.join(".git");
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o000)).unwrap();
    let error = without_the_power_of_root(|| discover(&root).map(|_| ()).map_err(|error| error.to_string()));
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o755)).unwrap();
    let error = error.unwrap_err();
    assert!(error.contains(closed.to_str().unwrap()) && error.contains("cannot be read"), "{error}");
    assert_eq!(
        without_the_power_of_root(|| discover(&root).map(|seen| seen.root).map_err(|e| e.to_string())),
        Ok(root.clone())
    );
}

#[test]
fn a_checkout_of_another_user_resolves() {
    let lab = Lab::new();
    let root = lab.repository("project");
    lab.git(&root, &["remote", "add", "origin", ORIGIN]);
    // Only root can give files away; for an ordinary user this is a checkout of its own.
    if rustix::process::geteuid().is_root() {
        for path in [root.clone(), root.join(".git"), root.join(".git/config"), root.join(".git/HEAD")] {
            std::os::unix::fs::chown(path, Some(12_345), Some(12_345)).unwrap();
        }
    }
    assert_eq!(discover(&root).unwrap().origin.as_deref(), Some(ORIGIN));
}

#[test]
fn a_pipe_in_the_place_of_a_file_makes_nobody_wait() {
    let lab = Lab::new();
    let root = lab.repository("project");
    std::fs::remove_file(root.join(".git/config")).unwrap();
    Lab::pipe(&root.join(".git/config"));
    let begun = Instant::now();
    assert!(matches!(discover(&root).unwrap_err(), CheckoutError::Unreadable { .. }));
    std::fs::remove_file(root.join(".git/HEAD")).unwrap();
    Lab::pipe(&root.join(".git/HEAD"));
    assert_eq!(discover(&root).unwrap().common_dir, None);
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn it_is_fast_in_a_deep_folder() {
    let lab = Lab::new();
    lab.repository("project");
    let deep = lab.folder(&format!("project/{}", "d/".repeat(40)));
    let mut times: Vec<Duration> = (0..11)
        .map(|_| {
            let begun = Instant::now();
            discover(&deep).unwrap();
            begun.elapsed()
        })
        .collect();
    times.sort();
    assert!(times[5] < Duration::from_millis(5), "median {:?}", times[5]);
}
