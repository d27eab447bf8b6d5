//! The syntax of a shell's scripts: commands, with what they are given, and where that stands. Pure.
//!
//! Read: commands with their redirections, pipelines, `&&`, `||`, `if`, `case`, `for`, `while`, `until`, functions, groups and
//! here-documents (whose text is passed over). Everything else (arithmetic in `for`, `select`) cannot be read. What is an error to the
//! shell that reads it is one here: the shell has carried out the lines before it, and goes no further.
//!
//! [`parse`] reads a script as a whole, as a shell does; [`each_statement`] goes on behind what cannot be read, for files that are edited.

#![expect(
    clippy::option_option,
    reason = "the outer one says whether the script can be read, the inner one whether this is there"
)]

use std::ops::Range;

use super::dialect::Dialect;

/// Stands in a text for whatever it is that is not known.
pub(crate) const UNKNOWN: char = '\0';

/// Text and expansions that make up one word.
pub(crate) type Word = Vec<Piece>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text {
        text: String,
        is_quoted: bool,
    },
    Expansion {
        expansion: Expansion,
        is_quoted: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expansion {
    /// `$NAME`, `$1`, `$@`.
    Variable(String),
    /// `${NAME:-…}` and its like; without the colon, an empty value counts as any other.
    Conditional {
        name: String,
        counts_empty: bool,
        gives: Gives,
        word: Word,
    },
    /// `${NAME##…}` and the others that cut something off.
    Cut {
        name: String,
        how: Cut,
        pattern: Word,
    },
    /// `$(…)`, with the text of its commands.
    Output(String),
    /// What is not followed.
    Unknown,
    /// What this shell does not take: the script ends here.
    Bad,
}

/// What `${NAME:-…}` and its like come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gives {
    /// `-`: the word where the variable is not set.
    Default,
    /// `=`: the same, to which the variable is set.
    AssignedDefault,
    /// `+`: the word where it is set.
    Alternative,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    ShortestStart,
    LongestStart,
    ShortestEnd,
    LongestEnd,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redirection {
    pub(crate) operator: &'static str,
    pub(crate) to: Word,
}

/// Commands one after the other.
pub(crate) type List = Vec<Node>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Command(Command),
    /// Several, or one that is negated.
    Pipeline {
        parts: List,
        is_negated: bool,
    },
    /// The first, and others with whether they follow `&&`.
    AndOr(Box<Node>, Vec<(bool, Node)>),
    If {
        arms: Vec<(List, List)>,
        otherwise: List,
    },
    Case {
        word: Word,
        arms: Vec<(Vec<Word>, List)>,
    },
    For {
        name: String,
        /// None for the arguments of the script.
        words: Option<Vec<Word>>,
        body: List,
    },
    While {
        condition: List,
        body: List,
    },
    Function {
        name: String,
        body: Box<Node>,
    },
    Group {
        body: List,
        is_subshell: bool,
    },
    /// A compound command with its redirections, at this line.
    Redirected(Box<Node>, Vec<Redirection>, usize),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Command {
    /// From 1.
    pub(crate) line: usize,
    pub(crate) assignments: Vec<Assignment>,
    pub(crate) words: Vec<Word>,
    /// Where each of the words stands.
    pub(crate) word_ranges: Vec<Range<usize>>,
    pub(crate) redirections: Vec<Redirection>,
    pub(crate) range: Range<usize>,
    /// True if there is more to it than these words come to: an expansion of them sets a variable or ends the shell
    /// (`${NAME=…}`, `${NAME?…}`, arithmetic), quotes within braces or `$'…'` are read otherwise by another shell, or `time`
    /// stands before it.
    pub(crate) is_odd: bool,
}

/// `NAME=…`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    /// True of `NAME+=…`.
    pub(crate) appends: bool,
    /// True of `NAME[…]=…`.
    pub(crate) is_of_element: bool,
    pub(crate) is_array: bool,
    /// The words of an array with a blank before each.
    pub(crate) value: Word,
    /// Where the name begins.
    pub(crate) start: usize,
    /// Where the right side stands.
    pub(crate) assigned: Range<usize>,
}

/// What is left of a script behind the lines that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest<'a> {
    Nothing,
    /// It is an error to the shell.
    Error,
    /// It is not understood here: the text and the number of its first line.
    NotRead(&'a str, usize),
}

/// The commands of a script, up to the line with what cannot be read.
pub(crate) fn parse(text: &str, dialect: Dialect) -> (List, Rest<'_>) {
    parse_within(text, dialect, 0)
}

