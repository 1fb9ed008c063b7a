//! Pages of the book in, their commands run: a page shows only what happened when this test typed it.
//!
//! A block ```` ```console ```` holds commands (`$ ` first) and what they print; a block with `file=PATH` in its first line is a
//! file that the reader writes. `…` stands for text that differs from run to run, and a line that is only `…` for any lines.
//! Every page starts in an empty directory, which pages call `/home/you`.

mod pictures;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Stands for the directory in which the reader works.
const HOME: &str = "/home/you";

/// What is set for a reader who works on one node; the paths are below the reader's directory.
const NODE: [(&str, &str); 2] = [("ZAGENT_ROOT", "/home/you/.zagent"), ("ZAGENT_ID", "web-01")];

/// What a page asks of its reader.
#[derive(Debug, PartialEq)]
enum Step {
    /// Write this file.
    Write { path: String, content: String },
    /// Type this command and read this.
    Type { line: usize, command: String, shown: Vec<String> },
}

#[test]
fn first_steps_are_as_shown() {
    follow("first-steps.md", &NODE);
}

#[test]
fn a_first_repository_is_as_shown() {
    if !has("ssh-keygen") {
        return;
    }
    follow("first-repository.md", &NODE);
}

#[test]
fn a_first_secret_is_as_shown() {
    if !has("ssh-keygen") {
        return;
    }
    follow("first-secret.md", &NODE);
}

#[test]
fn first_resources_are_as_shown() {
    follow("first-resources.md", &NODE);
}

/// Five daemons, which the page itself starts and stops.
#[test]
fn a_first_rollout_is_as_shown() {
    follow("first-rollout.md", &[]);
}

fn book() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src")
}

/// The Markdown files of the book, by their path in it.
fn pages() -> Vec<String> {
    let mut pages = Vec::new();
    for dir in ["", "reference", "reference/states"] {
        for entry in fs::read_dir(book().join(dir)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                pages.push(if dir.is_empty() { name } else { format!("{dir}/{name}") });
            }
        }
    }
    pages
}

#[test]
fn every_page_is_in_the_contents_and_every_link_leads_somewhere() {
    let contents = fs::read_to_string(book().join("SUMMARY.md")).unwrap();
    for page in pages() {
        assert!(page == "SUMMARY.md" || contents.contains(&format!("]({page})")), "SUMMARY.md has no {page}");
        let text = fs::read_to_string(book().join(&page)).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            let target = link.split('#').next().unwrap();
            if target.contains([':', ' ']) || ![".md", ".svg", ".png"].iter().any(|end| target.ends_with(end))
            {
                continue;
            }
            let file = book().join(&page).parent().unwrap().join(target);
            assert!(file.exists(), "{page}: `{link}` leads nowhere");
        }
    }
}

#[test]
fn orphans_are_as_shown() {
    follow("orphans.md", &NODE);
}

/// Whether a program is there; with `CI=true` it must be.
fn has(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    assert!(found || std::env::var_os("CI").is_none(), "there is no {program}");
    found
}

/// Does what a page says, and compares what it shows.
fn follow(page: &str, variables: &[(&str, &str)]) {
    let steps = steps(&fs::read_to_string(book().join(page)).unwrap());
    assert!(steps.iter().any(|step| matches!(step, Step::Type { .. })), "{page} has no commands");
    let home = tempfile::Builder::new().prefix("zagent-book-").tempdir().unwrap();
    let _background = BackgroundProcesses(home.path());
    write(home.path(), "zagent.yaml", "");
    write(home.path(), ".gitconfig", "[user]\n\tname = You\n\temail = you@example.org\n");
    for step in steps {
        match step {
            Step::Write { path, content } => write(home.path(), &path, &content),
            Step::Type { line, command, shown } => {
                let printed = run(&home, &command, variables);
                let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
                let shown: Vec<&str> = shown.iter().map(|line| line.trim_end()).collect();
                assert!(
                    lines_match(&shown, &printed),
                    "docs/src/{page}:{line}: `{command}` prints\n{}\ninstead of\n{}",
                    printed.join("\n"),
                    shown.join("\n")
                );
            }
        }
    }
}

/// What a page left running, by the files `*.pid` in the directory of the reader; killed with this value, before the directory
/// goes.
struct BackgroundProcesses<'h>(&'h Path);

