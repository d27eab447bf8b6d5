//! Rules put into and taken out of the text of a policy; everything else in it stays, comments too.

use std::fmt::Write;
use std::path::PathBuf;

use iosched_switch::Arm;
use toml_edit::{DocumentMut, InlineTable, Item, Table, Value};

use crate::policy::file::{Evidence, Policy, Rule};
use crate::policy::matching::Match;

/// What a new policy begins with.
const HEAD: &str = "\
# Which I/O scheduler each disk of this machine gets, and why. Read by `iosched apply` and
# `iosched check`; written by `iosched persist`. A rule that names a disk counts before one
# for a sort of disks; among equals the first counts.
version = 1
";

/// A rule to be put in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewRule {
    /// What it is called; made unlike all others if need be.
    pub name: String,
    /// Which disk.
    pub matching: Match,
    /// What it gets.
    pub arm: Arm,
    /// Why, in words.
    pub why: Option<String>,
    /// The record that it rests on.
    pub record: Option<PathBuf>,
    /// What it was measured on.
    pub evidence: Option<Evidence>,
}

/// The text of a policy (empty: of a new one) with a rule. A rule that matches the same is replaced
/// where it stands, and keeps its name; else the rule is put at the end, of `policy`, too.
///
/// # Panics
/// `policy` must be what `text` says.
pub(crate) fn with_rule(text: &str, policy: &mut Policy, rule: &NewRule) -> String {
    let text = if text.is_empty() { HEAD } else { text };
    let same = policy
        .rules
        .iter()
        .position(|old| old.matching == rule.matching);
    if let Some(index) = same {
        return edited(text, |rules| {
            if let Some(table) = rules.get_mut(index) {
                fill(table, rule);
            }
        });
    }
    let mut name = rule.name.clone();
    let is_taken = |name: &str| policy.rules.iter().any(|old| old.name == name);
    for number in 2.. {
        if !is_taken(&name) {
            break;
        }
        name = format!("{} ({number})", rule.name);
    }
    let mut table = Table::new();
    table.insert("name", name.as_str().into());
    table.insert("match", match_value(&rule.matching).into());
    fill(&mut table, rule);
    let mut text = text.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let _ = write!(text, "\n[[rule]]\n{table}");
    policy.rules.push(Rule {
        name,
        matching: rule.matching.clone(),
        arm: rule.arm.clone(),
        why: None,
        record: None,
        evidence: None,
        line: 0,
    });
    text
}

/// The text of a policy without these rules (indices).
pub(crate) fn without_rules(text: &str, indices: &[usize]) -> String {
    edited(text, |rules| {
        for &index in indices.iter().rev() {
            let head = (index == 0).then(|| head_of(rules.get(0))).flatten();
            rules.remove(index);
            if let (Some(head), Some(next)) = (head, rules.get_mut(0)) {
                let own = prefix(next).unwrap_or_default();
                next.decor_mut()
                    .set_prefix(format!("{head}\n{}", own.trim_start_matches('\n')));
            }
        }
    })
}

/// True if nothing is left of a policy but what [`with_rule`] begins one with.
pub(crate) fn is_bare(text: &str) -> bool {
    text.trim() == HEAD.trim() || text.trim().is_empty()
}

/// The comment above a first rule that is the whole file's: all up to the last empty line.
fn head_of(first: Option<&Table>) -> Option<String> {
    let prefix = prefix(first?)?;
    let end = prefix.trim_end_matches('\n').rfind("\n\n")?;
    Some(prefix[..=end].to_owned())
}

fn prefix(table: &Table) -> Option<String> {
    Some(table.decor().prefix()?.as_str()?.to_owned())
}

fn edited(text: &str, edit: impl FnOnce(&mut toml_edit::ArrayOfTables)) -> String {
    let mut document: DocumentMut = text.parse().expect("it was read as a policy");
    let rules = document
        .entry("rule")
        .or_insert_with(|| Item::ArrayOfTables(toml_edit::ArrayOfTables::new()));
    if let Item::Value(Value::Array(_)) = rules {
        // Rules in one line, as `rule = [{…}]`: written out, they can be edited alike.
        let inline = std::mem::take(rules);
        *rules = match inline.into_array_of_tables() {
            Ok(tables) => Item::ArrayOfTables(tables),
            Err(other) => other,
        };
    }
    if let Some(rules) = rules.as_array_of_tables_mut() {
        edit(rules);
    }
    document.to_string()
}

/// Writes all of a rule but its name and what it matches.
fn fill(table: &mut Table, rule: &NewRule) {
    let arm = &rule.arm;
    let mut put = |key: &str, value: Option<Value>| match value {
        Some(value) => {
            table.insert(key, value.into());
        }
        None => {
            table.remove(key);
        }
    };
    put("scheduler", Some(arm.scheduler.as_str().into()));
    put("tunables", tunables_value(arm));
    put("why", rule.why.as_deref().map(Value::from));
    let record = rule.record.as_ref().map(|path| path.display().to_string());
    put("record", record.map(Value::from));
    put("evidence", rule.evidence.as_ref().map(inline_of));
}

