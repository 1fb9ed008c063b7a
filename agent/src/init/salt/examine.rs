//! Salt tree and host in, report out: every SLS is compiled by itself, strictly and in Salt mode.

use std::collections::BTreeMap;
use std::sync::Arc;

use zagent_compiler::functions::Functions;
use zagent_compiler::{
    Compat, CompileInputs, CompileOptions, CompileTarget, Compiler, FileTree, TemplateHost,
};
use zagent_config::{Diagnostic, Value};
use zagent_states::schema;

use super::report::{FunctionUse, SaltReport, SaltSpot, SlsOutcome, SlsReport, SupportLevel};
use super::union_files::UnionFiles;
use super::{SaltTree, features, is_ignored, pillar_example, scan};

/// Supported renderers.
const RENDERERS: [&str; 9] =
    ["jinja", "yaml", "json", "text", "gpg", "age", "stateconf", "yaml_jinja", "json_jinja"];
/// Larger files are data, not templates.
const MAX_TEMPLATE_BYTES: usize = 1 << 20;

/// Examines a tree for one host.
#[must_use]
pub fn examine_tree(tree: &SaltTree, host: &Arc<dyn TemplateHost>, options: &CompileOptions) -> SaltReport {
    let files = |roots| -> Arc<dyn FileTree> { Arc::new(UnionFiles::new(roots)) };
    let (states, pillar) = (files(&tree.states), files(&tree.pillar));
    let own = own_sls(tree, &*states);
    let mut exam = TreeExam::new(&states, &pillar, host, options);
    own.iter().for_each(|(env, path)| exam.examine_sls(env, path));
    for example in pillar_example::find(tree) {
        let mut with = options.clone();
        for (key, value) in example.data.iter() {
            with.pillar_override.insert(key.clone(), value.clone());
        }
        let mut other = TreeExam::new(&states, &pillar, host, &with);
        own.iter().for_each(|(env, path)| other.examine_sls(env, path));
        exam.report.use_example(example.file, other.report);
    }
    exam.examine_highstate();
    exam.examine_templates(&*states);
    exam.examine_templates(&*pillar);
    let shown = |roots: &super::SaltRoots| {
        let dirs = roots.iter().flat_map(|(_, dirs)| dirs);
        dirs.map(|d| d.display().to_string()).collect::<Vec<_>>()
    };
    let mut report = exam.finish();
    report.roots = (shown(&tree.states), shown(&tree.pillar));
    report.missing = tree.missing.iter().map(|d| d.display().to_string()).collect();
    report.features = features::find_features(tree, &*states, &*pillar);
    report
}

/// The SLS files of a tree: environment and path.
fn own_sls(tree: &SaltTree, states: &dyn FileTree) -> Vec<(String, String)> {
    let nested = nested_pillars(tree);
    let is_own = |p: &String| !is_ignored(p) && p != "top.sls" && !nested.iter().any(|n| p.starts_with(n));
    let mut all = Vec::new();
    for env in states.envs() {
        let list = states.list(&env).unwrap_or_else(|_| Arc::new([]));
        let own = list.iter().filter(|p| p.ends_with(".sls") && is_own(p));
        all.extend(own.map(|path| (env.clone(), path.clone())));
    }
    all
}

