//! Cells of CSV (RFC 4180).

use iosched_machine::visible::visible;

/// A cell without control characters, in quotes where it needs them: arms with several tunables have commas.
pub(super) fn quoted(text: &str) -> String {
    let text = visible(text);
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into_owned()
    }
}
