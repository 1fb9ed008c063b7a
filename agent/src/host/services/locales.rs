//! Locales: which the system has, which it speaks, and how one is made.

use zagent_compiler::functions::Refusal;

use super::lines;
use crate::fs::{FileSystem, FsError};
use crate::host::{Said, Tools};

const GEN: &str = "/etc/locale.gen";
const SUPPORTED: &str = "/usr/share/i18n/SUPPORTED";

/// A locale cut into language, codeset, modifier and charmap, as in `de_DE.UTF-8@euro UTF-8`.
struct Parts<'l> {
    language: &'l str,
    codeset: &'l str,
    modifier: &'l str,
    charmap: &'l str,
}

impl<'l> Parts<'l> {
    fn of(locale: &'l str) -> Self {
        let cut = |text: &'l str, at: char| text.split_once(at).unwrap_or((text, ""));
        let (rest, charmap) = cut(locale.trim(), ' ');
        let (rest, modifier) = cut(rest, '@');
        let (language, codeset) = cut(rest, '.');
        Self { language, codeset, modifier, charmap }
    }

    fn joined(&self, codeset: &str) -> String {
        let mut out = self.language.to_owned();
        for (mark, part) in [('.', codeset), ('@', self.modifier)] {
            if !part.is_empty() {
                out.push(mark);
                out.push_str(part);
            }
        }
        out
    }
}

/// The locale as `locale -a` writes it.
pub(crate) fn plain(locale: &str) -> String {
    let parts = Parts::of(locale);
    parts.joined(&parts.codeset.to_lowercase().replace('-', ""))
}

/// All locales that there are.
pub(crate) fn list(tools: &Tools<'_>) -> Result<Vec<String>, Refusal> {
    let said = tools.ask("locale", &["-a"])?;
    if !said.is_fine() {
        return Err(Refusal::failed(format!("`locale -a` failed: {}", said.words())));
    }
    Ok(said.out.lines().map(str::to_owned).collect())
}

/// True when there is such a locale.
pub(crate) fn is_there(tools: &Tools<'_>, locale: &str) -> Result<bool, Refusal> {
    let wanted = plain(locale);
    Ok(list(tools)?.iter().any(|l| plain(l) == wanted))
}

/// The line of `/etc/locale.gen` for a locale, and whether the list of supported ones has it.
fn line(fs: &dyn FileSystem, locale: &str) -> Result<(String, bool), FsError> {
    let parts = Parts::of(locale);
    let charmap = if parts.charmap.is_empty() { parts.codeset } else { parts.charmap };
    let line = format!("{} {charmap}", parts.joined(parts.codeset));
    let line = line.trim().to_owned();
    let list = lines::read(fs, SUPPORTED)?;
    let known = list.is_none_or(|text| text.lines().any(|l| l.trim() == line));
    Ok((line, known))
}

/// Notes a locale in the list of those that are made; nothing when nobody supports it. Hosts without a list need no note.
pub(crate) fn note(fs: &dyn FileSystem, locale: &str) -> Result<Option<()>, FsError> {
    let (line, known) = line(fs, locale)?;
    if !known {
        return Ok(None);
    }
    if let Some(text) = lines::read(fs, GEN)? {
        let bare = |l: &str| l.trim_start().trim_start_matches('#').trim().to_owned();
        if !text.lines().any(|l| l.trim() == line) {
            let (edited, found) = lines::edit(&text, |l| (bare(l) == line).then(|| line.clone()));
            let text = if found { edited } else { lines::append(&text, &line) };
            lines::write(fs, GEN, &text)?;
        }
    }
    Ok(Some(()))
}

/// Makes what is noted: all of it by `locale-gen`, or this one by `localedef`.
pub(crate) fn make(tools: &Tools<'_>, locale: &str) -> Result<Said, Refusal> {
    if tools.which("locale-gen").is_some() {
        let empty: [&str; 0] = [];
        return tools.tell("locale-gen", &empty);
    }
    if tools.which("localedef").is_none() {
        return Err(Refusal::failed("Command \"locale-gen\" or \"localedef\" was not found on this system."));
    }
    let parts = Parts::of(locale);
    let name = parts.joined(parts.codeset);
    tools.tell("localedef", &["--force", "-i", parts.language, "-f", parts.codeset, "--quiet", "--", &name])
}

/// The file that says which language the system speaks.
pub(crate) fn config(os_family: Option<&str>) -> &'static str {
    if os_family == Some("Debian") { "/etc/default/locale" } else { "/etc/locale.conf" }
}

/// The language in such a file.
pub(crate) fn lang(text: &str) -> Option<&str> {
    let value = text.lines().find_map(|l| l.trim().strip_prefix("LANG="));
    value.map(|v| v.trim().trim_matches(['"', '\'']))
}

/// The file with a language set in it.
pub(crate) fn with_lang(text: &str, locale: &str) -> String {
    let wanted = format!("LANG={locale}");
    let is_lang = |l: &str| l.trim_start().starts_with("LANG=");
    let (edited, found) = lines::edit(text, |l| is_lang(l).then(|| wanted.clone()));
    if found { edited } else { lines::append(text, &wanted) }
}