/// The same of a text that stands within so many others.
fn parse_within(text: &str, dialect: Dialect, depth: usize) -> (List, Rest<'_>) {
    let mut parser = Parser::of(text, dialect, depth);
    let mut list = Vec::new();
    let mut of_line = Vec::new();
    let mut read = (0, 1);
    loop {
        parser.blanks();
        let is_whole_line = matches!(parser.peek(), None | Some('\n'));
        parser.lines();
        if is_whole_line {
            list.append(&mut of_line);
            read = (parser.at, parser.line);
        }
        if parser.rest().is_empty() {
            return (list, Rest::Nothing);
        }
        let is_end = parser.rest().starts_with([')', ';']);
        match Some(())
            .filter(|()| !is_end)
            .and_then(|()| parser.statement())
        {
            Some(node) => of_line.push(node),
            None if parser.is_error => return (list, Rest::Error),
            None => return (list, Rest::NotRead(&text[read.0..], read.1)),
        }
    }
}

/// The statements of a text for bash, one after the other, as far as something can be made of them; else where one stands, which is
/// for the rest of its line: what follows is read anew. The text of a here-document is then not told from statements, nor what
/// follows an open quote: that is all the rest.
pub(crate) fn each_statement<T>(
    text: &str,
    made_of: impl Fn(&Node) -> Option<T>,
) -> Vec<Result<T, Range<usize>>> {
    let mut parser = Parser::of(text, Dialect::Bash, 0);
    let mut found = Vec::new();
    loop {
        parser.lines();
        let start = parser.at;
        if start == text.len() {
            return found;
        }
        let statement = parser.statement();
        found.push(statement.as_ref().and_then(&made_of).ok_or_else(|| {
            parser = Parser::of(text, Dialect::Bash, 0);
            parser.at = start;
            parser.pass_line();
            start..parser.at
        }));
    }
}

/// How deep commands and expansions may stand within each other.
const DEEPEST: usize = 40;

/// Longer ones first.
const REDIRECTIONS: [&str; 11] = [
    "<<<", "<<-", "&>>", "<<", "<>", "<&", ">>", ">&", ">|", "&>", "<",
];

/// `>& FILE` to dash, whose script ends there when it comes to it.
pub(crate) const NO_DESCRIPTOR: &str = ">& FILE";

const RESERVED: [&str; 14] = [
    "if", "then", "elif", "else", "fi", "case", "esac", "for", "while", "until", "do", "done", "{",
    "}",
];

struct Parser<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    depth: usize,
    /// Here-documents that begin in this line: what ends each, and whether tabs before it count for nothing.
    documents: Vec<(String, bool)>,
    dialect: Dialect,
    /// True if what could not be read is an error to the shell, too.
    is_error: bool,
    /// True once a word was taken for a command with which other shells begin what has an end.
    has_foreign: bool,
    /// As [`Command::is_odd`], of the command that is read.
    is_odd: bool,
}

impl<'a> Parser<'a> {
    fn of(text: &'a str, dialect: Dialect, depth: usize) -> Parser<'a> {
        Parser {
            text,
            at: 0,
            line: 1,
            depth,
            documents: Vec::new(),
            dialect,
            is_error: false,
            has_foreign: false,
            is_odd: false,
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn takes(&mut self, text: &str) -> bool {
        let is_next = self.rest().starts_with(text);
        if is_next {
            self.at += text.len();
            self.line += text.matches('\n').count();
        }
        is_next
    }

    fn take_while(&mut self, is: impl Fn(char) -> bool) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(&is) {
            self.next();
        }
        &self.text[start..self.at]
    }

    fn blanks(&mut self) {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t'));
            if self.peek() == Some('#') {
                self.take_while(|c| c != '\n');
            }
            // A carriage return is one only at the end of a line.
            let rest = self.rest().trim_start_matches('\r');
            if rest.is_empty() || rest.starts_with('\n') {
                self.at = self.text.len() - rest.len();
            }
            if !self.takes("\\\n") {
                return;
            }
        }
    }

    /// To the end of a line that cannot be read, what is quoted passed over; to the end of all where that is not told.
    fn pass_line(&mut self) {
        while let Some(c) = self.peek() {
            match c {
                '\n' => return,
                '#' if self.text[..self.at].ends_with([' ', '\t']) => {
                    self.take_while(|c| c != '\n');
                }
                '<' if self.rest().starts_with("<<") => break,
                '\'' => {
                    self.next();
                    self.single_quoted();
                }
                '"' => {
                    self.next();
                    if self.double_quoted(&mut Vec::new()).is_none() || self.is_odd {
                        break;
                    }
                }
                _ => {
                    self.next();
                    if c == '\\' {
                        self.next();
                    }
                }
            }
        }
        self.at = self.text.len();
    }

    /// Blanks and ends of lines, with the here-documents that follow those.
    fn lines(&mut self) {
        loop {
            self.blanks();
            if !self.takes("\n") {
                return;
            }
            for (end, may_be_indented) in std::mem::take(&mut self.documents) {
                while !self.rest().is_empty() {
                    let line = self.take_while(|c| c != '\n');
                    self.takes("\n");
                    let line = if may_be_indented {
                        line.trim_start_matches('\t')
                    } else {
                        line
                    };
                    if line == end {
                        break;
                    }
                }
            }
        }
    }

    /// The reserved word that is next, if one is.
    fn reserved(&self) -> Option<&'static str> {
        RESERVED.into_iter().find(|word| self.is_word(word))
    }

