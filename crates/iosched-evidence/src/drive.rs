//! Drives that are alike: one model, its family, its class.

use iosched_machine::visible;

/// What a device says of itself in one line, with single blanks, and cut where it is long.
pub fn tidy(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    let text = visible::line(&text);
    let mut tidy = String::new();
    for c in text.chars() {
        if tidy.len() + c.len_utf8() > LONGEST {
            break;
        }
        tidy.push(c);
    }
    tidy
}

/// Bytes of a name.
const LONGEST: usize = 64;

/// The family of a model: what is left without capacity and revision, which are coded in numbers.
///
/// `Samsung SSD 970 EVO Plus 1TB` → `Samsung SSD 970 EVO Plus`; `ST4000DM004-2CV104` → `ST#DM#`; `WDC WD40EFRX-68N32N0` →
/// `WDC WD#EFRX`. A number that stands alone is a name, one within a word is a code. It is a guess by the habits of the
/// makers, and shown with what it says.
pub(crate) fn family(model: &str) -> String {
    let words = model.split_whitespace().filter(|word| !is_capacity(word));
    let mut family: Vec<String> = Vec::new();
    for word in words {
        let has_digit = word.chars().any(|c| c.is_ascii_digit());
        let stem = match word.split_once('-') {
            Some((stem, _)) if has_digit && !stem.is_empty() => stem,
            _ => word,
        };
        let is_code = stem.chars().any(|c| c.is_ascii_digit())
            && stem.chars().any(|c| c.is_ascii_alphabetic());
        family.push(if is_code {
            without_numbers(stem)
        } else {
            stem.to_owned()
        });
    }
    if family.is_empty() {
        return model.to_owned();
    }
    family.join(" ")
}

/// `1TB`, `512GB`, `3.84T`.
fn is_capacity(word: &str) -> bool {
    let number = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &word[number.len()..];
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_number && ["GB", "TB", "MB", "G", "T"].contains(&unit.to_ascii_uppercase().as_str())
}

fn without_numbers(word: &str) -> String {
    let mut text = String::new();
    for c in word.chars() {
        if !c.is_ascii_digit() {
            text.push(c);
        } else if !text.ends_with('#') {
            text.push('#');
        }
    }
    text
}

/// The class of a drive, which is the name of its part of a dataset: `nvme-ssd`, `sata-hdd`, `virtio-virtual`.
pub fn class(transport: &str, rotational: Option<bool>, is_virtual: bool) -> String {
    let transport = match transport {
        "" | "-" => "unknown",
        transport => transport,
    };
    let kind = match rotational {
        _ if is_virtual => "virtual",
        Some(true) => "hdd",
        Some(false) => "ssd",
        None => "disk",
    };
    format!("{transport}-{kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_differ_in_capacity_and_revision_are_of_one_family() {
        for (models, expected) in [
            (
                [
                    "Samsung SSD 970 EVO Plus 1TB",
                    "Samsung SSD 970 EVO Plus 500GB",
                ],
                "Samsung SSD 970 EVO Plus",
            ),
            (["ST4000DM004-2CV104", "ST8000DM008-2U9188"], "ST#DM#"),
            (
                ["WDC WD40EFRX-68N32N0", "WDC WD60EFRX-68L0BN1"],
                "WDC WD#EFRX",
            ),
            (
                ["INTEL SSDPE2KX040T8", "INTEL SSDPE2KX010T8"],
                "INTEL SSDPE#KX#T#",
            ),
            (["QEMU HARDDISK", "QEMU HARDDISK"], "QEMU HARDDISK"),
            (["1TB", "1TB"], "1TB"),
        ] {
            for model in models {
                assert_eq!(family(model), expected);
            }
        }
        assert_ne!(
            family("Samsung SSD 860 EVO 1TB"),
            family("Samsung SSD 970 EVO 1TB")
        );
    }

    #[test]
    fn a_class_is_transport_and_kind() {
        assert_eq!(class("nvme", Some(false), false), "nvme-ssd");
        assert_eq!(class("virtio", Some(true), true), "virtio-virtual");
        assert_eq!(class("-", None, false), "unknown-disk");
    }
}
