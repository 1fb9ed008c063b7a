//! What `pip.*`, `gem.*` and `npm.*` share: arguments in, the libraries that a program keeps out.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use super::lang_pkg::{LangPkgProgram, LangPkgProvider};
use crate::exec_function::optional_text_arg;
use zagent_host::{Machine, Tools};

/// Where the libraries are that a call is about.
pub(crate) fn language_packages(
    args: &FunctionArgs<Value>,
    program: &'static dyn LangPkgProgram,
    place: &str,
) -> LangPkgProvider {
    let text = |key: &str| optional_text_arg(args, key).map(str::to_owned);
    LangPkgProvider {
        program,
        location: text(place),
        user: text("user").or_else(|| text("runas")),
        cwd: text("cwd"),
        env: Vec::new(),
    }
}

/// Libraries and their versions: one of pip's and npm's, all of gem's.
pub(crate) fn list_language_packages(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    program: &'static dyn LangPkgProgram,
    place: &str,
) -> Result<Value, FunctionError> {
    let all = language_packages(args, program, place).list(&Tools::new(machine))?;
    let prefix =
        optional_text_arg(args, "prefix").or_else(|| optional_text_arg(args, "pkg")).unwrap_or_default();
    let found = all.into_iter().filter(|(name, _)| name.starts_with(prefix));
    Ok(found.map(|(name, versions)| (name, program.version_value(versions))).collect::<Map>().into())
}
