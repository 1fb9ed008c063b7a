//! A secret in, the secret after a person edited it out.
//!
//! Law: the plaintext is in a file in memory that only its owner can read, and it is gone when this returns (held by
//! `the_editor_sees_a_private_file_in_memory_that_is_gone_afterwards`).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use zagent_config::atomic_file::AtomicFile;
use zagent_config::child_process;
use zagent_config::mask::Secret;

/// The numbers of `tmpfs` and `ramfs`, see statfs(2).
const MEMORY_FILE_SYSTEMS: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// Opens an editor on a text; the first of `dirs` that is in memory is used.
///
/// # Errors
/// Fails without a directory in memory, or when the editor fails.
pub(super) fn edit(text: &Secret, editor: &str, name: &str, dirs: &[PathBuf]) -> Result<Secret, String> {
    let base = dirs.iter().find(|dir| is_in_memory(dir)).ok_or_else(|| {
        let tried: Vec<String> = dirs.iter().map(|dir| format!("`{}`", dir.display())).collect();
        format!("no directory in memory for the plaintext: {} are on a disk or missing", tried.join(", "))
    })?;
    // While the editor runs, a signal must not end this process before the file is removed.
    let ignored = Arc::new(AtomicBool::new(false));
    let signals = [SIGINT, SIGQUIT, SIGTERM, SIGHUP].into_iter();
    let held: Vec<_> =
        signals.filter_map(|signal| signal_hook::flag::register(signal, Arc::clone(&ignored)).ok()).collect();
    let edited = edit_in(text, editor, name, base);
    for id in held {
        signal_hook::low_level::unregister(id);
    }
    edited
}

fn edit_in(text: &Secret, editor: &str, name: &str, base: &Path) -> Result<Secret, String> {
    let failed =
        |error: std::io::Error| format!("cannot write the plaintext below `{}`: {error}", base.display());
    // The directory is private, and is removed with everything that the editor leaves in it.
    let private = fs::Permissions::from_mode(0o700);
    let dir = tempfile::Builder::new().prefix("zagent-edit-").permissions(private).tempdir_in(base);
    let dir = dir.map_err(failed)?;
    let path = dir.path().join(name);
    AtomicFile::cached(0o600).write(&path, text.expose().as_bytes()).map_err(failed)?;
    let mut command = child_process::interactive_command("/bin/sh");
    command.args(["-c", &format!("{editor} \"$1\""), "sh"]).arg(&path);
    let ended = command.status().map_err(|error| format!("cannot start the editor `{editor}`: {error}"))?;
    if !ended.success() {
        return Err(format!("the editor `{editor}` failed ({ended}); nothing was changed"));
    }
    let text =
        fs::read_to_string(&path).map_err(|error| format!("cannot read what the editor wrote: {error}"))?;
    Ok(text.into())
}

fn is_in_memory(dir: &Path) -> bool {
    rustix::fs::statfs(dir).is_ok_and(|found| {
        let number = u64::try_from(found.f_type).unwrap_or_default();
        MEMORY_FILE_SYSTEMS.contains(&number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_editor_sees_a_private_file_in_memory_that_is_gone_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let (seen, script) = (dir.path().join("seen"), dir.path().join("editor"));
        let text = format!(
            "stat -f -c %T \"$1\" > {0}\nstat -c '%a %n' \"$1\" \"$(dirname \"$1\")\" >> {0}\necho new >> \"$1\"\n",
            seen.display()
        );
        fs::write(&script, text).unwrap();
        let editor = format!("sh {}", script.display());
        let memory = [PathBuf::from("/dev/shm")];
        let edited = edit(&"old\n".into(), &editor, "secret.sls", &memory).unwrap();
        assert_eq!(edited.expose(), "old\nnew\n");
        let seen = fs::read_to_string(seen).unwrap();
        let mut lines = seen.lines();
        assert_eq!(lines.next(), Some("tmpfs"));
        let (mode, path) = lines.next().unwrap().split_once(' ').unwrap();
        assert_eq!(mode, "600");
        assert!(!Path::new(path).exists(), "{path}");
        assert!(lines.next().unwrap().starts_with("700 "));
        assert!(edit(&"x".into(), "false", "x", &memory).unwrap_err().contains("nothing was changed"));
        let disk = edit(&"x".into(), "true", "x", &["/proc".into()]).unwrap_err();
        assert!(disk.contains("no directory in memory"), "{disk}");
    }
}
