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
