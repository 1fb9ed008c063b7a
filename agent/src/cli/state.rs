//! `zagent state.apply | state.highstate | state.sls | state.sls_id | state.single | state.low`: Salt's own verbs.

use std::sync::Arc;

use zagent_compiler::{Chunk, Compat, Limits, schema, yaml};
use zagent_config::suggest::nearest;
use zagent_config::{Map, Value};

use super::order::{OrderArgs, ReportArgs};
use super::run::carry_out;
use super::tree::{Job, Planned, TreeArgs};
use super::words::Words;
use crate::output::{ReportFormat, Ui};
use crate::report::{Exit, Trouble};
use crate::run::Order;

/// What every verb that runs states takes.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Common {
    #[command(flatten)]
    pub(super) order: OrderArgs,

    #[command(flatten)]
    pub(super) tree: TreeArgs,

    #[command(flatten)]
    pub(super) report: ReportArgs,
}

impl Common {
    /// What the words and the flags say together.
    pub(super) fn settle(&self, words: &[String]) -> Result<(Words, TreeArgs, Order), Trouble> {
        let (mut tree, mut order, mut words) = (self.tree.clone(), self.order.clone(), Words::new(words));
        words.settle(&mut tree, &mut order)?;
        Ok((words, tree, order.order()))
    }
}

/// A verb and its words.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// SLS, ids, functions and `key=value`, as Salt's command of the same name takes them
    #[arg(value_name = "WORD")]
    words: Vec<String>,

    #[command(flatten)]
    common: Common,
}

/// Which verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// What the top files select, or the SLS that are named.
    Apply,
    /// What the top files select.
    Highstate,
    /// The SLS that are named.
    Sls,
    /// One id of an SLS, and what it waits for.
    SlsId,
    /// One state that stands in no file.
    Single,
    /// The same, as low data.
    Low,
}

impl Args {
    pub(super) const fn format(&self) -> ReportFormat {
        self.common.report.out
    }

    pub(super) fn run(&self, verb: Verb, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let (words, tree, order) = self.common.settle(&self.words)?;
        match verb {
            Verb::Apply | Verb::Highstate | Verb::Sls => self.tree(verb, words, tree, &order, ui),
            Verb::SlsId => self.sls_id(&words, tree, &order, ui),
            Verb::Single => {
                let (function, words) = function_of(words)?;
                single(&function, words, &tree, &order, &self.common.report, ui)
            }
            Verb::Low => self.low(&words, &tree, &order, ui),
        }
    }

    fn tree(
        &self,
        verb: Verb,
        mut words: Words,
        tree: TreeArgs,
        order: &Order,
        ui: &mut Ui<'_>,
    ) -> Result<Exit, Trouble> {
        let mut sls = tree.sls.clone();
        match verb {
            Verb::Highstate => words.refuse_plain("`state.highstate` takes no SLS; `state.apply` does")?,
            _ => sls.extend(words.plain.iter().flat_map(|w| names(w))),
        }
        match words.named.remove("mods") {
            None | Some(Value::Null) => {}
            Some(Value::List(list)) => sls.extend(list.iter().map(yaml::python_str)),
            Some(mods) => sls.extend(names(&yaml::python_str(&mods))),
        }
        words.refuse_named(&["mods"])?;
        if verb == Verb::Sls && sls.is_empty() {
            return Err(Trouble::usage_hint(
                "which SLS?",
                "zagent state.sls a,b; `state.highstate` applies all",
            ));
        }
        let job = TreeArgs { sls, ..tree }.job()?;
        let planned = job.plan(!order.test, self.common.order.fresh, ui)?;
        carry_out(&job, &planned, order, &self.common.report, ui)
    }

    fn sls_id(&self, words: &Words, tree: TreeArgs, order: &Order, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        words.refuse_named(&[])?;
        let [id, sls @ ..] = words.plain.as_slice() else {
            return Err(Trouble::usage_hint("which id?", "zagent state.sls_id ID SLS"));
        };
        let mut all = tree.sls.clone();
        all.extend(sls.iter().flat_map(|w| names(w)));
        if all.is_empty() {
            return Err(Trouble::usage_hint("which SLS?", format!("zagent state.sls_id {id} SLS")));
        }
        let job = TreeArgs { sls: all, ..tree }.job()?;
        let plan = job.compile(ui)?.plan;
        let part = plan.only(|c| *c.id == **id);
        if part.chunks.is_empty() {
            let hint = nearest(id, plan.chunks.iter().map(|c| &*c.id)).map_or_else(
                || "`zagent show lowstate` lists them".into(),
                |near| format!("did you mean `{near}`?"),
            );
            return Err(Trouble::usage_hint(format!("no state there has the id `{id}`"), hint));
        }
        let planned = Planned { plan: part, pillar: job.compiler.pillar()? };
        carry_out(&job, &planned, order, &self.common.report, ui)
    }

