//! States of the module `mysql_grants`: what the accounts of MySQL may do.

pub(crate) mod functions;

use zagent_config::Value;

use crate::databases::mysql::{MysqlClient, account, quote_literal};
use crate::databases::mysql_grant::{self, MysqlGrant};
use crate::named_args::NamedArgs;
use crate::shared::mysql::{MYSQL_LOGIN, run_statement, user_and_host};
use crate::shared::planned_state::{PlannedChange, StatePlan, single_change};
use crate::shared::store_plan::{StoreFunction, StoreModule};
use crate::shared::store_undo::StoreUndo;
use crate::state_module::StateModule;
use crate::{BuildResult, ChunkArgs, StateCtx, StateError};

/// The module `mysql_grants`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "mysql_grants",
    build,
    functions: functions::TABLE,
    undo: &[&MYSQL_GRANTS_UNDO],
    description: include_str!("description.txt"),
};

static STATES: StoreModule = StoreModule::new(
    &[
        StoreFunction::new("present", |given, ctx| plan_grant(given, ctx, true)),
        StoreFunction::new("absent", |given, ctx| plan_grant(given, ctx, false)),
    ],
    Some(&MYSQL_LOGIN),
);

/// Makes the state of a function of this module; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    STATES.build(fun, args)
}

/// The grants of an account.
pub(crate) static MYSQL_GRANTS_UNDO: StoreUndo = StoreUndo {
    kind: "mysql_grants",
    login: Some(&MYSQL_LOGIN),
    capture: |given, ctx| {
        let (user, host) = user_and_host(given);
        Ok(mysql_grant::grants_value(mysql_grant::show_grants(
            &MysqlClient::new(given),
            &ctx.tools(),
            &user,
            &host,
        )?))
    },
    restore: |given, to, ctx| {
        let (user, host) = user_and_host(given);
        let mut statements = format!("REVOKE ALL PRIVILEGES, GRANT OPTION FROM {};\n", account(&user, &host));
        for line in to.as_list().into_iter().flat_map(|l| l.iter()).filter_map(Value::as_str) {
            statements.push_str(&format!("{line};\n"));
        }
        Ok(MysqlClient::new(given).execute(&ctx.tools(), &statements)?)
    },
    keep_reason: None,
};

fn plan_grant(given: &NamedArgs<'_>, ctx: &StateCtx<'_>, present: bool) -> Result<StatePlan, StateError> {
    let (sql, tools, name, grant) =
        (MysqlClient::new(given), ctx.tools(), given.require_text("name")?, MysqlGrant::new(given)?);
    let words = given.text_list("grant").unwrap_or_default().join(",");
    let (db, user, host) = (given.require_text("database")?, grant.user.clone(), grant.host.clone());
    if mysql_grant::is_granted(&sql, &tools, &grant)? == present {
        return Ok(StatePlan::InSync(match present {
            true => format!("Grant {words} on {db} to {user}@{host} is already present"),
            false => {
                format!("Grant {words} on {db} to {user}@{host} is not present, so it cannot be revoked")
            }
        }));
    }
    let thing = Some((
        &MYSQL_GRANTS_UNDO as _,
        sql.journal_key(&[("name", &name), ("user", &user), ("host", &host)]),
    ));
    let (verb, past, to) = if present { ("created", "added", "to") } else { ("revoked", "revoked", "for") };
    let text = match (present, given.is_enabled("revoke_first")) {
        (false, _) => grant.revoke_sql(),
        (true, false) => grant.grant_sql(),
        (true, true) => {
            let all = format!(
                "REVOKE ALL PRIVILEGES, GRANT OPTION FROM {}@{};\n",
                quote_literal(&user),
                quote_literal(&host)
            );
            all + &grant.grant_sql()
        }
    };
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("MySQL grant {name} is set to be {verb}"),
        done_comment: format!("Grant {words} on {db} {to} {user}@{host} has been {past}"),
        failure_prefix: format!("Failed to execute: \"{text}\""),
        changes: single_change(&name, if present { "Present" } else { "Absent" }),
        undoable: thing,
        run_change: run_statement(sql, text),
    }))
}
