//! UTF-16 with a byte order mark, to UTF-8, as a stream. Which of the two byte
//! orders it is was told by `magic`.

use std::io::{self, BufRead, Read};

use encoding_rs::{CoderResult, Decoder, UTF_16BE, UTF_16LE};

use super::feed::Feed;

/// Decoded bytes kept ready.
const READY: usize = 64 << 10;

/// Reads UTF-8 from a feed of UTF-16; what is no character becomes U+FFFD.
pub(super) struct Utf16<'a> {
    feed: Feed<'a>,
    decoder: Decoder,
    ready: Vec<u8>,
    at: usize,
    done: bool,
}

impl<'a> Utf16<'a> {
    pub(super) fn new(feed: Feed<'a>, little: bool) -> Self {
        let encoding = if little { UTF_16LE } else { UTF_16BE };
        Self { feed, decoder: encoding.new_decoder_with_bom_removal(), ready: Vec::new(), at: 0, done: false }
    }

    fn decode(&mut self) -> io::Result<()> {
        self.at = 0;
        self.ready.resize(READY, 0);
        let mut written = 0;
        while written == 0 && !self.done {
            let input = match self.feed.fill_buf() {
                Ok(input) => input,
                Err(error) => {
                    self.ready.clear();
                    return Err(error);
                }
            };
            let last = input.is_empty();
            let (result, read, n, _) = self.decoder.decode_to_utf8(input, &mut self.ready, last);
            self.feed.consume(read);
            self.done = last && result == CoderResult::InputEmpty;
            written = n;
        }
        self.ready.truncate(written);
        Ok(())
    }
}

impl Read for Utf16<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.at == self.ready.len() {
            self.decode()?;
        }
        let n = buf.len().min(self.ready.len() - self.at);
        buf[..n].copy_from_slice(&self.ready[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}
