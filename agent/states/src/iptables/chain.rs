//! A chain of `iptables` in, its rules and policy as the program knows them out.
//!
//! A rule is compared by the program itself (`iptables -C`).

use zagent_config::FunctionError;

use zagent_host::Tools;

/// A chain of `iptables`, or a whole table when it has no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IptablesChain {
    pub(crate) family: String,
    pub(crate) table: String,
    pub(crate) name: String,
}

impl IptablesChain {
    /// The program for the family.
    pub(crate) fn program(&self) -> &'static str {
        if self.family == "ipv6" { "ip6tables" } else { "iptables" }
    }

    /// Runs it on the table; when it fails that is an answer.
    pub(crate) fn run_query(
        &self,
        tools: &Tools<'_>,
        words: &[String],
    ) -> Result<zagent_host::CommandOutput, FunctionError> {
        let mut all: Vec<String> = vec!["--wait".into(), "-t".into(), self.table.clone()];
        all.extend(words.iter().cloned());
        tools.run_change(self.program(), &all)
    }

    /// The same; a failure is a refusal with what it said.
    pub(crate) fn run_checked(&self, tools: &Tools<'_>, words: &[String]) -> Result<(), FunctionError> {
        let output = self.run_query(tools, words)?;
        if output.is_success() { Ok(()) } else { Err(FunctionError::failed(output.message().to_owned())) }
    }

    /// Its policy and rules; nothing when there is no such chain.
    pub(crate) fn list_rules(&self, tools: &Tools<'_>) -> Result<Option<Vec<String>>, FunctionError> {
        let mut words = vec!["-S".to_owned()];
        words.extend(Some(self.name.clone()).filter(|n| !n.is_empty()));
        let output = self.run_query(tools, &words)?;
        if output.is_success() {
            return Ok(Some(output.stdout.lines().map(str::to_owned).collect()));
        }
        match classify_not_found(&output) {
            IptablesNotFound::Chain => Ok(None),
            // What it says of a chain that is not there and of one that only `nft` can read: the list of all tells.
            IptablesNotFound::Ambiguous if !self.name.is_empty() => {
                let all = self.run_query(tools, &["-S".to_owned()])?;
                let is_it = |l: &str| l.split(' ').nth(1) == Some(&self.name);
                if all.is_success() && !all.stdout.lines().any(is_it) {
                    return Ok(None);
                }
                Err(FunctionError::failed(output.message().to_owned()))
            }
            _ => Err(FunctionError::failed(output.message().to_owned())),
        }
    }

    /// True when the rule is there.
    pub(crate) fn has_rule(&self, tools: &Tools<'_>, rule: &[String]) -> Result<bool, FunctionError> {
        let words: Vec<String> =
            ["-C".to_owned(), self.name.clone()].into_iter().chain(rule.iter().cloned()).collect();
        let output = self.run_query(tools, &words)?;
        if output.is_success() {
            return Ok(true);
        }
        match classify_not_found(&output) {
            IptablesNotFound::Chain | IptablesNotFound::Rule => Ok(false),
            _ => Err(FunctionError::failed(output.message().to_owned())),
        }
    }

    /// What happens to what no rule decides.
    pub(crate) fn policy(&self, tools: &Tools<'_>) -> Result<Option<String>, FunctionError> {
        let lines = self.list_rules(tools)?.unwrap_or_default();
        let prefix = format!("-P {} ", self.name);
        Ok(lines.iter().find_map(|l| l.strip_prefix(&prefix)).map(str::to_owned))
    }
}

/// What `iptables` did not find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IptablesNotFound {
    Chain,
    /// The rule, or a chain or set that it names.
    Rule,
    /// A chain, or it cannot be read.
    Ambiguous,
    /// Nothing was looked at: no table, no right to read it, a rule that is none.
    OtherError,
}

/// What is told apart by words: a code stands for too much.
fn classify_not_found(output: &zagent_host::CommandOutput) -> IptablesNotFound {
    let words = output.message();
    let has = |part: &str| words.contains(part);
    match output.code {
        1 if has("Bad rule (does a matching rule exist") => IptablesNotFound::Rule,
        1 if has("No chain/target/match by that name") => IptablesNotFound::Chain,
        1 if has("chain `") && has("is incompatible") => IptablesNotFound::Ambiguous,
        2 if has("Couldn't load target") => IptablesNotFound::Rule,
        2 if (has("Chain '") && has("does not exist")) || (has("Set ") && has("doesn't exist")) => {
            IptablesNotFound::Rule
        }
        _ => IptablesNotFound::OtherError,
    }
}

/// All rules of a family, as they are saved.
pub(crate) fn iptables_save(tools: &Tools<'_>, family: &str) -> Result<String, FunctionError> {
    let program = if family == "ipv6" { "ip6tables-save" } else { "iptables-save" };
    Ok(tools.run_checked::<&str>(program, &[])?.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_and_what_is_trouble() {
        for (code, words, want) in [
            (1, "iptables: Bad rule (does a matching rule exist in that chain?).", IptablesNotFound::Rule),
            (1, "iptables: No chain/target/match by that name.", IptablesNotFound::Chain),
            (
                1,
                "iptables v1.8.9 (nf_tables): chain `A' in table `filter' is incompatible, use 'nft' tool.",
                IptablesNotFound::Ambiguous,
            ),
            (2, "iptables v1.8.9 (nf_tables): Chain 'A' does not exist", IptablesNotFound::Rule),
            (
                2,
                "iptables v1.8.9 (legacy): Couldn't load target `A':No such file or directory",
                IptablesNotFound::Rule,
            ),
            (2, "iptables v1.8.9 (legacy): Set x doesn't exist.", IptablesNotFound::Rule),
            (
                2,
                "iptables v1.8.9 (nf_tables): invalid port/service `x' specified",
                IptablesNotFound::OtherError,
            ),
            (3, "iptables v1.8.9 (nf_tables): table 'nosuch' does not exist", IptablesNotFound::OtherError),
            (1, "iptables: Memory allocation problem.", IptablesNotFound::OtherError),
            (
                4,
                "Fatal: can't open lock file /run/xtables.lock: Permission denied",
                IptablesNotFound::OtherError,
            ),
        ] {
            let output = zagent_host::CommandOutput { code, stdout: String::new(), stderr: words.into() };
            assert_eq!(classify_not_found(&output), want, "{words}");
        }
    }
}
