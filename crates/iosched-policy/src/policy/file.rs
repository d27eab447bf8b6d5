//! The policy file: which disks get which scheduler, and why. Read whole or not at all.
//!
//! ```toml
//! version = 1
//!
//! [[rule]]
//! name = "database"
//! match = { wwn = "0x5000c500a1b2c3d4" }
//! scheduler = "mq-deadline"
//! tunables = { fifo_batch = 1, nr_requests = 64 }
//! why = "p99 of reads 0.71 x bfq's"
//! record = "/root/iosched-2026-11-21"
//! evidence = { kernel = "6.12.57", model = "ACME 4000", firmware = "1.02" }
//! ```
//!
//! The first rule that matches a disk counts. Every error names line and column.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use iosched_machine::device;
use iosched_machine::failure::{Problem, exit};
use iosched_machine::host::Host;
use iosched_switch::Arm;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::policy::matching::Match;
use crate::system_config::files;

/// Where the machine's policy is.
pub const PATH: &str = "/etc/iosched/policy.toml";

/// The version of the format that is read and written.
const VERSION: u32 = 1;

/// A policy: rules in the order in which they are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// The rules; the first that matches a disk counts.
    pub rules: Vec<Rule>,
}

/// What some disks get, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// What it is called in messages.
    pub name: String,
    /// Which disks.
    #[serde(rename = "match")]
    pub matching: Match,
    /// What they get.
    pub arm: Arm,
    /// Why, in words.
    pub why: Option<String>,
    /// The directory of the record that it rests on.
    pub record: Option<PathBuf>,
    /// What it was measured on.
    pub evidence: Option<Evidence>,
    /// Where it begins in the file, from 1.
    pub line: usize,
}

/// What a measurement rests on: where it changes, the measurement may not hold any more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// `uname -r`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The disk's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The disk's firmware revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
}

/// The machine's policy and its text; none where it has none.
pub fn read(host: &Host) -> Result<Option<(Policy, String)>, Problem> {
    let path = Path::new(PATH);
    let text = files::read(host, path).map_err(|problem| {
        // As any other that is malformed.
        let is_no_text = problem.message.contains(files::NOT_TEXT);
        let code = if is_no_text {
            exit::USAGE
        } else {
            problem.code
        };
        Problem { code, ..problem }
    })?;
    let Some(text) = text else {
        return Ok(None);
    };
    Ok(Some((Policy::parse(&text, path)?, text)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    #[serde(default)]
    version: Option<Spanned<u32>>,
    #[serde(default)]
    rule: Vec<Spanned<RuleText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    name: Spanned<String>,
    r#match: Spanned<Match>,
    scheduler: Spanned<String>,
    #[serde(default)]
    tunables: BTreeMap<String, Spanned<toml::Value>>,
    why: Option<String>,
    record: Option<PathBuf>,
    evidence: Option<Evidence>,
}

impl Policy {
    /// Reads a policy from its text; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Policy, Problem> {
        let at = |offset: usize, message: String| {
            let (line, column) = position(text, offset);
            let message = format!("{}:{line}:{column}: {message}", path.display());
            Problem::usage(message).hint("nothing was changed; docs/keep.md describes the file")
        };
        let file: FileText = toml::from_str(text).map_err(|error| {
            let message = error.message().trim().replace('\n', "; ");
            at(error.span().map_or(0, |span| span.start), message)
        })?;
        if let Some(version) = file.version.filter(|version| *version.get_ref() != VERSION) {
            let message = format!(
                "version {} is not known: this program reads version {VERSION}",
                version.get_ref()
            );
            return Err(at(version.span().start, message));
        }
        let mut policy = Policy::default();
        for rule in file.rule {
            let line = position(text, rule.span().start).0;
            let rule = rule.into_inner();
            let (name_at, match_at) = (rule.name.span().start, rule.r#match.span().start);
            let rule = check(text, rule, line).map_err(|(offset, message)| at(offset, message))?;
            if let Some(other) = policy.rules.iter().find(|other| other.name == rule.name) {
                let message = format!(
                    "there is a rule {:?} already, in line {}",
                    other.name, other.line
                );
                return Err(at(name_at, message));
            }
            if let Some(other) = policy
                .rules
                .iter()
                .find(|other| other.matching == rule.matching)
            {
                let message = format!(
                    "rule {:?} in line {} matches the same disks: this one would never count",
                    other.name, other.line
                );
                return Err(at(match_at, message));
            }
            policy.rules.push(rule);
        }
        Ok(policy)
    }
}

/// The most tunables of a rule: schedulers have up to some twenty, and each is held against all before it.
const MOST_TUNABLES: usize = 64;

/// A rule whose values mean something; else where and why not.
fn check(file: &str, text: RuleText, line: usize) -> Result<Rule, (usize, String)> {
    if text.name.get_ref().trim().is_empty() {
        return Err((text.name.span().start, "a rule needs a name".into()));
    }
    let match_at = text.r#match.span().start;
    let matching = text.r#match.into_inner();
    matching.check().map_err(|message| (match_at, message))?;
    let scheduler = text.scheduler.get_ref();
    let mut arm = Arm::new(scheduler, [])
        .map_err(|error| (text.scheduler.span().start, error.to_string()))?;
    if let Some((_, value)) = text.tunables.iter().nth(MOST_TUNABLES) {
        let message = format!("more than {MOST_TUNABLES} tunables: no scheduler has so many");
        return Err((value.span().start, message));
    }
    for (name, value) in &text.tunables {
        let written = word_of(name, value, file).map_err(|why| (value.span().start, why))?;
        let words = arm
            .tunables
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .chain([format!("{name}={written}")])
            .collect::<Vec<_>>();
        arm = Arm::new(scheduler, words.iter().map(String::as_str))
            .map_err(|error| (value.span().start, error.to_string()))?;
    }
    Ok(Rule {
        name: text.name.into_inner(),
        matching,
        arm,
        why: text.why,
        record: text.record,
        evidence: text.evidence,
        line,
    })
}

/// A value as it is given to the kernel: `fifo_batch = 1`, `"1"` or `low_latency = false`. Numbers are decimal, as
/// kernels show them.
fn word_of(name: &str, value: &Spanned<toml::Value>, file: &str) -> Result<String, String> {
    let written = file.get(value.span()).unwrap_or_default();
    match value.get_ref() {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) if number.to_string() == written => Ok(number.to_string()),
        toml::Value::Integer(number) => Err(format!(
            "{name} = {written}: it takes a decimal number: write {number}"
        )),
        toml::Value::Boolean(is_on) if device::is_switch(name) => Ok(u8::from(*is_on).to_string()),
        toml::Value::Boolean(_) => Err(format!(
            "{name} = {written}: it is not on or off: write a number, or a word in quotes"
        )),
        _ => Err(format!(
            "{name} = {written}: a tunable takes a whole number, or a word in quotes"
        )),
    }
}

/// Line and column of a byte, both from 1.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Policy, Problem> {
        Policy::parse(text, Path::new("p.toml"))
    }

    const GOOD: &str = r#"
