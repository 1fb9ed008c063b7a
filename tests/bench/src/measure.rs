//! One program run: its CPU and wall time.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};

/// What a run cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// User and system time of the program and its children, in milliseconds.
    pub cpu_ms: f64,
    /// Elapsed time in milliseconds.
    pub wall_ms: f64,
}

/// CPU time of all children that ended.
fn children_cpu() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let time = |time: nix::sys::time::TimeVal| {
        Duration::new(time.tv_sec().unsigned_abs(), u32::try_from(time.tv_usec()).unwrap_or(0) * 1000)
    };
    Ok(time(usage.user_time()) + time(usage.system_time()))
}

/// Runs a program to its end; `root` is where zagent writes.
pub fn run(program: &Path, args: &[String], root: &Path) -> Result<Cost> {
    let before = children_cpu()?;
    let started = Instant::now();
    let ended = Command::new(program)
        .args(args)
        .env("ZAGENT_ROOT", root)
        .env("CFENGINE_TEST_OVERRIDE_WORKDIR", root.join("cfengine"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let wall = started.elapsed();
    if !ended.status.success() {
        bail!("{} {args:?} failed: {}", program.display(), String::from_utf8_lossy(&ended.stderr));
    }
    let cpu = children_cpu()?.saturating_sub(before);
    Ok(Cost { cpu_ms: cpu.as_secs_f64() * 1000.0, wall_ms: wall.as_secs_f64() * 1000.0 })
}

/// The middle of some numbers, and half the distance between their quartiles.
pub fn median(mut numbers: Vec<f64>) -> (f64, f64) {
    numbers.sort_by(f64::total_cmp);
    let at = |part: f64| numbers.get(((numbers.len().saturating_sub(1)) as f64 * part).round() as usize);
    let at = |part: f64| at(part).copied().unwrap_or(f64::NAN);
    (at(0.5), (at(0.75) - at(0.25)) / 2.0)
}
