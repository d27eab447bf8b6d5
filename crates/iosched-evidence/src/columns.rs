//! Columns of Parquet files.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::RowGroupReader;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::row::{LONGEST_TEXT, Text};

/// A row group of a file that is written to a `W`.
pub(crate) type Group<'a, W> = SerializedRowGroupWriter<'a, W>;

/// A Parquet file of this schema, in its textual form, with what is said of the file as a whole.
pub fn parquet_file<W: Write + Send>(
    schema: &str,
    says: &[(&str, &str)],
    out: W,
) -> Result<SerializedFileWriter<W>, ParquetError> {
    let says = says.iter().map(|(key, value)| KeyValue {
        key: (*key).to_owned(),
        value: Some((*value).to_owned()),
    });
    let says: Vec<KeyValue> = says.collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata((!says.is_empty()).then_some(says))
        .build();
    let schema = Arc::new(parse_message_type(schema)?);
    SerializedFileWriter::new(out, schema, Arc::new(properties))
}

/// Writes the next column of the schema, of texts.
pub fn texts<'a, W: Write + Send>(
    group: &mut Group<W>,
    texts: impl Iterator<Item = &'a str>,
) -> Result<(), ParquetError> {
    column::<ByteArrayType, W>(group, texts.map(ByteArray::from))
}

/// Writes the next column of the schema.
pub fn column<T: DataType, W: Write + Send>(
    group: &mut Group<W>,
    values: impl Iterator<Item = T::T>,
) -> Result<(), ParquetError> {
    write::<T, W>(group, &values.collect::<Vec<_>>(), None)
}

/// Writes the next column of the schema, which is optional.
pub fn optional_column<T: DataType, W: Write + Send>(
    group: &mut Group<W>,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    let mut is_there = Vec::new();
    let seen = values.inspect(|value| is_there.push(i16::from(value.is_some())));
    let there: Vec<T::T> = seen.flatten().collect();
    write::<T, W>(group, &there, Some(&is_there))
}

fn write<T: DataType, W: Write + Send>(
    group: &mut Group<W>,
    values: &[T::T],
    is_there: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let mut column = group.next_column()?.expect("the schema has this column");
    column.typed::<T>().write_batch(values, is_there, None)?;
    column.close()
}

/// Parquet's numbers have signs.
pub fn number(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// The texts of a file, those that are the same as one, within the memory that there is for them.
#[derive(Debug)]
pub(crate) struct Texts {
    known: HashSet<Text>,
    left: u64,
    is_full: bool,
}

impl Texts {
    /// What a text takes besides its bytes: its counters, what the allocator adds, its place in the set.
    const EACH: u64 = 64;

    /// None yet, and room for so many bytes.
    pub(crate) fn within(left: u64) -> Texts {
        Texts {
            known: HashSet::new(),
            left,
            is_full: false,
        }
    }

    /// The bytes that are left; none if a text was refused for want of them.
    pub(crate) fn left(&self) -> Option<u64> {
        (!self.is_full).then_some(self.left)
    }

    /// The text, if there is room for it.
    pub(crate) fn one(&mut self, text: &str) -> Option<Text> {
        if let Some(known) = self.known.get(text) {
            return Some(known.clone());
        }
        let Some(left) = self.left.checked_sub(text.len() as u64 + Texts::EACH) else {
            self.is_full = true;
            return None;
        };
        self.left = left;
        let text = Text::from(text);
        self.known.insert(text.clone());
        Some(text)
    }
}

/// Reads the columns of a row group one after the other.
pub(crate) struct Columns<'a> {
    group: &'a dyn RowGroupReader,
    texts: &'a mut Texts,
    next: usize,
    rows: usize,
}

/// Why a column cannot be read.
pub(crate) type ReadError = String;