    fn low(&self, words: &Words, tree: &TreeArgs, order: &Order, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        const LIKE: &str = r#"such as '{"state": "pkg", "fun": "installed", "name": "vim"}'"#;
        words.refuse_named(&["data"])?;
        let [text] = words.plain.as_slice() else {
            return Err(Trouble::usage_hint("`state.low` takes one mapping", LIKE));
        };
        let data = Value::from_json_str(text).or_else(|_| yaml::load(text, &Limits::default()));
        let data = match data {
            Ok(Value::Map(map)) => Arc::unwrap_or_clone(map),
            Ok(other) => {
                let message = format!("this is {}, and a mapping is wanted", other.kind());
                return Err(Trouble::usage_hint(message, LIKE));
            }
            Err(e) => {
                return Err(Trouble::usage_hint(format!("this is no JSON and no YAML: {}", e.message), LIKE));
            }
        };
        let chunk = Chunk::low(&data).map_err(|message| Trouble::usage_hint(message, LIKE))?;
        let job = tree.job_anywhere()?;
        by_hand(&job, chunk, order, &self.common.report, ui)
    }
}

/// The function that `state.single` is to run, and the words for it.
fn function_of(mut words: Words) -> Result<(String, Words), Trouble> {
    let named = words.named.remove("fun").map(|f| yaml::python_str(&f));
    let function = match named {
        Some(function) => function,
        None if words.plain.is_empty() => {
            return Err(Trouble::usage_hint("which function?", "zagent state.single pkg.installed name=vim"));
        }
        None => words.plain.remove(0),
    };
    Ok((function, words))
}

/// Runs one state function on a name: `file.managed /etc/motd contents=hi`.
pub(super) fn single(
    function: &str,
    words: Words,
    tree: &TreeArgs,
    order: &Order,
    args: &ReportArgs,
    ui: &mut Ui<'_>,
) -> Result<Exit, Trouble> {
    let Some((state, fun)) = function.split_once('.') else {
        let message = format!("`{function}` is no function");
        return Err(Trouble::usage_hint(
            message,
            "a function is written MODULE.FUNCTION, such as pkg.installed",
        ));
    };
    let job = tree.job_anywhere()?;
    if job.compat == Compat::Strict {
        match schema::function(state, fun) {
            Some(function) => words.refuse_slips(function, &format!("{state}.{fun}"))?,
            None => words.refuse_slip_of_test(&format!("{state}.{fun}"))?,
        }
    }
    let chunk = chunk(state, fun, words)?;
    by_hand(&job, chunk, order, args, ui)
}

fn chunk(state: &str, fun: &str, mut words: Words) -> Result<Chunk, Trouble> {
    let like = || format!("zagent {state}.{fun} NAME [KEY=VALUE]…");
    let named = words.named.remove("name").map(|n| yaml::python_str(&n));
    let mut plain = std::mem::take(&mut words.plain).into_iter();
    let Some(name) = named.or_else(|| plain.next()).filter(|n| !n.is_empty()) else {
        return Err(Trouble::usage_hint(format!("`{state}.{fun}` of what?"), like()));
    };
    if let Some(more) = plain.next() {
        return Err(Trouble::usage_hint(format!("`{more}` has no key"), like()));
    }
    let mut args: Map = words.named;
    let id = args.remove("__id__").map_or_else(|| name.clone(), |id| yaml::python_str(&id));
    let mut chunk = Chunk::single(state, fun, &name, args);
    chunk.id = id.into();
    Ok(chunk)
}

fn by_hand(
    job: &Job,
    chunk: Chunk,
    order: &Order,
    args: &ReportArgs,
    ui: &mut Ui<'_>,
) -> Result<Exit, Trouble> {
    let plan = job.compiler.plan_of(vec![chunk])?;
    let planned = Planned { plan, pillar: job.compiler.pillar()? };
    carry_out(job, &planned, order, args, ui)
}

/// `a,b` as names.
fn names(word: &str) -> impl Iterator<Item = String> + use<> {
    let names: Vec<String> =
        word.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned).collect();
    names.into_iter()
}
