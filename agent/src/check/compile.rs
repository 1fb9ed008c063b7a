//! Hosts in, compiled plans out, on all cores.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use zagent_compiler::{CompileInputs, CompileTarget, Compiler, Plan, TopTarget};
use zagent_config::mask::{Secret, hide_in_messages};
use zagent_config::{Diagnostic, Diagnostics};

use super::InventoryNode;
use super::sources::{self, SourceProblem};

/// Result of one host.
pub struct CompiledHost {
    outcome: Result<(Plan, Vec<Diagnostic>), Diagnostics>,
    /// Targets of the top files; empty when they could not be read.
    pub(super) targets: Vec<TopTarget>,
    /// Every states file that was read: environment and path.
    pub(super) read: Vec<(String, String)>,
    /// Sources that do not exist, and templates that do not render.
    pub(super) source_problems: Vec<SourceProblem>,
    /// What no output may show.
    secrets: Vec<Secret>,
}

impl CompiledHost {
    /// Errors of this host.
    #[must_use]
    pub fn errors(&self) -> &[Diagnostic] {
        self.outcome.as_ref().err().map_or(&[], |faults| &faults.0)
    }

    /// Warnings of this host.
    #[must_use]
    pub fn warnings(&self) -> &[Diagnostic] {
        self.outcome.as_ref().map_or(&[], |(_, warnings)| warnings)
    }

    /// Plan, when the host compiles.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.outcome.as_ref().ok().map(|(plan, _)| plan)
    }

    /// Number of states, when the host compiles.
    #[must_use]
    pub fn state_count(&self) -> Option<usize> {
        self.plan().map(|plan| plan.chunks.len())
    }
}

/// Compiles every host; results are in the order of the hosts.
pub fn compile_hosts(
    nodes: &[InventoryNode],
    inputs: &(dyn Fn(&InventoryNode) -> CompileInputs + Sync),
) -> Vec<CompiledHost> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<CompiledHost>>> = Mutex::new(nodes.iter().map(|_| None).collect());
    let work = || {
        while let Some((i, node)) = next_node(&next, nodes) {
            let one = compile_host(inputs(node));
            if let Ok(mut done) = done.lock() {
                done[i] = Some(one);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(nodes.len());
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let done: Vec<CompiledHost> = done.into_inner().unwrap_or_default().into_iter().flatten().collect();
    let mut secrets: Vec<Secret> = done.iter().flat_map(|host| host.secrets.iter().cloned()).collect();
    let mut seen = HashSet::new();
    secrets.retain(|secret| seen.insert(secret.clone()));
    hide_in_messages(&secrets);
    done
}

fn next_node<'n>(next: &AtomicUsize, nodes: &'n [InventoryNode]) -> Option<(usize, &'n InventoryNode)> {
    let i = next.fetch_add(1, Ordering::Relaxed);
    nodes.get(i).map(|node| (i, node))
}

fn compile_host(inputs: CompileInputs) -> CompiledHost {
    let compiler = Compiler::new(inputs);
    let outcome = compiler.compile(&CompileTarget::Highstate).map(|c| (c.plan, c.warnings));
    let source_problems =
        outcome.as_ref().map_or_else(|_| Vec::new(), |(plan, _)| sources::find_problems(&compiler, plan));
    CompiledHost {
        source_problems,
        targets: compiler.top_targets().unwrap_or_default(),
        read: compiler.files_read(),
        secrets: compiler.secrets(),
        outcome,
    }
}
