//! Options that should be and options that are: those that only a remount would bring.

use zagent_config::{Map, Value};

use crate::mount::mounts::MountedFs;
use crate::{ChunkArgs, StateError};

/// Options that a mounted file system does not show.
const INVISIBLE: &[&str] = &[
    "_netdev",
    "actimeo",
    "auto",
    "backup-volfile-servers",
    "bg",
    "bind",
    "comment",
    "defaults",
    "delay_connect",
    "direct-io-mode",
    "group",
    "intr",
    "loop",
    "noauto",
    "nobootwait",
    "nofail",
    "nointr",
    "nonempty",
    "nouser",
    "owner",
    "password",
    "port",
    "rbind",
    "reconnect",
    "remount",
    "retry",
    "soft",
    "transform_symlinks",
    "user",
    "users",
];
/// Options with a value that it does not show either.
const INVISIBLE_KEYS: &[&str] =
    &["actimeo", "comment", "credentials", "direct-io-mode", "password", "port", "retry", "secretfile"];

/// What else is known of options.
pub(crate) struct MountOptionRules {
    invisible: Vec<String>,
    keys: Vec<String>,
    ignored: Map,
    translated: Map,
}

impl MountOptionRules {
    pub(crate) fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let mut invisible = args.texts("extra_mount_invisible_options")?.unwrap_or_default();
        for hidden in args.texts("hidden_opts")?.unwrap_or_default() {
            invisible.extend(hidden.split(',').map(str::to_owned));
        }
        let mut translated = Map::from_iter([("tcp", "proto=tcp"), ("udp", "proto=udp")]);
        for (key, value) in args.map("extra_mount_translate_options")?.unwrap_or_default().iter() {
            translated.insert(key.clone(), value.clone());
        }
        let mut ignored = Map::from_iter([("ramfs", [Value::from("size")].into_iter().collect::<Value>())]);
        for (key, value) in args.map("extra_mount_ignore_fs_keys")?.unwrap_or_default().iter() {
            ignored.insert(key.clone(), value.clone());
        }
        let keys = args.texts("extra_mount_invisible_keys")?.unwrap_or_default();
        Ok(Self { invisible, keys, ignored, translated })
    }

    /// The wanted options that the mounted file system does not have.
    pub(crate) fn missing_options(
        &self,
        wanted: &[String],
        fstype: &str,
        now: &MountedFs,
        ids: impl Fn(&str, &str) -> Option<u32>,
    ) -> Vec<String> {
        let has: Vec<String> = now.opts.iter().chain(&now.superopts).map(|o| normalize_size(o)).collect();
        let ignored = self.ignored.get(fstype).and_then(Value::as_list);
        let mut missing = Vec::new();
        for option in wanted {
            let option = self.translated.get(option.as_str()).and_then(Value::as_str).unwrap_or(option);
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            let is_hidden = INVISIBLE.contains(&option)
                || self.invisible.iter().any(|o| o == option)
                || option.starts_with("x-")
                || INVISIBLE_KEYS.contains(&key)
                || self.keys.iter().any(|k| k == key)
                || ignored.is_some_and(|list| list.iter().any(|i| i.as_str() == Some(key)));
            let option = match key {
                "user" if fstype == "cifs" => format!("username={value}"),
                "uid" | "gid" => {
                    format!("{key}={}", ids(key, value).map_or(value.to_owned(), |id| id.to_string()))
                }
                _ => normalize_size(option),
            };
            if !is_hidden && !has.contains(&option) {
                missing.push(option);
            }
        }
        missing.sort_unstable();
        missing
    }
}

/// `size=1g` is `size=1048576k`, as the kernel shows it.
fn normalize_size(option: &str) -> String {
    let kilobytes = |size: &str| {
        let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let factor = match size.get(digits.len()..)? {
            "k" | "K" => 1,
            "m" | "M" => 1 << 10,
            "g" | "G" => 1 << 20,
            _ => return None,
        };
        digits.parse::<u64>().ok()?.checked_mul(factor)
    };
    let size = option.strip_prefix("size=").and_then(kilobytes);
    size.map_or_else(|| option.to_owned(), |k| format!("size={k}k"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chunk;

    fn missing(wanted: &str, fstype: &str, now: &str) -> String {
        let rules = MountOptionRules::read(&ChunkArgs::new(&chunk("mount.mounted", "/m", "{}"))).unwrap();
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let now = MountedFs {
            point: "/m".into(),
            device: "d".into(),
            fstype: fstype.into(),
            opts: list(now),
            superopts: vec!["rw".into(), "size=1024k".into()],
        };
        rules.missing_options(&list(wanted), fstype, &now, |_, name| (name == "www").then_some(33)).join(" ")
    }

    #[test]
    fn what_a_remount_would_bring() {
        assert_eq!(missing("defaults,noatime,nofail", "ext4", "rw,relatime"), "noatime");
        assert_eq!(missing("noexec,size=1m", "tmpfs", "rw,noexec"), "");
        assert_eq!(missing("size=2m", "tmpfs", "rw"), "size=2048k");
        assert_eq!(missing("size=2m", "ramfs", "rw"), "");
        assert_eq!(missing("uid=www,tcp", "nfs", "uid=33,proto=tcp"), "");
        assert_eq!(missing("user=me,password=x", "cifs", "username=me"), "");
        assert_eq!(missing("x-systemd.automount,noauto", "nfs", "rw"), "");
    }
}
