//! Grants of MySQL and MariaDB: what is asked for and what `SHOW GRANTS` says in, whether it is there and the statement out.

use zagent_config::FunctionError;
use zagent_config::Value;

use super::mysql::{MysqlClient, account, quote_ident, quote_literal};
use crate::named_args::NamedArgs;
use zagent_host::Tools;

/// What is asked for.
pub(crate) struct MysqlGrant {
    /// In capitals: `SELECT`, `UPDATE (COLUMN)`.
    privileges: Vec<String>,
    /// As it is written in a statement: `` `db`.* ``.
    target: String,
    /// `'frank'@'localhost'`.
    account: String,
    pub(crate) user: String,
    pub(crate) host: String,
    grant_option: bool,
    require: String,
}

/// Names that the server answers with others.
const ALIASES: [(&str, &str); 4] = [
    ("ALL", "ALL PRIVILEGES"),
    ("REPLICATION REPLICA", "REPLICATION SLAVE"),
    ("REPLICATION CLIENT", "BINLOG MONITOR"),
    ("REPLICA MONITOR", "SLAVE MONITOR"),
];

impl MysqlGrant {
    /// Reads it.
    pub(crate) fn new(named_args: &NamedArgs<'_>) -> Result<Self, FunctionError> {
        let text = named_args.text_list("grant").unwrap_or_default().join(",");
        let privileges = split_privileges(&text);
        let is_word = |p: &&String| p.chars().all(|c| c.is_ascii_alphanumeric() || " _(),".contains(c));
        if privileges.is_empty() || !privileges.iter().all(|p| is_word(&p)) {
            return Err(FunctionError::bad_arguments(format!("Invalid grant : '{text}'")));
        }
        let database = named_args.require_text("database")?;
        let (db, table) = database.rsplit_once('.').unwrap_or((&database, "*"));
        let place = match named_args.flag("escape").unwrap_or(true) {
            true => {
                let db = match db {
                    "*" => "*".to_owned(),
                    // On the level of a database these two are wildcards.
                    db if table == "*" => quote_ident(db).replace('_', "\\_").replace('%', "\\%"),
                    db => quote_ident(db),
                };
                format!("{db}.{}", if table == "*" { "*".to_owned() } else { quote_ident(table) })
            }
            false => unescaped_target(db, table)?,
        };
        let user = named_args.get("user").map(zagent_host::command_options::value_text).unwrap_or_default();
        let host = named_args.text("host").unwrap_or_else(|| "localhost".to_owned());
        let who = account(&user, &host);
        Ok(Self {
            privileges,
            target: place,
            account: who,
            user,
            host,
            grant_option: named_args.is_enabled("grant_option"),
            require: require_clause(named_args)?,
        })
    }

    /// True when it is there.
    pub(crate) fn is_granted(&self, lines: &[String], version: &str, everything: &[String]) -> bool {
        let is_maria = version.contains("MariaDB");
        let name = |p: &String| {
            let found = ALIASES.iter().find(|(from, _)| from == p && (is_maria || *from == "ALL"));
            found.map_or_else(|| p.clone(), |(_, to)| (*to).to_owned())
        };
        let (mut held, mut passes): (Vec<String>, bool) = (Vec::new(), false);
        for (privileges, place, passed) in lines.iter().filter_map(|l| parse_grant_line(l)) {
            if unquote_target(&place) == unquote_target(&self.target) {
                held.extend(privileges.iter().map(name));
                passes |= passed;
            }
        }
        let has_all = held.iter().any(|p| p == "ALL PRIVILEGES");
        let has = |wanted: &String| match &*name(wanted) {
            "ALL PRIVILEGES" if !has_all => {
                !everything.is_empty() && everything.iter().all(|p| held.contains(p))
            }
            "USAGE" => !held.is_empty(),
            name => has_all || held.iter().any(|h| h == name),
        };
        (passes || !self.grant_option) && self.privileges.iter().all(has)
    }

    /// The statement that grants it.
    pub(crate) fn grant_sql(&self) -> String {
        let passes = if self.grant_option { " WITH GRANT OPTION" } else { "" };
        format!(
            "GRANT {} ON {} TO {}{}{passes};",
            self.privileges.join(", "),
            self.target,
            self.account,
            self.require
        )
    }

