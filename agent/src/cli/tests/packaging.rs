//! What packages are made of: manual pages, completions, the version, and the installation of the bare binary.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::{ExitStatus, Tree, alone, zagent};

#[test]
fn every_command_has_a_manual_page_with_files_exit_status_and_valid_examples() {
    let tree = Tree::new(&[]);
    let dir = tree.dir.path().join("man1");
    let said = zagent(&["man", "--dir", &dir.display().to_string()], tree.dir.path());
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        let (name, text) =
            (path.file_stem().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(&path).unwrap());
        for section in ["NAME", "SYNOPSIS", "FILES", "EXAMPLES"] {
            assert!(text.contains(&format!(".SH {section}\n")), "{name} has no section {section}");
        }
        assert!(text.contains(".SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\n"), "{name}");
        let (_, examples) = text.split_once(".SH EXAMPLES\n").unwrap();
        assert!(!examples.is_empty(), "{name} has no example: add one to agent/src/manual/examples.txt");
        names.push(name);
    }
    for name in ["zagent", "zagent-run", "zagent-show-lowstate", "zagent-self-install", "zagent-state.apply"]
    {
        assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("turn") || name.contains("help")), "{names:?}");
}

#[test]
fn the_examples_of_the_manual_are_valid_command_lines() {
    let lines = include_str!("../../manual/examples.txt").lines().filter(|line| line.starts_with("zagent "));
    for line in lines {
        let (line, words) = line.split_once("  # ").unwrap_or_else(|| panic!("no comment: {line}"));
        assert!(!words.trim().is_empty(), "{line}");
        let args = words_of(line.trim());
        let parsed = super::super::parse(args.iter().map(Into::into).collect());
        assert!(parsed.is_ok(), "{line}: {}", parsed.err().unwrap());
    }
}

/// The words of a command line, with the quotes that the examples use.
fn words_of(line: &str) -> Vec<String> {
    let (mut words, mut quote) = (vec![String::new()], None);
    for c in line.chars() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, ' ') => words.push(String::new()),
            (_, c) => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn the_version_names_what_was_built() {
    let data = alone(&["version", "--out", "json"]).json();
    assert_eq!(data["version"], env!("CARGO_PKG_VERSION"));
    let target = data["target"].as_str().unwrap();
    assert!(target.starts_with(std::env::consts::ARCH) && target.contains("linux"), "{data:#}");
    assert_eq!((&data["features"][0], data["profile"].is_string()), (&"nats".into(), true), "{data:#}");
    let text = alone(&["version"]).out;
    assert!(text.starts_with("zagent ") && text.contains("\ncommit    "), "{text}");
}

#[test]
fn the_bare_binary_installs_and_removes_itself_below_a_directory() {
    let tree = Tree::new(&[]);
    let root = tree.dir.path().join("image");
    let destdir = root.display().to_string();
    let said = zagent(&["self", "install", "--destdir", &destdir], tree.dir.path());
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    for path in [
        "usr/bin/zagent",
        "usr/lib/systemd/system/zagent.service",
        "usr/share/man/man1/zagent-enroll.1",
        "usr/share/bash-completion/completions/zagent",
        "usr/share/zsh/site-functions/_zagent",
        "usr/share/fish/vendor_completions.d/zagent.fish",
        "etc/zagent/zagent.yaml",
    ] {
        assert!(std::fs::metadata(root.join(path)).unwrap().len() > 0, "{path}");
    }
    let said = zagent(&["self", "uninstall", "--destdir", &destdir], tree.dir.path());
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    assert!(said.err.contains("kept /etc/zagent"), "{}", said.err);
    assert!(root.join("etc/zagent/zagent.yaml").exists() && !root.join("usr/bin/zagent").exists());
    // What a package manager owns is not touched.
    let list = root.join("var/lib/dpkg/info/zagent.list");
    std::fs::create_dir_all(list.parent().unwrap()).unwrap();
    std::fs::write(list, "").unwrap();
    let said = zagent(&["self", "install", "--destdir", &destdir], tree.dir.path());
    assert_eq!(said.exit, ExitStatus::Usage, "{}", said.all());
    assert!(said.err.contains("apt install zagent"), "{}", said.err);
}

/// Names that a shell would expand or split.
const UNUSUAL: &[&str] = &["$(id)", "/etc/*", "a b", "it's", "plain", "x;y"];

/// A directory with a program `zagent` that answers with these words, and with the completion script of a shell.
fn completing(shell: &str, words: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("script"), alone(&["completions", shell]).out).unwrap();
    std::fs::write(
        dir.path().join("words"),
        words.iter().map(|word| format!("{word}\n")).collect::<String>(),
    )
    .unwrap();
    let program = dir.path().join("zagent");
    std::fs::write(&program, "#!/bin/sh\necho \"$*\" >> calls\nexec cat words\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// What a shell prints in a directory.
fn said_by(shell: &[&str], dir: &std::path::Path) -> Vec<String> {
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).current_dir(dir).env("PATH", path).env("HOME", dir);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_inserts_each_word_as_it_is() {
    let tab = ". ./script; COMP_WORDS=(zagent run ''); COMP_CWORD=2; _zagent; echo ${#COMPREPLY[@]}; \
        eval \"printf '%s\\n' ${COMPREPLY[*]}\"";
    for words in [UNUSUAL, &["plain"]] {
        let dir = completing("bash", words);
        let said = said_by(&["bash", "-c", tab], dir.path());
        assert_eq!(said[0], words.len().to_string());
        assert_eq!(said[1..], *words);
        assert_eq!(std::fs::read_to_string(dir.path().join("calls")).unwrap(), "complete -- run \n");
    }
    // Without a word, bash completes files.
    let dir = completing("bash", &[]);
    assert_eq!(said_by(&["bash", "-c", tab], dir.path())[0], "0");
}

#[test]
fn fish_asks_once_and_offers_each_word_as_it_is() {
    let is_there = Command::new("fish").arg("--version").output().is_ok_and(|output| output.status.success());
    assert!(is_there || std::env::var_os("CI").is_none(), "there is no fish");
    if !is_there {
        return;
    }
    let dir = completing("fish", UNUSUAL);
    let tab = "source script; complete -C 'zagent run '";
    assert_eq!(said_by(&["fish", "--no-config", "-c", tab], dir.path()), UNUSUAL);
    assert_eq!(std::fs::read_to_string(dir.path().join("calls")).unwrap(), "complete -- run \n");
}
