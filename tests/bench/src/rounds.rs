//! Interleaved rounds: every program runs every workload in turn, so that the noise of the machine meets all of them alike.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::measure::{self, Cost};
use crate::peers;
use crate::trees::{Shape, TestTree};

/// What a program does with a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// The files are right already.
    Again,
    /// There are no files.
    First,
    /// Only looks at the tree.
    Look,
}

/// A tree and what is done with it.
#[derive(Clone, Copy, Debug)]
struct Workload {
    name: &'static str,
    shape: Shape,
    count: usize,
    act: Act,
}

const fn workload(name: &'static str, shape: Shape, count: usize, act: Act) -> Workload {
    Workload { name, shape, count, act }
}

const WORKLOADS: [Workload; 8] = [
    workload("1 000 files, nothing to do", Shape::Files, 1000, Act::Again),
    workload("1 000 states in chains", Shape::Chains, 1000, Act::Again),
    workload("500 templates, nothing to do", Shape::Templates, 500, Act::Again),
    workload("nothing at all", Shape::Nothing, 1, Act::Look),
    workload("100 files, nothing to do", Shape::Files, 100, Act::Again),
    workload("10 000 files, nothing to do", Shape::Files, 10_000, Act::Again),
    workload("1 000 files from nothing", Shape::Files, 1000, Act::First),
    workload("500 templates from nothing", Shape::Templates, 500, Act::First),
];

/// States of the plots.
pub const SIZES: [usize; 4] = [100, 1000, 10_000, 50_000];
/// Commands of the plots.
pub const SCALED: [&str; 4] = ["run, cold", "run, warm", "show lowstate", "show plan"];

