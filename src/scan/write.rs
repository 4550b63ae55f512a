//! Records as tables for other programs: NDJSON, CSV, Parquet. All have the
//! columns of [`COLUMNS`], in their order.

use super::record::{COLUMNS, Record, Type, Value};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use std::io::{self, Write};
use std::sync::Arc;

/// Forms of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// One JSON object a line.
    Ndjson,
    /// Comma-separated, with a head; lists are joined by `; `.
    Csv,
    /// Apache Parquet, packed with zstd; lists are lists.
    Parquet,
}

/// Rows of Parquet that are written together.
const GROUP: usize = 50_000;

/// Writes records.
///
/// # Errors
/// When writing fails.
pub fn write(records: &[Record], table: Table, out: &mut (dyn Write + Send)) -> io::Result<()> {
    match table {
        Table::Ndjson => records.iter().try_for_each(|r| ndjson(r, out)),
        Table::Csv => csv(records, out),
        Table::Parquet => parquet(records, out).map_err(io::Error::other),
    }
}

fn ndjson(record: &Record, out: &mut dyn Write) -> io::Result<()> {
    let mut object = serde_json::Map::new();
    for ((name, _, _), value) in COLUMNS.iter().zip(record.values()) {
        let value = match value {
            Value::Text(t) => serde_json::json!(t),
            Value::Int(n) => serde_json::json!(n),
            Value::Float(n) => serde_json::json!(n),
            Value::Texts(l) => serde_json::json!(l),
            Value::Ints(l) => serde_json::json!(l),
        };
        object.insert((*name).to_string(), value);
    }
    serde_json::to_writer(&mut *out, &object)?;
    out.write_all(b"\n")
}

fn csv(records: &[Record], out: &mut dyn Write) -> io::Result<()> {
    let names: Vec<&str> = COLUMNS.iter().map(|c| c.0).collect();
    writeln!(out, "{}", names.join(","))?;
    for record in records {
        let fields: Vec<String> = record.values().iter().map(field).collect();
        writeln!(out, "{}", fields.join(","))?;
    }
    Ok(())
}

