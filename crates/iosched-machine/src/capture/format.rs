//! How the kernel lays out what it records, as it says itself: the text files `format`,
//! `header_page` and `header_event`. No offset is known beforehand.
//!
//! Left out: big-endian machines, fields of flexible arrays other than text.

/// That a description lacks something.
fn lacks(what: &str, field: &str) -> String {
    format!("{what} has no {field}")
}

/// No record and no page is longer.
const LONGEST: usize = 1 << 20;

/// Where a field is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// In its place.
    Here,
    /// Elsewhere in the record; in its place stand offset and length.
    Elsewhere {
        /// The offset counts from the end of the field, not from the record's beginning.
        relative: bool,
    },
}

/// A field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    offset: usize,
    size: usize,
    signed: bool,
    kept: Kept,
}

impl Field {
    fn bytes<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        let here = data.get(self.offset..self.offset + self.size)?;
        let Kept::Elsewhere { relative } = self.kept else {
            return Some(here);
        };
        let place = usize::try_from(little_endian(here)).ok()?;
        let base = if relative { self.offset + self.size } else { 0 };
        let (offset, length) = (base + (place & 0xffff), (place >> 16) & 0xffff);
        data.get(offset..offset + length)
    }

    /// The number in it; nothing if the record is too short.
    pub(crate) fn number(&self, data: &[u8]) -> Option<u64> {
        let bytes = self.bytes(data)?;
        let raw = little_endian(bytes);
        let unused = 64 - 8 * bytes.len().min(8);
        let is_negative = self.signed && unused > 0 && unused < 64 && raw >> (63 - unused) == 1;
        Some(if is_negative {
            raw | (u64::MAX << (64 - unused))
        } else {
            raw
        })
    }

    /// The text in it, up to its end; nothing if the record is too short.
    pub(crate) fn text<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        let bytes = self.bytes(data)?;
        let end = bytes.iter().position(|&byte| byte == 0);
        Some(&bytes[..end.unwrap_or(bytes.len())])
    }
}

/// At most the first eight bytes as a number.
fn little_endian(bytes: &[u8]) -> u64 {
    let first = bytes.iter().take(8).enumerate();
    first.fold(0, |sum, (place, &byte)| {
        sum | u64::from(byte) << (8 * place)
    })
}

/// The layout of one kind of event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventFormat {
    name: String,
    /// What its records begin with.
    pub id: u16,
    fields: Vec<(String, Field)>,
}

impl EventFormat {
    /// Reads an event's `format` file.
    pub(crate) fn parse(text: &str) -> Result<EventFormat, String> {
        let value = |key: &str| text.lines().find_map(|line| line.trim().strip_prefix(key));
        let name = value("name:").map_or("an event", str::trim).to_owned();
        let id = value("ID:").and_then(|id| id.trim().parse().ok());
        let id = id.ok_or_else(|| lacks(&name, "ID"))?;
        let fields = fields(&name, text)?;
        Ok(EventFormat { name, id, fields })
    }

    pub(crate) fn field(&self, name: &str) -> Result<Field, String> {
        self.optional(name).ok_or_else(|| lacks(&self.name, name))
    }

    /// The field of this name, which not every kernel has.
    pub(crate) fn optional(&self, name: &str) -> Option<Field> {
        let found = self.fields.iter().find(|(other, _)| other == name);
        found.map(|&(_, field)| field)
    }
}

/// The lines `field:TYPE NAME; offset:N; size:N; signed:N;`.
fn fields(what: &str, text: &str) -> Result<Vec<(String, Field)>, String> {
    let mut fields = Vec::new();
    for line in text.lines() {
        let Some(line) = line.trim().strip_prefix("field:") else {
            continue;
        };
        let mut parts = line.split(';').map(str::trim);
        let declaration = parts.next().unwrap_or_default();
        let number = |key: &str| -> Option<usize> {
            let part = parts.clone().find_map(|part| part.strip_prefix(key));
            part.and_then(|number| number.parse().ok())
        };
        let (Some(offset), Some(size)) = (number("offset:"), number("size:")) else {
            continue; // no field of a record
        };
        let signed = number("signed:") == Some(1);
        let last = declaration.split_ascii_whitespace().next_back();
        let name = last.unwrap_or_default();
        let name = name.split('[').next().unwrap_or(name);
        let kept = match declaration.split_ascii_whitespace().next() {
            Some("__data_loc") => Kept::Elsewhere { relative: false },
            Some("__rel_loc") => Kept::Elsewhere { relative: true },
            _ => Kept::Here,
        };
        let is_place = kept != Kept::Here;
        if offset > LONGEST || size > LONGEST || size == 0 || (is_place && size != 4) {
            // Larger than any number, or beyond any record.
            return Err(format!(
                "field {name} of {what} cannot be {size} bytes at {offset}"
            ));
        }
        let field = Field {
            offset,
            size,
            signed,
            kept,
        };
        fields.push((name.to_owned(), field));
    }
    Ok(fields)
}

