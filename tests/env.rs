//! `ncclcheck env` from outside: every form of input, exit statuses, both
//! forms of the answer; and the same checks where a log shows the settings.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

mod common;

use ncclcheck::engine::Options;
use ncclcheck::input::Given;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn run(args: &[&str], vars: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ncclcheck"));
    let path = std::env::var("PATH").unwrap_or_default();
    command.env_clear().env("PATH", path).envs(vars.iter().copied()).stdin(Stdio::null());
    command.args(args).output().unwrap()
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn add(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    }
}

/// Kinds and names of what was found, notes apart.
fn findings(args: &[&str], vars: &[(&str, &str)]) -> (i32, Vec<(String, String)>, Value) {
    let output = run(&[&["env", "--format", "json"], args].concat(), vars);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let list = value["findings"].as_array().unwrap().iter();
    let of = |v: &Value, key: &str| v[key].as_str().unwrap().to_string();
    let found = list.map(|f| (of(f, "kind"), of(f, "name"))).collect();
    (output.status.code().unwrap(), found, value)
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect()
}

#[test]
fn the_environment_of_the_process() {
    let (code, found, _) = findings(&[], &[("NCCL_IB_DISABLE", "true"), ("NCCL_DEBUG", "INFO")]);
    assert_eq!((code, found), (1, pairs(&[("unreadable", "NCCL_IB_DISABLE")])));
    let (code, found, value) = findings(&[], &[("NCCL_DEBUG", "INFO"), ("HF_TOKEN", "secret")]);
    assert_eq!((code, found), (0, vec![]));
    assert!(!value.to_string().contains("secret"), "only what a job reads is kept");
}

/// NCCL reads its files below the environment.
#[test]
fn files_of_nccl_count_below_the_environment() {
    let files = Files::new();
    let conf = files.add("nccl.conf", "NCCL_IB_DISABLE=yes\nNCCL_BUFFSIZE=8M\n");
    let vars = [("NCCL_CONF_FILE", conf.as_str()), ("NCCL_IB_DISABLE", "1")];
    let (code, found, value) = findings(&[], &vars);
    assert_eq!((code, found), (1, pairs(&[("unreadable", "NCCL_BUFFSIZE")])));
    assert_eq!(value["findings"][0]["line"], 2);
}

#[test]
fn a_batch_script() {
    let files = Files::new();
    let script = files.add(
        "job.sh",
        "#!/bin/bash\n#SBATCH --nodes=4\nexport NCCL_SOCKET_IFNMAE=eth0\nNCCL_ALGO=Ring\nexport NCCL_NET=Socket\n\
         export NCCL_IB_HCA=mlx5_0\nsrun --export=ALL,NCCL_IB_QPS_PER_CONNECTION=4M ./run\n",
    );
    let (code, found, value) = findings(&[&script], &[]);
    assert_eq!(code, 1);
    let want = pairs(&[
        ("unknown-name", "NCCL_SOCKET_IFNMAE"),
        ("not-passed", "NCCL_ALGO"),
        ("unreadable", "NCCL_IB_QPS_PER_CONNECTION"),
        ("contradiction", "NCCL_NET"),
    ]);
    assert_eq!(found, want);
    assert_eq!(value["findings"][0]["instead"], "NCCL_SOCKET_IFNAME");
    let fine =
        files.add("fine.sh", "#!/bin/bash\nexport NCCL_DEBUG=INFO\nmpirun -x NCCL_IB_HCA=mlx5_0 ./run\n");
    assert_eq!(findings(&[&fine], &[]).0, 0);
}

