//! A selection and an execution function in, one value out: the bare value of a single target, or values by id.

use zagent_compiler::{CallError, FunctionCall, TemplateHost};
use zagent_config::resources::ResourceName;
use zagent_config::{Map, Value};
use zagent_resources::merge::labels;
use zagent_states::functions;

use super::parallel;
use super::resource_job::NodeContext;
use super::selection::{ResourceSet, Selection};
use crate::compile_job::CompileJob;

/// Functions that are about the agent of a node; resources have none.
const NODE_MODULES: [&str; 2] = ["saltutil.", "sys."];

/// What a call on several targets gave.
#[derive(Clone, Debug)]
pub struct FunctionReply {
    /// The value: `{id: value}`, the bare value of a single target, or `{}`.
    pub value: Value,
    /// True when a target could not be asked.
    pub failed: bool,
}

/// Calls a function on the node, as a command line does.
///
/// # Errors
/// Why it has no answer.
pub fn call_on_node(job: &CompileJob, call: &FunctionCall) -> Result<Value, CallError> {
    match functions::changes_host(&call.function) {
        true => job.inputs.host.call_mutating(call),
        false => job.compiler.functions().call(call),
    }
}

/// Calls a function on every target of a selection.
#[must_use]
pub fn call_on_targets(
    job: &CompileJob,
    set: &ResourceSet,
    selection: &Selection,
    call: &FunctionCall,
) -> FunctionReply {
    let context = NodeContext::new(job, set);
    let indices: Vec<usize> = match NODE_MODULES.iter().any(|module| call.function.starts_with(module)) {
        true => Vec::new(),
        false => selection.resources().to_vec(),
    };
    let names = set.names(&indices);
    let mut failed = false;
    let mut answers: Vec<(String, Value)> = Vec::new();
    if selection.node {
        let answer = call_on_node(job, call).unwrap_or_else(|error| {
            failed = true;
            let function = &call.function;
            match error {
                CallError::Unknown => {
                    format!("Function '{function}' is not available on the managing minion")
                }
                other => format!("ERROR running {function}: {}", error_words(other)),
            }
            .into()
        });
        answers.push((node_label(job, &names), answer));
    }
    let jobs = context.settings.resources.jobs;
    let called = parallel::for_each(&indices, jobs, |index| call_resource(&context, set, *index, call));
    for (label, answer) in labels(&names).into_iter().zip(called) {
        let answer = answer.unwrap_or_else(|words| {
            failed = true;
            words.into()
        });
        answers.push((label, answer));
    }
    let value = match answers.len() {
        1 => answers.pop().map(|(_, value)| value).unwrap_or_default(),
        _ => answers.into_iter().collect::<Map>().into(),
    };
    FunctionReply { value: context.mask.mask_value(&value), failed }
}

/// How the node is called in a result; a resource of the same id does not take its place.
fn node_label(job: &CompileJob, names: &[ResourceName]) -> String {
    match names.iter().any(|name| name.id == job.node) {
        true => format!("node:{}", job.node),
        false => job.node.clone(),
    }
}

fn call_resource(
    context: &NodeContext,
    set: &ResourceSet,
    index: usize,
    call: &FunctionCall,
) -> Result<Value, String> {
    let name = set.resources()[index].name();
    let own = context.resource_job(&set.resources()[index], set.grains(index)?)?;
    let answer = own.host.call_own(call).unwrap_or_else(|| match functions::changes_host(&call.function) {
        true => own.host.call_mutating(call),
        false => own.job.compiler.functions().call(call),
    });
    answer.map_err(|error| match error {
        CallError::Unknown => {
            format!("Function '{}' is not supported for resource type '{}'.", call.function, name.kind)
        }
        other => format!("ERROR running {} for '{}': {}", call.function, name.id, error_words(other)),
    })
}

fn error_words(error: CallError) -> String {
    match error {
        CallError::Unknown => "unknown function".into(),
        CallError::Forbidden(words) | CallError::Failed(words) => words,
        CallError::Unavailable { message, .. } => message,
    }
}
