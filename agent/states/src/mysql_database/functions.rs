//! `mysql.db_*`: arguments as Salt names them in, the databases of the server out.

use zagent_config::{Map, Value};

use crate::databases::mysql::{self, quote_ident};
use crate::exec_function::{ExecFunction, string_list};
use crate::shared::mysql_functions::{change_fn, execute_statement, mysql_signature, query_fn, with_client};

pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("mysql.db_list", mysql_signature!(""), |m, a| {
        with_client(m, a, |sql, tools, _| {
            Ok(string_list(sql.column(tools, "SHOW DATABASES").unwrap_or_default()))
        })
    }),
    query_fn("mysql.db_exists", mysql_signature!("name"), |m, a| {
        with_client(m, a, |sql, tools, named_args| {
            Ok(sql.find_database(tools, &named_args.require_text("name")?)?.is_some().into())
        })
    }),
    query_fn("mysql.db_get", mysql_signature!("name"), |m, a| {
        with_client(m, a, |sql, tools, named_args| {
            let found = sql.find_database(tools, &named_args.require_text("name")?)?;
            let told = |(set, collate): (String, String)| {
                Map::from_iter([("character_set", set), ("collate", collate)])
            };
            Ok(found.map(told).unwrap_or_default().into())
        })
    }),
    query_fn("mysql.db_tables", mysql_signature!("name"), |m, a| {
        with_client(m, a, |sql, tools, named_args| {
            let name = named_args.require_text("name")?;
            // A server that does not answer has no tables, as in Salt.
            match sql.find_database(tools, &name) {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(false.into()),
                Err(_) => return Ok(Value::empty_list()),
            }
            Ok(string_list(sql.column(tools, &format!("SHOW TABLES IN {}", quote_ident(&name)))?))
        })
    }),
    change_fn("mysql.db_create", mysql_signature!("name character_set? collate?"), |m, a| {
        with_client(m, a, |sql, tools, named_args| {
            let name = named_args.require_text("name")?;
            if sql.find_database(tools, &name)?.is_some() {
                return Ok(false.into());
            }
            execute_statement(sql, tools, &mysql::database_sql(named_args, "CREATE", &name))
        })
    }),
    change_fn("mysql.alter_db", mysql_signature!("name character_set? collate?"), |m, a| {
        with_client(m, a, |sql, tools, named_args| {
            execute_statement(
                sql,
                tools,
                &mysql::database_sql(named_args, "ALTER", &named_args.require_text("name")?),
            )
        })
    }),
    change_fn("mysql.db_remove", mysql_signature!("name"), |m, a| {
        with_client(m, a, |sql, tools, named_args| {
            let name = named_args.require_text("name")?;
            if sql.find_database(tools, &name)?.is_none() || matches!(&*name, "mysql" | "information_schema")
            {
                return Ok(false.into());
            }
            execute_statement(sql, tools, &format!("DROP DATABASE {};", quote_ident(&name)))
        })
    }),
];
