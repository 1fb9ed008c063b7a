//! A Salt tree and a host in, the report out: every SLS is compiled by itself, strictly and as Salt would.

use std::collections::BTreeMap;
use std::sync::Arc;

use zagent_compiler::functions::Functions;
use zagent_compiler::{Compat, Compiler, Files, Host, Inputs, Options, Want, schema};
use zagent_config::{Fault, Value};

use super::report::{Level, Outcome, Report, Sls, Spot, Use};
use super::union::Union;
use super::{Tree, features, is_aside, scan};

/// Renderers that are here.
const RENDERERS: [&str; 8] = ["jinja", "yaml", "json", "text", "gpg", "age", "yaml_jinja", "json_jinja"];
/// Files larger than this hold data, not templates.
const TEMPLATE_BYTES: usize = 1 << 20;

/// Looks at a tree for one host.
#[must_use]
pub fn examine(tree: &Tree, host: &Arc<dyn Host>, options: &Options) -> Report {
    let files = |roots| -> Arc<dyn Files> { Arc::new(Union::new(roots)) };
    let (states, pillar) = (files(&tree.states), files(&tree.pillar));
    let nested = nested(tree);
    let mut exam = Exam::new(&states, &pillar, host, options);
    for env in states.envs() {
        let list = states.list(&env).unwrap_or_else(|_| Arc::new([]));
        let is_own = |p: &String| !is_aside(p) && p != "top.sls" && !nested.iter().any(|n| p.starts_with(n));
        for path in list.iter().filter(|p| p.ends_with(".sls") && is_own(p)) {
            exam.sls(&env, path);
        }
    }
    exam.templates(&*states);
    exam.templates(&*pillar);
    let shown = |roots: &super::Roots| {
        let dirs = roots.iter().flat_map(|(_, dirs)| dirs);
        dirs.map(|d| d.display().to_string()).collect::<Vec<_>>()
    };
    let mut report = exam.finish();
    report.roots = (shown(&tree.states), shown(&tree.pillar));
    report.missing = tree.missing.iter().map(|d| d.display().to_string()).collect();
    report.features = features::features(tree, &*states, &*pillar);
    report
}

/// Pillar trees that stand inside a tree of states, as prefixes of paths: what is in them is no SLS of states.
fn nested(tree: &Tree) -> Vec<String> {
    let dirs = |roots: &super::Roots| roots.iter().flat_map(|(_, dirs)| dirs.clone()).collect::<Vec<_>>();
    let mut found = Vec::new();
    for states in dirs(&tree.states) {
        for pillar in dirs(&tree.pillar) {
            let below = pillar.canonicalize().ok().zip(states.canonicalize().ok());
            let below = below.and_then(|(p, s)| p.strip_prefix(s).ok().map(|rest| rest.to_path_buf()));
            found.extend(below.filter(|b| !b.as_os_str().is_empty()).map(|b| format!("{}/", b.display())));
        }
    }
    found
}

/// What is known while the files are gone through.
struct Exam {
    states: Arc<dyn Files>,
    strict: Compiler,
    lenient: Compiler,
    functions: Functions,
    used: BTreeMap<String, Use>,
    called: BTreeMap<String, Use>,
    rendered: BTreeMap<String, Use>,
    report: Report,
}

impl Exam {
    fn new(
        states: &Arc<dyn Files>,
        pillar: &Arc<dyn Files>,
        host: &Arc<dyn Host>,
        options: &Options,
    ) -> Self {
        let inputs = |compat, pillar: &Arc<dyn Files>| Inputs {
            states: Arc::clone(states),
            pillar: Arc::clone(pillar),
            host: Arc::clone(host),
            options: Arc::new(Options { compat, ..options.clone() }),
        };
        let mut report = Report { node: options.id.clone(), ..Report::default() };
        let mut pillar = Arc::clone(pillar);
        // A pillar that does not compile would hide everything else: it is told, and the states see none.
        if let Err(faults) = Compiler::new(inputs(Compat::Strict, &pillar)).pillar() {
            report.pillar = faults.0.iter().map(ToString::to_string).collect();
            if Compiler::new(inputs(Compat::Salt, &pillar)).pillar().is_err() {
                pillar = Arc::new(Union::new(&Vec::new()));
            }
        }
        let strict = Compiler::new(inputs(Compat::Strict, &pillar));
        if states.envs().iter().any(|env| states.has(env, "top.sls")) {
            match strict.top_targets() {
                Ok(targets) => {
                    let spot = |p: &zagent_config::Place| Spot { file: p.file.clone(), line: p.pos.line };
                    report.targets =
                        targets.into_iter().map(|t| (t.env, t.target, t.matched, spot(&t.place))).collect();
                }
                Err(faults) => report.top = faults.0.iter().map(ToString::to_string).collect(),
            }
        }
        Self {
            states: Arc::clone(states),
            lenient: Compiler::new(inputs(Compat::Salt, &pillar)),
            functions: Functions::new(inputs(Compat::Strict, &pillar), Value::empty_map()),
            strict,
            used: BTreeMap::new(),
            called: BTreeMap::new(),
            rendered: BTreeMap::new(),
            report,
        }
    }

