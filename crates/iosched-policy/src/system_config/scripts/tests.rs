//! What is put into a script and taken out of it, against the shells themselves that GRUB's generators run by: `sh`
//! (Debian's is dash) and bash. Files are drawn from pieces that are harmless whatever they come to.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tempfile::TempDir;

use super::*;
use crate::system_config::testing::write;

/// The variables: those that are drawn, and of which a shell is asked.
const NAMES: [&str; 6] = [
    "GRUB_CMDLINE_LINUX",
    "GRUB_CMDLINE_LINUX_DEFAULT",
    "GRUB_CMDLINE_LINUX_RECOVERY",
    "GRUB_CMDLINE_LINUX_XEN_REPLACE",
    "A",
    "E",
];

/// Pieces of a value without quotes around it. Those of several words stand between quotes only.
const PIECES: [&str; 30] = [
    "ro",
    "quiet",
    "5",
    "elevator=cfq",
    "elevator=cfq",
    "elevator=noop",
    "root=/dev/sda1",
    "elevator",
    "ele",
    "=cfq",
    "$A",
    "${A}",
    "$E",
    "${E}=cfq",
    "$GRUB_CMDLINE_LINUX",
    "$GRUB_CMDLINE_LINUX",
    "${GRUB_CMDLINE_LINUX}",
    "$GRUB_CMDLINE_LINUX_DEFAULT",
    "${A:+$A }",
    "${A:+elevator=cfq }",
    "${A-elevator=cfq}",
    "${E:-ro}",
    "\\$tuned_params",
    "\\\"",
    "\\\\",
    "--",
    "x=",
    "$(echo ro)",
    "\\\n",
    "#",
];

/// Pieces of a value between single quotes.
const LITERAL: [&str; 12] = [
    "ro",
    "elevator=cfq",
    "elevator=cfq ro",
    "\"",
    "\"a b",
    "x=\"a b\"",
    "$A",
    "\\",
    "--",
    "quiet elevator=deadline",
    "a\nb",
    "E",
];

/// What a statement may be; `N` is a name, `V` a value.
const STATEMENTS: [&str; 44] = [
    "N=V",
    "N=V",
    "N=V",
    "N=V",
    "N=V",
    "N=V",
    "N=V",
    "N=V # elevator=cfq",
    "N+=V",
    "N+=V",
    "export N=V",
    "export N",
    "N=V; M=W",
    "N=V M=W",
    "  N=V",
    "let N=5",
    "let N+=1",
    "declare N=V",
    "declare -i N",
    "typeset N=V",
    "readonly N=V",
    "eval N=V",
    "unset N",
    "read N </dev/null",
    "N=V true",
    ": ${N:=ro}",
    "N=(V W)",
    "N[0]=V",
    "for N in V W; do M=\"$N\"; done",
    "case V in *) N=W;; esac",
    "f() { N=V; }; f",
    "f() { N=V; }",
    "if [ -n \"$M\" ]; then N=V; fi",
    "if true; then N=V; else M=W; fi",
    "[ \"$M\" ] && N=V",
    "[ -z \"$M\" ] || N=V",
    "true && N=V",
    "N=V &",
    "(N=V)",
    "{ N=V; }",
    "read N <<X\nV\nX",
    "printf -v N %s V",
    "set -- V; N=\"$1\"",
    "return",
];

fn quoted() -> impl Strategy<Value = String> {
    let piece = || select(PIECES.to_vec());
    let join = |pieces: Vec<(&str, bool)>| {
        let words = pieces.iter().map(|(piece, glued)| {
            let blank = if *glued { "" } else { " " };
            format!("{piece}{blank}")
        });
        words.collect::<String>()
    };
    let glued = || prop::bool::weighted(0.2);
    let double = vec((piece(), glued()), 0..5).prop_map(join);
    let single = vec((select(LITERAL.to_vec()), glued()), 0..3).prop_map(join);
    prop_oneof![
        6 => double.prop_map(|words| format!("\"{}\"", words.trim_end_matches(' '))),
        2 => single.prop_map(|words| format!("'{}'", words.trim_end_matches(' '))),
        1 => piece().prop_map(str::to_owned),
    ]
}

