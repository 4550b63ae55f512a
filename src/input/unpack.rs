//! Decompression: one reader for each format of `magic`, with a guard against
//! what expands without end. Everything streams, and what could be decoded
//! before a fault is handed out. Archives are in `tarfile` and `zipfile`.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::Caps;
use super::feed::{Feed, fault, halt_of};
use super::magic::Magic;

/// Largest window of zstd, and memory of xz, that is granted.
const WINDOW_LOG: u32 = 27;
const XZ_MEMORY: u64 = 160 << 20;

/// What comes out of a decoder, guarded and with faults in words.
pub(super) struct Unpacked<'a> {
    inner: Box<dyn Read + 'a>,
    what: &'static str,
    /// Most bytes asked for at once: what a decoder throws away at a fault.
    step: usize,
    /// What was taken from the feed, and what of that before this began.
    used: Rc<Cell<u64>>,
    before: u64,
    out: u64,
    ratio: u64,
    ratio_after: u64,
}

impl<'a> Unpacked<'a> {
    /// Unpacks the feed, which begins with this magic.
    pub(super) fn open(magic: Magic, feed: Feed<'a>, caps: &Caps) -> io::Result<Self> {
        let used = feed.used();
        let (what, step, inner): (_, _, Box<dyn Read + 'a>) = match magic {
            Magic::Gzip => ("gzip", usize::MAX, Box::new(Gunzip::new(feed))),
            Magic::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(feed)?;
                decoder.window_log_max(WINDOW_LOG)?;
                ("zstd", 128 << 10, Box::new(decoder))
            }
            Magic::Xz => {
                let stream =
                    liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, liblzma::stream::CONCATENATED)?;
                let decoder = liblzma::bufread::XzDecoder::new_stream(feed, stream);
                ("xz", 16 << 10, Box::new(decoder))
            }
            Magic::Bzip2 => {
                let decoder = bzip2::bufread::MultiBzDecoder::new(feed);
                ("bzip2", 16 << 10, Box::new(decoder))
            }
            _ => return Err(fault("not a compressed file")),
        };
        Ok(Self::guard(inner, what, step, used, caps))
    }

    /// Guards what comes out of any decoder.
    pub(super) fn guard(
        inner: Box<dyn Read + 'a>,
        what: &'static str,
        step: usize,
        used: Rc<Cell<u64>>,
        caps: &Caps,
    ) -> Self {
        Self {
            inner,
            what,
            step,
            before: used.get(),
            used,
            out: 0,
            ratio: caps.ratio,
            ratio_after: caps.ratio_after,
        }
    }

    /// The error in words, unless an outer layer has put it so already.
    fn explain(&self, error: io::Error) -> io::Error {
        if halt_of(&error).is_some() || error.raw_os_error().is_some() {
            return error;
        }
        let (what, out) = (self.what, self.out);
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return fault(format!("{what}: the file ends in the middle (after {out} bytes)"));
        }
        let text = error.to_string();
        if text.contains("too much memory") || text.contains("memory limit") {
            return fault(format!("{what}: needs a window over 128 MiB, not read"));
        }
        fault(format!("{what}: damaged after {out} bytes ({text})"))
    }
}

impl Read for Unpacked<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.out > self.ratio_after && self.out / self.ratio > self.used.get() - self.before {
            return Err(fault(format!(
                "{}: expands more than {} times, stopped after {} bytes",
                self.what, self.ratio, self.out
            )));
        }
        let most = buf.len().min(self.step);
        match self.inner.read(&mut buf[..most]) {
            Ok(n) => {
                self.out += n as u64;
                Ok(n)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => Err(self.explain(error)),
        }
    }
}

/// Raw deflate. Unlike the reader of `flate2` it hands out what was decoded
/// before a fault, and leaves what follows the stream unread.
pub(super) struct Inflate<R> {
    from: R,
    state: Decompress,
    done: bool,
    fault: Option<io::Error>,
}

impl<R: BufRead> Inflate<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, state: Decompress::new(false), done: false, fault: None }
    }
}

