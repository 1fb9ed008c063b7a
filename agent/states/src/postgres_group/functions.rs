//! `postgres.group_*`: arguments as Salt names them in, what the server says out.

use crate::exec_function::ExecFunction;
use crate::shared::postgres_functions::{
    change_fn, create_role, drop_role, postgres_signature, role_signature, update_role,
};

pub(crate) const TABLE: &[ExecFunction] = &[
    change_fn("postgres.group_create", role_signature!("groupname"), |m, a| {
        create_role(m, a, "groupname", false)
    }),
    change_fn("postgres.group_update", role_signature!("groupname"), |m, a| update_role(m, a, "groupname")),
    change_fn("postgres.group_remove", postgres_signature!("groupname"), |m, a| drop_role(m, a, "groupname")),
];
