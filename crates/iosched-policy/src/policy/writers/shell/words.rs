//! What words of a script come to: expansions, words parted at blanks, patterns of paths below a disk.

use super::{FollowedDisk, Leaves, Shell, UNKNOWN};
use crate::shell::dialect::Dialect;
use crate::shell::syntax::{Cut, Expansion, Gives, Piece, Word};
use crate::system_config::pattern::is_like;

/// Words that braces may make of one.
const MOST_BRACED: usize = 256;

/// A text longer than that is not known.
const LONGEST: usize = 1 << 16;

/// Files of a disk that stay as they are while the machine runs, besides all that are not below `queue`.
const STAY: [&str; 7] = [
    "queue/rotational",
    "queue/zoned",
    "queue/hw_sector_size",
    "queue/logical_block_size",
    "queue/physical_block_size",
    "queue/minimum_io_size",
    "queue/discard_granularity",
];

/// Variables that every program has.
const OF_SYSTEM: [&str; 14] = [
    "HOME",
    "HOSTNAME",
    "IFS",
    "INVOCATION_ID",
    "LANG",
    "LINENO",
    "LOGNAME",
    "OLDPWD",
    "PATH",
    "PPID",
    "PWD",
    "RANDOM",
    "SHELL",
    "USER",
];

/// A word in the making.
#[derive(Default)]
struct Field {
    text: String,
    is_there: bool,
    is_pattern: bool,
    has_braces: bool,
}

