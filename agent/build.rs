//! Lays the program out for a daemon that waits: what it calls between two polls stands side by side.
//!
//! The kernel maps code in pieces of at least 64 KiB. With the functions of a waiting daemon strewn over the whole program, most
//! of the program would count as its memory. `.ci/layout` writes the list.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=layout.ld");
    let is = |name: &str, wanted: &str| var(name).is_ok_and(|found| found == wanted);
    let tried = is("CARGO_CFG_TARGET_ARCH", "x86_64") && is("CARGO_CFG_TARGET_ENV", "gnu");
    // mold has no linker scripts.
    let other = var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("mold"));
    if is("PROFILE", "release") && tried && !other {
        let here = var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo::rustc-link-arg-bin=zagent=-T{here}/layout.ld");
    }
}
