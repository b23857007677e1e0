//! Reports in the dialects of tools that may not be installed: JUnit XML, SARIF, jest, ESLint,
//! ruff, and text that a script prints.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use countersign_reports::{
    LintFormat, LintReport, Places, ProblemKind, Severity, Status, TestFormat, TestReport, Why,
    lints, tests,
};

fn test_report(format: TestFormat, text: &str) -> TestReport {
    tests(format, &mut text.as_bytes(), &Places::default()).unwrap()
}

fn junit(text: &str) -> TestReport {
    test_report(TestFormat::Junit, text)
}

fn lint_report(format: LintFormat, text: &str) -> LintReport {
    lints(format, "tool", &mut text.as_bytes(), &Places::default()).unwrap()
}

/// File and line of the first failing case.
fn place(report: &TestReport) -> (Option<&str>, Option<u32>) {
    let case = report.failing().next().unwrap();
    (case.file.as_deref(), case.line)
}

#[test]
fn junit_of_pytest() {
    let report = junit(
        r#"<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest"
        errors="1" failures="1" skipped="1" tests="4" time="0.037"><testcase classname="test_a" name="ok"
        time="0.010" /><testcase classname="test_a" name="bad" time="0.001"><failure message="assert 1 == 2">def
&gt;       assert x == 2
helper.py:3: in check

test_a.py:5: AssertionError</failure></testcase><testcase classname="test_a" name="skip"><skipped
        type="pytest.skip" message="later">/workspace/test_a.py:6: later</skipped></testcase><testcase
        classname="test_a" name="fixture"><error message="failed on setup">test_a.py:16: E</error></testcase>
        </testsuite></testsuites>"#,
    );
    assert_eq!(report.problems, []);
    let counts = report.counts;
    assert_eq!((counts.total, counts.passed, counts.failed), (4, 1, 1));
    assert_eq!((counts.errored, counts.skipped), (1, 1));
    assert_eq!(place(&report), (Some("test_a.py"), Some(5)));
    let bad = &report.cases[1];
    assert_eq!(bad.message.as_deref(), Some("assert 1 == 2"));
    assert!(bad.details.as_deref().unwrap().contains(">       assert x == 2"));
    assert_eq!(report.cases[0].duration_ms, Some(10));
    assert_eq!((&report.cases[0].details, report.cases[2].line), (&None, None));
    assert_eq!(report.suites.len(), 1);
}

#[test]
fn junit_of_jest_gradle_go_and_mocha() {
    let jest = junit(
        r#"<testsuites name="jest tests" tests="2" failures="1" errors="0" time="1,234.5"><testsuite
        name="sum" errors="0" failures="1" skipped="0" tests="2"><testcase classname="sum adds" name="sum adds"
        time="0.002"></testcase><testcase classname="sum" name="breaks"><failure>Error: no
    at Object.&lt;anonymous&gt; (/workspace/node_modules/expect/x.js:1:1)
    at Object.&lt;anonymous&gt; (/workspace/sum.test.js:7:15)</failure></testcase></testsuite></testsuites>"#,
    );
    assert_eq!((jest.problems.len(), place(&jest)), (0, (Some("sum.test.js"), Some(7))));
    assert_eq!(jest.cases[1].message.as_deref(), Some("Error: no"));

    let gradle = junit(
        r#"<testsuite name="x.FooTest" tests="1" skipped="0" failures="1" errors="0"><properties/>
        <testcase name="works()" classname="x.FooTest" time="0.1"><failure message="nope" type="E">E: nope
    at org.junit.Assert.fail(Assert.java:88)
    at x.FooTest.works(FooTest.java:12)
</failure></testcase><system-out><![CDATA[<failure/>]]></system-out></testsuite>"#,
    );
    assert_eq!((gradle.problems.len(), place(&gradle)), (0, (Some("FooTest.java"), Some(12))));

    let go = junit(
        r#"<testsuites><testsuite tests="1" failures="1" time="0.1" name="x.org/m"><testcase classname="m"
        name="TestBad"><failure message="Failed" type=""><![CDATA[    a_test.go:6: want]]> 1</failure></testcase>
        </testsuite></testsuites>"#,
    );
    assert_eq!(place(&go), (Some("a_test.go"), Some(6)));
    assert!(go.cases[0].details.as_deref().unwrap().ends_with("want 1"));

    let mocha = junit(
        r#"<testsuite name="Mocha" tests="1" failures="0" errors="1" skipped="0"><testcase classname="g"
        name="bad" file="/workspace/t/a.js" time="0"><failure>deep
    at Context (t/a.js:3:27)</failure></testcase></testsuite>"#,
    );
    assert_eq!((mocha.problems.len(), place(&mocha)), (0, (Some("t/a.js"), Some(3))));
}

