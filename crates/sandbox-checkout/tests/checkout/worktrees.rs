use std::path::Path;

use sandbox_checkout::discover;

use crate::lab::{Lab, hash_of};

#[test]
fn a_worktree_inside_its_checkout_shares_its_identity() {
    let lab = Lab::new();
    let main = lab.repository("project");
    lab.git(&main, &["worktree", "add", "-q", ".worktrees/feature"]);
    let inner = lab.folder("project/.worktrees/feature/src");
    let (seen, whole) = (discover(&inner).unwrap(), discover(&main).unwrap());
    assert_eq!(seen.root, main);
    assert_eq!(seen.subdir, Path::new(".worktrees/feature/src"));
    assert_eq!((&seen.checkout_slug, &seen.repo_slug), (&whole.checkout_slug, &whole.repo_slug));
    assert_eq!(seen.project_dir, whole.project_dir);
}

#[test]
fn a_worktree_elsewhere_has_its_own_identity() {
    let lab = Lab::new();
    let main = lab.repository("project");
    lab.git(&main, &["remote", "add", "origin", "https://github.com/inoio/myproject.git"]);
    lab.git(&main, &["worktree", "add", "-q", "../project-feature"]);
    let tree = lab.path("project-feature");
    let seen = discover(&tree).unwrap();
    assert_eq!(seen.root, tree);
    assert_eq!(seen.checkout_slug.as_str(), format!("myproject-{}", hash_of(&tree)));
    assert_eq!(seen.repo_slug.as_str(), "myproject-3ekew7s9t14f03");
    assert_eq!(seen.common_dir, Some(main.join(".git")));
    assert_eq!(seen.project_dir, tree.join(".agents-sandbox"));
    let outside = seen.outside.unwrap();
    assert_eq!((outside.common, outside.relative), (main.join(".git"), None));
    assert_eq!(discover(&main).unwrap().outside, None);
}

#[test]
fn a_repository_elsewhere_is_found_through_relative_pointers_too() {
    let lab = Lab::new();
    let main = lab.repository("project");
    lab.git(&main, &["worktree", "add", "-q", "../tree"]);
    std::fs::write(lab.path("tree/.git"), "gitdir: ../project/.git/worktrees/tree\n").unwrap();
    std::fs::write(main.join(".git/worktrees/tree/gitdir"), "../../../../tree/.git\n").unwrap();
    let outside = discover(&lab.path("tree")).unwrap().outside.unwrap();
    assert_eq!((outside.common, outside.relative), (main.join(".git"), Some("../project/.git".into())));

    let part = lab.repository("part");
    lab.git(
        &main,
        &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", part.to_str().unwrap(), "sub"],
    );
    let outside = discover(&main.join("sub")).unwrap().outside.unwrap();
    let expected = (main.join(".git/modules/sub"), Some("../.git/modules/sub".into()));
    assert_eq!((outside.common, outside.relative), expected);
}

#[test]
fn a_worktree_with_relative_pointers_is_known_too() {
    let lab = Lab::new();
    let main = lab.repository("project");
    lab.git(&main, &["worktree", "add", "-q", "wt"]);
    std::fs::write(main.join("wt/.git"), "gitdir: ../.git/worktrees/wt\n").unwrap();
    std::fs::write(main.join(".git/worktrees/wt/gitdir"), "../../../wt/.git\n").unwrap();
    assert_eq!(discover(&main.join("wt")).unwrap().root, main);
}

#[test]
fn a_folder_with_a_hidden_bare_repository_is_one_checkout_with_its_worktrees() {
    let lab = Lab::new();
    for (name, bare, pointer) in [
        ("a", ".git", None),
        ("b", ".bare", Some("gitdir: ./.bare\n")),
        ("c", ".bare", None),
        ("d", "store.git", Some("gitdir: store.git\n")),
    ] {
        let root = lab.folder(name);
        let bare = lab.bare(&format!("{name}/{bare}"));
        if let Some(pointer) = pointer {
            std::fs::write(root.join(".git"), pointer).unwrap();
        }
        lab.git(&bare, &["worktree", "add", "-q", root.join("main").to_str().unwrap(), "main"]);
        let slug = format!("{name}-{}", hash_of(&bare));
        for (folder, subdir) in [(root.clone(), ""), (root.join("main"), "main"), (bare.join("refs"), "")] {
            let seen = discover(&folder).unwrap();
            assert_eq!(seen.root, root, "{name} from {}", folder.display());
            assert_eq!(seen.checkout_slug.as_str(), slug, "{name} from {}", folder.display());
            assert_eq!(seen.project_dir, root.join(".agents-sandbox"), "{name}");
            if folder != bare.join("refs") {
                assert_eq!(seen.subdir, Path::new(subdir), "{name} from {}", folder.display());
            }
        }
    }
}

#[test]
fn a_bare_repository_alone_is_its_own_root() {
    let lab = Lab::new();
    let bare = lab.bare("thing.git");
    lab.git(&bare, &["worktree", "add", "-q", "../outside", "main"]);
    lab.git(&bare, &["worktree", "add", "-q", "inside", "-b", "inside"]);
    for folder in [bare.clone(), bare.join("objects"), bare.join("inside")] {
        let seen = discover(&folder).unwrap();
        assert_eq!(seen.root, bare, "{}", folder.display());
        assert_eq!(seen.checkout_slug.as_str(), format!("thing-git-{}", hash_of(&bare)));
    }
    assert_eq!(discover(&lab.path("outside")).unwrap().root, lab.path("outside"));
}

#[test]
fn a_submodule_is_a_checkout_of_its_own() {
    let lab = Lab::new();
    let library = lab.repository("library");
    let main = lab.repository("project");
    lab.git(&main, &["submodule", "--quiet", "add", library.to_str().unwrap(), "vendor/library"]);
    let module = main.join("vendor/library");
    let seen = discover(&module).unwrap();
    let own = main.join(".git/modules/vendor/library");
    assert_eq!((seen.root, seen.common_dir), (module.clone(), Some(own.clone())));
    assert_eq!(seen.checkout_slug.as_str(), format!("library-{}", hash_of(&own)));
    // A worktree of the submodule inside it shares its identity; the module's git directory is the project's.
    lab.git(&module, &["worktree", "add", "-q", "wt", "-b", "wt"]);
    assert_eq!(discover(&module.join("wt")).unwrap().root, module);
    assert_eq!(discover(&own).unwrap().root, main);
}

#[test]
fn a_git_directory_kept_elsewhere_leaves_the_folder_its_own_identity() {
    let lab = Lab::new();
    let root = lab.folder("project");
    lab.git(&root, &["init", "-q", "--separate-git-dir", "../store", "."]);
    let seen = discover(&root).unwrap();
    assert_eq!(seen.root, root);
    assert_eq!(seen.checkout_slug.as_str(), format!("project-{}", hash_of(&root)));
}
