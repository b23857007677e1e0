//! What programs do to their workspace: published whole or not at all, and only what may be.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use common::boxes::{Box_, Boxes, DONE};
use common::store::{At, Mishap};
use common::{Bench, ending, facts};
use countersign_host::{Host, Outcome};
use countersign_model::ErrorClass::{ExecutionError, ResourceError, StateError};
use countersign_model::Lifecycle::{Completed, RolledBack};
use countersign_model::effect::Effect;
use countersign_model::event::CallEvent;
use countersign_sandbox::Ending;
use countersign_sandbox::backend::StagedForm::{self, Upper, Whole};
use rustix::fs::{CWD, FileType, Mode};
use serde_json::json;

fn content(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|_| b"unreadable".to_vec())
}

/// A tree as text: kind, permissions and content of everything in it.
fn tree(root: &Path) -> BTreeMap<String, String> {
    fn add(found: &mut BTreeMap<String, String>, root: &Path, at: &Path) {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let mode = metadata.mode() & 0o7777;
            let text = if metadata.is_dir() {
                add(found, root, &path);
                format!("directory {mode:o}")
            } else if metadata.is_symlink() {
                format!("link {}", fs::read_link(&path).unwrap().display())
            } else if metadata.is_file() {
                format!("file {mode:o} {}", String::from_utf8_lossy(&content(&path)))
            } else {
                "other".to_owned()
            };
            found.insert(path.strip_prefix(root).unwrap().display().to_string(), text);
        }
    }
    let mut found = BTreeMap::new();
    add(&mut found, root, root);
    found
}

/// A workspace with something of every kind.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.declare_program("test.program", |_| {});
    let root = bench.root();
    for (name, text) in [("keep", "kept"), ("change", "old"), ("gone", "x"), ("mode", "m")] {
        bench.write(name, text);
    }
    fs::create_dir_all(root.join("d/deep")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    bench.write("d/a", "a");
    bench.write("d/deep/b", "b");
    bench.write("turns", "a file");
    fs::create_dir(root.join("turned")).unwrap();
    bench.write("turned/inner", "i");
    symlink("keep", root.join("link")).unwrap();
    symlink("/absolute/of/old", root.join("outward")).unwrap();
    bench
}