#[test]
fn manifests_and_docker_inspect() {
    let files = Files::new();
    let pod = files.add(
        "pod.yaml",
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: t\n    env:\n    - name: NCCL_IB_DISABLE\n      \
         value: 1\n    - name: NCCL_PROTO\n      value: \"Simpel\"\n",
    );
    let (code, found, _) = findings(&[&pod], &[]);
    assert_eq!((code, found), (1, pairs(&[("manifest", "NCCL_IB_DISABLE"), ("outside", "NCCL_PROTO")])));
    let inspect = files.add("c.json", r#"[{"Config": {"Env": ["PATH=/bin", "NCCL_NET_GDR_LEVEL=PBH"]}}]"#);
    assert_eq!(findings(&[&inspect], &[]).1, pairs(&[("outside", "NCCL_NET_GDR_LEVEL")]));
}

#[test]
fn several_files_are_compared() {
    let files = Files::new();
    let a = files.add("r0.env", "NCCL_MIN_CTAS=8\nNCCL_SOCKET_IFNAME=eth0\nRANK=0\n");
    let b = files.add("r1.env", "NCCL_SOCKET_IFNAME=ens3\nRANK=1\n");
    let (code, found, value) = findings(&[&a, &b], &[]);
    assert_eq!((code, found), (1, pairs(&[("differs", "NCCL_MIN_CTAS")])));
    assert!(value["findings"][0]["say"].as_str().unwrap().contains("not set in"));
    assert_eq!(findings(&[&a, &a], &[]).0, 0);
}

/// One manifest, one job: what a pod is given in several places is no difference between ranks.
#[test]
fn one_manifest_is_no_contradiction() {
    let files = Files::new();
    let fine = [
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fabric}\ndata:\n  NCCL_ALGO: Tree\n---\napiVersion: v1\n\
         kind: Pod\nspec:\n  containers:\n  - name: w\n    envFrom:\n    - configMapRef: {name: fabric}\n    env:\n    \
         - name: NCCL_DEBUG\n      value: WARN\n",
        "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:\n      containers:\n      - name: w\n        \
         env:\n        - name: NCCL_DEBUG\n          value: \"WARN\"\n        args:\n        - |\n          export \
         NCCL_PROTO=LL\n          torchrun t.py\n",
        "kind: Pod\nspec:\n  initContainers:\n  - name: probe\n    env:\n    - {name: NCCL_ALGO, value: \"Tree\"}\n  \
         containers:\n  - name: w\n    env:\n    - {name: NCCL_DEBUG, value: \"WARN\"}\n  - name: metrics\n    env:\n    \
         - {name: NCCL_BUFFSIZE, value: \"2097152\"}\n",
    ];
    for (nth, text) in fine.iter().enumerate() {
        let file = files.add(&format!("m{nth}.yaml"), text);
        assert_eq!(findings(&[&file], &[]).1, vec![], "{text}");
    }
    let replicas = "kind: PyTorchJob\nspec:\n  pytorchReplicaSpecs:\n    Master:\n      template:\n        spec:\n          \
        containers:\n          - name: pytorch\n            env:\n            - name: NCCL_ALGO\n              value: \
        Tree\n    Worker:\n      template:\n        spec:\n          containers:\n          - name: pytorch\n            \
        env:\n            - value: Ring\n              name: NCCL_ALGO\n";
    let file = files.add("r.yaml", replicas);
    assert_eq!(findings(&[&file], &[]).1, pairs(&[("differs", "NCCL_ALGO")]));
    let same = files.add("s.yaml", &replicas.replace("Ring", "tree"));
    assert_eq!(findings(&[&same], &[]).1, vec![]);
}

#[test]
fn encodings_and_what_is_no_text() {
    let files = Files::new();
    let wide: Vec<u8> = "\u{feff}NCCL_IB_TIMOUT=22\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let path = files.0.path().join("wide.env");
    std::fs::write(&path, wide).unwrap();
    let path = path.to_str().unwrap();
    assert_eq!(findings(&[path], &[]).1, pairs(&[("unknown-name", "NCCL_IB_TIMOUT")]));
    let environ = files.add("environ", "PATH=/bin\0NCCL_IB_TIMOUT=22\0");
    assert_eq!(findings(&[&environ], &[]).1, pairs(&[("unknown-name", "NCCL_IB_TIMOUT")]));
    for bytes in [&b"\x7fELF\x02\x01\x01\0\0\0\0\x03\0\x3e"[..], b"\x1f\x8b\x08\0NCCL_X=1"] {
        let path = files.0.path().join("binary");
        std::fs::write(&path, bytes).unwrap();
        let output = run(&["env", path.to_str().unwrap()], &[]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("not a text"));
    }
}

#[test]
fn containers_and_sizes() {
    let vars = [("APPTAINERENV_NCCL_IB_TIMOUT", "22"), ("NCCL_BUFFSIZE", "-1"), ("NCCL_LL_BUFFSIZE", "-2")];
    let (_, found, _) = findings(&[], &vars);
    assert_eq!(found, pairs(&[("outside", "NCCL_BUFFSIZE"), ("unknown-name", "NCCL_IB_TIMOUT")]));
}

