//! `postgres.*`: arguments as Salt names them in, what the server says out.

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::{Map, Value};

use super::super::{Body, Entry};
use super::privileges::Wish;
use super::psql::{Psql, ident};
use super::{Given, given, postgres, role};
use crate::host::{Machine, Tools};

/// A signature and how the server is reached.
macro_rules! at {
    ($own:literal) => {
        concat!($own, " user? host? port? maintenance_db? password? runas?")
    };
}

macro_rules! role {
    ($name:literal) => {
        concat!(
            $name,
            " user? host? port? maintenance_db? password? createdb? createroles? encrypted? superuser? replication?",
            " rolepassword? login? connlimit? inherit? groups? runas? valid_until?"
        )
    };
}

const fn entry(name: &'static str, signature: &'static str, body: Body) -> Entry {
    Entry { name, signature, needs: Some("psql"), acts: false, body }
}

const fn acting(name: &'static str, signature: &'static str, body: Body) -> Entry {
    Entry { name, signature, needs: Some("psql"), acts: true, body }
}

pub(super) const TABLE: &[Entry] = &[
    entry("postgres.version", at!(""), |m, a| {
        with(m, a, |psql, tools, _| Ok(psql.run(tools, "SHOW server_version;")?.trim().into()))
    }),
    entry(
        "postgres.psql_query",
        "query user? host? port? maintenance_db? password? runas? write?",
        |m, a| {
            with(m, a, |psql, tools, given| {
                if given.is("write") {
                    return Err(Refusal::failed(
                        "a query that writes is for `cmd.run`: functions that look change nothing",
                    ));
                }
                // A server that does not answer has no rows, as in Salt.
                Ok(psql
                    .rows(tools, &given.must("query")?)
                    .unwrap_or_default()
                    .into_iter()
                    .map(Value::from)
                    .collect())
            })
        },
    ),
    entry("postgres.db_list", at!(""), |m, a| list(m, a, postgres::DATABASES)),
    entry("postgres.db_exists", at!("name"), |m, a| has(m, a, postgres::DATABASES)),
    acting(
        "postgres.db_create",
        at!("name tablespace? encoding? lc_collate? lc_ctype? owner? template?"),
        |m, a| run(m, a, |given, name| Ok(postgres::create_database(given, name))),
    ),
    acting("postgres.db_alter", at!("name tablespace? owner? owner_recurse?"), |m, a| {
        with(m, a, |psql, tools, given| {
            postgres::alter_database(psql, tools, given, &given.must("name")?).map(|()| true.into())
        })
    }),
    acting("postgres.db_remove", at!("name"), |m, a| run(m, a, |_, name| Ok(postgres::drop_database(name)))),
    acting("postgres.owner_to", at!("dbname ownername"), |m, a| {
        with(m, a, |psql, tools, given| {
            let psql = psql.within(&given.must("dbname")?);
            postgres::own_all(&psql, tools, &given.must("ownername")?).map(|()| true.into())
        })
    }),
    entry("postgres.user_list", at!("return_password?"), |m, a| {
        with(m, a, |psql, tools, given| Ok(role::list(psql, tools, given.is("return_password"))?.into()))
    }),
    entry("postgres.role_get", at!("name return_password?"), |m, a| {
        with(m, a, |psql, tools, given| {
            let all = role::list(psql, tools, given.is("return_password"))?;
            Ok(all.get(&given.must("name")?).cloned().unwrap_or(Value::Null))
        })
    }),
    entry("postgres.user_exists", at!("name"), |m, a| {
        with(m, a, |psql, tools, given| {
            Ok(role::list(psql, tools, false)?.contains(&given.must("name")?).into())
        })
    }),
    acting("postgres.user_create", role!("username"), |m, a| make(m, a, "username", true)),
    acting("postgres.user_update", role!("username"), |m, a| mend(m, a, "username")),
    acting("postgres.user_remove", at!("username"), |m, a| drop_role(m, a, "username")),
    acting("postgres.group_create", role!("groupname"), |m, a| make(m, a, "groupname", false)),
    acting("postgres.group_update", role!("groupname"), |m, a| mend(m, a, "groupname")),
    entry("postgres.tablespace_list", at!(""), |m, a| list(m, a, postgres::TABLESPACES)),
    entry("postgres.tablespace_exists", at!("name"), |m, a| has(m, a, postgres::TABLESPACES)),
    acting("postgres.tablespace_create", at!("name location options? owner?"), |m, a| {
        run(m, a, |given, name| postgres::create_tablespace(given, name, &given.must("location")?))
    }),
    acting("postgres.tablespace_remove", at!("name"), |m, a| {
        run(m, a, |_, name| Ok(format!("DROP TABLESPACE {};", ident(name))))
    }),
    entry("postgres.available_extensions", at!(""), |m, a| list(m, a, postgres::AVAILABLE)),
    entry("postgres.is_available_extension", at!("name"), |m, a| has(m, a, postgres::AVAILABLE)),
    entry("postgres.installed_extensions", at!(""), |m, a| list(m, a, postgres::EXTENSIONS)),
    entry("postgres.is_installed_extension", at!("name"), |m, a| has(m, a, postgres::EXTENSIONS)),
    acting(
        "postgres.create_extension",
        at!("name if_not_exists? schema? ext_version? from_version?"),
        |m, a| {
            with(m, a, |psql, tools, given| {
                let name = given.must("name")?;
                let all = psql.by_name(tools, postgres::EXTENSIONS)?;
                psql.run(tools, &postgres::extension(given, &name, postgres::one(&all, &name)))?;
                Ok(true.into())
            })
        },
    ),
    acting("postgres.drop_extension", at!("name if_exists? restrict? cascade?"), |m, a| {
        run(m, a, |given, name| Ok(postgres::drop_extension(given, name)))
    }),
    entry("postgres.schema_list", SCHEMA_LIST, |m, a| {
        schema(m, a, |psql, tools, _| schemas(psql, tools, Value::from))
    }),
    entry("postgres.schema_get", SCHEMA, |m, a| {
        schema(m, a, |psql, tools, name| {
            schemas(psql, tools, |all| all.get(name).cloned().unwrap_or(Value::Null))
        })
    }),
    entry("postgres.schema_exists", SCHEMA, |m, a| {
        schema(m, a, |psql, tools, name| schemas(psql, tools, |all| all.contains(name).into()))
    }),
    acting("postgres.schema_create", SCHEMA_CREATE, |m, a| {
        given::of(a, |given| {
            schema(m, a, |psql, tools, name| told(psql, tools, &postgres::create_schema(given, name)))
        })
    }),
    acting("postgres.schema_remove", SCHEMA, |m, a| {
        schema(m, a, |psql, tools, name| told(psql, tools, &format!("DROP SCHEMA {};", ident(name))))
    }),
    entry("postgres.language_list", at!(""), |m, a| {
        with(m, a, |psql, tools, _| {
            let all = psql.by_name(tools, postgres::LANGUAGES)?;
            Ok(all.keys().map(|k| (k.clone(), k.clone())).collect::<Map>().into())
        })
    }),
    entry("postgres.language_exists", at!("name"), |m, a| has(m, a, postgres::LANGUAGES)),
    entry("postgres.has_privileges", PRIVILEGES, |m, a| {
        with(m, a, |psql, tools, given| Ok(Wish::new(given)?.is_held(psql, tools, true)?.into()))
    }),
    acting("postgres.privileges_grant", PRIVILEGES, |m, a| privileges(m, a, true)),
    acting("postgres.privileges_revoke", PRIVILEGES, |m, a| privileges(m, a, false)),
    acting("postgres.group_remove", at!("groupname"), |m, a| drop_role(m, a, "groupname")),
];

