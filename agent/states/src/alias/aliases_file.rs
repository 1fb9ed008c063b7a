//! The text of `/etc/aliases` in, mail aliases out; and the text as Salt writes it.

/// A line of `/etc/aliases`: name, target, and what comes after it.
fn parse_mail_alias(line: &str) -> Option<(&str, &str, &str)> {
    let line = line.trim_end_matches(['\n', '\r']);
    let (name, rest) = line.split_once(':').filter(|(name, _)| !name.contains('#') && !name.is_empty())?;
    let at =
        rest.match_indices('#').find(|(at, _)| rest[..*at].ends_with(char::is_whitespace)).map(|(at, _)| at);
    let (target, _) = rest.split_at(at.unwrap_or(rest.len()));
    let target = target.trim();
    (!target.is_empty()).then(|| {
        let kept = rest.trim_start().strip_prefix(target).unwrap_or_default();
        (name, target, if at.is_some() { kept } else { "" })
    })
}

/// All mail aliases, in the order of the file.
pub fn mail_aliases(text: &str) -> Vec<(String, String)> {
    text.lines()
        .filter_map(parse_mail_alias)
        .map(|(name, target, _)| (name.to_owned(), target.to_owned()))
        .collect()
}

/// The text with an alias, or without it.
pub fn set_mail_alias(text: &str, alias: &str, target: Option<&str>) -> String {
    let mut is_set = false;
    let mut out = String::new();
    for line in text.lines() {
        match parse_mail_alias(line) {
            Some((name, _, comment)) if name == alias => {
                if let Some(target) = target.filter(|_| !std::mem::replace(&mut is_set, true)) {
                    out.push_str(&format!("{alias}: {target}{comment}\n"));
                }
            }
            Some((name, target, comment)) => out.push_str(&format!("{name}: {target}{comment}\n")),
            None => out.push_str(&format!("{line}\n")),
        }
    }
    if let Some(target) = target.filter(|_| !is_set) {
        out.push_str(&format!("{alias}: {target}\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_aliases_are_set_in_place() {
        let text = "# head\nroot:me  # boss\n\npostmaster:    root\n";
        assert_eq!(mail_aliases(text), [("root".into(), "me".into()), ("postmaster".into(), "root".into())]);
        assert_eq!(
            set_mail_alias(text, "root", Some("you")),
            "# head\nroot: you  # boss\n\npostmaster: root\n"
        );
        assert_eq!(set_mail_alias(text, "root", None), "# head\n\npostmaster: root\n");
        assert_eq!(set_mail_alias("", "a", Some("b, c")), "a: b, c\n");
    }
}
