//! Statements in, rows of PostgreSQL out, by its client `psql`.
//!
//! Law: statements go through standard input and the password through the environment, so that no list of processes
//! shows them; names and texts are quoted here and nowhere else (held by `texts_of_a_statement_stay_texts`,
//! `a_complaint_does_not_repeat_the_statement`).

use std::time::Duration;

use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::named_args::NamedArgs;
use zagent_host::Tools;
use zagent_host::command_options::RunAsUser;

/// How long a statement may take.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(3600);

/// Whom to ask, and as whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PsqlClient {
    /// The system user that runs the client.
    runas: Option<String>,
    host: Option<String>,
    port: Option<String>,
    user: Option<String>,
    password: Option<String>,
    /// The database that is worked in.
    pub(crate) db: Option<String>,
}

impl PsqlClient {
    /// By the arguments of a state (and of functions about schemas).
    pub(crate) fn from_state_args(named_args: &NamedArgs<'_>) -> Self {
        Self::from_keys(named_args, ["user", "db_host", "db_port", "db_user", "db_password"])
    }

    /// By the arguments of a function.
    pub(crate) fn from_function_args(named_args: &NamedArgs<'_>) -> Self {
        Self::from_keys(named_args, ["runas", "host", "port", "user", "password"])
    }

    fn from_keys(named_args: &NamedArgs<'_>, [runas, host, port, user, password]: [&str; 5]) -> Self {
        let host = named_args.text(host);
        let runas =
            named_args.text(runas).or_else(|| uses_socket(host.as_ref()).then(|| "postgres".to_owned()));
        let user = named_args.text(user).or_else(|| runas.clone());
        let db = named_args.text("maintenance_db");
        Self { runas, host, port: named_args.text(port), user, password: named_args.text(password), db }
    }

    /// The same in another database.
    pub(crate) fn in_database(&self, db: &str) -> Self {
        Self { db: Some(db.to_owned()), ..self.clone() }
    }

    /// The key of a thing there, for the journal: without the password.
    pub(crate) fn journal_key(&self, name: &str) -> Value {
        let mut key = Map::from_iter([("name", Value::from(name))]);
        let is_local = uses_socket(self.host.as_ref());
        // What `by` would say anyway is left out.
        let parts = [
            ("runas", &self.runas, is_local && self.runas.as_deref() == Some("postgres")),
            ("host", &self.host, false),
            ("port", &self.port, false),
            ("user", &self.user, self.user == self.runas),
            ("maintenance_db", &self.db, self.db.as_deref() == Some("postgres")),
        ];
        for (part, value, _) in parts.iter().filter(|(_, _, is_usual)| !is_usual) {
            if let Some(value) = value {
                key.insert(*part, value.as_str());
            }
        }
        if key.len() == 1 { name.into() } else { key.into() }
    }

    /// Whom a key of the journal speaks of.
    pub(crate) fn from_journal_key(named_args: &NamedArgs<'_>) -> Self {
        Self::from_function_args(named_args)
    }

    /// What the client prints for some statements.
    pub(crate) fn run(&self, tools: &Tools<'_>, sql: &str) -> Result<String, FunctionError> {
        if sql.contains('\0') {
            return Err(FunctionError::bad_arguments("a zero byte cannot be in a statement"));
        }
        let args = ["-X", "-q", "-A", "-t", "-w", "-v", "ON_ERROR_STOP=1"];
        let mut command = Tools::command("psql", &args, STATEMENT_TIMEOUT);
        command.stdin = sql.as_bytes().to_vec();
        command.output_cap = 64 << 20;
        let db = Some(self.db.clone().unwrap_or_else(|| "postgres".to_owned()));
        let variables = [
            ("PGHOST", &self.host),
            ("PGPORT", &self.port),
            ("PGUSER", &self.user),
            ("PGPASSWORD", &self.password),
            ("PGDATABASE", &db),
        ];
        for (name, value) in variables {
            if let Some(value) = value {
                command.env.push((name.into(), value.into()));
            }
        }
        if let Some(name) = &self.runas {
            let account = RunAsUser::find(tools.machine, name).map_err(FunctionError::failed)?;
            command.env.push(("HOME".into(), account.home.into()));
            command.user = Some(account.ids);
        }
        let output = tools.run(command)?;
        if output.is_success() {
            Ok(output.stdout)
        } else {
            Err(FunctionError::failed(first_error(output.message())))
        }
    }

    /// The rows of a query; what is null is an empty text.
    pub(crate) fn rows(&self, tools: &Tools<'_>, query: &str) -> Result<Vec<Map>, FunctionError> {
        let query = query.trim().trim_end_matches(';');
        let sql = format!(
            "SET default_transaction_read_only = on;\nSET datestyle = 'ISO, MDY';\nCOPY ({query}\n) TO STDOUT WITH CSV HEADER;\n"
        );
        Ok(parse_csv_table(&self.run(tools, &sql)?))
    }

