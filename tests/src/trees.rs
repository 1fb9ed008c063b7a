//! A seed in, a states tree and a host out: the same seed gives the same pair.
//!
//! Every tree compiles. Requisites point back, so there is no cycle; commands succeed and touch only files that
//! no other state manages; no file has two names.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Numbers from a seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// A generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % n.max(1) as u64).unwrap_or(0)
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub fn pick<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.below(all.len())]
    }
}

/// What a tree may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// Everything: states may disagree about a path.
    All,
    /// Only idempotent states: every path has one owner, and nothing runs unconditionally.
    Lasting,
}

const TEXTS: [&str; 4] = ["one\n", "two\nlines\n", "", "port = 80\nhost = a\n"];
const MODES: [&str; 3] = ["0644", "0600", "0755"];
const REQUISITES: [&str; 10] = [
    "require",
    "require",
    "require",
    "watch",
    "onchanges",
    "onfail",
    "require_any",
    "onfail_any",
    "onfail_all",
    "onchanges_any",
];

/// The text of an SLS with `count` states for files below `dir`.
#[must_use]
pub fn sls(dice: &mut Dice, count: usize, dir: &Path, kinds: Kinds) -> String {
    let mut text = String::new();
    let mut modules: Vec<&'static str> = Vec::new();
    for i in 0..count {
        let (module, body) = state(dice, i, dir, kinds);
        let _ = write!(text, "s{i}:\n{body}");
        requisites(dice, &modules, &mut text);
        modules.push(module);
    }
    text
}

/// Module and lines of one state.
fn state(dice: &mut Dice, i: usize, dir: &Path, kinds: Kinds) -> (&'static str, String) {
    let path = match kinds {
        Kinds::All => format!("{}/d{}/f{}", dir.display(), dice.below(4), dice.below(6)),
        Kinds::Lasting => format!("{}/own{i}", dir.display()),
    };
    match dice.below(12) {
        0..=3 => ("file", managed(dice, &path)),
        4 => ("file", directory(dice, i, dir, kinds)),
        5 => ("file", format!("  file.absent:\n    - name: {path}\n")),
        6 => {
            // No state owns the target of a symlink: two names of one file cannot be distinguished by their names.
            let target = format!("{}/t{i}", dir.display());
            let force = if dice.once_in(2) { "    - force: true\n" } else { "" };
            (
                "file",
                format!(
                    "  file.symlink:\n    - name: {path}\n    - target: {target}\n    - makedirs: true\n{force}"
                ),
            )
        }
        7 => {
            let ignore = "    - ignore_if_missing: true\n";
            let edit = *dice.pick(&["append", "replace", "prepend"]);
            let body = match edit {
                "replace" => format!("    - pattern: 'port = .*'\n    - repl: 'port = 81'\n{ignore}"),
                _ => "    - text: one more line\n".into(),
            };
            ("file", format!("  file.{edit}:\n    - name: {path}\n{body}"))
        }
        8 => ("cmd", command(dice, i, dir, kinds)),
        _ => ("test", test(dice, kinds)),
    }
}

fn managed(dice: &mut Dice, path: &str) -> String {
    let mut text = format!("  file.managed:\n    - name: {path}\n    - contents: {:?}\n", dice.pick(&TEXTS));
    if !dice.once_in(3) {
        // States that create the same directory agree about it.
        text.push_str("    - makedirs: true\n    - dir_mode: '0755'\n");
    }
    if dice.once_in(2) {
        let _ = writeln!(text, "    - mode: '{}'", dice.pick(&MODES));
    }
    if dice.once_in(6) {
        text.push_str("    - replace: false\n");
    }
    if dice.once_in(8) {
        let _ = writeln!(text, "    - creates: {path}");
    }
    text
}

fn directory(dice: &mut Dice, i: usize, dir: &Path, kinds: Kinds) -> String {
    let path = match kinds {
        Kinds::All => format!("{}/d{}", dir.display(), dice.below(4)),
        Kinds::Lasting => format!("{}/own{i}", dir.display()),
    };
    let mode = dice.pick(&["0755", "0700"]);
    format!("  file.directory:\n    - name: {path}\n    - mode: '{mode}'\n    - makedirs: true\n")
}

fn command(dice: &mut Dice, i: usize, dir: &Path, kinds: Kinds) -> String {
    let made = format!("{}/made{i}", dir.display());
    let guards = [
        format!("    - creates: {made}\n"),
        format!("    - unless: test -e {made}\n"),
        format!("    - onlyif: test ! -e {made}\n"),
        String::new(),
    ];
    let most = if kinds == Kinds::Lasting { 3 } else { 4 };
    let guard = &guards[dice.below(most)];
    format!("  cmd.run:\n    - name: touch {made}\n{guard}")
}

fn test(dice: &mut Dice, kinds: Kinds) -> String {
    let all = [
        "nop",
        "succeed_without_changes",
        "fail_without_changes",
        "succeed_with_changes",
        "fail_with_changes",
    ];
    let most = if kinds == Kinds::Lasting { 2 } else { all.len() };
    let fun = all[dice.below(most)];
    let guard = *dice.pick(&["", "", "", "    - unless: 'true'\n", "    - onlyif: 'false'\n"]);
    // A list of arguments needs at least one.
    format!("  test.{fun}:\n    - failhard: false\n{guard}")
}

/// Requisites on earlier states.
fn requisites(dice: &mut Dice, modules: &[&'static str], text: &mut String) {
    if modules.is_empty() || dice.once_in(3) {
        return;
    }
    let mut kinds: Vec<&str> = (0..=dice.below(2)).map(|_| *dice.pick(&REQUISITES)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let _ = writeln!(text, "    - {kind}:");
        for _ in 0..=dice.below(2) {
            // Near ones more often: long chains.
            let back = 1 + dice.below(modules.len().min(8));
            let target = modules.len() - back;
            let _ = writeln!(text, "      - {}: s{target}", modules[target]);
        }
    }
}

/// Creates files of all kinds below `dir`.
///
/// # Errors
/// Fails when the directory cannot be written.
pub fn host(dice: &mut Dice, dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    for d in 0..4 {
        if dice.once_in(3) {
            continue;
        }
        let sub = dir.join(format!("d{d}"));
        std::fs::create_dir_all(&sub)?;
        for f in 0..6 {
            let path = sub.join(format!("f{f}"));
            match dice.below(5) {
                0 | 1 => {}
                2 => std::os::unix::fs::symlink(format!("../t{d}{f}"), &path)?,
                _ => {
                    std::fs::write(&path, dice.pick(&TEXTS))?;
                    let mode = if dice.once_in(2) { 0o600 } else { 0o644 };
                    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
                }
            }
        }
    }
    Ok(())
}
