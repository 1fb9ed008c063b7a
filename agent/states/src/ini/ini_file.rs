//! A text of sections and options in, its values out, and the text with some of them set or taken away.
//!
//! Law: Salt's own reading and writing: comments and order stay, an option that was commented out is set in its
//! place. Unlike Salt, a comment that looks like an option which is set elsewhere stays, and so do options that are
//! given twice (held by `options_are_set_in_the_place_of_a_comment`, `sections_come_and_go`).

use zagent_config::{Map, Value};

/// A line, or several that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
enum IniLine {
    /// A comment, an empty line, or something that is no option.
    Other(String),
    Option {
        name: String,
        value: String,
    },
}

/// The lines below a name; none for those before the first section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IniSection {
    pub name: Option<String>,
    lines: Vec<IniLine>,
}

/// A file of sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IniFile {
    /// The first is the one without a name.
    sections: Vec<IniSection>,
    separator: String,
}

/// How an option is written.
#[derive(Clone, Debug)]
pub(crate) struct IniFormat {
    pub separator: String,
    pub(crate) no_spaces: bool,
}

impl IniFile {
    /// Reads a text.
    pub(crate) fn parse(text: &str, separator: &str) -> Self {
        let mut sections = vec![(None, Vec::new())];
        for line in text.lines() {
            let bare = line.trim();
            let name =
                bare.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).filter(|n| !n.is_empty());
            match (name, sections.last_mut()) {
                (Some(name), _) => sections.push((Some(name.to_owned()), Vec::new())),
                (None, Some((_, lines))) => lines.push(line),
                (None, None) => {}
            }
        }
        let mut ini = Self { sections: Vec::new(), separator: separator.to_owned() };
        for (name, lines) in sections {
            let lines = parse_options(trim_empty_lines(&lines), separator);
            match ini.sections.iter_mut().find(|s| s.name == name) {
                Some(section) => section.lines.extend(lines),
                None => ini.sections.push(IniSection { name, lines }),
            }
        }
        ini
    }

    /// The text.
    pub(crate) fn render(&self, style: &IniFormat) -> String {
        let bare = style.separator.trim();
        let separator = match (bare, style.no_spaces) {
            ("", _) => " ".to_owned(),
            (bare, true) => bare.to_owned(),
            (bare, false) => format!(" {bare} "),
        };
        let mut out = String::new();
        for section in &self.sections {
            if let Some(name) = &section.name {
                out.push_str(if out.is_empty() { "" } else { "\n" });
                out.push_str(&format!("[{name}]\n"));
            }
            for line in &section.lines {
                match line {
                    IniLine::Other(text) => out.push_str(text),
                    IniLine::Option { name, value } => out.push_str(&format!("{name}{separator}{value}")),
                }
                out.push('\n');
            }
        }
        out
    }

    pub(crate) fn section(&self, name: Option<&str>) -> Option<&IniSection> {
        self.sections.iter().find(|s| s.name.as_deref() == name)
    }

    pub(crate) fn get(&self, section: Option<&str>, option: &str) -> Option<&str> {
        self.section(section)?.get(option)
    }

    /// Makes a section; true when it was not there.
    pub(crate) fn add_section(&mut self, name: &str) -> bool {
        if self.section(Some(name)).is_some() {
            return false;
        }
        self.sections.push(IniSection { name: Some(name.to_owned()), lines: Vec::new() });
        true
    }

    /// Sets an option; a section that is not there is made.
    pub(crate) fn set(&mut self, section: Option<&str>, option: &str, value: &str) {
        if let Some(name) = section {
            self.add_section(name);
        }
        let separator = self.separator.clone();
        let Some(section) = self.sections.iter_mut().find(|s| s.name.as_deref() == section) else { return };
        let is = |line: &&mut IniLine| matches!(line, IniLine::Option { name, .. } if name == option);
        if let Some(IniLine::Option { value: old, .. }) = section.lines.iter_mut().rev().find(is) {
            value.clone_into(old);
            return;
        }
        let line = IniLine::Option { name: option.to_owned(), value: value.to_owned() };
        let is_commented = |line: &IniLine| match line {
            IniLine::Other(text) => {
                text.starts_with('#')
                    && split_option(text.trim_start_matches('#'), &separator)
                        .is_some_and(|(name, _)| name == option)
            }
            IniLine::Option { .. } => false,
        };
        match section.lines.iter().position(is_commented) {
            Some(at) => section.lines[at] = line,
            None => section.lines.push(line),
        }
    }

    /// Takes an option away; its value when it was there.
    pub(crate) fn remove(&mut self, section: Option<&str>, option: &str) -> Option<String> {
        let was = self.get(section, option)?.to_owned();
        let section = self.sections.iter_mut().find(|s| s.name.as_deref() == section)?;
        section.lines.retain(|line| !matches!(line, IniLine::Option { name, .. } if name == option));
        Some(was)
    }

    /// Takes a section away; its options when it was there.
    pub(crate) fn remove_section(&mut self, name: &str) -> Option<Map> {
        let at = self.sections.iter().position(|s| s.name.as_deref() == Some(name))?;
        Some(self.sections.remove(at).to_map())
    }

    /// All options: those without a section, then each section.
    pub(crate) fn to_map(&self) -> Map {
        let mut out = Map::new();
        for section in &self.sections {
            match &section.name {
                Some(name) => drop(out.insert(name.as_str(), section.to_map())),
                None => out = section.to_map(),
            }
        }
        out
    }
}