fn tunables_value(arm: &Arm) -> Option<Value> {
    let mut tunables = InlineTable::new();
    for (name, value) in &arm.tunables {
        let number = value.parse::<i64>();
        tunables.insert(
            name,
            number.map_or_else(|_| value.as_str().into(), Value::from),
        );
    }
    (!tunables.is_empty()).then_some(Value::InlineTable(tunables))
}

fn match_value(matching: &Match) -> Value {
    inline_of(matching)
}

/// A flat value of ours as `{ key = value }`.
fn inline_of<T: serde::Serialize>(value: &T) -> Value {
    let fields = serde_json::to_value(value).expect("our own types serialise");
    let mut inline = InlineTable::new();
    for (key, value) in fields.as_object().into_iter().flatten() {
        let value = match value {
            serde_json::Value::Bool(value) => Value::from(*value),
            other => Value::from(other.as_str().unwrap_or_default()),
        };
        inline.insert(key, value);
    }
    Value::InlineTable(inline)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(text: &str) -> Policy {
        Policy::parse(text, Path::new("p.toml")).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    fn rule(serial: &str, arm: &str) -> NewRule {
        NewRule {
            name: "disk".into(),
            matching: Match {
                serial: Some(serial.into()),
                ..Match::default()
            },
            arm: Arm::parse(arm).unwrap(),
            why: None,
            record: None,
            evidence: None,
        }
    }

    fn put(text: Option<&str>, rule: &NewRule) -> String {
        let mut policy = text.map(parse).unwrap_or_default();
        with_rule(text.unwrap_or_default(), &mut policy, rule)
    }

    #[test]
    fn a_new_policy_reads_as_follows() {
        let mut first = rule("S1", "bfq:low_latency=0,nr_requests=64");
        first.why = Some("it won".into());
        first.record = Some("/root/r".into());
        first.evidence = Some(Evidence {
            kernel: Some("6.12".into()),
            ..Evidence::default()
        });
        let text = put(Some(&put(None, &first)), &rule("S2", "none"));
        insta::assert_snapshot!(text, @r#"
        # Which I/O scheduler each disk of this machine gets, and why. Read by `iosched apply` and
        # `iosched check`; written by `iosched persist`. A rule that names a disk counts before one
        # for a sort of disks; among equals the first counts.
        version = 1

        [[rule]]
        name = "disk"
        match = { serial = "S1" }
        scheduler = "bfq"
        tunables = { low_latency = 0, nr_requests = 64 }
        why = "it won"
        record = "/root/r"
        evidence = { kernel = "6.12" }

        [[rule]]
        name = "disk (2)"
        match = { serial = "S2" }
        scheduler = "none"
        "#);
    }

    const OWN: &str = "\
# My policy.

# The archive.
[[rule]]
name = \"archive\" # slow
match = { serial = \"S1\" }
scheduler = \"bfq\"
tunables = { low_latency = 0 }

# All the others.
[[rule]]
name = \"others\"
match = { transport = \"sata\" }
scheduler = \"mq-deadline\"
";

    #[test]
    fn a_rule_for_the_same_disk_is_replaced_where_it_stands() {
        let text = put(Some(OWN), &rule("S1", "kyber"));
        let policy = parse(&text);
        assert_eq!(policy.rules[0].name, "archive");
        assert_eq!(policy.rules[0].arm, Arm::plain("kyber"));
        assert!(
            text.contains("# slow") && text.contains("# All the others."),
            "{text}"
        );
    }

    #[test]
    fn rules_are_taken_out_and_comments_stay() {
        let text = without_rules(OWN, &[0]);
        assert_eq!(
            text,
            "# My policy.\n\n# All the others.\n[[rule]]\nname = \"others\"\n\
             match = { transport = \"sata\" }\nscheduler = \"mq-deadline\"\n"
        );
        assert_eq!(parse(&without_rules(OWN, &[0, 1])), Policy::default());
    }

    #[test]
    fn rules_in_one_line_can_be_edited_too() {
        let one = "rule = [{ name = \"a\", match = { serial = \"S1\" }, scheduler = \"bfq\" }]\n";
        let text = put(Some(one), &rule("S1", "none"));
        assert_eq!(parse(&text).rules[0].arm, Arm::plain("none"));
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_disk_is_called_the_rule_is_read_back(serial in "[ -~é]{1,20}", why in ".{0,20}") {
            let identity = crate::system_config::identity::Identity::Serial(serial);
            let mut new = rule("", "bfq:slice_idle=0");
            new.matching = Match::of_identity(&identity);
            new.why = Some(why.clone());
            let text = put(None, &new);
            let read = &parse(&text).rules[0];
            proptest::prop_assert_eq!(&read.matching, &new.matching);
            proptest::prop_assert_eq!(&read.arm, &new.arm);
            proptest::prop_assert_eq!(read.why.as_deref(), Some(why.as_str()));
        }
    }
}
