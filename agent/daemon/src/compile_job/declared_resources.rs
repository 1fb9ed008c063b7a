//! The pillar of a node in, what is wrong with the resources that it declares out.
//!
//! Law: a run of the node itself is not refused for them, and it says what is wrong
//! (held by `every_run_reports_a_wrong_declaration_of_resources`).

use zagent_config::codes::pillar as codes;
use zagent_config::resources::{Declaration, DeclarationError};
use zagent_config::{Diagnostic, Diagnostics, Pos, Value};
use zagent_resources::custom::provided_types;

use super::CompileJob;
use crate::run_output::Messages;

/// Warns about a wrong declaration.
pub(super) fn report_wrong_declaration(job: &CompileJob, pillar: &Value, messages: &mut dyn Messages) {
    let key = &job.settings.resources_key;
    if pillar.get(key).is_none_or(Value::is_null) {
        return;
    }
    // A tree that cannot be listed is an error of its own, told by what needs it.
    let Ok(types) = provided_types(&*job.states) else { return };
    if let Err(errors) = Declaration::read(pillar, key, &types) {
        let Diagnostics(found) = declaration_diagnostics(job, errors);
        found.iter().for_each(|diagnostic| messages.compile_warning(diagnostic));
    }
}

/// Errors of a declaration, at the place where its key is set.
pub(crate) fn declaration_diagnostics(job: &CompileJob, errors: Vec<DeclarationError>) -> Diagnostics {
    let diagnostic = |error: DeclarationError| {
        // The key itself may be missing where the error is: then the key above it is shown.
        let mut key = error.key.as_str();
        let place = loop {
            match (job.compiler.pillar_origin(key), key.rsplit_once(':')) {
                (Some(place), _) => break Some(place),
                (None, Some((above, _))) => key = above,
                (None, None) => break None,
            }
        };
        let diagnostic = Diagnostic::new(codes::RESOURCES, error.to_string());
        let diagnostic = match place {
            Some(place) => diagnostic.at(place.file, place.pos),
            None => diagnostic.at("pillar", Pos::NONE),
        };
        match error.hint {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        }
    };
    Diagnostics(errors.into_iter().map(diagnostic).collect())
}
