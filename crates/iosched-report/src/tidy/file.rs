//! Cells of CSV (RFC 4180) and columns of Parquet.

use std::io::Write;
use std::sync::Arc;

use iosched_machine::visible::visible;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

/// A row group of a file that is written to a `W`.
pub(super) type Group<'a, W> = SerializedRowGroupWriter<'a, W>;

/// A cell without control characters, in quotes where it needs them: arms with several tunables have commas.
pub(super) fn quoted(text: &str) -> String {
    let text = visible(text);
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into_owned()
    }
}

/// A Parquet file of this schema, in its textual form.
pub(super) fn parquet_file<W: Write + Send>(
    schema: &str,
    out: W,
) -> Result<SerializedFileWriter<W>, ParquetError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    let schema = Arc::new(parse_message_type(schema)?);
    SerializedFileWriter::new(out, schema, Arc::new(properties))
}

pub(super) fn texts<'a, W: Write + Send>(
    group: &mut Group<W>,
    texts: impl Iterator<Item = &'a str>,
) -> Result<(), ParquetError> {
    column::<ByteArrayType, W>(group, texts.map(ByteArray::from))
}

/// Writes the next column of the schema.
pub(super) fn column<T: DataType, W: Write + Send>(
    group: &mut Group<W>,
    values: impl Iterator<Item = T::T>,
) -> Result<(), ParquetError> {
    write::<T, W>(group, &values.collect::<Vec<_>>(), None)
}

/// Writes the next column of the schema, which is optional.
pub(super) fn optional_column<T: DataType, W: Write + Send>(
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
pub(super) fn number(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
