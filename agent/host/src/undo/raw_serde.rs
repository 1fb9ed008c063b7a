//! Names, paths and times as text, without loss: a name that is no text is written as its bytes.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Deserialize)]
#[serde(untagged)]
enum RawBytes {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<RawBytes> for OsString {
    fn from(raw: RawBytes) -> Self {
        match raw {
            RawBytes::Text(text) => Self::from(text),
            RawBytes::Bytes(bytes) => Self::from_vec(bytes),
        }
    }
}

/// Names.
pub(crate) mod name {
    use std::ffi::OsStr;

    use super::*;

    pub(crate) fn serialize<S: Serializer>(name: &OsStr, serializer: S) -> Result<S::Ok, S::Error> {
        match name.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => name.as_bytes().serialize(serializer),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<OsString, D::Error> {
        RawBytes::deserialize(input).map(OsString::from)
    }
}

/// Paths.
pub(crate) mod path {
    use std::path::{Path, PathBuf};

    use super::*;

    pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        name::serialize(path.as_os_str(), serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<PathBuf, D::Error> {
        name::deserialize(input).map(PathBuf::from)
    }
}

/// Extended attributes.
pub(crate) mod xattrs {
    use super::*;

    struct XattrName<'a>(&'a OsString);

    impl Serialize for XattrName<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            name::serialize(self.0, serializer)
        }
    }

    pub(crate) fn serialize<S: Serializer>(
        xattrs: &[(OsString, Vec<u8>)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(xattrs.iter().map(|(name, value)| (XattrName(name), value)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<Vec<(OsString, Vec<u8>)>, D::Error> {
        let raw = Vec::<(RawBytes, Vec<u8>)>::deserialize(input)?;
        Ok(raw.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

/// Nanoseconds since 1970, which are more than a number in JSON may be.
pub(crate) mod time {
    use serde::de::Error;

    use super::*;

    pub(crate) fn serialize<S: Serializer>(time: &i128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(time)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<i128, D::Error> {
        String::deserialize(input)?.parse().map_err(D::Error::custom)
    }
}
