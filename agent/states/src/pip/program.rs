//! The program `pip`: where it is, and what it lists.

use std::path::Path;

use zagent_config::{FunctionError, Value};

use crate::shared::lang_pkg::{InstalledVersions, LangPkgProgram, LangPkgProvider, missing_program};
use crate::shared::pep440::normalize_name;
use crate::shared::planned_state::to_strings;
use zagent_config::sorted::CollectSorted;
use zagent_host::{Machine, Tools};

/// The program `pip`.
#[derive(Debug)]
pub(crate) struct Pip;

impl LangPkgProgram for Pip {
    fn name(&self) -> &'static str {
        "pip"
    }

    fn base_command(&self, location: Option<&str>, tools: &Tools<'_>) -> Result<Vec<String>, FunctionError> {
        let module_of = |python: String| vec![python, "-m".into(), "pip".into()];
        let Some(place) = location else {
            let found = ["pip3", "pip"].into_iter().find(|p| tools.which(p).is_some());
            return found.map(|p| vec![p.to_owned()]).ok_or_else(|| missing_program("pip3"));
        };
        let path = Path::new(place);
        if tools.machine.is_dir(path) {
            let found = ["bin/python", "bin/python3", "python"].iter().map(|p| path.join(p));
            let python = found.into_iter().find(|p| tools.machine.is_file(p));
            let python = python
                .ok_or_else(|| FunctionError::failed(format!("Could not find a `pip` binary in {place}")))?;
            return Ok(module_of(python.display().to_string()));
        }
        let is_python = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("python"));
        Ok(if is_python { module_of(place.to_owned()) } else { vec![place.to_owned()] })
    }

    fn env(&self, location: Option<&str>, machine: &Machine) -> Vec<(&'static str, String)> {
        let venv = location.filter(|dir| machine.is_dir(dir));
        let venv = venv.map(|dir| ("VIRTUAL_ENV", dir.to_owned()));
        venv.into_iter().chain([("PIP_DISABLE_PIP_VERSION_CHECK", "1".to_owned())]).collect()
    }

    /// A state that was allowed to change what the system manages is also undone.
    fn undo_env(&self) -> &'static [(&'static str, &'static str)] {
        &[("PIP_BREAK_SYSTEM_PACKAGES", "1")]
    }

    fn list(
        &self,
        provider: &LangPkgProvider,
        tools: &Tools<'_>,
    ) -> Result<InstalledVersions, FunctionError> {
        parse_list(&provider.run_checked(tools, &to_strings(&["list", "--format=json"]))?)
    }

    fn install_args(&self, name: &str, version: &str, _: bool) -> Vec<String> {
        to_strings(&["install", &format!("{name}=={version}")])
    }

    fn uninstall_args(&self, name: &str, _: &str, _: bool) -> Vec<String> {
        to_strings(&["uninstall", "-y", name])
    }

    fn version_value(&self, versions: Vec<String>) -> Value {
        versions.into_iter().next().map_or(Value::Null, Value::from)
    }
}

/// What `pip list --format=json` printed.
pub(crate) fn parse_list(out: &str) -> Result<InstalledVersions, FunctionError> {
    let start = out.find('[').unwrap_or(0);
    let json =
        Value::from_json_str(out[start..].trim()).map_err(|_| FunctionError::failed("Invalid JSON"))?;
    let one = |v: &Value| {
        let text = |key: &str| v.get(key).and_then(Value::as_str).map(str::to_owned);
        Some((normalize_name(&text("name")?), vec![text("version")?]))
    };
    Ok(json.as_list().into_iter().flat_map(|l| l.iter()).filter_map(one).into_map())
}
