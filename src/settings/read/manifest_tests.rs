//! Manifests, read line by line.

use super::*;

#[test]
fn a_pod_with_two_containers() {
    let text = r#"apiVersion: v1
kind: Pod
spec:
  containers:
  - name: trainer
    image: x
    env:
    - name: NCCL_DEBUG
      value: "INFO"   # more
    - name: NCCL_IB_DISABLE
      value: 1
    - {name: NCCL_PROTO, value: "Simple"}
    - name: MASTER_ADDR
      valueFrom:
        fieldRef:
          fieldPath: status.podIP
    command: ["bash", "-c"]
    args:
    - export NCCL_ALGO=Ring; torchrun train.py
  - name: sidecar
    env:
      - name: NCCL_DEBUG
        value: WARN
"#;
    let (all, remarks) = read("p.yaml", text);
    let first = &all[0];
    assert_eq!(first.value("NCCL_DEBUG"), Some("INFO"));
    assert_eq!(first.get("NCCL_DEBUG").unwrap().line, 8);
    assert_eq!(first.value("NCCL_PROTO"), Some("Simple"));
    assert_eq!(first.get("MASTER_ADDR").map(|a| a.value.clone()), Some(None));
    assert_eq!(all[1].value("NCCL_DEBUG"), Some("WARN"));
    // What its commands set belongs to the container.
    assert_eq!(first.value("NCCL_ALGO"), Some("Ring"));
    assert!(matches!(&first.role, Role::Container { name, alone: false, .. } if name == "trainer"));
    let kinds: Vec<_> = remarks.iter().map(|r| (r.kind.as_str(), r.line)).collect();
    assert_eq!(kinds, [("manifest", 10)]);
}

#[test]
fn compose_files_and_maps() {
    let text = "services:\n  t:\n    environment:\n      - NCCL_DEBUG=INFO\n      - NCCL_X=${Y}\n  u:\n    environment:\n      NCCL_DEBUG: WARN\n      NCCL_IB_DISABLE: 1\n";
    let (all, remarks) = read("c.yaml", text);
    assert_eq!(all[0].value("NCCL_DEBUG"), Some("INFO"));
    assert_eq!(all[0].get("NCCL_X").map(|a| a.value.clone()), Some(None));
    assert_eq!(all[1].value("NCCL_IB_DISABLE"), Some("1"));
    assert!(remarks.is_empty(), "{remarks:?}");
}

#[test]
fn values_before_names_and_brackets() {
    let text = "env:\n- value: \"1\"\n  name: NCCL_A\n- name: NCCL_B\n  valueFrom:\n    configMapKeyRef:\n      name: NCCL_NO\n      key: x\n- {value: \"2\", name: NCCL_C}\n";
    let (all, _) = read("x.yaml", text);
    let got: Vec<_> =
        all[0].variables.iter().map(|a| (a.name.as_str(), a.value.as_deref(), a.line)).collect();
    assert_eq!(got, [("NCCL_A", Some("1"), 3), ("NCCL_B", None, 4), ("NCCL_C", Some("2"), 9)]);
    let text = "runtime_env:\n  env_vars: {\"NCCL_A\": \"1\",\n    \"NCCL_B\": \"x,y\"}\nenv: [{name: NCCL_C, value: \"3\"}, \"NCCL_D=4\"]\n";
    let (all, _) = read("x.yaml", text);
    let got: Vec<_> = all
        .iter()
        .flat_map(|e| &e.variables)
        .map(|a| (a.name.as_str(), a.value.as_deref(), a.line))
        .collect();
    let want = [
        ("NCCL_A", Some("1"), 2),
        ("NCCL_B", Some("x,y"), 3),
        ("NCCL_C", Some("3"), 4),
        ("NCCL_D", Some("4"), 4),
    ];
    assert_eq!(got, want);
}

#[test]
fn what_a_container_is_given_elsewhere_is_its_own() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: net\ndata:\n  NCCL_ALGO: Ring\n---\napiVersion: v1\nkind: Pod\nspec:\n  initContainers:\n  - name: probe\n    env:\n    - {name: NCCL_PROTO, value: \"LL\"}\n  containers:\n  - env:\n    - {name: NCCL_DEBUG, value: \"INFO\"}\n    name: t\n    envFrom:\n    - configMapRef:\n        name: net\n    ports:\n    - name: http\n";
    let (all, _) = read("x.yaml", text);
    let full: Vec<_> = all.iter().filter(|e| !e.variables.is_empty()).collect();
    assert_eq!(full.len(), 2);
    assert_eq!(full[0].role, Role::Other);
    assert!(matches!(&full[1].role, Role::Container { name, alone: true, .. } if name == "t"));
    assert_eq!((full[1].value("NCCL_ALGO"), full[1].open), (Some("Ring"), false));
    let (all, _) = read("x.yaml", &text.replace("        name: net", "        name: other"));
    assert!(all[1].open && all[1].get("NCCL_ALGO").is_none());
}