impl<R: BufRead> Read for Inflate<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(error) = self.fault.take() {
            self.done = true;
            return Err(error);
        }
        while !self.done && !buf.is_empty() {
            let input = self.from.fill_buf()?;
            let ended = input.is_empty();
            let (before_in, before_out) = (self.state.total_in(), self.state.total_out());
            let result = self.state.decompress(input, buf, FlushDecompress::None);
            let taken = (self.state.total_in() - before_in) as usize;
            let given = (self.state.total_out() - before_out) as usize;
            self.from.consume(taken);
            match result {
                Ok(Status::StreamEnd) => self.done = true,
                Ok(_) if ended && given == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) if taken == 0 && given == 0 => return Err(io::ErrorKind::InvalidData.into()),
                Ok(_) => {}
                Err(error) => {
                    self.fault = Some(io::Error::new(io::ErrorKind::InvalidData, error));
                    return if given == 0 { self.read(buf) } else { Ok(given) };
                }
            }
            if given > 0 {
                return Ok(given);
            }
        }
        Ok(0)
    }
}

/// Gzip: one member or many, NULs after the last as tapes have them.
struct Gunzip<'a> {
    member: Inflate<Feed<'a>>,
    crc: Crc,
    place: Place,
}

#[derive(PartialEq)]
enum Place {
    Header,
    Data,
    End,
}

impl<'a> Gunzip<'a> {
    fn new(feed: Feed<'a>) -> Self {
        Self { member: Inflate::new(feed), crc: Crc::new(), place: Place::Header }
    }

    /// Reads the header of a member.
    fn header(&mut self) -> io::Result<()> {
        let feed = &mut self.member.from;
        let head: [u8; 10] = exactly(feed)?;
        if head[..3] != *b"\x1f\x8b\x08" {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no gzip header"));
        }
        let flags = head[3];
        if flags & 4 != 0 {
            let n = u16::from_le_bytes(exactly(feed)?);
            if feed.skip(n.into())? < n.into() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        for flag in [8, 16] {
            // A name, a comment: both end with a NUL.
            while flags & flag != 0 && exactly::<1>(feed)? != [0] {}
        }
        if flags & 2 != 0 {
            exactly::<2>(feed)?;
        }
        self.member.state.reset(false);
        self.member.done = false;
        self.crc.reset();
        self.place = Place::Data;
        Ok(())
    }

    /// Reads what stands after a member, and looks for the next one.
    fn trailer(&mut self) -> io::Result<()> {
        let feed = &mut self.member.from;
        let sum = u32::from_le_bytes(exactly(feed)?);
        let size = u32::from_le_bytes(exactly(feed)?);
        let right = sum == self.crc.sum() && size == self.crc.amount();
        self.place = Place::End;
        if !right {
            return Err(fault("gzip: the checksum is wrong, something in it is damaged"));
        }
        loop {
            let ahead = feed.fill_buf()?;
            let zeros = ahead.iter().take_while(|&&b| b == 0).count();
            if zeros == 0 {
                break;
            }
            feed.consume(zeros);
        }
        match feed.want(3) {
            [] => Ok(()),
            head if b"\x1f\x8b\x08".starts_with(head) => {
                self.place = Place::Header;
                Ok(())
            }
            _ => Err(fault("gzip: something else follows after its end, not read")),
        }
    }
}

impl Read for Gunzip<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while !buf.is_empty() {
            match self.place {
                Place::End => return Ok(0),
                Place::Header => self.header()?,
                Place::Data => {
                    let n = self.member.read(buf)?;
                    self.crc.update(&buf[..n]);
                    if n > 0 {
                        return Ok(n);
                    }
                    self.trailer()?;
                }
            }
        }
        Ok(0)
    }
}

/// Takes exactly so many bytes.
pub(super) fn exactly<const N: usize>(feed: &mut Feed<'_>) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    feed.read_exact(&mut bytes)?;
    Ok(bytes)
}
