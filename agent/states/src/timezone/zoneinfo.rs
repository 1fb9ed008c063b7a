//! The time zone: which it is, and what the clock of the hardware keeps.

use std::path::Path;

use zagent_host::fs::{FileMeta, FileSystem, FsError};

use zagent_host::text_file;

pub(crate) const LOCALTIME_LINK: &str = "/etc/localtime";
/// Debian's and Gentoo's own note of the zone.
pub(crate) const TIMEZONE_FILE: &str = "/etc/timezone";
const ZONEINFO_DIR: &str = "/usr/share/zoneinfo";

/// The zone's name: where `/etc/localtime` points, else what `/etc/timezone` says.
pub(crate) fn current_zone(fs: &dyn FileSystem) -> Result<Option<String>, FsError> {
    let link = Path::new(LOCALTIME_LINK);
    if fs.lstat(link)?.is_some_and(|s| s.kind == zagent_host::fs::FileKind::Link) {
        let to = fs.read_link(link)?;
        if let Some((_, zone)) = to.to_string_lossy().split_once("zoneinfo/") {
            return Ok(Some(zone.to_owned()));
        }
    }
    Ok(text_file::read_text(fs, TIMEZONE_FILE)?.map(|text| text.trim().to_owned()))
}

/// The file of a zone; nothing when there is no such zone.
pub(crate) fn zone_file(fs: &dyn FileSystem, zone: &str) -> Result<Option<String>, FsError> {
    let path = format!("{ZONEINFO_DIR}/{zone}");
    let is_name = !zone.is_empty() && !zone.starts_with('/') && !zone.split('/').any(|part| part == "..");
    Ok(if is_name && fs.stat(Path::new(&path))?.is_some() { Some(path) } else { None })
}

/// Sets the zone; `notes` says whether the system keeps a note of it.
pub(crate) fn set_zone(fs: &dyn FileSystem, file: &str, zone: &str, notes: bool) -> Result<(), FsError> {
    fs.symlink(Path::new(LOCALTIME_LINK), Path::new(file), FileMeta::default())?;
    if notes { text_file::write_text(fs, TIMEZONE_FILE, &format!("{zone}\n")) } else { Ok(()) }
}

/// True when the clock of the hardware keeps local time, as `/etc/adjtime` tells.
pub(crate) fn is_hwclock_local(fs: &dyn FileSystem) -> Result<bool, FsError> {
    let text = text_file::read_text(fs, "/etc/adjtime")?.unwrap_or_default();
    Ok(text.lines().nth(2).is_some_and(|l| l.trim() == "LOCAL"))
}
