//! Execution functions: `salt['pillar.get']('a:b')` in, a value out.
//!
//! Law: a function reads, and changes nothing except the template's own values. Access to the machine goes through
//! [`TemplateHost`]; an unknown function is an error that names it (held by
//! `pure_modules_do_not_touch_the_machine`, `every_error_matches_its_golden_file`).
//!
//! Two kinds of functions: most take data and return new data; some (`pillar.get`, `grains.filter_by`,
//! `defaults.merge`, …) return and change the same objects that templates hold, as in Salt.

mod config;
mod defaults;
mod error;
mod files;
mod grains;
mod hash;
mod matching;
mod network;
mod object;
mod paths;
mod pillar;
mod random;
mod render;
mod serialize;
mod signature;
mod slsutil;
mod table;
mod test;
mod test_calls;
mod text;
mod value_ops;
mod version;

pub(crate) use self::error::from_jinja;
pub(crate) use self::object::is_functions;
pub use self::object::{SaltFunction, salt};
pub use self::render::{FunctionRenderer, RenderRequest, RenderSource};
pub use self::signature::FunctionArgs;
pub use self::table::built_in_signatures;
pub(crate) use zagent_config::FunctionError;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use minijinja::value::Value;
use zagent_config::suggest::nearest;
use zagent_config::{Map, Value as Data};

use self::table::FunctionImpl;
use crate::jinja::object::{LazyDict, LazySource, to_storable, to_template, to_value};
use crate::{CallError, CompileInputs, FunctionCall, TemplateHost};

/// All execution functions, for one node, one tree and one pillar.
#[derive(Clone)]
pub struct Functions(Arc<FunctionsInner>);

struct FunctionsInner {
    inputs: CompileInputs,
    /// The pillar as it was compiled.
    compiled: Data,
    /// The pillar that functions return; the variable `pillar` in templates is another object.
    pillar: Value,
    grains: Value,
    opts: Value,
    builtin: Value,
    host_functions: OnceLock<HashSet<&'static str>>,
    renderer: OnceLock<Weak<dyn FunctionRenderer>>,
    missing: Mutex<Option<String>>,
}

struct HostGrains(Arc<dyn TemplateHost>);

impl LazySource for HostGrains {
    fn get(&self, key: &str) -> Option<Data> {
        self.0.grain(key)
    }

    fn all(&self) -> Data {
        self.0.grains()
    }
}

fn grains_of(host: &Arc<dyn TemplateHost>) -> Value {
    Value::from_object(LazyDict::new(Arc::new(HostGrains(Arc::clone(host)))))
}

/// What templates see as `opts`.
fn options_of(inputs: &CompileInputs) -> Data {
    let mut opts = inputs.options.opts.clone();
    if !opts.contains("id") {
        opts.insert("id", inputs.options.id.as_str());
    }
    opts.into()
}

/// True when a value of a template is still the data it was made from.
fn is_same(value: &Value, data: &Data) -> bool {
    to_value(value).is_ok_and(|value| value == *data)
}

impl Functions {
    /// Makes the functions of one compile (or of its pillar: then `pillar` is what is known so far).
    #[must_use]
    pub fn new(inputs: CompileInputs, pillar: Data) -> Self {
        let opts = options_of(&inputs);
        Self(Arc::new(FunctionsInner {
            pillar: to_template(&pillar),
            compiled: pillar,
            grains: grains_of(&inputs.host),
            opts: to_template(&opts),
            builtin: to_template(config::builtin_options()),
            inputs,
            host_functions: OnceLock::new(),
            renderer: OnceLock::new(),
            missing: Mutex::new(None),
        }))
    }

    /// The variables that every template sees: `salt`, `grains`, `opts` and the `pillar` given.
    #[must_use]
    pub fn variables(&self, pillar: Value) -> Vec<(String, Value)> {
        let manager = self.0.inputs.host.manager().map(|host| {
            let inputs = CompileInputs { host, ..self.0.inputs.clone() };
            Self::new(inputs, self.0.compiled.clone())
        });
        let own = salt(self);
        vec![
            // On a node without a manager these are its own functions.
            ("__minion__".into(), manager.as_ref().map_or_else(|| own.clone(), salt)),
            ("salt".into(), own),
            ("ifelse".into(), object::function(self, "match.ifelse")),
            ("grains".into(), grains_of(&self.0.inputs.host)),
            ("opts".into(), self.0.opts.clone()),
            ("pillar".into(), pillar),
        ]
    }

    /// True for grains as the host gave them, and for the pillar as it was compiled.
    pub(crate) fn is_unchanged(&self, shared: Option<&Value>) -> bool {
        shared.is_none_or(|shared| match shared.downcast_object_ref::<LazyDict>() {
            Some(grains) => grains.is_as_fetched(),
            None => is_same(shared, &self.0.compiled),
        })
    }

    /// True when no template has changed what functions answer.
    pub(crate) fn are_answers_unchanged(&self) -> bool {
        self.is_unchanged(Some(&self.0.pillar))
            && self.is_unchanged(Some(&self.0.grains))
            && is_same(&self.0.opts, &options_of(&self.0.inputs))
    }