/// The layout of a page of the ring buffer (`events/header_page`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageFormat {
    pub(super) timestamp: Field,
    pub(super) commit: Field,
    /// Where records begin.
    pub(super) data_offset: usize,
    data_size: usize,
}

impl PageFormat {
    /// Reads `events/header_page`.
    pub(crate) fn parse(text: &str) -> Result<PageFormat, String> {
        let fields = fields("header_page", text)?;
        let field = |name: &str| {
            let found = fields.iter().find(|(other, _)| other == name);
            let missing = || lacks("header_page", name);
            found.map(|&(_, field)| field).ok_or_else(missing)
        };
        let data = field("data")?;
        Ok(PageFormat {
            timestamp: field("timestamp")?,
            commit: field("commit")?,
            data_offset: data.offset,
            data_size: data.size,
        })
    }

    /// Bytes of a page, its header included.
    pub(crate) fn size(&self) -> usize {
        self.data_offset + self.data_size
    }
}

/// The header of a record in a page (`events/header_event`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeaderFormat {
    pub(super) type_bits: u32,
    pub(super) delta_bits: u32,
    pub(super) padding: u32,
    pub(super) time_extend: u32,
    pub(super) time_stamp: u32,
}

impl HeaderFormat {
    /// Reads `events/header_event`.
    pub(crate) fn parse(text: &str) -> Result<HeaderFormat, String> {
        let number = |key: &str| {
            let line = text.lines().find(|line| {
                let before = line.split([':', '=']).next().unwrap_or_default();
                before.trim() == key
            });
            let digits = line.and_then(|line| {
                let mut words = line.split(|c: char| !c.is_ascii_digit());
                words.find(|word| !word.is_empty())
            });
            digits
                .and_then(|digits| digits.parse().ok())
                .filter(|&number: &u32| number < 32)
                .ok_or_else(|| lacks("header_event", key))
        };
        Ok(HeaderFormat {
            type_bits: number("type_len")?,
            delta_bits: number("time_delta")?,
            padding: number("padding")?,
            time_extend: number("time_extend")?,
            time_stamp: number("time_stamp")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = "name: x\nID: 7\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:int error;\toffset:4;\tsize:4;\tsigned:1;\n\
        \tfield:char comm[4];\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:__data_loc char[] cmd;\toffset:12;\tsize:4;\tsigned:0;\n\
        \tfield:__rel_loc char[] near;\toffset:16;\tsize:4;\tsigned:0;\n\nprint fmt: \"%d\", 1\n";

    #[test]
    fn fields_are_where_the_kernel_says() {
        let format = EventFormat::parse(EVENT).unwrap();
        assert_eq!(format.id, 7);
        let data = [
            7, 0, 0, 0, 0xfb, 0xff, 0xff, 0xff, b'f', b'i', b'o', 0, 20, 0, 3, 0, 3, 0, 2, 0, b'a',
            b'b', 0, b'y', b'z',
        ];
        let text = |name| format.field(name).unwrap().text(&data).unwrap().to_vec();
        let number = |name| format.field(name).unwrap().number(&data).unwrap();
        assert_eq!(number("common_type"), 7);
        assert_eq!(number("error").cast_signed(), -5);
        assert_eq!(text("comm"), b"fio");
        assert_eq!(text("cmd"), b"ab");
        assert_eq!(text("near"), b"yz");
        let short = format.field("cmd").unwrap().text(&data[..22]);
        assert_eq!(short, None, "it lies beyond the record");
        let missing = format.field("sector").unwrap_err();
        assert_eq!(missing, "x has no sector");
    }

    #[test]
    fn a_description_without_a_number_is_refused() {
        assert!(EventFormat::parse("name: x\n").is_err());
        assert!(PageFormat::parse("field: u64 timestamp; offset:0; size:8;").is_err());
        assert!(HeaderFormat::parse("type_len : 5 bits\n").is_err());
        let huge = "name: x\nID: 1\nfield:int a;\toffset:99999999;\tsize:4;\tsigned:1;\n";
        assert!(EventFormat::parse(huge).is_err());
    }
}
