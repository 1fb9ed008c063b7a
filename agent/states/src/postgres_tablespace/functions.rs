//! `postgres.tablespace_*`: arguments as Salt names them in, what the server says out.

use crate::databases::postgres_objects;
use crate::databases::psql::quote_ident;
use crate::exec_function::ExecFunction;
use crate::shared::postgres_functions::{
    change_fn, has_named, list_query, postgres_signature, query_fn, run_sql,
};

pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("postgres.tablespace_list", postgres_signature!(""), |m, a| {
        list_query(m, a, postgres_objects::LIST_TABLESPACES)
    }),
    query_fn("postgres.tablespace_exists", postgres_signature!("name"), |m, a| {
        has_named(m, a, postgres_objects::LIST_TABLESPACES)
    }),
    change_fn("postgres.tablespace_create", postgres_signature!("name location options? owner?"), |m, a| {
        run_sql(m, a, |named_args, name| {
            postgres_objects::create_tablespace(named_args, name, &named_args.require_text("location")?)
        })
    }),
    change_fn("postgres.tablespace_remove", postgres_signature!("name"), |m, a| {
        run_sql(m, a, |_, name| Ok(format!("DROP TABLESPACE {};", quote_ident(name))))
    }),
];
