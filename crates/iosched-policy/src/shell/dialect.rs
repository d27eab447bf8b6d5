//! In which shells differ that read scripts: dash (Debian, Ubuntu), busybox (Alpine) and bash, under its own name and as `sh`
//! (Fedora, SUSE, Arch).
//!
//! What each of them does with what only some know was asked of the shells themselves: dash 0.5.12, busybox 1.35 as distributions
//! build it, bash 5.2. The tests of those who follow scripts ask dash and bash again, and busybox where it is installed.

/// Which shell reads commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Dash,
    Busybox,
    /// bash that is called `sh`, or with `--posix`.
    BashAsSh,
    Bash,
}

/// Those that an unknown shell is taken for, one after the other.
pub(crate) const ALL: [Dialect; 4] = [
    Dialect::Dash,
    Dialect::Busybox,
    Dialect::BashAsSh,
    Dialect::Bash,
];

impl Dialect {
    pub(crate) fn is_bash(self) -> bool {
        matches!(self, Dialect::Bash | Dialect::BashAsSh)
    }

    /// `[[`, `source`, `function`, `let`, `==` in `[`, `$'…'`, `&>`, `>& FILE`, `${NAME/…}`.
    pub(crate) fn has_common_extensions(self) -> bool {
        self != Dialect::Dash
    }

    /// True if an unquoted pattern in a redirection stands for the file that is like it.
    pub(crate) fn expands_redirections(self) -> bool {
        self == Dialect::Bash
    }

    /// True if a file that `.` does not find, or cannot read as commands, ends the script.
    pub(crate) fn dies_of_special_builtins(self) -> bool {
        self != Dialect::Bash
    }

    /// True of a name of a command of bash's own that this shell does not have.
    pub(crate) fn lacks(self, name: &str) -> bool {
        match name {
            "[[" | "source" | "let" => !self.has_common_extensions(),
            "builtin" | "coproc" | "declare" | "mapfile" | "popd" | "pushd" | "readarray"
            | "select" | "shopt" | "typeset" => !self.is_bash(),
            _ => false,
        }
    }
}
