//! Verdicts in, the documentation page out.

use std::fmt::Write;

use super::{Cell, Verdict};

const HEAD: &str = "# Every state in a container\n\n\
Each row is a state function on a Debian 12 with real systemd: a dry run on a fresh host (**test**), a run (**fresh**), a second \
run that changes nothing (**right**), a dry run after the host was modified outside zagent (**drift: test**), a run that fixes \
it (**drift**), and `zagent run --revert` (**revert**). `unknown` means that the dry run cannot predict the result, `–` that the \
step does not apply; the last column gives the reason. `just docs-matrix` writes this page from the rows in `tests/matrix`.\n\n\
| state | | test | fresh | right | drift: test | drift | revert | why |\n|---|---|---|---|---|---|---|---|---|\n";

/// The page.
#[must_use]
pub fn page(verdicts: &[Verdict]) -> String {
    let mut text = HEAD.to_owned();
    for verdict in verdicts {
        let row = &verdict.row;
        let cells: Vec<&str> = verdict.cells.iter().map(word).collect();
        let why = verdict.fault().unwrap_or(if row.skip.is_empty() { &row.why } else { &row.skip });
        let (title, why) = (plain(&row.title), plain(why));
        let _ = writeln!(text, "| `{}` | {title} | {} | {why} |", row.state, cells.join(" | "));
    }
    text
}

fn word(cell: &Cell) -> &'static str {
    match cell {
        Cell::Good => "ok",
        Cell::Unknown => "unknown",
        Cell::None => "–",
        Cell::Left => "",
        Cell::Bad(_) => "**no**",
    }
}

/// One line that does not break the table.
fn plain(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace('|', "\\|").replace('<', "&lt;").chars().take(300).collect()
}
