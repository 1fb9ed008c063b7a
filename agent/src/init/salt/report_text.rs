//! Report as text: what does not work comes first in each part, the verdict last.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::report::{FunctionUse, SaltReport, SaltSpot, SlsOutcome, SupportLevel};
use crate::output::{Paint, pluralize};
use zagent_config::sanitize;

/// Lines per part without `-v`.
const MAX_LINES: usize = 20;

/// The report as text; `all` shortens nothing.
#[must_use]
pub fn report_text(report: &SaltReport, all: bool, paint: Paint) -> String {
    let mut page =
        SaltReportText { out: String::new(), paint, most: if all { usize::MAX } else { MAX_LINES } };
    page.write_header(report);
    page.write_sls(report);
    page.write_uses("State functions", &report.states, "declaration");
    page.write_uses("Functions in templates", &report.functions, "call");
    let odd: Vec<FunctionUse> =
        report.renderers.iter().filter(|r| r.level != SupportLevel::Runs).cloned().collect();
    page.write_uses("Renderers that need Python", &odd, "file");
    page.write_features(report);
    page.write_targets(report);
    page.write_verdict(report);
    sanitize(&page.out)
}

struct SaltReportText {
    out: String,
    paint: Paint,
    most: usize,
}

impl SaltReportText {
    fn write_line(&mut self, text: impl std::fmt::Display) {
        let _ = writeln!(self.out, "{text}");
    }

    fn write_title(&mut self, title: &str) {
        let title = self.paint.bold(title);
        let _ = writeln!(self.out, "\n{title}");
    }

    fn write_header(&mut self, report: &SaltReport) {
        let dirs = |dirs: &[String]| if dirs.is_empty() { "none".to_owned() } else { dirs.join(", ") };
        self.write_line(format!("states: {}", dirs(&report.roots.0)));
        self.write_line(format!("pillar: {}", dirs(&report.roots.1)));
        self.write_line(format!("compiled for {}, each SLS separately; no command was run", report.node));
        for dir in &report.missing {
            self.write_line(format!(
                "{}: the configuration names `{dir}`, which does not exist",
                self.paint.yellow("warning")
            ));
        }
    }

    fn write_sls(&mut self, report: &SaltReport) {
        let (total, bad, lenient) = (report.sls.len(), report.failing_count(), report.lenient_count());
        self.write_title("SLS");
        let more = if lenient > 0 {
            format!(" ({lenient} of them only with `compat: salt`)")
        } else {
            String::new()
        };
        self.write_line(format!("  {} of {} compile{more}", total - bad, pluralize(total, "file")));
        if !report.examples.is_empty() {
            self.write_line(format!(
                "  {} of {total} compile with the pillar that the formulas document: {}",
                report.compiling_with_example(),
                report.examples.join(", ")
            ));
        }
        for message in report.top.iter().chain(&report.pillar) {
            self.write_line(format!("  {} {message}", self.paint.red(self.paint.mark('✗'))));
        }
        for message in &report.highstate {
            self.write_line(format!(
                "  {} all of it together: {message}",
                self.paint.red(self.paint.mark('✗'))
            ));
        }
        let mut groups: BTreeMap<(u8, String), Vec<String>> = BTreeMap::new();
        for one in &report.sls {
            let (rank, why, at) = match &one.outcome {
                SlsOutcome::Compiles => continue,
                SlsOutcome::WithCompat(why) => (1, why.clone(), one.file.clone()),
                SlsOutcome::Fails { code, message, place } => {
                    let with = match &one.with_example {
                        Some(SlsOutcome::Compiles | SlsOutcome::WithCompat(_)) => {
                            " (compiles with the documented pillar)"
                        }
                        _ => "",
                    };
                    let at = place.as_ref().map_or_else(|| one.file.clone(), spot_text);
                    (0, format!("{code}: {message}{with}"), at)
                }
            };
            groups.entry((rank, why)).or_default().push(at);
        }
        let lines: Vec<String> = groups
            .into_iter()
            .map(|((rank, why), places)| {
                let mark =
                    if rank == 0 { self.paint.red(self.paint.mark('✗')) } else { self.paint.yellow("~") };
                let more = match places.len() {
                    1 => String::new(),
                    n => format!(" (and {} more SLS)", n - 1),
                };
                format!("  {mark} {}{more}: {why}", places[0])
            })
            .collect();
        self.write_list(&lines);
    }

