//! Tables of the page: those of the terminal, and pairs of a name and a value.

use askama::Template;

use crate::table::{Align, Table};

/// A table as the template takes it.
#[derive(Debug, Template)]
#[template(path = "table.html")]
struct TableTemplate<'a> {
    table: &'a HtmlTable,
}

/// A table of the page.
#[derive(Debug)]
pub(super) struct HtmlTable {
    caption: String,
    heads: Vec<Head>,
    rows: Vec<TableRow>,
    /// Names and values, which a phone shows side by side, too.
    are_pairs: bool,
}

#[derive(Debug)]
struct Head {
    text: String,
    is_number: bool,
}

#[derive(Debug)]
struct TableRow {
    cells: Vec<String>,
    is_chosen: bool,
}

impl HtmlTable {
    /// A long name of an arm in the parts between which it may be broken.
    fn parts<'a>(&self, cell: &'a str) -> Vec<&'a str> {
        cell.split_inclusive([':', ',']).collect()
    }

    /// The head of a column, which a phone shows above each cell.
    fn head(&self, column: usize) -> &str {
        self.heads.get(column).map_or("", |head| &head.text)
    }

    /// A table of the terminal; the row of this name stands out.
    pub(super) fn of(caption: &str, table: &Table, chosen: Option<&str>) -> HtmlTable {
        let heads = table.heads().into_iter();
        HtmlTable {
            caption: caption.to_owned(),
            heads: heads
                .map(|(text, align)| Head {
                    text: text.to_owned(),
                    is_number: align == Align::Right || text.starts_with("ratio"),
                })
                .collect(),
            rows: table
                .rows()
                .map(|cells| TableRow {
                    is_chosen: chosen.is_some_and(|name| cells.first() == Some(&name)),
                    cells: cells.into_iter().map(str::to_owned).collect(),
                })
                .collect(),
            are_pairs: false,
        }
    }

    /// Names and values.
    pub(super) fn pairs(caption: &str, pairs: Vec<(String, String)>) -> HtmlTable {
        let head = |text: &str| Head {
            text: text.to_owned(),
            is_number: false,
        };
        let rows = pairs.into_iter().map(|(name, value)| TableRow {
            cells: vec![name, value],
            is_chosen: false,
        });
        HtmlTable {
            caption: caption.to_owned(),
            heads: vec![head("what"), head("value")],
            rows: rows.collect(),
            are_pairs: true,
        }
    }

    pub(super) fn html(&self) -> String {
        let template = TableTemplate { table: self };
        template.render().expect("strings take all text")
    }

    /// True if the cells of this column lean to the right.
    fn is_number(&self, column: usize) -> bool {
        self.heads.get(column).is_some_and(|head| head.is_number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_broken_between_its_tunables() {
        let mut table = Table::new([("arm", Align::Left), ("MB/s", Align::Right)]);
        table.row([
            "served/cfq:slice_idle=0,group_idle=0".to_owned(),
            "1".to_owned(),
        ]);
        let page = HtmlTable::of("arms", &table, None).html();
        let name = "<th scope=\"row\">served/cfq:<wbr>slice_idle=0,<wbr>group_idle=0</th>";
        assert!(page.contains(name), "{page}");
    }
}
