//! Rules of a firewall: `iptables`, `nftables`, `firewalld`.

use crate::{BuildResult, ChunkArgs, Undoable};

/// The state that a function of these modules makes; nothing when there is no such function.
pub fn build(state: &str, fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    match state {
        "firewalld" => crate::firewalld::build(fun, args),
        "iptables" => crate::iptables::build(fun, args),
        "nftables" => crate::nftables::build(fun, args),
        _ => None,
    }
}

/// What a revert can put back.
pub const UNDOABLES: &[&dyn Undoable] = &[
    &crate::iptables::IPTABLES_CHAIN_UNDO,
    &crate::nftables::NFT_TABLE_UNDO,
    &crate::firewalld::FIREWALLD_UNDO,
];
