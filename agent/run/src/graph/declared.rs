//! A plan in, the edges of the schedule `declared` out: written order between states that may touch the same thing.
//!
//! A state of `file` touches the path that it names, those that its guards test and those that it copies from; a state of `test`
//! touches nothing; everything else (commands, packages, users, services, a guard that runs a program) may touch anything and is a
//! barrier. Law: edges follow the written order, and their number grows with that of the states (held by
//! `overlapping_states_keep_the_written_order`, `the_number_of_edges_is_linear`).

use std::borrow::Cow;

use hashbrown::HashMap;
use zagent_compiler::{Chunk, Plan, name_text};
use zagent_config::Value;
use zagent_host::exec::builtin_test::{self, BuiltinTest};

use super::{managed_path, parent_dir, parent_dirs};
use crate::guard;

/// The edges of a plan.
#[derive(Debug, Default)]
pub(super) struct DeclaredEdges {
    /// Between states on the same things.
    pub(super) shared: Vec<(usize, usize)>,
    /// From and to states that may touch anything.
    pub(super) barriers: Vec<(usize, usize)>,
}

/// What a state touches.
enum Footprint {
    /// Nothing that another state could see.
    Nothing,
    /// These paths.
    Paths(Vec<Visit>),
    /// Anything.
    Anything,
}

/// One path, and whether the directories above it are made on the way.
struct Visit {
    path: String,
    /// With which owner and mode; nothing for a state that makes none.
    makes: Option<String>,
}

/// Functions of `file` that touch the path in their name, what is below it, and nothing else on the host.
const PATH_FUNCTIONS: [&str; 16] = [
    "absent",
    "append",
    "blockreplace",
    "comment",
    "directory",
    "exists",
    "keyvalue",
    "line",
    "managed",
    "missing",
    "prepend",
    "replace",
    "serialize",
    "touch",
    "uncomment",
    "cached",
];

/// The edges of a plan; its chunks stand in the written order.
pub(super) fn declared_edges(plan: &Plan) -> DeclaredEdges {
    let mut edges = DeclaredEdges::default();
    let mut barrier: Option<usize> = None;
    let mut since: Vec<usize> = Vec::new();
    let mut paths = PathOrder::default();
    let links = Links::of(plan);
    for (i, chunk) in plan.chunks.iter().enumerate() {
        match footprint(chunk) {
            Footprint::Nothing => {}
            Footprint::Anything => {
                if since.is_empty() {
                    edges.barriers.extend(barrier.map(|before| (before, i)));
                }
                edges.barriers.extend(since.drain(..).map(|before| (before, i)));
                barrier = Some(i);
                paths = PathOrder::default();
            }
            Footprint::Paths(visits) => {
                edges.barriers.extend(barrier.map(|before| (before, i)));
                since.push(i);
                for visit in visits {
                    for other in links.other_names(&visit.path) {
                        paths.visit(i, &Visit { path: other, makes: None }, &mut edges.shared);
                    }
                    paths.visit(i, &visit, &mut edges.shared);
                }
            }
        }
    }
    edges.shared.retain(|(from, to)| from != to);
    edges.shared.sort_unstable();
    edges.shared.dedup();
    edges
}

/// What a chunk touches, as far as its text says.
fn footprint(chunk: &Chunk) -> Footprint {
    let args = &chunk.args;
    let is_slot = |v: &Value| v.as_str().is_some_and(|text| text.starts_with("__slot__"));
    if args.contains("check_cmd") || is_slot(&chunk.name) || args.values().any(is_slot) {
        return Footprint::Anything;
    }
    let Some(mut visits) = guard_visits(chunk) else { return Footprint::Anything };
    match &*chunk.state {
        "test" if visits.is_empty() => Footprint::Nothing,
        "test" => Footprint::Paths(visits),
        "file" if PATH_FUNCTIONS.contains(&&*chunk.fun) => {
            let path = managed_path(chunk).filter(|path| !path.contains("/../") && !path.ends_with("/.."));
            let (Some(path), Some(sources)) = (path, source_visits(chunk)) else {
                return Footprint::Anything;
            };
            visits.extend(sources);
            visits.push(Visit { path: path.into_owned(), makes: made_dirs(chunk) });
            Footprint::Paths(visits)
        }
        "host" => {
            visits.push(Visit { path: "/etc/hosts".into(), makes: None });
            Footprint::Paths(visits)
        }
        _ => Footprint::Anything,
    }
}

/// How a state makes directories on the way, when it does: states that make them in the same way need no order.
fn made_dirs(chunk: &Chunk) -> Option<String> {
    chunk.args.get("makedirs").filter(|v| v.is_truthy())?;
    let said = ["user", "group", "dir_mode", "mode", "makedirs"].iter();
    Some(said.map(|key| chunk.args.get(key).map(name_text).unwrap_or_default()).collect::<Vec<_>>().join("|"))
}

