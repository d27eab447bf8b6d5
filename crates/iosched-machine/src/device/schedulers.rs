//! The file `queue/scheduler`: what a device offers and what is active, or why there is no choice.
//!
//! The set of names is open (out-of-tree schedulers exist): whatever the file lists is offered.

use std::fmt;
use std::io;

use serde::Serialize;

/// What can be said of a device's schedulers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedulers {
    /// The device has schedulers, and one of them is active.
    Choice(Choice),
    /// The device has none to choose, for this reason.
    Nothing(NoChoice),
}

/// Schedulers as the file lists them, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// All names, the active one among them.
    pub offered: Vec<String>,
    /// The one in brackets.
    pub active: String,
}

/// Why a device has no scheduler to choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoChoice {
    /// A partition: the scheduler is its disk's.
    Partition {
        /// The whole disk.
        disk: String,
    },
    /// The driver takes bios and has no queue of requests: `queue/scheduler` does not exist.
    NoFile,
    /// The file says `none` without brackets: nothing can be configured.
    NotConfigurable,
    /// The file is there and cannot be read.
    Unreadable {
        /// What the kernel said.
        error: String,
    },
    /// The file has something that no kernel we know writes.
    NotUnderstood {
        /// The text of the file.
        text: String,
    },
}

impl Schedulers {
    /// The choice, where there is one.
    pub fn choice(&self) -> Option<&Choice> {
        match self {
            Schedulers::Choice(choice) => Some(choice),
            Schedulers::Nothing(_) => None,
        }
    }

    /// The active scheduler, where there is a choice.
    pub fn active(&self) -> Option<&str> {
        self.choice().map(|choice| choice.active.as_str())
    }

    /// The schedulers offered; empty where there is no choice.
    pub fn offered(&self) -> &[String] {
        self.choice().map_or(&[], |choice| &choice.offered)
    }

    /// What reading `queue/scheduler` gave: its text, or why there is none.
    pub fn of_file(read: io::Result<String>) -> Schedulers {
        match read {
            Ok(text) => Schedulers::parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Schedulers::Nothing(NoChoice::NoFile)
            }
            Err(error) => Schedulers::Nothing(NoChoice::Unreadable {
                error: error.to_string(),
            }),
        }
    }

    /// Parses the text of `queue/scheduler`.
    ///
    /// `[mq-deadline] kyber none` is a choice; `none` without brackets, or nothing at all, says that
    /// nothing can be configured.
    pub(crate) fn parse(text: &str) -> Schedulers {
        let not_understood = || {
            Schedulers::Nothing(NoChoice::NotUnderstood {
                text: text.trim().to_owned(),
            })
        };
        let mut offered = Vec::new();
        let mut active = None;
        for word in text.split_whitespace() {
            let bracketed = word
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'));
            let name = bracketed.unwrap_or(word);
            if name.is_empty() || name.contains(['[', ']']) || offered.iter().any(|o| o == name) {
                return not_understood();
            }
            if bracketed.is_some() && active.replace(name.to_owned()).is_some() {
                return not_understood();
            }
            offered.push(name.to_owned());
        }
        match active {
            Some(active) => Schedulers::Choice(Choice { offered, active }),
            None if offered.is_empty() || offered == ["none"] => {
                Schedulers::Nothing(NoChoice::NotConfigurable)
            }
            None => not_understood(),
        }
    }
}

/// As the kernel writes it: `[mq-deadline] kyber none`.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.offered.iter().enumerate() {
            if at > 0 {
                f.write_str(" ")?;
            }
            if *name == self.active {
                write!(f, "[{name}]")?;
            } else {
                f.write_str(name)?;
            }
        }
        Ok(())
    }
}

/// The choice as the kernel writes it, or the reason why there is none.
impl fmt::Display for Schedulers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedulers::Choice(choice) => choice.fmt(f),
            Schedulers::Nothing(reason) => reason.fmt(f),
        }
    }
}

impl fmt::Display for NoChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoChoice::Partition { disk } => write!(f, "the scheduler is that of {disk}"),
            NoChoice::NoFile => f.write_str("no scheduler: its driver has no request queue"),
            NoChoice::NotConfigurable => f.write_str("no scheduler can be configured"),
            NoChoice::Unreadable { error } => write!(f, "queue/scheduler cannot be read: {error}"),
            NoChoice::NotUnderstood { text } => {
                write!(f, "queue/scheduler is not understood: {text:?}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn choice(offered: &[&str], active: &str) -> Schedulers {
        Schedulers::Choice(Choice {
            offered: offered.iter().map(|&name| name.to_owned()).collect(),
            active: active.to_owned(),
        })
    }

    #[test]
    fn the_name_in_brackets_is_active() {
        assert_eq!(
            Schedulers::parse("[mq-deadline] kyber bfq none\n"),
            choice(&["mq-deadline", "kyber", "bfq", "none"], "mq-deadline")
        );
        assert_eq!(
            Schedulers::parse("noop deadline [cfq] \n"),
            choice(&["noop", "deadline", "cfq"], "cfq")
        );
        assert_eq!(Schedulers::parse("[none]"), choice(&["none"], "none"));
    }

    #[test]
    fn none_without_brackets_means_that_nothing_can_be_configured() {
        for text in ["none\n", "none", "", "\n"] {
            assert_eq!(
                Schedulers::parse(text),
                Schedulers::Nothing(NoChoice::NotConfigurable),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_scheduler_nobody_knows_is_offered_like_any_other() {
        assert_eq!(
            Schedulers::parse("none [adios] mq-deadline"),
            choice(&["none", "adios", "mq-deadline"], "adios")
        );
    }

    #[test]
    fn what_no_kernel_writes_is_not_guessed_at() {
        for text in [
            "none bfq",
            "[none] [bfq]",
            "[]",
            "[none",
            "none] a",
            "[a] a",
            "[[a]]",
        ] {
            assert!(
                matches!(
                    Schedulers::parse(text),
                    Schedulers::Nothing(NoChoice::NotUnderstood { .. })
                ),
                "{text:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_choice_survives_being_written_and_parsed(
            names in proptest::collection::hash_set("[a-z0-9_-]{1,16}", 1..8),
            pick in any::<prop::sample::Index>(),
        ) {
            let offered: Vec<String> = names.into_iter().collect();
            let active = pick.get(&offered).clone();
            let written = Schedulers::Choice(Choice { offered, active });
            prop_assert_eq!(Schedulers::parse(&written.to_string()), written.clone());
            prop_assert_eq!(Schedulers::parse(&format!("{written} \n")), written);
        }
    }
}
