//! What can be said from here of a condition, or of whether a command succeeds.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Truth {
    Yes,
    No,
    /// It cannot be judged from here.
    Unknown,
}

impl Truth {
    pub(super) fn of(is: bool) -> Truth {
        if is { Truth::Yes } else { Truth::No }
    }

    pub(super) fn not(self) -> Truth {
        match self {
            Truth::Yes => Truth::No,
            Truth::No => Truth::Yes,
            Truth::Unknown => Truth::Unknown,
        }
    }
}
