//! Inputs and result of a compile in, the same plan without compiling out, as long as every input is
//! unchanged.
//!
//! Law: compiling is a function of its inputs, so a plan is reused only when all inputs (files, grains, calls) are
//! the same. Decrypted data is never cached. An unreadable cached plan is ignored (held by
//! `a_plan_is_reused_while_all_inputs_are_unchanged`,
//! `a_changed_file_a_changed_grain_or_a_new_file_invalidates_it`, `a_damaged_plan_is_ignored`).

mod rendered_texts;
pub mod trace;

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use zagent_compiler::{CompileInputs, CompileTarget, Plan};
use zagent_config::Value;
use zagent_config::atomic_file::AtomicFile;
use zagent_config::value::binary::ValueReader;

pub use rendered_texts::{RenderedTexts, RenderedTextsPlace, RenderedTextsUse};
pub use trace::CompileTrace;

/// First bytes of a cached plan: the version of its format.
const MAGIC: &[u8] = b"zagent plan 1\n";
/// The extension of a cached plan.
const PLAN_EXTENSION: &str = "plan";
/// Maximum number of cached plans: a host has few sets of arguments that recur.
const MAX_PLANS: usize = 8;

/// Identifies what was compiled: two compiles with one key differ only in their inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanKey(blake3::Hash);

impl PlanKey {
    /// Key of a compile; `more` is whatever else could matter, such as the programs that may be called.
    #[must_use]
    pub fn new(inputs: &CompileInputs, want: &CompileTarget, more: &str) -> Self {
        let text = format!(
            "{}\n{:?}\n{:?}\n{more}\n{:?}",
            env!("CARGO_PKG_VERSION"),
            inputs.options,
            want,
            program_identity()
        );
        Self(blake3::hash(text.as_bytes()))
    }

    fn plan_path(&self, dir: &Path) -> PathBuf {
        self.file_path(dir, PLAN_EXTENSION)
    }

    fn file_path(&self, dir: &Path, extension: &str) -> PathBuf {
        dir.join(format!("{}.{extension}", &self.0.to_hex()[..24]))
    }
}

/// This program: another build may compile differently.
fn program_identity() -> Option<(u64, u64, i64)> {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata("/proc/self/exe").ok()?;
    Some((meta.ino(), meta.size(), meta.mtime()))
}

/// A plan and the pillar it was compiled with.
#[derive(Debug)]
pub struct CachedPlan {
    /// The plan.
    pub plan: Plan,
    /// The pillar.
    pub pillar: Value,
}

/// The cached plan of a key, when all its inputs are unchanged.
#[must_use]
pub fn load(dir: &Path, key: &PlanKey, inputs: &CompileInputs) -> Option<CachedPlan> {
    let bytes = std::fs::read(key.plan_path(dir)).ok()?;
    let mut reader = ValueReader::new(checked_body(MAGIC, &bytes)?);
    if reader.read_bytes(blake3::OUT_LEN)? != key.0.as_bytes() || !trace::still_valid(&mut reader, inputs)? {
        return None;
    }
    let pillar = reader.read_value()?;
    let plan = Plan::from_bytes(&mut reader)?;
    reader.is_empty().then_some(CachedPlan { plan, pillar })
}

/// The newest cached plan of at most this many bytes, whether or not its inputs have changed since: to be looked at.
#[must_use]
pub fn newest(dir: &Path, max_bytes: u64) -> Option<Plan> {
    let entries = std::fs::read_dir(dir).ok()?.filter_map(Result::ok);
    let plans = entries.filter(|entry| entry.path().extension().is_some_and(|end| end == PLAN_EXTENSION));
    let dated = plans.filter_map(|entry| {
        let meta = entry.metadata().ok()?;
        Some((meta.modified().ok()?, meta.len(), entry.path()))
    });
    let (_, size, path) = dated.max()?;
    if size > max_bytes {
        return None;
    }
    let bytes = std::fs::read(path).ok()?;
    let mut reader = ValueReader::new(checked_body(MAGIC, &bytes)?);
    reader.read_bytes(blake3::OUT_LEN)?;
    trace::skip(&mut reader)?;
    reader.read_value()?;
    Plan::from_bytes(&mut reader)
}

/// What follows the checksum of a cached file; none when it is damaged.
fn checked_body<'b>(magic: &[u8], bytes: &'b [u8]) -> Option<&'b [u8]> {
    let (sum, body) = bytes.strip_prefix(magic)?.split_at_checked(blake3::OUT_LEN)?;
    (*blake3::hash(body).as_bytes() == *sum).then_some(body)
}

/// Saves a plan for the next time; does nothing when its inputs cannot be checked again.
///
/// # Errors
/// Fails when it cannot be written.
pub fn save(
    dir: &Path,
    key: &PlanKey,
    trace: &CompileTrace,
    kept: (&Plan, &Value),
    now: SystemTime,
) -> io::Result<()> {
    let (plan, pillar) = kept;
    let mut body = Vec::with_capacity(256 << 10);
    body.extend_from_slice(key.0.as_bytes());
    if !trace.to_bytes(now, &mut body) {
        return Ok(());
    }
    pillar.to_bytes(&mut body);
    plan.to_bytes(&mut body);
    write_checked(dir, &key.plan_path(dir), MAGIC, &body)
}

/// Writes a file of the cache: what it is, its checksum, and the body.
fn write_checked(dir: &Path, path: &Path, magic: &[u8], body: &[u8]) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    prune(dir, path)?;
    let checksum = blake3::hash(body);
    // No sync: a torn file fails its checksum, and its content is made again.
    AtomicFile::cached(0o600).write(path, &[magic, checksum.as_bytes(), body].concat())
}

/// Makes room for a file: the oldest of its kind go first.
fn prune(dir: &Path, file: &Path) -> io::Result<()> {
    let mut all: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        // Temporary files that a crash left have no kind of their own.
        if is_of_kind(&entry.path(), file) {
            all.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    all.sort_unstable();
    for (_, path) in all.iter().rev().skip(MAX_PLANS - 1) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// True unless it is a file of the other kind.
fn is_of_kind(path: &Path, file: &Path) -> bool {
    let kind = |path: &Path| match path.extension() {
        Some(end) if end == PLAN_EXTENSION => Some(PLAN_EXTENSION),
        Some(end) if end == rendered_texts::EXTENSION => Some(rendered_texts::EXTENSION),
        _ => None,
    };
    kind(path).is_none_or(|own| kind(file) == Some(own))
}

#[cfg(test)]
pub mod tests;
