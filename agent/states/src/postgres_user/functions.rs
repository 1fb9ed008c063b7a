//! `postgres.user_*`: arguments as Salt names them in, what the server says out.

use zagent_config::Value;

use crate::databases::postgres_role;
use crate::exec_function::ExecFunction;
use crate::shared::postgres_functions::{
    change_fn, create_role, drop_role, postgres_signature, query_fn, role_signature, update_role, with_client,
};

pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("postgres.user_list", postgres_signature!("return_password?"), |m, a| {
        with_client(m, a, |psql, tools, named_args| {
            Ok(postgres_role::list_roles(psql, tools, named_args.is_enabled("return_password"))?.into())
        })
    }),
    query_fn("postgres.role_get", postgres_signature!("name return_password?"), |m, a| {
        with_client(m, a, |psql, tools, named_args| {
            let all = postgres_role::list_roles(psql, tools, named_args.is_enabled("return_password"))?;
            Ok(all.get(&named_args.require_text("name")?).cloned().unwrap_or(Value::Null))
        })
    }),
    query_fn("postgres.user_exists", postgres_signature!("name"), |m, a| {
        with_client(m, a, |psql, tools, named_args| {
            Ok(postgres_role::list_roles(psql, tools, false)?
                .contains(&named_args.require_text("name")?)
                .into())
        })
    }),
    change_fn("postgres.user_create", role_signature!("username"), |m, a| {
        create_role(m, a, "username", true)
    }),
    change_fn("postgres.user_update", role_signature!("username"), |m, a| update_role(m, a, "username")),
    change_fn("postgres.user_remove", postgres_signature!("username"), |m, a| drop_role(m, a, "username")),
];
