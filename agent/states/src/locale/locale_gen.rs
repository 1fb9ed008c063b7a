//! Locales: which the system has, which it speaks, and how one is made.

use zagent_config::FunctionError;

use zagent_host::fs::{FileSystem, FsError};
use zagent_host::text_file;
use zagent_host::{CommandOutput, Tools};

const LOCALE_GEN: &str = "/etc/locale.gen";
const SUPPORTED_LOCALES: &str = "/usr/share/i18n/SUPPORTED";

/// A locale cut into language, codeset, modifier and charmap, as in `de_DE.UTF-8@euro UTF-8`.
struct LocaleParts<'l> {
    language: &'l str,
    codeset: &'l str,
    modifier: &'l str,
    charmap: &'l str,
}

impl<'l> LocaleParts<'l> {
    fn parse(locale: &'l str) -> Self {
        let cut = |text: &'l str, at: char| text.split_once(at).unwrap_or((text, ""));
        let (rest, charmap) = cut(locale.trim(), ' ');
        let (rest, modifier) = cut(rest, '@');
        let (language, codeset) = cut(rest, '.');
        Self { language, codeset, modifier, charmap }
    }

    fn with_codeset(&self, codeset: &str) -> String {
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
pub(crate) fn normalize_locale(locale: &str) -> String {
    let parts = LocaleParts::parse(locale);
    parts.with_codeset(&parts.codeset.to_lowercase().replace('-', ""))
}

/// All locales that there are.
pub(crate) fn list_locales(tools: &Tools<'_>) -> Result<Vec<String>, FunctionError> {
    let output = tools.run_query("locale", &["-a"])?;
    if !output.is_success() {
        return Err(FunctionError::failed(format!("`locale -a` failed: {}", output.message())));
    }
    Ok(output.stdout.lines().map(str::to_owned).collect())
}

/// True when there is such a locale.
pub(crate) fn is_available(tools: &Tools<'_>, locale: &str) -> Result<bool, FunctionError> {
    let wanted = normalize_locale(locale);
    Ok(list_locales(tools)?.iter().any(|l| normalize_locale(l) == wanted))
}

/// The line of `/etc/locale.gen` for a locale, and whether the list of supported ones has it.
fn locale_gen_line(fs: &dyn FileSystem, locale: &str) -> Result<(String, bool), FsError> {
    let parts = LocaleParts::parse(locale);
    let charmap = if parts.charmap.is_empty() { parts.codeset } else { parts.charmap };
    let line = format!("{} {charmap}", parts.with_codeset(parts.codeset));
    let line = line.trim().to_owned();
    let list = text_file::read_text(fs, SUPPORTED_LOCALES)?;
    let known = list.is_none_or(|text| text.lines().any(|l| l.trim() == line));
    Ok((line, known))
}

/// Notes a locale in the list of those that are made; nothing when nobody supports it. Hosts without a list need no note.
pub(crate) fn enable_locale(fs: &dyn FileSystem, locale: &str) -> Result<Option<()>, FsError> {
    let (line, known) = locale_gen_line(fs, locale)?;
    if !known {
        return Ok(None);
    }
    if let Some(text) = text_file::read_text(fs, LOCALE_GEN)? {
        let bare = |l: &str| l.trim_start().trim_start_matches('#').trim().to_owned();
        if !text.lines().any(|l| l.trim() == line) {
            let (edited, found) = text_file::edit_lines(&text, |l| (bare(l) == line).then(|| line.clone()));
            let text = if found { edited } else { text_file::append_line(&text, &line) };
            text_file::write_text(fs, LOCALE_GEN, &text)?;
        }
    }
    Ok(Some(()))
}

/// Makes what is noted: all of it by `locale-gen`, or this one by `localedef`.
pub(crate) fn generate_locale(tools: &Tools<'_>, locale: &str) -> Result<CommandOutput, FunctionError> {
    if tools.which("locale-gen").is_some() {
        let empty: [&str; 0] = [];
        return tools.run_change("locale-gen", &empty);
    }
    if tools.which("localedef").is_none() {
        return Err(FunctionError::failed(
            "Command \"locale-gen\" or \"localedef\" was not found on this system.",
        ));
    }
    let parts = LocaleParts::parse(locale);
    let name = parts.with_codeset(parts.codeset);
    tools.run_change(
        "localedef",
        &["--force", "-i", parts.language, "-f", parts.codeset, "--quiet", "--", &name],
    )
}

/// The file that says which language the system speaks.
pub(crate) fn lang_config_path(os_family: Option<&str>) -> &'static str {
    if os_family == Some("Debian") { "/etc/default/locale" } else { "/etc/locale.conf" }
}

/// The language in such a file.
pub(crate) fn parse_lang(text: &str) -> Option<&str> {
    let value = text.lines().find_map(|l| l.trim().strip_prefix("LANG="));
    value.map(|v| v.trim().trim_matches(['"', '\'']))
}

/// The file with a language set in it.
pub(crate) fn set_lang(text: &str, locale: &str) -> String {
    let wanted = format!("LANG={locale}");
    let is_lang = |l: &str| l.trim_start().starts_with("LANG=");
    let (edited, found) = text_file::edit_lines(text, |l| is_lang(l).then(|| wanted.clone()));
    if found { edited } else { text_file::append_line(text, &wanted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales_by_name() {
        assert_eq!(normalize_locale("de_DE.UTF-8"), "de_DE.utf8");
        assert_eq!(normalize_locale("de_DE@euro ISO-8859-15"), "de_DE@euro");
        assert_eq!(parse_lang("# x\nLANG=\"C.UTF-8\"\n"), Some("C.UTF-8"));
        assert_eq!(set_lang("LC_ALL=C\nLANG=C\n", "de_DE.UTF-8"), "LC_ALL=C\nLANG=de_DE.UTF-8\n");
        assert_eq!(set_lang("", "C"), "LANG=C\n");
    }
}
