//! A seed in, an SLS and a host out, with everything that makes predictions hard: commands that fail, guards, `failhard`, `retry`,
//! `check_cmd`, and every kind of requisite.

use std::fmt::Write as _;
use std::path::Path;

use crate::trees::Dice;

/// What a tree may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Files and answers from arguments alone.
    WithoutCommands,
    /// Commands too, also as guards.
    WithCommands,
}

const TEXTS: [&str; 4] = ["one\n", "two\nlines\n", "", "port = 80\nhost = a\n"];
const REQUISITES: [&str; 15] = [
    "require",
    "require",
    "require",
    "watch",
    "watch",
    "onchanges",
    "onchanges",
    "onfail",
    "require_any",
    "watch_any",
    "onfail_any",
    "onfail_all",
    "onchanges_any",
    "listen",
    "listen",
];

/// A state that was written.
struct Written {
    module: &'static str,
    /// What it touches; nothing once another state that waits for it touches that too.
    path: Option<String>,
    /// A guard of a state that waits for it looks at the path, so no other state may take it over.
    is_read: bool,
    /// Nothing may wait for it but its target: it has a `prereq`.
    is_prereq: bool,
}

struct Tree<'d> {
    dice: &'d mut Dice,
    dir: String,
    flavour: Flavour,
    failhard: bool,
    written: Vec<Written>,
    text: String,
}

/// The text of an SLS for files below `dir`.
#[must_use]
pub(super) fn sls(dice: &mut Dice, dir: &Path, flavour: Flavour) -> String {
    let count = 3 + dice.below(14);
    let failhard = dice.once_in(6);
    let dir = dir.display().to_string();
    let mut tree = Tree { dice, dir, flavour, failhard, written: Vec::new(), text: String::new() };
    for i in 0..count {
        tree.add_state(i);
    }
    tree.text
}

