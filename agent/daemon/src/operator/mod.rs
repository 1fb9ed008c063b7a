//! Operator controls and what holds a node back: pause, pin, quarantine, maintenance windows, reboots.
//!
//! Law: every decision is a function of files, settings and a given time. When a file is damaged, the node changes
//! nothing: the operator meant the pause or the pin, and the status shows the damage (held by
//! `damage_does_not_end_a_pause`, `a_pin_is_saved_and_damage_is_reported`).

pub mod pause;
pub mod pin;
pub mod quarantine;
pub mod reboot;
pub(crate) mod time_text;
pub mod windows;

pub use time_text::{clock_text, current_user, span_text};
