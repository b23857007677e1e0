//! The rules of `countersign-tidy`, run over this repository.
#![allow(clippy::unwrap_used, reason = "a test that cannot read the repository has failed")]

use std::process::Command;
use std::sync::LazyLock;

use countersign_tidy::layers::Member;
use countersign_tidy::{Tree, documents, hygiene, layers};

static TREE: LazyLock<Tree> = LazyLock::new(|| Tree::read().unwrap());

#[track_caller]
fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "{} problems\n  {}\n", problems.len(), problems.join("\n  "));
}

fn members() -> Vec<Member> {
    let answer = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(&TREE.root)
        .output()
        .unwrap();
    let members = layers::members(&serde_json::from_slice(&answer.stdout).unwrap());
    assert!(!members.is_empty(), "cargo metadata lists no crate");
    members
}

#[test]
fn crates_depend_only_on_the_layers_below() {
    assert_none(&layers::forbidden_edges(&members()));
}

#[test]
fn every_crate_has_our_licence_and_stays_unpublished() {
    for member in members() {
        assert_eq!(member.licence.as_deref(), Some("Apache-2.0"), "crate `{}`", member.name);
        assert!(!member.published, "crate `{}` could be published by accident", member.name);
    }
    assert!(TREE.file("LICENSE").unwrap().text.contains("Apache License"));
    let fuzz = &TREE.file("fuzz/Cargo.toml").unwrap().text;
    assert!(fuzz.contains("license = \"Apache-2.0\"\n"));
}

#[test]
fn the_model_is_pure() {
    assert_none(&layers::impure_rules(&TREE));
}

#[test]
fn sqlite_stays_in_the_journal_and_the_benchmark() {
    assert_none(&layers::sqlite_outside_the_benchmark(&TREE));
}

#[test]
fn files_are_clean() {
    assert_none(&hygiene::problems(&TREE));
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    assert_none(&hygiene::crates_without_lints(&TREE));
}

#[test]
fn the_lock_file_does_not_grow_unnoticed() {
    let count = hygiene::package_count(&TREE.file("Cargo.lock").unwrap().text);
    let limit = hygiene::MAX_PACKAGES;
    assert!(
        count <= limit,
        "Cargo.lock has {count} packages, more than {limit}: do without, or raise MAX_PACKAGES in crates/tidy"
    );
}

#[test]
fn links_in_documents_lead_somewhere() {
    assert_none(&documents::broken_links(&TREE));
}

#[test]
fn documents_name_only_commands_that_exist() {
    let commands = documents::commands(&TREE);
    assert!(commands.contains_key("call"), "the commands were not found in the sources");
    assert!(commands.get("audit").is_some_and(|below| !below.is_empty()));
    assert_none(&documents::unknown_commands(&TREE, &commands));
}