#[test]
fn junit_with_nested_suites_and_missing_attributes() {
    let report = junit(
        r#"<testsuites tests="3"><testsuite name="outer" tests="3" file="t/o.js"><testsuite name="in" tests="2"
        failures="1"><testcase name="a"/><testcase line="9"><failure/></testcase></testsuite><testcase
        name="todo"><skipped type="todo"/><failure message="x"/></testcase></testsuite></testsuites>"#,
    );
    assert_eq!(report.problems, []);
    let counts = report.counts;
    assert_eq!((counts.passed, counts.failed, counts.skipped), (1, 1, 1));
    assert_eq!(place(&report), (Some("t/o.js"), Some(9)));
    assert_eq!(report.cases[0].suite.as_deref(), Some("in"));
    // Node counts an inner suite as one, and writes cases without any suite around them.
    let node = junit(
        r#"<testsuites><testcase name="x" classname="test"/><testsuite name="g" tests="2" failures="0">
        <testcase name="y"/><testsuite name="h" tests="1"><testcase name="z"/></testsuite></testsuite>
        </testsuites>"#,
    );
    assert_eq!((node.problems.len(), node.counts.passed), (0, 3));
}

#[test]
fn junit_that_contradicts_itself() {
    let suite =
        |attributes: &str, cases: &str| format!("<testsuite {attributes}>{cases}</testsuite>");
    let ok = r#"<testcase name="a"/>"#;
    let bad = r#"<testcase name="b"><failure/></testcase>"#;
    for text in [
        suite(r#"tests="2""#, ok),
        suite(r#"tests="1" failures="1""#, ok),
        suite(r#"tests="1" failures="0" errors="0""#, bad),
        suite(r#"tests="0""#, bad),
    ] {
        assert_eq!(junit(&text).problems[0].kind, ProblemKind::CountsDisagree, "{text}");
    }
    assert!(junit(&suite(r#"tests="0""#, "")).ran_nothing());
    let broken = junit(r#"<testsuite name="s" errors="1"><error message="no file"/></testsuite>"#);
    assert_eq!((broken.counts.errored, broken.problems.len()), (1, 0));
}

#[test]
fn what_is_not_junit_is_unreadable() {
    let check = |text: &str, why: Why| {
        let error = tests(TestFormat::Junit, &mut text.as_bytes(), &Places::default()).unwrap_err();
        assert_eq!(error.why, why, "{text}");
    };
    check("", Why::Empty);
    check("  \n", Why::Empty);
    check("no tests here", Why::Malformed);
    check("<html></html>", Why::Malformed);
    check("<testsuite><testcase name='a'/>", Why::Malformed);
    check("<testsuite></testcase>", Why::Malformed);
    check("<testsuite/><testsuite/>", Why::Malformed);
    check("<testsuite a=>", Why::Malformed);
    let external = "<!DOCTYPE x SYSTEM \"file:///etc/passwd\"><testsuite/>";
    check(external, Why::DocumentType);
    check(&format!("{}{}", "<a>".repeat(1000), "</a>".repeat(1000)), Why::TooLarge);
}

#[test]
fn jest_json() {
    let file = |status: &str, message: &str, tests: &str| {
        format!(
            r#"{{"name":"/workspace/t/a.test.js","status":"{status}","message":"{message}",
            "assertionResults":[{tests}]}}"#
        )
    };
    let bad = r#"{"ancestorTitles":["g","h"],"title":"bad","status":"failed","duration":3,"failureMessages":
        ["Error: deep\n  at x (/workspace/node_modules/j.js:1:1)\n  at y (/workspace/t/a.test.js:3:27)"],
        "location":{"line":2,"column":1}}"#;
    let good = r#"{"ancestorTitles":[],"title":"ok","status":"passed","failureMessages":[],"location":null}"#;
    let whole = |files: &str, failed: u64, passed: u64| {
        format!(
            r#"{{"numFailedTests":{failed},"numPassedTests":{passed},"numTotalTests":{},
            "testResults":[{files}],"wasInterrupted":false}}"#,
            failed + passed
        )
    };
    let files = file("failed", "", &format!("{bad},{good}"));
    let report = test_report(TestFormat::JestJson, &whole(&files, 1, 1));
    assert_eq!(report.problems, []);
    assert_eq!(place(&report), (Some("t/a.test.js"), Some(3)));
    assert_eq!(report.cases[0].suite.as_deref(), Some("g > h"));

    let odd = test_report(TestFormat::JestJson, &whole(&files, 0, 2));
    assert_eq!(odd.problems[0].kind, ProblemKind::CountsDisagree);
    let broken = file("failed", "cannot load t/a.test.js:1:9", "");
    let report = test_report(TestFormat::JestJson, &whole(&broken, 0, 0));
    assert_eq!((report.counts.errored, report.problems.len()), (1, 0));
    let cut = &whole(&files, 1, 1)[..200];
    assert!(tests(TestFormat::JestJson, &mut cut.as_bytes(), &Places::default()).is_err());
}

#[test]
fn sarif() {
    let report = lint_report(
        LintFormat::Sarif,
        r#"{"$schema":"x","version":"2.1.0","runs":[{"results":[
        {"ruleId":"R1","ruleIndex":0,"message":{"text":"first"},"locations":[{"physicalLocation":{
            "artifactLocation":{"uri":"file:///workspace/src/a%20b.c"},"region":{"startLine":3,"startColumn":4,
            "endLine":3,"endColumn":9}}},{"physicalLocation":{}}]},
        {"ruleId":"R2","level":"warning","message":{"text":"second"}},
        {"message":{"text":"silenced"},"level":"error","suppressions":[{"kind":"inSource"}]},
        {"message":{"text":"fine"},"kind":"pass"},
        {"message":{"text":"gone"},"baselineState":"absent"},
        {"message":{"markdown":"**third**"},"kind":"informational"}],
        "tool":{"driver":{"name":"an","rules":[{"id":"R1","defaultConfiguration":{"level":"error"}}]}}}]}"#,
    );
    assert_eq!(report.problems, []);
    let counts = report.counts;
    assert_eq!((counts.total, counts.error, counts.warning, counts.note), (3, 1, 1, 1));
    let first = &report.diagnostics[0];
    assert_eq!((first.severity, first.rule.as_deref()), (Severity::Error, Some("R1")));
    assert_eq!((first.file.as_deref(), first.end_column), (Some("src/a b.c"), Some(9)));
    assert_eq!(first.tool, "an");

    let run = r#"{"tool":{"driver":{"name":"an"}}}"#;
    let silent =
        lint_report(LintFormat::Sarif, &format!(r#"{{"version":"2.1.0","runs":[{run}]}}"#));
    assert_eq!(silent.problems[0].kind, ProblemKind::Truncated);
    for text in [
        "",
        "{}",
        r#"{"runs":[]}"#,
        r#"{"version":"1.0.0","runs":[]}"#,
        r#"{"version":"2.1.0"}"#,
        r#"{"version":"2.1.0","runs":[],"runs":[]}"#,
        r#"{"version":"2.1.0","runs":[]} x"#,
    ] {
        let read = lints(LintFormat::Sarif, "", &mut text.as_bytes(), &Places::default());
        assert!(read.is_err(), "{text}");
    }
}

#[test]
fn eslint_and_ruff() {
    let eslint = |errors: u64| {
        format!(
            r#"[{{"filePath":"/workspace/x.js","messages":[{{"ruleId":"no-undef","severity":2,"message":"m",
            "line":2,"column":1,"endLine":2,"endColumn":4}},{{"ruleId":null,"severity":1,"message":"n"}}],
            "errorCount":{errors},"warningCount":1,"source":"foo()"}}]"#
        )
    };
    let report = lint_report(LintFormat::EslintJson, &eslint(1));
    assert_eq!((report.problems.len(), report.counts.error, report.counts.warning), (0, 1, 1));
    assert_eq!(report.diagnostics[0].file.as_deref(), Some("x.js"));
    let odd = lint_report(LintFormat::EslintJson, &eslint(2));
    assert_eq!(odd.problems[0].kind, ProblemKind::CountsDisagree);

    let report = lint_report(
        LintFormat::RuffJson,
        r#"[{"code":"F401","filename":"/workspace/a.py","location":{"row":1,"column":8},"end_location":
        {"row":1,"column":10},"message":"unused","fix":{"edits":[]},"url":null},{"code":null,"filename":
        "b.py","location":{"row":2,"column":1},"end_location":null,"message":"syntax"}]"#,
    );
    assert_eq!((report.counts.error, report.diagnostics[0].line), (2, Some(1)));
    assert_eq!(
        (report.diagnostics[0].rule.as_deref(), &report.diagnostics[1].rule),
        (Some("F401"), &None)
    );
    assert_eq!(lint_report(LintFormat::RuffJson, "[]").counts.total, 0);
}

