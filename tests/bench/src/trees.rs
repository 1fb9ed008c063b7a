//! Workloads: a state tree, what its files should be, and the same as a pack for `phys`.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Files in a directory, and states in a chain.
const GROUP: usize = 20;
const CHAIN: usize = 100;

/// What a tree holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Files of 1 KiB with inline contents.
    Files,
    /// Files from one template with a loop of 20.
    Templates,
    /// Chains of states without effect.
    Chains,
    /// One `test.nop`.
    Nothing,
}

/// A tree on disk.
#[derive(Debug)]
pub struct TestTree {
    pub root: PathBuf,
    shape: Shape,
    count: usize,
}

impl TestTree {
    /// Writes a tree.
    pub fn create(shape: Shape, count: usize, root: PathBuf) -> Result<Self> {
        let tree = Self { root, shape, count };
        for dir in ["states", "pillar", "target"] {
            fs::create_dir_all(tree.root.join(dir))?;
        }
        fs::write(tree.root.join("pillar/top.sls"), "base: {}\n")?;
        let mut top = "base:\n  '*':\n".to_owned();
        for (name, text) in tree.sls_files() {
            fs::write(tree.root.join(format!("states/{name}.sls")), text)?;
            let _ = writeln!(top, "    - {name}");
        }
        fs::write(tree.root.join("states/top.sls"), top)?;
        if shape == Shape::Templates {
            fs::write(tree.root.join("states/tmpl.j2"), TEMPLATE)?;
        }
        fs::write(tree.pack(), tree.pack_bytes())?;
        Ok(tree)
    }

    pub fn states(&self) -> PathBuf {
        self.root.join("states")
    }

    pub fn pack(&self) -> PathBuf {
        self.root.join("pack")
    }

    fn dir(&self, group: usize) -> PathBuf {
        self.root.join(format!("target/d{group:03}"))
    }

    fn file(&self, i: usize) -> PathBuf {
        self.dir(i / GROUP).join(format!("f{i:05}.txt"))
    }

    fn has_files(&self) -> bool {
        matches!(self.shape, Shape::Files | Shape::Templates)
    }

    fn content(&self, i: usize) -> String {
        match self.shape {
            Shape::Files => content(i),
            _ => rendered(i),
        }
    }

    fn sls_files(&self) -> Vec<(String, String)> {
        match self.shape {
            Shape::Nothing => vec![("nothing".into(), "nothing:\n  test.nop\n".into())],
            Shape::Chains => (0..self.count.div_ceil(CHAIN)).map(chain).collect(),
            Shape::Files | Shape::Templates => {
                (0..self.count.div_ceil(GROUP)).map(|group| self.group_sls(group)).collect()
            }
        }
    }

    fn group_sls(&self, group: usize) -> (String, String) {
        let mut text = format!("{}:\n  file.directory:\n    - mode: '0755'\n", self.dir(group).display());
        for i in group * GROUP..((group + 1) * GROUP).min(self.count) {
            let _ = write!(text, "\n{}:\n  file.managed:\n    - mode: '0644'\n", self.file(i).display());
            if self.shape == Shape::Files {
                text.push_str("    - contents: |\n");
                for line in content(i).lines() {
                    let _ = writeln!(text, "        {line}");
                }
                continue;
            }
            let _ = write!(
                text,
                "    - source: salt://tmpl.j2\n    - template: jinja\n    - context:\n        idx: '{i:05}'\n        things:\n"
            );
            for thing in things(i) {
                let _ = writeln!(text, "          - {thing}");
            }
        }
        (format!("d{group:03}"), text)
    }

    fn pack_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut add = |mode: u32, path: &Path, data: &[u8]| {
            let path = path.as_os_str().as_encoded_bytes();
            for n in [mode, path.len() as u32, data.len() as u32] {
                out.extend_from_slice(&n.to_le_bytes());
            }
            out.extend_from_slice(path);
            out.extend_from_slice(data);
        };
        if self.has_files() {
            (0..self.count.div_ceil(GROUP)).for_each(|group| add(0o040_755, &self.dir(group), b""));
            (0..self.count).for_each(|i| add(0o100_644, &self.file(i), self.content(i).as_bytes()));
        }
        out
    }

    /// The directories that it makes.
    pub fn dirs(&self) -> impl Iterator<Item = PathBuf> {
        (0..self.count.div_ceil(GROUP)).map(|group| self.dir(group))
    }

    /// The files that it makes, and what they hold.
    pub fn files(&self) -> impl Iterator<Item = (PathBuf, String)> {
        (0..self.count).map(|i| (self.file(i), self.content(i)))
    }

    /// Removes what the states make.
    pub fn clear(&self) -> Result<()> {
        fs::remove_dir_all(self.root.join("target"))?;
        Ok(fs::create_dir(self.root.join("target"))?)
    }

    /// Checks content and mode of every file, and that there are no others; returns inodes and times.
    pub fn verify(&self) -> Result<Vec<(u64, i64, i64)>> {
        let mut stamps = Vec::new();
        if !self.has_files() {
            return Ok(stamps);
        }
        let mut found = 0;
        for group in fs::read_dir(self.root.join("target"))? {
            found += fs::read_dir(group?.path())?.count();
        }
        if found != self.count {
            bail!("{found} files instead of {}", self.count);
        }
        for i in 0..self.count {
            let path = self.file(i);
            let meta = fs::metadata(&path).with_context(|| path.display().to_string())?;
            if meta.permissions().mode() & 0o7777 != 0o644 || fs::read(&path)? != self.content(i).as_bytes() {
                bail!("{} is wrong", path.display());
            }
            stamps.push((meta.ino(), meta.ctime(), meta.ctime_nsec()));
        }
        Ok(stamps)
    }
}

const TEMPLATE: &str = "header {{ idx }}\n{% for t in things %}item {{ t }} of {{ idx }}\n{% endfor %}";

fn things(i: usize) -> impl Iterator<Item = String> {
    (0..20).map(move |n| format!("t{:04}", (i * 7 + n * 13) % 10_000))
}

fn rendered(i: usize) -> String {
    let items: String = things(i).map(|thing| format!("item {thing} of {i:05}\n")).collect();
    format!("header {i:05}\n{items}")
}

/// 1 KiB in lines of 64 bytes.
fn content(i: usize) -> String {
    (0..16)
        .map(|n| format!("{:<63}\n", format!("file {i:05} line {n:02} {}", i * 31 + n)))
        .map(dotted)
        .collect()
}

/// Spaces at the end of a line would be lost on the way through an editor.
fn dotted(line: String) -> String {
    let text = line.trim_end();
    format!("{text}{}\n", ".".repeat(line.len() - 1 - text.len()))
}

fn chain(number: usize) -> (String, String) {
    let mut text = String::new();
    for link in 0..CHAIN {
        let _ = writeln!(text, "c{number:03}_s{link:03}:\n  test.nop:\n    - name: c{number:03}_s{link:03}");
        if link > 0 {
            let _ = writeln!(text, "    - require:\n      - test: c{number:03}_s{:03}", link - 1);
        }
    }
    (format!("chain{number:03}"), text)
}
