//! Pages of the kernel's ring buffer, as `trace_pipe_raw` gives them: bytes in, records out.
//!
//! A page begins with a time; each record has the time that passed since the one before, in 27 bits.
//! Longer pauses, and times in full, stand in records of their own. What was discarded is padding.
//! A page says how many records were lost before it, if any.

use super::format::{HeaderFormat, PageFormat};

/// In `commit`: records were lost before this page.
const LOST: u64 = 1 << 31;
/// In `commit`: how many stands behind the last record.
const LOST_COUNTED: u64 = 1 << 30;
/// In `commit`: bytes of records.
const LENGTH: u64 = LOST_COUNTED - 1;
/// Bits of a time in full; those above are the page's.
const STAMP_BITS: u32 = 59;

/// A record: an event as the kernel wrote it down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Raw<'a> {
    /// When, in nanoseconds of the trace's clock.
    pub time_ns: u64,
    /// Its fields.
    pub data: &'a [u8],
}

/// The records of a page, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Page<'a> {
    header: HeaderFormat,
    data: &'a [u8],
    at: usize,
    time_ns: u64,
    lost: u64,
}

impl<'a> Page<'a> {
    /// Looks at the page's header.
    pub(crate) fn new(
        bytes: &'a [u8],
        format: &PageFormat,
        header: HeaderFormat,
    ) -> Result<Page<'a>, String> {
        let number = |field: super::format::Field| field.number(bytes);
        // It is shorter than its header, or than it says.
        let too_short = |said| {
            let length = bytes.len();
            format!("a page of {length} bytes says that it holds {said}")
        };
        let (Some(time_ns), Some(commit)) = (number(format.timestamp), number(format.commit))
        else {
            return Err(too_short(format.data_offset as u64));
        };
        let said = commit & LENGTH;
        let end = usize::try_from(said).ok();
        let end = end.and_then(|length| length.checked_add(format.data_offset));
        let data = end.and_then(|end| bytes.get(format.data_offset..end));
        let data = data.ok_or_else(|| too_short(said))?;
        let lost = match (commit & LOST != 0, commit & LOST_COUNTED != 0) {
            (false, _) => 0,
            (true, false) => 1, // at the least
            (true, true) => {
                let behind = bytes.get(format.data_offset + data.len()..);
                let count = behind.and_then(|rest| rest.first_chunk::<8>());
                count.map_or(1, |count| u64::from_le_bytes(*count))
            }
        };
        Ok(Page {
            header,
            data,
            at: 0,
            time_ns,
            lost,
        })
    }

    /// Records that were lost before this page: at least so many.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// The next record. (No iterator: after an error nothing more can be read.)
    pub(crate) fn next_record(&mut self) -> Result<Option<Raw<'a>>, String> {
        while self.at < self.data.len() {
            let beyond = || {
                let (at, end) = (self.at, self.data.len());
                format!("the record at {at} reaches beyond the {end} bytes of the page")
            };
            let word = |at: usize| -> Result<u32, String> {
                let bytes = self.data.get(at..).and_then(|rest| rest.first_chunk::<4>());
                bytes
                    .map(|bytes| u32::from_le_bytes(*bytes))
                    .ok_or_else(beyond)
            };
            let first = word(self.at)?;
            let kind = first & ((1 << self.header.type_bits) - 1);
            let delta = u64::from(first >> self.header.type_bits);
            if kind == self.header.padding {
                if delta == 0 {
                    self.at = self.data.len(); // the rest of the page is empty
                    return Ok(None);
                }
                let length = word(self.at + 4)? as usize;
                self.time_ns = self.time_ns.wrapping_add(delta);
                self.skip(4 + length.max(4));
            } else if kind == self.header.time_extend {
                let more = u64::from(word(self.at + 4)?) << self.header.delta_bits;
                self.time_ns = self.time_ns.wrapping_add(more + delta);
                self.skip(8);
            } else if kind == self.header.time_stamp {
                let low = (u64::from(word(self.at + 4)?) << self.header.delta_bits) + delta;
                self.time_ns = in_full(low, self.time_ns);
                self.skip(8);
            } else {
                let (begin, length) = match kind {
                    0 => {
                        let length = (word(self.at + 4)? as usize).checked_sub(4);
                        (self.at + 8, length.ok_or_else(beyond)?)
                    }
                    words => (self.at + 4, words as usize * 4),
                };
                let data = self.data.get(begin..begin + length).ok_or_else(beyond)?;
                self.time_ns = self.time_ns.wrapping_add(delta);
                self.at = begin + length;
                let time_ns = self.time_ns;
                return Ok(Some(Raw { time_ns, data }));
            }
        }
        Ok(None)
    }

    fn skip(&mut self, length: usize) {
        self.at = self.at.saturating_add(length);
    }
}

