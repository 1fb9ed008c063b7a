//! A tree and a node in, a plan out, through five stages: select, render, merge, lower, link.

use std::cell::OnceCell;
use std::fmt::Write as _;
use std::sync::Arc;

use zagent_config::codes::pillar as codes;
use zagent_config::mask::Secret;
use zagent_config::mask::secret_keys;
use zagent_config::resources::declared_names;
use zagent_config::target::{SubjectRole, TargetSubject};
use zagent_config::{Diagnostic, Diagnostics, FileLocation, Map, SecretMask, TraceStep, Value};

use crate::high::HighData;
use crate::input::{Compat, CompileInputs, CompileOptions, FileTree, TemplateHost};
use crate::lower::reverse_requisites::reverse_requisites;
use crate::lower::verify::verify;
use crate::merge::exclude::exclude;
use crate::merge::extend::{FindBy, extend};
use crate::pillar::{self, Pillar};
use crate::plan::{Chunk, Plan};
use crate::select::{self, TopMatches};
use crate::session::template::{RenderPhase, Templates};
use crate::session::{CompileSession, ReadRequest, render};
use crate::source_files::{ReachedBy, RenderedPos};
use crate::{link, lower, merge, secret_argv, strict};

/// What to compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileTarget {
    /// What the top files select.
    Highstate,
    /// These SLS of one environment.
    Sls {
        /// Their names or patterns.
        names: Vec<String>,
        /// The environment.
        env: String,
    },
}

/// A compiled tree.
#[derive(Clone, Debug)]
pub struct CompileOutput {
    /// The plan.
    pub plan: Plan,
    /// Warnings; they do not stop the run.
    pub warnings: Vec<Diagnostic>,
}

/// A target of a top file, for reports.
#[derive(Clone, Debug)]
pub struct TopTarget {
    /// The environment.
    pub env: String,
    /// The target as it was written.
    pub target: String,
    /// Its position.
    pub place: FileLocation,
    /// True when it matches this node.
    pub matched: bool,
}

/// Compiles one tree for one node. Each stage can be requested on its own; the pillar is compiled once.
pub struct Compiler {
    inputs: CompileInputs,
    pillar: OnceCell<(CompileSession, Pillar)>,
    states: OnceCell<CompileSession>,
    /// Inputs of the templates of managed files: a caller may record apart what these read.
    file_inputs: CompileInputs,
    file_templates: OnceCell<Arc<Templates>>,
}

/// A node as the matcher sees it.
struct NodeSubject<'n> {
    options: &'n CompileOptions,
    host: &'n dyn TemplateHost,
    pillar: Value,
}

impl TargetSubject for NodeSubject<'_> {
    fn id(&self) -> &str {
        &self.options.id
    }

    fn grain(&self, name: &str) -> Option<Value> {
        self.host.grain(name)
    }

    fn grains(&self) -> Value {
        self.host.grains()
    }

    fn pillar(&self) -> Value {
        self.pillar.clone()
    }

    fn nodegroups(&self) -> &Map {
        &self.options.nodegroups
    }

    fn resources(&self) -> Vec<(String, String)> {
        match self.options.resource {
            Some(_) => Vec::new(),
            None => declared_names(&self.pillar, &self.options.resources_key),
        }
    }

    fn role(&self) -> SubjectRole<'_> {
        self.options.resource.as_ref().map_or(SubjectRole::Node, |resource| SubjectRole::Resource {
            kind: &resource.kind,
            manager: &resource.manager,
        })
    }
}

impl Compiler {
    /// Makes a compiler; nothing is read until a stage is requested.
    #[must_use]
    pub fn new(inputs: CompileInputs) -> Self {
        let file_inputs = inputs.clone();
        Self::with_file_inputs(inputs, file_inputs)
    }

    /// The same; the templates of managed files read the same things through `file_inputs`.
    #[must_use]
    pub fn with_file_inputs(inputs: CompileInputs, file_inputs: CompileInputs) -> Self {
        let (pillar, states, file_templates) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { inputs, pillar, states, file_inputs, file_templates }
    }

    fn options(&self) -> &CompileOptions {
        &self.inputs.options
    }

