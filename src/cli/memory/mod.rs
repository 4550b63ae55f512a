//! `ncclcheck memory`: the account of a job's log, or the model's answer
//! without one. `draw` puts both into text.

mod draw;

use super::args::{Format, Global, InUse, LocalWay, Memory, NetWay};
use super::out::{FINE, Fail, columns, print};
use super::sources;
use crate::knowledge::Knowledge;
use crate::memory::{
    Effect, Env, Local, Part, Plan, Shape, Total, Uses, compute, effects, has_part, power_of_two_up, total,
};
use crate::report::text::Page;
use crate::settings::{self, Assignment, Environment, Level, Releases};
use serde::Serialize;
use std::collections::BTreeMap;

/// What the model says without a log.
#[derive(Debug, Serialize)]
struct Computed {
    schema: &'static str,
    nccl: String,
    cumem: bool,
    lazy: bool,
    communicators: u64,
    shape: Shape,
    set: Env,
    /// Of one communicator, on one rank.
    parts: Vec<Part>,
    /// Of all communicators, on one rank.
    total: Total,
    changes: Vec<Effect>,
    notes: Vec<String>,
}

pub(super) fn run(global: &Global, args: &Memory) -> Result<u8, Fail> {
    let engine = sources::engine(global)?;
    let mut page = Page::new(columns());
    let json = match args.nranks {
        Some(nranks) => {
            let answer = computed(&engine.knowledge, args, nranks)?;
            draw::computed(&answer, &mut page);
            serde_json::to_value(&answer)
        }
        None => {
            let (given, options) = sources::given(&args.sources)?;
            let account = engine.memory(&given, &options).map_err(|err| err.to_string())?;
            draw::account(&account, &mut page);
            serde_json::to_value(&account)
        }
    };
    let json = json.map_err(|err| err.to_string())?;
    print(global.color, FINE, |out| match args.format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &json)?;
            out.write_all(b"\n")
        }
        Format::Text => page.lines().iter().try_for_each(|line| writeln!(out, "{line}")),
    })
}

fn computed(known: &Knowledge, args: &Memory, nranks: u64) -> Result<Computed, Fail> {
    let tables = &known.tables;
    let (plan, mut notes) = plan(known, args, nranks);
    let sizes = plan.sizes(&tables.constants);
    let release = args.nccl.map_or("the newest".to_string(), |r| r.to_string());
    let most = [plan.shape.channels, plan.shape.nvls, plan.shape.collnet, plan.shape.p2p_channels];
    if let Some(n) = most.into_iter().find(|n| *n > sizes.max_channels) {
        return Err(format!("{n} channels: NCCL {release} has {} at most", sizes.max_channels));
    }
    if args.nccl.is_some_and(|r| r < crate::base::Release(2, 3, 0)) {
        return Err(format!("NCCL {release}: the model begins with 2.3"));
    }
    let parts = compute(&tables.constants, &plan);
    if plan.shape.nvls > 0 && sizes.nvls_buffer == 0 {
        notes.push("NVLS came with 2.17: none is counted.".into());
    } else if plan.shape.nvls > 0 && !sizes.cumem && !sizes.nvls_without_cumem {
        notes.push("Without cuMem there is no NVLS: none is counted.".into());
    } else if plan.shape.nvls > 0 && !sizes.has_nvls(plan.shape.on_node(), plan.shape.nodes()) {
        notes.push(
            "No NVLS for so few ranks on a node (until 2.28.3 it needs three), nor for several nodes in 2.17 and 2.20: \
             none is counted."
                .into(),
        );
    } else if plan.shape.nvls > 0 && sizes.nvls_rounded {
        notes.push(
            "This release rounds NVLS memory up to the granularity of multicast, which only a log tells (mcgran); \
             on some systems that is hundreds of MiB more."
                .into(),
        );
    }
    if args.uses.contains(&InUse::Pat) && (!sizes.pat || plan.shape.on_node() != 1) {
        notes.push("PAT needs 2.23 or later and one rank a node: none is counted.".into());
    }
    if args.uses.contains(&InUse::AllToAll) && !sizes.send_receive {
        notes.push("Send and receive came with 2.7: none is counted.".into());
    }
    notes.push(
        "Not in these figures: the CUDA context with NCCL's kernels, and the framework's own memory.".into(),
    );
    Ok(Computed {
        schema: "ncclcheck.memory-model/1",
        nccl: release,
        cumem: sizes.cumem,
        lazy: sizes.lazy,
        communicators: plan.communicators,
        shape: plan.shape,
        set: plan.env.clone(),
        total: total(&parts, plan.communicators),
        changes: effects(&tables.constants, &tables.changes, &plan),
        parts,
        notes,
    })
}

