//! `zagent schema sls`: a JSON schema of SLS files, for editors.

use clap::Subcommand;

use crate::output::{Ui, json};
use crate::sls_schema::sls_schema;
use zagent_daemon::error::{AgentError, ExitStatus};

/// Print a JSON schema, for editors
#[derive(Debug, clap::Args)]
pub(super) struct SchemaArgs {
    #[command(subcommand)]
    what: SchemaSubject,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum SchemaSubject {
    /// SLS files: state functions, their parameters and what every state takes
    Sls,
}

impl SchemaArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let SchemaSubject::Sls = self.what;
        ui.print(&json(&sls_schema(zagent_states::schema())));
        Ok(ExitStatus::Success)
    }
}
