//! Entries of the Boot Loader Specification, which GRUB (Fedora, RHEL 8 and later) and systemd-boot read at every
//! boot, and GRUB's environment block, where RHEL 8 keeps what its entries call `$kernelopts`. Pure.
//!
//! Follows type #1 of the specification. An entry that is there is changed by nobody but `grubby` and, in some
//! versions or when told so, `grub2-mkconfig`: so it is edited itself, and an undo puts back exactly what it held.

use crate::system_config::parameter::{
    GoesInto, NotUnderstood, OpenQuote, PARAMETER, each_line, in_lines, others, value_of_parameter,
    with_parameter,
};

/// What the environment block begins with.
const SIGNATURE: &str = "# GRUB Environment Block\n";

/// The value of a key of an entry, where it stands first.
fn value_of<'a>(entry: &'a str, key: &str) -> Option<&'a str> {
    entry.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix(key)?;
        rest.starts_with(char::is_whitespace).then(|| rest.trim())
    })
}

/// True of a line with parameters.
pub(super) fn is_options(line: &str) -> bool {
    line.split_whitespace().next() == Some("options")
}

/// An entry with `elevator=` in its first line of parameters, or in none: systemd-boot joins these lines, GRUB reads the
/// first one only. A line that has nothing else goes with the parameter, because GRUB stops at a key without a value.
///
/// # Errors
/// The number of a line, from 1, in which a quote is not closed.
pub(super) fn with_elevator(text: &str, value: Option<&str>) -> Result<String, usize> {
    let edited = in_lines(text, is_options, "options ", GoesInto::First, value)?;
    let is_bare = |line: &str| is_options(line) && line.split_whitespace().count() == 1;
    let mut before = text.split_inclusive('\n');
    let is_kept = |line: &&str| {
        let was_bare = before.next().is_none_or(is_bare);
        was_bare || !is_bare(line)
    };
    Ok(edited.split_inclusive('\n').filter(is_kept).collect())
}

/// The line whose parameters GRUB gives an entry, and its number from 1. Its `blscfg` takes the first `options` and stops
/// at a line without a value, an empty one too. As Fedora and RHEL have it, it ends a key at a blank if the line has
/// one, and else at a tab, and gives an entry without parameters those of the variable `default_kernelopts`.
pub(super) fn line_for_grub(text: &str) -> Option<(usize, &str)> {
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start_matches([' ', '\t']);
        if line.starts_with('#') {
            continue;
        }
        let (key, value) = line.split_once(' ').or_else(|| line.split_once('\t'))?;
        if value.is_empty() {
            return None;
        }
        if key == "options" {
            return (!value.trim().is_empty()).then_some((index + 1, line));
        }
    }
    None
}

/// That GRUB gives an entry the parameter, or none, and every other one as before.
///
/// # Errors
/// What stands in the way, and in which line.
pub(super) fn check_for_grub(
    before: &str,
    after: &str,
    value: Option<&str>,
) -> Result<(), NotUnderstood> {
    let (old, new) = (line_for_grub(before), line_for_grub(after));
    let given = new.and_then(|(_, line)| value_of_parameter(line));
    let is_same = old.map(|(_, line)| others(line)) == new.map(|(_, line)| others(line));
    if is_same && given == value {
        return Ok(());
    }
    let Some((line, _)) = old else {
        let is_named = |line: &str| line.split_whitespace().next() == Some("linux");
        let line = before.lines().position(is_named).unwrap_or(0) + 1;
        return Err(NotUnderstood::of(before, line, NotUnderstood::NO_OPTIONS));
    };
    let why = if value.is_none() {
        NotUnderstood::ALONE
    } else {
        NotUnderstood::NOT_FOR_GRUB
    };
    Err(NotUnderstood::of(before, line, why))
}

/// What an entry starts, by its keys (type #1 of the specification, and `uki` of systemd 258).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Starts {
    /// A Linux of this machine: `linux`, or `efi` with what only Linux has (its name, an `initrd`, `root=`).
    Linux,
    /// A unified kernel image, which holds its command line itself: `uki`, `uki-url`.
    Unified,
    /// Another EFI program that is given options.
    Program,
    /// A Linux of another machine, by its id.
    OtherMachine,
    /// A memory test, an EFI program without options, any other system of another machine.
    Nothing,
}