#[test]
fn a_release_decides() {
    let files = Files::new();
    let list = files.add("x.env", "NCCL_RAS_ENABLE=0\nNCCL_TREE_THRESHOLD=0\n");
    assert_eq!(findings(&[&list], &[]).0, 0);
    let (_, found, _) = findings(&["--nccl", "2.18.5", &list], &[]);
    assert_eq!(found, pairs(&[("not-read", "NCCL_RAS_ENABLE"), ("not-read", "NCCL_TREE_THRESHOLD")]));
}

#[test]
fn wrong_usage_and_missing_files_end_with_2() {
    for args in [&["env", "/no/such/file"][..], &["env", "--nccl", "new"], &["env", "--format", "xml"]] {
        let output = run(args, &[]);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{args:?}");
    }
}

/// What a log shows is checked alike, and is a notice beside the diagnosis.
#[test]
fn a_contradiction_in_a_log_is_a_notice() {
    let log = "NCCL_P2P_DISABLE=1\nNCCL_P2P_LEVEL=NVL\n\
               kd01:77:77 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n\
               kd01:77:90 [0] NCCL INFO comm 0x5581 rank 0 nranks 2 cudaDev 0 busId 1a000 - Init COMPLETE\n\
               step 10 loss 2.0\nTraining finished\n";
    let given = [Given::Bytes { name: "job.log".into(), data: log.into() }];
    let report = common::engine().diagnose(&given, &Options { threads: 1, ..Options::default() }).unwrap();
    assert!(report.diagnoses.is_empty());
    assert!(
        report
            .notices
            .iter()
            .any(|n| n.cause == "env/bad-value" && n.why.contains("NCCL_P2P_LEVEL has no effect"))
    );
}

/// What ranks of a job print is compared by meaning, and a majority is one of ranks.
#[test]
fn ranks_of_a_job_differ_by_meaning_and_vote_once() {
    let report = |of: &dyn Fn(u32) -> Vec<(&'static str, &'static str)>| {
        let given: Vec<Given> = (0..4)
            .map(|rank| {
                let head = format!("pb{:02}:{}:{} [{}] NCCL INFO", rank / 2, 300 + rank, 300 + rank, rank % 2);
                let mut log = format!("{head} NCCL version 2.21.5+cuda12.4\n");
                for (name, value) in of(rank) {
                    log += &format!("{head} {name} set by environment to {value}.\n");
                }
                for phase in ["START", "COMPLETE"] {
                    log += &format!(
                        "{head} ncclCommInitRank comm 0x7{rank} rank {rank} nranks 4 cudaDev {} nvmlDev {} busId 1000 commId 0x5e - Init {phase}\n",
                        rank % 2,
                        rank % 2
                    );
                }
                Given::Bytes { name: format!("rank{rank}.log"), data: log.into_bytes() }
            })
            .collect();
        common::engine().diagnose(&given, &Options { threads: 1, ..Options::default() }).unwrap()
    };
    let spelt = report(&|rank| {
        vec![
            ("NCCL_PROTO", if rank == 3 { "simple" } else { "Simple" }),
            ("NCCL_ALGO", if rank == 1 { "Tree,Ring" } else { "ring,tree" }),
            ("NCCL_BUFFSIZE", if rank == 2 { "0x800000" } else { "8388608" }),
        ]
    });
    assert!(spelt.diagnoses.is_empty(), "{:?}", spelt.diagnoses.first().map(|d| &d.why));
    // Rank 3 says so often and is still one; the second variable is told too.
    let differ = report(&|rank| {
        let mut all = vec![("NCCL_ALGO", if rank == 3 { "Tree" } else { "Ring" })];
        let (n, value) = if rank == 3 { (5, "LL") } else { (1, "Simple") };
        all.extend((0..n).map(|_| ("NCCL_PROTO", value)));
        all
    });
    let first = &differ.diagnoses[0];
    assert_eq!((first.cause.as_str(), first.culprits.ranks.as_slice()), ("env/mismatch", &[3][..]));
    assert!(first.why.contains("NCCL_PROTO=LL") && first.why.contains("NCCL_ALGO=Tree"), "{}", first.why);
}
