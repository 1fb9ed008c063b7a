//! A plan, what its run needs to know, and the files it names in, bytes out, and back.
//!
//! Law: what was packed is unpacked unchanged; anything else gives `None` (held by `a_package_is_unpacked_unchanged`).

use zagent_compiler::Plan;
use zagent_config::value::binary::ValueReader;
use zagent_config::{Map, Value};

/// First bytes of a package.
const MAGIC: &[u8] = b"zagent run 1\n";

/// A file that a plan names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedFile {
    /// Its environment.
    pub env: String,
    /// Its path in the states.
    pub path: String,
    /// Its BLAKE3 digest; empty for a directory and for a link.
    pub digest: String,
    /// Its permission bits, where the states have any.
    pub mode: Option<u32>,
    /// Where it points to, for a link.
    pub link: Option<String>,
}

impl PackedFile {
    /// True for a file with content.
    #[must_use]
    pub fn is_file(&self) -> bool {
        !self.digest.is_empty()
    }

    fn to_value(&self) -> Value {
        Value::from_iter([
            Value::from(self.env.as_str()),
            self.path.as_str().into(),
            self.digest.as_str().into(),
            self.mode.map_or(Value::Null, |mode| i64::from(mode).into()),
            self.link.as_deref().map_or(Value::Null, Value::from),
        ])
    }

    fn from_value(value: &Value) -> Option<Self> {
        let [env, path, digest, mode, link] = value.as_list()?.iter().collect::<Vec<_>>().try_into().ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(Self {
            env: text(env)?,
            path: text(path)?,
            digest: text(digest)?,
            mode: mode.as_int().and_then(|mode| u32::try_from(mode).ok()),
            link: text(link),
        })
    }
}

/// Everything that a run on a resource needs.
#[derive(Debug)]
pub struct RunPackage {
    /// The plan.
    pub plan: Plan,
    /// What else it needs, by name.
    pub about: Map,
    /// The files that the plan names.
    pub files: Vec<PackedFile>,
}

impl RunPackage {
    /// As bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        Value::from(self.about.clone()).to_bytes(&mut bytes);
        self.files.iter().map(PackedFile::to_value).collect::<Value>().to_bytes(&mut bytes);
        self.plan.to_bytes(&mut bytes);
        bytes
    }

    /// From bytes; `None` when they are no package.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = ValueReader::new(bytes.strip_prefix(MAGIC)?);
        let about = reader.read_value()?.as_map()?.clone();
        let files = reader.read_value()?;
        let files = files.as_list()?.iter().map(PackedFile::from_value).collect::<Option<_>>()?;
        let plan = Plan::from_bytes(&mut reader)?;
        reader.is_empty().then_some(Self { plan, about, files })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_unpacked_unchanged() {
        let file = |digest: &str, mode, link: Option<&str>| PackedFile {
            env: "base".into(),
            path: "a/b".into(),
            digest: digest.into(),
            mode,
            link: link.map(str::to_owned),
        };
        let package = RunPackage {
            plan: Plan::default(),
            about: Map::from_iter([("id", Value::from("web-01")), ("n", 7.into())]),
            files: vec![file("ab12", Some(0o755), None), file("", None, Some("../c"))],
        };
        let bytes = package.to_bytes();
        let back = RunPackage::from_bytes(&bytes).unwrap();
        assert_eq!((back.about, back.files, back.plan.chunks.len()), (package.about, package.files, 0));
        for wrong in [&bytes[1..], &bytes[..bytes.len() - 1], b"", b"zagent run 1\n"] {
            assert!(RunPackage::from_bytes(wrong).is_none());
        }
    }
}