/// All measurements: costs by workload and program, in the order of the rounds.
#[derive(Debug, Default)]
pub struct Rounds {
    costs: BTreeMap<(usize, &'static str), Vec<Cost>>,
    /// CPU milliseconds by command and number of states.
    pub scaling: BTreeMap<(&'static str, usize), f64>,
    pub count: usize,
}

/// A program in a workload: its column and its command line.
type Contestant = (&'static str, PathBuf, Vec<String>);

impl Rounds {
    /// Measures; the plots take a minute more.
    pub fn measure(zagent: &Path, count: usize, with_plots: bool) -> Result<Self> {
        let scratch = Scratch::create()?;
        let mut rounds = Self { count, ..Self::default() };
        let trees = WORKLOADS.iter().enumerate().map(|(i, work)| {
            TestTree::create(work.shape, work.count, scratch.0.join(format!("w{i}"))).context(work.name)
        });
        let trees: Vec<TestTree> = trees.collect::<Result<_>>()?;
        for round in 0..=count {
            for (i, (work, tree)) in WORKLOADS.iter().zip(&trees).enumerate() {
                for (name, program, args) in contestants(zagent, *work, tree)? {
                    let cost = run_checked(*work, tree, (&program, &args))
                        .with_context(|| format!("{name}: {}", work.name))?;
                    // The first round fills caches.
                    if round > 0 {
                        rounds.costs.entry((i, name)).or_default().push(cost);
                    }
                }
            }
        }
        if with_plots {
            rounds.measure_scaling(zagent, &scratch.0)?;
        }
        Ok(rounds)
    }

    fn measure_scaling(&mut self, zagent: &Path, scratch: &Path) -> Result<()> {
        for size in SIZES {
            let tree = TestTree::create(Shape::Chains, size, scratch.join(format!("s{size}")))?;
            for command in SCALED {
                let args = match command {
                    "run, cold" => run_args(&tree, true),
                    "run, warm" => run_args(&tree, false),
                    other => tree_args(&tree, other),
                };
                let root = tree.root.join("zagent");
                measure::run(zagent, &args, &root)?;
                let once = || measure::run(zagent, &args, &root).map(|cost| cost.cpu_ms);
                let costs: Vec<f64> = (0..3).map(|_| once()).collect::<Result<_>>()?;
                self.scaling.insert((command, size), measure::median(costs).0);
            }
        }
        Ok(())
    }

    /// Names of the workloads.
    pub fn workloads(&self) -> impl Iterator<Item = (usize, &'static str)> {
        WORKLOADS.iter().enumerate().map(|(i, work)| (i, work.name))
    }

    /// Median CPU and wall time, and the noise of the CPU time, of a program.
    pub fn cost(&self, workload: usize, program: &str) -> Option<(f64, f64, f64)> {
        let costs = self.of(workload, program)?;
        let (cpu, noise) = measure::median(costs.iter().map(|cost| cost.cpu_ms).collect());
        Some((cpu, measure::median(costs.iter().map(|cost| cost.wall_ms).collect()).0, noise))
    }

    /// The median of the ratios of two programs in the same round, and their noise.
    pub fn ratio(&self, workload: usize, program: &str, yardstick: &str) -> Option<(f64, f64)> {
        let pairs = self.of(workload, program)?.iter().zip(self.of(workload, yardstick)?);
        Some(measure::median(pairs.map(|(own, other)| own.cpu_ms / other.cpu_ms.max(0.01)).collect()))
    }

    fn of(&self, workload: usize, program: &str) -> Option<&Vec<Cost>> {
        self.costs.iter().find(|((i, name), _)| *i == workload && *name == program).map(|(_, costs)| costs)
    }
}

/// A directory that is removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn create() -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("zagent-bench-{}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run_args(tree: &TestTree, is_fresh: bool) -> Vec<String> {
    let mut args = tree_args(tree, "run --once --out json");
    args.extend(is_fresh.then(|| "--fresh".to_owned()));
    args
}

fn tree_args(tree: &TestTree, command: &str) -> Vec<String> {
    let path = |name: &str| tree.root.join(name).to_string_lossy().into_owned();
    let more = ["--states".into(), path("states"), "--pillar".into(), path("pillar")];
    command.split(' ').map(str::to_owned).chain(more).collect()
}

fn contestants(zagent: &Path, work: Workload, tree: &TestTree) -> Result<Vec<Contestant>> {
    let own = std::env::current_exe()?;
    let path = |path: PathBuf| path.to_string_lossy().into_owned();
    let phys = |verb: &str| vec!["phys".to_owned(), verb.to_owned(), path(tree.pack())];
    let floor = vec!["floor".to_owned(), "run".to_owned(), path(tree.states())];
    let mut all: Vec<Contestant> = Vec::new();
    match work.act {
        Act::Look => all.push(("zagent warm", zagent.into(), vec!["test.nop".into(), "x".into()])),
        Act::First => {}
        Act::Again => all.push(("zagent warm", zagent.into(), run_args(tree, false))),
    }
    all.push(("zagent cold", zagent.into(), run_args(tree, true)));
    if work.act == Act::First {
        all.push(("phys", own.clone(), phys("write")));
        all.push(("phys fsync", own, phys("fsync")));
    } else {
        all.push(("floor", own.clone(), floor));
        all.push(("phys", own, phys("compare")));
    }
    if let Some(program) = peers::find("salt-call") {
        all.push(("salt", program, peers::salt_args(tree)?));
    }
    if let (Some(program), Shape::Files) = (peers::find("cf-agent"), work.shape) {
        all.push(("cfengine", program, peers::cfengine_args(tree, &tree.root.join("zagent"))?));
    }
    Ok(all)
}

/// Runs a program; a first run must leave the right files, and one with nothing to do must touch none.
fn run_checked(work: Workload, tree: &TestTree, (program, args): (&Path, &[String])) -> Result<Cost> {
    let root = tree.root.join("zagent");
    let before = match work.act {
        Act::First => {
            tree.clear()?;
            None
        }
        Act::Again => {
            if tree.verify().is_err() {
                tree.clear()?;
                measure::run(&std::env::current_exe()?, &write_args(tree), &root)?;
            }
            Some(tree.verify()?)
        }
        Act::Look => None,
    };
    let cost = measure::run(program, args, &root)?;
    let after = if work.act == Act::Look { None } else { Some(tree.verify()?) };
    if before.is_some() && before != after {
        bail!("it touched files that were right");
    }
    Ok(cost)
}

fn write_args(tree: &TestTree) -> Vec<String> {
    vec!["phys".into(), "write".into(), tree.pack().to_string_lossy().into_owned()]
}
