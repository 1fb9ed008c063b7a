//! `zagent resource list|show|ping|refresh|forget`: the systems that this node manages.

use clap::Subcommand;
use serde_json::json as object;
use zagent_config::Value;
use zagent_config::resources::{ResourceConfig, ResourceName};
use zagent_config::suggest::nearest;

use super::tree_args::TreeArgs;
use crate::output::report::render_nested;
use crate::output::{OutputFormat, TextTable, Tone, Ui, json, pluralize, yaml};
use zagent_daemon::compile_job::CompileJob;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::resource_run::{ResourceSet, TargetText};
use zagent_resources::Resource;
use zagent_resources::grains::GrainsUse;

/// List and examine the systems that this node manages
#[derive(Debug, clap::Args)]
pub(super) struct ResourceCommandArgs {
    #[command(subcommand)]
    verb: ResourceVerb,
}

#[derive(Debug, Subcommand)]
enum ResourceVerb {
    /// List the resources that the pillar of this node declares
    List(TargetArgs),
    /// Print the grains of one resource
    Show(IdArgs),
    /// Check whether resources answer
    Ping(TargetArgs),
    /// Collect the grains of resources again
    Refresh(TargetArgs),
    /// Remove everything that is kept about a resource, here and on it: grains, undo journals, downloads, the agent
    Forget(IdArgs),
}

#[derive(Debug, clap::Args)]
struct TargetArgs {
    /// Resources, such as `web-01`, `T@ssh` or `T@ssh and G@os:Debian`; default: all
    #[arg(value_name = "TARGET")]
    target: Option<String>,

    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Debug, clap::Args)]
struct IdArgs {
    /// ID, or TYPE:ID when two types have the same id
    #[arg(value_name = "ID")]
    resource: String,

    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Debug, clap::Args)]
struct PlaceArgs {
    #[command(flatten)]
    tree: TreeArgs,

    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    out: OutputFormat,
}

impl PlaceArgs {
    fn discover(&self, wanted: GrainsUse, ui: &mut Ui<'_>) -> Result<(CompileJob, ResourceSet), AgentError> {
        let job = self.tree.job_without_states()?;
        let set = ResourceSet::discover(&job, wanted, ui)?;
        Ok((job, set))
    }

    fn print(&self, text: &str, data: &serde_json::Value, ui: &mut Ui<'_>) {
        ui.print(&match self.out {
            OutputFormat::Text => text.to_owned(),
            OutputFormat::Json => json(data),
            OutputFormat::Yaml => yaml(&serde_json::from_value::<Value>(data.clone()).unwrap_or_default()),
        });
    }
}

impl TargetArgs {
    fn select(&self, job: &CompileJob, set: &ResourceSet) -> Result<Vec<usize>, AgentError> {
        match &self.target {
            None => Ok((0..set.resources().len()).collect()),
            Some(text) => Ok(set.select(job, &TargetText::compound(text))?.resources().to_vec()),
        }
    }
}

impl ResourceCommandArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        match &self.verb {
            ResourceVerb::List(args) | ResourceVerb::Ping(args) | ResourceVerb::Refresh(args) => {
                args.place.out
            }
            ResourceVerb::Show(args) | ResourceVerb::Forget(args) => args.place.out,
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        match &self.verb {
            ResourceVerb::List(args) => list(args, ui),
            ResourceVerb::Show(args) => show(args, ui),
            ResourceVerb::Ping(args) => {
                ask_each(args, GrainsUse::Kept, ui, ("answers", "does not answer"), |job, set, index| {
                    set.resources()[index]
                        .ping(&job.machine)
                        .map_err(|error| zagent_config::error_chain(&error))
                })
            }
            ResourceVerb::Refresh(args) => {
                ask_each(args, GrainsUse::Fresh, ui, ("refreshed", "failed"), |_, set, index| {
                    set.grains(index).map(drop).map_err(str::to_owned)
                })
            }
            ResourceVerb::Forget(args) => forget(args, ui),
        }
    }
}

/// Where a resource is.
fn location(resource: &Resource) -> String {
    match &resource.declared.config {
        ResourceConfig::Dummy => "-".into(),
        ResourceConfig::Chroot(root) => root.display().to_string(),
        ResourceConfig::Ssh(host) => format!("{}@{}:{}", host.user, host.host, host.port),
        ResourceConfig::Custom(_) => format!("_resources/{}", resource.name().kind),
    }
}

fn list(args: &TargetArgs, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
    let (job, set) = args.place.discover(GrainsUse::Kept, ui)?;
    let indices = args.select(&job, &set)?;
    let mut table = TextTable::new(["TYPE", "ID", "WHERE"]);
    let mut rows = Vec::new();
    for resource in indices.iter().map(|index| &set.resources()[*index]) {
        let ResourceName { kind, id } = resource.name();
        let place = location(resource);
        rows.push(object!({"type": kind, "id": id, "where": place}));
        table.add_row(Tone::Plain, [kind.clone(), id.clone(), place]);
    }
    let text = match rows.is_empty() {
        true => {
            format!("no resources: the pillar key `{}` of this node lists none\n", job.settings.resources_key)
        }
        false => table.render(ui.paint),
    };
    args.place.print(&text, &object!(rows), ui);
    Ok(ExitStatus::Success)
}