impl IniSection {
    /// The value of an option; the last one counts.
    pub(crate) fn get(&self, option: &str) -> Option<&str> {
        self.lines.iter().rev().find_map(|line| match line {
            IniLine::Option { name, value } if name == option => Some(&**value),
            _ => None,
        })
    }

    /// Its options.
    pub(crate) fn to_map(&self) -> Map {
        let mut out = Map::new();
        for line in &self.lines {
            if let IniLine::Option { name, value } = line {
                out.insert(name.as_str(), value.as_str());
            }
        }
        out
    }
}

/// Lines without empty ones at the ends.
fn trim_empty_lines<'l>(lines: &'l [&'l str]) -> &'l [&'l str] {
    let start = lines.iter().position(|l| !l.is_empty()).unwrap_or(lines.len());
    let end = lines.iter().rposition(|l| !l.is_empty()).map_or(start, |at| at + 1);
    &lines[start..end]
}

/// Name and value of an option.
fn split_option<'l>(line: &'l str, separator: &str) -> Option<(&'l str, &'l str)> {
    let line = line.trim_start();
    let first = line.chars().next()?.len_utf8();
    let at = first + line.get(first..)?.find(separator)?;
    Some((line[..at].trim_end(), line[at + separator.len()..].trim_start()))
}

fn parse_options(lines: &[&str], separator: &str) -> Vec<IniLine> {
    let mut out: Vec<IniLine> = Vec::new();
    let mut indent = 0;
    for line in lines {
        let bare = line.trim_start();
        if bare.starts_with(['#', ';']) {
            out.push(IniLine::Other((*line).to_owned()));
            continue;
        }
        let width = |text: &str| text.replace('\t', "    ").len();
        let own = width(&line[..line.len() - bare.len()]);
        if own > indent
            && let Some(IniLine::Option { value: text, .. } | IniLine::Other(text)) = out.last_mut()
        {
            text.push('\n');
            text.push_str(line);
            continue;
        }
        match split_option(line, separator) {
            Some((name, value)) => {
                indent = own;
                out.push(IniLine::Option { name: name.to_owned(), value: value.to_owned() });
            }
            None => out.push(IniLine::Other((*line).to_owned())),
        }
    }
    out
}

/// A value as Salt writes it.
pub(crate) fn ini_value_text(value: &Value) -> String {
    zagent_host::command_options::value_text(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# head\na=1\n\n\n[one]\n#port = 1\nlist = x\n  y\n; c\n\n[two]\nb : c = d\n";

    fn spelling(no_spaces: bool) -> IniFormat {
        IniFormat { separator: "=".into(), no_spaces }
    }

    #[test]
    fn options_are_read() {
        let ini = IniFile::parse(TEXT, "=");
        assert_eq!(ini.get(None, "a"), Some("1"));
        assert_eq!(ini.get(Some("one"), "list"), Some("x\n  y"));
        assert_eq!(ini.get(Some("two"), "b : c"), Some("d"));
        assert_eq!(ini.get(Some("one"), "port"), None);
        assert_eq!(ini.to_map().keys().map(Value::json_key).collect::<Vec<_>>(), ["a", "one", "two"]);
        assert_eq!(IniFile::parse("a b c\n", " ").get(None, "a"), Some("b c"));
    }

    #[test]
    fn options_are_set_in_the_place_of_a_comment() {
        let mut ini = IniFile::parse(TEXT, "=");
        ini.set(Some("one"), "port", "2");
        ini.set(Some("new"), "k", "v");
        ini.set(None, "a", "2");
        assert_eq!(ini.remove(Some("two"), "b : c").as_deref(), Some("d"));
        let text = "# head\na = 2\n\n[one]\nport = 2\nlist = x\n  y\n; c\n\n[two]\n\n[new]\nk = v\n";
        assert_eq!(ini.render(&spelling(false)), text);
        assert_eq!(IniFile::parse(text, "=").render(&spelling(false)), text);
        assert!(ini.render(&spelling(true)).contains("port=2\n"));
    }

    #[test]
    fn sections_come_and_go() {
        let mut ini = IniFile::parse("", "=");
        assert!(ini.add_section("s") && !ini.add_section("s"));
        assert_eq!(ini.render(&spelling(false)), "[s]\n");
        assert_eq!(ini.remove_section("s"), Some(Map::new()));
        assert_eq!(ini.remove_section("s"), None);
    }
}
