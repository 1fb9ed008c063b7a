//! A text that should hold something in, a state out: what `host`, `alias`, `ini`, `ssh_auth` and `cron` share.
//!
//! `check` and `apply` make the same edit in memory, and `apply` writes what came out. What the edit does not touch
//! stays byte for byte.

use std::path::{Path, PathBuf};
use zagent_config::mask::redact_logins;

use zagent_config::{Map, Value};

use crate::file::sources::{ContentLocation, FileSources, parse_location};
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx,
    StateError,
};
use zagent_host::fs::FileMeta;

/// What becomes of a text.
pub(crate) enum TextEdit {
    /// It is as it should be; in words.
    InSync(String),
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
pub(crate) trait TextFile: Send {
    /// Where the file is.
    fn path(&self, ctx: &StateCtx<'_>) -> Result<PathBuf, StateError>;

    /// What becomes of the text; nothing is the text of a file that is not there.
    fn edit(&self, old: Option<&str>, ctx: &StateCtx<'_>) -> Result<TextEdit, StateError>;

    /// What a dry run says of what was found.
    fn preview(&self, checked: CheckResult, _: Option<&str>, _: &StateCtx<'_>) -> CheckResult {
        checked
    }

    /// Makes what has to be there first, and says how a new file is owned.
    fn prepare_parent(&self, _: &Path, _: &StateCtx<'_>) -> Result<FileMeta, StateError> {
        Ok(FileMeta { mode: Some(0o644), ..FileMeta::default() })
    }

    /// What is done once it is written.
    fn after_write(&self, _: &StateCtx<'_>) -> Result<(), StateError> {
        Ok(())
    }

    /// What a look depends on.
    fn reads(&self) -> Effects {
        Effects::FILES | Effects::PACKAGE_FILES
    }

    /// What nobody else may touch meanwhile.
    fn lock_key(&self) -> LockKey {
        LockKey::Users
    }

    /// True when a look may start a program.
    fn may_run_program(&self) -> bool {
        false
    }
}

/// The state of such a text.
pub(crate) struct TextFileState<T>(pub T);

/// The state of a text that a function asks for; nothing when there is no such function.
pub(crate) fn text_file_state<T: TextFile + 'static>(
    read: Option<Result<T, StateError>>,
) -> Option<BuildResult> {
    read.map(|text| text.map(|text| Box::new(TextFileState(text)) as Box<dyn State>))
}

impl<T: TextFile> TextFileState<T> {
    fn check_text(&self, old: Option<&str>, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        Ok(match self.0.edit(old, ctx)? {
            TextEdit::InSync(words) => CheckResult::in_sync(words),
            TextEdit::Change { new, would, changes, .. } => {
                CheckResult::drifted(would, changes).with_diff(unified_diff(old.unwrap_or_default(), &new))
            }
        })
    }

    fn read_file(&self, ctx: &StateCtx<'_>) -> Result<(PathBuf, Option<DecodedText>), StateError> {
        let path = ctx.fs.resolve_for_change(&self.0.path(ctx)?)?;
        if ctx.fs.stat(&path)?.is_none() {
            return Ok((path, None));
        }
        let bytes = ctx.fs.read_for_change(&path)?;
        Ok((path, Some(DecodedText::decode(bytes))))
    }
}

/// The text of a file; bytes that are not UTF-8 stand for a character each.
struct DecodedText {
    text: String,
    is_bytes: bool,
}

impl DecodedText {
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

impl<T: TextFile> State for TextFileState<T> {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let (_, old) = self.read_file(ctx)?;
        self.check_text(old.as_ref().map(|t| &*t.text), ctx)
    }

    fn preview(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let (_, old) = self.read_file(ctx)?;
        let old = old.as_ref().map(|t| &*t.text);
        Ok(self.0.preview(self.check_text(old, ctx)?, old, ctx))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let (path, old) = self.read_file(ctx)?;
        let text = old.as_ref().map(|t| &*t.text);
        let TextEdit::Change { new, did, changes, .. } = self.0.edit(text, ctx)? else {
            return Ok(ApplyResult::default());
        };
        let meta = self.0.prepare_parent(&path, ctx)?;
        let meta = if old.is_some() { FileMeta::default() } else { meta };
        ctx.fs.write(&path, &DecodedText::encode(&new, old.as_ref().is_some_and(|t| t.is_bytes)), meta)?;
        let done = ApplyResult::new(did, changes).with_diff(unified_diff(text.unwrap_or_default(), &new));
        match self.0.after_write(ctx) {
            Ok(()) => Ok(done),
            Err(failure) => Err(ApplyResult { comment: failure.result.comment, ..done }.into()),
        }
    }

    fn is_predictable(&self) -> bool {
        true
    }

    fn reads(&self) -> Effects {
        self.0.reads()
    }