    fn is_word(&self, word: &str) -> bool {
        let rest = self.rest().strip_prefix(word);
        rest.is_some_and(|rest| {
            !rest.starts_with(|c: char| !c.is_whitespace() && !";&|()<>".contains(c))
        })
    }

    fn takes_word(&mut self, word: &str) -> bool {
        self.is_word(word) && self.takes(word)
    }

    /// Within something else, unless that is too deep.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth += 1;
        let found = (self.depth <= DEEPEST).then(|| read(self));
        self.depth -= 1;
        found?
    }

    /// Nothing: the shell takes this for an error.
    fn error<T>(&mut self) -> Option<T> {
        self.is_error = true;
        None
    }

    /// Nothing: these shells take this for an error, and it is not read for the others.
    fn error_to<T>(&mut self, is_error: bool) -> Option<T> {
        self.is_error |= is_error;
        None
    }

    /// Commands up to one of these words, or a parenthesis or `;;`, which are left.
    fn list(&mut self, ends: &[&str]) -> Option<List> {
        let mut list = Vec::new();
        loop {
            self.lines();
            let is_end = match self.reserved() {
                Some(word) => ends.contains(&word),
                None => self.rest().is_empty() || self.rest().starts_with([')', ';']),
            };
            if is_end {
                return Some(list);
            }
            list.push(self.statement()?);
        }
    }

    fn some_list(&mut self, ends: &[&str]) -> Option<List> {
        self.list(ends).filter(|list| !list.is_empty())
    }

    /// Commands with `&&` and `||` between them, and what ends them.
    fn statement(&mut self) -> Option<Node> {
        let node = self.deeper(Self::and_or)?;
        self.blanks();
        if self.rest().starts_with(";;") || self.rest().starts_with(";&") {
            return Some(node);
        }
        if self.takes("&") {
            // In the background: as a shell of its own.
            return Some(Node::Group {
                body: vec![node],
                is_subshell: true,
            });
        }
        let is_ended = self.takes(";");
        if !is_ended && !self.rest().is_empty() && !self.rest().starts_with(['\n', ')']) {
            let is_error = self.rest().starts_with('(') && !self.dialect.is_bash();
            return self.error_to(is_error);
        }
        Some(node)
    }

    fn and_or(&mut self) -> Option<Node> {
        let first = self.pipeline()?;
        let mut others = Vec::new();
        loop {
            self.blanks();
            let is_and = self.takes("&&");
            if !is_and && !self.takes("||") {
                break;
            }
            self.lines();
            others.push((is_and, self.pipeline()?));
        }
        Some(if others.is_empty() {
            first
        } else {
            Node::AndOr(Box::new(first), others)
        })
    }

    fn pipeline(&mut self) -> Option<Node> {
        let mut is_negated = false;
        while self.takes_word("!") || self.takes_word("time") {
            let is_not = self.text[..self.at].ends_with('!');
            is_negated ^= is_not;
            self.is_odd |= !is_not;
            self.blanks();
            if self.is_word("!") && !self.dialect.is_bash() {
                return self.error();
            }
        }
        let mut parts = vec![self.command()?];
        loop {
            self.blanks();
            if self.rest().starts_with("||") || !self.takes("|") {
                break;
            }
            if self.takes("&") && !self.dialect.is_bash() {
                return self.error();
            }
            self.lines();
            parts.push(self.command()?);
        }
        Some(if parts.len() == 1 && !is_negated {
            parts.remove(0)
        } else {
            Node::Pipeline { parts, is_negated }
        })
    }

    fn command(&mut self) -> Option<Node> {
        let line = self.line;
        let compound = if self.rest().starts_with("((") && self.dialect.is_bash() {
            self.arithmetic()?;
            let is_unknown = Command {
                line,
                words: vec![vec![unknown(true)]],
                is_odd: std::mem::take(&mut self.is_odd),
                ..Command::default()
            };
            Node::Command(is_unknown)
        } else if self.takes("(") {
            let body = self.list(&[])?;
            self.takes(")").then_some(())?;
            Node::Group {
                body,
                is_subshell: true,
            }
        } else {
            match self.reserved() {
                Some(word) => {
                    self.takes(word);
                    self.compound(word)?
                }
                None if self.dialect.has_common_extensions() && self.takes_word("function") => {
                    self.blanks();
                    return self.function();
                }
                None if self.is_foreign() => {
                    if self.dialect.is_bash() {
                        return None;
                    }
                    self.has_foreign = true;
                    return self.simple().map(Node::Command);
                }
                None if self.is_function() => return self.function(),
                None => return self.simple().map(Node::Command),
            }
        };
        let mut redirections = Vec::new();
        loop {
            self.blanks();
            match self.redirection()? {
                Some(redirection) => redirections.push(redirection),
                None => break,
            }
        }
        Some(if redirections.is_empty() {
            compound
        } else {
            Node::Redirected(Box::new(compound), redirections, line)
        })
    }

    fn compound(&mut self, word: &str) -> Option<Node> {
        match word {
            "if" => {
                let mut arms = Vec::new();
                loop {
                    let condition = self.some_list(&["then"])?;
                    self.takes("then").then_some(())?;
                    let then = self.some_list(&["elif", "else", "fi"])?;
                    arms.push((condition, then));
                    if !self.takes_word("elif") {
                        break;
                    }
                }
                let otherwise = if self.takes_word("else") {
                    self.some_list(&["fi"])?
                } else {
                    Vec::new()
                };
                self.takes("fi").then_some(Node::If { arms, otherwise })
            }
            "case" => self.case(),
            "for" => {
                self.blanks();
                let Some(name) = self.name() else {
                    return self.error_to(!self.dialect.is_bash());
                };
                self.lines();
                let words = if self.takes_word("in") {
                    let mut words = Vec::new();
                    loop {
                        self.blanks();
                        match self.word()? {
                            word if word.is_empty() => break,
                            word => words.push(word),
                        }
                    }
                    Some(words)
                } else {
                    None
                };
                self.takes(";");
                let body = self.loop_body()?;
                Some(Node::For { name, words, body })
            }
            "while" | "until" => {
                let condition = self.list(&["do"])?;
                let body = self.loop_body()?;
                Some(Node::While { condition, body })
            }
            "{" => {
                let body = self.list(&["}"])?;
                self.takes("}").then_some(Node::Group {
                    body,
                    is_subshell: false,
                })
            }
            _ => self.error_to(self.has_foreign), // a word that ends what has not begun
        }
    }

    /// True if a word is next with which a shell begins what has an end, though none that is read here so.
    fn is_foreign(&self) -> bool {
        ["function", "select", "coproc"]
            .iter()
            .any(|word| self.is_word(word))
    }

    fn loop_body(&mut self) -> Option<List> {
        self.lines();
        self.takes_word("do").then_some(())?;
        let body = self.list(&["done"])?;
        self.takes("done").then_some(body)
    }

    fn case(&mut self) -> Option<Node> {
        self.blanks();
        let word = self.word()?;
        self.lines();
        self.takes_word("in").then_some(())?;
        let mut arms = Vec::new();
        loop {
            self.lines();
            if self.takes_word("esac") {
                return Some(Node::Case { word, arms });
            }
            self.takes("(");
            let mut patterns = Vec::new();
            loop {
                self.blanks();
                patterns.push(self.word().filter(|word| !word.is_empty())?);
                self.blanks();
                if self.takes(")") {
                    break;
                }
                self.takes("|").then_some(())?;
            }
            let body = self.list(&["esac"])?;
            arms.push((patterns, body));
            if self.takes(";;&") || self.takes(";&") {
                return self.error_to(!self.dialect.is_bash()); // goes on with the next arm
            }
            self.takes(";;");
        }
    }

    /// True if `NAME ()` is next.
    fn is_function(&self) -> bool {
        let rest = self.rest();
        let end = rest.find(|c: char| !is_of_function_name(c));
        end.is_some_and(|end| {
            let after = rest[end..].trim_start_matches([' ', '\t']);
            let inner = after.strip_prefix('(');
            end > 0 && inner.is_some_and(|inner| inner.trim_start().starts_with(')'))
        })
    }

    fn function(&mut self) -> Option<Node> {
        let name = self.take_while(is_of_function_name).to_owned();
        if self.dialect != Dialect::Bash && name.contains(['-', '.', ':', '+']) {
            return self.error();
        }
        self.blanks();
        if self.takes("(") {
            self.blanks();
            self.takes(")").then_some(())?;
        }
        self.lines();
        let body = Box::new(self.deeper(Self::command)?);
        Some(Node::Function { name, body })
    }

    fn name(&mut self) -> Option<String> {
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        let is_name = !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit());
        is_name.then(|| name.to_owned())
    }

    fn simple(&mut self) -> Option<Command> {
        let mut command = Command {
            line: self.line,
            ..Command::default()
        };
        let start = self.at;
        loop {
            command.range = start..self.at;
            self.blanks();
            if let Some(redirection) = self.redirection()? {
                command.redirections.push(redirection);
                continue;
            }
            if command.words.is_empty()
                && let Some(assignment) = self.assignment()?
            {
                command.assignments.push(assignment);
                continue;
            }
            let has_brackets = self.dialect.has_common_extensions();
            if command.words.is_empty() && has_brackets && self.takes_word("[[") {
                self.double_brackets(&mut command)?;
                continue;
            }
            let start = self.at;
            let word = self.word()?;
            if word.is_empty() {
                break;
            }
            command.words.push(word);
            command.word_ranges.push(start..self.at);
        }
        command.is_odd = std::mem::take(&mut self.is_odd);
        let has_any = !command.words.is_empty()
            || !command.assignments.is_empty()
            || !command.redirections.is_empty();
        has_any.then_some(command)
    }

    /// After `[[`: its words, operators too, to `]]`.
    fn double_brackets(&mut self, command: &mut Command) -> Option<()> {
        let plain = |text: &str| {
            vec![Piece::Text {
                text: text.to_owned(),
                is_quoted: true,
            }]
        };
        command.words.push(plain("[["));
        loop {
            self.lines();
            if self.takes_word("]]") {
                command.words.push(plain("]]"));
                return Some(());
            }
            let operators = ["&&", "||", "(", ")", "<", ">"];
            match operators.into_iter().find(|operator| self.takes(operator)) {
                Some(operator) => command.words.push(plain(operator)),
                None => command
                    .words
                    .push(self.word().filter(|word| !word.is_empty())?),
            }
        }
    }

    fn assignment(&mut self) -> Option<Option<Assignment>> {
        let (start, line) = (self.at, self.line);
        let is_bash = self.dialect.is_bash();
        let name = self.name();
        let is_of_element = is_bash && self.peek() == Some('[') && {
            self.take_while(|c| c != ']' && c != '\n');
            self.takes("]")
        };
        let appends = is_bash && self.takes("+=");
        let Some(name) = name.filter(|_| appends || self.takes("=")) else {
            (self.at, self.line) = (start, line); // a command, if there is one of that name
            return Some(None);
        };
        let from = self.at;
        let is_array = self.peek() == Some('(');
        let value = match is_array {
            true if !is_bash => return self.error(),
            true => self.array()?,
            false => self.word()?,
        };
        Some(Some(Assignment {
            name,
            appends,
            is_of_element,
            is_array,
            value,
            start,
            assigned: from..self.at,
        }))
    }

    /// `(…)`: its words with a blank before each.
    fn array(&mut self) -> Option<Word> {
        self.takes("(");
        let mut all = Vec::new();
        loop {
            self.lines();
            if self.takes(")") {
                return Some(all);
            }
            all.push(quoted(" ".to_owned()));
            all.extend(self.word().filter(|word| !word.is_empty())?);
        }
    }

    fn redirection(&mut self) -> Option<Option<Redirection>> {
        let start = self.at;
        self.take_while(|c| c.is_ascii_digit());
        let has_ampersand = self.dialect.has_common_extensions(); // to dash it ends a command
        let operators = REDIRECTIONS.into_iter().chain([">"]);
        let is_next = |operator: &&str| {
            let after = self.rest().strip_prefix(*operator);
            after.is_some_and(|after| !after.starts_with('('))
                && (has_ampersand || !operator.starts_with('&'))
        };
        let found = operators.into_iter().find(is_next);
        self.takes(found.unwrap_or_default());
        let Some(operator) = found else {
            self.at = start;
            return Some(None);
        };
        if matches!(operator, "<<<" | "&>>") && !self.dialect.is_bash() {
            return self.error();
        }
        let is_of_other = self.at > start
            && self.text[start..].starts_with(['2', '3', '4', '5', '6', '7', '8', '9']);
        self.blanks();
        let to = self.word().filter(|word| !word.is_empty())?;
        // A number, `-` or `3-`: another descriptor. bash and busybox take any other word for a file, for both of theirs.
        let is_descriptor = |text: &str| text.chars().all(|c| c.is_ascii_digit() || c == '-');
        let is_file = matches!(&to[..], [Piece::Text { text, .. }, ..] if !is_descriptor(text));
        let operator = match operator {
            ">&" if is_file && !self.dialect.has_common_extensions() => NO_DESCRIPTOR,
            ">&" if is_file && self.text[start..].starts_with('>') => "&>",
            operator => operator,
        };
        if matches!(operator, "<<" | "<<-") {
            let end = to.iter().map(|piece| match piece {
                Piece::Text { text, .. } => text.as_str(),
                Piece::Expansion { .. } => "",
            });
            self.documents.push((end.collect(), operator == "<<-"));
        }
        // What goes to another descriptor than the first is no output that is asked about.
        let operator = if is_of_other && operator.starts_with('>') {
            "2>"
        } else {
            operator
        };
        Some(Some(Redirection { operator, to }))
    }

    /// A word; empty at its end.
    fn word(&mut self) -> Option<Word> {
        let mut word = Vec::new();
        loop {
            match self.peek() {
                None => return Some(word),
                Some(c) if c.is_whitespace() || ";&|)".contains(c) => return Some(word),
                Some('<' | '>') => {
                    // `<(…)` is a file whose name is not known.
                    let is_process = ["<(", ">("]
                        .iter()
                        .any(|sign| self.rest().starts_with(sign));
                    if !is_process {
                        return Some(word);
                    }
                    if !self.dialect.has_common_extensions() {
                        return self.error();
                    }
                    self.at += 2;
                    self.commands_text()?;
                    self.is_odd = true;
                    word.push(unknown(true));
                }
                Some('(') if word.is_empty() => return Some(word),
                Some('(') if self.dialect.is_bash() && is_assignment(&word) => {
                    self.array()?; // of `declare`
                    self.is_odd = true;
                    word.push(unknown(true));
                }
                Some('(') => return self.error_to(!self.dialect.is_bash()),
                Some('\'') => {
                    self.next();
                    word.push(self.single_quoted()?);
                }
                Some('"') => {
                    self.next();
                    self.double_quoted(&mut word)?;
                }
                Some('\\') => {
                    self.next();
                    match self.next()? {
                        '\n' => {}
                        c => word.push(quoted(c.to_string())),
                    }
                }
                Some('$') if self.rest().starts_with("$'") && self.has_dollar_quotes() => {
                    self.at += 2;
                    self.is_odd = true;
                    word.push(self.dollar_quoted()?);
                }
                Some('$') if self.rest().starts_with("$\"") && self.dialect.is_bash() => {
                    self.is_odd = true;
                    self.next(); // translated by what locale there is: none at boot
                }
                Some('$' | '`') => {
                    let expansion = self.deeper(Self::expansion)?;
                    word.push(match expansion {
                        Some(expansion) => Piece::Expansion {
                            expansion,
                            is_quoted: false,
                        },
                        None => quoted("$".to_owned()),
                    });
                }
                Some(_) => {
                    let is_text = |c: char| !c.is_whitespace() && !"\"'\\$`;&|<>()".contains(c);
                    let text = self.take_while(is_text).to_owned();
                    word.push(Piece::Text {
                        text,
                        is_quoted: false,
                    });
                }
            }
        }
    }

    /// After `'`.
    fn single_quoted(&mut self) -> Option<Piece> {
        let text = self.take_while(|c| c != '\'').to_owned();
        self.takes("'").then_some(quoted(text))
    }

    fn has_dollar_quotes(&self) -> bool {
        self.dialect.has_common_extensions()
    }

    /// After `$'`.
    fn dollar_quoted(&mut self) -> Option<Piece> {
        let mut text = String::new();
        loop {
            match self.next()? {
                '\'' => return Some(quoted(text)),
                '\\' => match self.next()? {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    c @ ('\\' | '\'' | '"' | '?') => text.push(c),
                    _ => text.push(UNKNOWN),
                },
                c => text.push(c),
            }
        }
    }

    fn double_quoted(&mut self, word: &mut Word) -> Option<()> {
        word.push(quoted(String::new()));
        loop {
            match self.peek()? {
                '"' => {
                    self.next();
                    return Some(());
                }
                '$' | '`' => {
                    let expansion = self.deeper(Self::expansion)?;
                    word.push(match expansion {
                        Some(expansion) => Piece::Expansion {
                            expansion,
                            is_quoted: true,
                        },
                        None => quoted("$".to_owned()),
                    });
                }
                '\\' => {
                    self.next();
                    match self.next()? {
                        '\n' => {}
                        c @ ('$' | '`' | '"' | '\\') => word.push(quoted(c.to_string())),
                        c => word.push(quoted(format!("\\{c}"))),
                    }
                }
                _ => {
                    let text = self.take_while(|c| !matches!(c, '"' | '$' | '`' | '\\'));
                    word.push(quoted(text.to_owned()));
                }
            }
        }
    }

    /// What begins with `$` or a backquote; no expansion where it is only a `$`.
    fn expansion(&mut self) -> Option<Option<Expansion>> {
        if self.takes("`") {
            let mut text = String::new();
            loop {
                match self.next()? {
                    '`' => return self.output(text).map(Some),
                    '\\' => match self.next()? {
                        c @ ('$' | '`' | '\\') => text.push(c),
                        c => text.extend(['\\', c]),
                    },
                    c => text.push(c),
                }
            }
        }
        self.takes("$");
        if self.rest().starts_with("((") {
            self.arithmetic()?;
            self.is_odd = true;
            return Some(Some(Expansion::Unknown));
        }
        if self.takes("(") {
            return self.commands_text().map(Expansion::Output).map(Some);
        }
        if self.takes("{") {
            return self.braces().map(Some);
        }
        Some(match self.peek() {
            Some(c) if c.is_ascii_alphabetic() || c == '_' => self.name().map(Expansion::Variable),
            Some(c) if c.is_ascii_digit() || "@*".contains(c) => {
                self.next();
                Some(Expansion::Variable(c.to_string()))
            }
            Some('#' | '?' | '-' | '$' | '!') => {
                self.next();
                Some(Expansion::Unknown)
            }
            _ => None,
        })
    }

    /// What the commands between backquotes print. bash reads them when they are carried out, the others with the line in which
    /// they stand: an error there is one of the line.
    fn output(&mut self, text: String) -> Option<Expansion> {
        let is_read = !self.dialect.is_bash();
        if is_read && parse_within(&text, self.dialect, self.depth).1 == Rest::Error {
            return self.error();
        }
        Some(Expansion::Output(text))
    }

    /// After `${`.
    fn braces(&mut self) -> Option<Expansion> {
        let name = match self.peek()? {
            c if c.is_ascii_digit() || "@*".contains(c) => {
                self.next();
                Some(c.to_string())
            }
            _ => self.name(),
        };
        let Some(name) = name else {
            let is_bad = self.peek() == Some('!') && !self.dialect.is_bash();
            self.is_odd |= self.peek() != Some('#'); // how long it is
            self.braced_word()?;
            return Some(unless_bad(is_bad));
        };
        if self.takes("}") {
            return Some(Expansion::Variable(name));
        }
        let counts_empty = self.takes(":");
        let sign = self.peek();
        self.is_odd |= matches!(sign, Some('=' | '?'));
        let gives = match sign {
            Some('-') => Some(Gives::Default),
            Some('=') => Some(Gives::AssignedDefault),
            Some('+') => Some(Gives::Alternative),
            _ => None,
        };
        if let Some(gives) = gives {
            self.next();
            let word = self.braced_word()?;
            return Some(Expansion::Conditional {
                name,
                counts_empty,
                gives,
                word,
            });
        }
        let cuts = [
            ("##", Cut::LongestStart),
            ("#", Cut::ShortestStart),
            ("%%", Cut::LongestEnd),
            ("%", Cut::ShortestEnd),
        ];
        let how = cuts
            .into_iter()
            .find(|(sign, _)| !counts_empty && self.takes(sign));
        let is_bad = match self.peek() {
            // `${NAME:1:2}`, `${NAME/a/b}`
            Some('?') => false,
            _ if counts_empty => !self.dialect.has_common_extensions(),
            Some('/') => !self.dialect.has_common_extensions(),
            Some('^' | ',' | '@' | '[') => !self.dialect.is_bash(),
            _ => false,
        };
        let pattern = self.braced_word()?;
        Some(match how {
            Some((_, how)) => Expansion::Cut { name, how, pattern },
            None => unless_bad(is_bad),
        })
    }

    /// A word, blanks too, to the brace that closes it.
    fn braced_word(&mut self) -> Option<Word> {
        let mut word = Vec::new();
        loop {
            match self.peek()? {
                '}' => {
                    self.next();
                    return Some(word);
                }
                sign @ ('"' | '\'' | '\\') => {
                    self.next();
                    self.is_odd = true;
                    match sign {
                        '"' => self.double_quoted(&mut word)?,
                        '\'' => word.push(self.single_quoted()?),
                        _ => word.push(quoted(self.next()?.to_string())),
                    }
                }
                '$' | '`' => {
                    let expansion = self.deeper(Self::expansion)?;
                    word.push(Piece::Expansion {
                        expansion: expansion.unwrap_or(Expansion::Unknown),
                        is_quoted: false,
                    });
                }
                _ => {
                    let text = self.take_while(|c| !"}\"'\\$`".contains(c)).to_owned();
                    self.is_odd |= text.contains('\n');
                    word.push(Piece::Text {
                        text,
                        is_quoted: false,
                    });
                }
            }
        }
    }

    /// After `$(`: the text of its commands, up to the parenthesis that closes it.
    fn commands_text(&mut self) -> Option<String> {
        let start = self.at;
        let (documents, is_odd) = (std::mem::take(&mut self.documents), self.is_odd);
        self.list(&[])?;
        (self.documents, self.is_odd) = (documents, is_odd);
        self.takes(")").then_some(())?;
        Some(self.text[start..self.at - 1].to_owned())
    }

    /// `((…))`.
    fn arithmetic(&mut self) -> Option<()> {
        self.takes("((");
        let mut depth = 1;
        while depth > 0 {
            match self.next()? {
                '(' => depth += 1,
                ')' => depth -= 1,
                '\\' => _ = self.next()?,
                '\'' => _ = self.single_quoted()?,
                '"' => self.deeper(|parser| parser.double_quoted(&mut Vec::new()))?,
                _ => {}
            }
        }
        self.takes(")").then_some(())
    }
}