pub(super) fn starts(entry: &str, machine_id: Option<&str>) -> Starts {
    let of = value_of(entry, "machine-id");
    let is_of_other = of.is_some() && machine_id.is_some() && of != machine_id;
    match starts_on_any(entry) {
        Starts::Linux if is_of_other => Starts::OtherMachine,
        _ if is_of_other => Starts::Nothing,
        starts => starts,
    }
}

fn starts_on_any(entry: &str) -> Starts {
    let is_memtest = |image: &str| image.to_ascii_lowercase().contains("memtest");
    if let Some(image) = value_of(entry, "linux") {
        return if is_memtest(image) {
            Starts::Nothing
        } else {
            Starts::Linux
        };
    }
    if ["uki", "uki-url"]
        .iter()
        .any(|key| value_of(entry, key).is_some())
    {
        return Starts::Unified;
    }
    let options: Vec<&str> = entry.lines().filter(|line| is_options(line)).collect();
    let Some(image) = value_of(entry, "efi").filter(|_| !options.is_empty()) else {
        return Starts::Nothing;
    };
    let name = image.rsplit(['/', '\\']).next().unwrap_or(image);
    let name = name.to_ascii_lowercase();
    let mut words = options.iter().flat_map(|line| line.split_whitespace());
    let is_linux = ["vmlinu", "linux", "bzimage"]
        .iter()
        .any(|of| name.starts_with(of))
        || value_of(entry, "initrd").is_some()
        || words.any(|word| word.starts_with("root=") || word.starts_with(PARAMETER));
    match (is_memtest(image), is_linux) {
        (true, _) => Starts::Nothing,
        (_, true) => Starts::Linux,
        _ => Starts::Program,
    }
}

/// The variable of GRUB's environment that carries parameters.
const KERNELOPTS: &str = "kernelopts=";

/// The environment block with `kernelopts` as they were before a change, as long as it is: others write their own
/// variables there. Nothing if they are not as after it, or have no room.
pub(super) fn environment_with_old(before: &str, after: &str, now: &str) -> Option<String> {
    let parameters = |text: &'_ str| -> Option<String> {
        let line = text.lines().find(|line| line.starts_with(KERNELOPTS));
        line.map(str::to_owned)
    };
    let (old, new) = (parameters(before)?, parameters(after)?);
    if !now.starts_with(SIGNATURE) {
        return None;
    }
    let found = parameters(now)?;
    if found == old {
        return Some(now.to_owned());
    }
    let variables = now.trim_end_matches('#');
    let mut back = each_line(variables, |line| {
        if line == new { &old } else { line }.to_owned()
    });
    let room = now.len().checked_sub(back.len());
    let room = room.filter(|_| found == new)?;
    back.extend(std::iter::repeat_n('#', room));
    Some(back)
}

/// True of an entry whose parameters are those of GRUB's environment. Nobody but GRUB knows them, which reads one line.
pub(super) fn takes_kernelopts(entry: &str) -> bool {
    let options = entry.lines().find(|line| is_options(line));
    options.is_some_and(|line| {
        line.split_whitespace()
            .any(|word| matches!(word, "$kernelopts" | "${kernelopts}"))
    })
}

/// True if GRUB's environment gives such entries their parameters.
pub(super) fn has_kernelopts(environment: &str) -> bool {
    environment.lines().any(|line| line.starts_with(KERNELOPTS))
}