version = 1

[[rule]]
name = "database"
match = { wwn = "0x5000c500a1b2c3d4" }
scheduler = "bfq"
tunables = { low_latency = false, nr_requests = 64, slice_idle_us = "0" }
why = "measured"
record = "/root/r"
evidence = { kernel = "6.12.57" }

[[rule]]
name = "all NVMe"
match = { transport = "nvme" }
scheduler = "none"
"#;

    #[test]
    fn a_policy_is_read() {
        let policy = parse(GOOD).unwrap();
        assert_eq!(policy.rules.len(), 2);
        let database = &policy.rules[0];
        assert_eq!(
            database.arm.to_string(),
            "bfq:low_latency=0,nr_requests=64,slice_idle_us=0"
        );
        assert_eq!(database.line, 4);
        assert_eq!(
            database.evidence.as_ref().unwrap().kernel.as_deref(),
            Some("6.12.57")
        );
        assert_eq!(policy.rules[1].arm, Arm::plain("none"));
        assert_eq!(parse("").unwrap(), Policy::default());
    }

    #[test]
    fn every_error_names_line_and_column() {
        let many: Vec<_> = (0..65).map(|at| format!("t{at} = 1")).collect();
        let long = format!("serial = '{}'", "s".repeat(1001));
        for (text, expected) in [
            ("version = 2", "1:11: version 2 is not known"),
            ("x = 1", "1:1: unknown field `x`"),
            ("[[rule]]\nname = ", "2:"),
            (
                "[[rule]]\nname = 'a'\nscheduler = 'bfq'",
                "1:1: missing field `match`",
            ),
        ] {
            check_error(text, expected);
        }
        for (tunables, expected) in [
            ("write_cache = 1", "write_cache is never written"),
            (
                "fifo_batch = 1.5",
                "fifo_batch = 1.5: a tunable takes a whole number",
            ),
            (
                "fifo_batch = true",
                "fifo_batch = true: it is not on or off",
            ),
            (
                "fifo_batch = 0x10",
                "fifo_batch = 0x10: it takes a decimal number: write 16",
            ),
            ("fifo_batch = [1]", "fifo_batch = [1]: a tunable takes"),
            (&many.join(", "), "more than 64 tunables"),
        ] {
            let text = format!(
                "[[rule]]\nname = 'a'\nmatch = {{ serial = 's' }}\nscheduler = 'bfq'\ntunables = {{ {tunables} }}"
            );
            let error = parse(&text).unwrap_err().message;
            assert!(
                error.starts_with("p.toml:5:") && error.contains(expected),
                "{error}"
            );
        }
        for (matching, expected) in [
            ("", "9: it would match every disk"),
            ("serial = ''", "9: \"\" would match disks that have none"),
            ("rotational = true", "9: `rotational` alone"),
            ("transport = 'tape'", "9: \"tape\" is no transport"),
            ("min_size = 'big'", "9: `big` is no size"),
            ("serial = 'a|b'", "9: `|` cannot stand"),
            (&long, "9: a pattern has at most 1000 bytes"),
            ("seriall = 's'", "11: unknown field `seriall`"),
        ] {
            let text = format!("[[rule]]\nname = 'a'\nmatch = {{ {matching} }}\nscheduler = 'bfq'");
            check_error(&text, &format!("3:{expected}"));
        }
    }

    fn check_error(text: &str, expected: &str) {
        let error = parse(text).unwrap_err().message;
        assert!(
            error.starts_with(&format!("p.toml:{expected}")),
            "{text}\n{error}"
        );
    }

    #[test]
    fn two_rules_of_one_name_or_for_the_same_disks_are_refused() {
        let twice = format!("{GOOD}{}", &GOOD["\nversion = 1".len()..]);
        let error = parse(&twice).unwrap_err().to_string();
        assert!(
            error.contains("there is a rule \"database\" already, in line 4"),
            "{error}"
        );
        let same = GOOD.replace(
            "{ transport = \"nvme\" }",
            "{ wwn = \"0x5000c500a1b2c3d4\" }",
        );
        let error = parse(&same).unwrap_err().to_string();
        assert!(
            error.starts_with("p.toml:15:9: rule \"database\" in line 4 matches"),
            "{error}"
        );
    }
}
