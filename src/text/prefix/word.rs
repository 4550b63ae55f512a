//! Layers that begin with a name or a figure: pdsh's `node07: `, an address,
//! `worker-9 >> `, docker compose's `name-1  | `, torchx's `i.role/0 `,
//! srun's `3: `. A name before a colon is a host only if it cannot well be a
//! setting, a counter, a file, a program or an exception.

use super::super::scan::{at, digits, from, host_byte, is, number, skip, span};
use super::{Strip, header_at, hostlike};

/// Words that count or configure something when a number follows: `step3: `,
/// `fp16: `, `gpu0: `; and programs and devices with a number in their name.
#[rustfmt::skip]
const NO_HOST: &[&[u8]] = &[
    b"acc", b"base", b"batch", b"bf", b"block", b"bond", b"c10d", b"chunk", b"conv", b"cpu", b"cu", b"cuda",
    b"dev", b"device", b"dim", b"e2e", b"enp", b"ens", b"eno", b"epoch", b"error", b"eta", b"eth", b"exp",
    b"f", b"fc", b"float", b"fold", b"fp", b"frame", b"g++", b"gcc", b"global", b"gpu", b"group", b"h5py",
    b"head", b"hsn", b"http", b"i18n", b"ib", b"ibs", b"int", b"ipv", b"item", b"iter", b"iteration",
    b"job", b"k8s", b"layer", b"level", b"line", b"local", b"local-rank", b"loss", b"lr", b"mask", b"max",
    b"md", b"metric", b"min", b"mlp", b"mlx", b"mp", b"mpirun", b"nccl", b"num", b"nvme", b"option", b"param", b"part",
    b"phase", b"pid", b"pip", b"port", b"precision", b"process", b"python", b"q", b"r", b"rank", b"recall",
    b"ring", b"round", b"run", b"s3", b"s3fs", b"sample", b"seed", b"sha", b"srun", b"shard", b"size", b"split",
    b"stage", b"step", b"sxm", b"t", b"task", b"test", b"thread", b"tier", b"time", b"top", b"torch", b"tp",
    b"train", b"trial", b"uint", b"utf", b"v", b"val", b"version", b"w", b"x", b"dp", b"pp", b"ep", b"cp",
    b"exit", b"docker", b"veth", b"nvidia-nvswitch", b"nvidia-caps", b"nvswitch",
];

/// Of these, the ones that also name machines.
const MACHINES: &[&[u8]] =
    &[b"cpu", b"dev", b"gpu", b"head", b"r", b"t", b"test", b"train", b"v", b"w", b"x"];

/// Ends of file names; a name that ends so is no host.
#[rustfmt::skip]
const FILES: &[&[u8]] = &[
    b"py", b"cc", b"cpp", b"cu", b"c", b"h", b"hpp", b"cuh", b"sh", b"so", b"json", b"yaml", b"yml",
    b"toml", b"txt", b"log", b"out", b"err", b"whl", b"gz", b"tar", b"zip", b"pt", b"pth", b"bin", b"pkl",
    b"npz", b"h5", b"hdf5", b"safetensors", b"md", b"cfg", b"ini", b"conf", b"csv", b"rs", b"go", b"sif",
    b"sqsh",
];

/// Whether `stem` (what stands before the number) counts something that is no host and no role.
pub(super) fn counts_something(stem: &[u8]) -> bool {
    let stem = stem.trim_ascii_end();
    let stem = stem.strip_suffix(b"-").or_else(|| stem.strip_suffix(b"_")).unwrap_or(stem);
    NO_HOST.iter().any(|w| w.eq_ignore_ascii_case(stem))
}

/// Whether `name` before `: ` is a host and `rest` its line.
fn host_label(name: &[u8], rest: &[u8]) -> bool {
    let figures = name.iter().filter(|c| c.is_ascii_digit()).count();
    let upper = name.iter().any(|c| c.is_ascii_uppercase() || *c == b'_');
    if figures == 0 || name.len() < 3 || name.len() > 80 || upper || !hostlike(name, 0, name.len()) {
        return false;
    }
    if ipv4(name) {
        return true;
    }
    // `model.layers.3.mlp`, `python3.8`, `x.py`: dots with a bare number, or a file.
    let mut labels = name.split(|c| *c == b'.');
    if labels.clone().count() > 1 {
        let last = labels.clone().next_back().unwrap_or(&[]);
        if FILES.contains(&last) || labels.any(|l| l.is_empty() || l.iter().all(u8::is_ascii_digit)) {
            return false;
        }
    }
    let stem = name.iter().take_while(|c| !c.is_ascii_digit()).count();
    let exact = NO_HOST.contains(&name) || name.starts_with(b"slurmstepd-");
    if exact || ends_badly(name) || value(rest) {
        return false;
    }
    // `gpu07`, `gpu-3.cluster.example` are hosts, `gpu3` and `epoch-03` are none.
    let machine = MACHINES.iter().any(|m| name[..stem].strip_suffix(b"-").unwrap_or(&name[..stem]) == *m);
    let named =
        at(name, stem) == b'0' && name.len() > stem + 1 || name.iter().filter(|c| **c == b'.').count() >= 2;
    let digit_first = stem == 0 && (name.len() < 6 || figures == name.len());
    // One letter counts only before nothing but figures: `x3005c0s25b1n0` is a host.
    let mixed = stem == 1 && name[1..].iter().any(u8::is_ascii_alphabetic);
    !digit_first && (machine && named || mixed || !counts_something(&name[..stem]))
}

