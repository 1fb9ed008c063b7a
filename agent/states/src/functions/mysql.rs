//! `mysql.*`: arguments as Salt names them in, what the server says out.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::databases::NamedArgs;
use crate::databases::mysql;
use crate::databases::mysql::{MysqlClient, account, quote_ident, quote_literal};
use crate::databases::mysql_grant;
use crate::databases::mysql_grant::MysqlGrant;
use crate::functions::{ExecFunction, FunctionBody, string_list};
use crate::named_args;
use zagent_host::{Machine, Tools};

/// A signature and how the server is reached.
macro_rules! at {
    ($own:literal) => {
        concat!(
            $own,
            " * connection_host? connection_user? connection_pass? connection_port? connection_unix_socket?",
            " connection_default_file? connection_charset? **"
        )
    };
}

const GRANT_SIGNATURE: &str = at!("grant database user host? grant_option? escape? ssl_option?");
const USER_SIGNATURE: &str =
    at!("user host? password? password_hash? allow_passwordless? unix_socket? password_column? auth_plugin?");

const fn query_fn(name: &'static str, signature: &'static str, body: FunctionBody) -> ExecFunction {
    ExecFunction { name, signature, needs_program: Some("mysql"), changes_host: false, body }
}

const fn change_fn(name: &'static str, signature: &'static str, body: FunctionBody) -> ExecFunction {
    ExecFunction { name, signature, needs_program: Some("mysql"), changes_host: true, body }
}

