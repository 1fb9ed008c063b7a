//! Commands and outputs of a page in, pictures of a terminal out, for the README: they show what the tests of the pages compare.

use std::fmt::Write;

use super::{Step, book, steps};

/// Width of a character in tenths, and height of a line, in the units of the picture.
const CHARACTER: usize = 84;
const LINE: usize = 19;

/// The pictures: file, page, and the start of the command.
const PICTURES: [(&str, &str, &str); 2] = [
    ("run.svg", "first-steps.md", "zagent run --once --states states"),
    ("rollout.svg", "first-rollout.md", "zagent rollout start"),
];

#[test]
fn the_pictures_of_the_readme_show_what_the_pages_show() {
    let accept = std::env::var_os("INSTA_UPDATE").is_some_and(|how| how == "always");
    for (file, page, start) in PICTURES {
        let text = std::fs::read_to_string(book().join(page)).unwrap();
        let found = steps(&text).into_iter().find_map(|step| match step {
            Step::Type { command, shown, .. } if command.starts_with(start) => Some((command, shown)),
            _ => None,
        });
        let (command, shown) = found.unwrap_or_else(|| panic!("{page} has no `{start}`"));
        let want = draw(&command, &shown);
        let path = book().join("images").join(file);
        if accept {
            std::fs::write(&path, &want).unwrap();
        }
        assert!(
            std::fs::read_to_string(&path).is_ok_and(|picture| picture == want),
            "{file} is stale: write it with INSTA_UPDATE=always"
        );
    }
}

/// A terminal with a command and its output; text that differs from run to run is left out.
fn draw(command: &str, shown: &[String]) -> String {
    let mut lines = vec![format!("$ {command}")];
    let fixed = shown.iter().filter(|line| *line != "…").map(|line| line.strip_prefix("… ").unwrap_or(line));
    lines.extend(fixed.map(|line| line.replace(" (… ms; run …)", "")));
    let columns = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let (width, height) = (columns * CHARACTER / 10 + 32, lines.len() * LINE + 28);
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\">\n<title>{}</title>\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#11161c\"/>\n<g \
         font-family=\"ui-monospace, monospace\" font-size=\"14\" xml:space=\"preserve\">\n",
        escape(command)
    );
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let y = 28 + index * LINE;
        // Without a length, another font would make the columns uneven.
        let length = line.chars().count() * CHARACTER;
        let _ = writeln!(
            picture,
            "<text x=\"16\" y=\"{y}\" textLength=\"{}.{}\" fill=\"{}\">{}</text>",
            length / 10,
            length % 10,
            colour(line),
            escape(line)
        );
    }
    picture + "</g>\n</svg>\n"
}

fn colour(line: &str) -> &'static str {
    match line.trim_start() {
        line if line.starts_with('$') => "#e6edf3",
        line if line.starts_with('+') || line.starts_with("OK") || line.contains("completed") => "#7ee787",
        line if line.starts_with("changed") => "#e3b341",
        _ => "#b6c2cf",
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
