//! `postgres.db_*`, and queries: arguments as Salt names them in, what the server says out.

use zagent_config::{FunctionError, Value};

use crate::databases::postgres_objects;
use crate::exec_function::ExecFunction;
use crate::shared::postgres_functions::{
    change_fn, has_named, list_query, postgres_signature, query_fn, run_sql, with_client,
};

pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("postgres.version", postgres_signature!(""), |m, a| {
        with_client(m, a, |psql, tools, _| Ok(psql.run(tools, "SHOW server_version;")?.trim().into()))
    }),
    query_fn(
        "postgres.psql_query",
        "query user? host? port? maintenance_db? password? runas? write?",
        |m, a| {
            with_client(m, a, |psql, tools, named_args| {
                if named_args.is_enabled("write") {
                    return Err(FunctionError::failed(
                        "a query that writes is for `cmd.run`: functions that look change nothing",
                    ));
                }
                // A server that does not answer has no rows, as in Salt.
                Ok(psql
                    .rows(tools, &named_args.require_text("query")?)
                    .unwrap_or_default()
                    .into_iter()
                    .map(Value::from)
                    .collect())
            })
        },
    ),
    query_fn("postgres.db_list", postgres_signature!(""), |m, a| {
        list_query(m, a, postgres_objects::LIST_DATABASES)
    }),
    query_fn("postgres.db_exists", postgres_signature!("name"), |m, a| {
        has_named(m, a, postgres_objects::LIST_DATABASES)
    }),
    change_fn(
        "postgres.db_create",
        postgres_signature!("name tablespace? encoding? lc_collate? lc_ctype? owner? template?"),
        |m, a| run_sql(m, a, |named_args, name| Ok(postgres_objects::create_database(named_args, name))),
    ),
    change_fn("postgres.db_alter", postgres_signature!("name tablespace? owner? owner_recurse?"), |m, a| {
        with_client(m, a, |psql, tools, named_args| {
            postgres_objects::alter_database(psql, tools, named_args, &named_args.require_text("name")?)
                .map(|()| true.into())
        })
    }),
    change_fn("postgres.db_remove", postgres_signature!("name"), |m, a| {
        run_sql(m, a, |_, name| Ok(postgres_objects::drop_database(name)))
    }),
    change_fn("postgres.owner_to", postgres_signature!("dbname ownername"), |m, a| {
        with_client(m, a, |psql, tools, named_args| {
            let psql = psql.in_database(&named_args.require_text("dbname")?);
            postgres_objects::reassign_owner(&psql, tools, &named_args.require_text("ownername")?)
                .map(|()| true.into())
        })
    }),
];
