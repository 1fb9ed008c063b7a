//! The type `dummy`: a resource without a system behind it, for tests and demonstrations. Its services and packages are a file.

use zagent_compiler::{CallError, FunctionCall};
use zagent_config::json_file;
use zagent_config::resources::ResourceName;
use zagent_config::value::python_str;
use zagent_config::{Map, Value};

use crate::ResourceStore;

/// The functions that a dummy offers, with what they take.
pub(crate) const FUNCTIONS: [(&str, &[&str]); 13] = [
    ("dummy.ping", &[]),
    ("dummy.service_start", &["name"]),
    ("dummy.service_stop", &["name"]),
    ("dummy.service_restart", &["name"]),
    ("dummy.service_list", &[]),
    ("dummy.service_status", &["name"]),
    ("dummy.package_list", &[]),
    ("dummy.package_install", &["name", "version"]),
    ("dummy.package_remove", &["name"]),
    ("dummy.package_status", &["name"]),
    ("dummy.upgrade", &[]),
    ("dummy.uptodate", &[]),
    ("dummy.test_from_state", &[]),
];

/// The grains of a dummy.
pub(crate) fn grains(name: &ResourceName) -> Map {
    Map::from_iter([
        ("dummy_grain_1", Value::from("one")),
        ("dummy_grain_2", Value::from("two")),
        ("dummy_grain_3", Value::from("three")),
        ("resource_id", Value::from(name.id.as_str())),
    ])
}

/// A dummy and the file of its state.
#[derive(Clone, Debug)]
pub(crate) struct Dummy {
    pub(crate) name: ResourceName,
    pub(crate) store: ResourceStore,
}

impl Dummy {
    /// Calls one of its functions; `None` when it has no such function.
    pub(crate) fn call(&self, call: &FunctionCall) -> Option<Result<Value, CallError>> {
        let (function, takes) = FUNCTIONS.iter().find(|(name, _)| *name == call.function)?;
        let function = function.strip_prefix("dummy.")?;
        Some(bind(call, takes).and_then(|args| self.answer(function, &args)))
    }

    fn answer(&self, function: &str, args: &Map) -> Result<Value, CallError> {
        let name = args.get("name").map(python_str).unwrap_or_default();
        match function {
            "ping" | "service_restart" => Ok(true.into()),
            "test_from_state" => Ok("testvalue".into()),
            "service_start" => self.set_service(&name, "running"),
            "service_stop" => self.set_service(&name, "stopped"),
            "service_list" => Ok(self.load()?.services.keys().cloned().collect::<Value>()),
            "service_status" => {
                let state = self.load()?;
                let unknown =
                    || CallError::Failed(format!("dummy `{}` has no service `{name}`", self.name.id));
                let status = state.services.get(&name).cloned().ok_or_else(unknown)?;
                let words = if status.as_str() == Some("running") { "running" } else { "stopped" };
                Ok(Map::from_iter([("comment", Value::from(words))]).into())
            }
            "package_status" => {
                let version = self.load()?.packages.get(&name).cloned();
                Ok(version.map_or(Value::Null, |version| Map::from_iter([(name.as_str(), version)]).into()))
            }
            "package_install" => {
                let version = args.get("version").cloned().unwrap_or_else(|| "1.0".into());
                self.change(|state| {
                    state.packages.insert(name.as_str(), version.clone());
                    Ok(Map::from_iter([(name.as_str(), version)]).into())
                })
            }
            "package_remove" => self.change(|state| match state.packages.remove(&name) {
                Some(_) => Ok(state.packages.clone().into()),
                None => Err(CallError::Failed(format!("dummy `{}` has no package `{name}`", self.name.id))),
            }),
            "upgrade" => self.change(|state| {
                let upgraded =
                    state.packages.iter().map(|(name, version)| (name.clone(), next_version(version)));
                state.packages = upgraded.collect();
                Ok(state.packages.clone().into())
            }),
            _ => Ok(self.load()?.packages.into()),
        }
    }

    fn set_service(&self, name: &str, status: &str) -> Result<Value, CallError> {
        self.change(|state| {
            state.services.insert(name, status);
            Ok(status.into())
        })
    }

    fn load(&self) -> Result<DummyState, CallError> {
        let kept = json_file::read::<Value>(&self.store.dummy_file(&self.name)).map_err(failed)?;
        Ok(kept.map_or_else(DummyState::initial, |kept| DummyState::read(&kept)))
    }