    /// Sets the renderer for `slsutil.renderer`; only the first call has an effect.
    pub fn set_renderer(&self, renderer: Weak<dyn FunctionRenderer>) {
        let _ = self.0.renderer.set(renderer);
    }

    /// True when the function exists.
    #[must_use]
    pub fn contains(&self, function: &str) -> bool {
        table::find_function(function).is_some() || self.0.host_functions().contains(function)
    }

    /// True when a module of that name has a function.
    #[must_use]
    pub fn contains_module(&self, module: &str) -> bool {
        let within = |name: &str| name.strip_prefix(module).is_some_and(|rest| rest.starts_with('.'));
        table::names().any(within) || self.0.host_functions().iter().any(|n| within(n))
    }

    /// The names of all functions, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.0.function_names()
    }

    /// The function whose name is nearest, when it is close enough to be a typing error.
    #[must_use]
    pub fn nearest_function(&self, function: &str) -> Option<&'static str> {
        nearest(function, self.names())
    }

    /// The last function that a template looked up and that does not exist. The template engine reads it when the template
    /// calls something undefined: `salt['no.such']()`.
    #[must_use]
    pub fn last_missing(&self) -> Option<String> {
        self.0.missing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_missing(&self, function: &str) {
        *self.0.missing.lock().unwrap_or_else(PoisonError::into_inner) = Some(function.to_owned());
    }

    /// Calls a function with data.
    ///
    /// # Errors
    /// Fails when the function is unknown, forbidden, or failed.
    pub fn call(&self, call: &FunctionCall) -> Result<Data, CallError> {
        self.0.call_data(call).map_err(CallError::from)
    }

    /// Calls a function with the values of a template.
    ///
    /// # Errors
    /// As [`Functions::call`].
    pub(crate) fn call_live(
        &self,
        name: &str,
        args: Vec<Value>,
        kwargs: Vec<(String, Value)>,
    ) -> Result<Value, FunctionError> {
        if let Some(undefined) =
            args.iter().chain(kwargs.iter().map(|(_, v)| v)).position(Value::is_undefined)
        {
            let which = undefined + 1;
            return Err(FunctionError::bad_arguments(format!("argument {which} of `{name}` is undefined")));
        }
        if let Some(table::FunctionEntry { signature, body: FunctionImpl::Live(f), .. }) =
            table::find_function(name)
        {
            let args = args
                .into_iter()
                .map(to_storable)
                .collect::<Result<_, _>>()
                .map_err(crate::functions::from_jinja)?;
            let kwargs = kwargs
                .into_iter()
                .map(|(k, v)| Ok((k, to_storable(v).map_err(crate::functions::from_jinja)?)))
                .collect::<Result<_, FunctionError>>()?;
            return f(&self.0, &FunctionArgs::bind(name, signature, args, kwargs)?);
        }
        let args =
            args.iter().map(to_value).collect::<Result<_, _>>().map_err(crate::functions::from_jinja)?;
        let mut named = Map::with_capacity(kwargs.len());
        for (k, v) in &kwargs {
            named.insert(k.as_str(), to_value(v).map_err(crate::functions::from_jinja)?);
        }
        let answer = self.0.call_data(&FunctionCall { function: name.to_owned(), args, kwargs: named })?;
        Ok(to_template(&answer))
    }
}

impl FunctionsInner {
    /// Calls a function, of the compiler or of the host.
    fn call_data(&self, call: &FunctionCall) -> Result<Data, FunctionError> {
        let name = call.function.as_str();
        let Some(entry) = table::find_function(name) else {
            return Ok(self.inputs.host.call(call)?);
        };
        let kwargs = || call.kwargs.iter().map(|(k, v)| (k.json_key(), v));
        match entry.body {
            FunctionImpl::Data(f) => {
                let named = kwargs().map(|(k, v)| (k, v.clone())).collect();
                f(self, &FunctionArgs::bind(name, entry.signature, call.args.clone(), named)?)
            }
            FunctionImpl::Live(f) => {
                let named = kwargs().map(|(k, v)| (k, to_template(v))).collect();
                let args = call.args.iter().map(to_template).collect();
                Ok(to_value(&f(self, &FunctionArgs::bind(name, entry.signature, args, named)?)?)
                    .map_err(crate::functions::from_jinja)?)
            }
        }
    }

    /// The names of all functions, sorted.
    fn function_names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = table::names().chain(self.host_functions().iter().copied()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn host_functions(&self) -> &HashSet<&'static str> {
        self.host_functions.get_or_init(|| self.inputs.host.functions().into_iter().collect())
    }

    fn renderer(&self) -> Option<Arc<dyn FunctionRenderer>> {
        self.renderer.get().and_then(Weak::upgrade)
    }
}

impl std::fmt::Debug for Functions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Functions")
    }
}

#[cfg(test)]
pub(crate) mod sample_host;
#[cfg(test)]
mod tests;
