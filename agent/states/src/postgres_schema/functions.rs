//! `postgres.schema_*`: arguments as Salt names them in, what the server says out.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::{Map, Value};

use crate::databases::postgres_objects;
use crate::databases::psql::{PsqlClient, quote_ident};
use crate::exec_function::ExecFunction;
use crate::named_args;
use crate::shared::postgres_functions::{PostgresResult, change_fn, execute_statement, query_fn};
use zagent_host::{Machine, Tools};

const SCHEMA_LIST_SIGNATURE: &str = "dbname db_user? db_password? db_host? db_port? user?";
const SCHEMA_SIGNATURE: &str = "dbname name db_user? db_password? db_host? db_port? user?";
const SCHEMA_CREATE_SIGNATURE: &str = "dbname name owner? user? db_user? db_password? db_host? db_port?";

pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("postgres.schema_list", SCHEMA_LIST_SIGNATURE, |m, a| {
        with_schema_args(m, a, |psql, tools, _| list_schemas(psql, tools, Value::from))
    }),
    query_fn("postgres.schema_get", SCHEMA_SIGNATURE, |m, a| {
        with_schema_args(m, a, |psql, tools, name| {
            list_schemas(psql, tools, |all| all.get(name).cloned().unwrap_or(Value::Null))
        })
    }),
    query_fn("postgres.schema_exists", SCHEMA_SIGNATURE, |m, a| {
        with_schema_args(m, a, |psql, tools, name| list_schemas(psql, tools, |all| all.contains(name).into()))
    }),
    change_fn("postgres.schema_create", SCHEMA_CREATE_SIGNATURE, |m, a| {
        named_args::with_bound_args(a, |named_args| {
            with_schema_args(m, a, |psql, tools, name| {
                execute_statement(psql, tools, &postgres_objects::create_schema(named_args, name))
            })
        })
    }),
    change_fn("postgres.schema_remove", SCHEMA_SIGNATURE, |m, a| {
        with_schema_args(m, a, |psql, tools, name| {
            execute_statement(psql, tools, &format!("DROP SCHEMA {};", quote_ident(name)))
        })
    }),
];

/// Works in one database, with the names of arguments that functions about schemas have.
fn with_schema_args(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    body: impl FnOnce(&PsqlClient, &Tools<'_>, &str) -> PostgresResult,
) -> PostgresResult {
    named_args::with_bound_args(args, |named_args| {
        let psql = PsqlClient::from_state_args(named_args).in_database(&named_args.require_text("dbname")?);
        body(&psql, &Tools::new(machine), &named_args.text("name").unwrap_or_default())
    })
}

fn list_schemas(psql: &PsqlClient, tools: &Tools<'_>, pick: impl FnOnce(Map) -> Value) -> PostgresResult {
    psql.rows_by_name(tools, postgres_objects::LIST_SCHEMAS).map(pick)
}