impl Shell<'_> {
    /// The words that these come to.
    pub(super) fn fields(&mut self, words: &[Word]) -> Vec<String> {
        let mut found = Vec::new();
        for word in words {
            for field in self.fields_of(word) {
                found.extend(self.words_of(field));
            }
        }
        found
    }

    fn words_of(&mut self, field: Field) -> Vec<String> {
        let mut found = Vec::new();
        let texts = if field.has_braces && !self.is_spent() {
            let texts = with_braces(&field.text);
            self.spend(texts.iter().map(String::len).sum());
            texts
        } else {
            vec![field.text]
        };
        for text in texts {
            if field.is_pattern || text.contains(['*', '?']) && field.has_braces {
                found.extend(self.paths_like(&text));
            } else {
                found.push(text);
            }
        }
        found
    }

    /// The files into which a redirection leads, and whether it surely does: `sh` takes the word as it is, with its stars
    /// and blanks; bash makes of it what it makes of others, and refuses it if that is more than one.
    pub(super) fn redirected_to(&mut self, word: &Word) -> (Vec<String>, bool) {
        if !self.dialect.expands_redirections() {
            let path = self.text_of_word(word);
            let is_file = !is_pattern(&path); // none in sysfs has such a name
            return (is_file.then_some(path).into_iter().collect(), true);
        }
        let mut fields = self.fields_of(word);
        let Some(field) = fields.pop().filter(|_| fields.is_empty()) else {
            return (Vec::new(), true);
        };
        let (is_pattern, text) = (field.is_pattern, field.text.clone());
        let paths = self.words_of(field);
        if is_pattern {
            let is_one = paths.len() == 1 && self.place.is_of_one_disk(&self.absolute(&text));
            return (paths, is_one);
        }
        let is_refused = paths.len() > 1;
        (if is_refused { Vec::new() } else { paths }, true)
    }

    fn fields_of(&mut self, word: &Word) -> Vec<Field> {
        let mut fields = Vec::new();
        let mut field = Field::default();
        for piece in word {
            match piece {
                Piece::Text { text, is_quoted } => {
                    field.text.push_str(text);
                    field.is_there |= *is_quoted || !text.is_empty();
                    field.is_pattern |= !is_quoted && is_pattern(text);
                    field.has_braces |= !is_quoted && text.contains('{') && self.dialect.is_bash();
                }
                Piece::Expansion {
                    expansion,
                    is_quoted,
                } => {
                    let is_all = matches!(expansion, Expansion::Variable(name) if name == "@");
                    let text = if is_all {
                        self.arguments.get(1..).unwrap_or_default().join(" ")
                    } else {
                        self.expanded(expansion)
                    };
                    if *is_quoted && !is_all {
                        field.text.push_str(&text);
                        field.is_there = true;
                        continue;
                    }
                    let mut parts = text.split_whitespace().peekable();
                    if text.starts_with(char::is_whitespace) && field.is_there {
                        fields.push(std::mem::take(&mut field));
                    }
                    while let Some(part) = parts.next() {
                        field.text.push_str(part);
                        field.is_there = true;
                        field.is_pattern |= is_pattern(part);
                        if parts.peek().is_some() || text.ends_with(char::is_whitespace) {
                            fields.push(std::mem::take(&mut field));
                        }
                    }
                }
            }
            if field.text.len() > LONGEST {
                field.text = UNKNOWN.to_string();
            }
        }
        if field.is_there {
            fields.push(field);
        }
        fields
    }

    pub(super) fn text_of_word(&mut self, word: &Word) -> String {
        let mut text = String::new();
        for piece in word {
            match piece {
                Piece::Text { text: piece, .. } => text.push_str(piece),
                Piece::Expansion { expansion, .. } => text.push_str(&self.expanded(expansion)),
            }
            if text.len() > LONGEST {
                return UNKNOWN.to_string();
            }
        }
        text
    }

    fn expanded(&mut self, expansion: &Expansion) -> String {
        if self.is_spent() {
            return UNKNOWN.to_string();
        }
        let text = self.value_of(expansion);
        self.spend(text.len());
        text
    }

    fn value_of(&mut self, expansion: &Expansion) -> String {
        match expansion {
            Expansion::Variable(name) => self.variable(name).unwrap_or_default(),
            Expansion::Conditional {
                name,
                counts_empty,
                gives,
                word,
            } => {
                let value = self.variable(name);
                let is_in_doubt =
                    *counts_empty && value.as_ref().is_some_and(|of| of.contains(UNKNOWN));
                match (
                    value.filter(|value| !(*counts_empty && value.is_empty())),
                    gives,
                ) {
                    (None, Gives::Alternative) => String::new(),
                    (Some(_), Gives::Alternative) if is_in_doubt => UNKNOWN.to_string(),
                    (Some(value), Gives::Default | Gives::AssignedDefault) => value,
                    (None, Gives::AssignedDefault) => {
                        let value = self.text_of_word(word);
                        self.keep(name, value.clone());
                        value
                    }
                    (Some(_), Gives::Alternative) | (None, Gives::Default) => {
                        self.text_of_word(word)
                    }
                }
            }
            Expansion::Cut { name, how, pattern } => {
                let value = self.variable(name).unwrap_or_default();
                let pattern = self.text_of_word(pattern);
                if value.contains(UNKNOWN) || pattern.contains(UNKNOWN) {
                    return UNKNOWN.to_string();
                }
                cut(&value, *how, &pattern)
            }
            Expansion::Output(text) => {
                let (variables, directory) = (self.copy_of_variables(), self.directory.clone());
                self.has_failed = false;
                let outcome = self.deeper(0, |shell| {
                    shell.up_to(Leaves::Script, |shell| shell.text(text))
                });
                // The shell reads it with the line in which it stands.
                self.is_broken |= std::mem::take(&mut self.has_failed);
                (self.variables, self.directory) = (variables, directory);
                outcome.output.trim_end().to_owned()
            }
            Expansion::Unknown => UNKNOWN.to_string(),
            Expansion::Bad => {
                self.is_broken = true;
                UNKNOWN.to_string()
            }
        }
    }

    /// What a variable holds; nothing if it is not set.
    fn variable(&self, name: &str) -> Option<String> {
        if let Ok(number) = name.parse::<usize>() {
            return self.arguments.get(number).cloned();
        }
        if matches!(name, "@" | "*") {
            let arguments = self.arguments.get(1..).unwrap_or_default();
            return Some(arguments.join(" "));
        }
        let is_foreign = self.may_have_more || OF_SYSTEM.contains(&name);
        let known = self.variables.get(name).cloned();
        known.or_else(|| is_foreign.then(|| UNKNOWN.to_string()))
    }

    /// The paths that a pattern stands for, as far as they are of our disk; others stay as they are written.
    fn paths_like(&self, pattern: &str) -> Vec<String> {
        let whole = self.absolute(pattern);
        if whole.contains(UNKNOWN) {
            return vec![pattern.to_owned()];
        }
        if !whole.starts_with("/sys/") {
            return vec![UNKNOWN.to_string()];
        }
        let Some(paths) = self.place.paths_like(&whole) else {
            return vec![pattern.to_owned()];
        };
        let before = format!("{}/", self.directory);
        let relative = |path: String| match path.strip_prefix(&before) {
            Some(below) if !pattern.starts_with('/') => below.to_owned(),
            _ => path,
        };
        paths.into_iter().map(relative).collect()
    }
}

