//! Names that may have been meant by a name that nothing has.

/// The known name that is most like this one, if any is: as clap does for options, and with two letters exchanged in a
/// short name.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = known.into_iter().map(|name| (likeness(given, name), name));
    let alike = likeness.filter(|(likeness, _)| *likeness > 0.65);
    let best = alike.max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, name)| name)
}

fn likeness(given: &str, name: &str) -> f64 {
    strsim::jaro(given, name).max(strsim::normalized_damerau_levenshtein(given, name))
}

/// A hint that asks for the nearest name.
pub fn did_you_mean<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(given, known).map(|name| format!("did you mean {name}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_understood_and_another_word_is_not() {
        let schedulers = ["none", "mq-deadline", "kyber", "bfq"];
        for (given, meant) in [
            ("bqf", Some("bfq")),
            ("mqdeadline", Some("mq-deadline")),
            ("kiber", Some("kyber")),
            ("potato", None),
        ] {
            assert_eq!(nearest(given, schedulers), meant, "{given}");
        }
    }
}
