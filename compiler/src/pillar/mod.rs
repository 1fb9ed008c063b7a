//! Pillar trees in, one mapping out: top files, includes with keys and defaults, merge strategies, external pillars.
//!
//! What Salt puts into `_errors` is collected, not returned as an error: the caller decides whether to stop.

mod document;
mod top;

use std::collections::HashMap;
use std::sync::Arc;

use zagent_config::codes::pillar as codes;
use zagent_config::target::TargetSubject;
use zagent_config::value::{merge, traverse};
use zagent_config::{Diagnostic, FileLocation, Map, Value, glob};

use crate::input::Cipher;
use crate::session::{CompileSession, render};
use crate::source_files::{FileId, ReachedBy, RenderedPos};

/// A pillar error: zagent's diagnostic, and the line that Salt stores in `_errors`.
#[derive(Clone, Debug)]
pub(crate) struct PillarError {
    pub(crate) salt_message: String,
    pub(crate) diagnostic: Diagnostic,
}

/// A compiled pillar.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pillar {
    /// The data.
    pub(crate) value: Map,
    /// Its errors.
    pub(crate) errors: Vec<PillarError>,
    /// Each document that was merged, in order, to find where a key is set.
    documents: Vec<(FileId, Value)>,
}

impl Pillar {
    /// The pillar with Salt's `_errors` in it, if there are any.
    pub(crate) fn with_errors(&self) -> Value {
        let mut map = self.value.clone();
        if !self.errors.is_empty() {
            map.insert(
                "_errors",
                self.errors.iter().map(|t| Value::from(t.salt_message.clone())).collect::<Value>(),
            );
        }
        map.into()
    }

    /// A second pass over this pillar: its keys win, and what only the first pass had stays, including errors.
    pub(crate) fn merged_with(mut self, second: Self) -> Self {
        for (key, value) in second.value.iter() {
            self.value.insert(key.clone(), value.clone());
        }
        let errors = if second.errors.is_empty() { self.errors } else { second.errors };
        Self { value: self.value, errors, documents: second.documents }
    }

    /// Where a nested key is set: the last document that has it.
    pub(crate) fn origin(&self, session: &CompileSession, path: &str) -> Option<FileLocation> {
        let (parent, key) = path.rsplit_once(':').map_or((None, path), |(p, k)| (Some(p), k));
        self.documents.iter().rev().find_map(|(file, document)| {
            let holder = match parent {
                Some(parent) => traverse(document, parent, ":")?,
                None => document,
            };
            let entry = holder.as_map()?.entry(key)?;
            Some(session.place(RenderedPos { file: *file, pos: entry.at }))
        })
    }
}

/// Compiles the pillar of a node; `over` is merged over the trees.
pub(crate) fn compile(session: &CompileSession, subject: &dyn TargetSubject, over: &Map) -> Pillar {
    let mut compiler = PillarCompiler {
        session,
        errors: Vec::new(),
        ignored: HashMap::new(),
        documents: Vec::new(),
        depth: 0,
    };
    let over = Value::from(over.clone());
    let resource = session.options().resource.as_ref();
    let mut pillar = match resource.and_then(|resource| resource.pillar.clone()) {
        Some(given) => given.into(),
        None => compiler.compile_trees(subject, &over),
    };
    if over.is_truthy() {
        pillar = compiler.merge(&pillar, &over);
    }
    pillar = compiler.decrypt_keys(&pillar);
    let mut value = match pillar {
        Value::Map(map) => Arc::unwrap_or_clone(map),
        _ => Map::new(),
    };
    // How the node reaches its resources is nothing for the resources themselves.
    if resource.is_some() {
        value.remove(&session.options().resources_key);
    }
    Pillar { value, errors: compiler.errors, documents: compiler.documents }
}

struct PillarCompiler<'s> {
    session: &'s CompileSession,
    errors: Vec<PillarError>,
    /// SLS that may be missing, by environment.
    ignored: HashMap<Arc<str>, Vec<Arc<str>>>,
    documents: Vec<(FileId, Value)>,
    depth: usize,
}

/// The SLS of one environment that were selected, each with what selected it.
type EnvSelection = (Arc<str>, Vec<(Arc<str>, ReachedBy)>);

/// The documents of one environment that were read, by SLS; includes removed.
type ReadDocuments = HashMap<Arc<str>, Value>;

