//! What an operator asks of a node, and what holds it back: pause, pin, quarantine, maintenance windows, reboots.
//!
//! Law: every decision is a function of files, settings and a time that is handed in. Where a file is damaged the node does not
//! move: whoever asked for a pause or a pin meant it, and a node that stands still can be told so.

pub mod pause;
pub mod pin;
pub mod quarantine;
pub mod reboot;
pub mod time_text;
pub mod windows;

pub use time_text::{clock_text, current_user, span_text};
