//! A resource as templates and states see it: its own grains and functions first, then what its machine offers.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use zagent_compiler::{BASE_ENV, CallError, Cipher, FileStamp, FileTree, FunctionCall, TemplateHost};
use zagent_config::Value;
use zagent_config::mask::Secret;
use zagent_config::resources::ResourceConfig;
use zagent_states::functions;
use zagent_states::template_host::live_host::LiveHost;

use crate::dummy::{self, Dummy};
use crate::{Resource, ResourceStore, custom};

/// The folder of external state modules in a tree.
const STATES_FOLDER: &str = "_states/";
/// The function that tells whether a target answers.
const PING: &str = "test.ping";

/// A resource, as the compiler asks it.
pub struct ResourceHost {
    resource: Resource,
    store: ResourceStore,
    inner: LiveHost,
    manager: Arc<dyn TemplateHost>,
}

impl ResourceHost {
    /// A resource on top of the machine that its states work on.
    #[must_use]
    pub fn new(
        resource: &Resource,
        store: &ResourceStore,
        inner: LiveHost,
        manager: Arc<dyn TemplateHost>,
    ) -> Self {
        Self { resource: resource.clone(), store: store.clone(), inner, manager }
    }

    /// Calls a function that only resources of its type have; `None` when it has no such function.
    #[must_use]
    pub fn call_own(&self, call: &FunctionCall) -> Option<Result<Value, CallError>> {
        let name = self.resource.name();
        if let Some(link) = self.resource.link.as_ref().filter(|_| call.function == PING) {
            return Some(link.connect().map(|()| true.into()).map_err(CallError::Failed));
        }
        if let Some(program) = &self.resource.program {
            return program.call(name, call);
        }
        match self.resource.declared.config {
            ResourceConfig::Dummy => Dummy { name: name.clone(), store: self.store.clone() }.call(call),
            _ => None,
        }
    }
}

impl TemplateHost for ResourceHost {
    fn grain(&self, name: &str) -> Option<Value> {
        self.inner.grain(name)
    }

    fn grains(&self) -> Value {
        self.inner.grains()
    }

    fn call(&self, call: &FunctionCall) -> Result<Value, CallError> {
        self.call_own(call).unwrap_or_else(|| match &self.resource.link {
            Some(link) => link.call(call, false),
            None => self.inner.call(call),
        })
    }

    fn call_mutating(&self, call: &FunctionCall) -> Result<Value, CallError> {
        self.call_own(call).unwrap_or_else(|| match &self.resource.link {
            Some(link) => link.call(call, true),
            None => self.inner.call_mutating(call),
        })
    }

    fn manager(&self) -> Option<Arc<dyn TemplateHost>> {
        Some(Arc::clone(&self.manager))
    }

    fn resource(&self) -> Option<Value> {
        Some(self.resource.description())
    }

    fn functions(&self) -> Vec<&'static str> {
        if let Some(link) = &self.resource.link {
            // Without an answer nothing is known to be there, and a call says why.
            let names = link.functions().unwrap_or_default();
            return functions::names_among(&names);
        }
        let mut names = self.inner.functions();
        match (&self.resource.program, &self.resource.declared.config) {
            (Some(program), _) => names.extend(program.functions.iter().map(|name| static_name(name))),
            (None, ResourceConfig::Dummy) => names.extend(dummy::FUNCTIONS.iter().map(|(name, _)| *name)),
            _ => {}
        }
        names
    }

    fn decrypt(&self, cipher: Cipher, armoured: &str) -> Result<Secret, String> {
        self.inner.decrypt(cipher, armoured)
    }

    fn external_pillar(&self, pillar: &Value) -> Result<Vec<Value>, String> {
        self.inner.external_pillar(pillar)
    }

    fn external_tops(&self) -> Result<Vec<Value>, String> {
        self.inner.external_tops()
    }
}

/// A name that lives as long as the program: names of functions are few, and each is kept once.
fn static_name(name: &str) -> &'static str {
    static NAMES: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let names = names.get_or_insert_default();
    if let Some(known) = names.get(name) {
        return known;
    }
    let kept: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(kept);
    kept
}

/// The state tree as a resource of its own type sees it: the state modules that its executable provides are modules of the tree.
pub struct ResourceTree {
    inner: Arc<dyn FileTree>,
    program: String,
    modules: Arc<[String]>,
}

impl ResourceTree {
    /// The tree for a resource; the tree itself when its type provides no state modules.
    #[must_use]
    pub fn wrap(inner: &Arc<dyn FileTree>, resource: &Resource) -> Arc<dyn FileTree> {
        let modules = resource.program.as_ref().map(|program| Arc::clone(&program.states));
        match modules.filter(|modules| !modules.is_empty()) {
            None => Arc::clone(inner),
            Some(modules) => {
                let program = format!("{}{}", custom::FOLDER, resource.name().kind);
                Arc::new(Self { inner: Arc::clone(inner), program, modules })
            }
        }
    }

    /// The file that stands for a path.
    fn real<'p>(&'p self, env: &str, path: &'p str) -> &'p str {
        let module = path.strip_prefix(STATES_FOLDER).filter(|_| env == BASE_ENV);
        match module {
            Some(module) if self.modules.iter().any(|own| own == module) => &self.program,
            _ => path,
        }
    }
}

impl FileTree for ResourceTree {
    fn envs(&self) -> Vec<String> {
        self.inner.envs()
    }

    fn read(&self, env: &str, path: &str) -> Result<Option<Arc<[u8]>>, String> {
        self.inner.read(env, self.real(env, path))
    }

    fn has(&self, env: &str, path: &str) -> bool {
        self.inner.has(env, self.real(env, path))
    }

    fn list(&self, env: &str) -> Result<Arc<[String]>, String> {
        let list = self.inner.list(env)?;
        if env != BASE_ENV {
            return Ok(list);
        }
        let mut all: Vec<String> = list.to_vec();
        all.extend(self.modules.iter().map(|module| format!("{STATES_FOLDER}{module}")));
        all.sort_unstable();
        all.dedup();
        Ok(all.into())
    }

    fn stamp(&self, env: &str, path: &str) -> Option<FileStamp> {
        self.inner.stamp(env, self.real(env, path))
    }

    fn mode(&self, env: &str, path: &str) -> Option<u32> {
        self.inner.mode(env, self.real(env, path))
    }

    fn dirs(&self, env: &str) -> Result<Arc<[String]>, String> {
        self.inner.dirs(env)
    }

    fn links(&self, env: &str) -> Result<Arc<[(String, String)]>, String> {
        self.inner.links(env)
    }

    fn display(&self, env: &str, path: &str) -> String {
        self.inner.display(env, path)
    }
}