/// One piece, or several without a blank between them.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => quoted(),
        1 => vec(quoted(), 0..3).prop_map(|pieces| pieces.concat()),
    ]
}

fn statement() -> impl Strategy<Value = String> {
    // The first three times as often: the order of the choices is what a seed draws from.
    let name = || select([&[NAMES[0]; 2][..], &NAMES].concat());
    let parts = (
        select(STATEMENTS.to_vec()),
        name(),
        name(),
        value(),
        value(),
    );
    parts.prop_map(|(form, n, m, v, w)| {
        let mut text = String::new();
        for c in form.chars() {
            match c {
                'N' => text += n,
                'M' => text += m,
                'V' => text += &v,
                'W' => text += &w,
                c => text.push(c),
            }
        }
        text
    })
}

/// A file of some statements.
fn file() -> impl Strategy<Value = String> {
    let end = select(vec!["\n", "\n", "\n", ""]);
    (vec(statement(), 0..5), end).prop_map(|(statements, end)| statements.join("\n") + end)
}

/// What the variables hold after scripts were sourced.
type Values = BTreeMap<&'static str, String>;

/// Shells that source scripts, the same ones once.
struct Shells {
    directory: TempDir,
    known: HashMap<(&'static str, Vec<String>), Option<Values>>,
}

impl Shells {
    fn new() -> Shells {
        Shells {
            directory: tempfile::tempdir().unwrap(),
            known: HashMap::new(),
        }
    }

