//! `postgres.language_*`: arguments as Salt names them in, what the server says out.

use zagent_config::Map;

use crate::databases::postgres_objects;
use crate::exec_function::ExecFunction;
use crate::shared::postgres_functions::{has_named, postgres_signature, query_fn, with_client};

pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("postgres.language_list", postgres_signature!(""), |m, a| {
        with_client(m, a, |psql, tools, _| {
            let all = psql.rows_by_name(tools, postgres_objects::LIST_LANGUAGES)?;
            Ok(all.keys().map(|k| (k.clone(), k.clone())).collect::<Map>().into())
        })
    }),
    query_fn("postgres.language_exists", postgres_signature!("name"), |m, a| {
        has_named(m, a, postgres_objects::LIST_LANGUAGES)
    }),
];
