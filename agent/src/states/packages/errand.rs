//! Something that programs are told when a look at it found it otherwise: access lists, SELinux.

use zagent_compiler::Chunk;
use zagent_config::Map;

use super::{Args, Built};
use crate::host::Tools;
use crate::host::services::lines;
use crate::states::{Done, Failure, Look, Resource, Scene, State, Thing, Veil};

/// What a look found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Errand {
    /// In words: how it stands, or what would be done.
    pub(super) comment: String,
    /// In words: what was done.
    pub(super) done: String,
    pub(super) changes: Map,
    /// Programs and their words; none when everything is right.
    pub(super) acts: Vec<Vec<String>>,
    /// A file and what it should hold.
    pub(super) file: Option<(&'static str, String)>,
}

impl Errand {
    /// Everything is right.
    pub(super) fn right(comment: impl Into<String>) -> Self {
        Self { comment: comment.into(), ..Self::default() }
    }
}

/// Words as they are told.
pub(super) fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|w| (*w).to_owned()).collect()
}

/// How a kind of errands is looked at and noted.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) look: fn(&Scene<'_>, &Args<'_>) -> Result<Errand, Failure>,
    /// Where all of it is kept, so that one is done after the other.
    pub(super) store: Option<&'static str>,
    /// What is noted before it changes, by the name of the state.
    pub(super) thing: Option<&'static dyn Thing>,
    pub(super) veil: Veil,
    pub(super) lasts: bool,
}

struct Sent {
    chunk: Chunk,
    kind: Kind,
}

/// Makes the state.
pub(super) fn build(kind: Kind, args: &Args<'_>) -> Built {
    Ok(Box::new(Sent { chunk: args.chunk.clone(), kind }))
}

impl Sent {
    fn look(&self, scene: &Scene<'_>) -> Result<Errand, Failure> {
        (self.kind.look)(scene, &Args::new(&self.chunk))
    }
}

/// Tells all programs.
fn tell(tools: &Tools<'_>, errand: &Errand) -> Result<(), Failure> {
    for act in &errand.acts {
        if let Some((program, words)) = act.split_first() {
            tools.must(program, words)?;
        }
    }
    Ok(())
}

impl State for Sent {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let errand = self.look(scene)?;
        if errand.acts.is_empty() && errand.file.is_none() {
            return Ok(Look::right(errand.comment));
        }
        Ok(Look::drift(errand.comment, errand.changes))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let errand = self.look(scene)?;
        let tools = scene.tools();
        if let Some((path, text)) = &errand.file {
            lines::write(scene.fs, path, text)?;
        }
        match self.kind.thing {
            Some(thing) => scene.change(thing, Args::new(&self.chunk).name(), || tell(&tools, &errand))?,
            None => tell(&tools, &errand)?,
        }
        Ok(Done::new(errand.done, errand.changes))
    }

    fn is_lasting(&self) -> bool {
        self.kind.lasts
    }

    fn sees(&self) -> Veil {
        self.kind.veil
    }

    fn veils(&self) -> Veil {
        Veil::KERNEL
    }

    fn irreversible(&self) -> Option<&'static str> {
        self.kind.thing.is_none().then_some("what it was is not noted")
    }

    fn resources(&self) -> Vec<Resource> {
        let name = Some(Args::new(&self.chunk).name()).filter(|name| name.starts_with('/'));
        let paths = name.into_iter().chain(self.kind.store.map(str::to_owned));
        paths.map(|path| Resource::Path(path.into())).collect()
    }
}