#[test]
fn text_of_a_script_is_recognised() {
    let libtest = "> x@1 test\nrunning 1 test\ntest a ... ok\n\
        test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
    let tap = "> x@1 test\n\nTAP version 13\nok 1 - a\nnot ok 2 - b\n1..2\n";
    let mocha = "  group\n    ✔ ok\n    1) bad\n\n  1 passing (3ms)\n  1 failing\n";
    for (text, passed, failed) in [(libtest, 1, 0), (tap, 1, 1), (mocha, 1, 1)] {
        let report = test_report(TestFormat::Text, text);
        assert_eq!((report.counts.passed, report.counts.failed), (passed, failed), "{text}");
        assert_eq!(report.format, TestFormat::Text);
    }
    let broken = test_report(TestFormat::Text, "TAP version 13\n1..3\nok 1 - a\n");
    assert_eq!(broken.problems[0].kind, ProblemKind::PlanNotMet);
}

#[test]
fn results_keep_their_shape() {
    let report = junit(
        r#"<testsuite name="s"><testcase name="a"><failure message="m"/></testcase></testsuite>"#,
    );
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "format": "junit",
            "counts": {"total": 1, "passed": 0, "failed": 1, "errored": 0, "skipped": 0},
            "cases": [{"name": "a", "suite": "s", "status": "failed", "message": "m"}],
            "cases_left_out": 0,
            "suites": [{"name": "s", "counts":
                {"total": 1, "passed": 0, "failed": 1, "errored": 0, "skipped": 0}}],
            "problems": [],
        })
    );
    assert_eq!(serde_json::from_value::<TestReport>(json.clone()).unwrap(), report);
    let mut more = json;
    more["extra"] = 1.into();
    assert!(serde_json::from_value::<TestReport>(more).is_err());
    assert_eq!(report.cases[0].status, Status::Failed);
}