pub const FUNCTIONS: &[ExecFunction] = &[
    query_fn("mysql.version", at!(""), |m, a| {
        with_client(m, a, |sql, tools, _| Ok(sql.version(tools)?.into()))
    }),
    change_fn("mysql.query", at!("database query"), query),
    query_fn("mysql.db_list", at!(""), |m, a| {
        with_client(m, a, |sql, tools, _| {
            Ok(string_list(sql.column(tools, "SHOW DATABASES").unwrap_or_default()))
        })
    }),
    query_fn("mysql.db_exists", at!("name"), |m, a| {
        with_client(m, a, |sql, tools, named_args| {
            Ok(sql.find_database(tools, &named_args.require_text("name")?)?.is_some().into())
        })
    }),
    query_fn("mysql.db_get", at!("name"), |m, a| {
        with_client(m, a, |sql, tools, named_args| {
            let found = sql.find_database(tools, &named_args.require_text("name")?)?;
            let told = |(set, collate): (String, String)| {
                Map::from_iter([("character_set", set), ("collate", collate)])
            };
            Ok(found.map(told).unwrap_or_default().into())
        })
    }),
    query_fn("mysql.db_tables", at!("name"), |m, a| {
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
    change_fn("mysql.db_create", at!("name character_set? collate?"), |m, a| {
        with_client(m, a, |sql, tools, named_args| {
            let name = named_args.require_text("name")?;
            if sql.find_database(tools, &name)?.is_some() {
                return Ok(false.into());
            }
            execute_statement(sql, tools, &mysql::database_sql(named_args, "CREATE", &name))
        })
    }),
    change_fn("mysql.alter_db", at!("name character_set? collate?"), |m, a| {
        with_client(m, a, |sql, tools, named_args| {
            execute_statement(
                sql,
                tools,
                &mysql::database_sql(named_args, "ALTER", &named_args.require_text("name")?),
            )
        })
    }),
    change_fn("mysql.db_remove", at!("name"), |m, a| {
        with_client(m, a, |sql, tools, named_args| {
            let name = named_args.require_text("name")?;
            if sql.find_database(tools, &name)?.is_none() || matches!(&*name, "mysql" | "information_schema")
            {
                return Ok(false.into());
            }
            execute_statement(sql, tools, &format!("DROP DATABASE {};", quote_ident(&name)))
        })
    }),
    query_fn("mysql.user_list", at!(""), |m, a| {
        with_client(m, a, |sql, tools, _| {
            let rows = sql.rows(tools, "SELECT User, Host FROM mysql.user")?;
            let one = |row: Vec<String>| Value::from(["User", "Host"].into_iter().zip(row).collect::<Map>());
            Ok(rows.into_iter().map(one).collect())
        })
    }),
    query_fn(
        "mysql.user_exists",
        at!("user host? password? password_hash? passwordless? unix_socket? password_column?"),
        |m, a| {
            with_account(m, a, |sql, tools, named_args, (user, host)| {
                let found = mysql::find_user(sql, tools, user, host)?;
                let compares = ["password", "password_hash"].iter().any(|k| named_args.text(k).is_some())
                    || named_args.is_enabled("passwordless");
                Ok(found.is_some_and(|now| !compares || mysql::user_matches(named_args, &now)).into())
            })
        },
    ),
    query_fn("mysql.user_info", at!("user host?"), |m, a| {
        with_account(m, a, |sql, tools, _, (user, host)| {
            let who = format!("User = {} AND Host = {}", quote_literal(user), quote_literal(host));
            let text = sql.run(tools, None, format!("SELECT * FROM mysql.user WHERE {who};").as_bytes())?;
            let mut rows = mysql::parse_rows(&text).into_iter();
            let names = rows.next().unwrap_or_default();
            Ok(rows.next().map_or(false.into(), |row| names.into_iter().zip(row).collect::<Map>().into()))
        })
    }),
    change_fn("mysql.user_create", USER_SIGNATURE, |m, a| {
        with_account(m, a, |sql, tools, named_args, (user, host)| {
            let has_password =
                named_args.text("password").is_some() || named_args.text("password_hash").is_some();
            let may = has_password
                || named_args.is_enabled("allow_passwordless")
                || named_args.is_enabled("unix_socket");
            if !may || mysql::find_user(sql, tools, user, host)?.is_some() {
                return Ok(false.into());
            }
            execute_statement(
                sql,
                tools,
                &mysql::user_sql(named_args, "CREATE", &account(user, host), &sql.version(tools)?),
            )
        })
    }),
    change_fn("mysql.user_chpass", USER_SIGNATURE, |m, a| {
        with_account(m, a, |sql, tools, named_args, (user, host)| {
            execute_statement(
                sql,
                tools,
                &mysql::user_sql(named_args, "ALTER", &account(user, host), &sql.version(tools)?),
            )
        })
    }),
    change_fn("mysql.user_remove", at!("user host?"), |m, a| {
        with_account(m, a, |sql, tools, _, (user, host)| {
            if mysql::find_user(sql, tools, user, host)?.is_none() {
                return Ok(false.into());
            }
            execute_statement(sql, tools, &format!("DROP USER {};", account(user, host)))
        })
    }),
    query_fn("mysql.user_grants", at!("user host?"), |m, a| {
        with_account(m, a, |sql, tools, _, (user, host)| {
            let lines = mysql_grant::show_grants(sql, tools, user, host)?;
            Ok(if lines.is_empty() { false.into() } else { mysql_grant::grants_value(lines) })
        })
    }),
    query_fn("mysql.grant_exists", GRANT_SIGNATURE, |m, a| {
        with_client(m, a, |sql, tools, named_args| {
            Ok(mysql_grant::is_granted(sql, tools, &MysqlGrant::new(named_args)?)?.into())
        })
    }),
    change_fn("mysql.grant_add", GRANT_SIGNATURE, |m, a| {
        with_client(m, a, |sql, tools, named_args| {
            execute_statement(sql, tools, &MysqlGrant::new(named_args)?.grant_sql())
        })
    }),
    change_fn("mysql.grant_revoke", GRANT_SIGNATURE, |m, a| {
        with_client(m, a, |sql, tools, named_args| {
            execute_statement(sql, tools, &MysqlGrant::new(named_args)?.revoke_sql())
        })
    }),
];

type MysqlResult = Result<Value, FunctionError>;

fn with_client(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    body: impl FnOnce(&MysqlClient, &Tools<'_>, &NamedArgs<'_>) -> MysqlResult,
) -> MysqlResult {
    named_args::with_bound_args(args, |named_args| {
        body(&MysqlClient::new(named_args), &Tools::new(machine), named_args)
    })
}

fn with_account(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    body: impl FnOnce(&MysqlClient, &Tools<'_>, &NamedArgs<'_>, (&str, &str)) -> MysqlResult,
) -> MysqlResult {
    with_client(machine, args, |sql, tools, named_args| {
        let host = named_args.text("host").unwrap_or_else(|| "localhost".to_owned());
        body(sql, tools, named_args, (&named_args.text("user").unwrap_or_default(), &host))
    })
}

fn execute_statement(sql: &MysqlClient, tools: &Tools<'_>, statement: &str) -> MysqlResult {
    sql.execute(tools, statement).map(|()| true.into())
}

fn query(machine: &Machine, args: &FunctionArgs<Value>) -> MysqlResult {
    with_client(machine, args, |sql, tools, named_args| {
        let (db, query) = (named_args.require_text("database")?, named_args.require_text("query")?);
        Ok(mysql::run_query(sql, tools, &db, query.as_bytes())?.into())
    })
}
