//! Services and what the system itself is set to: `service`, `sysctl`, `mount`, `kmod`, `timezone`, `locale`, `network`, `system`.

use crate::{BuildResult, ChunkArgs, StateError, Undoable};

/// The state that a function of these modules makes; nothing when there is no such function.
pub fn build(state: &str, fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let built = build_unchecked(state, fun, args)?;
    Some(reject_option_names(state, args).and(built))
}

fn build_unchecked(state: &str, fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    match state {
        "kmod" => crate::kmod::build(fun, args),
        "locale" => crate::timezone::build_locale(fun, args),
        "mount" => crate::mount::build(fun, args),
        "network" => crate::network::build(fun, args),
        "service" => crate::service::build(fun, args),
        "sysctl" => crate::sysctl::build(fun, args),
        "system" => crate::system::build(fun, args),
        "timezone" => crate::timezone::build_timezone(fun, args),
        _ => None,
    }
}

/// Refuses names that a program would take for an option, before anything is done.
pub(crate) fn reject_option_names(state: &str, args: &ChunkArgs<'_>) -> Result<(), StateError> {
    let keys: &[&str] = match state {
        "kmod" => &["mods"],
        "mount" => &["device"],
        "network" => &["hostname"],
        "service" => &[],
        "system" if args.chunk.fun.starts_with("computer_desc") => return Ok(()),
        "system" => &[],
        _ => return Ok(()),
    };
    let mut names = vec![args.name()];
    for key in keys {
        names.extend(args.texts(key)?.unwrap_or_default());
    }
    match names.iter().find(|name| name.starts_with('-')) {
        Some(name) => {
            Err(StateError::new(format!("`{name}` begins with a dash: it would be taken for an option")))
        }
        None => Ok(()),
    }
}

/// What a revert can put back.
pub const UNDOABLES: &[&dyn Undoable] = &[
    &crate::kmod::KmodUndo,
    &crate::mount::MountUndo,
    &crate::mount::SwapUndo,
    &crate::system::HostnameUndo,
    &crate::timezone::LocaleUndo,
    &crate::service::ServiceUndo,
    &crate::sysctl::SysctlUndo,
];
