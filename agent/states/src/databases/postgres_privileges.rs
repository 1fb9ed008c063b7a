//! Privileges of PostgreSQL: an object and a role in, what the role may do with it and the statements that change it out.
//!
//! Names of objects come quoted from the server itself, and a privilege is one that the server knows for such objects.

use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use super::psql::{PsqlClient, quote_ident, quote_literal};
use crate::named_args::NamedArgs;
use zagent_host::Tools;

/// A kind of objects: its name, the server's letter for it, and what selects `what`, `owner` and `acl` of it. `$s` stands for
/// the schema, `$n` for the name, `$w` for "this name or all".
type ObjectKind = (&'static str, &'static str, &'static str);

const SELECT_RELATION: &str = "SELECT quote_ident(nspname) || '.' || quote_ident(relname) AS what, relowner AS owner, relacl AS acl \
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname = $s AND ($a OR relname = $n) AND relkind IN ";

const OBJECT_KINDS: [ObjectKind; 7] = [
    ("table", "r", "('r', 'v', 'm', 'p', 'f')"),
    ("sequence", "s", "('S')"),
    (
        "function",
        "f",
        "SELECT format('%I.%I(%s)', nspname, proname, pg_get_function_identity_arguments(p.oid)) AS what, proowner AS owner, \
         proacl AS acl FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE nspname = $s AND ($a OR \
         p.oid::regprocedure::text = $n OR proname || '(' || pg_get_function_identity_arguments(p.oid) || ')' = $n)",
    ),
    (
        "schema",
        "n",
        "SELECT quote_ident(nspname) AS what, nspowner AS owner, nspacl AS acl FROM pg_namespace WHERE nspname = $n",
    ),
    (
        "tablespace",
        "t",
        "SELECT quote_ident(spcname) AS what, spcowner AS owner, spcacl AS acl FROM pg_tablespace WHERE spcname = $n",
    ),
    (
        "language",
        "l",
        "SELECT quote_ident(lanname) AS what, lanowner AS owner, lanacl AS acl FROM pg_language WHERE lanname = $n",
    ),
    (
        "database",
        "d",
        "SELECT quote_ident(datname) AS what, datdba AS owner, datacl AS acl FROM pg_database WHERE datname = $n",
    ),
];

/// What is asked for: a role, an object (or all of a schema) and privileges.
pub(crate) struct PrivilegeRequest {
    pub(crate) role: String,
    /// The object, or the group for a membership.
    pub(crate) object: String,
    kind: Option<ObjectKind>,
    schema: String,
    /// In capitals; `ALL` stands for all that there are.
    pub(crate) privileges: Vec<String>,
    grant_option: bool,
}

impl PrivilegeRequest {
    /// Reads it.
    pub(crate) fn new(named_args: &NamedArgs<'_>) -> Result<Self, FunctionError> {
        let kind = named_args.require_text("object_type")?.to_ascii_lowercase();
        let found = OBJECT_KINDS.into_iter().find(|(name, _, _)| *name == kind);
        let privileges: Vec<String> = named_args
            .text_list("privileges")
            .unwrap_or_default()
            .iter()
            .map(|p| p.trim().to_ascii_uppercase())
            .collect();
        match (found, privileges.is_empty()) {
            (None, _) if kind != "group" => {
                return Err(FunctionError::bad_arguments(format!("Invalid object_type: {kind} provided")));
            }
            (None, false) => {
                return Err(FunctionError::bad_arguments(
                    "The privileges option should not be set for object_type group",
                ));
            }
            (Some(_), true) => return Err(FunctionError::bad_arguments("`privileges` must be given")),
            _ => {}
        }
        if let Some(bad) = privileges.iter().find(|p| !p.bytes().all(|b| b.is_ascii_uppercase() || b == b' '))
        {
            return Err(FunctionError::bad_arguments(format!(
                "Invalid privilege(s): {bad} provided for object {kind}"
            )));
        }
        Ok(Self {
            role: named_args.require_text("name")?,
            object: named_args.require_text("object_name")?,
            kind: found,
            schema: named_args.text("prepend").unwrap_or_else(|| "public".to_owned()),
            privileges,
            grant_option: named_args.is_enabled("grant_option"),
        })
    }

    /// What the role may do: by object a mapping of privileges to whether they can be passed on.
    pub(crate) fn current_privileges(
        &self,
        psql: &PsqlClient,
        tools: &Tools<'_>,
    ) -> Result<Map, FunctionError> {
        let query = match self.kind {
            None => format!(
                "SELECT quote_ident(g.rolname) AS what, CASE WHEN m.roleid IS NULL THEN NULL ELSE 'MEMBER' END AS priv, \
                 m.admin_option AS passed FROM pg_roles g LEFT JOIN pg_auth_members m ON m.roleid = g.oid AND m.member = \
                 (SELECT oid FROM pg_roles WHERE rolname = {}) WHERE g.rolname = {}",
                quote_literal(&self.role),
                quote_literal(&self.object)
            ),
            Some((_, letter, select)) => {
                let relation = if select.starts_with('(') { SELECT_RELATION } else { "" };
                let objects = format!("{relation}{select}")
                    .replace("$s", &quote_literal(&self.schema))
                    .replace("$a", if self.is_whole_schema() { "true" } else { "false" })
                    .replace("$n", &quote_literal(&self.object));
                format!(
                    "SELECT o.what, x.privilege_type AS priv, x.is_grantable AS passed FROM ({objects}) o LEFT JOIN LATERAL \
                     (SELECT * FROM aclexplode(coalesce(o.acl, acldefault('{letter}', o.owner))) e WHERE CASE e.grantee \
                     WHEN 0 THEN 'public' ELSE pg_get_userbyid(e.grantee) END = {}) x ON true ORDER BY 1, 2",
                    quote_literal(&self.role)
                )
            }
        };
        let mut all = Map::new();
        for row in psql.rows(tools, &query)? {
            let text = |key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default();
            if !all.contains(text("what")) {
                all.insert(text("what"), Map::new());
            }
            if let Some(Value::Map(_)) = all.get(text("what")).filter(|_| !text("priv").is_empty()) {
                let mut held = all.get(text("what")).and_then(Value::as_map).cloned().unwrap_or_default();
                held.insert(text("priv"), text("passed") == "t");
                all.insert(text("what"), held);
            }
        }
        Ok(all)
    }

    /// The privileges one by one.
    fn expand_privileges(&self, psql: &PsqlClient, tools: &Tools<'_>) -> Result<Vec<String>, FunctionError> {
        let Some((_, letter, _)) = self.kind else { return Ok(vec!["MEMBER".to_owned()]) };
        if !self.privileges.iter().any(|p| p.starts_with("ALL")) {
            return Ok(self.privileges.clone());
        }
        let query = format!("SELECT DISTINCT privilege_type FROM aclexplode(acldefault('{letter}', 10))");
        Ok(psql.rows_by_name(tools, &query)?.keys().map(Value::json_key).collect())
    }

    /// True when the role has everything that is asked for (`all`), or some of it.
    pub(crate) fn has_privileges(
        &self,
        psql: &PsqlClient,
        tools: &Tools<'_>,
        all: bool,
    ) -> Result<bool, FunctionError> {
        let (now, wanted) = (self.current_privileges(psql, tools)?, self.expand_privileges(psql, tools)?);
        let mut each = now.values().filter_map(Value::as_map).flat_map(|held| {
            wanted
                .iter()
                .map(move |p| held.get(p).is_some_and(|passed| !self.grant_option || passed.is_truthy()))
        });
        Ok(if all {
            (self.is_whole_schema() || !now.is_empty()) && each.all(|held| held)
        } else {
            each.any(|held| held)
        })
    }

    fn is_whole_schema(&self) -> bool {
        self.object.eq_ignore_ascii_case("all")
            && self.kind.is_some_and(|(k, _, _)| matches!(k, "table" | "sequence" | "function"))
    }

    /// The statement that grants or revokes what is asked for.
    pub(crate) fn change_sql(&self, grants: bool, now: &Map) -> Result<String, FunctionError> {
        let role = quote_grantee(&self.role);
        let (verb, to) = if grants { ("GRANT", "TO") } else { ("REVOKE", "FROM") };
        let Some((kind, _, _)) = self.kind else {
            let admin = if grants && self.grant_option { " WITH ADMIN OPTION" } else { "" };
            return Ok(format!("{verb} {} {to} {role}{admin};", quote_ident(&self.object)));
        };
        if now.is_empty() && !self.is_whole_schema() {
            return Err(FunctionError::failed(format!("there is no {kind} {}", self.object)));
        }
        let passed = if grants && self.grant_option { " WITH GRANT OPTION" } else { "" };
        let (privileges, kind) = (self.privileges.join(", "), kind.to_ascii_uppercase());
        let one = |what: &Value| {
            format!("{verb} {privileges} ON {kind} {} {to} {role}{passed};\n", what.json_key())
        };
        Ok(now.keys().map(one).collect())
    }

    /// The statements that give a role what it had once.
    pub(crate) fn restore_sql(&self, was: &Map) -> String {
        let role = quote_grantee(&self.role);
        let mut sql = String::new();
        for (what, held) in was.iter() {
            let what = what.json_key();
            let kind = self.kind.map(|(k, _, _)| k.to_ascii_uppercase());
            match &kind {
                None => sql.push_str(&format!("REVOKE {what} FROM {role};\n")),
                Some(kind) => sql.push_str(&format!("REVOKE ALL ON {kind} {what} FROM {role};\n")),
            }
            for (privilege, passed) in held.as_map().into_iter().flat_map(Map::iter) {
                sql.push_str(&match (&kind, passed.is_truthy()) {
                    (None, true) => format!("GRANT {what} TO {role} WITH ADMIN OPTION;\n"),
                    (None, false) => format!("GRANT {what} TO {role};\n"),
                    (Some(kind), passed) => {
                        let passed = if passed { " WITH GRANT OPTION" } else { "" };
                        format!("GRANT {} ON {kind} {what} TO {role}{passed};\n", privilege.json_key())
                    }
                });
            }
        }
        sql
    }
}

fn quote_grantee(role: &str) -> String {
    if role.eq_ignore_ascii_case("public") { "PUBLIC".to_owned() } else { quote_ident(role) }
}
