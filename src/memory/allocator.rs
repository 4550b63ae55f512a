//! The message with which a framework's allocator gives up: all its numbers,
//! in every wording, and what they say together. Who else holds the GPU is
//! told apart from fragmentation and from plain lack of memory.

use crate::base::{bytes_text, parse_bytes};
use serde::Serialize;

/// Another process that holds memory of the GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Process.
    pub pid: u32,
    /// Bytes.
    pub bytes: u64,
    /// Rank of the job with that process id, where there is one.
    pub rank: Option<u32>,
}

/// A process on a GPU, as nvidia-smi lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Held {
    /// Host, where known.
    pub host: Option<String>,
    /// GPU.
    pub device: u32,
    /// Process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// Rank of the job with that process id, where there is one.
    pub rank: Option<u32>,
}

/// What an allocator said when it gave up. All sizes in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Allocator {
    /// Rank, where known.
    pub rank: Option<u32>,
    /// Host, where known.
    pub host: Option<String>,
    /// Place of the line.
    pub source: String,
    /// See `source`; from 1.
    pub line: u64,
    /// Device.
    pub device: Option<u32>,
    /// What was asked for.
    pub tried: Option<u64>,
    /// Size of the GPU.
    pub total: Option<u64>,
    /// Free on it.
    pub free: Option<u64>,
    /// What this process holds, all included.
    pub process: Option<u64>,
    /// Limit that the process set itself.
    pub allowed: Option<u64>,
    /// Handed out by the framework.
    pub allocated: Option<u64>,
    /// Of CUDA graphs' private pools.
    pub pools: Option<u64>,
    /// Reserved by the framework and not handed out.
    pub unused: Option<u64>,
    /// Other processes on the GPU.
    pub holders: Vec<Holder>,
    /// What the numbers say, one sentence each.
    pub says: Vec<String>,
}

impl Allocator {
    /// What this process holds beyond the framework's pool: CUDA context, NCCL, libraries.
    #[must_use]
    pub fn beyond(&self) -> Option<u64> {
        // What lies in private pools is part of what is allocated.
        let pool = self.allocated? + self.unused.unwrap_or(0);
        self.process?.checked_sub(pool)
    }
}

/// Reads such a message; nothing where the text is none.
#[must_use]
pub(super) fn read(text: &str) -> Option<Allocator> {
    let at = text.find("Tried to allocate ")?;
    let text = &text[at..];
    let allocated = before(text, " is allocated by PyTorch").or_else(|| before(text, " already allocated"));
    // The old wording names all that is reserved, the new one what of it is unused.
    let reserved = before(text, " reserved in total by PyTorch").or_else(|| before(text, " cached"));
    let unused = before(text, " is reserved by PyTorch but unallocated")
        .or_else(|| reserved.and_then(|r| r.checked_sub(allocated?)));
    let mut out = Allocator {
        device: text.find("GPU ").and_then(|at| number(&text[at + 4..])),
        tried: after(text, "Tried to allocate "),
        total: after(text, " total capacity of ")
            .or_else(|| after(text, " total capacty of "))
            .or_else(|| before(text, " total capacity;")),
        free: before(text, " is free").or_else(|| before(text, " free;")),
        process: after(text, "this process has "),
        allowed: before(text, " allowed;"),
        allocated,
        pools: before(text, " allocated in private pools"),
        unused,
        ..Allocator::default()
    };
    let mut rest = text;
    while let Some(at) = rest.find("Process ") {
        rest = &rest[at + "Process ".len()..];
        if let (Some(pid), Some(bytes)) = (number(rest), after(rest, " has "))
            && out.holders.len() < 256
        {
            out.holders.push(Holder { pid, bytes, rank: None });
        }
    }
    // In a container the process does not know its own number: the one that holds at least its pool is itself.
    if let (None, [only]) = (out.process, &out.holders[..])
        && out.allocated.is_some_and(|a| only.bytes >= a + out.unused.unwrap_or(0))
    {
        out.process = Some(only.bytes);
        out.holders.clear();
    }
    Some(out)
}

fn number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// `512.00 MiB` behind a text.
fn after(text: &str, what: &str) -> Option<u64> {
    let rest = &text[text.find(what)? + what.len()..];
    let mut words = rest.split(' ');
    let (number, unit) = (words.next()?, words.next()?);
    parse_bytes(&format!("{number} {}", unit.trim_end_matches(['.', ',', ';', ')'])))
}

/// `512.00 MiB` before a text.
fn before(text: &str, what: &str) -> Option<u64> {
    let head = &text[..text.find(what)?];
    let mut words = head.rsplit(' ');
    let (unit, number) = (words.next()?, words.next()?);
    parse_bytes(&format!("{} {unit}", number.trim_start_matches('(')))
}

