//! What a Parquet file says of its own sizes, checked before the library is given it.
//!
//! The library trusts a file: it reserves memory, recurses and counts by numbers that stand there, so that 87 bytes can ask
//! for 16 GiB and a schema can nest as deep as the stack. Here the footer and the header of each page are read as what
//! they are, structures of Thrift's compact protocol, and every number by which the library would allocate is held
//! against the bytes that are there. Accepted is what this program writes: a flat schema, pages of version 1, plain or by
//! dictionary, compressed with Snappy or not at all.
//!
//! Source: the format's `parquet.thrift` (numbers of fields) and Thrift's description of the compact protocol.

use crate::row::LONGEST_TEXT;

/// Structures and lists within one another: of a footer that this program writes there are eight.
const DEEPEST: usize = 12;

/// Snappy's longest copy is 64 bytes for three.
const MOST_EXPANSION: u64 = 32;

/// Some 4 KiB for each group of rows are written.
const LONGEST_FOOTER: usize = 4 << 20;

const MAGIC: &[u8] = b"PAR1";

/// What reading a file takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Rows.
    pub(crate) rows: u64,
    /// All pages without their compression, bytes.
    pub(crate) uncompressed: u64,
}

/// The footer of a file.
pub(crate) struct Envelope<'a> {
    bytes: &'a [u8],
    footer_at: usize,
    footer: Value<'a>,
}

impl<'a> Envelope<'a> {
    /// Reads it.
    ///
    /// # Errors
    /// There is none, or it is not what Thrift's protocol allows.
    pub(crate) fn of(bytes: &'a [u8]) -> Result<Envelope<'a>, String> {
        let footer_at = footer(bytes)?;
        let mut scanner = Scanner::of(&bytes[footer_at..bytes.len() - 8]);
        Ok(Envelope {
            bytes,
            footer_at,
            footer: scanner.structure(0)?,
        })
    }

    /// What the file says of itself under a key.
    pub(crate) fn says(&self, key: &str) -> Option<&'a str> {
        let said = self.footer.list(5).ok()?;
        let entry = said
            .iter()
            .find(|entry| entry.bytes(1) == Some(key.as_bytes()))?;
        std::str::from_utf8(entry.bytes(2)?).ok()
    }

    /// Checks a file that has so many columns and no more than so many rows in each group.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check(&self, columns: usize, largest_group: u64) -> Result<Needs, String> {
        let Envelope {
            bytes,
            footer_at,
            footer,
        } = self;
        let schema = footer.list(2)?;
        let is_flat = schema.len() == columns + 1
            && schema[0].number(5) == i64::try_from(columns).ok()
            && schema[1..]
                .iter()
                .all(|column| column.number(5).unwrap_or(0) == 0);
        if !is_flat {
            return Err(format!("its schema is not of {columns} columns"));
        }
        let mut needs = Needs {
            rows: 0,
            uncompressed: 0,
        };
        let mut stored = 0;
        for group in footer.list(4)? {
            let rows = group.size(3)?;
            if rows > largest_group {
                return Err(format!("a group of {rows} rows"));
            }
            needs.rows += rows;
            let chunks = group.list(1)?;
            if chunks.len() != columns {
                return Err(format!("a group of {} columns", chunks.len()));
            }
            for chunk in chunks {
                let about = chunk.structure(3)?;
                let pages = pages(&bytes[..*footer_at], about)?;
                stored += pages.len();
                needs.uncompressed += check_pages(pages, about, rows)?;
            }
        }
        let said = footer.size(3)?;
        if needs.rows != said {
            return Err(format!("it says {said} rows and has {}", needs.rows));
        }
        // Columns do not share their pages: they would be gone through again and again.
        if stored > *footer_at {
            return Err(format!("pages of {stored} bytes in {footer_at}"));
        }
        // What tells rows apart takes more than a byte of each.
        if needs.rows > bytes.len() as u64 {
            return Err(format!("{} rows in {} bytes", needs.rows, bytes.len()));
        }
        Ok(needs)
    }
}

/// Where the footer begins.
fn footer(bytes: &[u8]) -> Result<usize, String> {
    let no_parquet = || "it is no Parquet file".to_owned();
    let rest = bytes.strip_suffix(MAGIC).ok_or_else(no_parquet)?;
    let (rest, length) = rest.split_last_chunk::<4>().ok_or_else(no_parquet)?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > LONGEST_FOOTER {
        return Err(format!("a footer of {length} bytes"));
    }
    let begin = rest.len().checked_sub(length).ok_or_else(no_parquet)?;
    if begin < MAGIC.len() || !bytes.starts_with(MAGIC) {
        return Err(no_parquet());
    }
    Ok(begin)
}

