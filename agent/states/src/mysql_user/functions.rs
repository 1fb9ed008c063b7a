//! `mysql.user_*`: arguments as Salt names them in, the accounts of the server out.

use zagent_config::{Map, Value};

use crate::databases::mysql::{self, account, quote_literal};
use crate::exec_function::ExecFunction;
use crate::shared::mysql_functions::{
    change_fn, execute_statement, mysql_signature, query_fn, with_account, with_client,
};

const USER_SIGNATURE: &str = mysql_signature!(
    "user host? password? password_hash? allow_passwordless? unix_socket? password_column? auth_plugin?"
);

pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("mysql.user_list", mysql_signature!(""), |m, a| {
        with_client(m, a, |sql, tools, _| {
            let rows = sql.rows(tools, "SELECT User, Host FROM mysql.user")?;
            let one = |row: Vec<String>| Value::from(["User", "Host"].into_iter().zip(row).collect::<Map>());
            Ok(rows.into_iter().map(one).collect())
        })
    }),
    query_fn(
        "mysql.user_exists",
        mysql_signature!("user host? password? password_hash? passwordless? unix_socket? password_column?"),
        |m, a| {
            with_account(m, a, |sql, tools, named_args, (user, host)| {
                let found = mysql::find_user(sql, tools, user, host)?;
                let compares = ["password", "password_hash"].iter().any(|k| named_args.text(k).is_some())
                    || named_args.is_enabled("passwordless");
                Ok(found.is_some_and(|now| !compares || mysql::user_matches(named_args, &now)).into())
            })
        },
    ),
    query_fn("mysql.user_info", mysql_signature!("user host?"), |m, a| {
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
    change_fn("mysql.user_remove", mysql_signature!("user host?"), |m, a| {
        with_account(m, a, |sql, tools, _, (user, host)| {
            if mysql::find_user(sql, tools, user, host)?.is_none() {
                return Ok(false.into());
            }
            execute_statement(sql, tools, &format!("DROP USER {};", account(user, host)))
        })
    }),
];
