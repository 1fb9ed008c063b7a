//! Banners and other texts that functions create.

/// The default text of a banner. Not Salt's words: they would not be true here.
const TITLE: &str = "MANAGED BY ZAGENT - DO NOT EDIT";
const TEXT: &str =
    "This file is managed from a Git repository. The next run overwrites local changes; edit it there.";

/// The maximum width of a banner.
const MAX_WIDTH: usize = 10_000;

/// A comment block with a border.
pub(super) struct Banner<'a> {
    pub(super) width: usize,
    pub(super) comment: &'a str,
    pub(super) border: &'a str,
    pub(super) start: Option<&'a str>,
    pub(super) end: Option<&'a str>,
    pub(super) title: Option<&'a str>,
    pub(super) text: Option<&'a str>,
}

/// Makes a banner; `None` when it is too narrow or too wide.
pub(super) fn banner(b: &Banner<'_>) -> Option<String> {
    let count = |s: &str| s.chars().count();
    let (left, right) = (b.comment.trim_end(), b.comment.trim());
    let inside = b.width.checked_sub(count(left) + count(right) + 2).filter(|w| *w > 0)?;
    if b.width > MAX_WIDTH {
        return None;
    }
    let edge: String = b.border.chars().take(1).collect();
    let line = b.width.saturating_sub(count(left) + count(right));
    let border = format!("{}{}{right}", b.comment, edge.repeat(line));
    let spaces = b.width.saturating_sub(count(b.comment) * 2);
    let spacer = format!("{}{}{}", b.comment, " ".repeat(spaces), b.comment);
    let mut out: Vec<String> = b.start.map(str::to_owned).into_iter().collect();
    out.push(border.clone());
    out.push(spacer.clone());
    for row in wrap(b.title.unwrap_or(TITLE), inside) {
        out.push(format!("{left} {} {right}", center(&row, inside)));
    }
    out.push(spacer);
    for row in wrap(b.text.unwrap_or(TEXT), inside) {
        out.push(format!("{left} {row:<inside$} {right}"));
    }
    out.push(border);
    out.extend(b.end.map(str::to_owned));
    Some(out.join("\n"))
}

/// Python's `str.center`: when the padding is odd, the larger half is left if the width is odd.
fn center(text: &str, width: usize) -> String {
    let rest = width.saturating_sub(text.chars().count());
    let left = rest / 2 + (rest & width & 1);
    format!("{}{text}{}", " ".repeat(left), " ".repeat(rest - left))
}

/// Words in lines of at most `width`; a longer word is cut.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let mut rest: Vec<char> = word.chars().collect();
        while !rest.is_empty() {
            let used = line.chars().count();
            let gap = usize::from(used > 0);
            if used + gap + rest.len() <= width {
                line.push_str(if gap == 1 { " " } else { "" });
                line.extend(rest.drain(..));
            } else if rest.len() > width && width > used + gap {
                line.push_str(if gap == 1 { " " } else { "" });
                line.extend(rest.drain(..width - used - gap));
                lines.push(std::mem::take(&mut line));
            } else {
                lines.push(std::mem::take(&mut line));
            }
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banners_look_as_in_salt() {
        let b = Banner {
            width: 40,
            comment: "//",
            border: "=",
            start: Some("<"),
            end: Some(">"),
            title: Some("hello world"),
            text: Some("some text that is longer than forty columns wide"),
        };
        let want = "<\n\
                    //====================================//\n\
                    //                                    //\n\
                    //            hello world             //\n\
                    //                                    //\n\
                    // some text that is longer than      //\n\
                    // forty columns wide                 //\n\
                    //====================================//\n\
                    >";
        assert_eq!(banner(&b).as_deref(), Some(want));
        assert_eq!(banner(&Banner { width: 4, ..b }), None);
    }

    #[test]
    fn long_words_are_cut() {
        assert_eq!(wrap("abcdef gh", 4), ["abcd", "ef", "gh"]);
        assert_eq!(wrap("a abcdef", 4), ["a ab", "cdef"]);
    }
}