    fn sourced(&mut self, shell: &'static str, texts: &[String]) -> Option<Values> {
        let known = self.known.entry((shell, texts.to_vec()));
        known
            .or_insert_with(|| sourced(shell, self.directory.path(), texts))
            .clone()
    }
}

/// What the variables hold after these were sourced by a shell; nothing if it has ended before.
fn sourced(shell: &str, directory: &Path, texts: &[String]) -> Option<Values> {
    let mut script = "exec 3>&1 >/dev/null 2>&1 </dev/null\n".to_owned();
    for (index, text) in texts.iter().enumerate() {
        write(directory, &index.to_string(), text);
        let _ = writeln!(script, ". ./{index}");
    }
    for name in NAMES {
        let _ = writeln!(script, "printf '%s\\0' \"${name}\" >&3");
    }
    let output = Command::new(shell)
        .args(["-c", &script])
        .current_dir(directory)
        .env_clear()
        .env("PATH", "/nonexistent")
        .stderr(Stdio::null())
        .output()
        .unwrap();
    for index in 0..texts.len() {
        fs::remove_file(directory.join(index.to_string())).unwrap();
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let values: Vec<&str> = text.strip_suffix('\0')?.split('\0').collect();
    assert_eq!(values.len(), NAMES.len());
    Some(
        NAMES
            .into_iter()
            .zip(values.into_iter().map(str::to_owned))
            .collect(),
    )
}

/// The words of a command line as Linux tells them apart: its double quotes keep blanks.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for c in line.chars() {
        is_quoted ^= c == '"';
        if c.is_whitespace() && !is_quoted {
            words.push(String::new());
        } else if let Some(word) = words.last_mut() {
            word.push(c);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Those words that are ours and for the kernel, and all others.
fn parted(line: &str) -> (Vec<String>, Vec<String>) {
    let words = words(line);
    let dashes = words
        .iter()
        .position(|word| word == "--")
        .unwrap_or(words.len());
    let (of_kernel, of_init) = words.split_at(dashes);
    let is_ours = |word: &&String| word.trim_start_matches('"').starts_with(PARAMETER);
    let (ours, mut others): (Vec<_>, Vec<_>) = of_kernel.iter().partition(is_ours);
    others.extend(of_init);
    let owned = |words: Vec<&String>| words.into_iter().cloned().collect();
    (owned(ours), owned(others))
}

/// The lines that the variables come to: each, and those that are given to the kernel together.
fn lines(values: &Values) -> Vec<String> {
    // Other variables are no lines of their own: they count by what they lead to.
    let of_linux = values.iter().filter(|(name, _)| name.starts_with("GRUB_"));
    let mut lines: Vec<String> = of_linux.map(|(_, value)| value.clone()).collect();
    let of = |name: &str| values[name].as_str();
    let every = of("GRUB_CMDLINE_LINUX");
    let default = of("GRUB_CMDLINE_LINUX_DEFAULT");
    lines.push(format!("{every} {default}"));
    lines.push(format!("{} {every}", of("GRUB_CMDLINE_LINUX_RECOVERY")));
    let instead = of("GRUB_CMDLINE_LINUX_XEN_REPLACE");
    lines.push(format!("{instead} {default}"));
    lines
}

/// Checks an edit that was accepted; the error says what is wrong.
fn check(
    shells: &mut Shells,
    before: &[String],
    after: &[String],
    value: Option<&str>,
) -> Result<(), String> {
    for shell in ["/bin/sh", "/bin/bash"] {
        let old = shells.sourced(shell, before);
        let new = shells.sourced(shell, after);
        let (Some(old), Some(new)) = (&old, &new) else {
            if old.is_some() != new.is_some() {
                return Err(format!("{shell} ends in one of them"));
            }
            continue;
        };
        for (old, new) in lines(old).iter().zip(lines(new)) {
            let (_, kept) = parted(old);
            let (ours, others) = parted(&new);
            if others != kept {
                return Err(format!("{shell}: {old:?} -> {new:?}"));
            }
            let wanted = value.map(|value| format!("{PARAMETER}{value}"));
            let is_followed = value.is_some() || before != after;
            if is_followed && ours.iter().any(|word| Some(word) != wanted.as_ref()) {
                return Err(format!("{shell}: left in {new:?}"));
            }
        }
        let every = parted(&new["GRUB_CMDLINE_LINUX"]).0;
        if value.is_some() && every.len() != 1 {
            return Err(format!("{shell}: {} times", every.len()));
        }
    }
    Ok(())
}

/// One script, or two that are sourced one after the other.
fn kinds(texts: &[String]) -> Vec<Script<'_>> {
    let kinds = [ScriptKind::Grub, ScriptKind::GrubDropIn];
    texts.iter().map(String::as_str).zip(kinds).collect()
}

/// Puts it in and takes it out again, and takes out what was there before.
fn check_all(texts: &[String]) -> Result<(), String> {
    let mut shells = Shells::new();
    let mut checked = |before: &[String], after: &[String], value| {
        check(&mut shells, before, after, value).map_err(|why| {
            format!(
                "{why}\n--- before\n{}\n--- after\n{}",
                before.join("\n----\n"),
                after.join("\n----\n")
            )
        })
    };
    for value in [None, Some("noop")] {
        if let Err((index, error)) = with_elevator(&kinds(texts), value) {
            let line = texts[index]
                .split('\n')
                .nth(error.line - 1)
                .unwrap_or_default();
            if error.text != line.trim_matches([' ', '\t']) {
                return Err(format!("line {} is quoted as {:?}", error.line, error.text));
            }
        }
    }
    if let Ok(with) = with_elevator(&kinds(texts), Some("noop")) {
        checked(texts, &with, Some("noop"))?;
        match with_elevator(&kinds(&with), None) {
            Ok(without) => {
                checked(texts, &without, None)?;
                checked(&with, &without, None)?;
            }
            // It was there before, and stays by name.
            Err(_) if with == texts => {}
            Err((_, error)) => return Err(format!("cannot be taken out of {with:?}: {error:?}")),
        }
    }
    if let Ok(without) = with_elevator(&kinds(texts), None) {
        checked(texts, &without, None)?;
    }
    Ok(())
}

proptest! {
    #[test]
    fn shells_read_ours_once_and_all_else_as_before(texts in vec(file(), 1..=2)) {
        let found = check_all(&texts);
        prop_assert!(found.is_ok(), "{}", found.unwrap_err());
    }
}

#[test]
fn a_refusal_quotes_the_file_as_it_stands() {
    for text in [
        "GRUB_CMDLINE_LINUX+=\" quiet elevator=cfq\"\n",
        "# a\nif [ x ]; then GRUB_CMDLINE_LINUX=\"a elevator=cfq\"; fi\n",
        "GRUB_CMDLINE_LINUX=\"elevator=cfq a\"; unset X\n",
    ] {
        let (_, error) = with_elevator(&kinds(&[text.to_owned()]), Some("noop")).unwrap_err();
        assert_eq!(text.lines().nth(error.line - 1), Some(&*error.text));
    }
}