/// The paths that guards test; nothing when one runs a program.
fn guard_visits(chunk: &Chunk) -> Option<Vec<Visit>> {
    if guard::runs_command(chunk) {
        return None;
    }
    let mut visits = Vec::new();
    for key in ["onlyif", "unless"] {
        for line in chunk.args.get(key).map(entries).unwrap_or_default() {
            if let Some(test) = line.as_str().and_then(|line| builtin_test::parse(line, None)) {
                visits.extend(tested_path(&test).map(|path| Visit { path, makes: None }));
            }
        }
    }
    for path in chunk.args.get("creates").map(entries).unwrap_or_default() {
        visits.push(Visit { path: absolute(path.as_str()?)?, makes: None });
    }
    Some(visits)
}

fn tested_path(test: &BuiltinTest) -> Option<String> {
    match test {
        BuiltinTest::Constant(_) => None,
        BuiltinTest::Not(inner) => tested_path(inner),
        BuiltinTest::File(_, path) => Some(path.to_string_lossy().into_owned()),
    }
}

/// The files of the host that a state copies from; nothing when they cannot be told.
fn source_visits(chunk: &Chunk) -> Option<Vec<Visit>> {
    let mut visits = Vec::new();
    for key in ["source", "sources", "source_hash"] {
        for source in chunk.args.get(key).map(entries).unwrap_or_default() {
            let text = match source {
                Value::Str(text) => &**text,
                Value::Null => continue,
                _ => return None,
            };
            let local = text.strip_prefix("file://").unwrap_or(text);
            if local.starts_with('/') {
                visits.push(Visit { path: absolute(local)?, makes: None });
            }
        }
    }
    Some(visits)
}

fn entries(value: &Value) -> Vec<&Value> {
    match value {
        Value::List(list) => list.iter().collect(),
        one => vec![one],
    }
}

/// A path written in one way only; nothing when it is not absolute.
fn absolute(path: &str) -> Option<String> {
    (path.starts_with('/') && !path.contains("/../") && !path.ends_with("/..")).then(|| {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        format!("/{}", parts.join("/"))
    })
}

/// Links that states of the plan make: the same file under two names. Links that are on the host already are not known.
struct Links(HashMap<String, String>);

/// Longer chains of links are followed no further.
const MAX_LINKS: usize = 8;

impl Links {
    fn of(plan: &Plan) -> Self {
        let links = plan
            .chunks
            .iter()
            .filter(|chunk| &*chunk.state == "file" && matches!(&*chunk.fun, "symlink" | "hardlink"));
        let ends = links.filter_map(|chunk| {
            let path = managed_path(chunk)?.into_owned();
            let target = chunk.args.get("target")?.as_str()?;
            let target = match target.starts_with('/') {
                true => absolute(target)?,
                false => absolute(&format!("{}/{target}", parent_dir(&path)?))?,
            };
            Some((path, target))
        });
        Self(ends.collect())
    }

    /// The other names of a path: it, or a directory above it, is a link.
    fn other_names(&self, path: &str) -> Vec<String> {
        let (mut found, mut path) = (Vec::new(), path.to_owned());
        while !self.0.is_empty() && found.len() < MAX_LINKS {
            let link = std::iter::once(&*path)
                .chain(parent_dirs(&path))
                .find_map(|name| Some((name, self.0.get(name)?)));
            let Some((name, target)) = link else { break };
            let other = format!("{target}{}", &path[name.len()..]);
            found.push(other.clone());
            path = other;
        }
        found
    }
}

/// Who touched which path last.
#[derive(Default)]
struct PathOrder {
    /// The last state on a path.
    last: HashMap<String, usize>,
    /// States below a path since the last one on it.
    below: HashMap<String, Vec<usize>>,
    /// States in a directory, and how they make it.
    dirs: HashMap<String, DirUsers>,
}

impl PathOrder {
    /// Adds a state, and the edges to those that it may collide with.
    fn visit(&mut self, i: usize, visit: &Visit, edges: &mut Vec<(usize, usize)>) {
        let path = &*visit.path;
        edges.extend(self.last.insert(path.to_owned(), i).map(|before| (before, i)));
        let inside = self.below.get_mut(path).map(std::mem::take).unwrap_or_default();
        edges.extend(inside.into_iter().map(|child| (child, i)));
        for dir in parent_dirs(path) {
            edges.extend(self.last.get(dir).map(|&before| (before, i)));
            self.below.entry(dir.to_owned()).or_default().push(i);
        }
        // What asks for a directory, or stands in it, comes after those that make it on the way.
        self.dirs.entry(path.to_owned()).or_default().join(i, None, edges);
        match &visit.makes {
            None => {
                if let Some(dir) = parent_dir(path) {
                    self.dirs.entry(dir.to_owned()).or_default().join(i, None, edges);
                }
            }
            Some(how) => {
                // The directories of the root are always there.
                for dir in parent_dirs(path).filter(|dir| dir.matches('/').count() > 1) {
                    self.dirs.entry(dir.to_owned()).or_default().join(i, Some(how), edges);
                }
            }
        }
    }
}

/// States that use one directory. Those that make it in the same way, or do not make it, need no order among themselves.
#[derive(Default)]
struct DirUsers {
    how: Option<Cow<'static, str>>,
    /// All of the current sort.
    members: Vec<usize>,
    /// The first of the current sort, which all others of it wait for: it waited for the sort before.
    gate: Option<usize>,
}