/// The bytes of a column's pages within a group.
fn pages<'a>(data: &'a [u8], about: &Value<'_>) -> Result<&'a [u8], String> {
    let begin = match about.number(11) {
        Some(_) => about.size(11)?,
        None => about.size(9)?,
    };
    let length = about.size(7)?;
    let range = begin.checked_add(length).and_then(|end| {
        let range = usize::try_from(begin).ok()?..usize::try_from(end).ok()?;
        data.get(range)
    });
    range.ok_or_else(|| format!("pages at {begin} + {length}, where there are none"))
}

/// Checks the pages of one column in a group of so many rows; how large they are without compression, bytes.
fn check_pages(mut pages: &[u8], about: &Value<'_>, rows: u64) -> Result<u64, String> {
    let codec = about.size(4)?;
    let width = smallest_value(about.size(1)?)?;
    let (mut values, mut uncompressed, mut is_first) = (0, 0, true);
    while !pages.is_empty() {
        let mut scanner = Scanner::of(pages);
        let header = scanner.structure(0)?;
        let size = header.size(2)?;
        let stored = header.size(3)?;
        let body = usize::try_from(stored)
            .ok()
            .and_then(|stored| scanner.bytes.get(..stored));
        let body = body.ok_or_else(|| format!("a page of {stored} bytes that are not there"))?;
        check_compression(codec, body, size)?;
        match header.size(1)? {
            0 => {
                let data = header.structure(5)?;
                check_encodings(&[data.size(2)?, data.size(3)?, data.size(4)?])?;
                let more = data.size(1)?;
                values += more;
                if more == 0 || values > rows {
                    return Err(format!("{values} values of {rows} rows"));
                }
                check_page(size, more)?;
            }
            2 if is_first => {
                let dictionary = header.structure(7)?;
                check_encodings(&[dictionary.size(2)?])?;
                let entries = dictionary.size(1)?;
                // No more is written than there are rows to use it.
                if entries > size / width || entries > rows {
                    return Err(format!(
                        "a dictionary of {entries} in {size} bytes for {rows} rows"
                    ));
                }
                check_page(size, entries)?;
            }
            kind => return Err(format!("a page of type {kind}")),
        }
        uncompressed += size;
        pages = &scanner.bytes[body.len()..];
        is_first = false;
    }
    if values != rows || about.size(5)? != rows {
        return Err(format!("{values} values of {rows} rows"));
    }
    Ok(uncompressed)
}

/// Whether a page can be so large: a value is no longer than a text with its length, and it has a level or an index.
fn check_page(size: u64, values: u64) -> Result<(), String> {
    const OTHERWISE: u64 = 1024;
    if size > OTHERWISE + values * (LONGEST_TEXT as u64 + 16) {
        return Err(format!("a page of {size} bytes for {values} values"));
    }
    Ok(())
}

/// The least that a value of a physical type takes in a dictionary, bytes.
fn smallest_value(physical_type: u64) -> Result<u64, String> {
    match physical_type {
        0 => Ok(1),     // boolean
        1 | 6 => Ok(4), // int32; byte array, which begins with its length
        5 => Ok(8),     // double
        other => Err(format!("a column of type {other}")),
    }
}

/// Plain, by dictionary (under its two numbers), and runs.
fn check_encodings(encodings: &[u64]) -> Result<(), String> {
    match encodings.iter().find(|one| ![0, 2, 3, 8].contains(one)) {
        Some(other) => Err(format!("encoding {other}")),
        None => Ok(()),
    }
}

/// Whether a page is as large as its header says once it is not compressed any more.
fn check_compression(codec: u64, body: &[u8], size: u64) -> Result<(), String> {
    let is_so = match codec {
        0 => body.len() as u64 == size,
        1 => {
            // Snappy's own first number.
            let says = Scanner::of(body).varint()?;
            says == size && size <= MOST_EXPANSION * body.len() as u64
        }
        other => return Err(format!("compression {other}")),
    };
    is_so
        .then_some(())
        .ok_or_else(|| format!("a page of {} bytes that says it has {size}", body.len()))
}

