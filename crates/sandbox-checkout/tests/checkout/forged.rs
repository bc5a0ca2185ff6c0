//! Whoever works in a sandbox writes everything in its checkout, `.git` included. Nothing written there
//! may make the next run bind a folder above it, or take another checkout's name.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use sandbox_checkout::{Checkout, discover};

use crate::lab::{Lab, hash_of};

/// A repository at `home`, which must not be bound, and in it an unrelated checkout `home/project`.
fn home_with_project() -> (Lab, std::path::PathBuf, std::path::PathBuf) {
    let lab = Lab::new();
    let home = lab.repository("home");
    let project = lab.repository("home/project");
    fs::remove_dir_all(project.join(".git")).unwrap();
    (lab, home, project)
}

fn stays_alone(seen: &Checkout, project: &Path) {
    assert_eq!(seen.root, project);
    assert_eq!(seen.checkout_slug.as_str(), format!("project-{}", hash_of(project)));
    assert_eq!(seen.outside, None, "nor does the sandbox get another repository");
}

fn private_dir(path: &Path, common: &Path, pointer: &Path) {
    fs::create_dir_all(path).unwrap();
    fs::write(path.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(path.join("commondir"), format!("{}\n", common.display())).unwrap();
    fs::write(path.join("gitdir"), format!("{}\n", pointer.display())).unwrap();
}

#[test]
fn a_genuine_worktree_in_the_same_place_does_share() {
    let (lab, home, project) = home_with_project();
    lab.git(&home, &["worktree", "add", "-q", "-f", "other"]);
    assert_eq!(discover(&home.join("other")).unwrap().root, home);
    assert_eq!(
        discover(&project).unwrap().root,
        home,
        "without a .git of its own, the folder is part of home"
    );
}

#[test]
fn a_private_directory_made_in_the_checkout_is_not_believed() {
    let (_lab, home, project) = home_with_project();
    let fake = project.join("fake/worktrees/x");
    private_dir(&fake, &home.join(".git"), &project.join(".git"));
    fs::write(project.join(".git"), format!("gitdir: {}\n", fake.display())).unwrap();
    stays_alone(&discover(&project).unwrap(), &project);
}

#[test]
fn another_worktrees_private_directory_is_not_believed() {
    let (lab, home, project) = home_with_project();
    lab.git(&home, &["worktree", "add", "-q", "-f", "other"]);
    let borrowed = home.join(".git/worktrees/other");
    fs::write(project.join(".git"), format!("gitdir: {}\n", borrowed.display())).unwrap();
    stays_alone(&discover(&project).unwrap(), &project);
}

#[test]
fn a_repository_in_the_checkout_cannot_name_a_folder_above_it() {
    let (lab, home, project) = home_with_project();
    let store = lab.repository("home/project/store").join(".git");
    let module = project.join("module");
    fs::rename(&store, &module).unwrap();
    lab.git(
        &project,
        &[
            "config",
            "--file",
            module.join("config").to_str().unwrap(),
            "core.worktree",
            home.to_str().unwrap(),
        ],
    );
    // As the main one of the repository.
    fs::write(project.join(".git"), "gitdir: module\n").unwrap();
    assert_eq!(discover(&project).unwrap().root, project);
    // And as a linked one, whose both ends agree.
    private_dir(&module.join("worktrees/x"), &module, &project.join(".git"));
    fs::write(project.join(".git"), "gitdir: module/worktrees/x\n").unwrap();
    stays_alone(&discover(&project).unwrap(), &project);
}

#[test]
fn another_checkouts_git_directory_does_not_lend_its_name() {
    let (lab, _home, project) = home_with_project();
    let other = lab.repository("other").join(".git");
    fs::write(project.join(".git"), format!("gitdir: {}\n", other.display())).unwrap();
    stays_alone(&discover(&project).unwrap(), &project);
    fs::remove_file(project.join(".git")).unwrap();
    symlink(&other, project.join(".git")).unwrap();
    stays_alone(&discover(&project).unwrap(), &project);
    let bare = lab.bare("bare.git");
    fs::remove_file(project.join(".git")).unwrap();
    fs::write(project.join(".git"), format!("gitdir: {}\n", bare.display())).unwrap();
    stays_alone(&discover(&project).unwrap(), &project);
}

/// A link in the place of `.git` to that of another repository's worktree: everything that is read is genuine then.
#[test]
fn a_link_to_the_pointer_of_another_repositorys_worktree_does_not_lend_that_repository() {
    let lab = Lab::new();
    let (project, other) = (lab.repository("project"), lab.repository("other"));
    lab.git(&other, &["worktree", "add", "-q", "../tree"]);
    lab.git(&other, &["worktree", "add", "-q", "inside"]);
    fs::rename(project.join(".git"), project.join("aside")).unwrap();
    for pointer in [lab.path("tree/.git"), other.join("inside/.git")] {
        symlink(&pointer, project.join(".git")).unwrap();
        stays_alone(&discover(&project).unwrap(), &project);
        fs::remove_file(project.join(".git")).unwrap();
    }
    // The worktree itself has it.
    let tree = discover(&lab.path("tree")).unwrap();
    assert_eq!(tree.outside.unwrap().common, other.join(".git"));
    assert_eq!(discover(&other.join("inside")).unwrap().root, other);
}

/// Another repository knows a worktree in the project. In its place stands a link to the project's own pointer.
#[test]
fn a_worktree_in_the_project_is_not_exchanged_for_the_project() {
    let lab = Lab::new();
    let (project, other) = (lab.repository("project"), lab.repository("other"));
    lab.git(&other, &["worktree", "add", "-q", "../project/w"]);
    let tree = project.join("w");
    let seen = discover(&tree).unwrap();
    assert_eq!((seen.root, seen.outside.unwrap().common), (tree.clone(), other.join(".git")));

    fs::rename(project.join(".git"), project.join("aside")).unwrap();
    fs::rename(tree.join(".git"), project.join(".git")).unwrap();
    symlink("../.git", tree.join(".git")).unwrap();
    stays_alone(&discover(&project).unwrap(), &project);
    fs::rename(&tree, project.join("was w")).unwrap();
    symlink(".", &tree).unwrap();
    stays_alone(&discover(&project).unwrap(), &project);
}

/// The same with a submodule, whose repository says by `core.worktree` where its checkout is.
#[test]
fn a_submodule_in_the_project_is_not_exchanged_for_the_project() {
    let lab = Lab::new();
    let (project, other, part) =
        (lab.folder("other/project"), lab.repository("other"), lab.repository("part"));
    lab.git(&other, &["submodule", "--quiet", "add", part.to_str().unwrap(), "project/sub"]);
    lab.git(&project.join("sub"), &["remote", "remove", "origin"]);
    let module = other.join(".git/modules/project/sub");
    assert_eq!(discover(&project.join("sub")).unwrap().outside.unwrap().common, module);

    fs::rename(project.join("sub"), project.join("was sub")).unwrap();
    symlink(".", project.join("sub")).unwrap();
    fs::write(project.join(".git"), format!("gitdir: {}\n", module.display())).unwrap();
    stays_alone(&discover(&project).unwrap(), &project);
}

#[test]
fn a_shared_directory_is_a_repository_itself() {
    let lab = Lab::new();
    let project = lab.repository("project");
    lab.git(&project, &["worktree", "add", "-q", "../tree"]);
    let tree = lab.path("tree");
    assert_eq!(discover(&tree).unwrap().common_dir, Some(project.join(".git")));
    for name in ["HEAD", "objects", "refs"] {
        let (from, to) = (project.join(".git").join(name), project.join(".git/aside"));
        fs::rename(&from, &to).unwrap();
        assert!(discover(&tree).is_err(), "without {name}");
        fs::rename(&to, &from).unwrap();
    }
    assert_eq!(discover(&tree).unwrap().common_dir, Some(project.join(".git")));
}

#[test]
fn included_files_are_not_read() {
    let lab = Lab::new();
    let root = lab.repository("project");
    let secret = lab.path("secret");
    fs::write(&secret, "[remote \"origin\"]\n\turl = secret\n").unwrap();
    lab.git(&root, &["config", "include.path", secret.to_str().unwrap()]);
    assert_eq!(discover(&root).unwrap().origin, None);
}

/// A folder that merely looks like a shared git directory, above a checkout that calls itself its private one.
#[test]
fn a_checkout_that_is_its_own_private_directory_gets_nothing_above_it() {
    let lab = Lab::new();
    for name in ["objects", "refs", "worktrees/tree"] {
        lab.folder(name);
    }
    fs::write(lab.path("HEAD"), "ref: refs/heads/main\n").unwrap();
    let tree = lab.path("worktrees/tree");
    private_dir(&tree, Path::new("../.."), &tree.join(".git"));
    fs::write(tree.join(".git"), format!("gitdir: {}\n", tree.display())).unwrap();
    let seen = discover(&tree).unwrap();
    assert_eq!(seen.common_dir.as_deref(), Some(lab.root()), "what is written there is readable as one");
    assert_eq!((seen.root, seen.outside), (tree, None));
}
