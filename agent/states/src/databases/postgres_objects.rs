//! What a PostgreSQL server holds beside roles: arguments in, listings and statements out.

use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use super::psql::{PsqlClient, quote_ident, quote_literal};
use crate::named_args::NamedArgs;
use zagent_host::Tools;

/// All databases, as `postgres.db_list` shows them.
pub(crate) const LIST_DATABASES: &str = "SELECT datname AS \"Name\", r.rolname AS \"Owner\", pg_encoding_to_char(encoding) AS \"Encoding\", \
     datcollate AS \"Collate\", datctype AS \"Ctype\", datacl AS \"Access privileges\", spcname AS \"Tablespace\" \
     FROM pg_database d JOIN pg_roles r ON r.oid = d.datdba JOIN pg_tablespace t ON t.oid = d.dattablespace";

/// The statement that makes a database.
pub(crate) fn create_database(named_args: &NamedArgs<'_>, name: &str) -> String {
    let mut words = String::new();
    type Quote = fn(&str) -> String;
    let options: [(&str, &str, Quote); 6] = [
        ("tablespace", "TABLESPACE", quote_ident),
        ("owner", "OWNER", quote_ident),
        ("template", "TEMPLATE", quote_ident),
        ("encoding", "ENCODING", quote_literal),
        ("lc_collate", "LC_COLLATE", quote_literal),
        ("lc_ctype", "LC_CTYPE", quote_literal),
    ];
    for (key, word, quote) in options {
        if let Some(value) = named_args.text(key) {
            words.push_str(&format!(" {word} = {}", quote(&value)));
        }
    }
    format!("CREATE DATABASE {}{words};", quote_ident(name))
}

/// Gives a database another owner or tablespace.
pub(crate) fn alter_database(
    psql: &PsqlClient,
    tools: &Tools<'_>,
    named_args: &NamedArgs<'_>,
    name: &str,
) -> Result<(), FunctionError> {
    let mut sql = String::new();
    if let Some(owner) = named_args.text("owner") {
        sql.push_str(&format!("ALTER DATABASE {} OWNER TO {};\n", quote_ident(name), quote_ident(&owner)));
        if named_args.is_enabled("owner_recurse") {
            reassign_owner(&psql.in_database(name), tools, &owner)?;
        }
    }
    if let Some(space) = named_args.text("tablespace") {
        sql.push_str(&format!(
            "ALTER DATABASE {} SET TABLESPACE {};\n",
            quote_ident(name),
            quote_ident(&space)
        ));
    }
    psql.run(tools, &sql).map(|_| ())
}

/// Gives everything in a database to one owner, in one transaction.
pub(crate) fn reassign_owner(psql: &PsqlClient, tools: &Tools<'_>, owner: &str) -> Result<(), FunctionError> {
    let ours = "NOT IN ('pg_catalog', 'information_schema', 'pg_toast')";
    let query = format!(
        "SELECT 'SCHEMA ' || quote_ident(nspname) AS what FROM pg_namespace WHERE nspname {ours} AND nspname NOT LIKE 'pg_%' \
         UNION ALL SELECT CASE relkind WHEN 'S' THEN 'SEQUENCE ' WHEN 'v' THEN 'VIEW ' WHEN 'm' THEN 'MATERIALIZED VIEW ' \
         ELSE 'TABLE ' END || c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE relkind IN ('r', 'p', 'v', 'm', 'S') AND nspname {ours} AND nspname NOT LIKE 'pg_%' \
         AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype IN ('a', 'i', 'e') AND relkind = 'S') \
         UNION ALL SELECT CASE WHEN EXISTS (SELECT 1 FROM pg_aggregate a WHERE a.aggfnoid = p.oid) THEN 'AGGREGATE ' \
         ELSE 'FUNCTION ' END || p.oid::regprocedure FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE nspname {ours}"
    );
    let mut sql = format!(
        "BEGIN;\nALTER DATABASE {} OWNER TO {};\n",
        quote_ident(psql.db.as_deref().unwrap_or("postgres")),
        quote_ident(owner)
    );
    for row in psql.rows(tools, &query)? {
        if let Some(what) = row.get("what").and_then(Value::as_str) {
            sql.push_str(&format!("ALTER {what} OWNER TO {};\n", quote_ident(owner)));
        }
    }
    psql.run(tools, &(sql + "COMMIT;\n")).map(|_| ())
}

/// The statements that disconnect all users of a database and drop it.
pub(crate) fn drop_database(name: &str) -> String {
    format!(
        "REVOKE CONNECT ON DATABASE {0} FROM public;\n\
         SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = {1} AND pid <> pg_backend_pid();\n\
         DROP DATABASE {0};\n",
        quote_ident(name),
        quote_literal(name)
    )
}

/// What a listing says of one name.
pub(crate) fn find_by_name<'m>(all: &'m Map, name: &str) -> Option<&'m Map> {
    all.get(name).and_then(Value::as_map)
}

