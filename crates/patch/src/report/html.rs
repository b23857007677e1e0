//! A diff as one page: no scripts, nothing from elsewhere, written as it is read.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::diff::{Diff, FilePatch, Hunk, HunkLine, LineKind};
use crate::report::{notes, status, totals};
use crate::text::is_inert;

/// How a page is to be written.
#[derive(Debug, Clone)]
pub struct HtmlOptions {
    pub title: String,
    /// How many lines of a file are shown at most.
    pub max_lines: u64,
    /// How many bytes of a line are shown at most.
    pub max_line_length: usize,
    /// Up to how many files are unfolded from the beginning.
    pub max_open: usize,
}

impl Default for HtmlOptions {
    fn default() -> HtmlOptions {
        let title = "Changes".to_owned();
        HtmlOptions { title, max_lines: 5_000, max_line_length: 2_000, max_open: 50 }
    }
}

/// Writes the page. Text is escaped, and the page itself forbids whatever it does not need.
pub fn write_html(diff: &Diff<'_>, options: &HtmlOptions, out: &mut impl Write) -> io::Result<()> {
    let mut page = Page { out, options, row: String::new() };
    page.head(diff)?;
    page.list(diff)?;
    page.raw("<main>\n")?;
    let open = diff.files().len() <= options.max_open;
    for (file, number) in diff.files().iter().zip(1..) {
        page.file(file, number, open)?;
    }
    page.raw("</main>\n</body>\n</html>\n")
}

struct Page<'o, W> {
    out: &'o mut W,
    options: &'o HtmlOptions,
    /// One row, used again and again.
    row: String,
}

impl<W: Write> Page<'_, W> {
    fn raw(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())
    }

    fn head(&mut self, diff: &Diff<'_>) -> io::Result<()> {
        let title = escaped(&self.options.title);
        let style = include_str!("page.css");
        let sentence = totals(diff).sentence();
        write!(
            self.out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n\
             <header>\n<h1>{title}</h1>\n<p>{sentence}</p>\n</header>\n"
        )
    }

    fn list(&mut self, diff: &Diff<'_>) -> io::Result<()> {
        self.raw("<nav aria-label=\"Files\">\n<table>\n")?;
        for (file, number) in diff.files().iter().zip(1u64..) {
            writeln!(
                self.out,
                "<tr><td>{}</td><td><a href=\"#f{number}\"><code>{}</code></a></td>{}</tr>",
                status(file).word(),
                name(file),
                counts(file, "td"),
            )?;
        }
        self.raw("</table>\n</nav>\n")
    }

    fn file(&mut self, file: &FilePatch<'_>, number: u64, open: bool) -> io::Result<()> {
        let open = if open { " open" } else { "" };
        writeln!(
            self.out,
            "<details id=\"f{number}\"{open}>\n<summary>{} <code>{}</code> {}</summary>",
            status(file).word(),
            name(file),
            counts(file, "span"),
        )?;
        for note in notes(file) {
            writeln!(self.out, "<p class=\"o\">{}</p>", escaped(&note))?;
        }
        if !file.hunks().is_empty() {
            self.hunks(file)?;
        }
        self.raw("</details>\n")
    }

    fn hunks(&mut self, file: &FilePatch<'_>) -> io::Result<()> {
        self.raw("<div class=\"w\"><table class=\"d\">\n")?;
        let mut left = self.options.max_lines;
        for hunk in file.hunks() {
            if left == 0 {
                break;
            }
            self.hunk(hunk, &mut left)?;
        }
        self.raw("</table></div>\n")?;
        let all: u64 = file.hunks().iter().map(length).sum();
        match all.saturating_sub(self.options.max_lines) {
            0 => Ok(()),
            more => writeln!(
                self.out,
                "<p class=\"o\">{more} more lines of this file are left out here. \
                 They are in the diff itself.</p>"
            ),
        }
    }

    fn hunk(&mut self, hunk: &Hunk<'_>, left: &mut u64) -> io::Result<()> {
        self.row.clear();
        self.row.push_str("<tr class=\"h\"><td colspan=\"4\">");
        let header = hunk.header();
        push_text(&mut self.row, header.trim_ascii_end(), self.options.max_line_length);
        self.row.push_str("</td></tr>\n");
        self.out.write_all(self.row.as_bytes())?;
        let (mut old, mut new) = (hunk.old_start(), hunk.new_start());
        for line in hunk.lines() {
            let Some(rest) = left.checked_sub(1) else { return Ok(()) };
            *left = rest;
            self.line(&line, old, new)?;
            old += u64::from(line.kind != LineKind::Added);
            new += u64::from(line.kind != LineKind::Removed);
        }
        Ok(())
    }

    fn line(&mut self, line: &HunkLine<'_>, old: u64, new: u64) -> io::Result<()> {
        let row = &mut self.row;
        row.clear();
        // A string takes whatever is written to it.
        let _ = match line.kind {
            LineKind::Context => write!(
                row,
                "<tr><td class=\"n\">{old}</td><td class=\"n\">{new}</td><td class=\"s\"> </td><td>"
            ),
            LineKind::Added => write!(
                row,
                "<tr class=\"a\"><td class=\"n\"></td><td class=\"n\">{new}</td>\
                 <td class=\"s\">+</td><td>"
            ),
            LineKind::Removed => write!(
                row,
                "<tr class=\"r\"><td class=\"n\">{old}</td><td class=\"n\"></td>\
                 <td class=\"s\">-</td><td>"
            ),
        };
        let content = line.content.strip_suffix(b"\n");
        push_text(row, content.unwrap_or(line.content), self.options.max_line_length);
        if content.is_none() {
            row.push_str(" <span class=\"x\">no newline at end of file</span>");
        }
        row.push_str("</td></tr>\n");
        self.out.write_all(row.as_bytes())
    }
}

fn length(hunk: &Hunk<'_>) -> u64 {
    // Context stands on both sides, and is counted once.
    hunk.old_count() + hunk.added()
}

fn name(file: &FilePatch<'_>) -> String {
    let mut text = String::new();
    let bytes = file.name().map(|name| name.bytes()).unwrap_or_default();
    push_text(&mut text, bytes, usize::MAX);
    text
}

/// Signs say it, colours only repeat it.
fn counts(file: &FilePatch<'_>, element: &str) -> String {
    let (added, removed) = file.counts();
    if file.is_binary() {
        return format!("<{element} class=\"c\">binary</{element}>");
    }
    let of = |class: &str, sign: char, count: u64| {
        format!("<{element} class=\"c {class}\">{sign}{count}</{element}>")
    };
    let space = if element == "td" { "" } else { " " };
    of("plus", '+', added) + space + &of("minus", '-', removed)
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    push_text(&mut out, text.as_bytes(), usize::MAX);
    out
}

/// Appends bytes as text of a page, and says how many are left out.
fn push_text(out: &mut String, bytes: &[u8], limit: usize) {
    let (shown, rest) = bytes.split_at_checked(limit).unwrap_or((bytes, &[]));
    for c in String::from_utf8_lossy(shown).chars() {
        push_char(out, c);
    }
    if !rest.is_empty() {
        let _ = write!(out, " <span class=\"x\">{} more bytes</span>", rest.len());
    }
}

fn push_char(out: &mut String, c: char) {
    match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '"' => out.push_str("&quot;"),
        '\'' => out.push_str("&#39;"),
        '\t' => out.push('\t'),
        c if is_inert(c) => out.push(c),
        c => {
            let _ = write!(out, "<span class=\"x\">\\u{{{:x}}}</span>", u32::from(c));
        }
    }
}
