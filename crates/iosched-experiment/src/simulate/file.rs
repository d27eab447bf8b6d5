//! Files, decompressed on the way; text files line by line. gzip and Zstandard are recognised by their
//! first bytes. Memory does not grow with the file, nor with a line: one longer than 64 KiB is an error. Who keeps what
//! is in the lines is kept from keeping too much: of all lines together there is a largest size, too.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use iosched_machine::failure::{Problem, exit};
use iosched_machine::foreign;
use iosched_machine::user_files;
use iosched_sim::trace::LONGEST_LINE;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The largest text, decompressed: a recording for `conform`. Some bytes may hold terabytes.
const LARGEST_TEXT: u64 = 512 << 20;

/// A file or a folder cannot be opened.
pub(super) fn not_opened(path: &Path, cause: &io::Error) -> Problem {
    let message = format!("cannot open {}: {cause}", path.display());
    Problem::new(exit::NO_SUCH_DEVICE, message)
}

/// Opens a file and decompresses it on the way: gzip and Zstandard are recognised by their first
/// bytes.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead + Send>, Problem> {
    let failed = |cause| not_opened(path, &cause);
    let file = user_files::open_to_read(path).map_err(failed)?;
    decompressed(BufReader::with_capacity(BUFFER, file)).map_err(failed)
}

/// What is in `input`, decompressed if need be.
pub fn decompressed(input: impl BufRead + Send + 'static) -> io::Result<Box<dyn BufRead + Send>> {
    decompressed_among(1, input)
}

/// The same of one of so many files that are read at a time, and have the memory of one.
pub(crate) fn decompressed_among(
    files: usize,
    mut input: impl BufRead + Send + 'static,
) -> io::Result<Box<dyn BufRead + Send>> {
    let window = LARGEST_WINDOW / u64::try_from(files.max(1)).unwrap_or(u64::MAX);
    let head = input.fill_buf()?;
    let gzip = head.starts_with(&[0x1f, 0x8b]);
    let zstandard = head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    Ok(if gzip {
        Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(input)))
    } else if zstandard {
        Box::new(BufReader::with_capacity(
            BUFFER,
            Zstandard::new(input, window),
        ))
    } else {
        Box::new(input)
    })
}

/// How far back a Zstandard file may refer: as far as `zstd --long` does. A file may ask for terabytes; while the memory
/// for it grows, it is there up to three times.
const LARGEST_WINDOW: u64 = 128 << 20;

/// Bytes that are asked for at a time.
const BUFFER: usize = 1 << 16;

/// The frames of a Zstandard file, one after the other.
struct Zstandard<R> {
    input: R,
    decoder: FrameDecoder,
}

impl<R: BufRead> Zstandard<R> {
    fn new(input: R, window: u64) -> Zstandard<R> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(window);
        Zstandard { input, decoder }
    }

    /// Begins the next frame that holds data; false at the end.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.input) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = self.input.by_ref().take(u64::from(length));
                    io::copy(&mut skipped, &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Zstandard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.decoder.can_collect() == 0 {
            if self.decoder.is_finished() {
                if !self.next_frame()? {
                    return Ok(0);
                }
            } else {
                self.decoder
                    .decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(io::Error::other)?;
            }
        }
        self.decoder.read(buffer)
    }
}