impl FollowedDisk<'_> {
    /// The paths of this disk that are like a pattern; nothing if it is for something else.
    fn paths_like(&self, pattern: &str) -> Option<Vec<String>> {
        let parts: Vec<&str> = pattern.split('/').collect();
        let block = parts.iter().position(|part| *part == "block")?;
        let is_ours = is_like(parts.get(block + 1)?, &self.name);
        is_ours.then_some(())?;
        let is_literal = !parts[..block].iter().any(|part| is_pattern(part));
        let before = if is_literal {
            parts[..=block].join("/")
        } else {
            "/sys/block".to_owned()
        };
        let mut paths = vec![(format!("{before}/{}", self.name), String::new())];
        for part in &parts[block + 2..] {
            let is_pattern = is_pattern(part);
            let mut next = Vec::new();
            for (path, below) in paths {
                let names = if is_pattern {
                    self.names_in(&below, part)
                } else {
                    vec![(*part).to_owned()]
                };
                next.extend(
                    names
                        .into_iter()
                        .map(|name| (format!("{path}/{name}"), format!("{below}/{name}"))),
                );
            }
            paths = next;
        }
        Some(paths.into_iter().map(|(path, _)| path).collect())
    }

    /// True of a pattern of paths that is for one disk of the machine, and no more.
    fn is_of_one_disk(&self, pattern: &str) -> bool {
        let Some((before, below)) = pattern.split_once("/block/") else {
            return false;
        };
        let disk = below.split('/').next().unwrap_or_default();
        let disks = std::fs::read_dir(self.host.sysfs().root().join("block"));
        let names = disks.into_iter().flatten().flatten();
        let names = names.filter(|entry| is_like(disk, &entry.file_name().to_string_lossy()));
        !is_pattern(before) && !disk.contains('{') && (!is_pattern(disk) || names.count() == 1)
    }

    fn names_in(&self, below: &str, pattern: &str) -> Vec<String> {
        let directory = self.directory().join(below.trim_start_matches('/'));
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| is_like(pattern, name)).collect();
        names.sort();
        names
    }

    pub(super) fn directory(&self) -> std::path::PathBuf {
        self.host.sysfs().device_dir(&self.name)
    }

    /// What a path names below the directory of this disk, which may be nothing more than that.
    pub(super) fn below<'p>(&self, path: &'p str) -> Option<&'p str> {
        let rest = path.strip_prefix("/sys/")?;
        let of_class = rest
            .strip_prefix("block/")
            .or_else(|| rest.strip_prefix("class/block/"));
        let rest = of_class?.strip_prefix(self.name.as_str())?;
        if rest.is_empty() {
            return Some("");
        }
        rest.strip_prefix('/')
    }

    /// The text of a file of this disk that stays as it is.
    pub(super) fn text_at(&self, path: &str) -> Option<String> {
        let below = self.below(path)?;
        if below.starts_with("queue/") && !STAY.contains(&below) {
            return None;
        }
        let text = iosched_machine::lossy::read(self.directory().join(below)).ok()?;
        Some(text.trim_end().to_owned())
    }
}

/// True of a text that stands for the paths which are like it.
fn is_pattern(text: &str) -> bool {
    let has_set = || text.find('[').is_some_and(|at| text[at..].contains(']'));
    text.contains(['*', '?']) || has_set()
}

/// What `echo` prints: to dash `-n` alone is an option, and backslashes count always.
pub(super) fn echoed(arguments: &[String], of_tools: Dialect) -> String {
    let is_dash = of_tools == Dialect::Dash;
    let is_option = |argument: &&String| match argument.strip_prefix('-') {
        Some("n") => true,
        Some(letters) => {
            !is_dash && !letters.is_empty() && letters.chars().all(|c| "neE".contains(c))
        }
        None => false,
    };
    let most = if is_dash { 1 } else { arguments.len() };
    let options: Vec<&String> = arguments.iter().take(most).take_while(is_option).collect();
    let words: Vec<&str> = arguments[options.len()..]
        .iter()
        .map(String::as_str)
        .collect();
    let letters = options.iter().flat_map(|option| option.chars());
    let last = letters.fold(None, |last, letter| {
        Some(letter)
            .filter(|letter| matches!(letter, 'e' | 'E'))
            .or(last)
    });
    let text = words.join(" ");
    let text = if is_dash || last == Some('e') {
        unescaped(&text)
    } else {
        text
    };
    text.trim().to_owned()
}

/// A text with what its backslashes stand for, as far as that is followed.
fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some('\\') | None => out.push('\\'),
                Some('c') => return out,
                Some(_) => out.push(UNKNOWN),
            },
            c => out.push(c),
        }
    }
    out
}