const SCHEMA_LIST: &str = "dbname db_user? db_password? db_host? db_port? user?";
const SCHEMA: &str = "dbname name db_user? db_password? db_host? db_port? user?";
const SCHEMA_CREATE: &str = "dbname name owner? user? db_user? db_password? db_host? db_port?";
const PRIVILEGES: &str = at!("name object_name object_type privileges? grant_option? prepend?");

type Answer = Result<Value, Refusal>;

fn with(
    machine: &Machine,
    args: &Bound<Value>,
    body: impl FnOnce(&Psql, &Tools<'_>, &Given<'_>) -> Answer,
) -> Answer {
    given::of(args, |given| body(&Psql::of_function(given), &Tools::new(machine), given))
}

fn list(machine: &Machine, args: &Bound<Value>, query: &str) -> Answer {
    with(machine, args, |psql, tools, _| Ok(psql.by_name(tools, query)?.into()))
}

fn has(machine: &Machine, args: &Bound<Value>, query: &str) -> Answer {
    with(machine, args, |psql, tools, given| {
        Ok(psql.by_name(tools, query)?.contains(&given.must("name")?).into())
    })
}

fn run(
    machine: &Machine,
    args: &Bound<Value>,
    sql: fn(&Given<'_>, &str) -> Result<String, Refusal>,
) -> Answer {
    with(machine, args, |psql, tools, given| {
        psql.run(tools, &sql(given, &given.must("name")?)?)?;
        Ok(true.into())
    })
}

fn make(machine: &Machine, args: &Bound<Value>, key: &str, is_user: bool) -> Answer {
    with(machine, args, |psql, tools, given| {
        let name = given.must(key)?;
        if role::list(psql, tools, false)?.contains(&name) {
            return Ok(false.into());
        }
        psql.run(tools, &role::create(given, &name, is_user, given.text("rolepassword"))?)?;
        Ok(true.into())
    })
}

fn mend(machine: &Machine, args: &Bound<Value>, key: &str) -> Answer {
    with(machine, args, |psql, tools, given| {
        let name = given.must(key)?;
        let all = role::list(psql, tools, false)?;
        let Some(now) = postgres::one(&all, &name) else { return Ok(false.into()) };
        let password = given.text("rolepassword");
        let update = role::differences(given, &name, now, password.as_deref(), None);
        psql.run(tools, &role::alter(given, &name, &update, password)?)?;
        Ok(true.into())
    })
}

fn drop_role(machine: &Machine, args: &Bound<Value>, key: &str) -> Answer {
    with(machine, args, |psql, tools, given| {
        let name = given.must(key)?;
        if !role::list(psql, tools, false)?.contains(&name) {
            return Ok(false.into());
        }
        psql.run(tools, &format!("DROP ROLE {};", ident(&name)))?;
        Ok(true.into())
    })
}

fn told(psql: &Psql, tools: &Tools<'_>, sql: &str) -> Answer {
    psql.run(tools, sql).map(|_| true.into())
}

/// Works in one database, with the names of arguments that functions about schemas have.
fn schema(
    machine: &Machine,
    args: &Bound<Value>,
    body: impl FnOnce(&Psql, &Tools<'_>, &str) -> Answer,
) -> Answer {
    given::of(args, |given| {
        let psql = Psql::of_state(given).within(&given.must("dbname")?);
        body(&psql, &Tools::new(machine), &given.text("name").unwrap_or_default())
    })
}

fn schemas(psql: &Psql, tools: &Tools<'_>, pick: impl FnOnce(Map) -> Value) -> Answer {
    psql.by_name(tools, postgres::SCHEMAS).map(pick)
}

fn privileges(machine: &Machine, args: &Bound<Value>, grants: bool) -> Answer {
    with(machine, args, |psql, tools, given| {
        let wish = Wish::new(given)?;
        if wish.is_held(psql, tools, grants)? == grants {
            return Ok(false.into());
        }
        told(psql, tools, &wish.sql(grants, &wish.now(psql, tools)?)?)
    })
}