/// A value of Thrift, as far as it matters here.
#[derive(Debug)]
enum Value<'a> {
    Number(i64),
    Bytes(&'a [u8]),
    List(Vec<Value<'a>>),
    /// Fields with their numbers, ascending.
    Structure(Vec<(i16, Value<'a>)>),
    /// A truth value, a byte or a floating-point number.
    Other,
}

impl<'a> Value<'a> {
    fn field(&self, number: i16) -> Option<&Value<'a>> {
        let Value::Structure(fields) = self else {
            return None;
        };
        let found = fields.iter().find(|(of, _)| *of == number);
        found.map(|(_, value)| value)
    }

    fn number(&self, field: i16) -> Option<i64> {
        match self.field(field)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    fn bytes(&self, field: i16) -> Option<&'a [u8]> {
        match self.field(field)? {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A field that is a number of something.
    fn size(&self, field: i16) -> Result<u64, String> {
        let number = self.number(field);
        let size = number.and_then(|number| u64::try_from(number).ok());
        size.ok_or_else(|| format!("field {field} is no size"))
    }

    fn list(&self, field: i16) -> Result<&[Value<'a>], String> {
        match self.field(field) {
            Some(Value::List(values)) => Ok(values),
            _ => Err(format!("field {field} is no list")),
        }
    }

    fn structure(&self, field: i16) -> Result<&Value<'a>, String> {
        match self.field(field) {
            Some(value @ Value::Structure(_)) => Ok(value),
            _ => Err(format!("field {field} is no structure")),
        }
    }
}

/// Reads Thrift's compact protocol.
struct Scanner<'a> {
    /// What is left.
    bytes: &'a [u8],
}

impl<'a> Scanner<'a> {
    fn of(bytes: &'a [u8]) -> Scanner<'a> {
        Scanner { bytes }
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8], String> {
        let taken = usize::try_from(count)
            .ok()
            .and_then(|count| self.bytes.split_at_checked(count));
        let (taken, rest) = taken.ok_or("it ends within a structure")?;
        self.bytes = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number of more than 64 bits".into())
    }

    /// Small numbers of either sign are short.
    fn zigzag(&mut self) -> Result<i64, String> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    fn structure(&mut self, depth: usize) -> Result<Value<'a>, String> {
        let mut fields = Vec::new();
        let mut last = 0_i16;
        loop {
            let header = self.byte()?;
            let kind = header & 0xf;
            if kind == 0 {
                return Ok(Value::Structure(fields));
            }
            let number = match header >> 4 {
                0 => i16::try_from(self.zigzag()?).ok(),
                more => last.checked_add(i16::from(more)),
            };
            let number = number.filter(|number| *number > last);
            let number = number.ok_or("fields out of order")?;
            let value = match kind {
                1 | 2 => Value::Other, // true, false: the header says it
                kind => self.value(kind, depth + 1)?,
            };
            fields.push((number, value));
            last = number;
        }
    }

    /// A value within so many structures and lists.
    fn value(&mut self, kind: u8, depth: usize) -> Result<Value<'a>, String> {
        if depth > DEEPEST {
            return Err("structures nested too deep".into());
        }
        let other = |_: &'a [u8]| Value::Other;
        match kind {
            1..=3 => self.take(1).map(other), // truth values of a list, a byte
            4..=6 => self.zigzag().map(Value::Number),
            7 => self.take(8).map(other),
            8 => {
                let length = self.varint()?;
                self.take(length).map(Value::Bytes)
            }
            9 => self.list(depth),
            12 => self.structure(depth),
            other => Err(format!("a value of kind {other}")),
        }
    }

    /// Each value of a list takes at least one byte.
    fn list(&mut self, depth: usize) -> Result<Value<'a>, String> {
        let header = self.byte()?;
        let count = match header >> 4 {
            15 => self.varint()?,
            few => u64::from(few),
        };
        if count > self.bytes.len() as u64 {
            return Err(format!("a list of {count} in {} bytes", self.bytes.len()));
        }
        let values = (0..count).map(|_| self.value(header & 0xf, depth + 1));
        values.collect::<Result<_, _>>().map(Value::List)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{bytes_of, needs};
    use crate::row::{Row, example};

    fn rows(count: usize) -> Vec<Row> {
        let row = |number: usize| Row {
            record: format!("{number:032x}").into(),
            ..example()
        };
        (0..count).map(row).collect()
    }

    fn file(rows: &[Row]) -> Vec<u8> {
        bytes_of(&rows.iter().collect::<Vec<_>>()).unwrap()
    }

    /// What is said of a file with this footer, and the pages of one that is whole.
    fn refused(footer: &[u8]) -> String {
        let mut bytes = file(&rows(3));
        bytes.truncate(super::footer(&bytes).unwrap());
        bytes.extend(footer);
        bytes.extend(u32::try_from(footer.len()).unwrap().to_le_bytes());
        bytes.extend(MAGIC);
        let checked = Envelope::of(&bytes).and_then(|it| it.check(25, 1 << 17));
        checked.unwrap_err()
    }

    /// Thrift's numbers.
    fn varint(mut value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while value >= 0x80 {
            bytes.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        bytes.push(value.to_le_bytes()[0]);
        bytes
    }

    fn zigzag(value: i32) -> Vec<u8> {
        varint(u64::try_from(value).unwrap() << 1)
    }

    /// A schema of elements that each say how many they lead to.
    fn schema(children: &[i32]) -> Vec<u8> {
        let mut footer = vec![0x29, 0xfc]; // field 2, a list of structures, its length next
        footer.extend(varint(children.len() as u64));
        for number in children {
            footer.push(0x55); // field 5, an int32
            footer.extend(zigzag(*number));
            footer.push(0);
        }
        footer.push(0);
        footer
    }

    #[test]
    fn what_is_written_needs_its_rows_and_its_pages() {
        for count in [1, 2, 1000, 140_000] {
            let found = needs(&file(&rows(count))).unwrap();
            assert_eq!(found.rows, count as u64);
            assert!(found.uncompressed > 0);
        }
    }

    #[test]
    fn a_schema_that_leads_deeper_or_promises_more_is_refused() {
        let mut flat = vec![25];
        flat.extend([0; 25]);
        assert_eq!(refused(&schema(&flat)), "field 4 is no list"); // the schema itself passed
        for children in [vec![i32::MAX], vec![1; 20_000], vec![1; 26]] {
            assert_eq!(
                refused(&schema(&children)),
                "its schema is not of 25 columns"
            );
        }
    }

    #[test]
    fn what_costs_no_bytes_is_refused() {
        // Unknown fields: two thousand million truth values, and structures within structures.
        let mut truths = vec![0x29 + 0x70, 0xf1];
        truths.extend(varint(u64::from(u32::MAX >> 1)));
        truths.push(0);
        assert_eq!(refused(&truths), "a list of 2147483647 in 1 bytes");
        assert_eq!(refused(&vec![0x1c; 100_000]), "structures nested too deep");
        assert_eq!(refused(&vec![0x19; 100_000]), "structures nested too deep");
    }

    #[test]
    fn rows_that_take_no_bytes_are_refused() {
        let same = vec![example(); 100_000];
        let error = needs(&file(&same)).unwrap_err();
        assert!(error.starts_with("100000 rows in "), "{error}");
    }

    #[test]
    fn a_footer_that_is_too_long_is_refused() {
        let error = refused(&vec![0; LONGEST_FOOTER + 1]);
        assert_eq!(error, "a footer of 4194305 bytes");
    }

    #[test]
    fn a_page_that_says_it_is_larger_is_refused() {
        let page = |size: i32, body: &[u8]| page_of(1, size, body);
        let about = |codec| {
            let number = |value| Value::Number(value);
            Value::Structure(vec![(1, number(1)), (4, number(codec)), (5, number(1))])
        };
        assert_eq!(check_pages(&page(4, &[0; 4]), &about(0), 1), Ok(4));
        let snappy = |size: u64| [varint(size), vec![0; 4]].concat();
        let check = |size: i32, body: &[u8]| check_pages(&page(size, body), &about(1), 1);
        assert_eq!(check(4, &snappy(4)), Ok(4));
        assert!(check(4, &snappy(5)).is_err());
        assert!(check(i32::MAX, &snappy(0x7fff_ffff)).is_err());
        assert!(check_pages(&page(i32::MAX, &[0; 4]), &about(0), 1).is_err());
        // One without values is gone through for nothing.
        let empty = [page_of(0, 0, &[]), page(4, &[0; 4])].concat();
        let error = check_pages(&empty, &about(0), 1).unwrap_err();
        assert_eq!(error, "0 values of 1 rows");
    }

    /// A page of plain data.
    fn page_of(values: i32, size: i32, body: &[u8]) -> Vec<u8> {
        let mut page = vec![0x15, 0, 0x15]; // a page of data; its size
        page.extend(zigzag(size));
        page.push(0x15);
        page.extend(zigzag(i32::try_from(body.len()).unwrap()));
        page.extend([0x2c, 0x15]); // field 5: the values
        page.extend(zigzag(values));
        page.extend([0x15, 0, 0x15, 6, 0x15, 6, 0, 0]); // plain; runs, twice
        page.extend(body);
        page
    }
}
