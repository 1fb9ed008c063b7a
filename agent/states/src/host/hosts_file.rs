//! The text of `/etc/hosts` in, names out; and the text as Salt writes it.

/// An address with its names, or a line that is a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostsEntry {
    /// Empty for a comment.
    pub ip: String,
    pub aliases: Vec<String>,
    pub comment: Option<String>,
}

/// The lines of the file; several of one address are one.
pub fn parse_hosts(text: &str) -> Vec<HostsEntry> {
    let mut hosts: Vec<HostsEntry> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with('#') {
            hosts.push(HostsEntry { ip: String::new(), aliases: Vec::new(), comment: Some(line.to_owned()) });
            continue;
        }
        let (names, comment) = line.split_once('#').map_or((line, None), |(n, c)| (n, Some(c.trim_start())));
        let comment = comment.filter(|c| !c.is_empty()).map(str::to_owned);
        let mut words = names.split_whitespace().map(str::to_owned);
        let Some(ip) = words.next() else { continue };
        match hosts.iter_mut().find(|h| h.ip == ip) {
            Some(host) => {
                host.aliases.extend(words);
                host.comment = comment.or_else(|| host.comment.take());
            }
            None => hosts.push(HostsEntry { ip, aliases: words.collect(), comment }),
        }
    }
    hosts
}

/// The names of an address.
pub fn aliases_of<'h>(hosts: &'h [HostsEntry], ip: &str) -> &'h [String] {
    hosts.iter().find(|h| h.ip == ip).map_or(&[], |h| &h.aliases)
}

/// The text of lines.
pub fn render_hosts(hosts: &[HostsEntry]) -> String {
    let line = |host: &HostsEntry| {
        let comment = host.comment.as_deref().unwrap_or_default();
        if host.ip.is_empty() {
            return format!("{comment}\n");
        }
        let names = host.aliases.join(" ");
        let line = if host.comment.is_some() {
            format!("{}\t\t{names}\t\t# {comment}", host.ip)
        } else {
            format!("{}\t\t{names}", host.ip)
        };
        format!("{}\n", line.trim())
    };
    hosts.iter().map(line).collect()
}

/// Gives a name to an address.
pub fn add_alias(hosts: &mut Vec<HostsEntry>, ip: &str, alias: &str) {
    match hosts.iter_mut().find(|h| h.ip == ip) {
        Some(host) if host.aliases.iter().any(|a| a == alias) => {}
        Some(host) => host.aliases.push(alias.to_owned()),
        None => hosts.push(HostsEntry { ip: ip.to_owned(), aliases: vec![alias.to_owned()], comment: None }),
    }
}

/// A text in which a name is taken from an address; other lines stay as they are.
pub fn remove_alias(text: &str, ip: &str, alias: &str) -> String {
    let each = |line: &str| {
        let bare = line.trim();
        let (names, comment) = bare.split_once('#').map_or((bare, None), |(n, c)| (n, Some(c.trim_start())));
        let mut words = names.split_whitespace();
        if bare.starts_with('#') || words.next() != Some(ip) {
            return line.to_owned();
        }
        let rest: String = words.filter(|w| *w != alias).map(|w| format!("{w} ")).collect();
        match comment {
            _ if rest.is_empty() => String::new(),
            Some(comment) => format!("{ip}\t\t{rest}# {comment}\n"),
            None => format!("{ip}\t\t{rest}\n"),
        }
    };
    text.split_inclusive('\n').map(each).collect()
}

/// A text in which an address has these names alone; an empty text takes it away.
pub fn set_aliases(text: &str, ip: &str, names: &str) -> String {
    let new = if names.trim().is_empty() { String::new() } else { format!("{ip}\t\t{names}\n") };
    let mut is_set = false;
    let mut out: String = text
        .split_inclusive('\n')
        .map(|line| {
            if line.trim().starts_with('#') || line.split_whitespace().next() != Some(ip) {
                return line.to_owned();
            }
            if std::mem::replace(&mut is_set, true) { String::new() } else { new.clone() }
        })
        .collect();
    if !is_set {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(&new);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "127.0.0.1 localhost\n\n# own\n10.0.0.1  a b # two\n10.0.0.1 c\n";

    #[test]
    fn names_are_added_as_salt_writes_them() {
        let mut hosts = parse_hosts(TEXT);
        assert_eq!(aliases_of(&hosts, "10.0.0.1"), ["a", "b", "c"]);
        add_alias(&mut hosts, "10.0.0.2", "d");
        add_alias(&mut hosts, "10.0.0.2", "d");
        let text = "127.0.0.1\t\tlocalhost\n# own\n10.0.0.1\t\ta b c\t\t# two\n10.0.0.2\t\td\n";
        assert_eq!(render_hosts(&hosts), text);
    }

    #[test]
    fn names_are_taken_away_and_other_lines_stay() {
        let text = "127.0.0.1 localhost\n\n# own\n10.0.0.1\t\tb # two\n10.0.0.1\t\tc \n";
        assert_eq!(remove_alias(TEXT, "10.0.0.1", "a"), text);
        assert_eq!(remove_alias("10.0.0.1 a\n", "10.0.0.1", "a"), "");
        assert_eq!(set_aliases(TEXT, "10.0.0.1", "x y"), "127.0.0.1 localhost\n\n# own\n10.0.0.1\t\tx y\n");
        assert_eq!(set_aliases("::1 l", "10.0.0.1", "x"), "::1 l\n10.0.0.1\t\tx\n");
    }
}
