//! `saltutil.*`: accepted and done with, since the agent reads pillars, facts and modules again for every run.

use zagent_config::Value;

use crate::exec_function::{ExecFunction, change_fn};

/// The execution functions of `saltutil`.
pub(crate) const TABLE: &[ExecFunction] = &[
    change_fn("saltutil.refresh_pillar", "**", |_, _| Ok(true.into())),
    change_fn("saltutil.pillar_refresh", "**", |_, _| Ok(true.into())),
    change_fn("saltutil.refresh_grains", "**", |_, _| Ok(true.into())),
    change_fn("saltutil.refresh_modules", "**", |_, _| Ok(true.into())),
    change_fn("saltutil.clear_cache", "**", |_, _| Ok(true.into())),
    change_fn("saltutil.sync_all", "**", |_, _| Ok(Value::empty_map())),
    change_fn("saltutil.sync_modules", "**", |_, _| Ok(Value::empty_list())),
    change_fn("saltutil.sync_states", "**", |_, _| Ok(Value::empty_list())),
    change_fn("saltutil.sync_grains", "**", |_, _| Ok(Value::empty_list())),
];
