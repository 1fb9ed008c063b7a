//! Rendered templates of managed files, kept between runs: a run renders only what one of its inputs changed.
//!
//! A text is found by its template (environment, path, source and variables). What the templates read beside that, such as
//! imported files and grains, is recorded for all of them together: when one of these inputs changes, all are rendered again.
//!
//! Law: a kept text is what rendering would make. A template that calls a function of the host is always rendered, and
//! nothing is kept when a template changed what others see, or when something was decrypted (held by
//! `runs_with_kept_texts_make_the_files_of_fresh_runs`, `a_template_that_asks_the_host_is_always_rendered`).

use std::cell::{Cell, RefCell};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use hashbrown::{HashMap, HashSet};
use zagent_compiler::CompileInputs;
use zagent_config::Value;
use zagent_config::value::binary::{ValueReader, write_text, write_varint};
use zagent_states::FileTemplate;

use super::trace::{self, CompileTrace};
use super::{PlanKey, checked_body, write_checked};

/// First bytes of a file of texts: the version of its format.
const MAGIC: &[u8] = b"zagent texts 1\n";
/// Maximum bytes of all texts: they are in memory during a run.
const MAX_BYTES: usize = 8 << 20;
/// Maximum number of recordings: one for each run that added texts.
const MAX_TRACES: usize = 8;

/// Identifies a text: a digest of its template.
type TextKey = [u8; blake3::OUT_LEN];

/// What a run may do with kept texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenderedTextsUse {
    /// True to use the texts of earlier runs.
    pub load: bool,
    /// True to keep the texts for later runs.
    pub save: bool,
}

/// The rendered templates of one run.
#[derive(Debug, Default)]
pub struct RenderedTexts {
    allowed: Cell<RenderedTextsUse>,
    is_loaded: Cell<bool>,
    texts: RefCell<HashMap<TextKey, Arc<str>>>,
    /// Keys that this run asked for: the others are not kept.
    used: RefCell<HashSet<TextKey>>,
    bytes: Cell<usize>,
    has_new: Cell<bool>,
    /// The recordings of the runs that the loaded texts are from.
    traces: RefCell<Vec<Vec<u8>>>,
}

/// Where the texts of a run are kept, and what they depend on.
#[derive(Clone, Copy)]
pub struct RenderedTextsPlace<'a> {
    /// The directory of the plan cache.
    pub dir: &'a Path,
    /// The key of the plan.
    pub key: &'a PlanKey,
    /// The inputs of the compile.
    pub inputs: &'a CompileInputs,
    /// The pillar of the plan.
    pub pillar: &'a Value,
}

impl RenderedTexts {
    /// Says what this run may do; without this, nothing is loaded or saved.
    pub fn allow(&self, allowed: RenderedTextsUse) {
        self.allowed.set(allowed);
    }

    /// The text of a template, or what `render` makes of it; the text is kept when `render` says that it may be.
    ///
    /// # Errors
    /// Those of `render`.
    pub fn get_or_render(
        &self,
        place: &RenderedTextsPlace<'_>,
        template: &FileTemplate,
        render: impl FnOnce() -> Result<(String, bool), String>,
    ) -> Result<String, String> {
        if self.allowed.get() == RenderedTextsUse::default() {
            return render().map(|(text, _)| text);
        }
        self.load_once(place);
        let key = text_key(template);
        if let Some(text) = self.texts.borrow().get(&key) {
            self.used.borrow_mut().insert(key);
            return Ok(text.to_string());
        }
        let (text, may_be_kept) = render()?;
        let bytes = self.bytes.get().saturating_add(text.len());
        if may_be_kept && bytes <= MAX_BYTES {
            self.bytes.set(bytes);
            self.texts.borrow_mut().insert(key, text.as_str().into());
            self.used.borrow_mut().insert(key);
            self.has_new.set(true);
        }
        Ok(text)
    }

    fn load_once(&self, place: &RenderedTextsPlace<'_>) {
        if !self.is_loaded.replace(true) && self.allowed.get().load {
            // What cannot be read, or does not hold any more, is rendered again.
            let _ = self.load(place);
        }
    }

    fn load(&self, place: &RenderedTextsPlace<'_>) -> Option<()> {
        let bytes = std::fs::read(place.key.file_path(place.dir, EXTENSION)).ok()?;
        let mut reader = ValueReader::new(checked_body(MAGIC, &bytes)?);
        if reader.read_bytes(blake3::OUT_LEN)? != place.key.0.as_bytes()
            || reader.read_bytes(blake3::OUT_LEN)? != trace::value_digest(Some(place.pillar))
        {
            return None;
        }
        let mut traces = Vec::new();
        for _ in 0..reader.read_count()? {
            let n = reader.read_count()?;
            let recorded = reader.read_bytes(n)?;
            if !trace::still_valid(&mut ValueReader::new(recorded), place.inputs)? {
                return None;
            }
            traces.push(recorded.to_vec());
        }
        let count = reader.read_count()?;
        let mut texts = HashMap::with_capacity(count);
        let mut total = 0;
        for _ in 0..count {
            let key: TextKey = reader.read_bytes(blake3::OUT_LEN)?.try_into().ok()?;
            let text = reader.read_text()?;
            total += text.len();
            texts.insert(key, Arc::from(text));
        }
        if traces.len() < MAX_TRACES {
            self.bytes.set(total);
            self.traces.replace(traces);
            self.texts.replace(texts);
        }
        Some(())
    }

    /// True when there are texts to keep.
    #[must_use]
    pub fn has_new(&self) -> bool {
        self.allowed.get().save && self.has_new.get()
    }

    /// Keeps the texts of this run when there are new ones; `recording` is what their templates read.
    ///
    /// # Errors
    /// Fails when they cannot be written.
    pub fn save(
        &self,
        place: &RenderedTextsPlace<'_>,
        recording: &CompileTrace,
        now: SystemTime,
    ) -> io::Result<()> {
        if !self.has_new() {
            return Ok(());
        }
        let mut recorded = Vec::new();
        // Templates that called something are not kept.
        if !recording.to_bytes_without_calls(now, &mut recorded) {
            return Ok(());
        }
        let mut body = Vec::with_capacity(self.bytes.get());
        body.extend_from_slice(place.key.0.as_bytes());
        body.extend_from_slice(&trace::value_digest(Some(place.pillar)));
        let traces = self.traces.borrow();
        write_varint(&mut body, traces.len() as u64 + 1);
        for one in traces.iter().chain([&recorded]) {
            write_varint(&mut body, one.len() as u64);
            body.extend_from_slice(one);
        }
        let (texts, used) = (self.texts.borrow(), self.used.borrow());
        let kept = || texts.iter().filter(|(key, _)| used.contains(*key));
        write_varint(&mut body, kept().count() as u64);
        for (key, text) in kept() {
            body.extend_from_slice(key);
            write_text(&mut body, text);
        }
        write_checked(place.dir, &place.key.file_path(place.dir, EXTENSION), MAGIC, &body)
    }
}

/// The extension of a file of texts.
pub(super) const EXTENSION: &str = "texts";

fn text_key(template: &FileTemplate) -> TextKey {
    let FileTemplate { env, path, source, variables } = template;
    let mut bytes = Vec::with_capacity(source.len() + 256);
    for text in [env, path, source] {
        write_text(&mut bytes, text);
    }
    variables.to_bytes(&mut bytes);
    blake3::hash(&bytes).into()
}

#[cfg(test)]
mod tests;
