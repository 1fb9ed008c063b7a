//! Flags of `run --prune` in, what they ask of a run out.

use zagent_config::settings::PRUNABLE_KINDS;
use zagent_config::suggest::nearest;
use zagent_daemon::error::AgentError;
use zagent_run::PruneFlags;

/// What no state manages any more
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Orphans")]
pub(super) struct PruneArgs {
    /// Remove what earlier revisions managed and this one does not, of the given types such as `file,user,cron`; default:
    /// `run.prune.types`. Only what zagent made and nobody changed since
    #[arg(
        long,
        value_name = "TYPES",
        num_args = 0..=1,
        require_equals = true,
        conflicts_with_all = ["revert", "plan"]
    )]
    prune: Option<Option<String>>,

    /// Remove nothing when there is more than this to remove; default: `run.prune.max`
    #[arg(long, value_name = "N", requires = "prune")]
    prune_max: Option<usize>,

    /// Remove also what was there before zagent managed it
    #[arg(long, requires = "prune")]
    prune_found: bool,
}

impl PruneArgs {
    /// What the flags ask for; none without `--prune`.
    pub(super) fn flags(&self) -> Result<Option<PruneFlags>, AgentError> {
        let Some(types) = &self.prune else { return Ok(None) };
        let kinds: Vec<String> =
            types.iter().flat_map(|types| types.split(',')).map(|kind| kind.trim().to_owned()).collect();
        if let Some(kind) = kinds.iter().find(|kind| !PRUNABLE_KINDS.contains(&kind.as_str())) {
            let hint = match nearest(kind, PRUNABLE_KINDS.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("types: {}", PRUNABLE_KINDS.join(", ")),
            };
            return Err(AgentError::usage_hint(format!("`--prune={kind}`: unknown type"), hint));
        }
        Ok(Some(PruneFlags { kinds, max: self.prune_max, found: self.prune_found }))
    }
}