impl Tree<'_> {
    fn add_state(&mut self, i: usize) {
        let targets = self.targets();
        // What it listens for or checks first does not come before it.
        let ordered = targets.iter().filter(|(kind, _)| !matches!(*kind, "listen" | "prereq"));
        let before: Vec<usize> = ordered.map(|(_, target)| *target).collect();
        let (module, body, path) = match self.dice.below(10) {
            0..=4 => self.file(i, &before),
            5 | 6 if self.flavour == Flavour::WithCommands => self.command(i, &before),
            _ => self.test(),
        };
        let _ = write!(self.text, "s{i}:\n{body}");
        self.guards(path.as_deref(), &before);
        self.options(module);
        let is_prereq = self.add_requisites(&targets);
        self.written.push(Written { module, path, is_read: false, is_prereq });
    }

    /// Earlier states that the next one refers to, and how.
    fn targets(&mut self) -> Vec<(&'static str, usize)> {
        let free: Vec<usize> = (0..self.written.len()).filter(|i| !self.written[*i].is_prereq).collect();
        if free.is_empty() || self.dice.once_in(4) {
            return Vec::new();
        }
        if self.dice.once_in(14) {
            return vec![("prereq", free[free.len() - 1])];
        }
        let mut all = Vec::new();
        for _ in 0..=self.dice.below(3) {
            let back = 1 + self.dice.below(free.len().min(6));
            all.push((*self.dice.pick(&REQUISITES), free[free.len() - back]));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    fn add_requisites(&mut self, targets: &[(&'static str, usize)]) -> bool {
        let mut last = "";
        for (kind, target) in targets {
            if last != *kind {
                let _ = writeln!(self.text, "    - {kind}:");
                last = kind;
            }
            let _ = writeln!(self.text, "      - {}: s{target}", self.written[*target].module);
        }
        targets.iter().any(|(kind, _)| *kind == "prereq")
    }

    /// A path that only this state and those that wait for it know, or one that it shares with states that it waits for.
    fn own_path(&mut self, i: usize, before: &[usize]) -> String {
        let free: Vec<usize> = before.iter().copied().filter(|b| !self.written[*b].is_read).collect();
        if !free.is_empty() && self.dice.once_in(2) {
            let from = *self.dice.pick(&free);
            if let Some(path) = self.written[from].path.take() {
                return path;
            }
        }
        format!("{}/d{i}/f", self.dir)
    }

    fn file(&mut self, i: usize, before: &[usize]) -> (&'static str, String, Option<String>) {
        let path = self.own_path(i, before);
        let body = match self.dice.below(8) {
            0..=3 => self.managed(&path),
            4 => format!("  file.absent:\n    - name: {path}\n"),
            5 => format!("  file.append:\n    - name: {path}\n    - text: more\n"),
            6 => format!("  file.directory:\n    - name: {path}\n    - makedirs: true\n"),
            _ => format!("  file.touch:\n    - name: {path}\n"),
        };
        ("file", body, Some(path))
    }

    fn managed(&mut self, path: &str) -> String {
        let mut text =
            format!("  file.managed:\n    - name: {path}\n    - contents: {:?}\n", self.dice.pick(&TEXTS));
        if !self.dice.once_in(3) {
            text.push_str("    - makedirs: true\n");
        }
        if self.dice.once_in(8) {
            text.push_str("    - replace: false\n");
        }
        if self.flavour == Flavour::WithCommands && self.dice.once_in(6) {
            let check = *self.dice.pick(&["'true'", "'false'", "grep -q port", "test -s"]);
            let _ = writeln!(text, "    - check_cmd: {check}");
        }
        text
    }

    fn command(&mut self, i: usize, before: &[usize]) -> (&'static str, String, Option<String>) {
        let path = self.own_path(i, before);
        let (line, path) = match self.dice.below(12) {
            0 => ("true".into(), None),
            1 => ("false".into(), None),
            2 => ("exit 3".into(), None),
            3 => ("echo hello".into(), None),
            4 => (format!("echo port = 80 > {path}"), Some(path)),
            5 => (
                format!("mkdir -p {0}/made && touch {0}/made/c{i}", self.dir),
                Some(format!("{}/made/c{i}", self.dir)),
            ),
            6 => (format!("rm -f {path}"), Some(path)),
            7 => (format!("test -f {path}"), Some(path)),
            8 => (format!("grep -q one {path}"), Some(path)),
            9 => (format!("f={path}; if [ -e $f ]; then rm -rf $f; else echo one > $f; fi"), Some(path)),
            10 => ("ls / | wc -l".into(), None),
            _ => (format!("cd {} && ls -d *", self.dir), None),
        };
        ("cmd", format!("  cmd.run:\n    - name: {line:?}\n"), path)
    }

    fn test(&mut self) -> (&'static str, String, Option<String>) {
        let all = [
            "nop",
            "succeed_without_changes",
            "succeed_with_changes",
            "succeed_with_changes",
            "fail_without_changes",
            "fail_with_changes",
        ];
        // A list of arguments needs at least one.
        ("test", format!("  test.{}:\n    - fire_event: false\n", self.dice.pick(&all)), None)
    }

    fn guards(&mut self, own: Option<&str>, before: &[usize]) {
        if !self.dice.once_in(4) {
            return;
        }
        let fixed = format!("{}/h{}", self.dir, self.dice.below(4));
        let path = match (own, self.dice.below(3)) {
            (Some(own), 0) => own.to_owned(),
            (_, 1) if !before.is_empty() => {
                let from = *self.dice.pick(before);
                self.written[from].is_read = true;
                self.written[from].path.clone().unwrap_or(fixed)
            }
            _ => fixed,
        };
        let most = if self.flavour == Flavour::WithCommands { 10 } else { 6 };
        let line = match self.dice.below(most) {
            0 => format!("    - onlyif: test -f {path}\n"),
            1 => format!("    - unless: test -e {path}\n"),
            2 => format!("    - creates: {path}\n"),
            3 => "    - onlyif: 'false'\n".into(),
            4 => "    - unless: 'true'\n".into(),
            5 => "    - onlyif: 'true'\n".into(),
            6 => format!("    - onlyif: grep -q one {path}\n"),
            7 => format!("    - unless: ls {path}\n"),
            8 => format!("    - onlyif: 'test -f {path} && grep -c o {path}'\n"),
            _ => format!("    - unless: '[ $(cat {path} | wc -l) -gt 1 ]'\n"),
        };
        self.text.push_str(&line);
    }

    fn options(&mut self, module: &str) {
        if self.failhard && self.dice.once_in(4) {
            self.text.push_str("    - failhard: true\n");
        }
        if self.dice.once_in(12) {
            self.text.push_str("    - retry: {attempts: 2, interval: 0}\n");
        }
        if self.flavour == Flavour::WithCommands && module != "file" && self.dice.once_in(12) {
            let check = *self.dice.pick(&["'true'", "'false'", "test -d /", "ls /nothing"]);
            let _ = writeln!(self.text, "    - check_cmd: {check}");
        }
    }
}

/// Creates files below `dir`.
pub(super) fn host(dice: &mut Dice, dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    for d in 0..17 {
        if dice.once_in(3) {
            continue;
        }
        let sub = dir.join(format!("d{d}"));
        std::fs::create_dir_all(&sub)?;
        if dice.once_in(2) {
            std::fs::write(sub.join("f"), dice.pick(&TEXTS))?;
        }
    }
    for h in 0..4 {
        if dice.once_in(2) {
            std::fs::write(dir.join(format!("h{h}")), dice.pick(&TEXTS))?;
        }
    }
    Ok(())
}
