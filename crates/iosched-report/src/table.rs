//! Columns that line up.

use iosched_machine::visible::line;

/// Which side of its column a cell leans to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table: heads, then rows of as many cells.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
    /// So many columns are never left out.
    kept: usize,
}

impl Table {
    /// A table with these columns.
    pub fn new<const N: usize>(columns: [(&str, Align); N]) -> Table {
        Table {
            columns: columns.map(|(head, align)| (head.to_owned(), align)).into(),
            rows: Vec::new(),
            kept: 2,
        }
    }

    /// The first so many columns stay however narrow it is: what does not fit beside the others goes below them.
    pub(crate) fn keep(&mut self, columns: usize) {
        self.kept = columns;
    }

    /// Appends a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.push(cells.into());
    }

    /// Appends a column; only before the first row.
    pub fn column(&mut self, head: &str, align: Align) {
        assert!(
            self.rows.is_empty(),
            "a column after {} rows",
            self.rows.len()
        );
        self.columns.push((line(head).into_owned(), align));
    }

    /// Appends a row of as many cells as there are columns.
    pub fn push(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        let cells = cells.into_iter().map(|cell| line(&cell).into_owned());
        self.rows.push(cells.collect());
    }

    /// The table as text. Columns from the right are left out until it fits into `width`; the
    /// first two always stay, or those that are to be kept. Empty columns are left out, too.
    pub fn render(&self, width: usize) -> String {
        let mut shown = self.filled_columns();
        shown.truncate(self.fitting(width));
        if shown.len() > 2 && self.width_of(&shown) > width {
            return self.render_below(&shown, width);
        }
        self.render_columns(&shown)
    }

    /// How many columns [`Table::render`] shows.
    pub fn fitting(&self, width: usize) -> usize {
        let mut shown = self.filled_columns();
        while shown.len() > self.kept && self.width_of(&shown) > width {
            shown.pop();
        }
        shown.len()
    }

    /// The table with so many of its columns that are not empty: for tables that stand one below the
    /// other and should end alike.
    pub fn render_first(&self, columns: usize) -> String {
        let mut shown = self.filled_columns();
        shown.truncate(columns);
        self.render_columns(&shown)
    }

    /// The table as text, whole: what is too long in the last column goes on below, between words.
    pub fn render_folded(&self, width: usize) -> String {
        let shown = self.filled_columns();
        let last = shown[shown.len() - 1];
        let indent = self.width_of(&shown) - self.column_width(last);
        let room = width.saturating_sub(indent).max(LEAST_ROOM);
        let heads: Vec<String> = self.columns.iter().map(|(head, _)| head.clone()).collect();
        let mut text = String::new();
        let widths = self.widths(&shown);
        for row in std::iter::once(&heads).chain(&self.rows) {
            let mut row = row.clone();
            let words = std::mem::take(&mut row[last]);
            let mut lines = broken(&words, room).into_iter();
            row[last] = lines.next().unwrap_or_default();
            text += &(self.line(&row, &widths) + "\n");
            for line in lines {
                text += &(" ".repeat(indent) + &line + "\n");
            }
        }
        text
    }

    fn render_columns(&self, shown: &[usize]) -> String {
        let heads: Vec<String> = self.columns.iter().map(|(head, _)| head.clone()).collect();
        let widths = self.widths(shown);
        std::iter::once(&heads)
            .chain(&self.rows)
            .map(|row| self.line(row, &widths) + "\n")
            .collect()
    }

    /// The table as text, whole: columns that do not fit into `width` follow below, beside the first
    /// one again.
    pub(crate) fn render_whole(&self, width: usize) -> String {
        self.render_below(&(0..self.columns.len()).collect::<Vec<_>>(), width)
    }

    /// These columns; those that do not fit follow below, beside the first one again.
    fn render_below(&self, columns: &[usize], width: usize) -> String {
        let mut parts: Vec<Vec<usize>> = Vec::new();
        for &column in &columns[1..] {
            match parts.last_mut() {
                Some(part) if self.width_of(&[part.as_slice(), &[column]].concat()) <= width => {
                    part.push(column);
                }
                _ => parts.push(vec![columns[0], column]),
            }
        }
        let part = |shown: &Vec<usize>| self.render_columns(shown);
        parts.iter().map(part).collect::<Vec<_>>().join("\n")
    }

    /// The heads of the columns that are not empty, each with the side that its cells lean to.
    pub(crate) fn heads(&self) -> Vec<(&str, Align)> {
        let columns = self.filled_columns().into_iter();
        columns
            .map(|column| (self.columns[column].0.as_str(), self.columns[column].1))
            .collect()
    }

    /// The cells below [`Table::heads`], row by row.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Vec<&str>> {
        let shown = self.filled_columns();
        self.rows.iter().map(move |row| {
            let cells = shown.iter().map(|&column| row[column].as_str());
            cells.collect()
        })
    }

    fn filled_columns(&self) -> Vec<usize> {
        let is_filled =
            |&column: &usize| column < 2 || self.rows.iter().any(|row| !row[column].is_empty());
        (0..self.columns.len()).filter(is_filled).collect()
    }

    fn line(&self, row: &[String], widths: &[(usize, usize)]) -> String {
        let cells: Vec<String> = widths
            .iter()
            .map(|&(column, width)| {
                let padding = " ".repeat(width - chars(&row[column]));
                match self.columns[column].1 {
                    Align::Left => format!("{}{padding}", row[column]),
                    Align::Right => format!("{padding}{}", row[column]),
                }
            })
            .collect();
        cells.join("  ").trim_end().to_owned()
    }

    /// These columns, each with its width: all rows were looked at for it.
    fn widths(&self, shown: &[usize]) -> Vec<(usize, usize)> {
        let width = |&column: &usize| (column, self.column_width(column));
        shown.iter().map(width).collect()
    }

    fn width_of(&self, shown: &[usize]) -> usize {
        shown
            .iter()
            .map(|&column| self.column_width(column) + 2)
            .sum::<usize>()
            - 2
    }

    fn column_width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| chars(&row[column]));
        cells
            .chain([chars(&self.columns[column].0)])
            .max()
            .unwrap_or(0)
    }
}

