//! The node that the agent runs on, as the compiler asks it.

use std::path::PathBuf;
use std::sync::Arc;

use zagent_compiler::{CallError, Cipher, FunctionCall, TemplateHost};
use zagent_config::Value;
use zagent_config::mask::{self, Secret};

use super::external_pillar;
use crate::functions;
use zagent_host::facts::Grains;
use zagent_host::{Machine, secrets};

/// What the configuration says about asking the host.
#[derive(Clone, Debug)]
pub struct LiveHostSettings {
    /// The node's id.
    pub id: String,
    /// The machine to look at, and what may be run on it.
    pub machine: Machine,
    /// The directory of OpenPGP keys. Secrets are opened where the agent runs: no key has to be on the machine.
    pub gpg_home: PathBuf,
    /// Files with age identities on this host: SSH keys or age's own.
    pub age_identities: Vec<PathBuf>,
    /// Executables that add pillar, each a command line.
    pub external_pillar: Vec<Vec<String>>,
    /// Executables that add to the top file, each a command line.
    pub external_tops: Vec<Vec<String>>,
}

impl LiveHostSettings {
    /// Settings that need no configuration.
    pub fn new(id: impl Into<String>, machine: Machine) -> Self {
        Self {
            id: id.into(),
            machine,
            gpg_home: secrets::GPG_HOME.into(),
            age_identities: vec![secrets::HOST_KEY.into()],
            external_pillar: Vec::new(),
            external_tops: Vec::new(),
        }
    }
}

/// The node that the agent runs on.
pub struct LiveHost {
    grains: Arc<dyn Grains>,
    settings: LiveHostSettings,
}

impl LiveHost {
    /// A node with these facts.
    #[must_use]
    pub const fn new(grains: Arc<dyn Grains>, settings: LiveHostSettings) -> Self {
        Self { grains, settings }
    }
}

impl TemplateHost for LiveHost {
    fn grain(&self, name: &str) -> Option<Value> {
        self.grains.get(name)
    }

    fn grains(&self) -> Value {
        self.grains.all()
    }

    fn call(&self, call: &FunctionCall) -> Result<Value, CallError> {
        if call.function == "network.get_fqdn" {
            return Ok(self.grains.get("fqdn").unwrap_or_default());
        }
        functions::call_from_template(&self.settings.machine, call)
    }

    fn call_mutating(&self, call: &FunctionCall) -> Result<Value, CallError> {
        if functions::changes_host(&call.function) {
            return functions::call_any(&self.settings.machine, call);
        }
        self.call(call)
    }

    fn functions(&self) -> Vec<&'static str> {
        let mut names = functions::available_names(&self.settings.machine);
        names.push("network.get_fqdn");
        names
    }

    fn decrypt(&self, cipher: Cipher, armoured: &str) -> Result<Secret, String> {
        let secret = match cipher {
            Cipher::Gpg => secrets::decrypt_gpg(&self.settings.machine, &self.settings.gpg_home, armoured),
            Cipher::Age => secrets::decrypt_age(&self.settings.age_identities, armoured),
        }?;
        // A document of many lines is taken apart by the compiler first: its lines hold ordinary words.
        if !secret.expose().trim().contains('\n') {
            mask::hide_in_messages(std::slice::from_ref(&secret));
        }
        Ok(secret)
    }

    fn external_pillar(&self, pillar: &Value) -> Result<Vec<Value>, String> {
        let LiveHostSettings { machine, id, .. } = &self.settings;
        let mut added = Vec::new();
        let mut known = pillar.clone();
        for argv in &self.settings.external_pillar {
            let more = external_pillar::run_external(machine, argv, id, &known)?;
            known = zagent_config::value::merge(
                &known,
                &more,
                zagent_config::value::MergeStrategy::Recurse,
                false,
            );
            added.push(more);
        }
        Ok(added)
    }

    fn external_tops(&self) -> Result<Vec<Value>, String> {
        // Without a program there is nobody to tell all facts to, and collecting them is most of a small compile.
        if self.settings.external_tops.is_empty() {
            return Ok(Vec::new());
        }
        let LiveHostSettings { machine, id, .. } = &self.settings;
        let grains = self.grains.all();
        let tops = self.settings.external_tops.iter();
        tops.map(|argv| external_pillar::run_external(machine, argv, id, &grains)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::template_host::recorded_facts::RecordedFacts;

    fn live(pillars: &[&str]) -> (tempfile::TempDir, LiveHost) {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = LiveHostSettings::new("web-01", Machine::this_host());
        for (i, script) in pillars.iter().enumerate() {
            let path = dir.path().join(format!("pillar{i}"));
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            settings.external_pillar.push(vec![
                "/bin/sh".into(),
                path.to_string_lossy().into_owned(),
                "arg".into(),
            ]);
        }
        settings.external_tops.clone_from(&settings.external_pillar);
        let grains = RecordedFacts::from_json(r#"{"os": "Debian", "fqdn": "web-01.example.org"}"#).unwrap();
        (dir, LiveHost::new(Arc::new(grains), settings))
    }

    #[test]
    fn external_pillars_see_what_is_known_and_the_id() {
        let (_dir, host) = live(&["echo \"first: $1 $2\"", "printf 'seen: '; cat"]);
        let known = Value::from_json_str(r#"{"a": 1}"#).unwrap();
        let want = r#"[{"first": "arg web-01"}, {"seen": {"a": 1, "first": "arg web-01"}}]"#;
        assert_eq!(Value::from(host.external_pillar(&known).unwrap()), Value::from_json_str(want).unwrap());
    }

    #[test]
    fn a_program_that_fails_or_babbles_is_an_error() {
        let known = Value::empty_map();
        for (script, words) in [
            ("echo nothing to see >&2; exit 3", "ended with code 3: nothing to see"),
            ("echo '- a'", "a list, not a mapping"),
            ("echo 'a: ['", "not YAML"),
        ] {
            let error = live(&[script]).1.external_pillar(&known);
            assert!(error.as_ref().is_err_and(|e| e.contains(words)), "{error:?}");
        }
        assert_eq!(live(&["true"]).1.external_tops(), Ok(vec![Value::empty_map()]));
    }

    #[test]
    fn grains_and_functions_are_answered() {
        let (_dir, host) = live(&[]);
        let call = |function: &str| {
            host.call(&FunctionCall {
                function: function.into(),
                args: Vec::new(),
                kwargs: zagent_config::Map::new(),
            })
        };
        assert_eq!(host.grain("os"), Some("Debian".into()));
        assert_eq!(call("network.get_fqdn"), Ok("web-01.example.org".into()));
        assert_eq!(call("no.such"), Err(CallError::Unknown));
        assert!(host.functions().contains(&"pkg.version"));
    }
}
