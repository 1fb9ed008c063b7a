//! `mysql.*`: arguments as Salt names them in, what the server says out.

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::{Map, Value};

use super::super::{Body, Entry, strings};
use super::grants::{self, Grant};
use super::mysql::{self, Mysql, account, ident, literal};
use super::{Given, given};
use crate::host::{Machine, Tools};

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

const GRANT: &str = at!("grant database user host? grant_option? escape? ssl_option?");
const USER: &str =
    at!("user host? password? password_hash? allow_passwordless? unix_socket? password_column? auth_plugin?");

const fn entry(name: &'static str, signature: &'static str, body: Body) -> Entry {
    Entry { name, signature, needs: Some("mysql"), acts: false, body }
}

const fn acting(name: &'static str, signature: &'static str, body: Body) -> Entry {
    Entry { name, signature, needs: Some("mysql"), acts: true, body }
}

pub(super) const TABLE: &[Entry] = &[
    entry("mysql.version", at!(""), |m, a| with(m, a, |sql, tools, _| Ok(sql.version(tools)?.into()))),
    acting("mysql.query", at!("database query"), query),
    entry("mysql.db_list", at!(""), |m, a| {
        with(m, a, |sql, tools, _| Ok(strings(sql.column(tools, "SHOW DATABASES").unwrap_or_default())))
    }),
    entry("mysql.db_exists", at!("name"), |m, a| {
        with(m, a, |sql, tools, given| Ok(sql.database(tools, &given.must("name")?)?.is_some().into()))
    }),
    entry("mysql.db_get", at!("name"), |m, a| {
        with(m, a, |sql, tools, given| {
            let found = sql.database(tools, &given.must("name")?)?;
            let told = |(set, collate): (String, String)| {
                Map::from_iter([("character_set", set), ("collate", collate)])
            };
            Ok(found.map(told).unwrap_or_default().into())
        })
    }),
    entry("mysql.db_tables", at!("name"), |m, a| {
        with(m, a, |sql, tools, given| {
            let name = given.must("name")?;
            // A server that does not answer has no tables, as in Salt.
            match sql.database(tools, &name) {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(false.into()),
                Err(_) => return Ok(Value::empty_list()),
            }
            Ok(strings(sql.column(tools, &format!("SHOW TABLES IN {}", ident(&name)))?))
        })
    }),
    acting("mysql.db_create", at!("name character_set? collate?"), |m, a| {
        with(m, a, |sql, tools, given| {
            let name = given.must("name")?;
            if sql.database(tools, &name)?.is_some() {
                return Ok(false.into());
            }
            told(sql, tools, &mysql::database_sql(given, "CREATE", &name))
        })
    }),
    acting("mysql.alter_db", at!("name character_set? collate?"), |m, a| {
        with(m, a, |sql, tools, given| {
            told(sql, tools, &mysql::database_sql(given, "ALTER", &given.must("name")?))
        })
    }),
    acting("mysql.db_remove", at!("name"), |m, a| {
        with(m, a, |sql, tools, given| {
            let name = given.must("name")?;
            if sql.database(tools, &name)?.is_none() || matches!(&*name, "mysql" | "information_schema") {
                return Ok(false.into());
            }
            told(sql, tools, &format!("DROP DATABASE {};", ident(&name)))
        })
    }),
    entry("mysql.user_list", at!(""), |m, a| {
        with(m, a, |sql, tools, _| {
            let rows = sql.rows(tools, "SELECT User, Host FROM mysql.user")?;
            let one = |row: Vec<String>| Value::from(["User", "Host"].into_iter().zip(row).collect::<Map>());
            Ok(rows.into_iter().map(one).collect())
        })
    }),
    entry(
        "mysql.user_exists",
        at!("user host? password? password_hash? passwordless? unix_socket? password_column?"),
        |m, a| {
            account_of(m, a, |sql, tools, given, (user, host)| {
                let found = mysql::user(sql, tools, user, host)?;
                let compares = ["password", "password_hash"].iter().any(|k| given.text(k).is_some())
                    || given.is("passwordless");
                Ok(found.is_some_and(|now| !compares || mysql::is_user(given, &now)).into())
            })
        },
    ),
    entry("mysql.user_info", at!("user host?"), |m, a| {
        account_of(m, a, |sql, tools, _, (user, host)| {
            let who = format!("User = {} AND Host = {}", literal(user), literal(host));
            let text = sql.run(tools, None, format!("SELECT * FROM mysql.user WHERE {who};").as_bytes())?;
            let mut rows = mysql::rows(&text).into_iter();
            let names = rows.next().unwrap_or_default();
            Ok(rows.next().map_or(false.into(), |row| names.into_iter().zip(row).collect::<Map>().into()))
        })
    }),
    acting("mysql.user_create", USER, |m, a| {
        account_of(m, a, |sql, tools, given, (user, host)| {
            let has_password = given.text("password").is_some() || given.text("password_hash").is_some();
            let may = has_password || given.is("allow_passwordless") || given.is("unix_socket");
            if !may || mysql::user(sql, tools, user, host)?.is_some() {
                return Ok(false.into());
            }
            told(sql, tools, &mysql::user_sql(given, "CREATE", &account(user, host), &sql.version(tools)?))
        })
    }),
    acting("mysql.user_chpass", USER, |m, a| {
        account_of(m, a, |sql, tools, given, (user, host)| {
            told(sql, tools, &mysql::user_sql(given, "ALTER", &account(user, host), &sql.version(tools)?))
        })
    }),
    acting("mysql.user_remove", at!("user host?"), |m, a| {
        account_of(m, a, |sql, tools, _, (user, host)| {
            if mysql::user(sql, tools, user, host)?.is_none() {
                return Ok(false.into());
            }
            told(sql, tools, &format!("DROP USER {};", account(user, host)))
        })
    }),
    entry("mysql.user_grants", at!("user host?"), |m, a| {
        account_of(m, a, |sql, tools, _, (user, host)| {
            let lines = grants::lines(sql, tools, user, host)?;
            Ok(if lines.is_empty() { false.into() } else { grants::listed(lines) })
        })
    }),
    entry("mysql.grant_exists", GRANT, |m, a| {
        with(m, a, |sql, tools, given| Ok(grants::is_there(sql, tools, &Grant::new(given)?)?.into()))
    }),
    acting("mysql.grant_add", GRANT, |m, a| {
        with(m, a, |sql, tools, given| told(sql, tools, &Grant::new(given)?.grant()))
    }),
    acting("mysql.grant_revoke", GRANT, |m, a| {
        with(m, a, |sql, tools, given| told(sql, tools, &Grant::new(given)?.revoke()))
    }),
];

type Answer = Result<Value, Refusal>;

fn with(
    machine: &Machine,
    args: &Bound<Value>,
    body: impl FnOnce(&Mysql, &Tools<'_>, &Given<'_>) -> Answer,
) -> Answer {
    given::of(args, |given| body(&Mysql::new(given), &Tools::new(machine), given))
}

fn account_of(
    machine: &Machine,
    args: &Bound<Value>,
    body: impl FnOnce(&Mysql, &Tools<'_>, &Given<'_>, (&str, &str)) -> Answer,
) -> Answer {
    with(machine, args, |sql, tools, given| {
        let host = given.text("host").unwrap_or_else(|| "localhost".to_owned());
        body(sql, tools, given, (&given.text("user").unwrap_or_default(), &host))
    })
}

fn told(sql: &Mysql, tools: &Tools<'_>, statement: &str) -> Answer {
    sql.tell(tools, statement).map(|()| true.into())
}

fn query(machine: &Machine, args: &Bound<Value>) -> Answer {
    with(machine, args, |sql, tools, given| {
        let (db, query) = (given.must("database")?, given.must("query")?);
        Ok(mysql::query(sql, tools, &db, query.as_bytes())?.into())
    })
}
