//! A node in, the same node with all execution functions out: those on data (`test.echo`, `match.grain`, `pillar.get`) beside
//! those that look at the machine.
//!
//! Law: what templates can call, states can call (`module.run`, a guard's `fun`), with the same answer (held by
//! `both_ways_of_calling`).

use std::sync::Arc;

use zagent_compiler::functions::Functions;
use zagent_compiler::{CallError, Cipher, CompileInputs, FunctionCall, TemplateHost};
use zagent_config::Value;
use zagent_config::mask::Secret;

/// A node with all execution functions.
pub(crate) struct FunctionHost {
    functions: Functions,
    host: Arc<dyn TemplateHost>,
}

impl FunctionHost {
    /// Answers with what was compiled, and with its pillar.
    #[must_use]
    pub(crate) fn new(inputs: &CompileInputs, pillar: Value) -> Self {
        Self { functions: Functions::new(inputs.clone(), pillar), host: Arc::clone(&inputs.host) }
    }
}

impl TemplateHost for FunctionHost {
    fn grain(&self, name: &str) -> Option<Value> {
        self.host.grain(name)
    }

    fn grains(&self) -> Value {
        self.host.grains()
    }

    fn call(&self, call: &FunctionCall) -> Result<Value, CallError> {
        self.functions.call(call)
    }

    fn call_mutating(&self, call: &FunctionCall) -> Result<Value, CallError> {
        if crate::functions::changes_host(&call.function) {
            return self.host.call_mutating(call);
        }
        self.call(call)
    }

    fn functions(&self) -> Vec<&'static str> {
        self.functions.names()
    }

    fn decrypt(&self, cipher: Cipher, armoured: &str) -> Result<Secret, String> {
        self.host.decrypt(cipher, armoured)
    }

    fn external_pillar(&self, pillar: &Value) -> Result<Vec<Value>, String> {
        self.host.external_pillar(pillar)
    }

    fn external_tops(&self) -> Result<Vec<Value>, String> {
        self.host.external_tops()
    }
}