    /// Compiles one SLS by itself.
    fn sls(&mut self, env: &str, path: &str) {
        let name = sls_name(path);
        let file = self.states.display(env, path);
        let want = Want::Sls { names: vec![name.clone()], env: env.to_owned() };
        let (outcome, found) = match self.strict.compile(&want) {
            Ok(compiled) => (Outcome::Compiles, Some((&self.strict, compiled))),
            Err(faults) => match self.lenient.compile(&want) {
                Ok(compiled) => {
                    let why = faults.0.first().map(|f| f.message.clone()).unwrap_or_default();
                    (Outcome::WithCompat(why), Some((&self.lenient, compiled)))
                }
                Err(_) => (fails(faults.0.first()), None),
            },
        };
        let text = self.text(env, path);
        let uses: Vec<(String, Spot)> = match &found {
            Some((compiler, compiled)) => {
                let own = compiled.plan.chunks.iter().filter(|c| !c.prereq.check);
                let own = own.filter(|c| *c.sls == *name && *c.env == *env);
                let place = |chunk| {
                    let place = compiler.place(chunk);
                    Spot { file: place.file, line: place.pos.line }
                };
                own.map(|c| (format!("{}.{}", c.state, c.fun), place(c))).collect()
            }
            None => {
                let spot = |line| Spot { file: file.clone(), line };
                scan::states(&text).into_iter().map(|(name, line)| (name, spot(line))).collect()
            }
        };
        let is_compiled = found.is_some();
        let (declared, mut run) = (uses.len(), 0);
        for (function, spot) in uses {
            let level = level(&function);
            run += usize::from(is_compiled && level == Level::Runs);
            note(&mut self.used, function, level, spot);
        }
        for renderer in scan::renderers(&text) {
            let level = if RENDERERS.contains(&renderer.as_str()) { Level::Runs } else { Level::Unknown };
            note(&mut self.rendered, renderer, level, Spot { file: file.clone(), line: 1 });
        }
        self.report.sls.push(Sls { env: env.to_owned(), name, file, outcome, declared, run });
    }

    /// Notes what templates call, in every file that may be one.
    fn templates(&mut self, files: &dyn Files) {
        for env in files.envs() {
            let list = files.list(&env).unwrap_or_else(|_| Arc::new([]));
            for path in list.iter().filter(|p| !is_aside(p)) {
                let Ok(Some(bytes)) = files.read(&env, path) else { continue };
                let text = std::str::from_utf8(&bytes).unwrap_or_default();
                let is_template = text.contains("{{") || text.contains("{%");
                if !is_template || text.len() > TEMPLATE_BYTES {
                    continue;
                }
                let file = files.display(&env, path);
                for (name, line) in scan::functions(text) {
                    let is_here = self.functions.contains(&name) || crate::host::functions::is_known(&name);
                    let level = if is_here { Level::Runs } else { Level::Unknown };
                    note(&mut self.called, name, level, Spot { file: file.clone(), line });
                }
            }
        }
    }

    fn text(&self, env: &str, path: &str) -> String {
        let bytes = self.states.read(env, path).ok().flatten().unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn finish(mut self) -> Report {
        self.report.states = by_use(self.used);
        self.report.functions = by_use(self.called);
        self.report.renderers = by_use(self.rendered);
        self.report
    }
}

fn fails(fault: Option<&Fault>) -> Outcome {
    let (code, message) = fault.map(|f| (f.code.id.to_owned(), f.message.clone())).unwrap_or_default();
    let place = fault.and_then(|f| f.place.as_ref());
    Outcome::Fails { code, message, place: place.map(|p| Spot { file: p.file.clone(), line: p.pos.line }) }
}

/// `web/init.sls` is `web`, `web/tls.sls` is `web.tls`.
fn sls_name(path: &str) -> String {
    let stem = path.strip_suffix(".sls").unwrap_or(path);
    stem.strip_suffix("/init").unwrap_or(stem).replace('/', ".")
}

/// How far a state function is supported.
fn level(function: &str) -> Level {
    let known = function.split_once('.').and_then(|(module, name)| schema::function(module, name));
    match known {
        Some(known) if known.describe().is_some_and(|d| !d.marks.unbuilt) => Level::Runs,
        Some(_) => Level::Known,
        None => Level::Unknown,
    }
}

fn note(all: &mut BTreeMap<String, Use>, name: String, level: Level, spot: Spot) {
    let entry = all.entry(name.clone()).or_insert_with(|| Use { name, level, places: Vec::new() });
    entry.places.push(spot);
}

fn by_use(all: BTreeMap<String, Use>) -> Vec<Use> {
    let mut list: Vec<Use> = all.into_values().collect();
    list.sort_by_key(|u| std::cmp::Reverse(u.places.len()));
    list
}
