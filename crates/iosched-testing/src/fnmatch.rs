//! fnmatch(3), which udev asks whether a text is like a pattern: in the locale that a program has before it sets one.

use std::ffi::CString;

/// True if the whole text is like the pattern.
///
/// # Panics
/// One of them has a NUL.
pub fn is_like(pattern: &str, text: &str) -> bool {
    let [pattern, text] = [pattern, text].map(|text| CString::new(text).expect("no NUL"));
    // SAFETY: both are strings that end in NUL and outlive the call.
    let found = unsafe { libc::fnmatch(pattern.as_ptr(), text.as_ptr(), 0) };
    found == 0
}
