//! Data that the reader can take out of the page again.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use super::in_script;

/// Larger texts are compressed.
const PLAIN: usize = 128 << 10;

/// Larger ones, compressed, are left out: the page is to stay below 1 MB.
const MOST: usize = 250 << 10;

/// A file that is in the page.
#[derive(Debug)]
pub(super) struct Download {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) media_type: &'static str,
    /// `{"text": …}` or `{"base64": …}`.
    pub(super) json: String,
}

/// Puts a file into a page: as text, compressed, or not at all if even that is too large.
pub(super) fn download(name: &str, media_type: &'static str, text: &str) -> Option<Download> {
    let id = format!("data-{}", name.replace('.', "-"));
    if text.len() <= PLAIN {
        return Some(Download {
            id,
            name: name.to_owned(),
            media_type,
            json: in_script(&json!({ "text": text })),
        });
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).ok()?;
    let bytes = encoder.finish().ok()?;
    (bytes.len() <= MOST).then(|| Download {
        id,
        name: format!("{name}.gz"),
        media_type: "application/gzip",
        json: in_script(&json!({ "base64": STANDARD.encode(&bytes) })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_end_the_script_they_stand_in() {
        let data = download("a.csv", "text/csv", "</script><script>alert(1)</script>");
        let json = data.unwrap().json;
        assert!(!json.contains('<'), "{json}");
        assert!(json.contains("u003c/script>"));
    }

    #[test]
    fn what_is_too_large_even_when_compressed_is_left_out() {
        let mut state = 1u64;
        let noise: String = (0..2_000_000)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                char::from(b'a' + (state >> 59) as u8 % 26)
            })
            .collect();
        assert!(download("a.csv", "text/csv", &noise).is_none());
        let even = "a".repeat(2_000_000);
        assert_eq!(
            download("a.csv", "text/csv", &even).unwrap().name,
            "a.csv.gz"
        );
    }
}
