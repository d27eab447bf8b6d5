//! The syntax of DiskSim's parameter files: blocks of `name = value`, lists, and other files.

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// A number, or words.
    Text(String),
    /// `[a, b]`.
    List(Vec<Value>),
    /// `type { name = value, … }`.
    Block(Block),
}

/// The inside of a block.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Block {
    pub(super) entries: Vec<(String, Value)>,
}

impl Block {
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        let entry = self.entries.iter().find(|(key, _)| key == name);
        entry.map(|(_, value)| value)
    }
}

/// Blocks may be in blocks, but not deeper than any such file has them.
const DEEPEST: usize = 16;

/// The first block of a file; the line and what is wrong with it otherwise.
pub(super) fn first_block(text: &str) -> Result<Block, (usize, String)> {
    let mut parser = Parser {
        rest: without_comments(text).chars().collect(),
        at: 0,
    };
    parser.until(&['{']);
    let parsed = parser.expect('{').and_then(|()| parser.block(0));
    parsed.map_err(|what| (parser.line(), what))
}

fn without_comments(text: &str) -> String {
    let code = |line: &str| line.split('#').next().unwrap_or("").to_owned();
    text.lines().map(code).collect::<Vec<_>>().join("\n")
}

struct Parser {
    rest: Vec<char>,
    at: usize,
}

impl Parser {
    fn line(&self) -> usize {
        let before = self.rest.iter().take(self.at);
        before.filter(|&&c| c == '\n').count() + 1
    }

    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    /// Words up to one of these, which is not taken.
    fn until(&mut self, ends: &[char]) -> String {
        let begin = self.at;
        while self.peek().is_some_and(|c| !ends.contains(&c)) {
            self.at += 1;
        }
        let words: String = self.rest[begin..self.at].iter().collect();
        words.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        self.skip_space();
        match self.peek() {
            Some(found) if found == wanted => {
                self.at += 1;
                Ok(())
            }
            Some(found) => Err(format!("`{wanted}` is expected, and here is `{found}`")),
            None => Err(format!("`{wanted}` is expected, and here is the end")),
        }
    }

    /// What follows `{`.
    fn block(&mut self, depth: usize) -> Result<Block, String> {
        let mut block = Block::default();
        loop {
            self.skip_space();
            if self.peek() == Some('}') {
                self.at += 1;
                return Ok(block);
            }
            let name = self.until(&['=', '{', '}', '[', ']', ',']);
            self.expect('=')?;
            let value = self.value(depth)?;
            block.entries.push((name, value));
            self.skip_space();
            if self.peek() == Some(',') {
                self.at += 1;
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > DEEPEST {
            return Err("too many blocks in one another".to_owned());
        }
        self.skip_space();
        if self.peek() == Some('[') {
            self.at += 1;
            return self.list(depth);
        }
        let words = self.until(&[',', '{', '}', '[', ']', '=']);
        if self.peek() == Some('{') {
            self.at += 1;
            return Ok(Value::Block(self.block(depth + 1)?));
        }
        if words.is_empty() {
            return Err("a value is expected".to_owned());
        }
        Ok(Value::Text(words))
    }

    /// What follows `[`.
    fn list(&mut self, depth: usize) -> Result<Value, String> {
        let mut values = Vec::new();
        loop {
            self.skip_space();
            match self.peek() {
                Some(']') => {
                    self.at += 1;
                    return Ok(Value::List(values));
                }
                Some(',') => self.at += 1,
                Some(_) => values.push(self.value(depth + 1)?),
                None => return Err("`]` is expected, and here is the end".to_owned()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lists_and_comments_are_read() {
        let text = "disk X_1 { # a drive\n  Model = source x.model,\n  Rate (in rpms) = 5400,\n  \
                    Zones = [ zone { First = 0, slips = [] }, zone { First = 1 } ],\n  Last = -1.5\n} # end";
        let block = first_block(text).unwrap();
        assert_eq!(
            block.get("Rate (in rpms)"),
            Some(&Value::Text("5400".into()))
        );
        assert_eq!(
            block.get("Model"),
            Some(&Value::Text("source x.model".into()))
        );
        let Some(Value::List(zones)) = block.get("Zones") else {
            panic!("{block:?}");
        };
        assert_eq!(zones.len(), 2);
        assert_eq!(block.get("Last"), Some(&Value::Text("-1.5".into())));
    }

    #[test]
    fn damage_is_an_error_with_its_line() {
        let (line, what) = first_block("disk x {\n a = 1,\n b\n}").unwrap_err();
        assert_eq!(
            (line, what.contains("`=` is expected")),
            (4, true),
            "{what}"
        );
        assert!(first_block("disk x { a = [1, 2").is_err());
        assert!(first_block(&format!("x {{ a = {}", "[".repeat(1000))).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic_or_hang(text in "[a-z0-9 =,{}\\[\\]#\n.-]{0,300}") {
            let _ = first_block(&text);
        }
    }
}
