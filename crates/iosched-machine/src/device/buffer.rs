//! What a drive keeps of data in memory of its own.

/// A drive's own memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buffer {
    /// Its size.
    pub bytes: u64,
    /// Who says so: `the model hdd-7200`.
    pub source: String,
}