impl DirUsers {
    fn join(&mut self, i: usize, how: Option<&str>, edges: &mut Vec<(usize, usize)>) {
        if self.members.is_empty() || self.how.as_deref() != how {
            self.gate = (!self.members.is_empty()).then_some(i);
            edges.extend(self.members.drain(..).map(|before| (before, i)));
            self.how = how.map(|how| Cow::Owned(how.to_owned()));
        } else {
            edges.extend(self.gate.map(|gate| (gate, i)));
        }
        self.members.push(i);
    }
}

#[cfg(test)]
mod tests {
    use zagent_config::Map;

    use super::*;

    fn chunk(text: &str) -> Chunk {
        let (head, rest) = text.split_once(' ').unwrap();
        let (state, fun) = head.split_once('.').unwrap();
        let mut words = rest.split(' ');
        let name = words.next().unwrap();
        let args = words.map(|word| word.split_once('=').unwrap());
        let args = args.map(|(key, value)| (key, Value::from(value.replace('~', " "))));
        Chunk::single(state, fun, name, Map::from_iter(args))
    }

    fn all_edges(lines: &[&str]) -> Vec<(usize, usize)> {
        let chunks = lines.iter().map(|line| chunk(line)).collect();
        let plan = Plan { chunks, graph: zagent_compiler::RequisiteGraph::default() };
        let DeclaredEdges { mut shared, barriers } = declared_edges(&plan);
        shared.extend(barriers);
        shared.sort_unstable();
        shared
    }

    #[test]
    fn overlapping_states_keep_the_written_order() {
        type Row = (&'static [&'static str], &'static [(usize, usize)]);
        let table: &[Row] = &[
            (&["file.managed /a/x", "file.managed /a/y"], &[]),
            (&["file.managed /a/x", "file.append /a/x"], &[(0, 1)]),
            (&["file.managed /a/x", "file.directory /a"], &[(0, 1)]),
            (&["file.directory /a", "file.managed /a/x", "file.managed /a/y"], &[(0, 1), (0, 2)]),
            (&["file.managed /a/x", "cmd.run id", "file.managed /a/y"], &[(0, 1), (1, 2)]),
            (&["cmd.run id", "cmd.run id"], &[(0, 1)]),
            (&["pkg.installed a", "test.nop x", "service.running a"], &[(0, 2)]),
            (&["file.managed /a/x", "file.managed /a/y unless=test~-f~/a/x"], &[(0, 1)]),
            (&["file.managed /a/x", "file.managed /b/y unless=grep~x~/c"], &[(0, 1)]),
            (&["file.managed /a/x", "file.managed /b/y creates=/a/x"], &[(0, 1)]),
            (&["file.managed /a/x", "file.managed /b/y source=/a/x"], &[(0, 1)]),
            (&["file.managed /a/x", "file.managed /b/y source=salt://x"], &[]),
            (&["file.managed /a/x", "file.managed /b/y check_cmd=x"], &[(0, 1)]),
            (&["file.managed /a/b/x makedirs=y", "file.managed /a/b/y"], &[(0, 1)]),
            (&["file.managed /a/b/x makedirs=y", "file.managed /a/b/y makedirs=y"], &[]),
            (&["file.managed /a/b/x makedirs=y", "file.managed /a/b/y makedirs=y user=web"], &[(0, 1)]),
            (&["file.managed /a/b/x makedirs=y", "file.managed /c/y onlyif=test~-d~/a/b"], &[(0, 1)]),
            (&["host.present a", "file.managed /etc/hosts"], &[(0, 1)]),
            (
                &["file.symlink /a/l target=/b/t", "file.append /a/l", "file.managed /b/t"],
                &[(0, 1), (0, 2), (1, 2)],
            ),
            (
                &["file.symlink /a/l target=../b", "file.append /a/l/x", "file.managed /b/x"],
                &[(0, 1), (0, 2)],
            ),
            (
                &["file.symlink /a/l target=b", "file.append /a/l/x", "file.managed /a/b/x"],
                &[(0, 1), (0, 2), (1, 2)],
            ),
        ];
        for (lines, expected) in table {
            assert_eq!(all_edges(lines), *expected, "{lines:?}");
        }
    }

    #[test]
    fn the_number_of_edges_is_linear() {
        let states = 20_000;
        let plans: [fn(usize) -> String; 4] = [
            |i| format!("file.managed /srv/app/f{i}"),
            |i| format!("file.managed /srv/app/d/f{i} makedirs={}", if i % 2 == 0 { "y" } else { "" }),
            |i| if i % 2 == 0 { "cmd.run id".into() } else { format!("file.managed /srv/f{i}") },
            |i| {
                if i == 10_000 {
                    "file.directory /srv".into()
                } else {
                    format!("file.managed /srv/a/b/f{}", i % 99)
                }
            },
        ];
        for line in plans {
            let lines: Vec<String> = (0..states).map(line).collect();
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let edges = all_edges(&lines).len();
            assert!(edges < 12 * states, "{edges} edges: {}", lines[0]);
        }
    }
}
