//! What comes from elsewhere or goes there: `git`, `http`, `event`, certificates, schedules, facts.

mod event;
mod git;
mod grains;
mod http;
mod kept;
mod logrotate;
mod schedule;
mod x509;

use super::{Args, Built, Thing};

/// The state that a function of these modules makes; nothing when there is no such function.
pub(super) fn build(state: &str, fun: &str, args: &Args<'_>) -> Option<Built> {
    match state {
        "event" => event::build(fun, args),
        "git" => git::build(fun, args),
        "grains" => grains::build(fun, args),
        "http" => http::build(fun, args),
        "logrotate" => logrotate::build(fun, args),
        "schedule" => schedule::build(fun, args),
        "x509" => x509::build(fun, args),
        _ => None,
    }
}

/// What a revert can put back.
pub(super) const THINGS: &[&dyn Thing] = &[&git::REPOSITORY, &git::CONFIG];