    fn pillar_stage(&self) -> &(CompileSession, Pillar) {
        self.pillar.get_or_init(|| {
            let over = &self.options().pillar_override;
            let (session, first) = self.pillar_pass(Map::new(), &Map::new());
            if over.is_empty() {
                return (session, first);
            }
            // Pillar from the caller is merged in a second pass, whose templates see the result of the first.
            let (session, second) = self.pillar_pass(first.value.clone(), over);
            (session, first.merged_with(second))
        })
    }

    fn pillar_pass(&self, seen: Map, over: &Map) -> (CompileSession, Pillar) {
        let templates = Templates::new(&self.inputs, RenderPhase::Pillar, seen.clone());
        let session = CompileSession::new(self.inputs.clone(), templates);
        let node = NodeSubject { options: self.options(), host: &*self.inputs.host, pillar: seen.into() };
        let pillar = pillar::compile(&session, &node, over);
        (session, pillar)
    }

    pub(crate) fn compat(&self) -> Compat {
        self.options().compat
    }

    pub(crate) fn state_session(&self) -> &CompileSession {
        self.states.get_or_init(|| self.new_state_session(&self.pillar_stage().1))
    }

    fn new_state_session(&self, pillar: &Pillar) -> CompileSession {
        let templates = Templates::new(&self.inputs, RenderPhase::States, pillar.value.clone());
        CompileSession::new(self.inputs.clone(), templates)
    }