/// The environment block with `elevator=` in `kernelopts` set or, with no value, taken out, and as long as it was: GRUB
/// knows it by its size.
pub(super) fn environment_with(text: &str, value: Option<&str>) -> Result<String, NotUnderstood> {
    const NAME: &str = KERNELOPTS;
    let goes_on = |line: &&str| line.starts_with(NAME) && line.ends_with('\\');
    if let Some(index) = text.lines().position(|line| goes_on(&line)) {
        return Err(NotUnderstood::of(text, index + 1, NotUnderstood::BACKSLASH));
    }
    let mut is_open = false;
    let mut edited = each_line(text, |line| match line.strip_prefix(NAME) {
        Some(parameters) => {
            let edited = with_parameter(parameters, value);
            is_open |= edited.is_err();
            NAME.to_owned() + &edited.unwrap_or_else(|OpenQuote| parameters.to_owned())
        }
        None => line.to_owned(),
    });
    let is_block = text.starts_with(SIGNATURE) && text.ends_with(['#', '\n']);
    if is_open || (edited != text && !is_block) {
        let why = if is_open {
            NotUnderstood::QUOTE
        } else {
            "is not what an environment block of GRUB begins with"
        };
        let line = text.lines().position(|line| line.starts_with(NAME));
        let line = line.filter(|_| is_open).unwrap_or(0) + 1;
        return Err(NotUnderstood::of(text, line, why));
    }
    if edited.len() > text.len() {
        // What fills the block up makes room.
        let filled = edited.len() - edited.trim_end_matches('#').len();
        let more = edited.len() - text.len();
        if more > filled {
            let line = text.lines().position(|line| line.starts_with(NAME));
            let why = NotUnderstood::NO_ROOM;
            return Err(NotUnderstood::of(text, line.unwrap_or(0) + 1, why));
        }
        edited.truncate(text.len());
    }
    edited.extend(std::iter::repeat_n('#', text.len() - edited.len()));
    Ok(edited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system_config::cmdline::{self, Format};

    fn entry(text: &str, value: Option<&str>) -> String {
        with_elevator(text, value).unwrap()
    }

    /// As Fedora's and RHEL's kernel packages make it, in our own words.
    const RHEL_9: &str = "title Red Hat Enterprise Linux (5.14.0-1.el9.x86_64) 9.0 (Plow)\n\
        version 5.14.0-1.el9.x86_64\nlinux /vmlinuz-5.14.0-1.el9.x86_64\n\
        initrd /initramfs-5.14.0-1.el9.x86_64.img $tuned_initrd\n\
        options root=/dev/mapper/rhel-root ro crashkernel=1G-4G:192M rhgb quiet $tuned_params\n\
        grub_users $grub_users\ngrub_arg --unrestricted\ngrub_class rhel\n";
    const RHEL_8: &str = "title RHEL\nlinux /vmlinuz-4.18.0\noptions $kernelopts $tuned_params\n";
    /// As kernel-install makes it.
    const SYSTEMD_BOOT: &str = "# Boot Loader Specification type#1 entry\ntitle      Arch Linux\n\
        version    6.12.1-arch1-1\nmachine-id 0123456789abcdef0123456789abcdef\nsort-key   arch\n\
        options    root=UUID=1 rw systemd.machine_id=0123456789abcdef0123456789abcdef\n\
        linux      /0123/6.12.1-arch1-1/linux\ninitrd     /0123/6.12.1-arch1-1/initrd\n";

    #[test]
    fn an_entry_gets_the_parameter_at_the_end_of_its_options_and_loses_it_again() {
        for (text, from, to) in [
            (RHEL_9, "$tuned_params\n", "$tuned_params elevator=noop\n"),
            (RHEL_8, "$tuned_params\n", "$tuned_params elevator=noop\n"),
            (
                SYSTEMD_BOOT,
                "abcdef\nlinux ",
                "abcdef elevator=noop\nlinux ",
            ),
        ] {
            let edited = entry(text, Some("noop"));
            assert_eq!(edited, text.replace(from, to));
            assert_eq!(entry(&edited, Some("noop")), edited);
            assert_eq!(
                entry(&edited, Some("deadline")),
                edited.replace("noop", "deadline")
            );
            assert_eq!(entry(&edited, None), text);
        }
    }

    #[test]
    fn of_several_lines_of_options_one_has_it_and_an_entry_without_any_gets_one() {
        let text = "linux /l\noptions a elevator=cfq\noptions b elevator=noop c\n";
        assert_eq!(
            entry(text, Some("deadline")),
            "linux /l\noptions a elevator=deadline\noptions b c\n"
        );
        assert_eq!(entry(text, None), "linux /l\noptions a\noptions b c\n");
        assert_eq!(
            entry("linux /l\noptions a\noptions b\n", Some("noop")),
            "linux /l\noptions a elevator=noop\noptions b\n"
        );
        assert_eq!(
            entry("options a\noptions elevator=cfq b\n", Some("noop")),
            "options a elevator=noop\noptions b\n"
        );
        assert_eq!(
            entry("linux /l", Some("noop")),
            "linux /l\noptions elevator=noop\n"
        );
        assert_eq!(entry("linux /l\n", None), "linux /l\n");
        assert_eq!(
            entry("linux /l\noptions ro -- x\noptions y\n", Some("noop")),
            "linux /l\noptions ro elevator=noop -- x\noptions y\n"
        );
    }

    #[test]
    fn a_line_that_has_nothing_else_goes_with_the_parameter() {
        for (text, expected) in [
            (
                "linux /l\noptions elevator=noop\ninitrd /i\n",
                "linux /l\ninitrd /i\n",
            ),
            ("linux /l\r\n options\televator=noop \r\n", "linux /l\r\n"),
            ("options a\noptions elevator=noop", "options a\n"),
            ("options\noptions a elevator=noop\n", "options\noptions a\n"),
        ] {
            assert_eq!(entry(text, None), expected);
        }
        assert_eq!(
            entry("options a\noptions elevator=cfq\ninitrd /i\n", Some("noop")),
            "options a elevator=noop\ninitrd /i\n"
        );
    }

    fn of_grub(text: &str, value: Option<&str>) -> Result<String, (usize, String)> {
        let edited = cmdline::with_elevator(text, Format::GrubEntry, value);
        edited.map_err(|error| (error.line, error.why.into_owned()))
    }

    #[test]
    fn under_grub_an_entry_without_parameters_of_its_own_is_refused() {
        for (text, line) in [
            ("title A\nlinux /l\ninitrd /i\n", 2),
            ("linux /l\noptions\n", 1),
            ("linux /l\noptions \n", 1),
            ("linux /l\noptions   \n", 1),
            // GRUB stops before these.
            ("linux /l\n\noptions root=/dev/sda1\n", 1),
            ("linux /l\ninitrd\noptions elevator=noop\n", 1),
            // To GRUB the key is all up to the blank.
            ("linux /l\noptions\troot=/dev/sda1 ro\n", 1),
        ] {
            let error = of_grub(text, Some("noop")).unwrap_err();
            assert_eq!(error, (line, NotUnderstood::NO_OPTIONS.into()), "{text}");
        }
        for text in ["title A\nlinux /l\ninitrd /i\n", "linux /l\noptions\n"] {
            assert_eq!(of_grub(text, None).as_deref(), Ok(text), "none to take out");
        }
        let error = of_grub("linux /l\noptions\tquiet\n", Some("noop")).unwrap_err();
        assert_eq!(error, (2, NotUnderstood::NOT_FOR_GRUB.into()));
    }

    #[test]
    fn under_grub_the_only_parameter_of_an_entry_stays_because_others_would_take_its_place() {
        for text in [
            "linux /l\noptions elevator=cfq\ninitrd /i\n",
            "linux /l\noptions elevator=cfq\noptions root=/dev/sda1\n",
        ] {
            let error = of_grub(text, None).unwrap_err();
            assert_eq!(error, (2, NotUnderstood::ALONE.into()), "{text}");
            let changed = text.replace("cfq", "noop");
            assert_eq!(of_grub(text, Some("noop")), Ok(changed));
        }
        let second = "linux /l\noptions root=/dev/sda1\noptions elevator=cfq\ninitrd /i\n";
        assert_eq!(
            of_grub(second, None).as_deref(),
            Ok("linux /l\noptions root=/dev/sda1\ninitrd /i\n")
        );
    }

    #[test]
    fn under_grub_the_first_line_of_options_counts() {
        let text = "linux /l\noptions root=/dev/sda1 ro\noptions quiet elevator=cfq\n";
        assert_eq!(
            of_grub(text, Some("noop")).as_deref(),
            Ok("linux /l\noptions root=/dev/sda1 ro elevator=noop\noptions quiet\n")
        );
        assert_eq!(cmdline::given(text, Format::GrubEntry), []);
        assert_eq!(
            cmdline::given(text, Format::LoaderEntry),
            [(3, "cfq".to_owned())]
        );
        let both = text.replace(" ro\n", " ro elevator=noop\n");
        assert_eq!(
            cmdline::given(&both, Format::GrubEntry),
            [(2, "noop".to_owned())]
        );
        assert!(!takes_kernelopts("options root=x\noptions $kernelopts\n"));
    }

    #[test]
    fn line_ends_of_dos_stay_behind_the_parameter() {
        let text = "title A\r\nlinux /l\r\noptions ro quiet\r\n";
        let edited = entry(text, Some("noop"));
        assert_eq!(edited, text.replace("quiet", "quiet elevator=noop"));
        assert_eq!(entry(&edited, None), text);
        assert_eq!(
            entry("linux /l\r\n", Some("noop")),
            "linux /l\r\noptions elevator=noop\r\n"
        );
    }

    #[test]
    fn an_entry_is_of_linux_by_its_keys_and_what_else_there_is_is_told_apart() {
        let own = Some("0123456789abcdef0123456789abcdef");
        for (text, expected) in [
            (RHEL_9, Starts::Linux),
            (SYSTEMD_BOOT, Starts::Linux),
            ("efi /vmlinuz-6.1\noptions ro\n", Starts::Linux),
            ("efi \\EFI\\ARCH\\BZIMAGE.EFI\noptions ro\n", Starts::Linux),
            ("efi /k.efi\ninitrd /i\noptions ro\n", Starts::Linux),
            ("efi /k.efi\noptions ro root=/dev/sda1\n", Starts::Linux),
            ("efi /shellx64.efi\noptions -nostartup\n", Starts::Program),
            ("uki /EFI/Linux/arch.efi\noptions ro\n", Starts::Unified),
            (
                "title Windows\nefi /EFI/Microsoft/Boot/bootmgfw.efi\n",
                Starts::Nothing,
            ),
            ("title Memory test\nlinux /memtest86+x64\n", Starts::Nothing),
            ("efi /MEMTEST.EFI\noptions x\n", Starts::Nothing),
            ("machine-id fedcba\nlinux /vmlinuz\n", Starts::OtherMachine),
            ("machine-id fedcba\nlinux /memtest\n", Starts::Nothing),
            ("machine-id fedcba\nuki /a.efi\n", Starts::Nothing),
        ] {
            assert_eq!(starts(text, own), expected, "{text}");
        }
    }

    #[test]
    fn the_environment_block_keeps_its_size() {
        let block = |variables: &str| {
            let mut block = format!("{SIGNATURE}{variables}");
            block.extend(std::iter::repeat_n('#', 1024 - block.len()));
            block
        };
        let with = block("saved_entry=1\nkernelopts=root=/dev/sda1 ro elevator=cfq quiet\n");
        let without = environment_with(&with, None).unwrap();
        assert_eq!(
            without,
            block("saved_entry=1\nkernelopts=root=/dev/sda1 ro quiet\n")
        );
        assert_eq!(environment_with(&without, None).unwrap(), without);
        let first = environment_with(&block("kernelopts=elevator=cfq\n"), None).unwrap();
        assert_eq!(first, block("kernelopts=\n"));
        assert!(environment_with("kernelopts=elevator=cfq\n", None).is_err());
        assert!(environment_with("", None).is_ok());
        let put = environment_with(&without, Some("noop")).unwrap();
        let expected = "saved_entry=1\nkernelopts=root=/dev/sda1 ro quiet elevator=noop\n";
        assert_eq!(put, block(expected));
        assert_eq!(environment_with(&put, None).unwrap(), without);
        let back = environment_with_old(&without, &put, &put).unwrap();
        assert_eq!(back, without);
    }

    #[test]
    fn an_environment_block_without_room_is_refused() {
        for (room, is_taken) in [
            (" elevator=noop".len(), true),
            (" elevator=noo".len(), false),
        ] {
            let mut block = format!("{SIGNATURE}kernelopts=ro ");
            let length = 1024 - block.len() - "\n".len() - room;
            block.extend(std::iter::repeat_n('a', length));
            block.push('\n');
            block.extend(std::iter::repeat_n('#', room));
            assert_eq!(block.len(), 1024);
            let edited = environment_with(&block, Some("noop"));
            assert_eq!(edited.is_ok(), is_taken, "{edited:?}");
            assert!(edited.is_ok_and(|text| text.len() == 1024) == is_taken);
        }
    }

    #[test]
    fn entries_take_their_parameters_from_the_environment_by_a_word() {
        assert!(takes_kernelopts(RHEL_8));
        assert!(takes_kernelopts("options root=x ${kernelopts}\n"));
        for other in [
            RHEL_9,
            SYSTEMD_BOOT,
            "title $kernelopts\noptions $kernelopts_old\n",
        ] {
            assert!(!takes_kernelopts(other), "{other}");
        }
    }
}
