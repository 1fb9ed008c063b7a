//! `postgres.*`: arguments as Salt names them in, what the server says out.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::databases::postgres_privileges::PrivilegeRequest;
use crate::databases::psql::{PsqlClient, quote_ident};
use crate::databases::{NamedArgs, postgres_objects, postgres_role};
use crate::functions::{ExecFunction, FunctionBody};
use crate::named_args;
use zagent_host::{Machine, Tools};

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

const fn query_fn(name: &'static str, signature: &'static str, body: FunctionBody) -> ExecFunction {
    ExecFunction { name, signature, needs_program: Some("psql"), changes_host: false, body }
}

const fn change_fn(name: &'static str, signature: &'static str, body: FunctionBody) -> ExecFunction {
    ExecFunction { name, signature, needs_program: Some("psql"), changes_host: true, body }
}

pub const FUNCTIONS: &[ExecFunction] = &[
    query_fn("postgres.version", at!(""), |m, a| {
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
    query_fn("postgres.db_list", at!(""), |m, a| list_query(m, a, postgres_objects::LIST_DATABASES)),
    query_fn("postgres.db_exists", at!("name"), |m, a| has_named(m, a, postgres_objects::LIST_DATABASES)),
    change_fn(
        "postgres.db_create",
        at!("name tablespace? encoding? lc_collate? lc_ctype? owner? template?"),
        |m, a| run_sql(m, a, |named_args, name| Ok(postgres_objects::create_database(named_args, name))),
    ),
    change_fn("postgres.db_alter", at!("name tablespace? owner? owner_recurse?"), |m, a| {
        with_client(m, a, |psql, tools, named_args| {
            postgres_objects::alter_database(psql, tools, named_args, &named_args.require_text("name")?)
                .map(|()| true.into())
        })
    }),
    change_fn("postgres.db_remove", at!("name"), |m, a| {
        run_sql(m, a, |_, name| Ok(postgres_objects::drop_database(name)))
    }),
    change_fn("postgres.owner_to", at!("dbname ownername"), |m, a| {
        with_client(m, a, |psql, tools, named_args| {
            let psql = psql.in_database(&named_args.require_text("dbname")?);
            postgres_objects::reassign_owner(&psql, tools, &named_args.require_text("ownername")?)
                .map(|()| true.into())
        })
    }),
    query_fn("postgres.user_list", at!("return_password?"), |m, a| {
        with_client(m, a, |psql, tools, named_args| {
            Ok(postgres_role::list_roles(psql, tools, named_args.is_enabled("return_password"))?.into())
        })
    }),
    query_fn("postgres.role_get", at!("name return_password?"), |m, a| {
        with_client(m, a, |psql, tools, named_args| {
            let all = postgres_role::list_roles(psql, tools, named_args.is_enabled("return_password"))?;
            Ok(all.get(&named_args.require_text("name")?).cloned().unwrap_or(Value::Null))
        })
    }),
    query_fn("postgres.user_exists", at!("name"), |m, a| {
        with_client(m, a, |psql, tools, named_args| {
            Ok(postgres_role::list_roles(psql, tools, false)?
                .contains(&named_args.require_text("name")?)
                .into())
        })
    }),
    change_fn("postgres.user_create", role!("username"), |m, a| create_role(m, a, "username", true)),
    change_fn("postgres.user_update", role!("username"), |m, a| update_role(m, a, "username")),
    change_fn("postgres.user_remove", at!("username"), |m, a| drop_role(m, a, "username")),
    change_fn("postgres.group_create", role!("groupname"), |m, a| create_role(m, a, "groupname", false)),
    change_fn("postgres.group_update", role!("groupname"), |m, a| update_role(m, a, "groupname")),
    query_fn("postgres.tablespace_list", at!(""), |m, a| {
        list_query(m, a, postgres_objects::LIST_TABLESPACES)
    }),
    query_fn("postgres.tablespace_exists", at!("name"), |m, a| {
        has_named(m, a, postgres_objects::LIST_TABLESPACES)
    }),
    change_fn("postgres.tablespace_create", at!("name location options? owner?"), |m, a| {
        run_sql(m, a, |named_args, name| {
            postgres_objects::create_tablespace(named_args, name, &named_args.require_text("location")?)
        })
    }),
    change_fn("postgres.tablespace_remove", at!("name"), |m, a| {
        run_sql(m, a, |_, name| Ok(format!("DROP TABLESPACE {};", quote_ident(name))))
    }),
    query_fn("postgres.available_extensions", at!(""), |m, a| {
        list_query(m, a, postgres_objects::LIST_AVAILABLE_EXTENSIONS)
    }),
    query_fn("postgres.is_available_extension", at!("name"), |m, a| {
        has_named(m, a, postgres_objects::LIST_AVAILABLE_EXTENSIONS)
    }),
    query_fn("postgres.installed_extensions", at!(""), |m, a| {
        list_query(m, a, postgres_objects::LIST_EXTENSIONS)
    }),
    query_fn("postgres.is_installed_extension", at!("name"), |m, a| {
        has_named(m, a, postgres_objects::LIST_EXTENSIONS)
    }),
    change_fn(
        "postgres.create_extension",
        at!("name if_not_exists? schema? ext_version? from_version?"),
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
    change_fn("postgres.drop_extension", at!("name if_exists? restrict? cascade?"), |m, a| {
        run_sql(m, a, |named_args, name| Ok(postgres_objects::drop_extension(named_args, name)))
    }),
    query_fn("postgres.schema_list", SCHEMA_LIST_SIGNATURE, |m, a| {
        with_schema_args(m, a, |psql, tools, _| list_schemas(psql, tools, Value::from))
    }),
    query_fn("postgres.schema_get", SCHEMA_SIGNATURE, |m, a| {
        with_schema_args(m, a, |psql, tools, name| {
            list_schemas(psql, tools, |all| all.get(name).cloned().unwrap_or(Value::Null))
        })
    }),
    query_fn("postgres.schema_exists", SCHEMA_SIGNATURE, |m, a| {
        with_schema_args(m, a, |psql, tools, name| list_schemas(psql, tools, |all| all.contains(name).into()))
    }),
    change_fn("postgres.schema_create", SCHEMA_CREATE_SIGNATURE, |m, a| {
        named_args::with_bound_args(a, |named_args| {
            with_schema_args(m, a, |psql, tools, name| {
                execute_statement(psql, tools, &postgres_objects::create_schema(named_args, name))
            })
        })
    }),
    change_fn("postgres.schema_remove", SCHEMA_SIGNATURE, |m, a| {
        with_schema_args(m, a, |psql, tools, name| {
            execute_statement(psql, tools, &format!("DROP SCHEMA {};", quote_ident(name)))
        })
    }),
    query_fn("postgres.language_list", at!(""), |m, a| {
        with_client(m, a, |psql, tools, _| {
            let all = psql.rows_by_name(tools, postgres_objects::LIST_LANGUAGES)?;
            Ok(all.keys().map(|k| (k.clone(), k.clone())).collect::<Map>().into())
        })
    }),
    query_fn("postgres.language_exists", at!("name"), |m, a| {
        has_named(m, a, postgres_objects::LIST_LANGUAGES)
    }),
    query_fn("postgres.has_privileges", PRIVILEGES_SIGNATURE, |m, a| {
        with_client(m, a, |psql, tools, named_args| {
            Ok(PrivilegeRequest::new(named_args)?.has_privileges(psql, tools, true)?.into())
        })
    }),
    change_fn("postgres.privileges_grant", PRIVILEGES_SIGNATURE, |m, a| change_privileges(m, a, true)),
    change_fn("postgres.privileges_revoke", PRIVILEGES_SIGNATURE, |m, a| change_privileges(m, a, false)),
    change_fn("postgres.group_remove", at!("groupname"), |m, a| drop_role(m, a, "groupname")),
];

const SCHEMA_LIST_SIGNATURE: &str = "dbname db_user? db_password? db_host? db_port? user?";
const SCHEMA_SIGNATURE: &str = "dbname name db_user? db_password? db_host? db_port? user?";
const SCHEMA_CREATE_SIGNATURE: &str = "dbname name owner? user? db_user? db_password? db_host? db_port?";
const PRIVILEGES_SIGNATURE: &str = at!("name object_name object_type privileges? grant_option? prepend?");

type PostgresResult = Result<Value, FunctionError>;

fn with_client(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    body: impl FnOnce(&PsqlClient, &Tools<'_>, &NamedArgs<'_>) -> PostgresResult,
) -> PostgresResult {
    named_args::with_bound_args(args, |named_args| {
        body(&PsqlClient::from_function_args(named_args), &Tools::new(machine), named_args)
    })
}

fn list_query(machine: &Machine, args: &FunctionArgs<Value>, query: &str) -> PostgresResult {
    with_client(machine, args, |psql, tools, _| Ok(psql.rows_by_name(tools, query)?.into()))
}

fn has_named(machine: &Machine, args: &FunctionArgs<Value>, query: &str) -> PostgresResult {
    with_client(machine, args, |psql, tools, named_args| {
        Ok(psql.rows_by_name(tools, query)?.contains(&named_args.require_text("name")?).into())
    })
}

fn run_sql(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    sql: fn(&NamedArgs<'_>, &str) -> Result<String, FunctionError>,
) -> PostgresResult {
    with_client(machine, args, |psql, tools, named_args| {
        psql.run(tools, &sql(named_args, &named_args.require_text("name")?)?)?;
        Ok(true.into())
    })
}

fn create_role(machine: &Machine, args: &FunctionArgs<Value>, key: &str, is_user: bool) -> PostgresResult {
    with_client(machine, args, |psql, tools, named_args| {
        let name = named_args.require_text(key)?;
        if postgres_role::list_roles(psql, tools, false)?.contains(&name) {
            return Ok(false.into());
        }
        psql.run(
            tools,
            &postgres_role::create_role_sql(named_args, &name, is_user, named_args.text("rolepassword"))?,
        )?;
        Ok(true.into())
    })
}

fn update_role(machine: &Machine, args: &FunctionArgs<Value>, key: &str) -> PostgresResult {
    with_client(machine, args, |psql, tools, named_args| {
        let name = named_args.require_text(key)?;
        let all = postgres_role::list_roles(psql, tools, false)?;
        let Some(now) = postgres_objects::find_by_name(&all, &name) else { return Ok(false.into()) };
        let password = named_args.text("rolepassword");
        let update = postgres_role::role_differences(named_args, &name, now, password.as_deref(), None);
        psql.run(tools, &postgres_role::alter_role_sql(named_args, &name, &update, password)?)?;
        Ok(true.into())
    })
}

fn drop_role(machine: &Machine, args: &FunctionArgs<Value>, key: &str) -> PostgresResult {
    with_client(machine, args, |psql, tools, named_args| {
        let name = named_args.require_text(key)?;
        if !postgres_role::list_roles(psql, tools, false)?.contains(&name) {
            return Ok(false.into());
        }
        psql.run(tools, &format!("DROP ROLE {};", quote_ident(&name)))?;
        Ok(true.into())
    })
}

fn execute_statement(psql: &PsqlClient, tools: &Tools<'_>, sql: &str) -> PostgresResult {
    psql.run(tools, sql).map(|_| true.into())
}

/// Works in one database, with the names of arguments that functions about schemas have.
fn with_schema_args(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    body: impl FnOnce(&PsqlClient, &Tools<'_>, &str) -> PostgresResult,
) -> PostgresResult {
    named_args::with_bound_args(args, |named_args| {
        let psql = PsqlClient::from_state_args(named_args).in_database(&named_args.require_text("dbname")?);
        body(&psql, &Tools::new(machine), &named_args.text("name").unwrap_or_default())
    })
}

fn list_schemas(psql: &PsqlClient, tools: &Tools<'_>, pick: impl FnOnce(Map) -> Value) -> PostgresResult {
    psql.rows_by_name(tools, postgres_objects::LIST_SCHEMAS).map(pick)
}

fn change_privileges(machine: &Machine, args: &FunctionArgs<Value>, grants: bool) -> PostgresResult {
    with_client(machine, args, |psql, tools, named_args| {
        let wish = PrivilegeRequest::new(named_args)?;
        if wish.has_privileges(psql, tools, grants)? == grants {
            return Ok(false.into());
        }
        execute_statement(psql, tools, &wish.change_sql(grants, &wish.current_privileges(psql, tools)?)?)
    })
}
