//! Statements in, rows of MySQL or MariaDB out, by their client.
//!
//! Law: statements go through standard input and how to connect through a file of our own that only we can read;
//! names and texts are quoted here and nowhere else (held by `texts_of_a_statement_stay_texts`,
//! `how_to_connect_is_quoted_and_its_key_has_no_password`).

use std::time::Duration;

use sha1::{Digest, Sha1};
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::named_args::NamedArgs;
use zagent_host::Tools;
use zagent_host::temp_file::PrivateTempFile;

const STATEMENT_TIMEOUT: Duration = Duration::from_secs(3600);

/// How an argument is called in the client's file.
const CONNECTION_OPTIONS: [(&str, &str); 6] = [
    ("connection_host", "host"),
    ("connection_user", "user"),
    ("connection_pass", "password"),
    ("connection_port", "port"),
    ("connection_unix_socket", "socket"),
    ("connection_charset", "default-character-set"),
];

/// Whom to ask, and as whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MysqlClient {
    options: Vec<(&'static str, String)>,
    file: Option<String>,
}

impl MysqlClient {
    /// By the arguments of a state or a function.
    pub(crate) fn new(named_args: &NamedArgs<'_>) -> Self {
        let options =
            CONNECTION_OPTIONS.iter().filter_map(|(key, _)| Some((*key, named_args.text(key)?))).collect();
        Self { options, file: named_args.text("connection_default_file") }
    }

    /// The key of a thing there, for the journal: without the password.
    pub(crate) fn journal_key(&self, parts: &[(&str, &str)]) -> Value {
        let mut key: Map = parts.iter().map(|(k, v)| (*k, Value::from(*v))).collect();
        for (name, value) in self.options.iter().filter(|(name, _)| *name != "connection_pass") {
            key.insert(*name, value.as_str());
        }
        if let Some(file) = &self.file {
            key.insert("connection_default_file", file.as_str());
        }
        key.into()
    }

    /// What the client reads: who asks whom.
    fn client_config(&self) -> Result<String, FunctionError> {
        let mut text = String::new();
        if let Some(file) = &self.file {
            text.push_str(&format!("!include {file}\n"));
        }
        text.push_str("[client]\n");
        for (key, value) in &self.options {
            if value.contains(['\n', '\r', '\0']) {
                return Err(FunctionError::bad_arguments(format!("`{key}` must be one line")));
            }
            let name = CONNECTION_OPTIONS.iter().find(|(k, _)| k == key).map_or("", |(_, name)| name);
            text.push_str(&format!("{name}=\"{}\"\n", value.replace('\\', "\\\\").replace('"', "\\\"")));
        }
        Ok(text)
    }

    /// What the client prints for some statements: lines of columns, the first line names them.
    pub(crate) fn run(
        &self,
        tools: &Tools<'_>,
        db: Option<&str>,
        sql: &[u8],
    ) -> Result<String, FunctionError> {
        let program = if tools.which("mysql").is_some() { "mysql" } else { "mariadb" };
        let file = PrivateTempFile::new(tools.machine, self.client_config()?.as_bytes(), ".cnf", None)
            .map_err(|e| FunctionError::failed(format!("cannot write how to connect: {e}")))?;
        let mut args = vec![format!("--defaults-file={}", file.path().display()), "--batch".to_owned()];
        args.extend(db.map(|db| format!("--database={db}")));
        let mut command = Tools::command(program, &args, STATEMENT_TIMEOUT);
        command.stdin = sql.to_vec();
        command.output_cap = 64 << 20;
        let output = tools.run(command)?;
        if output.is_success() {
            Ok(output.stdout)
        } else {
            Err(FunctionError::failed(first_error(output.message())))
        }
    }

    /// Runs statements of ours.
    pub(crate) fn execute(&self, tools: &Tools<'_>, sql: &str) -> Result<(), FunctionError> {
        self.run_quoted(tools, sql).map(|_| ())
    }

