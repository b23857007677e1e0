//! What holds for every workspace, every request and every budget.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::collections::BTreeMap;

use common::Made;
use countersign_pack::{ChangeStatus, ContextPack, Include, Request, Tokenizer, build};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

const STATUS: [ChangeStatus; 3] =
    [ChangeStatus::Added, ChangeStatus::Modified, ChangeStatus::Deleted];

fn text() -> impl Strategy<Value = String> {
    let line = "[a-zA-Z0-9 /'<>.=é日🦀\\t-]{0,40}";
    let end = prop_oneof![Just("\n"), Just("\r\n"), Just("\n\n  ")];
    (vec((line, end), 0..40), "[a-z /]{0,9}").prop_map(|(lines, last)| {
        lines.into_iter().map(|(line, end)| line + end).collect::<String>() + &last
    })
}

fn path() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "[a-c](/[a-c]){0,3}\\.(rs|md|png|min\\.js)",
        1 => Just("AGENTS.md".to_owned()),
        1 => Just("a/AGENTS.md".to_owned()),
        1 => Just("README.md".to_owned()),
        1 => Just(".env".to_owned()),
    ]
}

prop_compose! {
    fn made()(
        files in btree_map(path(), text(), 0..12),
        diffs in btree_map(path(), (text(), 0_usize..3), 0..5),
        subjects in vec("\\PC{0,30}", 0..6),
    ) -> Made {
        let mut made = Made::default();
        for (path, text) in files {
            made = made.file(&path, text);
        }
        for (path, (text, status)) in diffs {
            made = made.changed(&path, STATUS[status], text);
        }
        for subject in subjects {
            made = made.commit("0123456789abcdef", "Ada", "2026-02-09", &subject);
        }
        made
    }
}

prop_compose! {
    fn request()(
        task in proptest::option::of("[a-z ]{1,60}"),
        budget in prop_oneof![256_u64..600, 256_u64..6_000],
        paths in vec(prop_oneof![Just("a"), Just("**"), Just("b/*.rs"), Just("AGENTS.md")], 0..3),
        exclude in vec(prop_oneof![Just("c"), Just("*.md")], 0..2),
        most in proptest::option::of(128_u64..2_000),
        other in any::<bool>(),
    ) -> Request {
        Request {
            task,
            token_budget: budget,
            include: Include::ALL.into(),
            paths: paths.into_iter().map(str::to_owned).collect(),
            exclude: exclude.into_iter().map(str::to_owned).collect(),
            max_file_tokens: most,
            tokenizer: if other { Tokenizer::Cl100kBase } else { Tokenizer::O200kBase },
        }
    }
}

fn try_build(request: &Request, made: &Made) -> Option<ContextPack> {
    match build(request, Some("base"), &mut made.clone()) {
        Ok(pack) => Some(pack),
        Err(failure) => {
            assert!(["PACK_BUDGET_TOO_SMALL", "PACK_EMPTY"].contains(&failure.code.as_ref()));
            None
        }
    }
}

/// How much of each thing went in, in the order in which things are offered.
fn taken(pack: Option<&ContextPack>, order: &[(u8, String)]) -> Vec<u64> {
    let lengths: BTreeMap<(u8, String), u64> = pack
        .map(|pack| pack.items.iter())
        .into_iter()
        .flatten()
        .map(|item| ((item.priority, item.source.clone()), item.content.len() as u64 + 1))
        .collect();
    order.iter().map(|key| lengths.get(key).copied().unwrap_or(0)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn the_text_has_the_tokens_it_claims_and_never_more_than_the_budget(
        made in made(),
        request in request(),
    ) {
        if let Some(pack) = try_build(&request, &made) {
            let counted = request.tokenizer.counter().unwrap().count(&pack.render());
            prop_assert_eq!(counted, pack.total_tokens);
            prop_assert!(counted <= request.token_budget);
            prop_assert!(pack.items.is_sorted_by_key(|item| item.priority));
            prop_assert_eq!(pack.expected_digest().unwrap(), pack.context_digest);
        }
    }

    #[test]
    fn the_order_of_lists_does_not_matter(made in made(), request in request(), turned in 1_usize..40) {
        let other = Made { turned, ..made.clone() };
        prop_assert_eq!(try_build(&request, &made), try_build(&request, &other));
    }

    #[test]
    fn more_budget_changes_nothing_before_it_lets_more_in(
        made in made(),
        request in request(),
        more in 1_u64..3_000,
    ) {
        let larger = Request { token_budget: request.token_budget + more, ..request.clone() };
        let all = Request { token_budget: 2_000_000, max_file_tokens: None, ..request.clone() };
        let everything = try_build(&all, &made);
        let order: Vec<_> = everything
            .iter()
            .flat_map(|pack| pack.items.iter().map(|item| (item.priority, item.source.clone())))
            .collect();
        let (small, large) = (try_build(&request, &made), try_build(&larger, &made));
        // New files whose diff went in are not told twice, so the order is that of the rest.
        prop_assert!(taken(small.as_ref(), &order) <= taken(large.as_ref(), &order));
    }

    #[test]
    fn what_goes_in_is_what_was_there(made in made(), request in request()) {
        for item in try_build(&request, &made).into_iter().flat_map(|pack| pack.items) {
            let Some(bytes) = made.files.get(&item.source).filter(|_| item.kind.name() != "diff") else {
                continue;
            };
            let text = String::from_utf8(bytes.clone()).unwrap();
            prop_assert!(text.starts_with(&item.content), "{:?}", item.source);
            prop_assert_eq!(item.cut.is_none(), text == item.content);
        }
    }
}
