//! The five verbs in a row: select, render, merge, lower, link.

use std::cell::OnceCell;
use std::fmt::Write as _;
use std::sync::Arc;

use zagent_config::codes::pillar as codes;
use zagent_config::target::Subject;
use zagent_config::{Fault, Faults, Map, Place, Step, Value};

use crate::high::High;
use crate::input::{Compat, Files, Host, Inputs, Options};
use crate::lower::turn::turn;
use crate::lower::verify::verify;
use crate::merge::exclude::exclude;
use crate::merge::extend::{Find, extend};
use crate::pillar::{self, Pillar};
use crate::plan::{Chunk, Plan};
use crate::select::{self, Matches};
use crate::session::{Read, Session};
use crate::sources::{Reached, Spot};
use crate::template::{Phase, Templates};
use crate::{link, lower, merge, render, strict, veil};

/// What to compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// What the top files select.
    Highstate,
    /// These SLS of one environment.
    Sls {
        /// Their names; patterns count.
        names: Vec<String>,
        /// The environment.
        env: String,
    },
}

/// A compiled tree.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// What would run.
    pub plan: Plan,
    /// What is doubtful and stops nothing.
    pub warnings: Vec<Fault>,
}

/// A target of a top file, for reports.
#[derive(Clone, Debug)]
pub struct TopTarget {
    /// The environment.
    pub env: String,
    /// The target as it was written.
    pub target: String,
    /// Where it stands.
    pub place: Place,
    /// True when it means this node.
    pub matched: bool,
}

/// Compiles one tree for one node. Every stage can be asked for; the pillar is compiled once.
pub struct Compiler {
    inputs: Inputs,
    pillar: OnceCell<(Session, Pillar)>,
    states: OnceCell<Session>,
}

/// A node as the matcher sees it.
struct Node<'n> {
    options: &'n Options,
    host: &'n dyn Host,
    pillar: Value,
}

impl Subject for Node<'_> {
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
        resources(&self.pillar)
    }
}

/// What the pillar says this node manages for others: `resources: {type: {id: …}}` or `{type: [id, …]}`.
fn resources(pillar: &Value) -> Vec<(String, String)> {
    let Some(types) = pillar.get("resources").and_then(Value::as_map) else { return Vec::new() };
    let mut all = Vec::new();
    for (kind, members) in types.iter() {
        let kind = kind.json_key();
        match members {
            Value::Map(map) => all.extend(map.keys().map(|id| (kind.clone(), id.json_key()))),
            Value::List(list) => all.extend(list.iter().map(|id| (kind.clone(), id.json_key()))),
            _ => {}
        }
    }
    all
}

impl Compiler {
    /// Takes what it is given; nothing is read before it is asked for.
    #[must_use]
    pub fn new(inputs: Inputs) -> Self {
        Self { inputs, pillar: OnceCell::new(), states: OnceCell::new() }
    }

    fn options(&self) -> &Options {
        &self.inputs.options
    }

    fn pillar_stage(&self) -> &(Session, Pillar) {
        self.pillar.get_or_init(|| {
            let over = &self.options().pillar_override;
            let (session, first) = self.pillar_pass(Map::new(), &Map::new());
            if over.is_empty() {
                return (session, first);
            }
            // What the caller gives is merged in a second pass, whose templates see the first.
            let (session, second) = self.pillar_pass(first.value.clone(), over);
            (session, first.followed_by(second))
        })
    }

    fn pillar_pass(&self, seen: Map, over: &Map) -> (Session, Pillar) {
        let templates = Templates::new(&self.inputs, Phase::Pillar, seen.clone());
        let session = Session::new(self.inputs.clone(), templates);
        let node = Node { options: self.options(), host: &*self.inputs.host, pillar: seen.into() };
        let pillar = pillar::compile(&session, &node, over);
        (session, pillar)
    }

    pub(crate) fn compat(&self) -> Compat {
        self.options().compat
    }

    pub(crate) fn states(&self) -> &Session {
        self.states.get_or_init(|| self.states_with(&self.pillar_stage().1))
    }

    fn states_with(&self, pillar: &Pillar) -> Session {
        let templates = Templates::new(&self.inputs, Phase::States, pillar.value.clone());
        Session::new(self.inputs.clone(), templates)
    }