/// True of a word `NAME=`.
fn is_assignment(word: &Word) -> bool {
    matches!(&word[..], [Piece::Text { text, is_quoted: false }] if text.ends_with('='))
}

fn quoted(text: String) -> Piece {
    Piece::Text {
        text,
        is_quoted: true,
    }
}

/// What is not followed, or ends the script.
fn unless_bad(is_bad: bool) -> Expansion {
    if is_bad {
        Expansion::Bad
    } else {
        Expansion::Unknown
    }
}

fn unknown(is_quoted: bool) -> Piece {
    Piece::Expansion {
        expansion: Expansion::Unknown,
        is_quoted,
    }
}

fn is_of_function_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.:+".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_understood_or_refused_as_a_whole() {
        for (script, is_understood) in [
            ("", true),
            ("#!/bin/sh\n# nothing\n", true),
            ("a=1 b=\"x y\" c 'd e' > f 2>&1 # g", true),
            ("if a; then b; elif c; then d; else e; fi >> f", true),
            ("for d in a b; do echo $d; done; for x; do :; done", true),
            ("for d in a\ndo\n\techo $d\ndone < f | g", true),
            (
                "case \"$1\" in start|restart) a;; (stop) b ;; *) c\nesac",
                true,
            ),
            ("f() { a; }\nfunction g {\n b\n}\nf && g || ! a", true),
            (
                "while read -r a; do b; done <<EOF\nfi done ((\nEOF\necho x",
                true,
            ),
            ("cat <<-'X' > y\n\ta $( \n\tX\nz", true),
            ("x=$(a | b \"$(c ')')\") y=`d \\`e\\``", true),
            ("x=(a b\n c) ; y+=z; q[1]=r", true),
            ("[[ -e /a && $b == c* ]] && d", true),
            (
                "echo ${a##*/} ${b:-${c}} ${d%x} ${#e} $((1 + (2))) $? $#",
                true,
            ),
            ("(cd /sys; ls) & b", true),
            ("diff <(a) <(b)", true),
            ("if a; then b", false),
            ("done", false),
            ("echo 'open", false),
            ("for ((i=0;i<3;i++)); do a; done", false),
            ("a | | b", false),
        ] {
            let (_, rest) = parse(script, Dialect::Bash);
            assert_eq!(rest == Rest::Nothing, is_understood, "{script}");
        }
    }

    #[test]
    fn commands_stand_in_their_lines() {
        let script = "a\n\nif b\nthen\n  c \\\n   d\n  e\nfi <<X\nf\nX\ng\n";
        let (nodes, _) = parse(script, Dialect::Bash);
        let Node::Command(last) = &nodes[2] else {
            panic!("{nodes:?}");
        };
        assert_eq!(last.line, 11);
        let Node::Redirected(node, ..) = &nodes[1] else {
            panic!("{nodes:?}");
        };
        let Node::If { arms, .. } = &**node else {
            panic!("{nodes:?}");
        };
        let lines = arms[0].1.iter().map(|node| match node {
            Node::Command(command) => command.line,
            other => panic!("{other:?}"),
        });
        assert_eq!(lines.collect::<Vec<_>>(), [5, 7]);
    }

    #[test]
    fn what_is_too_deep_is_refused() {
        for (open, close) in [
            ("(", ")"),
            ("$(", ")"),
            ("\"$(", ")\""),
            ("${a:-", "}"),
            ("\"${a:-\"", "}"),
        ] {
            let deep = format!("x={}{}", open.repeat(50_000), close.repeat(50_000));
            let _ = parse(&deep, Dialect::Bash);
        }
        let deep = format!("{}a{}", "if a; then ".repeat(20_000), "; fi".repeat(20_000));
        let (list, rest) = parse(&deep, Dialect::Bash);
        assert_eq!(list, []);
        assert!(matches!(rest, Rest::NotRead(..)));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(if |then |fi|do |done|for x in |case x in |esac|[a-z$(){}\"'`;&|<>=\\[\\]# \\n\\\\é-]){0,24}") {
            for dialect in crate::shell::dialect::ALL {
                let _ = parse(&text, dialect);
            }
        }
    }
}