    fn subject(&self) -> NodeSubject<'_> {
        let (_, pillar) = self.pillar_stage();
        NodeSubject { options: self.options(), host: &*self.inputs.host, pillar: pillar.value.clone().into() }
    }

    /// The pillar. With `compat: salt`, errors are in `_errors`; otherwise they are returned.
    ///
    /// # Errors
    /// Fails with every pillar error.
    pub fn pillar(&self) -> Result<Value, Diagnostics> {
        let (_, pillar) = self.pillar_stage();
        if self.options().compat == Compat::Salt {
            return Ok(self.second_pillar_pass().map_or_else(|| pillar.with_errors(), |p| p.with_errors()));
        }
        self.check_pillar()?;
        Ok(pillar.value.clone().into())
    }

    fn check_pillar(&self) -> Result<(), Diagnostics> {
        let (_, pillar) = self.pillar_stage();
        if self.options().compat == Compat::Salt && pillar.value.contains("_errors") {
            // Salt stores its errors under this key and does not check who set it.
            let text = "the pillar has a key `_errors`, which Salt reserves for pillar errors";
            return Err(Diagnostic::new(codes::NOT_A_MAPPING, text).hint("rename the key").into());
        }
        Diagnostics(pillar.errors.iter().map(|t| t.diagnostic.clone()).collect()).into_result()
    }

    /// Where a pillar key such as `nginx:workers` is set.
    #[must_use]
    pub fn pillar_origin(&self, path: &str) -> Option<FileLocation> {
        let (session, pillar) = self.pillar_stage();
        pillar.origin(session, path)
    }

    /// Completes diagnostics: adds where the pillar key in a hint is set, and masks secrets.
    fn add_context(&self, mut diagnostics: Diagnostics) -> Diagnostics {
        if diagnostics.is_empty() {
            return diagnostics;
        }
        let mask = SecretMask::new(&self.secrets());
        for diagnostic in &mut diagnostics.0 {
            let place = diagnostic.pillar_key.as_deref().and_then(|key| self.pillar_origin(key));
            if let (Some(hint), Some(place)) = (&mut diagnostic.hint, place) {
                let stop = if hint.ends_with('?') { "" } else { ";" };
                let _ = write!(hint, "{stop} {}:{}", place.file, place.pos.line);
            }
            mask.mask_diagnostic(diagnostic);
            shorten_messages(diagnostic);
        }
        diagnostics
    }

    /// The SLS that the top files select: `{env: [sls, …]}`.
    ///
    /// # Errors
    /// Fails with the errors of pillar and top files.
    pub fn top(&self) -> Result<Value, Diagnostics> {
        self.check_pillar()?;
        Ok(self.select_sls(&CompileTarget::Highstate)?.to_value())
    }

    /// Every target of the top files, and whether it matches this node.
    ///
    /// # Errors
    /// Fails with the errors of pillar and top files.
    pub fn top_targets(&self) -> Result<Vec<TopTarget>, Diagnostics> {
        self.check_pillar()?;
        let (session, node) = (self.state_session(), self.subject());
        let mut diagnostics = Diagnostics::default();
        let mut targets = Vec::new();
        for pattern in select::patterns(session).map_err(|diagnostics| self.add_context(diagnostics))? {
            let items = pattern.items.as_list().map(|l| l.to_vec()).unwrap_or_default();
            match select::matches_node(session, &pattern, &items, &node) {
                Ok(matched) => targets.push(TopTarget {
                    env: pattern.env.to_string(),
                    target: pattern.target.to_string(),
                    place: session.place(pattern.spot),
                    matched,
                }),
                Err(diagnostic) => diagnostics.push(*diagnostic),
            }
        }
        diagnostics.into_result()?;
        Ok(targets)
    }

    fn select_sls(&self, want: &CompileTarget) -> Result<TopMatches, Diagnostics> {
        match want {
            CompileTarget::Highstate => select::select(self.state_session(), &self.subject())
                .map_err(|diagnostics| self.add_context(diagnostics)),
            CompileTarget::Sls { names, env } => Ok(TopMatches::for_sls(env, names)),
        }
    }

    fn merge_high(&self, session: &CompileSession, want: &CompileTarget) -> Result<HighData, Diagnostics> {
        self.check_pillar()?;
        let matches = self.select_sls(want)?;
        let (high, diagnostics) = merge::merge(session, &matches);
        self.add_context(diagnostics).into_result()?;
        Ok(high)
    }

    /// A second pass over the pillar, when its templates may read pillar and Salt's commands would make one.
    fn second_pillar_pass(&self) -> Option<Pillar> {
        let (session, pillar) = self.pillar_stage();
        let over = &self.options().pillar_override;
        let wanted = self.options().compat == Compat::Salt && over.is_empty() && session.uses_pillar();
        wanted.then(|| pillar.clone().merged_with(self.pillar_pass(pillar.value.clone(), over).1))
    }

    /// Salt's high data: everything that was rendered, before it is split into chunks.
    ///
    /// # Errors
    /// Fails with every error up to this stage.
    pub fn high(&self, want: &CompileTarget) -> Result<Value, Diagnostics> {
        // Salt's show commands compile the pillar once more than a run does.
        let again = self.second_pillar_pass().map(|pillar| self.new_state_session(&pillar));
        let session = again.as_ref().unwrap_or_else(|| self.state_session());
        let high = self.merge_high(session, want)?;
        if matches!(want, CompileTarget::Sls { .. }) {
            let mut diagnostics = Diagnostics::default();
            verify(session, &high, &mut diagnostics);
            self.add_context(diagnostics).into_result()?;
        }
        Ok(high.to_value())
    }

    /// Runs all stages.
    ///
    /// # Errors
    /// Fails with all errors of the first stage that has any.
    pub fn compile(&self, want: &CompileTarget) -> Result<CompileOutput, Diagnostics> {
        let session = self.state_session();
        let high = self.merge_high(session, want)?;
        let mut compiled =
            self.lower_and_link(session, high).map_err(|diagnostics| self.add_context(diagnostics))?;
        compiled.warnings = self.add_context(Diagnostics(compiled.warnings)).0;
        compiled.warnings.splice(0..0, self.options().warnings.iter().cloned());
        Ok(compiled)
    }

    /// From high data to a plan.
    fn lower_and_link(
        &self,
        session: &CompileSession,
        mut high: HighData,
    ) -> Result<CompileOutput, Diagnostics> {
        let mut diagnostics = Diagnostics::default();
        extend(session, &mut high, FindBy::ById, &mut diagnostics);
        verify(session, &high, &mut diagnostics);
        diagnostics.into_result()?;
        let mut diagnostics = Diagnostics::default();
        reverse_requisites(session, &mut high, &mut diagnostics);
        extend(session, &mut high, FindBy::ByIdAndModule, &mut diagnostics);
        let mut warnings = exclude(session, &mut high);
        diagnostics.into_result()?;
        let mut diagnostics = Diagnostics::default();
        let lowered = lower::lower(session, high, &mut diagnostics);
        diagnostics.into_result()?;
        strict::check_python_modules(session, &lowered)?;
        if self.options().compat == Compat::Strict {
            warnings.extend(strict::check(session, &lowered)?);
        }
        warnings.extend(secret_argv::check(session, &lowered, &self.secrets()));
        let plan = link::link(session, lowered)?;
        Ok(CompileOutput { plan, warnings })
    }

    /// The text of an SLS after its template stage.
    ///
    /// # Errors
    /// Fails when the SLS does not exist or its template has an error.
    pub fn render_sls(&self, name: &str, env: &str) -> Result<String, Diagnostics> {
        self.check_pillar()?;
        let session = self.state_session();
        let Some(path) = session.locate(env, name) else {
            let matches = TopMatches::for_sls(env, &[name.to_string()]);
            let (_, diagnostics) = merge::merge(session, &matches);
            return Err(self.add_context(diagnostics));
        };
        let read = ReadRequest { env: env.into(), sls: name.into(), path, reached: ReachedBy::Requested };
        let (file, _) = session.read(read);
        let source = session.source_text(file).map_err(|diagnostic| Diagnostics::from(*diagnostic))?;
        render::render_text(session, file, &source)
            .map_err(|diagnostic| self.add_context(Diagnostics::from(*diagnostic)))
    }

    /// The position of a chunk in the source.
    #[must_use]
    pub fn place(&self, chunk: &Chunk) -> FileLocation {
        self.state_session().place(RenderedPos { file: chunk.file, pos: chunk.at })
    }

    /// How the SLS of a chunk was reached, up to the top file.
    #[must_use]
    pub fn include_chain(&self, chunk: &Chunk) -> Vec<TraceStep> {
        self.state_session().include_chain(chunk.file)
    }

    /// Every file that was read, as `(environment, path)`, states first.
    #[must_use]
    pub fn files_read(&self) -> Vec<(String, String)> {
        self.state_session().files_read()
    }

    /// What must not be shown: decrypted texts, and the values of the pillar that their keys mark as secrets. Compiles the
    /// pillar if that was not done yet.
    #[must_use]
    pub fn secrets(&self) -> Vec<Secret> {
        let (_, pillar) = self.pillar_stage();
        let mut all = self.decrypted_secrets();
        all.extend(secret_keys::marked_secrets(&pillar.value.clone().into()));
        all
    }

    /// The texts that were decrypted until now; nothing is compiled for this.
    #[must_use]
    pub fn decrypted_secrets(&self) -> Vec<Secret> {
        let pillar = self.pillar.get().map(|(session, _)| session.secrets()).unwrap_or_default();
        let states = self.states.get().map(CompileSession::secrets).unwrap_or_default();
        pillar.into_iter().chain(states).collect()
    }

    /// Renders a template that a state names (`template: jinja`), with the state's context.
    ///
    /// # Errors
    /// Fails with the template error.
    pub fn render_file(
        &self,
        env: &str,
        path: &str,
        source: &str,
        context: &Map,
    ) -> Result<String, Diagnostics> {
        let rendered = self.file_templates().render_file(env, path, source, context);
        rendered.map_err(|diagnostic| self.add_context((*diagnostic).into()))
    }

    fn file_templates(&self) -> &Templates {
        self.file_templates.get_or_init(|| {
            let pillar = self.pillar_stage().1.value.clone();
            Templates::new(&self.file_inputs, RenderPhase::States, pillar)
        })
    }

    /// True when no template of a managed file has changed what all templates share, such as `pillar` and `grains`.
    #[must_use]
    pub fn are_file_variables_unchanged(&self) -> bool {
        self.file_templates.get().is_none_or(|templates| templates.are_variables_unchanged())
    }

    /// The state trees.
    #[must_use]
    pub fn files(&self) -> &Arc<dyn FileTree> {
        &self.inputs.states
    }
}

/// Maximum length of a message: a quoted value can be as long as a file.
const MAX_MESSAGE_CHARS: usize = 600;

/// Shortens text that would fill a terminal.
fn shorten_messages(diagnostic: &mut Diagnostic) {
    for text in
        std::iter::once(&mut diagnostic.message).chain(&mut diagnostic.notes).chain(&mut diagnostic.hint)
    {
        if let Some((end, _)) = text.char_indices().nth(MAX_MESSAGE_CHARS) {
            text.truncate(end);
            text.push('…');
        }
    }
}
