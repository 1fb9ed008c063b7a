//! What the execution functions `mysql.*` share: arguments as Salt names them in, a client of the server out.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::{FunctionError, Value};

use crate::databases::mysql::MysqlClient;
use crate::exec_function::{ExecFunction, FunctionBody};
use crate::named_args::{self, NamedArgs};
use zagent_host::{Machine, Tools};

/// A signature, and how the server is reached.
macro_rules! mysql_signature {
    ($own:literal) => {
        concat!(
            $own,
            " * connection_host? connection_user? connection_pass? connection_port? connection_unix_socket?",
            " connection_default_file? connection_charset? **"
        )
    };
}
pub(crate) use mysql_signature;

/// A function that only reads.
pub(crate) const fn query_fn(
    name: &'static str,
    signature: &'static str,
    body: FunctionBody,
) -> ExecFunction {
    ExecFunction { name, signature, needs_program: Some("mysql"), changes_host: false, body }
}

/// A function that changes the host.
pub(crate) const fn change_fn(
    name: &'static str,
    signature: &'static str,
    body: FunctionBody,
) -> ExecFunction {
    ExecFunction { name, signature, needs_program: Some("mysql"), changes_host: true, body }
}

pub(crate) type MysqlResult = Result<Value, FunctionError>;

/// Runs a body with a client of the server that the arguments name.
pub(crate) fn with_client(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    body: impl FnOnce(&MysqlClient, &Tools<'_>, &NamedArgs<'_>) -> MysqlResult,
) -> MysqlResult {
    named_args::with_bound_args(args, |named_args| {
        body(&MysqlClient::new(named_args), &Tools::new(machine), named_args)
    })
}

/// The same with the account that the arguments name.
pub(crate) fn with_account(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    body: impl FnOnce(&MysqlClient, &Tools<'_>, &NamedArgs<'_>, (&str, &str)) -> MysqlResult,
) -> MysqlResult {
    with_client(machine, args, |sql, tools, named_args| {
        let host = named_args.text("host").unwrap_or_else(|| "localhost".to_owned());
        body(sql, tools, named_args, (&named_args.text("user").unwrap_or_default(), &host))
    })
}

/// Runs statements; true when they succeeded.
pub(crate) fn execute_statement(sql: &MysqlClient, tools: &Tools<'_>, statement: &str) -> MysqlResult {
    sql.execute(tools, statement).map(|()| true.into())
}