impl Drop for BackgroundProcesses<'_> {
    fn drop(&mut self) {
        let files = fs::read_dir(self.0).into_iter().flatten().flatten().map(|entry| entry.path());
        let lists = files.filter(|path| path.extension().is_some_and(|end| end == "pid"));
        let pids = lists.flat_map(|path| {
            fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>()
        });
        for pid in pids.filter_map(|pid| pid.parse().ok()) {
            // Gone already: the page stopped it.
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        }
    }
}

fn write(home: &Path, path: &str, content: &str) {
    let path: PathBuf = home.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content.replace(HOME, home.to_str().unwrap())).unwrap();
}

/// Seconds a command may take; one that waits for something ends after them, and the page then shows something else.
const PATIENCE: &str = "180";

/// What a command prints on both streams, with a line for an exit code that is not 0.
fn run(home: &TempDir, command: &str, variables: &[(&str, &str)]) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_zagent")).parent().unwrap();
    let place = home.path().to_str().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let output = Command::new("timeout")
        .args(["-k", "5", PATIENCE, "sh", "-c", &format!("exec 2>&1\n{}", command.replace(HOME, place))])
        .current_dir(home.path())
        .env_clear()
        .env("PATH", path)
        .env("HOME", home.path())
        .env("LANG", "C.UTF-8")
        .envs(variables.iter().map(|(name, value)| (name, value.replace(HOME, place))))
        .env("ZAGENT_CONFIG", home.path().join("zagent.yaml"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let mut printed = String::from_utf8(output.stdout).unwrap().replace(place, HOME);
    if let Some(code @ 1..) = output.status.code() {
        printed += &format!("exit code {code}\n");
    }
    printed
}

/// The steps of a page, in order.
fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```").filter(|info| !info.is_empty()) else { continue };
        let block: Vec<(usize, &str)> = lines.by_ref().take_while(|(_, line)| *line != "```").collect();
        if let Some((_, path)) = info.split_once("file=") {
            let content = block.iter().map(|(_, line)| format!("{line}\n")).collect();
            steps.push(Step::Write { path: path.to_owned(), content });
        } else if info == "console" {
            steps.extend(commands(&block));
        }
    }
    steps
}

fn commands(block: &[(usize, &str)]) -> Vec<Step> {
    let mut steps = Vec::new();
    for (number, line) in block {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => {
                steps.push(Step::Type { line: number + 1, command: command.to_owned(), shown: Vec::new() });
            }
            (None, Some(Step::Type { shown, .. })) => shown.push((*line).to_owned()),
            (None, _) => panic!("line {}: a block starts with a command", number + 1),
        }
    }
    steps
}

fn lines_match(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"…", rest)) => (0..=printed.len()).any(|skip| lines_match(rest, &printed[skip..])),
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, others)| line_matches(line, first) && lines_match(rest, others)),
    }
}

fn line_matches(shown: &str, printed: &str) -> bool {
    let Some((before, after)) = shown.split_once('…') else { return shown == printed };
    printed.strip_prefix(before).is_some_and(|rest| {
        (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| line_matches(after, &rest[at..]))
    })
}

#[test]
fn the_text_of_a_page_is_read_and_compared() {
    let page = "text\n```yaml,file=a/b.sls\nx: 1\n```\n```console\n$ true\n$ echo\none\n…\n```\n```\n$ not run\n```\n";
    let typed = |line, command: &str, shown: &[&str]| Step::Type {
        line,
        command: command.into(),
        shown: shown.iter().map(|&line| line.into()).collect(),
    };
    let expected = [
        Step::Write { path: "a/b.sls".into(), content: "x: 1\n".into() },
        typed(6, "true", &[]),
        typed(7, "echo", &["one", "…"]),
    ];
    assert_eq!(steps(page), expected);
    for (shown, printed, same) in [
        (&["a … b"][..], &["a 12 b"][..], true),
        (&["a … b"], &["a 12 c"], false),
        (&["…", "z"], &["x", "y", "z"], true),
        (&["…", "z"], &["x", "z", "y"], false),
        (&["a"], &["a", "b"], false),
        (&[], &["a"], false),
    ] {
        assert_eq!(lines_match(shown, printed), same, "{shown:?} {printed:?}");
    }
}
