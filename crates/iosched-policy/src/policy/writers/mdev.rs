//! mdev of busybox, and mdevd, which make device nodes where there is no udev (Alpine): what `/etc/mdev.conf` has run when a
//! disk comes.
//!
//! A line is `[-][VAR=REGEX;]...REGEX user:group mode [alias] [@command]`: the first whose expression is like the whole name
//! counts, and those with `-` besides. `@` runs a command when a device comes, `*` when it goes, too, `$` only then.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use iosched_machine::host::Host;
use iosched_machine::sysfs::sysfs_name;

use super::shell::{self, Environment, Place, Write};
use super::systemd::Units;
use super::{inits, text_of};
use crate::policy::matching::KnownDisk;
use crate::system_config::udev;

const PATH: &str = "/etc/mdev.conf";

/// What it writes when this disk comes; in doubt where nothing is seen that starts it, and there is no udev either.
pub(super) fn writes(
    host: &Host,
    units: &Units<'_>,
    place: &Place<'_>,
    disk: &KnownDisk,
) -> Vec<Write> {
    let path = Path::new(PATH);
    let Some(text) = text_of(host, path) else {
        return Vec::new();
    };
    let is_started = is_started(host, units);
    if !is_started && udev::is_here(host) {
        return Vec::new();
    }
    let name = disk.device.name.as_str();
    let mut environment = Environment::default();
    for (variable, value) in variables(name) {
        environment
            .variables
            .insert(variable.into(), value.to_owned());
    }
    environment
        .variables
        .insert("DEVPATH".into(), format!("/block/{}", sysfs_name(name)));
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(line) = Line::read(line) else {
            continue;
        };
        let is_for = line.is_for(name);
        if is_for == Some(false) {
            continue;
        }
        if let Some(command) = line.command {
            let words = ["/bin/sh", "-c", command].map(str::to_owned);
            let writes = shell::writes_of_program(place, &words, &environment, (path, index + 1));
            found.extend(writes.into_iter().map(|write| Write {
                certain: write.certain && is_started && is_for == Some(true),
                ..write
            }));
        }
        if is_for == Some(true) && !line.goes_on {
            break;
        }
    }
    found
}

/// True if OpenRC starts it, or what busybox' init reads names it.
fn is_started(host: &Host, units: &Units<'_>) -> bool {
    let services = ["mdev", "mdevd", "mdevd-init"];
    let scripts = ["/etc/inittab", "/etc/init.d/rcS", "/etc/rc.d/rcS"];
    let names_it = |path: &&str| {
        let text = text_of(host, Path::new(path)).unwrap_or_default();
        let mut lines = text.lines().map(str::trim);
        lines.any(|line| !line.starts_with('#') && line.contains("mdev"))
    };
    services
        .iter()
        .any(|name| inits::is_started(host, units, name))
        || scripts.iter().any(names_it)
}

/// What a command is told of a disk.
fn variables(name: &str) -> [(&'static str, &str); 5] {
    [
        ("MDEV", name),
        ("DEVNAME", name),
        ("ACTION", "add"),
        ("SUBSYSTEM", "block"),
        ("DEVTYPE", "disk"),
    ]
}

struct Line<'a> {
    /// `VAR=REGEX` that must hold besides.
    conditions: Vec<(&'a str, &'a str)>,
    /// Of the name; `@8,0` and `$VAR=` are not judged.
    expression: &'a str,
    goes_on: bool,
    /// Run when a device comes.
    command: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Option<Line<'a>> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let (goes_on, line) = match line.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let (names, mut rest) = line.split_once(char::is_whitespace)?;
        let mut conditions: Vec<&str> = names.split(';').collect();
        let expression = conditions.pop()?;
        let mut command = None;
        while let Some(word) = rest.split_whitespace().next() {
            if matches!(word.as_bytes()[0], b'@' | b'*' | b'$') {
                let when_it_comes = !word.starts_with('$');
                command = rest.trim().get(1..).filter(|_| when_it_comes);
                break;
            }
            rest = &rest.trim_start()[word.len()..];
        }
        Some(Line {
            conditions: conditions
                .into_iter()
                .filter_map(|condition| condition.split_once('='))
                .collect(),
            expression,
            goes_on,
            command,
        })
    }

    /// Whether it is for a disk that comes; nothing where that cannot be told.
    fn is_for(&self, name: &str) -> Option<bool> {
        let of_name = if self.expression.starts_with(['@', '$']) {
            None
        } else {
            is_whole(self.expression, name)
        };
        let conditions = self.conditions.iter().map(|(variable, expression)| {
            let known = variables(name);
            let known = known.iter().find(|(known, _)| known == variable);
            known.and_then(|(_, value)| is_whole(expression, value))
        });
        let mut all: Vec<Option<bool>> = conditions.collect();
        all.push(of_name);
        if all.contains(&Some(false)) {
            Some(false)
        } else {
            all.contains(&None)
                .then_some(())
                .map_or(Some(true), |()| None)
        }
    }
}