/// What `printf` prints, if that is one text.
pub(super) fn formatted(arguments: &[String]) -> String {
    let Some((format, values)) = arguments.split_first() else {
        return String::new();
    };
    let mut values = values.iter();
    let mut text = String::new();
    let mut rest = format.as_str();
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        if rest[at..].starts_with("%s") || rest[at..].starts_with("%d") {
            text.push_str(values.next().map_or("", String::as_str));
            rest = &rest[at + 2..];
        } else if rest[at..].starts_with("%%") {
            text.push('%');
            rest = &rest[at + 2..];
        } else {
            return UNKNOWN.to_string();
        }
    }
    text.push_str(rest);
    if values.next().is_some() {
        return UNKNOWN.to_string();
    }
    text.replace("\\n", "\n").trim().to_owned()
}

/// What `basename` or `dirname` prints.
pub(super) fn part_of_path(program: &str, arguments: &[String]) -> String {
    let Some(path) = arguments
        .first()
        .filter(|path| !path.contains(UNKNOWN) && !path.starts_with('-'))
    else {
        return UNKNOWN.to_string();
    };
    let (directory, name) = path.rsplit_once('/').unwrap_or((".", path));
    if program == "dirname" {
        return directory.to_owned();
    }
    let end = arguments.get(1).map_or("", String::as_str);
    name.strip_suffix(end).unwrap_or(name).to_owned()
}

/// `${NAME#…}` and the like.
fn cut(value: &str, how: Cut, pattern: &str) -> String {
    let ends: Vec<usize> = value
        .char_indices()
        .map(|(at, _)| at)
        .chain([value.len()])
        .collect();
    let is_start = |at: &usize| is_like(pattern, &value[..*at]);
    let is_end = |at: &usize| is_like(pattern, &value[*at..]);
    let mut all = ends.iter().copied();
    let at = match how {
        Cut::ShortestStart => all.find(is_start),
        Cut::LongestStart => all.rfind(is_start),
        Cut::ShortestEnd => all.rfind(is_end),
        Cut::LongestEnd => all.find(is_end),
    };
    let Some(at) = at else {
        return value.to_owned();
    };
    match how {
        Cut::ShortestStart | Cut::LongestStart => value[at..].to_owned(),
        Cut::ShortestEnd | Cut::LongestEnd => value[..at].to_owned(),
    }
}

/// `sd{a,b}` and `sd{a..c}`, one after the other.
fn with_braces(text: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut waiting = vec![text.to_owned()];
    while let Some(text) = waiting.pop() {
        let many = done.len() + waiting.len() > MOST_BRACED;
        let Some((before, choices, after)) = braces(&text).filter(|_| !many) else {
            done.push(text);
            continue;
        };
        let all = choices.iter().rev();
        waiting.extend(all.map(|choice| format!("{before}{choice}{after}")));
    }
    done
}

/// The first braces that stand for several texts, those, and what stands around them.
fn braces(text: &str) -> Option<(&str, Vec<String>, &str)> {
    let mut from = 0;
    loop {
        let open = from + text[from..].find('{')?;
        let close = open + text[open..].find('}')?;
        let inner = &text[open + 1..close];
        let choices = match inner.split_once("..") {
            Some((first, last)) => range(first, last),
            None if inner.contains(',') && !inner.contains('{') => {
                Some(inner.split(',').map(str::to_owned).collect())
            }
            None => None,
        };
        if let Some(choices) = choices {
            return Some((&text[..open], choices, &text[close + 1..]));
        }
        from = open + 1;
    }
}

fn range(first: &str, last: &str) -> Option<Vec<String>> {
    if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
        let is_small = first <= last && last - first < 100;
        return is_small.then(|| (first..=last).map(|number| number.to_string()).collect());
    }
    let letter = |text: &str| {
        let mut letters = text.chars();
        let first = letters.next().filter(char::is_ascii_alphabetic);
        first.filter(|_| letters.next().is_none())
    };
    let (first, last) = (letter(first)?, letter(last)?);
    (first <= last).then(|| (first..=last).map(String::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_and_multiplied() {
        for (how, pattern, expected) in [
            (Cut::LongestStart, "*/", "sda"),
            (Cut::ShortestStart, "*/", "sys/block/sda"),
            (Cut::ShortestEnd, "/*", "/sys/block"),
            (Cut::LongestEnd, "/*", ""),
            (Cut::ShortestEnd, "x", "/sys/block/sda"),
        ] {
            assert_eq!(cut("/sys/block/sda", how, pattern), expected);
        }
        assert_eq!(
            with_braces("sd{a,c}{1..2}"),
            ["sda1", "sda2", "sdc1", "sdc2"]
        );
        assert_eq!(
            with_braces("{} {x} {a..c}d"),
            ["{} {x} ad", "{} {x} bd", "{} {x} cd"]
        );
        assert_eq!(with_braces("{a"), ["{a"]);
        assert!(with_braces(&"{a,b}".repeat(40)).len() < 1000);
    }
}
