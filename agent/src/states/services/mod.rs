//! Services and what the system itself is set to: `service`, `sysctl`, `mount`, `kmod`, `timezone`, `locale`, `network`, `system`.

mod kmod;
mod mount;
mod name;
mod network;
mod place;
mod service;
mod sysctl;

use super::{Args, Built, Failure, Thing};

/// The state that a function of these modules makes; nothing when there is no such function.
pub(super) fn build(state: &str, fun: &str, args: &Args<'_>) -> Option<Built> {
    let built = make(state, fun, args)?;
    Some(verify(state, args).and(built))
}

fn make(state: &str, fun: &str, args: &Args<'_>) -> Option<Built> {
    match state {
        "kmod" => kmod::build(fun, args),
        "locale" => place::locale(fun, args),
        "mount" => mount::build(fun, args),
        "network" => network::build(fun, args),
        "service" => service::build(fun, args),
        "sysctl" => sysctl::build(fun, args),
        "system" => name::build(fun, args),
        "timezone" => place::timezone(fun, args),
        _ => None,
    }
}

/// Refuses names that a program would take for an option, before anything is done.
fn verify(state: &str, args: &Args<'_>) -> Result<(), Failure> {
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
            Err(Failure::new(format!("`{name}` begins with a dash: it would be taken for an option")))
        }
        None => Ok(()),
    }
}

/// What a revert can put back.
pub(super) const THINGS: &[&dyn Thing] = &[
    &kmod::Module,
    &mount::MountThing,
    &mount::SwapThing,
    &name::HostName,
    &place::Locale,
    &service::ServiceThing,
    &sysctl::Parameter,
];

#[cfg(test)]
mod tests;
