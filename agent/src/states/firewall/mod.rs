//! Rules of a firewall: `iptables`, `nftables`, `firewalld`.

mod firewalld;
mod iptables;
mod nftables;

use super::{BuildResult, ChunkArgs, Undoable};

/// The state that a function of these modules makes; nothing when there is no such function.
pub(super) fn build(state: &str, fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    match state {
        "firewalld" => firewalld::build(fun, args),
        "iptables" => iptables::build(fun, args),
        "nftables" => nftables::build(fun, args),
        _ => None,
    }
}

/// What a revert can put back.
pub(super) const UNDOABLES: &[&dyn Undoable] =
    &[&iptables::IPTABLES_CHAIN_UNDO, &nftables::NFT_TABLE_UNDO, &firewalld::FIREWALLD_UNDO];