    fn run_quoted(&self, tools: &Tools<'_>, sql: &str) -> Result<String, FunctionError> {
        if sql.contains('\0') {
            return Err(FunctionError::bad_arguments("a zero byte cannot be in a statement"));
        }
        let mode = "SET SESSION sql_mode = REPLACE(REPLACE(@@sql_mode, 'NO_BACKSLASH_ESCAPES', ''), 'ANSI_QUOTES', '');\n";
        self.run(tools, None, format!("{mode}{sql}\n").as_bytes())
    }

    /// The rows of a query of ours, without the names of the columns.
    pub(crate) fn rows(&self, tools: &Tools<'_>, query: &str) -> Result<Vec<Vec<String>>, FunctionError> {
        let text = self.run_quoted(tools, &format!("{query};"))?;
        Ok(parse_rows(&text).into_iter().skip(1).collect())
    }

    /// The first column of a query of ours.
    pub(crate) fn column(&self, tools: &Tools<'_>, query: &str) -> Result<Vec<String>, FunctionError> {
        Ok(self.rows(tools, query)?.into_iter().filter_map(|row| row.into_iter().next()).collect())
    }

    /// The version of the server.
    pub(crate) fn version(&self, tools: &Tools<'_>) -> Result<String, FunctionError> {
        Ok(self.column(tools, "SELECT VERSION()")?.into_iter().next().unwrap_or_default())
    }

    /// The character set and collation of a database; none when there is no such database.
    pub(crate) fn find_database(
        &self,
        tools: &Tools<'_>,
        name: &str,
    ) -> Result<Option<(String, String)>, FunctionError> {
        let query = format!(
            "SELECT DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = {}",
            quote_literal(name)
        );
        let mut rows = self.rows(tools, &query)?.into_iter();
        Ok(rows.next().and_then(|r| Some((r.first()?.clone(), r.get(1)?.clone()))))
    }
}

/// The first complaint, without the statement.
fn first_error(words: &str) -> String {
    let line = words.lines().find(|l| l.starts_with("ERROR")).or_else(|| words.lines().next());
    line.unwrap_or("the client failed and did not say why").trim().to_owned()
}

/// Lines of columns, as the client writes them for machines.
pub(crate) fn parse_rows(text: &str) -> Vec<Vec<String>> {
    let unescape = |field: &str| {
        let (mut out, mut chars) = (String::new(), field.chars());
        while let Some(c) = chars.next() {
            match (c, if c == '\\' { chars.next() } else { None }) {
                ('\\', Some('n')) => out.push('\n'),
                ('\\', Some('t')) => out.push('\t'),
                ('\\', Some('0')) => out.push('\0'),
                ('\\', Some(other)) => out.push(other),
                (c, _) => out.push(c),
            }
        }
        out
    };
    text.lines().map(|line| line.split('\t').map(unescape).collect()).collect()
}

