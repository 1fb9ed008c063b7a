//! Hostile trees and directories, signed by a deceived signer.

use std::fs;
use std::os::unix::fs::symlink;

use zagent_tests::node::{Node, Repo};

use super::{SIGNERS, Victim};

/// Each row: what is beside the states in a tree that a signer was tricked into signing.
#[test]
fn a_hostile_tree_is_refused() {
    let victim = Victim::new(SIGNERS);
    let blob = victim.repo.git_on(&["hash-object", "-w", "--stdin"], b"/etc/passwd");
    let out = victim.repo.git_on(&["hash-object", "-w", "--stdin"], b"../../../../etc/passwd");
    let inner = tree(&victim.repo, &[("100644", "config", &blob)]);
    let states = victim.repo.git(&["rev-parse", "HEAD:states"]);
    let commit = victim.good.clone();
    let table: [(&str, &str, &str, &str); 12] = [
        ("100644", "..", &blob, "\"..\""),
        ("100644", ".", &blob, "\".\""),
        ("100644", "../../evil", &blob, "a refused name"),
        ("100644", "/etc/evil", &blob, "a refused name"),
        ("40000", ".git", &inner, "a refused name: \".git\""),
        ("40000", ".GIT", &inner, "a refused name: \".GIT\""),
        ("40000", ".Git ", &inner, "a refused name"),
        ("40000", "git~1", &inner, "a refused name"),
        ("40000", ".g\u{200c}it", &inner, "a refused name"),
        ("120000", "link", &blob, "the symlink `link`"),
        ("120000", "link", &out, "the symlink `link` points outside the tree"),
        ("160000", "module", &commit, "`module` is a submodule"),
    ];
    for (mode, name, id, words) in table {
        let top = tree(&victim.repo, &[(mode, name, id), ("40000", "states", &states)]);
        let key = format!("user.signingkey={}", victim.alice.path.display());
        let signed =
            ["-c", "gpg.format=ssh", "-c", &key, "commit-tree", "-S", &top, "-p", &victim.good, "-m", "c"];
        let evil = victim.repo.git(&signed);
        victim.repo.git(&["push", "-q", "-f", "origin", &format!("{evil}:refs/heads/main")]);
        victim.refuses(&[words]);
    }
}

/// A tree with exactly these entries, including hostile ones.
fn tree(repo: &Repo, entries: &[(&str, &str, &str)]) -> String {
    let mut bytes = Vec::new();
    for (mode, name, id) in entries {
        bytes.extend(format!("{mode} {name}\0").bytes());
        bytes.extend((0..40).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()));
    }
    repo.git_on(&["hash-object", "-t", "tree", "-w", "--literally", "--stdin"], &bytes)
}

#[test]
fn more_and_larger_files_than_allowed_are_refused() {
    let victim = Victim::new(SIGNERS);
    let source = |limit: &str| {
        let source = format!("source: {{remotes: [{{url: '{}'}}], {limit}}}\n", victim.repo.url());
        victim.node.configure(&source, SIGNERS);
    };
    victim.repo.write("large", &"x".repeat(5000));
    victim.push();
    source("max_file: 4K");
    victim.refuses(&["`large` has 5000 bytes, and the limit is 4096"]);
    victim.repo.git(&["rm", "-q", "large"]);
    (0..10).for_each(|n| victim.repo.write(&format!("f{n}"), "x"));
    victim.push();
    source("max_files: 8");
    victim.refuses(&["more than 8 files"]);
}

/// Each row: the content of a directory that is followed directly.
#[test]
fn a_hostile_directory_is_refused() {
    let node = Node::new();
    let (dir, repo) = (node.path("plain"), Repo::new(&node));
    repo.motd("one");
    fs::create_dir(&dir).unwrap();
    fs::rename(repo.work().join("states"), dir.join("states")).unwrap();
    node.follow(&dir.to_string_lossy());
    node.turn().changed(1);
    let good = node.revision();
    let at = dir.join("evil");
    let table: [(&str, &dyn Fn(), &str); 4] = [
        ("a pipe", &|| mknod(&at), "`evil` is a pipe"),
        (
            "a link out",
            &|| symlink("/etc/passwd", &at).unwrap(),
            "the symlink `evil` points outside the tree",
        ),
        ("a link up", &|| symlink("../../x", &at).unwrap(), "the symlink `evil` points outside the tree"),
        ("a socket", &|| drop(std::os::unix::net::UnixListener::bind(&at).unwrap()), "`evil` is a socket"),
    ];
    for (_, make, words) in table {
        make();
        node.turn().expect(76, &[words]);
        node.call(&["source", "sync"]).expect(76, &[words]);
        node.stands_on(&good);
        fs::remove_file(&at).unwrap();
    }
    node.turn().changed(0);
}

fn mknod(path: &std::path::Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}
