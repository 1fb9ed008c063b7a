//! `locale.*`: which locales there are, and which one the system speaks.

use zagent_config::FunctionError;

use crate::exec_function::{ExecFunction, change_fn, fs_error, is_debian, query_fn, string_list, text_arg};
use crate::locale::locale_gen as locale;
use zagent_host::text_file;
use zagent_host::{Machine, Tools};

/// The execution functions of `locale`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("locale.list_avail", "", |m, _| Ok(string_list(locale::list_locales(&Tools::new(m))?))),
    query_fn("locale.avail", "locale", |m, a| {
        Ok(locale::is_available(&Tools::new(m), text_arg(a, "locale")?)?.into())
    }),
    change_fn("locale.gen_locale", "locale **", |m, a| {
        let (disk, name) = (m.disk(None), text_arg(a, "locale")?);
        if locale::enable_locale(&disk, name).map_err(fs_error)?.is_none() {
            return Ok(false.into());
        }
        Ok(locale::generate_locale(&Tools::new(m), name)?.is_success().into())
    }),
    change_fn("locale.set_locale", "locale", |m, a| {
        let (disk, config) = (m.disk(None), locale::lang_config_path(is_debian(m).then_some("Debian")));
        let now = text_file::read_text(&disk, config).map_err(fs_error)?.unwrap_or_default();
        text_file::write_text(&disk, config, &locale::set_lang(&now, text_arg(a, "locale")?))
            .map_err(fs_error)?;
        Ok(true.into())
    }),
    query_fn("locale.get_locale", "", |m, _| Ok(system_locale(m)?.into())),
];

fn system_locale(machine: &Machine) -> Result<String, FunctionError> {
    for path in ["/etc/locale.conf", "/etc/default/locale", "/etc/sysconfig/i18n"] {
        let file = machine.read(path)?.unwrap_or_default();
        if let Some(lang) = file.lines().find_map(|l| l.trim().strip_prefix("LANG=")) {
            return Ok(lang.trim_matches(['"', '\'']).to_owned());
        }
    }
    Ok(String::new())
}
