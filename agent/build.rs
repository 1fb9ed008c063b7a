//! Lays the program out for a daemon that waits: what it calls from its start on stands side by side.
//!
//! The kernel maps code in pieces of at least 64 KiB. With the functions of a waiting daemon strewn over the whole program, most
//! of the program would count as its memory. `.ci/layout` writes the list.

#![expect(
    clippy::disallowed_methods,
    reason = "cargo tells a build script about the target in the environment"
)]

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=layout.ld");
    let is = |name: &str, wanted: &str| var(name).is_ok_and(|found| found == wanted);
    let tried = [("ARCH", "x86_64"), ("OS", "linux"), ("ENV", "gnu")]
        .iter()
        .all(|(what, wanted)| is(&format!("CARGO_CFG_TARGET_{what}"), wanted));
    // lld and GNU ld can; mold has no linker scripts, and gold's have no `INSERT`.
    let flags = var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let cannot = ["mold", "gold"].iter().any(|linker| flags.contains(linker));
    if is("PROFILE", "release") && tried && !cannot {
        let here = var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo::rustc-link-arg-bin=zagent=-T{here}/layout.ld");
    }
}