/// Pillar trees inside a states tree, as path prefixes: their files are not states SLS files.
fn nested_pillars(tree: &SaltTree) -> Vec<String> {
    let dirs = |roots: &super::SaltRoots| roots.iter().flat_map(|(_, dirs)| dirs.clone()).collect::<Vec<_>>();
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

/// State of the examination.
struct TreeExam {
    states: Arc<dyn FileTree>,
    strict: Compiler,
    lenient: Compiler,
    functions: Functions,
    used: BTreeMap<String, FunctionUse>,
    called: BTreeMap<String, FunctionUse>,
    rendered: BTreeMap<String, FunctionUse>,
    report: SaltReport,
}

impl TreeExam {
    fn new(
        states: &Arc<dyn FileTree>,
        pillar: &Arc<dyn FileTree>,
        host: &Arc<dyn TemplateHost>,
        options: &CompileOptions,
    ) -> Self {
        let inputs = |compat, pillar: &Arc<dyn FileTree>| CompileInputs {
            states: Arc::clone(states),
            pillar: Arc::clone(pillar),
            host: Arc::clone(host),
            schema: schema(),
            options: Arc::new(CompileOptions { compat, ..options.clone() }),
        };
        let mut report = SaltReport { node: options.id.clone(), ..SaltReport::default() };
        let mut pillar = Arc::clone(pillar);
        // A pillar that does not compile would hide everything else: it is reported, and the states see an
        // empty pillar.
        if let Err(faults) = Compiler::new(inputs(Compat::Strict, &pillar)).pillar() {
            report.pillar = faults.0.iter().map(ToString::to_string).collect();
            if Compiler::new(inputs(Compat::Salt, &pillar)).pillar().is_err() {
                pillar = Arc::new(UnionFiles::new(&Vec::new()));
            }
        }
        let strict = Compiler::new(inputs(Compat::Strict, &pillar));
        if states.envs().iter().any(|env| states.has(env, "top.sls")) {
            match strict.top_targets() {
                Ok(targets) => {
                    let spot =
                        |p: &zagent_config::FileLocation| SaltSpot { file: p.file.clone(), line: p.pos.line };
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

    /// Compiles what the top file selects for this node, all together: what each SLS does alone may clash.
    fn examine_highstate(&mut self) {
        if !self.report.top.is_empty() || !self.report.targets.iter().any(|(_, _, matched, _)| *matched) {
            return;
        }
        let target = CompileTarget::Highstate;
        let compiled = self.strict.compile(&target).or_else(|_| self.lenient.compile(&target));
        if let Err(faults) = compiled {
            self.report.highstate = faults.0.iter().map(ToString::to_string).collect();
        }
    }

    /// Compiles one SLS by itself.
    fn examine_sls(&mut self, env: &str, path: &str) {
        let name = sls_name(path);
        let file = self.states.display(env, path);
        let want = CompileTarget::Sls { names: vec![name.clone()], env: env.to_owned() };
        let (outcome, found) = match self.strict.compile(&want) {
            Ok(compiled) => (SlsOutcome::Compiles, Some((&self.strict, compiled))),
            Err(faults) => match self.lenient.compile(&want) {
                Ok(compiled) => {
                    let why = faults.0.first().map(|f| f.message.clone()).unwrap_or_default();
                    (SlsOutcome::WithCompat(why), Some((&self.lenient, compiled)))
                }
                Err(_) => (failed_outcome(faults.0.first()), None),
            },
        };
        let text = self.read_text(env, path);
        let uses: Vec<(String, SaltSpot)> = match &found {
            Some((compiler, compiled)) => {
                let own = compiled.plan.chunks.iter().filter(|c| !c.prereq.check);
                let own = own.filter(|c| *c.sls == *name && *c.env == *env);
                let place = |chunk| {
                    let place = compiler.place(chunk);
                    SaltSpot { file: place.file, line: place.pos.line }
                };
                own.map(|c| (format!("{}.{}", c.state, c.fun), place(c))).collect()
            }
            None => {
                let spot = |line| SaltSpot { file: file.clone(), line };
                scan::scan_states(&text).into_iter().map(|(name, line)| (name, spot(line))).collect()
            }
        };
        let is_compiled = found.is_some();
        let (declared, mut run) = (uses.len(), 0);
        for (function, spot) in uses {
            let level = support_level(&function);
            run += usize::from(is_compiled && level == SupportLevel::Runs);
            add_use(&mut self.used, function, level, spot);
        }
        for renderer in scan::scan_renderers(&text) {
            let level = if RENDERERS.contains(&renderer.as_str()) {
                SupportLevel::Runs
            } else {
                SupportLevel::Unknown
            };
            add_use(&mut self.rendered, renderer, level, SaltSpot { file: file.clone(), line: 1 });
        }
        self.report.sls.push(SlsReport {
            env: env.to_owned(),
            name,
            file,
            outcome,
            with_example: None,
            declared,
            run,
        });
    }

    /// Records template calls in every file that may be a template.
    fn examine_templates(&mut self, files: &dyn FileTree) {
        for env in files.envs() {
            let list = files.list(&env).unwrap_or_else(|_| Arc::new([]));
            for path in list.iter().filter(|p| !is_ignored(p)) {
                let Ok(Some(bytes)) = files.read(&env, path) else { continue };
                let text = std::str::from_utf8(&bytes).unwrap_or_default();
                let is_template = text.contains("{{") || text.contains("{%");
                if !is_template || text.len() > MAX_TEMPLATE_BYTES {
                    continue;
                }
                let file = files.display(&env, path);
                for (name, line) in scan::scan_functions(text) {
                    let is_here = self.functions.contains(&name) || zagent_states::functions::is_known(&name);
                    let level = if is_here { SupportLevel::Runs } else { SupportLevel::Unknown };
                    add_use(&mut self.called, name, level, SaltSpot { file: file.clone(), line });
                }
            }
        }
    }

    fn read_text(&self, env: &str, path: &str) -> String {
        let bytes = self.states.read(env, path).ok().flatten().unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn finish(mut self) -> SaltReport {
        self.report.states = sort_by_use(self.used);
        self.report.functions = sort_by_use(self.called);
        self.report.renderers = sort_by_use(self.rendered);
        self.report
    }
}

fn failed_outcome(fault: Option<&Diagnostic>) -> SlsOutcome {
    let (code, message) = fault.map(|f| (f.code.id.to_owned(), f.message.clone())).unwrap_or_default();
    let place = fault.and_then(|f| f.location.as_ref());
    SlsOutcome::Fails {
        code,
        message,
        place: place.map(|p| SaltSpot { file: p.file.clone(), line: p.pos.line }),
    }
}

/// `web/init.sls` is `web`, `web/tls.sls` is `web.tls`.
fn sls_name(path: &str) -> String {
    let stem = path.strip_suffix(".sls").unwrap_or(path);
    stem.strip_suffix("/init").unwrap_or(stem).replace('/', ".")
}

/// How far a state function is supported.
fn support_level(function: &str) -> SupportLevel {
    let known = function.split_once('.').and_then(|(module, name)| schema().function(module, name));
    match known {
        Some(known) if known.describe().is_some_and(|d| !d.traits.is_unimplemented) => SupportLevel::Runs,
        Some(_) => SupportLevel::Known,
        None => SupportLevel::Unknown,
    }
}

fn add_use(all: &mut BTreeMap<String, FunctionUse>, name: String, level: SupportLevel, spot: SaltSpot) {
    let entry = all.entry(name.clone()).or_insert_with(|| FunctionUse { name, level, places: Vec::new() });
    entry.places.push(spot);
}

fn sort_by_use(all: BTreeMap<String, FunctionUse>) -> Vec<FunctionUse> {
    let mut list: Vec<FunctionUse> = all.into_values().collect();
    zagent_config::sorted::sort_by_key(&mut list, |u| std::cmp::Reverse(u.places.len()));
    list
}