/// Lines of a file.
pub(crate) struct Lines {
    path: PathBuf,
    reader: Box<dyn BufRead + Send>,
    buffer: Vec<u8>,
    line: u64,
    /// Bytes that were read, and how many there may be.
    bytes: u64,
    most: u64,
}

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Lines, Problem> {
        Ok(Lines::of(path, open(path)?))
    }

    /// What is in `reader`; `path` is for errors.
    fn of(path: &Path, reader: Box<dyn BufRead + Send>) -> Lines {
        Lines {
            path: path.to_owned(),
            reader,
            buffer: Vec::new(),
            line: 0,
            bytes: 0,
            most: LARGEST_TEXT,
        }
    }

    /// Refuses more than that.
    #[cfg(test)]
    fn at_most(self, most: u64) -> Lines {
        Lines { most, ..self }
    }

    /// The next line without its end; `None` after the last.
    pub(crate) fn next_line(&mut self) -> Result<Option<&str>, Problem> {
        self.buffer.clear();
        let mut limited = self.reader.by_ref().take(LONGEST_LINE as u64);
        let read = limited.read_until(b'\n', &mut self.buffer);
        let failed = |cause: io::Error| {
            let (path, line) = (self.path.display(), self.line);
            let message = format!("cannot read {path} after line {line}: {cause}");
            Problem::new(exit::FAILURE, message)
        };
        let read = read.map_err(failed)?;
        if read == 0 {
            return Ok(None);
        }
        self.bytes += read as u64;
        if self.bytes > self.most {
            return Err(failed(foreign::too_large("it", self.most)));
        }
        self.line += 1;
        let not_text = |what| {
            let (path, line) = (self.path.display(), self.line);
            Problem::usage(format!("{path}, line {line}: {what}"))
        };
        if read == LONGEST_LINE {
            return Err(not_text("longer than 64 KiB: this is no trace"));
        }
        let text = std::str::from_utf8(&self.buffer).map_err(|_| not_text("no UTF-8 text"))?;
        Ok(Some(text.trim_end_matches(['\n', '\r'])))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::CompressionLevel;

    use super::*;

    fn read_all(path: &Path) -> Result<Vec<String>, Problem> {
        let mut lines = Lines::open(path)?;
        let mut all = Vec::new();
        while let Some(line) = lines.next_line()? {
            all.push(line.to_owned());
        }
        Ok(all)
    }

    #[test]
    fn plain_and_compressed_files_read_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let (plain, packed) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::write(&plain, "one\ntwo\r\n\nlast").unwrap();
        let mut encoder =
            GzEncoder::new(std::fs::File::create(&packed).unwrap(), Compression::fast());
        encoder.write_all(b"one\ntwo\r\n\nlast").unwrap();
        encoder.finish().unwrap();
        assert_eq!(read_all(&plain).unwrap(), ["one", "two", "", "last"]);
        assert_eq!(read_all(&packed).unwrap(), ["one", "two", "", "last"]);
        // Two frames, and one between them that is to be skipped.
        let frame =
            |text: &[u8]| ruzstd::encoding::compress_to_vec(text, CompressionLevel::Fastest);
        let skipped = b"\x50\x2a\x4d\x18\x03\x00\x00\x00xyz".to_vec();
        let frames = [frame(b"one\ntwo\r\n"), skipped, frame(b"\nlast")];
        std::fs::write(&packed, frames.concat()).unwrap();
        assert_eq!(read_all(&packed).unwrap(), ["one", "two", "", "last"]);
    }

    /// Lines without end, as a small file of compressed data may hold.
    struct Endless;

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer.fill(b' ');
            if let Some(last) = buffer.last_mut() {
                *last = b'\n';
            }
            Ok(buffer.len())
        }
    }

    #[test]
    fn files_that_are_read_at_a_time_have_the_memory_of_one() {
        // A frame that refers back by up to 8 MiB, and holds one byte.
        let frame = b"\x28\xb5\x2f\xfd\x00\x68\x09\x00\x00x";
        let read = |files: usize| {
            let mut text = String::new();
            let input = std::io::Cursor::new(frame.to_vec());
            let read = decompressed_among(files, input)?.read_to_string(&mut text);
            read.map(|_| text)
        };
        assert_eq!(read(16).unwrap(), "x");
        assert!(read(17).is_err());
    }

    #[test]
    fn a_text_without_end_is_an_error() {
        for most in [LARGEST_TEXT, 1 << 20] {
            // Each buffer full is a line.
            let endless = BufReader::with_capacity(60_000, Endless);
            let mut lines = Lines::of(Path::new("t"), Box::new(endless)).at_most(most);
            let error = loop {
                match lines.next_line() {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("it has no end"),
                    Err(error) => break error.to_string(),
                }
            };
            let size = format!("it is larger than {} MiB", most >> 20);
            assert!(error.ends_with(&size), "{error}");
        }
    }

    #[test]
    fn damage_is_an_error_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        std::fs::write(&path, [b"ok\n".to_vec(), vec![b'x'; 70_000]].concat()).unwrap();
        let message = read_all(&path).unwrap_err().to_string();
        assert!(
            message.ends_with("t, line 2: longer than 64 KiB: this is no trace"),
            "{message}"
        );
        std::fs::write(&path, b"\x1f\x8b\x08 this is not gzip").unwrap();
        let message = read_all(&path).unwrap_err().to_string();
        assert!(message.contains("after line 0"), "{message}");
        std::fs::write(&path, b"\x28\xb5\x2f\xfd....").unwrap();
        let message = read_all(&path).unwrap_err().to_string();
        assert!(message.contains("after line 0"), "{message}");
        let missing = read_all(&dir.path().join("none")).unwrap_err();
        assert_eq!(missing.code, exit::NO_SUCH_DEVICE);
    }
}
