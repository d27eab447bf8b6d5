//! A command line cut into words as a shell does it, without any of the rest of a shell.

/// Cuts at blanks. Between `'` everything stands for itself; between `"` a backslash before `"` or
/// `\` takes its meaning away; outside, a backslash does so before anything. Nothing is expanded.
pub(crate) fn split(text: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_default();
        match character {
            '\'' | '"' => quoted(character, &mut characters, word)?,
            '\\' => word.push(characters.next().ok_or("it ends with a backslash")?),
            other => word.push(other),
        }
    }
    words.extend(word);
    if words.first().is_none_or(String::is_empty) {
        return Err("there is no program in it");
    }
    Ok(words)
}

/// What stands up to the closing quotation mark.
fn quoted(
    mark: char,
    characters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    word: &mut String,
) -> Result<(), &'static str> {
    while let Some(character) = characters.next() {
        match character {
            _ if character == mark => return Ok(()),
            '\\' if mark == '"' => {
                let escaped = characters.next_if(|next| matches!(next, '"' | '\\'));
                word.push(escaped.unwrap_or('\\'));
            }
            other => word.push(other),
        }
    }
    Err(match mark {
        '"' => "a \" is not closed",
        _ => "a ' is not closed",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_cut_as_a_shell_does() {
        let split = |text| split(text).unwrap();
        assert_eq!(split("dd if=a  of=b"), ["dd", "if=a", "of=b"]);
        assert_eq!(split(r#"a 'b  c' "d e" f\ g"#), ["a", "b  c", "d e", "f g"]);
        assert_eq!(
            split(r#"a '$HOME\n' "x\"y\z""#),
            ["a", r"$HOME\n", r#"x"y\z"#]
        );
        assert_eq!(split("a ''"), ["a", ""]);
        assert_eq!(split("--x='1 2'"), ["--x=1 2"]);
    }

    #[test]
    fn what_is_not_closed_is_an_error() {
        for wrong in ["a 'b", "a \"b", "a \\", "  ", "''"] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_quoted_comes_back_whole(words in prop::collection::vec("[^']{1,8}", 1..5)) {
            let line: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
            prop_assert_eq!(split(&line.join(" ")), Ok(words));
        }
    }
}