fn field(value: &Value<'_>) -> String {
    match value {
        Value::Text(t) => quoted(t.unwrap_or_default()),
        Value::Int(n) => n.map_or(String::new(), |n| n.to_string()),
        Value::Float(n) => n.map_or(String::new(), |n| n.to_string()),
        Value::Texts(list) => quoted(&list.join("; ")),
        Value::Ints(list) => quoted(&list.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    }
}

/// A text that comes from a log must not be a formula to a program that opens the table.
fn quoted(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if formula { format!("'{text}") } else { text.to_string() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// The columns as Parquet declares them.
fn schema() -> String {
    let column = |(name, kind, _): &(&str, Type, &str)| match kind {
        Type::Text => format!("OPTIONAL BYTE_ARRAY {name} (STRING);"),
        Type::Int => format!("OPTIONAL INT64 {name};"),
        Type::Float => format!("OPTIONAL DOUBLE {name};"),
        Type::Texts => {
            format!(
                "REQUIRED group {name} (LIST) {{ REPEATED group list {{ REQUIRED BYTE_ARRAY element (STRING); }} }}"
            )
        }
        Type::Ints => {
            format!("REQUIRED group {name} (LIST) {{ REPEATED group list {{ REQUIRED INT64 element; }} }}")
        }
    };
    format!("message job {{ {} }}", COLUMNS.iter().map(column).collect::<Vec<_>>().join(" "))
}

fn parquet(records: &[Record], out: &mut (dyn Write + Send)) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(&schema())?);
    let level = ZstdLevel::try_new(3)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_created_by(concat!("ncclcheck ", env!("CARGO_PKG_VERSION")).into())
        .build();
    let mut file = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
    for group in records.chunks(GROUP) {
        let rows: Vec<Vec<Value<'_>>> = group.iter().map(Record::values).collect();
        let mut writer = file.next_row_group()?;
        let mut at = 0;
        while let Some(mut column) = writer.next_column()? {
            let cells: Vec<&Value<'_>> = rows.iter().map(|row| &row[at]).collect();
            put(&mut column, &cells)?;
            column.close()?;
            at += 1;
        }
        writer.close()?;
    }
    file.close()?;
    Ok(())
}

/// Writes one column; where all cells are of one type only that of the first arm matters.
fn put(column: &mut SerializedColumnWriter<'_>, cells: &[&Value<'_>]) -> Result<(), ParquetError> {
    let bytes = |t: &str| ByteArray::from(t.as_bytes().to_vec());
    let present: Vec<i16> = cells
        .iter()
        .map(|c| i16::from(!matches!(c, Value::Text(None) | Value::Int(None) | Value::Float(None))))
        .collect();
    let int = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    match cells.first() {
        None => {}
        Some(Value::Text(_)) => {
            let values: Vec<ByteArray> = cells
                .iter()
                .filter_map(|c| if let Value::Text(Some(t)) = c { Some(bytes(t)) } else { None })
                .collect();
            column.typed::<ByteArrayType>().write_batch(&values, Some(&present), None)?;
        }
        Some(Value::Int(_)) => {
            let values: Vec<i64> = cells
                .iter()
                .filter_map(|c| if let Value::Int(Some(n)) = c { Some(int(*n)) } else { None })
                .collect();
            column.typed::<Int64Type>().write_batch(&values, Some(&present), None)?;
        }
        Some(Value::Float(_)) => {
            let values: Vec<f64> =
                cells.iter().filter_map(|c| if let Value::Float(n) = c { *n } else { None }).collect();
            column.typed::<DoubleType>().write_batch(&values, Some(&present), None)?;
        }
        Some(Value::Texts(_) | Value::Ints(_)) => {
            let (mut texts, mut ints, mut definitions, mut repetitions) = (vec![], vec![], vec![], vec![]);
            for cell in cells {
                let length = match cell {
                    Value::Texts(list) => {
                        texts.extend(list.iter().map(|t| bytes(t)));
                        list.len()
                    }
                    Value::Ints(list) => {
                        ints.extend(list.iter().map(|n| i64::from(*n)));
                        list.len()
                    }
                    _ => 0,
                };
                // An empty list is one entry that is not defined.
                definitions.extend(std::iter::repeat_n(i16::from(length > 0), length.max(1)));
                repetitions.extend((0..length.max(1)).map(|n| i16::from(n > 0)));
            }
            if matches!(cells.first(), Some(Value::Texts(_))) {
                column.typed::<ByteArrayType>().write_batch(
                    &texts,
                    Some(&definitions),
                    Some(&repetitions),
                )?;
            } else {
                column.typed::<Int64Type>().write_batch(&ints, Some(&definitions), Some(&repetitions))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    fn record() -> Record {
        Record {
            job: "a/1".into(),
            cause: Some("net/x".into()),
            culprit_ranks: vec![3, 5],
            hosts: vec!["n1".into()],
            evidence_text: Some("=cmd|' /C calc'!A0, \"quoted\"".into()),
            confidence: Some(0.5),
            ..Record::default()
        }
    }

    #[test]
    fn columns_values_and_the_struct_agree() {
        let record = record();
        let values = record.values();
        assert_eq!(values.len(), COLUMNS.len());
        let mut line = Vec::new();
        ndjson(&record, &mut line).unwrap();
        let object: serde_json::Value = serde_json::from_slice(&line).unwrap();
        let own = serde_json::to_value(&record).unwrap();
        for ((name, kind, _), value) in COLUMNS.iter().zip(&values) {
            let fits = matches!(
                (kind, value),
                (Type::Text, Value::Text(_))
                    | (Type::Int, Value::Int(_))
                    | (Type::Float, Value::Float(_))
                    | (Type::Texts, Value::Texts(_))
                    | (Type::Ints, Value::Ints(_))
            );
            assert!(fits, "{name}");
            if *name != "schema" {
                assert_eq!(object[*name], own[*name], "{name}");
            }
        }
        // What is written is read again as the same.
        assert_eq!(serde_json::from_slice::<Record>(&line).unwrap(), record);
        assert_eq!(own.as_object().unwrap().len() + 1, COLUMNS.len());
    }

    #[test]
    fn csv_quotes_and_makes_no_formula() {
        let mut out = Vec::new();
        csv(&[record()], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(",\"'=cmd|' /C calc'!A0, \"\"quoted\"\"\","), "{text}");
        assert!(text.contains(",3; 5,"));
    }

    #[test]
    fn parquet_is_read_back_with_lists_and_nulls() {
        let mut out = Vec::new();
        let empty = Record { job: "b".into(), ..Record::default() };
        write(&[record(), empty], Table::Parquet, &mut out).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(out)).unwrap();
        let rows: Vec<parquet::record::Row> =
            reader.get_row_iter(None).unwrap().map(|r| r.unwrap()).collect();
        assert_eq!(rows.len(), 2);
        let cell = |row: usize, name: &str| {
            let (_, field) = rows[row].get_column_iter().find(|c| c.0 == name).unwrap();
            field.to_string()
        };
        assert_eq!(cell(0, "job"), "\"a/1\"");
        assert_eq!(cell(0, "culprit_ranks"), "[3, 5]");
        assert_eq!(cell(1, "culprit_ranks"), "[]");
        assert_eq!(cell(0, "hosts"), "[\"n1\"]");
        assert_eq!(cell(1, "cause"), "null");
        assert_eq!(cell(0, "confidence").parse::<f64>(), Ok(0.5));
    }
}
