//! Signatures made by the real `git`, `ssh-keygen` and `gpg`, against what zagent accepts.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its keys has failed")]

mod commits;
mod manifests;
mod openpgp;
mod signers;
mod site;