/// A column is never folded to less than this.
const LEAST_ROOM: usize = 20;

/// Words in lines of at most this width; a longer word has a line of its own.
fn broken(words: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        match lines.last_mut() {
            Some(line) if chars(line) + 1 + chars(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([
            ("arm", Align::Left),
            ("MB/s", Align::Right),
            ("p99", Align::Right),
        ]);
        table.row(["none".into(), "1.5".into(), "20".into()]);
        table.row(["mq-deadline".into(), "12.25".into(), "3".into()]);
        table
    }

    #[test]
    fn numbers_lean_right_and_words_left() {
        assert_eq!(
            table().render(80),
            "arm           MB/s  p99\nnone           1.5   20\nmq-deadline  12.25    3\n"
        );
    }

    #[test]
    fn the_last_column_goes_on_below_itself() {
        let mut table = Table::new([("MODEL", Align::Left), ("WHAT", Align::Left)]);
        let words = "a drive that turns and turns and seldom answers";
        table.row(["hdd".into(), words.into()]);
        assert_eq!(
            table.render_folded(30),
            "MODEL  WHAT\nhdd    a drive that turns and\n       turns and seldom\n       answers\n"
        );
    }

    #[test]
    fn a_whole_table_goes_on_below() {
        assert_eq!(
            table().render_whole(20),
            "arm           MB/s\nnone           1.5\nmq-deadline  12.25\n\n\
             arm          p99\nnone          20\nmq-deadline    3\n"
        );
    }

    #[test]
    fn a_column_that_is_kept_goes_below_where_it_does_not_fit() {
        let mut table = table();
        table.keep(3);
        assert_eq!(table.render(25), table.render(80));
        assert_eq!(table.render(20), table.render_whole(20));
    }

    #[test]
    fn what_does_not_fit_is_left_out_from_the_right() {
        assert!(!table().render(20).contains("p99"));
        assert!(
            table().render(5).contains("MB/s"),
            "the first two always stay"
        );
    }
}
