//! Hosts in, their compiled plans out, on all cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use zagent_compiler::{Compiler, Inputs, Plan, TopTarget, Want};
use zagent_config::{Fault, Faults};

use super::Node;

/// What became of one host.
pub struct Compiled {
    outcome: Result<(Plan, Vec<Fault>), Faults>,
    /// The targets of the top files; none when they could not be read.
    pub(super) targets: Vec<TopTarget>,
    /// Every file of the states that was read: environment and path.
    pub(super) read: Vec<(String, String)>,
}

impl Compiled {
    /// What stops it.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        self.outcome.as_ref().err().map_or(&[], |faults| &faults.0)
    }

    /// What is doubtful.
    #[must_use]
    pub fn warnings(&self) -> &[Fault] {
        self.outcome.as_ref().map_or(&[], |(_, warnings)| warnings)
    }

    /// The plan, when it compiles.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.outcome.as_ref().ok().map(|(plan, _)| plan)
    }

    /// How many states it has, when it compiles.
    #[must_use]
    pub fn states(&self) -> Option<usize> {
        self.plan().map(|plan| plan.chunks.len())
    }
}

/// Compiles every host; the answers stand in the order of the hosts.
pub fn compile(nodes: &[Node], inputs: &(dyn Fn(&Node) -> Inputs + Sync)) -> Vec<Compiled> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<Compiled>>> = Mutex::new(nodes.iter().map(|_| None).collect());
    let work = || {
        while let Some((i, node)) = take(&next, nodes) {
            let one = compile_one(inputs(node));
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
    done.into_inner().unwrap_or_default().into_iter().flatten().collect()
}

fn take<'n>(next: &AtomicUsize, nodes: &'n [Node]) -> Option<(usize, &'n Node)> {
    let i = next.fetch_add(1, Ordering::Relaxed);
    nodes.get(i).map(|node| (i, node))
}

fn compile_one(inputs: Inputs) -> Compiled {
    let compiler = Compiler::new(inputs);
    let outcome = compiler.compile(&Want::Highstate).map(|c| (c.plan, c.warnings));
    Compiled { targets: compiler.top_targets().unwrap_or_default(), read: compiler.files_read(), outcome }
}