    /// The statement that revokes it.
    pub(crate) fn revoke_sql(&self) -> String {
        let passes = if self.grant_option { ", GRANT OPTION" } else { "" };
        format!("REVOKE {}{passes} ON {} FROM {};", self.privileges.join(", "), self.target, self.account)
    }
}

/// A place that is written as the server has it, wildcards and all.
fn unescaped_target(db: &str, table: &str) -> Result<String, FunctionError> {
    let part = |p: &str| match p {
        "*" => "*".to_owned(),
        p => quote_ident(p.trim_matches('`')),
    };
    if db.trim_matches('`').contains('`') || table.trim_matches('`').contains('`') {
        return Err(FunctionError::bad_arguments("`database` has quotes in the middle"));
    }
    Ok(format!("{}.{}", part(db), part(table)))
}

fn require_clause(named_args: &NamedArgs<'_>) -> Result<String, FunctionError> {
    let mut words = Vec::new();
    for (key, value) in named_args.pairs("ssl_option").iter() {
        match &*key.json_key().trim().to_ascii_uppercase() {
            word @ ("CIPHER" | "ISSUER" | "SUBJECT") => {
                words.push(format!("{word} {}", quote_literal(&value.json_key())));
            }
            word @ ("SSL" | "X509") if value.is_truthy() => words.push(word.to_owned()),
            "SSL" | "X509" => {}
            other => return Err(FunctionError::bad_arguments(format!("Invalid SSL option : '{other}'"))),
        }
    }
    Ok(if words.is_empty() { String::new() } else { format!(" REQUIRE {}", words.join(" AND ")) })
}

/// Privileges between commas, in capitals, with the columns of each.
fn split_privileges(text: &str) -> Vec<String> {
    let (mut all, mut one, mut depth) = (Vec::new(), String::new(), 0_u32);
    for c in text.chars().chain([',']) {
        match c {
            ',' if depth == 0 => {
                let words: Vec<&str> = one.split_whitespace().collect();
                all.extend((!words.is_empty()).then(|| space_columns(&words.join(" "))));
                one.clear();
            }
            '`' => {}
            c => {
                depth = match c {
                    '(' => depth + 1,
                    ')' => depth.saturating_sub(1),
                    _ => depth,
                };
                one.push(c.to_ascii_uppercase());
            }
        }
    }
    all
}

/// `SELECT(a,b)` as `SELECT (a, b)`.
fn space_columns(text: &str) -> String {
    text.replace(" (", "(").replace(", ", ",").replace('(', " (").replace(',', ", ")
}

/// A line of `SHOW GRANTS`: privileges, the place, and whether they can be passed on; none when it grants something else.
fn parse_grant_line(text: &str) -> Option<(Vec<String>, String, bool)> {
    let rest = text.strip_prefix("GRANT ")?;
    let (privileges, rest) = split_outside_quotes(rest, " ON ")?;
    let (place, rest) = split_outside_quotes(rest, " TO ")?;
    Some((split_privileges(privileges), place.to_owned(), rest.ends_with("WITH GRANT OPTION")))
}

/// Cuts at a word that is not inside quotes.
fn split_outside_quotes<'t>(text: &'t str, word: &str) -> Option<(&'t str, &'t str)> {
    let mut quoted = None;
    for (at, c) in text.char_indices() {
        match quoted {
            Some(quote) if c == quote => quoted = None,
            Some(_) => {}
            None if c == '`' || c == '\'' => quoted = Some(c),
            None if text[at..].starts_with(word) => return Some((&text[..at], &text[at + word.len()..])),
            None => {}
        }
    }
    None
}

fn unquote_target(place: &str) -> String {
    place.replace(['`', '\\', '"'], "")
}

/// What `SHOW GRANTS` says of an account; nothing when there is no such account.
pub(crate) fn show_grants(
    mysql: &MysqlClient,
    tools: &Tools<'_>,
    user: &str,
    host: &str,
) -> Result<Vec<String>, FunctionError> {
    if super::mysql::find_user(mysql, tools, user, host)?.is_none() {
        return Ok(Vec::new());
    }
    mysql.column(tools, &format!("SHOW GRANTS FOR {}", account(user, host)))
}

