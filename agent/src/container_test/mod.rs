//! States repository in, three runs of it in a container out: a dry run, a run, and a second run.
//!
//! Law: nothing of the repository runs on this host. The container gets the repository and the program read-only, and
//! works on a copy of the image (held by `zagent_test_converges_a_repository_in_a_container`).

mod compare;
mod image;
mod sandbox;

pub use compare::{Comparison, SlsRow};
pub use image::{ImageError, TestImage, default_image_dir};
pub use sandbox::{Engine, Sandbox, SandboxError, TestOptions, TestRuns};