fn run(
    bench: &Bench,
    form: StagedForm,
    script: impl Fn(&mut Box_<'_>) + Send + Sync + 'static,
) -> (Host, Outcome) {
    let boxes = Boxes::new(form, move |inside| {
        script(inside);
        DONE
    });
    let host = bench.host_with(&boxes);
    let outcome = bench.call(&host, "test.program", &json!({}));
    (host, outcome)
}

fn effects(host: &Host, outcome: &Outcome) -> Vec<Effect> {
    let found = facts(host, outcome.execution).into_iter().find_map(|event| match event {
        CallEvent::Committed(committed) => Some(committed.effects),
        _ => None,
    });
    found.expect("it was committed")
}

#[test]
fn every_kind_of_change_is_published() {
    for form in [Whole, Upper] {
        let bench = bench();
        let mut expected = tree(&bench.root());
        let (host, outcome) = run(&bench, form, |inside| {
            inside.write("change", "new content");
            inside.write("keep", "kept");
            inside.write("new", "n");
            inside.write("made/deep/er", "e");
            inside.delete("gone");
            inside.delete("d");
            inside.chmod("mode", 0o755);
            inside.chmod("empty", 0o710);
            inside.delete("turns");
            inside.write("turns/into/directory", "t");
            inside.delete("turned");
            inside.write("turned", "now a file");
            inside.link("link", "change");
            inside.link("made/up", "../keep");
        });
        assert_eq!(outcome.state, Completed, "{form:?}: {:?}", outcome.result);
        assert!(outcome.unsettled.is_empty(), "{form:?}: {:?}", outcome.unsettled);
        for name in ["gone", "d", "d/a", "d/deep", "d/deep/b", "turned/inner"] {
            expected.remove(name).unwrap();
        }
        let umask = expected["keep"].clone();
        let file = |text: &str| umask.replace("kept", text);
        for (name, text) in [
            ("change", file("new content")),
            ("new", file("n")),
            ("made/deep/er", file("e")),
            ("mode", "file 755 m".to_owned()),
            ("empty", "directory 710".to_owned()),
            ("turns", "directory 755".to_owned()),
            ("turns/into", "directory 755".to_owned()),
            ("turns/into/directory", file("t")),
            ("turned", file("now a file")),
            ("link", "link change".to_owned()),
            ("made", "directory 755".to_owned()),
            ("made/deep", "directory 755".to_owned()),
            ("made/up", "link ../keep".to_owned()),
        ] {
            expected.insert(name.to_owned(), text);
        }
        assert_eq!(tree(&bench.root()), expected, "{form:?}");
        let effects = effects(&host, &outcome);
        assert!(!effects.iter().any(|effect| effect.target() == "keep"), "{form:?}: unchanged");
        // The old contents can be had again.
        let old = effects.iter().find_map(|effect| match effect {
            Effect::FileDeleted { before, path } if path == "d/deep/b" => Some(*before),
            _ => None,
        });
        assert_eq!(host.home().blobs.get(&old.unwrap().digest).unwrap(), b"b");
        common::verify_chain(&host);
    }
}

#[test]
fn a_directory_made_anew_holds_nothing_of_the_old_one() {
    for form in [Whole, Upper] {
        let bench = bench();
        let (_, outcome) = run(&bench, form, |inside| {
            inside.delete("d");
            inside.make_directory("d");
            inside.write("d/new", "n");
            fs::create_dir(inside.staged.join("d/deep")).unwrap();
        });
        assert_eq!(outcome.state, Completed, "{form:?}: {:?}", outcome.result);
        let names: Vec<_> =
            tree(&bench.root()).into_keys().filter(|name| name.starts_with("d/")).collect();
        assert_eq!(names, ["d/deep", "d/new"], "{form:?}");
    }
}

#[test]
fn a_call_that_changes_nothing_changes_nothing() {
    for form in [Whole, Upper] {
        let bench = bench();
        let before = tree(&bench.root());
        let (host, outcome) = run(&bench, form, |_| {});
        assert_eq!((outcome.state, effects(&host, &outcome)), (Completed, vec![]), "{form:?}");
        assert_eq!(tree(&bench.root()), before);
    }
}

#[test]
fn a_failure_leaves_every_byte_as_it_was() {
    let bench = bench();
    let stamps = |path: &Path| {
        let metadata = fs::metadata(path).unwrap();
        (metadata.ino(), metadata.ctime_nsec(), metadata.mtime_nsec())
    };
    let before = (tree(&bench.root()), stamps(&bench.root().join("change")));
    let boxes = Boxes::new(Whole, |inside| {
        inside.write("change", "never seen");
        inside.delete("d");
        Ending::Exited { code: 1 }
    });
    let host = bench.host_with(&boxes);
    let outcome = bench.call(&host, "test.program", &json!({}));
    assert_eq!(ending(&outcome), (RolledBack, ExecutionError, "TOOL_FAILED"));
    assert_eq!((tree(&bench.root()), stamps(&bench.root().join("change"))), before);
    let Some(CallEvent::RolledBack(back)) = facts(&host, outcome.execution).pop() else { panic!() };
    assert!(back.restored());
}

/// Each of these happens while the program runs, to something that the program changes.
#[test]
fn what_others_changed_meanwhile_is_a_conflict() {
    type Act = fn(&Path);
    let acts: [(&str, Act); 9] = [
        ("the same file", |root| fs::write(root.join("change"), "mine").unwrap()),
        ("the same size", |root| fs::write(root.join("change"), "odl").unwrap()),
        ("removed it", |root| fs::remove_file(root.join("change")).unwrap()),
        ("its permissions", |root| {
            fs::set_permissions(root.join("change"), Permissions::from_mode(0o600)).unwrap();
        }),
        ("the same new file", |root| fs::write(root.join("new"), "mine").unwrap()),
        ("a link in its place", |root| {
            fs::remove_file(root.join("change")).unwrap();
            symlink("/etc/passwd", root.join("change")).unwrap();
        }),
        ("into what is removed", |root| fs::write(root.join("d/mine"), "m").unwrap()),
        ("changed what is removed", |root| fs::write(root.join("d/deep/b"), "mine").unwrap()),
        ("another directory", |root| {
            fs::rename(root.join("empty"), root.join("elsewhere")).unwrap();
            fs::create_dir(root.join("empty")).unwrap();
        }),
    ];
    for form in [Whole, Upper] {
        for (what, act) in acts {
            let bench = bench();
            let root = bench.root();
            let (_, outcome) = run(&bench, form, move |inside| {
                inside.write("change", "theirs");
                inside.write("new", "theirs");
                inside.write("empty/x", "theirs");
                inside.delete("d");
                act(&root);
            });
            assert_eq!(ending(&outcome), (RolledBack, StateError, "CONFLICT"), "{form:?}: {what}");
            assert!(!tree(&bench.root()).values().any(|text| text.contains("theirs")), "{what}");
            assert_eq!(bench.text("d/a").unwrap(), "a");
        }
    }
}

#[test]
fn what_others_do_elsewhere_is_no_conflict() {
    for form in [Whole, Upper] {
        let bench = bench();
        let root = bench.root();
        let (_, outcome) = run(&bench, form, move |inside| {
            inside.write("change", "theirs");
            fs::write(root.join("beside"), "mine").unwrap();
        });
        // A copy was taken before; what is not in it was not there when the call began.
        match form {
            Upper => assert_eq!(outcome.state, Completed),
            Whole => assert_eq!(ending(&outcome), (RolledBack, StateError, "CONFLICT")),
        }
        assert_eq!(bench.text("beside").unwrap(), "mine");
    }
}

#[test]
fn hostile_contents_are_refused_one_by_one() {
    type Act = fn(&Box_<'_>, &Path);
    let acts: [(&str, Act); 9] = [
        ("socket", |_, at| drop(UnixListener::bind(at.join("bad")).unwrap())),
        ("FIFO", |_, at| {
            let kind = FileType::Fifo;
            rustix::fs::mknodat(CWD, at.join("bad"), kind, Mode::from_raw_mode(0o644), 0).unwrap();
        }),
        ("absolute", |_, at| symlink("/etc/passwd", at.join("bad")).unwrap()),
        ("lead outside", |_, at| symlink("../../etc/passwd", at.join("bad")).unwrap()),
        ("lead outside", |_, at| symlink("keep/../..", at.join("bad")).unwrap()),
        ("control character", |_, at| fs::write(at.join("bad\nname"), "").unwrap()),
        ("not UTF-8", |_, at| {
            use std::os::unix::ffi::OsStrExt;
            fs::write(at.join(std::ffi::OsStr::from_bytes(b"bad\xff")), "").unwrap();
        }),
        ("control character", |_, at| {
            fs::create_dir(at.join("bad\x1b[2J")).unwrap();
        }),
        ("too deep", |_, at| fs::create_dir_all(at.join(["x"; 70].join("/"))).unwrap()),
    ];
    for form in [Whole, Upper] {
        for (why, act) in acts {
            for out in [false, true] {
                let bench = bench();
                let before = tree(&bench.root());
                let (_, outcome) = run(&bench, form, move |inside| {
                    inside.write("new", "never seen");
                    let at = if out { &inside.out } else { &inside.staged };
                    act(inside, at);
                });
                let what = format!("{form:?}, {why}, out {out}");
                assert_eq!(
                    ending(&outcome),
                    (RolledBack, ExecutionError, "STAGING_REFUSED"),
                    "{what}"
                );
                let failure = outcome.result.unwrap_err();
                let is_link = why == "absolute" || why == "lead outside";
                let why = if out && is_link { "is a link" } else { why };
                assert!(failure.message.contains(why), "{what}: {}", failure.message);
                assert!(!failure.message.contains(char::is_control), "{:?}", failure.message);
                assert_eq!(tree(&bench.root()), before, "{what}");
            }
        }
    }
}

#[test]
fn a_link_in_out_is_refused_wherever_it_leads() {
    let bench = bench();
    let (_, outcome) = run(&bench, Upper, |inside| symlink("x", inside.out.join("l")).unwrap());
    assert_eq!(ending(&outcome), (RolledBack, ExecutionError, "STAGING_REFUSED"));
}

#[test]
fn dangerous_bits_are_dropped_and_hard_links_become_files() {
    for form in [Whole, Upper] {
        let bench = bench();
        let (_, outcome) = run(&bench, form, |inside| {
            inside.write("setuid", "s");
            inside.chmod("setuid", 0o6755);
            inside.write("one", "same");
            fs::hard_link(inside.staged.join("one"), inside.staged.join("two")).unwrap();
            inside.write("sealed", "secret");
            inside.chmod("sealed", 0);
            inside.write("closed/x", "x");
            inside.chmod("closed", 0o1000);
        });
        assert_eq!(outcome.state, Completed, "{form:?}: {:?}", outcome.result);
        let found = tree(&bench.root());
        assert_eq!(found["setuid"], "file 755 s");
        assert!(["file 0 secret", "file 0 unreadable"].contains(&found["sealed"].as_str()));
        assert_eq!(found["closed"], "directory 700");
        assert_eq!(found["one"], found["two"]);
        let inode = |name: &str| fs::metadata(bench.root().join(name)).unwrap().ino();
        assert_ne!(inode("one"), inode("two"));
    }
}

#[test]
fn a_file_with_another_name_outside_is_replaced_and_the_other_name_kept() {
    let bench = bench();
    let outside = bench.path().join("outside");
    fs::hard_link(bench.root().join("change"), &outside).unwrap();
    let (_, outcome) = run(&bench, Upper, |inside| inside.write("change", "new"));
    assert_eq!((outcome.state, outcome.unsettled.len()), (Completed, 0));
    assert_eq!(bench.text("change").unwrap(), "new");
    assert_eq!(fs::read_to_string(outside).unwrap(), "old");
}

#[test]
fn amounts_beyond_the_limits_are_refused() {
    let bench = bench();
    bench.declare_program("test.program", |declaration| {
        declaration["resourceLimits"]["maxInodes"] = json!(10);
        declaration["resourceLimits"]["maxTotalSize"] = json!(100);
    });
    let (_, outcome) = run(&bench, Upper, |inside| {
        inside.write("big", &"x".repeat(101));
    });
    assert_eq!(ending(&outcome), (RolledBack, ResourceError, "TOTAL_SIZE_LIMIT"));
    let (_, outcome) = run(&bench, Upper, |inside| {
        inside.write("one", &"x".repeat(60));
        fs::hard_link(inside.staged.join("one"), inside.staged.join("two")).unwrap();
    });
    assert_eq!(ending(&outcome), (RolledBack, ResourceError, "TOTAL_SIZE_LIMIT"));
}

/// Somebody swaps a directory for a link while the call is committed: nothing goes through it.
#[test]
fn nothing_is_published_through_a_link() {
    let bench = bench();
    let outside = bench.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let boxes = Boxes::new(Upper, |inside| {
        inside.write("d/a", "theirs");
        inside.write("d/new", "theirs");
        DONE
    });
    let store = bench.store();
    let home = countersign_host::Home::with_store(&bench.home(), store.clone()).unwrap();
    let host = bench.host_with_on(home, &boxes);
    let (root, target) = (bench.root(), outside.clone());
    store.after_commit(move || {
        fs::rename(root.join("d"), root.join("was")).unwrap();
        symlink(target, root.join("d")).unwrap();
    });
    let outcome = bench.call(&host, "test.program", &json!({}));
    assert_eq!(outcome.state, Completed);
    assert_eq!(outcome.unsettled, ["d/a", "d/new"]);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn two_programs_on_one_workspace_never_lose_a_change() {
    let bench = bench();
    bench.write("count", "0");
    let boxes = Boxes::new(Upper, |inside| {
        let original = inside.original.clone().unwrap();
        let count: u32 = fs::read_to_string(original.join("count")).unwrap().parse().unwrap();
        inside.write("count", &(count + 1).to_string());
        DONE
    });
    let host = Arc::new(bench.host_with(&boxes));
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let (host, command) = (host.clone(), bench.command("test.program", &json!({})));
            std::thread::spawn(move || {
                let mut done = 0;
                while done < 5 {
                    let outcome = host.call(command.clone()).unwrap();
                    match outcome.state {
                        Completed => {
                            assert!(outcome.unsettled.is_empty());
                            done += 1;
                        }
                        _ => assert_eq!(ending(&outcome).2, "CONFLICT"),
                    }
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    assert_eq!(bench.text("count").unwrap(), "15");
}

/// The commit is durable and the process dies; before that it came to publish a part. Whatever the
/// part, recovery brings about the whole.
#[test]
fn recovery_finishes_a_publication_from_every_point() {
    type Step = fn(&Path);
    // What publishing does, in its order.
    let steps: [Step; 9] = [
        |root| fs::set_permissions(root.join("empty"), Permissions::from_mode(0o710)).unwrap(),
        |root| fs::remove_file(root.join("turned/inner")).unwrap(),
        |root| fs::remove_dir(root.join("turned")).unwrap(),
        |root| fs::remove_file(root.join("turns")).unwrap(),
        |root| fs::create_dir(root.join("turns")).unwrap(),
        |root| fs::write(root.join("change"), "new").unwrap(),
        |root| {
            fs::remove_file(root.join("link")).unwrap();
            symlink("change", root.join("link")).unwrap();
        },
        |root| fs::write(root.join("turned"), "now a file").unwrap(),
        |root| fs::write(root.join("turns/x"), "t").unwrap(),
    ];
    let mut whole = None;
    for done in 0..=steps.len() {
        let bench = bench();
        let boxes = Boxes::new(Upper, |inside| {
            inside.chmod("empty", 0o710);
            inside.delete("turned");
            inside.write("turned", "now a file");
            inside.delete("turns");
            inside.write("turns/x", "t");
            inside.write("change", "new");
            inside.link("link", "change");
            DONE
        });
        let store = bench.store();
        let home = countersign_host::Home::with_store(&bench.home(), store.clone()).unwrap();
        let host = bench.host_with_on(home, &boxes);
        store.plan(At::Fact("committed"), Mishap::AnswerLost);
        common::failure_of(host.call(bench.command("test.program", &json!({}))));
        steps[..done].iter().for_each(|step| step(&bench.root()));
        let recovered = host.recover().unwrap();
        assert_eq!((recovered.completed.len(), recovered.unsettled.len()), (1, 0), "{done}");
        let found = tree(&bench.root());
        assert_eq!(found["turned"], "file 644 now a file");
        assert_eq!(whole.get_or_insert_with(|| found.clone()), &found, "after {done} steps");
        assert!(!found.keys().any(|name| name.contains(".countersign-")), "{found:?}");
    }
}

/// Whoever puts something else into a place after the commit keeps it.
#[test]
fn what_was_put_in_the_way_of_a_publication_is_left_alone() {
    let bench = bench();
    let boxes = Boxes::new(Upper, |inside| {
        inside.write("change", "new");
        inside.link("made", "keep");
        inside.delete("d");
        inside.chmod("empty", 0o710);
        DONE
    });
    let store = bench.store();
    let home = countersign_host::Home::with_store(&bench.home(), store.clone()).unwrap();
    let host = bench.host_with_on(home, &boxes);
    let root = bench.root();
    store.after_commit(move || {
        fs::write(root.join("change"), "mine").unwrap();
        fs::write(root.join("made"), "mine").unwrap();
        fs::write(root.join("d/mine"), "mine").unwrap();
        fs::set_permissions(root.join("empty"), Permissions::from_mode(0o777)).unwrap();
    });
    let outcome = bench.call(&host, "test.program", &json!({}));
    assert_eq!(outcome.unsettled, ["empty", "d", "change", "made"]);
    for name in ["change", "made", "d/mine"] {
        assert_eq!(bench.text(name).unwrap(), "mine");
    }
    assert_eq!(bench.text("d/a"), None, "what was not in the way is gone");
}

/// Nobody knows what a program sent whose host died.
#[test]
fn a_connected_program_whose_host_died_has_an_unknown_outcome() {
    for hosts in [json!([]), json!(["api.example.org"])] {
        let bench = bench();
        let connected = hosts != json!([]);
        bench.declare_program("test.connected", |declaration| {
            declaration["requiredCapabilities"] = json!(["network.https"]);
            declaration["runtime"] = json!({
                "kind": "process", "command": ["x"], "hosts": hosts,
            });
        });
        let store = bench.store();
        let home = countersign_host::Home::with_store(&bench.home(), store.clone()).unwrap();
        let host = bench.host_with_on(home, &Boxes::new(Upper, |_| DONE));
        store.plan(At::Fact("committed"), Mishap::Fails);
        common::failure_of(host.call(bench.command("test.connected", &json!({}))));
        let recovered = host.recover().unwrap();
        assert_eq!(recovered.unsettled.len(), usize::from(connected));
        assert_eq!(recovered.rolled_back.len(), usize::from(!connected));
        let id = recovered.unsettled.first().or(recovered.rolled_back.first()).unwrap();
        let summary = host.home().store.call(*id).unwrap().unwrap();
        assert_eq!((summary.state, summary.is_unknown()), (RolledBack, connected));
        let failure = summary.error.unwrap();
        assert_eq!(failure.code, "HOST_DIED");
        assert_eq!(failure.hint.unwrap().contains("other hosts"), connected);
    }
}

/// Many changes share their syncs; what holds for a few holds for them.
#[test]
fn many_changes_are_published_together_from_every_point() {
    for placed in [0, 1, 25, 50] {
        let bench = bench();
        for n in 0..50 {
            bench.write(&format!("old{n}"), "old");
        }
        let boxes = Boxes::new(Upper, |inside| {
            for n in 0..50 {
                inside.delete(&format!("old{n}"));
                inside.write(&format!("many/{n}"), &format!("new {n}"));
            }
            inside.delete("turned");
            inside.write("turned", "now a file");
            inside.write("change", "new");
            DONE
        });
        let store = bench.store();
        let home = countersign_host::Home::with_store(&bench.home(), store.clone()).unwrap();
        let host = bench.host_with_on(home, &boxes);
        store.plan(At::Fact("committed"), Mishap::AnswerLost);
        common::failure_of(host.call(bench.command("test.program", &json!({}))));
        let root = bench.root();
        for n in 0..placed {
            let _ = fs::create_dir(root.join("many"));
            let _ = fs::remove_file(root.join(format!("old{n}")));
            fs::write(root.join(format!("many/{n}")), format!("new {n}")).unwrap();
        }
        fs::write(root.join("change"), "mine").unwrap();
        let recovered = host.recover().unwrap();
        assert_eq!(recovered.unsettled.len(), 1, "{placed}");
        let call = host.home().store.call(recovered.unsettled[0]).unwrap().unwrap();
        assert_eq!(call.unsettled, ["change"], "{placed}");
        let found = tree(&root);
        assert_eq!(found["change"], "file 644 mine");
        assert_eq!(found["turned"], "file 644 now a file");
        assert_eq!(found["many/49"], "file 644 new 49");
        assert_eq!(found.keys().filter(|name| name.starts_with("many/")).count(), 50);
        assert!(!found.keys().any(|name| name.contains("old") || name.contains(".countersign")));
    }
}