/// Whether a grant is there.
pub(crate) fn is_granted(
    mysql: &MysqlClient,
    tools: &Tools<'_>,
    grant: &MysqlGrant,
) -> Result<bool, FunctionError> {
    let version = mysql.version(tools)?;
    // MySQL 8 answers `ALL` with all of their names.
    let everything = if version.contains("MariaDB") || grant.target != "*.*" {
        Vec::new()
    } else {
        let all = mysql.column(tools, "SHOW PRIVILEGES")?.into_iter().map(|p| p.to_ascii_uppercase());
        all.filter(|p| !matches!(&**p, "USAGE" | "GRANT OPTION" | "PROXY")).collect()
    };
    Ok(grant.is_granted(&show_grants(mysql, tools, &grant.user, &grant.host)?, &version, &everything))
}

/// Grants as a list, for a caller or the journal.
pub(crate) fn grants_value(lines: Vec<String>) -> Value {
    lines.into_iter().map(Value::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named_args::with_map_args;

    fn grant(json: &str) -> Result<MysqlGrant, FunctionError> {
        with_map_args(Value::from_json_str(json).unwrap().as_map().unwrap(), MysqlGrant::new)
    }

    #[test]
    fn statements_are_quoted() {
        let it = grant(
            r#"{"grant": "select, insert (a, b)", "database": "my_db.*", "user": "o'n", "host": "%", "grant_option": true}"#,
        );
        let it = it.unwrap();
        assert_eq!(
            it.grant_sql(),
            "GRANT SELECT, INSERT (A, B) ON `my\\_db`.* TO 'o''n'@'%' WITH GRANT OPTION;"
        );
        assert_eq!(
            it.revoke_sql(),
            "REVOKE SELECT, INSERT (A, B), GRANT OPTION ON `my\\_db`.* FROM 'o''n'@'%';"
        );
        assert!(grant(r#"{"grant": "SELECT; DROP", "database": "x.*", "user": "a"}"#).is_err());
        let table = grant(r#"{"grant": "all", "database": "a_b.c_d", "user": "a"}"#).unwrap();
        assert_eq!(table.grant_sql(), "GRANT ALL ON `a_b`.`c_d` TO 'a'@'localhost';");
    }

    #[test]
    fn what_mariadb_shows() {
        let lines: Vec<String> = [
            "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `frank`@`localhost` IDENTIFIED BY PASSWORD '*14E6'",
            "GRANT SELECT, INSERT, UPDATE (`a`, `b`) ON `my\\_db`.* TO `frank`@`localhost`",
            "GRANT ALL PRIVILEGES ON `b ON c`.* TO `frank`@`localhost` WITH GRANT OPTION",
        ]
        .map(str::to_owned)
        .to_vec();
        let is = |json: &str| grant(json).unwrap().is_granted(&lines, "10.11.6-MariaDB-0+deb12u1", &[]);
        assert!(is(r#"{"grant": "REPLICATION CLIENT", "database": "*.*", "user": "frank"}"#));
        assert!(is(r#"{"grant": "insert,select", "database": "my_db.*", "user": "frank"}"#));
        assert!(is(r#"{"grant": "update(a,b)", "database": "my_db.*", "user": "frank"}"#));
        assert!(is(r#"{"grant": "UPDATE (a, b)", "database": "my_db.*", "user": "frank"}"#));
        assert!(!is(r#"{"grant": "DELETE", "database": "my_db.*", "user": "frank"}"#));
        assert!(!is(r#"{"grant": "SELECT", "database": "my_db.*", "user": "frank", "grant_option": true}"#));
        assert!(is(
            r#"{"grant": ["select", "drop"], "database": "b ON c.*", "user": "frank", "grant_option": true}"#
        ));
    }

    #[test]
    fn mysql_8_lists_all_one_by_one() {
        let lines = vec!["GRANT SELECT, INSERT, SHUTDOWN ON *.* TO `a`@`%`".to_owned()];
        let wish = grant(r#"{"grant": "ALL", "database": "*.*", "user": "a", "host": "%"}"#).unwrap();
        let names = |all: &[&str]| all.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
        assert!(wish.is_granted(&lines, "8.0.36", &names(&["SELECT", "INSERT", "SHUTDOWN"])));
        assert!(!wish.is_granted(&lines, "8.0.36", &names(&["SELECT", "INSERT", "SHUTDOWN", "SUPER"])));
    }
}
