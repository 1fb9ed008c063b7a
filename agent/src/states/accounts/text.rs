//! A text that should hold something in, a state out: what `host`, `alias`, `ini`, `ssh_auth` and `cron` share.
//!
//! Law: `check` and `apply` make the same edit in memory, and `apply` writes what came out. What the edit does not touch
//! stays byte for byte.

use std::path::{Path, PathBuf};

use zagent_config::{Map, Value};

use crate::fs::Meta;
use crate::states::file::source::{Place, Sources, place, redact};
use crate::states::{Args, Cost, Done, Failure, Look, Resource, Scene, State, Veil};

/// What becomes of a text.
pub(super) enum Edit {
    /// It is as it should be; in words.
    Right(String),
    /// It becomes another.
    Change {
        new: String,
        /// What a dry run says.
        would: String,
        /// What is said once it is done.
        did: String,
        changes: Map,
    },
}

/// A text, and what it should hold.
pub(super) trait Texts: Send {
    /// Where the file is.
    fn path(&self, scene: &Scene<'_>) -> Result<PathBuf, Failure>;

    /// What becomes of the text; nothing is the text of a file that is not there.
    fn edit(&self, old: Option<&str>, scene: &Scene<'_>) -> Result<Edit, Failure>;

    /// Makes what has to be there first, and says how a new file is owned.
    fn prepare(&self, _: &Path, _: &Scene<'_>) -> Result<Meta, Failure> {
        Ok(Meta { mode: Some(0o644), ..Meta::default() })
    }

    /// What is done once it is written.
    fn finish(&self, _: &Scene<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// What a look depends on.
    fn sees(&self) -> Veil {
        Veil::FILES | Veil::BROUGHT
    }

    /// What nobody else may touch meanwhile.
    fn resource(&self) -> Resource {
        Resource::Users
    }

    /// True when a look may start a program.
    fn asks(&self) -> bool {
        false
    }
}

/// The state of such a text.
pub(super) struct Edited<T>(pub(super) T);

impl<T: Texts> Edited<T> {
    fn read(&self, scene: &Scene<'_>) -> Result<(PathBuf, Option<Text>), Failure> {
        let path = scene.fs.end_for_change(&self.0.path(scene)?)?;
        if scene.fs.stat(&path)?.is_none() {
            return Ok((path, None));
        }
        let bytes = scene.fs.read_for_change(&path)?;
        Ok((path, Some(Text::decode(bytes))))
    }
}

/// The text of a file; bytes that are not UTF-8 stand for a character each.
struct Text {
    text: String,
    is_bytes: bool,
}

impl Text {
    fn decode(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self { text, is_bytes: false },
            Err(e) => Self { text: e.into_bytes().into_iter().map(char::from).collect(), is_bytes: true },
        }
    }

    /// The bytes of a text; one that was read byte by byte is written so where it can be.
    fn encode(text: &str, is_bytes: bool) -> Vec<u8> {
        let bytes = || text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect::<Option<Vec<u8>>>();
        is_bytes.then(bytes).flatten().unwrap_or_else(|| text.as_bytes().to_vec())
    }
}

impl<T: Texts> State for Edited<T> {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let (_, old) = self.read(scene)?;
        let old = old.map(|t| t.text);
        Ok(match self.0.edit(old.as_deref(), scene)? {
            Edit::Right(words) => Look::right(words),
            Edit::Change { new, would, changes, .. } => {
                Look::drift(would, changes).with_diff(diff(old.as_deref().unwrap_or_default(), &new))
            }
        })
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let (path, old) = self.read(scene)?;
        let text = old.as_ref().map(|t| &*t.text);
        let Edit::Change { new, did, changes, .. } = self.0.edit(text, scene)? else {
            return Ok(Done::default());
        };
        let meta = self.0.prepare(&path, scene)?;
        let meta = if old.is_some() { Meta::default() } else { meta };
        scene.fs.write(&path, &Text::encode(&new, old.as_ref().is_some_and(|t| t.is_bytes)), meta)?;
        let done = Done::new(did, changes).with_diff(diff(text.unwrap_or_default(), &new));
        match self.0.finish(scene) {
            Ok(()) => Ok(done),
            Err(failure) => Err(Done { comment: failure.done.comment, ..done }.into()),
        }
    }

    fn is_foreseeable(&self) -> bool {
        true
    }

    fn sees(&self) -> Veil {
        self.0.sees()
    }

    fn holds(&self, _: &Look, hidden: Veil) -> bool {
        // A look that found the user: other states of users are about others.
        super::holds(hidden)
    }

    fn cost(&self) -> Cost {
        if self.0.asks() { Cost::Heavy } else { Cost::Light }
    }

    fn resources(&self) -> Vec<Resource> {
        vec![self.0.resource()]
    }
}

/// The lines that change.
pub(super) fn diff(old: &str, new: &str) -> String {
    similar::TextDiff::from_lines(old, new).unified_diff().context_radius(3).to_string()
}

/// A text of the state tree (`salt://…`), of the host or of the web, rendered when a template is asked for. One of the web has
/// the digest that the state says.
pub(super) fn source(args: &Args<'_>, source: &str, scene: &Scene<'_>) -> Result<String, Failure> {
    let env = args.chunk.env.to_string();
    let missing = || Failure::new(format!("Source file {source} is missing"));
    let bytes = if let Some(path) = source.strip_prefix("salt://") {
        let path = path.split('?').next().unwrap_or_default();
        scene.files.read(&env, path).map_err(Failure::new)?.ok_or_else(missing)?.to_vec()
    } else if source.starts_with('/') {
        let path = Path::new(source);
        scene.fs.stat(path)?.ok_or_else(missing)?;
        scene.fs.read(path)?
    } else if let Place::Web(_) = place(source) {
        let found = Sources::one(source, args)?.find(scene, &env, source).map_err(Failure::new)?;
        found.bytes.to_vec()
    } else {
        let shown = redact(source);
        return Err(Failure::new(format!(
            "the source {shown} must be `salt://…`, `https://…` or a path on the host"
        )));
    };
    let text = String::from_utf8(bytes).map_err(|_| Failure::new(format!("{source} is not text")))?;
    match args.text("template")?.as_deref() {
        None => Ok(text),
        Some("jinja") => {
            let mut variables = args.map("defaults")?.unwrap_or_default();
            for (key, value) in args.map("context")?.unwrap_or_default().iter() {
                variables.insert(key.clone(), value.clone());
            }
            let path = source.trim_start_matches("salt://").to_owned();
            let template = crate::states::Template { env, path, source: text, variables };
            scene.templates.render(&template).map_err(Failure::new)
        }
        Some(other) => Err(Failure::new(format!("`template` knows jinja only, not {other}"))),
    }
}

/// One change in Salt's shape.
pub(super) fn change(key: impl Into<Value>, value: impl Into<Value>) -> Map {
    let mut map = Map::new();
    map.insert(key, value);
    map
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;
    use crate::states::stage::{Stage, chunk};

    #[test]
    fn a_source_of_the_web_has_the_digest_that_is_said() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/tab", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]).unwrap();
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nhi\n")
                    .unwrap();
            }
        });
        let stage = Stage::new();
        let said = |more: &str| {
            let chunk = chunk("cron.file", &url, &format!("{{{more}}}"));
            source(&Args::new(&chunk), &url, &stage.scene()).map_err(|f| f.done.comment)
        };
        assert!(said("").is_err_and(|e| e.contains("source_hash")));
        let wrong = format!(r#""source_hash": "{}""#, "0".repeat(64));
        assert!(said(&wrong).is_err_and(|e| e.contains("does not match")));
        let hi = "98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4";
        assert_eq!(said(&format!(r#""source_hash": "{hi}""#)), Ok("hi\n".to_owned()));
        assert_eq!(said(r#""skip_verify": true"#), Ok("hi\n".to_owned()));
        let chunk = chunk("cron.file", "ftp://u:p@h/x", "{}");
        let foreign = source(&Args::new(&chunk), "ftp://u:p@h/x", &stage.scene());
        assert!(foreign.is_err_and(|f| f.done.comment.contains("ftp://<redacted>@h/x must be")));
    }
}