fn ends_badly(name: &[u8]) -> bool {
    [&b"error"[..], b"exception", b"warning", b"timeout", b"size", b"rate", b"loss"]
        .iter()
        .any(|e| name.ends_with(e))
}

/// One word that is a value: a number, a truth, nothing.
fn value(rest: &[u8]) -> bool {
    let rest = rest.trim_ascii();
    if rest.contains(&b' ') {
        return false;
    }
    let rest = rest.strip_suffix(b",").unwrap_or(rest);
    let number =
        at(rest, 0).is_ascii_digit() || (matches!(at(rest, 0), b'-' | b'.' | b'+') && rest.len() > 1);
    let words = [&b"true"[..], b"false", b"none", b"null", b"yes", b"no", b"on", b"off", b"nan"];
    number || words.iter().any(|w| rest.eq_ignore_ascii_case(w))
}

/// Four numbers with dots between.
fn ipv4(name: &[u8]) -> bool {
    let mut n = 0;
    for part in name.split(|c| *c == b'.') {
        n += 1;
        if !(1..=3).contains(&part.len()) || !part.iter().all(u8::is_ascii_digit) {
            return false;
        }
    }
    n == 4
}

impl Strip<'_> {
    /// A layer that begins with a figure at `i`.
    pub(super) fn figure(&mut self, i: usize) -> bool {
        let len = digits(self.line, i);
        match at(self.line, i + len) {
            b':' if matches!(at(self.line, i + len + 1), b' ' | 0) => self.label(i),
            b'.' => self.notebook(i) || self.host(i) || self.stamp_layer(i),
            b'-' | b'/' | b':' if len == 4 || len == 2 => self.stamp_layer(i) || self.host(i),
            b'-' | b'a'..=b'z' => self.host(i),
            _ => false,
        }
    }

    /// A layer that begins with a letter at `i`.
    #[inline]
    pub(super) fn word(&mut self, i: usize) -> bool {
        let stop = skip(self.line, i, 80, host_byte);
        match at(self.line, stop) {
            b':' => self.host_at(i, stop),
            b' ' => self.spaced(i, stop),
            b'/' => self.torchx(i, stop),
            _ => false,
        }
    }

    fn host(&mut self, i: usize) -> bool {
        let stop = skip(self.line, i, 80, host_byte);
        match at(self.line, stop) {
            b':' => self.host_at(i, stop),
            b' ' => self.arrow(i, stop),
            _ => false,
        }
    }

    /// `node07: `, taken where it is plainly a host, or where the same host follows.
    fn host_at(&mut self, i: usize, colon: usize) -> bool {
        if !matches!(at(self.line, colon + 1), b' ' | 0) || self.p.host.is_some() {
            return false;
        }
        let Some(name) = self.line.get(i..colon) else { return false };
        let rest = from(self.line, colon + 2);
        let twice = rest.starts_with(name)
            && at(rest, name.len()) == b':'
            && at(rest, name.len() + 1).is_ascii_digit()
            && hostlike(self.line, i, colon);
        if !(twice || self.free() && host_label(name, rest)) {
            return false;
        }
        self.p.host = Some(span(i, colon));
        self.take((colon + 2).min(self.line.len()))
    }

    /// What a word and a blank may open.
    fn spaced(&mut self, i: usize, gap: usize) -> bool {
        if gap - i == 3 && self.stamp_layer(i) {
            return true;
        }
        self.arrow(i, gap) || self.compose(i, gap) || self.stern(i, gap)
    }

    /// `worker-9 >> `.
    fn arrow(&mut self, i: usize, gap: usize) -> bool {
        if !is(self.line, gap, b" >> ") || !hostlike(self.line, i, gap) {
            return false;
        }
        if !self.line.get(i..gap).is_some_and(|w| w.iter().any(u8::is_ascii_digit)) {
            return false;
        }
        self.p.host = Some(span(i, gap));
        self.take(gap + 4)
    }

    /// `name-1  | `.
    fn compose(&mut self, i: usize, gap: usize) -> bool {
        if i != 0 || at(self.line, gap - 1).wrapping_sub(b'0') > 9 {
            return false;
        }
        let bar = skip(self.line, gap, 40, |c| c == b' ');
        if at(self.line, bar) != b'|' || !matches!(at(self.line, bar + 1), b' ' | 0) || !self.sure {
            return false;
        }
        let Some(name) = self.line.get(i..gap) else { return false };
        let stem = name.iter().rposition(|c| !c.is_ascii_digit()).map_or(0, |n| n + 1);
        let numbered = stem >= 3 && stem < name.len() && matches!(name[stem - 1], b'-' | b'_');
        if !numbered || name.iter().any(u8::is_ascii_uppercase) || counts_something(&name[..stem]) {
            return false;
        }
        self.p.host = Some(span(i, gap));
        self.take((bar + 2).min(self.line.len()))
    }

    /// `i.finetune/0 ` of torchx and NeMo-Run: role and replica, one a node.
    fn torchx(&mut self, i: usize, slash: usize) -> bool {
        let Some((replica, end)) = number(self.line, slash + 1) else { return false };
        let Some(role) = self.line.get(i..slash) else { return false };
        if at(self.line, end) != b' ' || end - slash > 5 || !self.free() || !hostlike(self.line, i, slash) {
            return false;
        }
        let next = end + 1;
        let sure = role.len() > 2 && role[1] == b'.' && role[0].is_ascii_lowercase();
        if !sure
            && !is(self.line, next, b"[rank")
            && !is(self.line, next, b"[default")
            && !header_at(self.line, next)
        {
            return false;
        }
        self.p.name = Some(span(i, end));
        self.p.label = Some(replica);
        self.take(next)
    }
}