    fn change(
        &self,
        change: impl FnOnce(&mut DummyState) -> Result<Value, CallError>,
    ) -> Result<Value, CallError> {
        let mut state = self.load()?;
        let answer = change(&mut state)?;
        let file = self.store.dummy_file(&self.name);
        json_file::write(&file, &state.to_value(&self.name.id)).map_err(failed)?;
        Ok(answer)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err calls")]
fn failed(error: json_file::JsonFileError) -> CallError {
    CallError::Failed(zagent_config::error_chain(&error))
}

/// One more than a version such as `2.4`, as Salt's dummy counts.
fn next_version(version: &Value) -> Value {
    let text = python_str(version);
    text.parse::<f64>().map_or_else(|_| version.clone(), |n| python_str(&Value::Float(n + 1.0)).into())
}

/// Arguments by name, positional ones in their order.
fn bind(call: &FunctionCall, takes: &[&'static str]) -> Result<Map, CallError> {
    let mut args = Map::new();
    if call.args.len() > takes.len() {
        let message =
            format!("`{}` takes {} arguments, {} given", call.function, takes.len(), call.args.len());
        return Err(CallError::Failed(message));
    }
    for (name, value) in takes.iter().zip(&call.args) {
        args.insert(*name, value.clone());
    }
    for (key, value) in call.kwargs.iter() {
        let key = python_str(key);
        if !takes.contains(&key.as_str()) {
            return Err(CallError::Failed(format!("`{}` takes no argument `{key}`", call.function)));
        }
        args.insert(key, value.clone());
    }
    if takes.contains(&"name") && !args.contains("name") {
        return Err(CallError::Failed(format!("`{}` needs a name", call.function)));
    }
    Ok(args)
}

/// What the file of a dummy holds.
struct DummyState {
    services: Map,
    packages: Map,
}

impl DummyState {
    fn initial() -> Self {
        let map =
            |rows: &[(&str, &str)]| rows.iter().map(|(key, value)| (*key, Value::from(*value))).collect();
        Self {
            services: map(&[("apache", "running"), ("ntp", "running"), ("samba", "stopped")]),
            packages: map(&[("coreutils", "1.0"), ("apache", "2.4"), ("tinc", "1.4"), ("redbull", "999.99")]),
        }
    }

    fn read(kept: &Value) -> Self {
        let map = |key| kept.get(key).and_then(Value::as_map).cloned().unwrap_or_default();
        Self { services: map("services"), packages: map("packages") }
    }

    fn to_value(&self, id: &str) -> Value {
        Map::from_iter([
            ("id", Value::from(id)),
            ("services", self.services.clone().into()),
            ("packages", self.packages.clone().into()),
        ])
        .into()
    }
}

#[cfg(test)]
mod tests {
    use zagent_config::paths::Paths;

    use super::*;

    #[test]
    fn a_dummy_answers_as_salts_does() {
        let dir = tempfile::tempdir().unwrap();
        let store = ResourceStore::new(&Paths::new(dir.path()));
        let dummy = Dummy { name: ResourceName::new("dummy", "dummy-01"), store };
        let ask = |function: &str, args: &[&str]| {
            let args = args.iter().map(|arg| Value::from(*arg)).collect();
            let call = FunctionCall { function: format!("dummy.{function}"), args, kwargs: Map::new() };
            match dummy.call(&call).expect("a function of a dummy") {
                Ok(value) => serde_json::to_string(&value).unwrap(),
                Err(error) => format!("{error:?}"),
            }
        };
        let packages = r#"{"coreutils":"1.0","apache":"2.4","tinc":"1.4","redbull":"999.99"}"#;
        for (function, args, want) in [
            ("ping", &[][..], "true"),
            ("service_list", &[], r#"["apache","ntp","samba"]"#),
            ("service_status", &["samba"], r#"{"comment":"stopped"}"#),
            ("service_start", &["samba"], r#""running""#),
            ("service_status", &["samba"], r#"{"comment":"running"}"#),
            ("service_stop", &["ntp"], r#""stopped""#),
            ("service_restart", &["ntp"], "true"),
            ("package_list", &[], packages),
            ("uptodate", &[], packages),
            ("package_install", &["curl", "7.1"], r#"{"curl":"7.1"}"#),
            ("package_install", &["vim"], r#"{"vim":"1.0"}"#),
            ("package_status", &["curl"], r#"{"curl":"7.1"}"#),
            ("package_status", &["none"], "null"),
            (
                "package_remove",
                &["redbull"],
                r#"{"coreutils":"1.0","apache":"2.4","tinc":"1.4","curl":"7.1","vim":"1.0"}"#,
            ),
            ("package_remove", &["redbull"], r#"Failed("dummy `dummy-01` has no package `redbull`")"#),
            ("upgrade", &[], r#"{"coreutils":"2.0","apache":"3.4","tinc":"2.4","curl":"8.1","vim":"2.0"}"#),
            ("test_from_state", &[], r#""testvalue""#),
            ("service_start", &[], r#"Failed("`dummy.service_start` needs a name")"#),
            ("ping", &["x"], r#"Failed("`dummy.ping` takes 0 arguments, 1 given")"#),
        ] {
            assert_eq!(ask(function, args), want, "{function}");
        }
        let call = FunctionCall { function: "pkg.version".into(), args: Vec::new(), kwargs: Map::new() };
        assert!(dummy.call(&call).is_none());
    }
}
