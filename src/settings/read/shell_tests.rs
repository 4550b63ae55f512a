//! Scripts and listings.

use super::*;

fn pairs(text: &str, script: bool) -> Vec<(String, Option<String>)> {
    let (all, _) = read("t", text, script);
    all[0].variables.iter().map(|a| (a.name.clone(), a.value.clone())).collect()
}

fn one(name: &str, value: &str) -> (String, Option<String>) {
    (name.into(), Some(value.into()))
}

#[test]
fn listings_of_all_kinds() {
    let text = "NCCL_DEBUG=INFO\nexport NCCL_ALGO='Ring'\ndeclare -x NCCL_PROTO=\"LL\"\n# NCCL_X=1\n  \"NCCL_IB_TC=106\",\n- NCCL_IB_SL=3\nsetenv NCCL_NET Socket\n";
    let want = [
        one("NCCL_DEBUG", "INFO"),
        one("NCCL_ALGO", "Ring"),
        one("NCCL_PROTO", "LL"),
        one("NCCL_IB_TC", "106"),
        one("NCCL_IB_SL", "3"),
        one("NCCL_NET", "Socket"),
    ];
    assert_eq!(pairs(text, false), want);
}

#[test]
fn a_script_passes_what_it_exports() {
    let text = "#!/bin/bash\n#SBATCH --export=ALL,NCCL_IB_SL=1\nexport NCCL_DEBUG=INFO # why\nNCCL_ALGO=Ring\nNCCL_PROTO=Simple srun \\\n  --export=ALL,NCCL_IB_TC=106 ./train\nmpirun -np 4 -x NCCL_NET=IB -x PATH ./a\nMASTER_PORT=29500\nexport MASTER_ADDR=$(hostname)\n";
    let (all, remarks) = read("job.sh", text, true);
    let env = &all[0];
    for (name, value) in [
        ("NCCL_IB_SL", Some("1")),
        ("NCCL_DEBUG", Some("INFO")),
        ("NCCL_PROTO", Some("Simple")),
        ("NCCL_IB_TC", Some("106")),
        ("NCCL_NET", Some("IB")),
    ] {
        assert_eq!(env.value(name), value, "{name}");
    }
    assert_eq!(env.get("MASTER_ADDR").map(|a| a.value.clone()), Some(None));
    assert_eq!(env.get("NCCL_IB_TC").map(|a| a.line), Some(5));
    assert!(env.get("NCCL_ALGO").is_none());
    let told: Vec<_> = remarks.iter().map(|r| (r.name.as_str(), r.line)).collect();
    assert_eq!(told, [("NCCL_ALGO", 4)]);
}

#[test]
fn a_list_without_all_drops_the_rest() {
    let text = "#!/bin/sh\nexport NCCL_DEBUG=INFO\nsrun --export=NCCL_ALGO=Ring,PATH ./t\n";
    let (_, remarks) = read("job.sh", text, true);
    assert_eq!(remarks.len(), 1);
    assert!(remarks[0].say.contains("has no ALL") && remarks[0].name == "NCCL_DEBUG");
    let text = "#!/bin/sh\nexport NCCL_DEBUG=INFO\nsrun --export=ALL,NCCL_ALGO=Ring ./t\n";
    assert!(read("job.sh", text, true).1.is_empty());
}

#[test]
fn later_exports_and_set_a_count() {
    let text = "#!/bin/sh\nNCCL_DEBUG=INFO\nexport NCCL_DEBUG\n";
    assert_eq!(pairs(text, true), [one("NCCL_DEBUG", "INFO")]);
    let text = "#!/bin/sh\nset -a\nNCCL_DEBUG=INFO\n";
    assert_eq!(pairs(text, true), [one("NCCL_DEBUG", "INFO")]);
    let text = "#!/bin/sh\nNCCL_DEBUG=INFO\nmpirun -x NCCL_DEBUG ./t\n";
    assert!(read("j", text, true).1.is_empty());
    let text = "#!/bin/sh\nexport NCCL_DEBUG=INFO\nunset NCCL_DEBUG\n";
    assert!(pairs(text, true).is_empty());
}