    fn still_valid(&self, _: &CheckResult, hidden: Effects) -> bool {
        // A look that found the user: other states of users are about others.
        crate::shared::accounts::is_still_valid(hidden)
    }

    fn check_cost(&self) -> CheckCost {
        if self.0.may_run_program() { CheckCost::Heavy } else { CheckCost::Light }
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![self.0.lock_key()]
    }
}

/// The lines that change.
pub(crate) fn unified_diff(old: &str, new: &str) -> String {
    similar::TextDiff::from_lines(old, new).unified_diff().context_radius(3).to_string()
}

/// A text of the state tree (`salt://…`), of the host or of the web, rendered when a template is asked for. One of the web has
/// the digest that the state says.
pub(crate) fn read_source(
    args: &ChunkArgs<'_>,
    source: &str,
    ctx: &StateCtx<'_>,
) -> Result<String, StateError> {
    let (mut env, mut path) = (args.chunk.env.to_string(), source);
    let missing = || StateError::new(format!("Source file {source} is missing"));
    let bytes = match parse_location(source) {
        ContentLocation::Tree(own, below) => {
            (env, path) = (own.map_or(env, str::to_owned), below);
            ctx.files.read(&env, path).map_err(StateError::new)?.ok_or_else(missing)?.to_vec()
        }
        ContentLocation::Local(file) if file.starts_with('/') => {
            ctx.fs.stat(Path::new(file))?.ok_or_else(missing)?;
            ctx.fs.read(Path::new(file))?
        }
        ContentLocation::Web(_) => {
            let found =
                FileSources::single(source, args)?.find_source(ctx, &env, source).map_err(StateError::new)?;
            found.bytes.to_vec()
        }
        ContentLocation::Local(_) | ContentLocation::Foreign(_) => {
            let shown = redact_logins(source);
            return Err(StateError::new(format!(
                "the source {shown} must be `salt://…`, `https://…` or a path on the host"
            )));
        }
    };
    let text = String::from_utf8(bytes).map_err(|_| StateError::new(format!("{source} is not text")))?;
    match args.text("template")?.as_deref() {
        None => Ok(text),
        Some("jinja") => {
            let variables = crate::template_args::template_variables(args)?;
            let template = crate::FileTemplate { env, path: path.to_owned(), source: text, variables };
            ctx.templates.render(&template).map_err(StateError::new)
        }
        Some(other) => Err(StateError::new(format!("`template` knows jinja only, not {other}"))),
    }
}

/// One change in Salt's shape.
pub(crate) fn single_change(key: impl Into<Value>, value: impl Into<Value>) -> Map {
    let mut map = Map::new();
    map.insert(key, value);
    map
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;
    use crate::testing::{StateTestBed, chunk};

    #[test]
    fn a_source_is_of_the_environment_that_it_names() {
        let mut test_bed = StateTestBed::new();
        let [base, dev] = ["base", "dev"].map(|env| test_bed.dir.path().join(env));
        for (dir, text) in [(&base, "base\n"), (&dev, "dev\n")] {
            std::fs::create_dir(dir).unwrap();
            std::fs::write(dir.join("k"), text).unwrap();
        }
        let files = crate::file_tree::DirFiles::new().with_env("base", base).with_env("dev", dev);
        test_bed.files = Box::new(files);
        let chunk = chunk("ssh_auth.present", "k", "{}");
        let read = |source: &str| {
            read_source(&ChunkArgs::new(&chunk), source, &test_bed.scene()).map_err(|f| f.result.comment)
        };
        assert_eq!(read("salt://k"), Ok("base\n".into()));
        assert_eq!(read("salt://k?saltenv=dev"), Ok("dev\n".into()));
        let missing = "Source file salt://k?saltenv=prod is missing";
        assert_eq!(read("salt://k?saltenv=prod"), Err(missing.into()));
    }

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
        let test_bed = StateTestBed::new();
        let said = |more: &str| {
            let chunk = chunk("cron.file", &url, &format!("{{{more}}}"));
            read_source(&ChunkArgs::new(&chunk), &url, &test_bed.scene()).map_err(|f| f.result.comment)
        };
        assert!(said("").is_err_and(|e| e.contains("source_hash")));
        let wrong = format!(r#""source_hash": "{}""#, "0".repeat(64));
        assert!(said(&wrong).is_err_and(|e| e.contains("does not match")));
        let hi = "98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4";
        assert_eq!(said(&format!(r#""source_hash": "{hi}""#)), Ok("hi\n".to_owned()));
        assert_eq!(said(r#""skip_verify": true"#), Ok("hi\n".to_owned()));
        let chunk = chunk("cron.file", "ftp://u:p@h/x", "{}");
        let foreign = read_source(&ChunkArgs::new(&chunk), "ftp://u:p@h/x", &test_bed.scene());
        assert!(foreign.is_err_and(|f| f.result.comment.contains("ftp://<redacted>@h/x must be")));
    }
}
