//! `zagent MOD.FUN …`: runs a state function on a name, or calls an execution function.
//!
//! Law: a read-only call changes nothing. When a name is both a state and an execution function, zagent calls the
//! execution function if it is read-only (`service.enabled`), as salt-call does; `state.single` runs the state
//! (held by `read_only_functions_change_nothing`, `functions_are_called_by_name`).

use clap::Parser;
use zagent_compiler::{CallError, FunctionCall};
use zagent_config::Value;
use zagent_config::suggest::nearest;
use zagent_states::schema;

use super::GlobalArgs;
use super::resource_args::{ResourceArgs, call_on_target};
use super::salt_args::{SaltArgs, parse_value};
use super::state::{StateCommonArgs, run_single};
use super::tree_args::TreeArgs;
use crate::output::{ReportFormat, Ui, json, pprint, report, yaml};
use zagent_daemon::compile_job::CompileJob;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::resource_run::{TargetText, call_on_node};
use zagent_run::RunOptions;
use zagent_states::functions;

/// Functions whose command goes through a shell when called from the command line, as in salt-call; in a
/// template it is split into words.
const SHELL_FUNCTIONS: [&str; 4] = ["cmd.run_all", "cmd.run_stdout", "cmd.run_stderr", "cmd.retcode"];

/// Call one function by name.
///
/// A state function (file.managed) runs on a name, as `state.single` does; an execution function
/// (network.interfaces) is called and its return value printed. When a name is both, zagent calls the
/// execution function if it is read-only (service.enabled), otherwise it runs the state function (cmd.run).
#[derive(Debug, Parser)]
#[command(name = "MOD.FUN", disable_version_flag = true, max_term_width = 100)]
#[command(override_usage = "zagent MOD.FUN [NAME] [KEY=VALUE]… [OPTIONS]")]
pub(super) struct FunctionCallArgs {
    /// The function
    #[arg(value_name = "MOD.FUN")]
    function: String,

    /// Name or arguments, and `key=value` pairs
    #[arg(value_name = "WORD")]
    words: Vec<String>,

    #[command(flatten)]
    common: StateCommonArgs,

    #[command(flatten)]
    pub(super) globals: GlobalArgs,
}

impl FunctionCallArgs {
    pub(super) const fn format(&self) -> ReportFormat {
        self.common.report.out
    }

    /// Takes over flags that stood before the function.
    pub(super) fn add_resources(&mut self, resources: ResourceArgs) {
        self.common.resources.add_earlier(resources);
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let (words, tree, order) = self.common.resolve_args(&self.words)?;
        let name = self.function.as_str();
        if let Some(target) = self.common.resources.target()? {
            return self.run_on_target(&target, (words, &tree, &order), ui);
        }
        if is_state(name) && !functions::is_read_only(name) {
            reject_unbuilt(name)?;
            return run_single(name, words, &tree, &order, &self.common, ui);
        }
        let job = tree.job_without_states()?;
        if job.compiler.functions().contains(name) {
            if order.test {
                return Err(test_unsupported(name));
            }
            if matches!(self.format(), ReportFormat::Ndjson | ReportFormat::Highstate) {
                return Err(states_unsupported(name));
            }
            return self.call_function(&job, words, ui);
        }
        if job.compiler.is_external_state(name.split('.').next().unwrap_or_default()) {
            return run_single(name, words, &tree, &order, &self.common, ui);
        }
        Err(unknown_function(name, &job))
    }

    fn call_function(
        &self,
        job: &CompileJob,
        words: SaltArgs,
        ui: &mut Ui<'_>,
    ) -> Result<ExitStatus, AgentError> {
        let call = self.function_call(words)?;
        let answer = call_on_node(job, &call).map_err(|error| match error {
            CallError::Unknown => unknown_function(&self.function, job),
            CallError::Forbidden(why) => {
                AgentError::usage(format!("`{}` is forbidden: {why}", self.function))
            }
            CallError::Unavailable { message, hint } => {
                AgentError::usage_hint(format!("`{}`: {message}", self.function), hint)
            }
            CallError::Failed(why) => AgentError::failed(format!("`{}` failed: {why}", self.function)),
        })?;
        self.print_value(&job.mask(false).mask_value(&answer), ui);
        Ok(ExitStatus::Success)
    }