impl<'a> Columns<'a> {
    pub(crate) fn of(
        group: &'a dyn RowGroupReader,
        texts: &'a mut Texts,
    ) -> Result<Columns<'a>, ReadError> {
        let rows = group.metadata().num_rows();
        let rows = usize::try_from(rows).map_err(|_| format!("a group of {rows} rows"))?;
        Ok(Columns {
            group,
            texts,
            next: 0,
            rows,
        })
    }

    /// Rows of the group.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    fn read<T: DataType>(&mut self) -> Result<(Vec<T::T>, Vec<i16>), ReadError> {
        let at = self.next;
        self.next += 1;
        let reader = self
            .group
            .get_column_reader(at)
            .map_err(|error| error.to_string())?;
        let is_of_type = matches!(
            (&reader, T::get_physical_type()),
            (
                ColumnReader::BoolColumnReader(_),
                parquet::basic::Type::BOOLEAN
            ) | (
                ColumnReader::Int32ColumnReader(_),
                parquet::basic::Type::INT32
            ) | (
                ColumnReader::DoubleColumnReader(_),
                parquet::basic::Type::DOUBLE
            ) | (
                ColumnReader::ByteArrayColumnReader(_),
                parquet::basic::Type::BYTE_ARRAY
            )
        );
        if !is_of_type {
            return Err(format!("column {at} has another type"));
        }
        let mut reader = parquet::column::reader::get_typed_column_reader::<T>(reader);
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        while values.len().max(levels.len()) < self.rows {
            let left = self.rows - values.len().max(levels.len());
            let read = reader.read_records(left, Some(&mut levels), None, &mut values);
            let (records, ..) = read.map_err(|error| error.to_string())?;
            if records == 0 {
                return Err(format!("column {at} ends too early"));
            }
        }
        Ok((values, levels))
    }

    /// The next column, of which each row has a value.
    pub(crate) fn column<T: DataType>(&mut self) -> Result<Vec<T::T>, ReadError> {
        let (values, _) = self.read::<T>()?;
        if values.len() == self.rows {
            Ok(values)
        } else {
            Err(format!("column {} lacks values", self.next - 1))
        }
    }

    /// The next column, which is optional.
    pub(crate) fn optional_column<T: DataType>(&mut self) -> Result<Vec<Option<T::T>>, ReadError> {
        let (values, levels) = self.read::<T>()?;
        let mut values = values.into_iter();
        let filled = levels
            .into_iter()
            .map(|level| (level > 0).then(|| values.next()).flatten());
        let filled: Vec<Option<T::T>> = filled.collect();
        if filled.len() == self.rows && values.next().is_none() {
            Ok(filled)
        } else {
            Err(format!(
                "column {} has other values than it says",
                self.next - 1
            ))
        }
    }

    /// The next column, of texts.
    pub(crate) fn texts(&mut self) -> Result<Vec<Text>, ReadError> {
        // Values of a dictionary lie in its memory, each once. All live until the end, so a place stands for a text.
        let values = self.column::<ByteArrayType>()?;
        let mut known: HashMap<(*const u8, usize), Text> = HashMap::new();
        let mut texts: Vec<Text> = Vec::with_capacity(self.rows);
        for value in &values {
            let bytes = value.data();
            if let Some(last) = texts.last().filter(|last| last.as_bytes() == bytes) {
                let last = last.clone();
                texts.push(last);
                continue;
            }
            let text = match known.entry((bytes.as_ptr(), bytes.len())) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(new) => new.insert(self.text(bytes)?).clone(),
            };
            texts.push(text);
        }
        Ok(texts)
    }

    fn text(&mut self, bytes: &[u8]) -> Result<Text, ReadError> {
        let at = self.next - 1;
        if bytes.len() > LONGEST_TEXT {
            return Err(format!("column {at} has a text of {} bytes", bytes.len()));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| format!("column {at} is no UTF-8"))?;
        let text = self.texts.one(text);
        text.ok_or_else(|| format!("column {at} has more texts than there is room for"))
    }
}
