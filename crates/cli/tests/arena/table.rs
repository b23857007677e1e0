//! Results for people: one line each, and everything that is wrong at the end.

/// One line of a table; `wrong` is empty when all is well.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) cells: Vec<String>,
    pub(crate) wrong: Vec<String>,
    pub(crate) detail: String,
}

/// Prints all rows below their headings, then fails with everything that is wrong.
#[track_caller]
pub(crate) fn judge(title: &str, headings: &[&str], rows: &[Row], left: &[String]) {
    let mut widths: Vec<usize> = headings.iter().map(|heading| heading.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(&row.cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String]| {
        let padded: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        padded.join("  ").trim_end().to_owned()
    };
    let headings: Vec<String> = headings.iter().map(|heading| (*heading).to_owned()).collect();
    println!("\n{title}\n{}", line(&headings));
    for row in rows {
        println!("{}", line(&row.cells));
    }
    let failed: Vec<&Row> = rows.iter().filter(|row| !row.wrong.is_empty()).collect();
    println!("{} of {} as expected", rows.len() - failed.len(), rows.len());
    let mut report = String::new();
    for row in &failed {
        report.push_str(&format!("\n{}\n", line(&row.cells)));
        for wrong in &row.wrong {
            report.push_str(&format!("    wrong: {wrong}\n"));
        }
        for said in row.detail.lines() {
            report.push_str(&format!("    | {said}\n"));
        }
    }
    for left in left {
        report.push_str(&format!("\nleft behind: {left}\n"));
    }
    assert!(
        report.is_empty(),
        "{title}: {} failed, {} left behind\n{report}",
        failed.len(),
        left.len()
    );
}