/// A time whose upper bits are those of the time before it.
fn in_full(low: u64, before: u64) -> u64 {
    let low = low & ((1 << STAMP_BITS) - 1);
    let time = low | (before >> STAMP_BITS << STAMP_BITS);
    if time < before {
        time.wrapping_add(1 << STAMP_BITS)
    } else {
        time
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page_format() -> PageFormat {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        PageFormat::parse(text).unwrap()
    }

    fn header_format() -> HeaderFormat {
        let text = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\
                    \tarray       :   32 bits\n\n\tpadding     : type == 29\n\
                    \ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n";
        HeaderFormat::parse(text).unwrap()
    }

    fn page(time_ns: u64, flags: u64, words: &[u32]) -> Vec<u8> {
        let mut bytes = time_ns.to_le_bytes().to_vec();
        bytes.extend((flags | (words.len() as u64 * 4)).to_le_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    /// Times and data of the records, and how many were lost.
    type Found = (Vec<(u64, Vec<u8>)>, u64);

    fn records(bytes: &[u8]) -> Result<Found, String> {
        let mut page = Page::new(bytes, &page_format(), header_format())?;
        let mut found = Vec::new();
        while let Some(raw) = page.next_record()? {
            found.push((raw.time_ns, raw.data.to_vec()));
        }
        Ok((found, page.lost()))
    }

    fn header(kind: u32, delta: u32) -> u32 {
        kind | delta << 5
    }

    #[test]
    fn times_add_up_over_deltas_extensions_stamps_and_padding() {
        let words = [
            header(1, 10),
            0xaaaa_aaaa, // 4 bytes, 10 ns later
            header(30, 3),
            2, // 2 << 27 and 3 ns
            header(0, 1),
            12,
            1,
            2, // 8 bytes whose length stands in front
            header(29, 5),
            8,
            0, // discarded, 5 ns
            header(31, 7),
            1 << 10, // the time in full
            header(1, 1),
            3,
            header(29, 0), // nothing from here on
            header(1, 1),
            4,
        ];
        let begin = (1 << 59) + 1000;
        let (found, lost) = records(&page(begin, 0, &words)).unwrap();
        let extended = begin + 10 + (2 << 27) + 3;
        let stamped = (1 << 59) | ((1 << 37) + 7);
        let expected = vec![
            (begin + 10, vec![0xaa; 4]),
            (extended + 1, vec![1, 0, 0, 0, 2, 0, 0, 0]),
            (stamped + 1, vec![3, 0, 0, 0]),
        ];
        assert_eq!((found, lost), (expected, 0));
    }

    #[test]
    fn lost_records_are_counted_where_the_page_says_how_many() {
        let words = [header(1, 1), 0];
        let uncounted = page(0, LOST, &words);
        assert_eq!(records(&uncounted).unwrap().1, 1);
        let mut counted = page(0, LOST | LOST_COUNTED, &words);
        counted.extend(77_u64.to_le_bytes());
        assert_eq!(records(&counted).unwrap().1, 77);
        assert_eq!(records(&counted).unwrap().0.len(), 1);
    }

    #[test]
    fn a_record_beyond_the_page_is_an_error() {
        let cut = page(0, 0, &[header(3, 1), 0]);
        let error = records(&cut).unwrap_err();
        assert!(error.contains("at 0 reaches beyond the 8 bytes"), "{error}");
        let short = &page(0, 0, &[header(1, 1), 0])[..20];
        let error = records(short).unwrap_err();
        assert_eq!(error, "a page of 20 bytes says that it holds 8");
        assert!(records(&[0; 9]).is_err());
        assert!(records(&page(0, 0, &[header(0, 1), 3])).is_err());
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(lengths in prop::collection::vec((1_u32..40, 0_u32..1 << 27), 0..20)) {
            let (mut words, mut expected, mut now) = (Vec::new(), Vec::new(), 5_u64);
            for (index, &(length, delta)) in lengths.iter().enumerate() {
                let content = u32::try_from(index).unwrap();
                words.push(header(if length > 28 { 0 } else { length }, delta));
                if length > 28 {
                    words.push(length * 4 + 4);
                }
                words.extend(vec![content; length as usize]);
                now += u64::from(delta);
                expected.push((now, content.to_le_bytes().repeat(length as usize)));
            }
            prop_assert_eq!(records(&page(5, 0, &words)).unwrap(), (expected, 0));
        }
    }
}
