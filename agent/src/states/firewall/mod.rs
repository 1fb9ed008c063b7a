//! Rules of a firewall: `iptables`, `nftables`, `firewalld`.

mod firewalld;
mod iptables;
mod nftables;

use super::{Args, Built, Thing};

/// The state that a function of these modules makes; nothing when there is no such function.
pub(super) fn build(state: &str, fun: &str, args: &Args<'_>) -> Option<Built> {
    match state {
        "firewalld" => firewalld::build(fun, args),
        "iptables" => iptables::build(fun, args),
        "nftables" => nftables::build(fun, args),
        _ => None,
    }
}

/// What a revert can put back.
pub(super) const THINGS: &[&dyn Thing] = &[&iptables::CHAIN, &nftables::TABLE, &firewalld::ZONE];
