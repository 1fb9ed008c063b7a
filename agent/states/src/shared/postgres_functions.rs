//! What the execution functions `postgres.*` share: arguments as Salt names them in, a client of the server out.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::{FunctionError, Value};

use crate::databases::psql::{PsqlClient, quote_ident};
use crate::databases::{postgres_objects, postgres_role};
use crate::exec_function::{ExecFunction, FunctionBody};
use crate::named_args::{self, NamedArgs};
use zagent_host::{Machine, Tools};

/// A signature, and how the server is reached.
macro_rules! postgres_signature {
    ($own:literal) => {
        concat!($own, " user? host? port? maintenance_db? password? runas?")
    };
}
pub(crate) use postgres_signature;

/// The signature of a function that makes or changes a role.
macro_rules! role_signature {
    ($name:literal) => {
        concat!(
            $name,
            " user? host? port? maintenance_db? password? createdb? createroles? encrypted? superuser? replication?",
            " rolepassword? login? connlimit? inherit? groups? runas? valid_until?"
        )
    };
}
pub(crate) use role_signature;

/// A function that only reads.
pub(crate) const fn query_fn(
    name: &'static str,
    signature: &'static str,
    body: FunctionBody,
) -> ExecFunction {
    ExecFunction { name, signature, needs_program: Some("psql"), changes_host: false, body }
}

/// A function that changes the host.
pub(crate) const fn change_fn(
    name: &'static str,
    signature: &'static str,
    body: FunctionBody,
) -> ExecFunction {
    ExecFunction { name, signature, needs_program: Some("psql"), changes_host: true, body }
}

pub(crate) type PostgresResult = Result<Value, FunctionError>;

/// Runs a body with a client of the server that the arguments name.
pub(crate) fn with_client(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    body: impl FnOnce(&PsqlClient, &Tools<'_>, &NamedArgs<'_>) -> PostgresResult,
) -> PostgresResult {
    named_args::with_bound_args(args, |named_args| {
        body(&PsqlClient::from_function_args(named_args), &Tools::new(machine), named_args)
    })
}

/// What a query lists, by name.
pub(crate) fn list_query(machine: &Machine, args: &FunctionArgs<Value>, query: &str) -> PostgresResult {
    with_client(machine, args, |psql, tools, _| Ok(psql.rows_by_name(tools, query)?.into()))
}

/// True when a query lists the name.
pub(crate) fn has_named(machine: &Machine, args: &FunctionArgs<Value>, query: &str) -> PostgresResult {
    with_client(machine, args, |psql, tools, named_args| {
        Ok(psql.rows_by_name(tools, query)?.contains(&named_args.require_text("name")?).into())
    })
}

/// Runs the statements that the arguments make; true when they succeeded.
pub(crate) fn run_sql(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    sql: fn(&NamedArgs<'_>, &str) -> Result<String, FunctionError>,
) -> PostgresResult {
    with_client(machine, args, |psql, tools, named_args| {
        psql.run(tools, &sql(named_args, &named_args.require_text("name")?)?)?;
        Ok(true.into())
    })
}

/// Makes a role; false when it is there.
pub(crate) fn create_role(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    key: &str,
    is_user: bool,
) -> PostgresResult {
    with_client(machine, args, |psql, tools, named_args| {
        let name = named_args.require_text(key)?;
        if postgres_role::list_roles(psql, tools, false)?.contains(&name) {
            return Ok(false.into());
        }
        psql.run(
            tools,
            &postgres_role::create_role_sql(named_args, &name, is_user, named_args.text("rolepassword"))?,
        )?;
        Ok(true.into())
    })
}

/// Changes a role; false when it is missing.
pub(crate) fn update_role(machine: &Machine, args: &FunctionArgs<Value>, key: &str) -> PostgresResult {
    with_client(machine, args, |psql, tools, named_args| {
        let name = named_args.require_text(key)?;
        let all = postgres_role::list_roles(psql, tools, false)?;
        let Some(now) = postgres_objects::find_by_name(&all, &name) else { return Ok(false.into()) };
        let password = named_args.text("rolepassword");
        let update = postgres_role::role_differences(named_args, &name, now, password.as_deref(), None);
        psql.run(tools, &postgres_role::alter_role_sql(named_args, &name, &update, password)?)?;
        Ok(true.into())
    })
}

/// Drops a role; false when it is missing.
pub(crate) fn drop_role(machine: &Machine, args: &FunctionArgs<Value>, key: &str) -> PostgresResult {
    with_client(machine, args, |psql, tools, named_args| {
        let name = named_args.require_text(key)?;
        if !postgres_role::list_roles(psql, tools, false)?.contains(&name) {
            return Ok(false.into());
        }
        psql.run(tools, &format!("DROP ROLE {};", quote_ident(&name)))?;
        Ok(true.into())
    })
}

/// Runs statements; true when they succeeded.
pub(crate) fn execute_statement(psql: &PsqlClient, tools: &Tools<'_>, sql: &str) -> PostgresResult {
    psql.run(tools, sql).map(|_| true.into())
}
