//! `zagent resource-agent`: the agent on an ssh resource, started by the node that manages it; and its answers to `ssh`.

use std::ffi::{OsStr, OsString};
use std::io::BufReader;

use crate::output::Ui;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::resource_agent::{AgentStreams, agent_dir, answer_requests, own_digest};
use zagent_host::Machine;
use zagent_resources::ssh::session::askpass_answer;

/// Answer the node that manages this machine, on standard input and output
#[derive(Debug, clap::Args)]
pub(super) struct ResourceAgentArgs {
    /// Print the BLAKE3 digest of this program, and exit
    #[arg(long)]
    digest: bool,
}

impl ResourceAgentArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        if self.digest {
            ui.print(&format!("{}\n", own_digest()?));
            return Ok(ExitStatus::Success);
        }
        answer_requests(AgentStreams {
            input: Box::new(BufReader::new(std::io::stdin())),
            output: super::standard_output(),
            dir: agent_dir()?,
            machine: Machine::this_host(),
        });
        Ok(ExitStatus::Success)
    }
}

/// The answer to a prompt of `ssh`, when this process was started to give one; `file` holds the secrets.
pub(super) fn answer_prompt(file: &OsStr, mut args: impl Iterator<Item = OsString>) -> Option<String> {
    let prompt = args.nth(1)?;
    let content = std::fs::read(file).ok()?;
    Some(askpass_answer(&prompt.to_string_lossy(), &content)? + "\n")
}