    fn write_uses(&mut self, title: &str, uses: &[FunctionUse], what: &str) {
        if uses.is_empty() {
            return;
        }
        self.write_title(title);
        let of = |level| uses.iter().filter(move |u| u.level == level);
        let total = |level| of(level).map(|u| u.places.len()).sum::<usize>();
        for (level, words) in
            [(SupportLevel::Unknown, "unknown"), (SupportLevel::Known, "not in this version")]
        {
            let lines: Vec<String> = of(level)
                .map(|u| {
                    let first = u.places.first().map(spot_text).unwrap_or_default();
                    format!("    {:32} {:>5}  {first}", u.name, u.places.len())
                })
                .collect();
            if !lines.is_empty() {
                let mark = if level == SupportLevel::Unknown {
                    self.paint.red(self.paint.mark('✗'))
                } else {
                    self.paint.yellow("~")
                };
                self.write_line(format!(
                    "  {mark} {words}: {} in {}",
                    pluralize(lines.len(), "name"),
                    pluralize(total(level), what)
                ));
                self.write_list(&lines);
            }
        }
        let run: Vec<String> =
            of(SupportLevel::Runs).map(|u| format!("{} {}", u.name, u.places.len())).collect();
        if !run.is_empty() {
            let sum = pluralize(total(SupportLevel::Runs), what);
            let rest = run.len().saturating_sub(self.most);
            let more = if rest > 0 { format!(", {rest} more") } else { String::new() };
            let names = run[..run.len() - rest].join(", ");
            self.write_line(format!(
                "  {} works: {sum}: {names}{more}",
                self.paint.green(self.paint.mark('✓'))
            ));
        }
    }

    fn write_features(&mut self, report: &SaltReport) {
        if report.features.is_empty() {
            return;
        }
        self.write_title("Other features");
        for feature in &report.features {
            let first = feature.places.first().map(spot_text).unwrap_or_default();
            let rest = feature.places.len().saturating_sub(1);
            let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            self.write_line(format!(
                "  {} {}: {first}{more}",
                self.paint.red(self.paint.mark('✗')),
                feature.name
            ));
            self.write_line(format!("      {}", feature.advice));
        }
    }

    fn write_targets(&mut self, report: &SaltReport) {
        if report.targets.is_empty() {
            return;
        }
        self.write_title("Top file");
        let lines: Vec<String> = report
            .targets
            .iter()
            .map(|(env, target, matched, _)| {
                let mark = if *matched {
                    self.paint.green(self.paint.mark('●'))
                } else {
                    self.paint.dim(self.paint.mark('○'))
                };
                format!("  {mark} {env}: {target}")
            })
            .collect();
        self.write_list(&lines);
    }

    fn write_verdict(&mut self, report: &SaltReport) {
        let (all, run) = report.states_that_run();
        self.write_title("Verdict");
        let share = format!("{} %", report.percent_supported());
        let share =
            if report.percent_supported() >= 90 { self.paint.green(share) } else { self.paint.yellow(share) };
        self.write_line(format!(
            "  {share}: {run} of {} run without changes. {}",
            pluralize(all, "state"),
            report.verdict()
        ));
    }

    fn write_list(&mut self, lines: &[String]) {
        let rest = lines.len().saturating_sub(self.most);
        for line in &lines[..lines.len() - rest] {
            self.write_line(line);
        }
        if rest > 0 {
            self.write_line(format!("    … {rest} more (-v)"));
        }
    }
}

fn spot_text(spot: &SaltSpot) -> String {
    format!("{}:{}", spot.file, spot.line)
}