    fn print_value(&self, answer: &Value, ui: &mut Ui<'_>) {
        ui.print(&match self.format() {
            ReportFormat::Json => json(answer),
            ReportFormat::Yaml => yaml(answer),
            ReportFormat::Pprint => pprint(answer),
            _ => result_text(answer, ui),
        });
    }

    fn function_call(&self, words: SaltArgs) -> Result<FunctionCall, AgentError> {
        words.reject_mistyped_test(&self.function)?;
        let args = words.positional.iter().map(|word| parse_value(word)).collect();
        let mut call = FunctionCall { function: self.function.clone(), args, kwargs: words.named };
        let is_shell = SHELL_FUNCTIONS.contains(&self.function.as_str()) || self.function == "cmd.run";
        if is_shell && !call.kwargs.contains("python_shell") {
            call.kwargs.insert("python_shell", true);
        }
        Ok(call)
    }

    /// Calls an execution function on the node and its resources; a name that is only a state runs as `state.single`.
    fn run_on_target(
        &self,
        target: &TargetText,
        (words, tree, order): (SaltArgs, &TreeArgs, &RunOptions),
        ui: &mut Ui<'_>,
    ) -> Result<ExitStatus, AgentError> {
        let name = self.function.as_str();
        let job = tree.job_without_states()?;
        if is_state(name) && !job.compiler.functions().contains(name) {
            reject_unbuilt(name)?;
            return run_single(name, words, tree, order, &self.common, ui);
        }
        if order.test {
            return Err(test_unsupported(name));
        }
        if matches!(self.format(), ReportFormat::Ndjson | ReportFormat::Highstate) {
            return Err(states_unsupported(name));
        }
        let reply = call_on_target(&job, target, &self.function_call(words)?, ui)?;
        self.print_value(&reply.value, ui);
        Ok(if reply.failed { ExitStatus::Failed } else { ExitStatus::Success })
    }
}

fn is_state(name: &str) -> bool {
    name.split_once('.').is_some_and(|(module, function)| schema().function(module, function).is_some())
}

/// Rejects a state that Salt has and zagent does not implement.
fn reject_unbuilt(name: &str) -> Result<(), AgentError> {
    let function = name.split_once('.').and_then(|(module, function)| schema().function(module, function));
    if function.is_none_or(|function| function.is_implemented()) {
        return Ok(());
    }
    let message = format!("zagent does not implement Salt's state `{name}`");
    let module = name.split('.').next().unwrap_or_default();
    Err(AgentError::usage_hint(message, format!("provide it as an external module `_states/{module}`")))
}

fn test_unsupported(function: &str) -> AgentError {
    if is_state(function) {
        let message = format!("`{function}` is a read-only execution function: `--test` does not apply");
        let hint =
            format!("to test the state of the same name: `zagent state.single {function} NAME --test`");
        return AgentError::usage_hint(message, hint);
    }
    let message = format!("`{function}` is not a state function: `--test` cannot predict what it does");
    AgentError::usage_hint(message, "omit `--test` to call it")
}

fn states_unsupported(function: &str) -> AgentError {
    let message = format!("`{function}` returns a value: use `--out text`, `json`, `yaml` or `pprint`");
    let hint = match is_state(function) {
        true => format!("to run the state of the same name: `zagent state.single {function} NAME`"),
        false => "`--out ndjson` and `--out highstate` work for states only".to_owned(),
    };
    AgentError::usage_hint(message, hint)
}

/// Return value for the terminal: a string as it is, everything else in Salt's layout.
fn result_text(answer: &Value, ui: &Ui<'_>) -> String {
    match answer {
        Value::Str(text) if text.is_empty() => String::new(),
        Value::Str(text) => format!("{}\n", zagent_config::sanitize(text.trim_end_matches('\n'))),
        other => report::render_nested(other, ui.paint),
    }
}

fn unknown_function(name: &str, job: &CompileJob) -> AgentError {
    let states =
        schema().modules().iter().flat_map(|m| m.functions().map(move |f| format!("{}.{}", m.name, f.name)));
    let calls = job.compiler.functions().names().into_iter().map(str::to_owned);
    let all: Vec<String> = states.chain(calls).chain(super::STATE_COMMANDS.map(str::to_owned)).collect();
    let hint = match nearest(name, all.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "list the functions of a state module with `zagent explain MODULE`".into(),
    };
    AgentError::usage_hint(format!("there is no function `{name}`"), hint)
}