/// Whether an extended regular expression (POSIX) is like the whole text; nothing of one that cannot be read.
fn is_whole(expression: &str, text: &str) -> Option<bool> {
    let mut reader = Reader {
        rest: expression.as_bytes(),
        depth: 0,
    };
    let either = reader.either()?;
    let mut matcher = Matcher {
        text: text.as_bytes(),
        known: BTreeMap::new(),
    };
    let is_read = reader.rest.is_empty();
    is_read.then(|| matcher.ends_of(&either, 0).contains(&text.len()))
}

/// Alternatives, each a sequence.
type Either = Vec<Vec<Repeated>>;

struct Repeated {
    node: Node,
    least: usize,
    most: usize,
}

enum Node {
    Any,
    This(u8),
    OneOf { set: Vec<(u8, u8)>, negated: bool },
    Start,
    End,
    Group(Either),
}

/// Goes through an expression by all places at once, through each part of it from each place once.
struct Matcher<'a> {
    text: &'a [u8],
    /// Where a part can end, by its address and the place where it begins.
    known: BTreeMap<(*const Repeated, usize), BTreeSet<usize>>,
}

impl Matcher<'_> {
    /// Where it can end that begins at a place.
    fn ends_of(&mut self, either: &Either, start: usize) -> BTreeSet<usize> {
        let mut all = BTreeSet::new();
        for sequence in either {
            let mut places = BTreeSet::from([start]);
            for part in sequence {
                let ends = places.into_iter().map(|place| self.repeated(part, place));
                places = ends.flatten().collect();
            }
            all.extend(places);
        }
        all
    }

    fn repeated(&mut self, part: &Repeated, start: usize) -> BTreeSet<usize> {
        let key = (std::ptr::from_ref(part), start);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let mut found = BTreeSet::new();
        let mut places = BTreeSet::from([start]);
        for times in 0..=part.most {
            if times >= part.least {
                found.extend(&places);
            }
            let ends = places.iter().map(|&place| self.once(&part.node, place));
            let next: BTreeSet<usize> = ends.flatten().collect();
            if next == places {
                if part.least <= part.most {
                    found.extend(&places);
                }
                break; // more of it leads nowhere else
            }
            places = next;
        }
        self.known.insert(key, found.clone());
        found
    }

    fn once(&mut self, node: &Node, at: usize) -> BTreeSet<usize> {
        let takes = |is_it: bool| is_it.then_some(at + 1).into_iter().collect();
        let stays = |is_it: bool| is_it.then_some(at).into_iter().collect();
        let byte = self.text.get(at).copied();
        match node {
            Node::Any => takes(byte.is_some()),
            Node::This(this) => takes(byte == Some(*this)),
            Node::OneOf { set, negated } => {
                let has = |byte: u8| set.iter().any(|(from, to)| (from..=to).contains(&&byte));
                takes(byte.is_some_and(|byte| has(byte) != *negated))
            }
            Node::Start => stays(at == 0),
            Node::End => stays(at == self.text.len()),
            Node::Group(either) => self.ends_of(either, at),
        }
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    depth: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn either(&mut self) -> Option<Either> {
        const DEEPEST: usize = 16;
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let mut all = vec![Vec::new()];
        while let Some(&first) = self.rest.first() {
            match first {
                b')' => break,
                b'|' => {
                    self.next();
                    all.push(Vec::new());
                }
                _ => {
                    let node = self.node()?;
                    let (least, most) = self.times()?;
                    all.last_mut()?.push(Repeated { node, least, most });
                }
            }
        }
        self.depth -= 1;
        Some(all)
    }

    fn node(&mut self) -> Option<Node> {
        Some(match self.next()? {
            b'.' => Node::Any,
            b'^' => Node::Start,
            b'$' => Node::End,
            b'[' => self.set()?,
            b'(' => {
                let group = self.either()?;
                (self.next()? == b')').then_some(())?;
                Node::Group(group)
            }
            b'*' | b'+' | b'?' | b'{' => return None,
            b'\\' => Node::This(self.next()?),
            byte => Node::This(byte),
        })
    }

    fn set(&mut self) -> Option<Node> {
        let negated = self.rest.first() == Some(&b'^');
        if negated {
            self.next();
        }
        let mut set = Vec::new();
        loop {
            let from = self.next()?;
            if from == b']' && !set.is_empty() {
                return Some(Node::OneOf { set, negated });
            }
            if from == b'[' && matches!(self.rest.first(), Some(b':' | b'.' | b'=')) {
                let end = self.rest.windows(2).position(|two| two == b":]")?;
                match &self.rest[..end] {
                    b":digit" => set.push((b'0', b'9')),
                    b":lower" => set.push((b'a', b'z')),
                    b":upper" => set.push((b'A', b'Z')),
                    b":alpha" => set.extend([(b'a', b'z'), (b'A', b'Z')]),
                    b":alnum" => set.extend([(b'0', b'9'), (b'a', b'z'), (b'A', b'Z')]),
                    _ => return None,
                }
                self.rest = &self.rest[end + 2..];
                continue;
            }
            let is_range = self.rest.first() == Some(&b'-') && self.rest.get(1) != Some(&b']');
            if is_range {
                self.next();
                set.push((from, self.next()?));
            } else {
                set.push((from, from));
            }
        }
    }

    /// How often the last one may come, `*`, `+`, `?` or `{2,3}`; more than a name is long is as good as any number.
    fn times(&mut self) -> Option<(usize, usize)> {
        const MANY: usize = 256;
        let times = match self.rest.first() {
            Some(b'*') => (0, MANY),
            Some(b'+') => (1, MANY),
            Some(b'?') => (0, 1),
            Some(b'{') => {
                let end = self.rest.iter().position(|&byte| byte == b'}')?;
                let inner = std::str::from_utf8(&self.rest[1..end]).ok()?;
                self.rest = &self.rest[end..];
                let number = |text: &str| text.parse::<usize>().ok().filter(|&n| n <= MANY);
                match inner.split_once(',') {
                    None => (number(inner)?, number(inner)?),
                    Some((least, "")) => (number(least)?, MANY),
                    Some((least, most)) => (number(least)?, number(most)?),
                }
            }
            _ => return Some((1, 1)),
        };
        self.next();
        Some(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::matching::disks;
    use crate::system_config::testing::{Disk, machine, write};

    fn written(files: &[(&str, &str)]) -> Vec<String> {
        let (dir, host) = machine(&[Disk::new("sda")]);
        let database = dir.path().join("run/udev");
        if database.exists() {
            std::fs::remove_dir_all(database).unwrap();
        }
        for (name, text) in files {
            write(dir.path(), name, text);
        }
        let disks = disks(&host).unwrap();
        let place = Place::of(&host, &disks[0]);
        let found = writes(&host, &Units::of(&host), &place, &disks[0]);
        let told = |write: &Write| {
            let doubt = if write.certain { "" } else { "?" };
            let value = write.value.as_deref().unwrap_or("…");
            format!("{}:{} {value}{doubt}", write.file.display(), write.line)
        };
        found.iter().map(told).collect()
    }

    const STARTED: (&str, &str) = ("etc/runlevels/sysinit/mdev", "");

    #[test]
    fn a_command_that_is_run_when_the_disk_comes_is_found() {
        let bfq = "echo bfq > /sys/block/$MDEV/queue/scheduler";
        let none = "echo none > /sys/block/sda/queue/scheduler";
        for (conf, expected) in [
            (format!("sd[a-z] root:disk 0660 @{bfq}\n"), vec!["1 bfq"]),
            (format!("# x\n\nsd[a-z]+ 0:0 660 * {bfq}\n"), vec!["3 bfq"]),
            (format!("sda 0:0 660 >disks/ @{bfq}\n"), vec!["1 bfq"]),
            (format!("sda 0:0 660 ${bfq}\n"), vec![]),
            (format!("sda 0:0 660\nsd.* 0:0 660 @{bfq}\n"), vec![]),
            (
                format!("-sda 0:0 660\nsd.* 0:0 660 @{bfq}\n"),
                vec!["2 bfq"],
            ),
            (
                format!("-sda 0:0 660 @{none}\nsd.* 0:0 660 @{bfq}\n"),
                vec!["1 none", "2 bfq"],
            ),
            (format!("sd 0:0 660 @{bfq}\n"), vec![]),
            (format!("sda[0-9] 0:0 660 @{bfq}\n"), vec![]),
            (
                format!("SUBSYSTEM=block;.* 0:0 660 @{bfq}\n"),
                vec!["1 bfq"],
            ),
            (format!("SUBSYSTEM=net;.* 0:0 660 @{bfq}\n"), vec![]),
            (format!("ID_X=y;sda 0:0 660 @{bfq}\n"), vec!["1 bfq?"]),
            (format!("@8,0 0:0 660 @{bfq}\n"), vec!["1 bfq?"]),
            (
                "sda 0:0 660 @/lib/mdev/set\n".to_owned(),
                vec!["/lib/mdev/set:2 kyber"],
            ),
        ] {
            let script = "#!/bin/sh\necho kyber > /sys$DEVPATH/queue/scheduler\n";
            let files = [
                ("etc/mdev.conf", conf.as_str()),
                STARTED,
                ("lib/mdev/set", script),
            ];
            let expected: Vec<String> = expected
                .iter()
                .map(|said| {
                    if said.starts_with('/') {
                        (*said).to_owned()
                    } else {
                        format!("/etc/mdev.conf:{said}")
                    }
                })
                .collect();
            assert_eq!(written(&files), expected, "{conf}");
        }
    }

    #[test]
    fn it_counts_where_it_is_started() {
        let conf = (
            "etc/mdev.conf",
            "sda 0:0 660 @echo bfq > /sys/block/sda/queue/scheduler\n",
        );
        let sure = ["/etc/mdev.conf:1 bfq"];
        for by in [
            STARTED,
            ("etc/runlevels/sysinit/mdevd", ""),
            ("etc/inittab", "::sysinit:/sbin/mdev -s\n"),
            ("etc/init.d/rcS", "#!/bin/sh\nmdev -s\n"),
        ] {
            assert_eq!(written(&[conf, by]), sure, "{by:?}");
        }
        assert_eq!(written(&[conf]), ["/etc/mdev.conf:1 bfq?"]);
        let udev = ("usr/lib/systemd/systemd-udevd", "");
        assert_eq!(written(&[conf, udev]), [""; 0]);
        assert_eq!(written(&[conf, udev, STARTED]), sure);
    }

    #[test]
    fn expressions_are_those_of_posix() {
        for (expression, text, expected) in [
            ("sd[a-z]", "sda", Some(true)),
            ("sd[a-z]", "sdaa", Some(false)),
            ("(sd|vd)[a-z]+", "vdab", Some(true)),
            ("nvme[0-9]+n[0-9]{1,2}", "nvme0n11", Some(true)),
            ("nvme[0-9]+n[0-9]{1,2}", "nvme0n111", Some(false)),
            ("a|", "", Some(true)),
            ("(a*)*b", "aaaab", Some(true)),
            ("(a*)*b", "aaaac", Some(false)),
            ("^sda$", "sda", Some(true)),
            ("[^s].*", "sda", Some(false)),
            ("[[:alpha:]]+[[:digit:]]?", "sda", Some(true)),
            ("a\\.b", "a.b", Some(true)),
            ("[]a]", "]", Some(true)),
            ("*a", "a", None),
            ("(a", "a", None),
            ("a)", "a", None),
            ("[a", "a", None),
        ] {
            assert_eq!(is_whole(expression, text), expected, "{expression} {text}");
        }
        assert_eq!(is_whole(&"(".repeat(100_000), "a"), None);
        // Each part is gone through once from each place, whatever stands around it.
        let nested = |inner: &str, around: &str| {
            (0..14).fold(inner.to_owned(), |inner, _| format!("({inner}){around}"))
        };
        let name = "a".repeat(40);
        for (expression, expected) in [
            (nested("", "{256}"), false),
            (nested("a*", "*"), true),
            (nested("a*b", "+"), false),
            (nested("a?", "{2,256}"), true),
        ] {
            assert_eq!(is_whole(&expression, &name), Some(expected), "{expression}");
        }
    }
}
