//! Services and what the system itself is set to: `service`, `sysctl`, `mount`, `kmod`, `timezone`, `locale`, `network`, `system`.

mod kmod;
mod mount;
mod name;
mod network;
mod place;
mod service;
mod sysctl;

use super::{Args, Built, Thing};

/// The state that a function of these modules makes; nothing when there is no such function.
pub(super) fn build(state: &str, fun: &str, args: &Args<'_>) -> Option<Built> {
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
