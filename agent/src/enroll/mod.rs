//! A repository in, the configuration that follows it out.

pub(crate) mod host_key;
pub(crate) mod planned_files;
pub(crate) mod trial;

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use zagent_config::error_chain;
use zagent_daemon::error::AgentError;

use crate::output::yaml;

/// What a node follows, and what it trusts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Enrolment {
    /// The repository.
    pub(crate) url: String,
    /// The branch.
    pub(crate) branch: String,
    /// A file with a token, for https.
    pub(crate) token_file: Option<PathBuf>,
    /// A private key, for ssh.
    pub(crate) key: Option<PathBuf>,
    /// Known hosts, for ssh.
    pub(crate) known_hosts: Option<PathBuf>,
    /// More certificates to trust, for https.
    pub(crate) ca: Option<PathBuf>,
    /// What must be signed, and the list of signers.
    pub(crate) signed: Option<(&'static str, PathBuf)>,
    /// The name of the repository in manifests.
    pub(crate) repository: Option<String>,
    /// The commit that the first revision is, or descends from.
    pub(crate) first: Option<String>,
}

impl Enrolment {
    /// The configuration file.
    pub(crate) fn to_yaml(&self) -> String {
        let mut remote = Map::new();
        remote.insert("url".into(), json!(self.url));
        remote.insert("branch".into(), json!(self.branch));
        let files = [
            ("token_file", &self.token_file),
            ("key", &self.key),
            ("known_hosts", &self.known_hosts),
            ("ca", &self.ca),
        ];
        for (key, path) in files {
            if let Some(path) = path {
                remote.insert(key.into(), json!(path));
            }
        }
        let mut trust = Map::new();
        if let Some((require, signers)) = &self.signed {
            trust.insert("require".into(), json!(require));
            trust.insert("allowed_signers".into(), json!(signers));
        }
        if let Some(repository) = &self.repository {
            trust.insert("repository".into(), json!(repository));
        }
        if let Some(first) = &self.first {
            trust.insert("first".into(), json!({"commit": first}));
        }
        let mut all = json!({"source": {"remotes": [remote]}});
        if !trust.is_empty() {
            all["trust"] = Value::Object(trust);
        }
        let data = serde_json::from_value(all).unwrap_or_default();
        format!("# Written by `zagent enroll`. Values here override those of zagent.yaml.\n{}", yaml(&data))
    }
}

/// The first commit that an earlier enrolment pinned.
pub(crate) fn pinned_commit(text: &str) -> Option<String> {
    let data: serde_yaml::Value = serde_yaml::from_str(text).ok()?;
    Some(data.get("trust")?.get("first")?.get("commit")?.as_str()?.to_owned())
}

/// The error of a file.
pub(crate) fn file_error(act: &str, path: &std::path::Path, error: &std::io::Error) -> AgentError {
    let message = format!("cannot {act} `{}`: {}", path.display(), error_chain(error));
    match error.kind() {
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
            AgentError::permission(message)
        }
        _ => AgentError::usage(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_valid_and_holds_what_was_asked() {
        let enrolment = Enrolment {
            url: "https://git.example.org/states.git".into(),
            branch: "main".into(),
            token_file: Some("/etc/zagent/token".into()),
            signed: Some(("manifest", "/etc/zagent/allowed_signers".into())),
            repository: Some("ops: 'states'".into()),
            first: Some("3f2a1b9c0d1e2f3a4b5c6d7e8f90a1b2c3d4e5f6".into()),
            ..Enrolment::default()
        };
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("zagent.yaml");
        std::fs::write(&file, enrolment.to_yaml()).unwrap();
        let location = zagent_config::settings::ConfigLocation::File(file);
        let settings =
            zagent_config::settings::load(&location, std::iter::empty(), &[], Some("node")).unwrap();
        let remote = &settings.source.remotes[0];
        assert_eq!((remote.url.as_str(), remote.branch.as_str()), (&*enrolment.url, "main"));
        assert_eq!(remote.token_file, enrolment.token_file);
        assert_eq!(settings.trust.allowed_signers, PathBuf::from("/etc/zagent/allowed_signers"));
        assert_eq!(settings.trust.repository.as_deref(), Some("ops: 'states'"));
        assert_eq!(pinned_commit(&enrolment.to_yaml()), enrolment.first);
        assert_eq!(pinned_commit("id: x\n"), None);
    }
}
