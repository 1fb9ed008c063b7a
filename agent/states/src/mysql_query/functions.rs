//! `mysql.query` and `mysql.version`: arguments as Salt names them in, what the server says out.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::Value;

use crate::databases::mysql;
use crate::exec_function::ExecFunction;
use crate::shared::mysql_functions::{MysqlResult, change_fn, mysql_signature, query_fn, with_client};
use zagent_host::Machine;

pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("mysql.version", mysql_signature!(""), |m, a| {
        with_client(m, a, |sql, tools, _| Ok(sql.version(tools)?.into()))
    }),
    change_fn("mysql.query", mysql_signature!("database query"), query),
];

fn query(machine: &Machine, args: &FunctionArgs<Value>) -> MysqlResult {
    with_client(machine, args, |sql, tools, named_args| {
        let (db, query) = (named_args.require_text("database")?, named_args.require_text("query")?);
        Ok(mysql::run_query(sql, tools, &db, query.as_bytes())?.into())
    })
}