    /// The rows of a query by their first column, as Salt shows them.
    pub(crate) fn rows_by_name(&self, tools: &Tools<'_>, query: &str) -> Result<Map, FunctionError> {
        let mut all = Map::new();
        for mut row in self.rows(tools, query)? {
            let Some(first) = row.keys().next().and_then(Value::as_str).map(str::to_owned) else { continue };
            if let Some(name) = row.remove(&first) {
                all.insert(name, row);
            }
        }
        Ok(all)
    }
}

/// True when the server is asked by a socket.
fn uses_socket(host: Option<&String>) -> bool {
    host.is_none_or(|h| h.starts_with('/'))
}

/// The first line of what went wrong: `ERROR:  role "x" already exists`. Later ones repeat the statement, which may hold a
/// password.
fn first_error(words: &str) -> String {
    let line =
        words.lines().find(|l| l.contains("ERROR:") || l.contains("FATAL:")).or_else(|| words.lines().next());
    line.unwrap_or("psql failed and did not say why").trim().to_owned()
}

/// A name in a statement.
pub(crate) fn quote_ident(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in a statement, whatever the server makes of backslashes.
pub(crate) fn quote_literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if doubled.contains('\\') {
        format!(" E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    }
}

/// CSV with a header, as mappings.
fn parse_csv_table(text: &str) -> Vec<Map> {
    let mut lines = parse_csv_records(text).into_iter();
    let header = lines.next().unwrap_or_default();
    let row = |line: Vec<String>| {
        Map::from_iter(header.iter().map(|h| Value::from(h.as_str())).zip(line.into_iter().map(Value::from)))
    };
    lines.map(row).collect()
}

fn parse_csv_records(text: &str) -> Vec<Vec<String>> {
    let (mut all, mut line, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut chars = text.chars().peekable();
    let mut is_quoted = false;
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => line.push(std::mem::take(&mut field)),
            '\n' if !is_quoted => {
                line.push(std::mem::take(&mut field));
                all.push(std::mem::take(&mut line));
            }
            other => field.push(other),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_statement_stay_texts() {
        assert_eq!(quote_ident("a\"; DROP ROLE b; --"), "\"a\"\"; DROP ROLE b; --\"");
        assert_eq!(quote_literal("it's"), "'it''s'");
        assert_eq!(quote_literal("a\\'; --"), " E'a\\\\''; --'");
    }

    #[test]
    fn rows_with_commas_quotes_and_lines() {
        let rows =
            parse_csv_table("Name,Access privileges\nx,\"{=Tc/postgres,a=\"\"b\"\"}\"\n\"two\nlines\",\n");
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].get("Access privileges"), Some(&Value::from("{=Tc/postgres,a=\"b\"}")));
        assert_eq!(rows[1].get("Name"), Some(&Value::from("two\nlines")));
        assert_eq!(rows[1].get("Access privileges"), Some(&Value::from("")));
    }

    #[test]
    fn a_complaint_does_not_repeat_the_statement() {
        let output =
            "psql:<stdin>:1: ERROR:  role \"x\" already exists\nSTATEMENT:  CREATE ROLE x PASSWORD 'pw'";
        assert_eq!(first_error(output), "psql:<stdin>:1: ERROR:  role \"x\" already exists");
    }

    #[test]
    fn a_key_holds_no_password_and_leads_back() {
        let all = [
            (
                r#"{"db_host": "db1", "db_port": 5433, "db_user": "adm", "db_password": "pw"}"#,
                r#"{"name":"frank","host":"db1","port":"5433","user":"adm"}"#,
            ),
            (
                r#"{"db_host": "db1", "db_user": "postgres"}"#,
                r#"{"name":"frank","host":"db1","user":"postgres"}"#,
            ),
            (
                r#"{"user": "bob", "db_user": "postgres"}"#,
                r#"{"name":"frank","runas":"bob","user":"postgres"}"#,
            ),
            (r#"{"user": "postgres", "db_password": "pw"}"#, r#""frank""#),
        ];
        for (json, want) in all {
            let args = Value::from_json_str(json).unwrap().as_map().cloned().unwrap();
            let psql = crate::named_args::with_map_args(&args, PsqlClient::from_state_args);
            let key = psql.journal_key("frank");
            assert_eq!(serde_json::to_string(&key).unwrap(), want);
            let none = Map::new();
            let back =
                crate::named_args::with_map_args(key.as_map().unwrap_or(&none), PsqlClient::from_journal_key);
            assert_eq!(back, PsqlClient { password: None, ..psql });
        }
    }
}
