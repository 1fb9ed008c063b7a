//! Our own strictness: state functions and parameters that do not exist are faults before anything runs.

use zagent_config::codes::function as codes;
use zagent_config::{Fault, Faults};

use crate::lower::Lowered;
use crate::schema;
use crate::session::Session;
use crate::sources::Spot;

/// Notes every chunk that names an unknown module or function, or gives it an unknown parameter.
pub(crate) fn check(session: &Session, lowered: &[Lowered]) -> Result<(), Faults> {
    let mut faults = Faults::default();
    for one in lowered {
        let chunk = &one.chunk;
        let module = schema::module(&chunk.state);
        let Some(function) = module.and_then(|m| m.function(&chunk.fun)) else {
            if !session.is_external_state(&chunk.state) {
                faults.push(match module {
                    Some(module) => unknown_function(session, one, module),
                    None => unknown_module(session, one),
                });
            }
            continue;
        };
        for entry in chunk.args.entries() {
            let Some(name) = entry.key.as_str() else { continue };
            if name.starts_with("__") || function.accepts(name) && !function.is_slip(name) {
                continue;
            }
            let spot = Spot { pos: if entry.at.is_known() { entry.at } else { one.spot.pos }, ..one.spot };
            let text = format!("`{}.{}` has no parameter `{name}`", chunk.state, chunk.fun);
            let fault = session.fault(codes::UNKNOWN_PARAMETER, spot, text);
            faults.push(match function.nearest_parameter(name) {
                Some(near) => fault.hint(format!("did you mean `{near}`?")),
                None => fault.hint(format!("`zagent explain {}.{}` lists them", chunk.state, chunk.fun)),
            });
        }
    }
    faults.into_result()
}

fn unknown_module(session: &Session, one: &Lowered) -> Fault {
    let chunk = &one.chunk;
    let text = format!("there is no state module `{}` (for `{}.{}`)", chunk.state, chunk.state, chunk.fun);
    let fault = session.fault(codes::UNKNOWN_STATE_MODULE, one.spot, text);
    match schema::nearest_module(&chunk.state) {
        Some(near) => fault.hint(format!("did you mean `{near}`?")),
        None => fault.hint(format!("an external module would be `_states/{}`", chunk.state)),
    }
}

fn unknown_function(session: &Session, one: &Lowered, module: &schema::Module) -> Fault {
    let chunk = &one.chunk;
    let text = format!("the state module `{}` has no function `{}`", chunk.state, chunk.fun);
    let fault = session.fault(codes::UNKNOWN_STATE_FUNCTION, one.spot, text);
    match module.nearest_function(&chunk.fun) {
        Some(near) => fault.hint(format!("did you mean `{}.{near}`?", chunk.state)),
        None => fault.hint(format!("`zagent explain {}` lists what it has", chunk.state)),
    }
}