/// All schemas of a database.
pub(crate) const LIST_SCHEMAS: &str = "SELECT nspname AS \"name\", nspacl AS \"acl\", r.rolname AS \"owner\" \
     FROM pg_namespace n LEFT JOIN pg_roles r ON r.oid = n.nspowner";

/// All extensions that a database has.
pub(crate) const LIST_EXTENSIONS: &str = "SELECT e.extname AS \"name\", e.*, n.nspname AS \"schema_name\" \
     FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace";

/// All extensions that a database could have.
pub(crate) const LIST_AVAILABLE_EXTENSIONS: &str =
    "SELECT name AS \"Name\", name, default_version, comment FROM pg_available_extensions()";

/// All tablespaces.
pub(crate) const LIST_TABLESPACES: &str = "SELECT spcname AS \"Name\", r.rolname AS \"Owner\", spcacl AS \"ACL\", spcoptions AS \"Opts\", \
     pg_tablespace_location(t.oid) AS \"Location\" FROM pg_tablespace t JOIN pg_roles r ON r.oid = t.spcowner";

/// All languages of a database.
pub(crate) const LIST_LANGUAGES: &str = "SELECT lanname AS \"Name\" FROM pg_language";

/// The statement that makes a schema.
pub(crate) fn create_schema(named_args: &NamedArgs<'_>, name: &str) -> String {
    let owner =
        named_args.text("owner").map(|o| format!(" AUTHORIZATION {}", quote_ident(&o))).unwrap_or_default();
    format!("CREATE SCHEMA {}{owner};", quote_ident(name))
}

/// The statement that makes a tablespace.
pub(crate) fn create_tablespace(
    named_args: &NamedArgs<'_>,
    name: &str,
    directory: &str,
) -> Result<String, FunctionError> {
    let owner = named_args.text("owner").map(|o| format!(" OWNER {}", quote_ident(&o))).unwrap_or_default();
    let options = named_args.pairs("options");
    let options: Vec<String> =
        options.iter().map(|(k, v)| tablespace_setting(k, v)).collect::<Result<_, _>>()?;
    let options = if options.is_empty() { String::new() } else { format!(" WITH ({})", options.join(", ")) };
    Ok(format!(
        "CREATE TABLESPACE {}{owner} LOCATION {}{options};",
        quote_ident(name),
        quote_literal(directory)
    ))
}

/// `seq_page_cost = 1.1` of a tablespace.
pub(crate) fn tablespace_setting(key: &Value, value: &Value) -> Result<String, FunctionError> {
    let number = value.as_number().or_else(|| value.as_str().and_then(|t| t.parse().ok()));
    let number =
        number.ok_or_else(|| FunctionError::bad_arguments("an option of a tablespace must be a number"))?;
    Ok(format!("{} = {number}", quote_ident(&key.json_key())))
}

/// The statements that install an extension, or move and update it; empty when there is nothing to do.
pub(crate) fn extension_sql(named_args: &NamedArgs<'_>, name: &str, now: Option<&Map>) -> String {
    let (schema, version) = (named_args.text("schema"), named_args.text("ext_version"));
    let Some(now) = now else {
        let exists = if named_args.flag("if_not_exists").unwrap_or(true) { " IF NOT EXISTS" } else { "" };
        let part =
            |word: &str, value: Option<String>| value.map(|v| format!(" {word} {v}")).unwrap_or_default();
        return format!(
            "CREATE EXTENSION{exists} {}{}{}{};",
            quote_ident(name),
            part("SCHEMA", schema.map(|s| quote_ident(&s))),
            part("VERSION", version.map(|v| quote_literal(&v))),
            part("FROM", named_args.text("from_version").map(|v| quote_literal(&v)))
        );
    };
    let text = |key: &str| now.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut sql = String::new();
    if let Some(schema) = schema.filter(|s| text("extrelocatable") == "t" && text("schema_name") != s) {
        sql.push_str(&format!(
            "ALTER EXTENSION {} SET SCHEMA {};\n",
            quote_ident(name),
            quote_ident(&schema)
        ));
    }
    if let Some(version) = version.filter(|v| is_older_version(text("extversion"), v)) {
        sql.push_str(&format!(
            "ALTER EXTENSION {} UPDATE TO {};\n",
            quote_ident(name),
            quote_literal(&version)
        ));
    }
    sql
}

/// The statement that takes an extension away.
pub(crate) fn drop_extension(named_args: &NamedArgs<'_>, name: &str) -> String {
    let cascade = if named_args.flag("cascade").unwrap_or(true) && !named_args.is_enabled("restrict") {
        " CASCADE"
    } else {
        ""
    };
    format!("DROP EXTENSION IF EXISTS {}{cascade};", quote_ident(name))
}

/// Compares versions by their numbers: `1.9` is older than `1.10`.
fn is_older_version(a: &str, b: &str) -> bool {
    let parts = |v: &str| {
        v.split(['.', '-']).map(|p| (p.parse::<u64>().unwrap_or(0), p.to_owned())).collect::<Vec<_>>()
    };
    parts(a) < parts(b)
}