/// A name in a statement.
pub(crate) fn quote_ident(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A text in a statement.
pub(crate) fn quote_literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// `'frank'@'localhost'`.
pub(crate) fn account(user: &str, host: &str) -> String {
    format!("{}@{}", quote_literal(user), quote_literal(host))
}

/// The statement that makes a database, or gives one another character set.
pub(crate) fn database_sql(named_args: &NamedArgs<'_>, verb: &str, name: &str) -> String {
    let part = |key: &str, word: &str| {
        named_args.text(key).map(|v| format!(" {word} = {}", quote_literal(&v))).unwrap_or_default()
    };
    format!(
        "{verb} DATABASE {}{}{};",
        quote_ident(name),
        part("character_set", "CHARACTER SET"),
        part("collate", "COLLATE")
    )
}

/// What the server keeps of a password.
pub(crate) fn password_hash(password: &str) -> String {
    let twice = Sha1::digest(Sha1::digest(password));
    twice.iter().fold("*".to_owned(), |text, b| text + &format!("{b:02X}"))
}

/// An account as it is: its plugin and what is kept of its password.
pub(crate) fn find_user(
    mysql: &MysqlClient,
    tools: &Tools<'_>,
    user: &str,
    host: &str,
) -> Result<Option<(String, String)>, FunctionError> {
    let has = "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'mysql' AND TABLE_NAME = 'user' \
         AND COLUMN_NAME = 'Password'";
    let column = if mysql.column(tools, has)?.first().is_some_and(|n| n != "0") {
        "Password"
    } else {
        "authentication_string"
    };
    let query = format!(
        "SELECT plugin, {column} FROM mysql.user WHERE User = {} AND Host = {}",
        quote_literal(user),
        quote_literal(host)
    );
    let mut rows = mysql.rows(tools, &query)?.into_iter();
    Ok(rows.next().and_then(|r| Some((r.first()?.clone(), r.get(1)?.clone()))))
}

/// True when an account is as asked for.
pub(crate) fn user_matches(named_args: &NamedArgs<'_>, (plugin, kept): &(String, String)) -> bool {
    if named_args.is_enabled("unix_socket")
        && named_args.text("password").is_none()
        && named_args.text("password_hash").is_none()
    {
        return matches!(&**plugin, "unix_socket" | "auth_socket");
    }
    match (named_args.text("password"), named_args.text("password_hash")) {
        // What other plugins keep cannot be told from the password alone.
        (Some(password), _) => match &**plugin {
            "" | "mysql_native_password" => password_hash(&password).eq_ignore_ascii_case(kept),
            "caching_sha2_password" | "sha256_password" | "ed25519" | "parsec" => {
                !kept.is_empty() && named_args.text("auth_plugin").is_none_or(|p| p == *plugin)
            }
            other => named_args.text("auth_plugin").is_some_and(|p| p == other),
        },
        (None, Some(hash)) => hash.eq_ignore_ascii_case(kept),
        (None, None) => kept.is_empty(),
    }
}

/// True for MySQL 8 before 8.4, which no longer takes native passwords by itself.
fn uses_native_password(version: &str) -> bool {
    let mut parts = version.split(['.', '-']).map(|p| p.parse::<u32>().unwrap_or_default());
    !version.contains("MariaDB") && parts.next() == Some(8) && parts.next().is_some_and(|minor| minor < 4)
}

/// The statement that makes an account, or gives it another password.
pub(crate) fn user_sql(named_args: &NamedArgs<'_>, verb: &str, who: &str, version: &str) -> String {
    let is_maria = version.contains("MariaDB");
    // The one whose passwords can be compared, where the server still has it.
    let preset = || uses_native_password(version).then(|| "mysql_native_password".to_owned());
    let plugin = named_args.text("auth_plugin").or_else(preset);
    let by = match (named_args.text("password"), named_args.text("password_hash")) {
        (Some(password), _) => match plugin.filter(|_| !is_maria && !version.starts_with("5.")) {
            Some(plugin) => {
                format!(" IDENTIFIED WITH {} BY {}", quote_literal(&plugin), quote_literal(&password))
            }
            None => format!(" IDENTIFIED BY {}", quote_literal(&password)),
        },
        (None, Some(hash)) if is_maria => format!(" IDENTIFIED BY PASSWORD {}", quote_literal(&hash)),
        (None, Some(hash)) => {
            let plugin = plugin.unwrap_or_else(|| "mysql_native_password".to_owned());
            format!(" IDENTIFIED WITH {} AS {}", quote_literal(&plugin), quote_literal(&hash))
        }
        (None, None) if named_args.is_enabled("unix_socket") => {
            (if is_maria { " IDENTIFIED VIA unix_socket" } else { " IDENTIFIED WITH auth_socket" }).to_owned()
        }
        (None, None) if verb == "ALTER" => " IDENTIFIED BY ''".to_owned(),
        (None, None) => String::new(),
    };
    format!("{verb} USER {who}{by};")
}

/// Runs somebody's statements in a database, as `mysql.query` tells of it.
pub(crate) fn run_query(
    mysql: &MysqlClient,
    tools: &Tools<'_>,
    db: &str,
    sql: &[u8],
) -> Result<Map, FunctionError> {
    let mut lines = parse_rows(&mysql.run(tools, Some(db), sql)?).into_iter();
    let list = |row: Vec<String>| -> Value {
        let one = |field: String| if field == "NULL" { Value::Null } else { field.into() };
        row.into_iter().map(one).collect()
    };
    let mut told = Map::new();
    if let Some(names) = lines.next() {
        let results: Vec<Value> = lines.map(list).collect();
        told.insert("rows returned", i64::try_from(results.len()).unwrap_or(i64::MAX));
        told.insert("columns", list(names));
        told.insert("results", results);
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named_args::with_map_args;

    fn map(json: &str) -> Map {
        Value::from_json_str(json).unwrap().as_map().cloned().unwrap()
    }

    #[test]
    fn texts_of_a_statement_stay_texts() {
        assert_eq!(quote_ident("a`b"), "`a``b`");
        assert_eq!(quote_literal("it's \\' OR 1"), "'it''s \\\\'' OR 1'");
        assert_eq!(account("o'neil", "%"), "'o''neil'@'%'");
    }

    #[test]
    fn how_to_connect_is_quoted_and_its_key_has_no_password() {
        let args = map(
            r#"{"connection_user": "root", "connection_pass": "a\"b\\c", "connection_default_file": "/etc/my.cnf"}"#,
        );
        let mysql = with_map_args(&args, MysqlClient::new);
        assert_eq!(
            mysql.client_config().unwrap(),
            "!include /etc/my.cnf\n[client]\nuser=\"root\"\npassword=\"a\\\"b\\\\c\"\n"
        );
        let key = mysql.journal_key(&[("name", "frank")]);
        let told = serde_json::to_string(&key).unwrap();
        assert_eq!(
            told,
            r#"{"name":"frank","connection_user":"root","connection_default_file":"/etc/my.cnf"}"#
        );
        let wrong = map(r#"{"connection_pass": "a\n[mysqld]"}"#);
        assert!(with_map_args(&wrong, MysqlClient::new).client_config().is_err());
    }

    #[test]
    fn lines_of_the_client() {
        assert_eq!(parse_rows("a\tb\nx\\ty\\\\z\tNULL\n"), [["a", "b"], ["x\ty\\z", "NULL"]]);
    }

    #[test]
    fn a_password_is_compared_with_what_is_kept() {
        // What `SELECT PASSWORD('secret')` says.
        assert_eq!(password_hash("secret"), "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7");
        let kept = |plugin: &str, kept: &str| (plugin.to_owned(), kept.to_owned());
        let is = |json: &str, now: &(String, String)| with_map_args(&map(json), |g| user_matches(g, now));
        let now = kept("mysql_native_password", "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7");
        assert!(is(r#"{"password": "secret"}"#, &now));
        assert!(!is(r#"{"password": "other"}"#, &now));
        assert!(is(r#"{"password_hash": "*14e65567ABDB5135D0CFD9A70B3032C179A49EE7"}"#, &now));
        assert!(!is(r#"{"allow_passwordless": true}"#, &now));
        assert!(is(r#"{"allow_passwordless": true, "unix_socket": true}"#, &kept("unix_socket", "")));
        let sha = kept("caching_sha2_password", "$A$005$x");
        assert!(is(r#"{"password": "secret"}"#, &sha));
        assert!(!is(r#"{"password": "secret", "auth_plugin": "mysql_native_password"}"#, &sha));
        assert!(!is(r#"{"password": "secret"}"#, &kept("caching_sha2_password", "")));
        assert!(!is(r#"{"password": "secret"}"#, &kept("unix_socket", "")));
    }

    #[test]
    fn passwords_are_native_where_they_can_be() {
        let sql = |version: &str| {
            with_map_args(&map(r#"{"password": "pw"}"#), |g| user_sql(g, "CREATE", "'a'@'%'", version))
        };
        let native = "CREATE USER 'a'@'%' IDENTIFIED WITH 'mysql_native_password' BY 'pw';";
        assert_eq!(sql("8.0.35-0ubuntu0.22.04.1"), native);
        for other in ["8.4.0", "9.1.0", "5.7.44", "10.11.6-MariaDB-0+deb12u1"] {
            assert_eq!(sql(other), "CREATE USER 'a'@'%' IDENTIFIED BY 'pw';");
        }
    }
}