/// Puts into words what the numbers say. `nccl` is what NCCL holds on that rank by the account, where it is known.
pub(super) fn judge(a: &mut Allocator, nccl: Option<u64>) {
    let mut says = Vec::new();
    if let (Some(tried), Some(free)) = (a.tried, a.free)
        && tried > free
    {
        let short = bytes_text(tried - free);
        says.push(format!("{} asked for, {} free: {short} short", bytes_text(tried), bytes_text(free)));
    }
    let (own, foreign): (Vec<&Holder>, Vec<&Holder>) = a.holders.iter().partition(|h| h.rank.is_some());
    let sum = |list: &[&Holder]| bytes_text(list.iter().map(|h| h.bytes).sum());
    if !own.is_empty() {
        let ranks: crate::base::RankSet = own.iter().filter_map(|h| h.rank).collect();
        says.push(format!(
            "{} other process(es) of this job (ranks {ranks}) hold {} on this GPU: they put a context on it \
             before they chose their own device",
            own.len(),
            sum(&own)
        ));
    }
    // Many equal small holders are contexts of sibling ranks, even where their process ids cannot be compared.
    let small = foreign.len() >= 3 && foreign.iter().all(|h| h.bytes < 2 << 30);
    if small {
        says.push(format!(
            "{} other processes hold {} on this GPU, each less than 2 GiB: this is how it looks when every rank \
             of a node puts its CUDA context on one device",
            foreign.len(),
            sum(&foreign)
        ));
    } else if !foreign.is_empty() {
        let pids: Vec<String> = foreign.iter().take(8).map(|h| h.pid.to_string()).collect();
        says.push(format!(
            "process {} holds {} on this GPU and is none of this job's, as far as process ids can be compared",
            pids.join(", "),
            sum(&foreign)
        ));
    }
    if let (Some(unused), Some(tried)) = (a.unused, a.tried)
        && unused >= tried
        && unused > 0
    {
        says.push(format!(
            "{} is reserved and unused, more than was asked for: fragmentation of the framework's pool",
            bytes_text(unused)
        ));
    }
    if let Some(allowed) = a.allowed {
        says.push(format!("the process limits itself to {}", bytes_text(allowed)));
    }
    if let Some(beyond) = a.beyond() {
        let mut text = format!(
            "{} of the process lie outside the framework's pool (CUDA context, NCCL, libraries)",
            bytes_text(beyond)
        );
        if let Some(nccl) = nccl.filter(|n| *n > 0) {
            text.push_str(&format!("; NCCL's share by this account is {}", bytes_text(nccl)));
        }
        says.push(text);
    }
    if let (Some(total), Some(free), Some(process)) = (a.total, a.free, a.process) {
        let seen: u64 = free + process + a.holders.iter().map(|h| h.bytes).sum::<u64>();
        // The driver keeps some hundred MiB for itself.
        if total > seen + (1 << 30) {
            says.push(format!(
                "{} are held by nobody that the message names: processes of other containers, or the driver",
                bytes_text(total - seen)
            ));
        }
    }
    a.says = says;
}

#[cfg(test)]
mod tests {
    use super::{judge, read};

    const NEW: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 3 has a total capacity of 79.11 GiB of which 210.19 MiB is free. Process 7712 has 4.05 GiB memory in use. Process 7713 has 1.00 GiB memory in use. Including non-PyTorch memory, this process has 73.81 GiB memory in use. 75.00 GiB allowed; Of the allocated memory 70.00 GiB is allocated by PyTorch, with 0.50 GiB allocated in private pools (e.g., CUDA Graphs), and 1.25 GiB is reserved by PyTorch but unallocated.";
    const OLD: &str = "RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 5; 31.75 GiB total capacity; 28.50 GiB already allocated; 512.00 MiB free; 29.75 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory";
    const OLDEST: &str = "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity; 9.50 GiB already allocated; 10.50 MiB free; 97.00 MiB cached)";

    #[test]
    fn every_number_of_every_wording() {
        let a = read(NEW).unwrap();
        assert_eq!((a.device, a.tried, a.allowed), (Some(3), Some(512 << 20), Some(75 << 30)));
        assert_eq!((a.allocated, a.pools, a.unused), (Some(70 << 30), Some(512 << 20), Some(1280 << 20)));
        assert_eq!(
            a.holders.iter().map(|h| (h.pid, h.bytes >> 20)).collect::<Vec<_>>(),
            [(7712, 4147), (7713, 1024)]
        );
        assert_eq!(a.free.map(|b| b >> 20), Some(210));
        let a = read(OLD).unwrap();
        assert_eq!((a.device, a.tried, a.unused), (Some(5), Some(1536 << 20), Some(1280 << 20)));
        assert_eq!((a.total.map(|t| t >> 20), a.free), (Some(32512), Some(512 << 20)));
        let a = read(OLDEST).unwrap();
        assert_eq!((a.tried, a.unused, a.process), (Some(20 << 20), None, None));
        // A container: the number is not the one that the process knows.
        let a = read("CUDA out of memory. Tried to allocate 342.00 MiB. GPU  has a total capacity of 79.15 GiB of which 137.25 MiB is free. Process 4411 has 78.99 GiB memory in use. Of the allocated memory 77.18 GiB is allocated by PyTorch, and 290.11 MiB is reserved by PyTorch but unallocated.").unwrap();
        assert_eq!((a.process.map(|p| p >> 30), a.holders.len(), a.device), (Some(78), 0, None));
        assert!(read("step 1 loss 2.0").is_none());
        assert!(read("Tried to allocate ").is_some_and(|a| a.tried.is_none()));
    }

    #[test]
    fn who_holds_the_gpu_is_said() {
        let mut a = read(NEW).unwrap();
        a.holders[1].rank = Some(6);
        judge(&mut a, Some(1 << 30));
        let all = a.says.join("\n");
        assert!(all.contains("ranks 6"), "{all}");
        assert!(all.contains("process 7712 holds 4 GiB"), "{all}");
        assert!(all.contains("fragmentation"), "{all}");
        assert!(all.contains("NCCL's share by this account is 1 GiB"), "{all}");
    }
}