    fn node(&self) -> Node<'_> {
        let (_, pillar) = self.pillar_stage();
        Node { options: self.options(), host: &*self.inputs.host, pillar: pillar.value.clone().into() }
    }

    /// The pillar. With Salt's verdicts, faults stand in `_errors`; else they are the error.
    ///
    /// # Errors
    /// Fails with every fault of the pillar.
    pub fn pillar(&self) -> Result<Value, Faults> {
        let (_, pillar) = self.pillar_stage();
        if self.options().compat == Compat::Salt {
            return Ok(self.second_pillar().map_or_else(|| pillar.with_errors(), |p| p.with_errors()));
        }
        self.sound_pillar()?;
        Ok(pillar.value.clone().into())
    }

    fn sound_pillar(&self) -> Result<(), Faults> {
        let (_, pillar) = self.pillar_stage();
        if self.options().compat == Compat::Salt && pillar.value.contains("_errors") {
            // Salt keeps its faults under this key, and does not ask who put it there.
            let text = "the pillar has a key `_errors`, by which Salt knows a pillar that failed";
            return Err(Fault::new(codes::NOT_A_MAPPING, text).hint("rename the key").into());
        }
        Faults(pillar.troubles.iter().map(|t| t.fault.clone()).collect()).into_result()
    }

    /// Where a pillar key such as `nginx:workers` was written.
    #[must_use]
    pub fn pillar_origin(&self, path: &str) -> Option<Place> {
        let (session, pillar) = self.pillar_stage();
        pillar.origin(session, path)
    }

    /// What only the whole knows about faults: where a pillar key that a hint names was written, and what is secret.
    fn complete(&self, mut faults: Faults) -> Faults {
        if faults.is_empty() {
            return faults;
        }
        let mut secrets = self.secrets();
        veil::told_secret(&self.pillar_stage().1.value.clone().into(), &mut secrets);
        for fault in &mut faults.0 {
            let place = fault.pillar_key.as_deref().and_then(|key| self.pillar_origin(key));
            if let (Some(hint), Some(place)) = (&mut fault.hint, place) {
                let stop = if hint.ends_with('?') { "" } else { ";" };
                let _ = write!(hint, "{stop} {}:{}", place.file, place.pos.line);
            }
            veil::texts(fault, &secrets);
            veil::shorten(fault);
        }
        faults
    }

    /// The SLS that the top files select: `{env: [sls, …]}`.
    ///
    /// # Errors
    /// Fails with the faults of pillar and top files.
    pub fn top(&self) -> Result<Value, Faults> {
        self.sound_pillar()?;
        Ok(self.matches(&Want::Highstate)?.to_value())
    }

    /// Every target of the top files, and whether it means this node.
    ///
    /// # Errors
    /// Fails with the faults of pillar and top files.
    pub fn top_targets(&self) -> Result<Vec<TopTarget>, Faults> {
        self.sound_pillar()?;
        let (session, node) = (self.states(), self.node());
        let mut faults = Faults::default();
        let mut targets = Vec::new();
        for pattern in select::patterns(session).map_err(|faults| self.complete(faults))? {
            let items = pattern.items.as_list().map(|l| l.to_vec()).unwrap_or_default();
            match select::confirm(session, &pattern, &items, &node) {
                Ok(matched) => targets.push(TopTarget {
                    env: pattern.env.to_string(),
                    target: pattern.target.to_string(),
                    place: session.place(pattern.spot),
                    matched,
                }),
                Err(fault) => faults.push(*fault),
            }
        }
        faults.into_result()?;
        Ok(targets)
    }

    fn matches(&self, want: &Want) -> Result<Matches, Faults> {
        match want {
            Want::Highstate => {
                select::select(self.states(), &self.node()).map_err(|faults| self.complete(faults))
            }
            Want::Sls { names, env } => Ok(Matches::asked(env, names)),
        }
    }

    fn merged(&self, session: &Session, want: &Want) -> Result<High, Faults> {
        self.sound_pillar()?;
        let matches = self.matches(want)?;
        let (high, faults) = merge::merge(session, &matches);
        self.complete(faults).into_result()?;
        Ok(high)
    }

    /// A second pass over the pillar, when its templates may look at it and Salt's commands would make one.
    fn second_pillar(&self) -> Option<Pillar> {
        let (session, pillar) = self.pillar_stage();
        let over = &self.options().pillar_override;
        let wanted = self.options().compat == Compat::Salt && over.is_empty() && session.asks_for_pillar();
        wanted.then(|| pillar.clone().followed_by(self.pillar_pass(pillar.value.clone(), over).1))
    }

    /// Salt's high data: everything that was rendered, before it is torn into chunks.
    ///
    /// # Errors
    /// Fails with every fault up to there.
    pub fn high(&self, want: &Want) -> Result<Value, Faults> {
        // Salt's show commands compile the pillar once more than a run does.
        let again = self.second_pillar().map(|pillar| self.states_with(&pillar));
        let session = again.as_ref().unwrap_or_else(|| self.states());
        let high = self.merged(session, want)?;
        if matches!(want, Want::Sls { .. }) {
            let mut faults = Faults::default();
            verify(session, &high, &mut faults);
            faults.into_result()?;
        }
        Ok(high.to_value())
    }

    /// Goes all the way.
    ///
    /// # Errors
    /// Fails with all faults of the first stage that has any.
    pub fn compile(&self, want: &Want) -> Result<Compiled, Faults> {
        let session = self.states();
        let high = self.merged(session, want)?;
        self.lowered(session, high).map_err(|faults| self.complete(faults))
    }

    /// From high data to a plan.
    fn lowered(&self, session: &Session, mut high: High) -> Result<Compiled, Faults> {
        let mut faults = Faults::default();
        extend(session, &mut high, Find::ById, &mut faults);
        verify(session, &high, &mut faults);
        faults.into_result()?;
        let mut faults = Faults::default();
        turn(session, &mut high, &mut faults);
        extend(session, &mut high, Find::ByIdAndModule, &mut faults);
        let mut warnings = exclude(session, &mut high);
        faults.into_result()?;
        let mut faults = Faults::default();
        let lowered = lower::lower(session, high, &mut faults);
        faults.into_result()?;
        if self.options().compat == Compat::Strict {
            warnings.extend(strict::check(session, &lowered)?);
        }
        let plan = link::link(session, lowered)?;
        Ok(Compiled { plan, warnings })
    }

    /// The text of an SLS after its template stage.
    ///
    /// # Errors
    /// Fails when there is no such SLS or its template has a fault.
    pub fn rendered(&self, name: &str, env: &str) -> Result<String, Faults> {
        self.sound_pillar()?;
        let session = self.states();
        let Some(path) = session.locate(env, name) else {
            let matches = Matches::asked(env, &[name.to_string()]);
            let (_, faults) = merge::merge(session, &matches);
            return Err(faults);
        };
        let read = Read { env: env.into(), sls: name.into(), path, reached: Reached::Asked };
        let (file, _) = session.read(read);
        let source = session.source(file).map_err(|fault| Faults::from(*fault))?;
        render::rendered(session, file, &source).map_err(|fault| self.complete(Faults::from(*fault)))
    }

    /// Where a chunk stands in the source.
    #[must_use]
    pub fn place(&self, chunk: &Chunk) -> Place {
        self.states().place(Spot { file: chunk.file, pos: chunk.at })
    }

    /// How the SLS of a chunk was reached, up to the top file.
    #[must_use]
    pub fn chain(&self, chunk: &Chunk) -> Vec<Step> {
        self.states().chain(chunk.file)
    }

    /// Every file that was read, as `(environment, path)`, states first.
    #[must_use]
    pub fn files_read(&self) -> Vec<(String, String)> {
        self.states().files_read()
    }

    /// Plain texts of what was decrypted: to be masked wherever something is printed.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        let mut all = self.pillar_stage().0.secrets();
        all.extend(self.states.get().map(Session::secrets).unwrap_or_default());
        all
    }

    /// Renders a template that a state names (`template: jinja`), with the state's context.
    ///
    /// # Errors
    /// Fails with the fault of the template.
    pub fn render_file(&self, env: &str, path: &str, source: &str, context: &Map) -> Result<String, Faults> {
        let rendered = self.states().templates().render_file(env, path, source, context);
        rendered.map_err(|fault| self.complete((*fault).into()))
    }

    /// The state trees.
    #[must_use]
    pub fn files(&self) -> &Arc<dyn Files> {
        &self.inputs.states
    }
}
