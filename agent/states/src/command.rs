//! The arguments of a state and the scene in, how its commands run out.

use std::ffi::OsString;
use std::sync::{Arc, PoisonError};

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use super::StateCtx;
use zagent_host::command_options::{CommandOptions, OptionKeys};

impl StateCtx<'_> {
    /// How a command of a state runs: the state's arguments, what the run says, and nothing longer than its time.
    ///
    /// # Errors
    /// Fails in Salt's words when an argument cannot be used.
    pub fn command_options(
        &self,
        args: &Map,
        keys: OptionKeys,
        skip: &[String],
    ) -> Result<CommandOptions, String> {
        let mut options = CommandOptions::from_args(self.machine, args, keys, skip)?;
        if options.shell.is_none() && self.compat == Compat::Salt {
            let grain = self.host.grain("shell");
            options.shell = grain.as_ref().and_then(Value::as_str).map(str::to_owned);
        }
        let shared = self.shared.environment.lock().unwrap_or_else(PoisonError::into_inner);
        if !shared.is_empty() {
            let set = |(name, value): (&String, &Option<String>)| {
                value.as_ref().map(|v| (OsString::from(name), OsString::from(v)))
            };
            let mut env: Vec<_> = shared.iter().filter_map(set).collect();
            env.append(&mut options.env);
            options.env = env;
            options.unset = shared.iter().filter(|(_, v)| v.is_none()).map(|(name, _)| name.into()).collect();
        }
        drop(shared);
        options.cancel = Some(Arc::clone(self.cancel));
        Ok(options.with_deadline(self.deadline))
    }
}