/// The plan that the arguments describe, variables applied, and what is to say about these.
fn plan(known: &Knowledge, args: &Memory, nranks: u64) -> (Plan, Vec<String>) {
    let channels = args.channels.unwrap_or(1);
    let per_node = args.per_node.unwrap_or(nranks).min(nranks);
    let p2p_channels = args.p2p_channels.unwrap_or_else(|| power_of_two_up(channels));
    let per_peer =
        args.per_peer.unwrap_or(if per_node == nranks { p2p_channels } else { 2.min(p2p_channels) });
    let has = |what| args.uses.contains(&what);
    let mut plan = Plan {
        shape: Shape {
            nranks,
            per_node,
            channels,
            collnet: args.collnet.unwrap_or(0),
            nvls: args.nvls.unwrap_or(0),
            p2p_channels,
            per_peer,
            heads: per_node,
        },
        communicators: args.communicators,
        local: match args.local {
            LocalWay::P2p => Local::P2p,
            LocalWay::P2pRead => Local::P2pRead,
            LocalWay::Shm => Local::Shm,
        },
        gdr: args.net == NetWay::Gdr,
        nvlink: !args.pcie,
        uses: Uses {
            ring: has(InUse::Ring),
            tree: has(InUse::Tree),
            nvls: has(InUse::Nvls),
            pat: has(InUse::Pat),
            collnet: has(InUse::Collnet),
            all_to_all: has(InUse::AllToAll),
        },
        chunk: None,
        release: args.nccl,
        arch: args.arch.clone(),
        env: BTreeMap::new(),
    };
    let notes = set(known, args, &mut plan);
    (plan, notes)
}

/// Applies `--set`, as NCCL would read it; says what of it counts for nothing, or for something else.
fn set(known: &Knowledge, args: &Memory, plan: &mut Plan) -> Vec<String> {
    let constants = &known.tables.constants;
    let variables: Vec<Assignment> = args
        .set
        .iter()
        .map(|(name, value)| Assignment { name: name.clone(), value: Some(value.clone()), line: 0 })
        .collect();
    let env = Environment { source: "--set".into(), variables, ..Environment::default() };
    let remarks = settings::check(known, &env, Releases { nccl: args.nccl, torch: None });
    let mut notes = Vec::new();
    let mut used: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, value) in &args.set {
        let about = remarks.iter().filter(|r| r.name == *name && r.value.as_ref() == Some(value));
        let about: Vec<_> = about
            .filter(|r| ["unknown-name", "not-read", "unreadable", "outside"].contains(&r.kind.as_str()))
            .collect();
        notes.extend(about.iter().map(|r| format!("{name}={value}: {}", r.say)));
        let read =
            !about.iter().any(|r| r.kind == "unknown-name" || r.kind == "not-read" && r.level != Level::Note);
        if !read || !has_part(constants, name) {
            if about.is_empty() {
                notes.push(format!(
                    "{name}={value}: it has no part in the model; nothing is counted otherwise."
                ));
            }
            continue;
        }
        // A value that is not accepted leaves the default, as far as the model goes.
        if about.iter().any(|r| r.kind == "outside") {
            continue;
        }
        used.insert(name, value);
    }
    plan.env = used.iter().map(|(n, v)| ((*n).to_string(), (*v).to_string())).collect();
    used.into_iter().for_each(|(name, value)| plan.set(constants, name, value));
    notes
}
