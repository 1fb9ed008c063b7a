//! Lists that the code owns in, pages of the reference out: settings, error codes, exit codes, metrics.

use std::fmt::Write;

/// The sample configuration explains every setting; another test compares it with the settings.
const SETTINGS: &str = include_str!("../../../../dist/zagent.yaml");
/// Its header has the table of exit codes.
const EXIT_CODES: &str = include_str!("../../../../agent/src/exit_code.rs");
/// What `/metrics` prints, as another test compares it.
const METRICS: &str = include_str!(
    "../../../../agent/daemon/src/api/tests/snapshots/zagent_daemon__api__tests__lines__metrics.snap"
);

/// The code, its rules and its words on one page.
const ARCHITECTURE: &str = include_str!("../../../../ARCHITECTURE.md");

/// Every page, by its path in the documentation.
pub(super) fn pages() -> [(String, String); 6] {
    [
        ("reference/settings.md".to_owned(), settings()),
        ("reference/codes.md".to_owned(), codes()),
        ("reference/exit-codes.md".to_owned(), exit_codes()),
        ("reference/metrics.md".to_owned(), metrics()),
        ("glossary.md".to_owned(), glossary()),
        ("internals.md".to_owned(), internals()),
    ]
}

fn settings() -> String {
    format!(
        "# Settings\n\nThis is the sample configuration that the packages install as `/etc/zagent/zagent.yaml`: every setting with \
         its explanation and its default. `zagent config show` prints the settings of a node and where each comes from. A \
         variable sets the same: `ZAGENT_RUN_EVERY=1h` is `run: {{every: 1h}}`.\n\n```yaml\n{SETTINGS}```\n"
    )
}

fn codes() -> String {
    let mut page = "# Error codes\n\nEvery error of a tree, a manifest or a configuration has a code. `zagent explain ZA0107` \
                    prints the same on the command line.\n"
        .to_owned();
    for code in zagent_config::codes::all() {
        let body = match code.explanation.split_once('\n') {
            Some((title, body)) if title.starts_with("# ") => body,
            _ => code.explanation,
        };
        let _ = write!(page, "\n## {}: {}\n\n{}\n", code.id, code.title, body.trim());
    }
    page
}

fn exit_codes() -> String {
    let rows: Vec<&str> = EXIT_CODES.lines().filter_map(|line| line.strip_prefix("//! |")).collect();
    let mut page = "# Exit codes\n\nThe same for every command. The section EXIT STATUS of each manual page lists them too.\n\n"
        .to_owned();
    rows.iter().for_each(|row| {
        let _ = writeln!(page, "|{row}");
    });
    page.push_str(
        "\n`--detailed-exitcodes` is an option of commands that run states. A command that asks something (`zagent check`, `zagent \
         status --check`, `zagent doctor`) exits with 1 when the answer is no.\n",
    );
    page
}

fn metrics() -> String {
    let mut page = "# Metrics\n\n`GET /metrics` on the socket and on the `listen` address, in the text format of Prometheus. \
                    [Pages, dashboards and alerts](../pages.md) has rules and a dashboard.\n\n| metric | type | meaning |\n\
                    |---|---|---|\n"
        .to_owned();
    for line in METRICS.lines() {
        let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        let kind = METRICS.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {name} ")[..]));
        let _ = writeln!(page, "| `{name}` | {} | {help} |", kind.unwrap_or_default());
    }
    page
}

fn glossary() -> String {
    let (_, table) = ARCHITECTURE.split_once("## Glossary\n").expect("the glossary");
    let (table, _) = table.split_once("\n## ").unwrap_or((table, ""));
    format!("# Glossary\n\nThe words of zagent, of Salt where Salt has one.\n\n{}\n", table.trim())
}

fn internals() -> String {
    let (text, _) = ARCHITECTURE.split_once("## Glossary\n").expect("the glossary");
    let text = text.strip_prefix("# Architecture\n").expect("the title");
    format!(
        "# How it works inside\n\nFor people who read or change the code: ARCHITECTURE.md of the source.\n{}\n",
        text.trim_end()
    )
}
