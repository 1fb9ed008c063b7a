//! `postgres.*_extension*`: arguments as Salt names them in, what the server says out.

use crate::databases::postgres_objects;
use crate::exec_function::ExecFunction;
use crate::shared::postgres_functions::{
    change_fn, has_named, list_query, postgres_signature, query_fn, run_sql, with_client,
};

pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("postgres.available_extensions", postgres_signature!(""), |m, a| {
        list_query(m, a, postgres_objects::LIST_AVAILABLE_EXTENSIONS)
    }),
    query_fn("postgres.is_available_extension", postgres_signature!("name"), |m, a| {
        has_named(m, a, postgres_objects::LIST_AVAILABLE_EXTENSIONS)
    }),
    query_fn("postgres.installed_extensions", postgres_signature!(""), |m, a| {
        list_query(m, a, postgres_objects::LIST_EXTENSIONS)
    }),
    query_fn("postgres.is_installed_extension", postgres_signature!("name"), |m, a| {
        has_named(m, a, postgres_objects::LIST_EXTENSIONS)
    }),
    change_fn(
        "postgres.create_extension",
        postgres_signature!("name if_not_exists? schema? ext_version? from_version?"),
        |m, a| {
            with_client(m, a, |psql, tools, named_args| {
                let name = named_args.require_text("name")?;
                let all = psql.rows_by_name(tools, postgres_objects::LIST_EXTENSIONS)?;
                psql.run(
                    tools,
                    &postgres_objects::extension_sql(
                        named_args,
                        &name,
                        postgres_objects::find_by_name(&all, &name),
                    ),
                )?;
                Ok(true.into())
            })
        },
    ),
    change_fn(
        "postgres.drop_extension",
        postgres_signature!("name if_exists? restrict? cascade?"),
        |m, a| run_sql(m, a, |named_args, name| Ok(postgres_objects::drop_extension(named_args, name))),
    ),
];