impl PillarCompiler<'_> {
    /// What the top files and the external pillars give.
    fn compile_trees(&mut self, subject: &dyn TargetSubject, over: &Value) -> Value {
        let (patterns, top_troubles) = self.read_tops();
        let matches = self.match_targets(&patterns, subject);
        let mut pillar = Value::empty_map();
        for (env, names) in matches {
            pillar = self.merge_env(&env, &names, pillar);
        }
        pillar = self.add_external_pillar(pillar, over);
        self.errors.extend(top_troubles);
        pillar
    }

    fn merge(&self, base: &Value, over: &Value) -> Value {
        let options = self.session.options();
        merge(base, over, options.pillar_merge, options.pillar_merge_lists)
    }

    fn add_error(&mut self, salt: impl Into<String>, diagnostic: Diagnostic) {
        self.errors.push(PillarError { salt_message: salt.into(), diagnostic });
    }

    fn merge_env(&mut self, env: &Arc<str>, names: &[(Arc<str>, ReachedBy)], mut pillar: Value) -> Value {
        let known = self.session.has_env(env);
        let mut seen = ReadDocuments::new();
        for (name, reached) in names {
            if !known {
                let diagnostic = Diagnostic::new(codes::ENV, format!("pillar environment `{env}` not found"))
                    .hint(format!("environments: {}", self.session.envs().join(", ")));
                let diagnostic = self.session.at_requester(diagnostic, reached);
                self.add_error(
                    format!("No matching pillar environment for environment '{env}' found"),
                    diagnostic,
                );
            }
            let found =
                if known && glob::is_pattern(name) { self.available_sls(env, name) } else { Vec::new() };
            let found = if found.is_empty() { vec![name.clone()] } else { found };
            for sls in found {
                let document = self.read_sls(env, &sls, reached.clone(), &mut seen, &Map::new());
                if let Some(document @ Value::Map(_)) = document {
                    pillar = self.merge(&pillar, &document);
                }
            }
        }
        pillar
    }

    fn available_sls(&mut self, env: &str, pattern: &str) -> Vec<Arc<str>> {
        match self.session.available_sls(env) {
            Ok(all) => all.iter().filter(|sls| glob::matches(pattern, sls)).cloned().collect(),
            Err(diagnostic) => {
                self.add_error(diagnostic.message.clone(), *diagnostic);
                Vec::new()
            }
        }
    }

    /// Reports a pillar SLS that is not there.
    fn add_missing(&mut self, env: &str, sls: &str, reached: &ReachedBy) {
        let all = self.session.available_sls(env).unwrap_or_default();
        let mut diagnostic =
            Diagnostic::new(codes::NOT_FOUND, format!("pillar SLS `{sls}` not found in environment `{env}`"));
        diagnostic.hint = Some(match zagent_config::suggest::nearest(sls, all.iter().map(|s| &**s)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "if it may be missing, list it with `- ignore_missing: true`".into(),
        });
        let diagnostic = self.session.at_requester(diagnostic, reached);
        self.add_error(
            format!("Specified SLS '{sls}' in environment '{env}' is not available on the salt master"),
            diagnostic,
        );
    }

    fn add_external_pillar(&mut self, pillar: Value, over: &Value) -> Value {
        match self.session.host().external_pillar(&pillar) {
            Ok(more) if more.is_empty() => pillar,
            Ok(more) => {
                let mut pillar = if over.is_truthy() { self.merge(&pillar, over) } else { pillar };
                for value in more.iter().filter(|v| v.is_truthy()) {
                    pillar = self.merge(&pillar, value);
                }
                pillar
            }
            Err(why) => {
                let diagnostic = Diagnostic::new(codes::EXTERNAL, why)
                    .hint("check the program in `ext_pillar` of the configuration");
                self.add_error(format!("Failed to load ext_pillar: {}", diagnostic.message), diagnostic);
                pillar
            }
        }
    }

    /// `decrypt_pillar`: keys whose whole values are decrypted.
    fn decrypt_keys(&mut self, pillar: &Value) -> Value {
        let mut pillar = pillar.clone();
        let opts = &self.session.options().opts;
        let Some(list) = opts.get("decrypt_pillar").and_then(Value::as_list) else { return pillar };
        let delimiter = opts.get("decrypt_pillar_delimiter").and_then(Value::as_str).unwrap_or(":");
        for item in list.iter() {
            let (key, renderer) = match item {
                Value::Map(map) => match map.iter().next() {
                    Some((key, renderer)) => (key.json_key(), renderer.as_str().unwrap_or("gpg").to_string()),
                    None => continue,
                },
                other => (other.json_key(), "gpg".into()),
            };
            let cipher = if renderer == "age" { Cipher::Age } else { Cipher::Gpg };
            let path: Vec<&str> = key.split(delimiter).collect();
            match self.decrypt_at(&pillar, &path, cipher) {
                Ok(done) => pillar = done,
                Err(diagnostic) => {
                    self.add_error(
                        format!("Failed to decrypt pillar key '{key}': {}", diagnostic.message),
                        *diagnostic,
                    );
                }
            }
        }
        pillar
    }

    fn decrypt_at(&self, value: &Value, path: &[&str], cipher: Cipher) -> Result<Value, Box<Diagnostic>> {
        let Some((first, rest)) = path.split_first() else {
            return render::decrypt(self.session, None, cipher, value);
        };
        let Value::Map(map) = value else { return Ok(value.clone()) };
        let Some(inner) = map.get(first) else { return Ok(value.clone()) };
        let done = self.decrypt_at(inner, rest, cipher)?;
        let mut map = (**map).clone();
        map.insert(*first, done);
        Ok(map.into())
    }
}