#[test]
fn steps_inherit_the_list_of_the_batch_script() {
    let told = |text: &str| read("j", text, true).1.iter().map(|r| r.name.clone()).collect::<Vec<_>>();
    let text = "#!/bin/sh\n#SBATCH --export=NONE\nexport NCCL_DEBUG=INFO\nsrun ./t\n";
    assert_eq!(told(text), ["NCCL_DEBUG"]);
    assert!(told(&text.replace("srun", "srun --export=ALL")).is_empty());
    assert!(told(&text.replace("srun", "mpirun")).is_empty());
    assert!(told(&text.replace("NONE", "ALL,A=1")).is_empty());
    assert!(told(&text.replace("srun", "export SLURM_EXPORT_ENV=ALL\nsrun")).is_empty());
    assert!(told(&text.replace("srun", "unset SLURM_EXPORT_ENV\nsrun")).is_empty());
    assert!(told(&text.replace("NONE", "NCCL_DEBUG")).is_empty());
}

#[test]
fn texts_for_others_to_read_are_theirs() {
    let script = |head: &str| {
        format!(
            "#!/bin/sh\n{head} <<EOF\nNCCL_ALGO=Ring\nexport NCCL_PROTO=LL\nEOF\nexport NCCL_DEBUG=INFO\n"
        )
    };
    let debug = one("NCCL_DEBUG", "INFO");
    for (head, want) in [
        ("cat > hosts", vec![debug.clone()]),
        ("python -", vec![debug.clone()]),
        ("cat > ~/.nccl.conf", vec![one("NCCL_ALGO", "Ring"), one("NCCL_PROTO", "LL"), debug.clone()]),
        ("cat >run.sh", vec![one("NCCL_PROTO", "LL"), debug.clone()]),
        ("ssh host bash", vec![one("NCCL_PROTO", "LL"), debug.clone()]),
    ] {
        assert_eq!(pairs(&script(head), true), want, "{head}");
        assert!(read("j", &script(head), true).1.is_empty(), "{head}");
    }
}

#[test]
fn commands_in_words() {
    for (text, want) in [
        ("srun bash -c \"NCCL_ALGO=Ring python t.py\"", vec![one("NCCL_ALGO", "Ring")]),
        ("bash -lc 'export NCCL_ALGO=Ring; ./t'", vec![one("NCCL_ALGO", "Ring")]),
        ("ssh -p 22 host 'NCCL_ALGO=Ring ./t'", vec![one("NCCL_ALGO", "Ring")]),
        ("ssh host NCCL_ALGO=Ring ./t", vec![one("NCCL_ALGO", "Ring")]),
        ("python t.py NCCL_ALGO=Ring", vec![]),
        ("export NCCL_X=1; docker run --env NCCL_X --env NCCL_IB_HCA img", vec![one("NCCL_X", "1")]),
        (
            "mpiexec -genv NCCL_ALGO Ring -env NCCL_PROTO LL ./t",
            vec![one("NCCL_ALGO", "Ring"), one("NCCL_PROTO", "LL")],
        ),
        ("set -a\nNCCL_X=1\nset +a\nNCCL_Y=1", vec![one("NCCL_X", "1")]),
        ("set -o allexport; NCCL_X=1; set +o allexport; NCCL_Y=1", vec![one("NCCL_X", "1")]),
        ("# see \\\nexport NCCL_X=1", vec![one("NCCL_X", "1")]),
    ] {
        assert_eq!(pairs(&format!("#!/bin/sh\n{text}\n"), true), want, "{text}");
    }
}

#[test]
fn hostile_texts_do_no_harm() {
    for text in [
        "",
        "\"",
        "'",
        "$(",
        "${",
        "`",
        "=",
        "==",
        "a=$((",
        "\\",
        "export",
        "export =",
        "-x",
        "srun --export",
        "cat <<",
        "bash -c",
        "ssh",
        "set +",
        "\u{0}=1",
    ] {
        read("t", text, true);
        read("t", text, false);
        command_line(text, 1);
    }
}
