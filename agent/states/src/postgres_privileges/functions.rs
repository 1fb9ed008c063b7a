//! `postgres.privileges_*`: arguments as Salt names them in, what the server says out.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::Value;

use crate::databases::postgres_privileges::PrivilegeRequest;
use crate::exec_function::ExecFunction;
use crate::shared::postgres_functions::{
    PostgresResult, change_fn, execute_statement, postgres_signature, query_fn, with_client,
};
use zagent_host::Machine;

const PRIVILEGES_SIGNATURE: &str =
    postgres_signature!("name object_name object_type privileges? grant_option? prepend?");

pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("postgres.has_privileges", PRIVILEGES_SIGNATURE, |m, a| {
        with_client(m, a, |psql, tools, named_args| {
            Ok(PrivilegeRequest::new(named_args)?.has_privileges(psql, tools, true)?.into())
        })
    }),
    change_fn("postgres.privileges_grant", PRIVILEGES_SIGNATURE, |m, a| change_privileges(m, a, true)),
    change_fn("postgres.privileges_revoke", PRIVILEGES_SIGNATURE, |m, a| change_privileges(m, a, false)),
];

fn change_privileges(machine: &Machine, args: &FunctionArgs<Value>, grants: bool) -> PostgresResult {
    with_client(machine, args, |psql, tools, named_args| {
        let wish = PrivilegeRequest::new(named_args)?;
        if wish.has_privileges(psql, tools, grants)? == grants {
            return Ok(false.into());
        }
        execute_statement(psql, tools, &wish.change_sql(grants, &wish.current_privileges(psql, tools)?)?)
    })
}