fn show(args: &IdArgs, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
    let (job, set) = args.place.discover(GrainsUse::Kept, ui)?;
    let index = find_one(&args.resource, &set)?;
    let resource = &set.resources()[index];
    let grains =
        set.grains(index).map_err(|why| AgentError::failed(format!("{}: {why}", resource.name())))?;
    let grains = job.mask(false).mask_value(&grains.clone().into());
    let ResourceName { kind, id } = resource.name();
    let text = format!("{}  {}\n{}", resource.name(), location(resource), render_nested(&grains, ui.paint));
    args.place.print(
        &text,
        &object!({"type": kind, "id": id, "where": location(resource), "grains": grains}),
        ui,
    );
    Ok(ExitStatus::Success)
}

/// Asks each resource and prints one line per answer.
fn ask_each(
    args: &TargetArgs,
    wanted: GrainsUse,
    ui: &mut Ui<'_>,
    (good, bad): (&str, &str),
    ask: impl Fn(&CompileJob, &ResourceSet, usize) -> Result<(), String>,
) -> Result<ExitStatus, AgentError> {
    let (job, set) = args.place.discover(wanted, ui)?;
    let indices = args.select(&job, &set)?;
    if wanted == GrainsUse::Fresh {
        set.collect_grains(&indices);
    }
    let mut table = TextTable::new(["TYPE", "ID", "RESULT"]);
    let (mut rows, mut failed) = (Vec::new(), 0_usize);
    for index in indices {
        let ResourceName { kind, id } = set.resources()[index].name();
        let answer = ask(&job, &set, index);
        let (tone, words) = match &answer {
            Ok(()) => (Tone::Good, good.to_owned()),
            Err(why) => (Tone::Error, format!("{bad}: {why}")),
        };
        failed += usize::from(answer.is_err());
        rows.push(object!({"type": kind, "id": id, "result": answer.is_ok(), "error": answer.err()}));
        table.add_row(tone, [kind.clone(), id.clone(), words]);
    }
    let text = if rows.is_empty() { "no resource is meant\n".into() } else { table.render(ui.paint) };
    args.place.print(&text, &object!(rows), ui);
    Ok(if failed > 0 { ExitStatus::Failed } else { ExitStatus::Success })
}

fn find_one(text: &str, set: &ResourceSet) -> Result<usize, AgentError> {
    match set.find(text).as_slice() {
        [index] => Ok(*index),
        [] => Err(unknown(text, set.resources().iter().map(Resource::name))),
        several => {
            let names: Vec<String> =
                several.iter().map(|index| set.resources()[*index].name().to_string()).collect();
            let message = format!("{} resources have the id `{text}`", names.len());
            Err(AgentError::usage_hint(message, format!("name one: {}", names.join(", "))))
        }
    }
}

fn unknown<'n>(text: &str, known: impl Iterator<Item = &'n ResourceName>) -> AgentError {
    let ids: Vec<String> = known.flat_map(|name| [name.id.clone(), name.to_string()]).collect();
    let hint = nearest(text, ids.iter().map(String::as_str)).map_or_else(
        || "list them with `zagent resource list`".into(),
        |near| format!("did you mean `{near}`?"),
    );
    AgentError::usage_hint(format!("there is no resource `{text}`"), hint)
}

/// Forgets a resource, declared or not: what is kept outlives its declaration.
fn forget(args: &IdArgs, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
    let (_, set) = args.place.discover(GrainsUse::Kept, ui)?;
    let store = set.store();
    let mut known = store.known();
    // On an ssh host there may be more than here.
    let on_hosts = set.resources().iter().filter(|resource| resource.link.is_some());
    known.extend(on_hosts.map(|resource| resource.name().clone()));
    known.sort();
    known.dedup();
    let is_it = |name: &&ResourceName| name.id == args.resource || name.to_string() == args.resource;
    let meant: Vec<&ResourceName> = known.iter().filter(is_it).collect();
    let name = match meant.as_slice() {
        [name] => *name,
        [] => return Err(unknown(&args.resource, known.iter())),
        several => {
            let names: Vec<String> = several.iter().map(ToString::to_string).collect();
            let message =
                format!("{} are kept under `{}`", pluralize(names.len(), "resource"), args.resource);
            return Err(AgentError::usage_hint(message, format!("name one: {}", names.join(", "))));
        }
    };
    store.forget(name).map_err(|error| AgentError::failed(zagent_config::error_chain(&error)))?;
    // Found by its whole name: one of another type may have the same id.
    let link = set.resources().iter().find(|resource| resource.name() == name).and_then(|r| r.link.as_ref());
    if let Some(Err(why)) = link.map(|link| link.forget()) {
        let message = format!("what was kept here about {name} is removed, but not what is on it: {why}");
        return Err(AgentError::failed(message));
    }
    let words = format!("everything that was kept about {name} is removed\n");
    args.place.print(&words, &object!({"success": true, "forgotten": name.to_string()}), ui);
    Ok(ExitStatus::Success)
}
