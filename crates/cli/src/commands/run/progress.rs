//! How far a run is, while somebody waits for it: a picture that is drawn anew on a terminal, lines
//! elsewhere.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use countersign_flow::RunEvent;
use countersign_flow::event::Event;
use countersign_flow::run::Phase;
use countersign_flow::view::mirrored;
use countersign_model::RunId;
use countersign_workflow::{Engine, View};

use super::rows::{Row, question, rows};
use crate::runs::{duration, status_style, told};
use crate::ui::{DIM, Done, Ui, inert, paint};

pub(super) struct Progress {
    how: How,
    run: RunId,
    events: Vec<Arc<RunEvent>>,
    /// What happened before this event was told before.
    from: u64,
    /// Lines of the picture that stands on the terminal.
    drawn: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum How {
    Silent,
    Lines,
    Picture,
}

impl Progress {
    pub(super) fn begin(ui: Ui, run: &RunId, from: u64) -> Self {
        let how = match (io::stderr().is_terminal(), ui.json) {
            (true, _) => How::Picture,
            (false, false) => How::Lines,
            (false, true) => How::Silent,
        };
        Progress { how, run: run.clone(), events: Vec::new(), from, drawn: 0 }
    }

    /// Everything goes to standard error, and is lost if nobody reads it.
    pub(super) fn show(&mut self, engine: &Engine, view: &View) -> Done {
        if self.how == How::Silent {
            return Ok(());
        }
        let seen = self.events.len();
        let new = engine.events(&self.run, seen as u64).map_err(told)?;
        self.events.extend(new);
        if self.how == How::Picture {
            let now = engine.host().clock().now();
            self.draw(&picture(view, &self.events, now));
            return Ok(());
        }
        let mut err = anstream::stderr();
        for event in self.events.iter().skip(seen).filter(|event| event.sequence >= self.from) {
            if let Some(line) = line(view, &self.events, event) {
                let _ = writeln!(err, "{line}");
            }
        }
        Ok(())
    }

    fn draw(&mut self, lines: &[String]) {
        let mut text = self.up();
        for line in lines {
            text.push_str(&format!("\r{line}\u{1b}[K\n"));
        }
        text.push_str("\u{1b}[J");
        self.drawn = lines.len();
        let mut err = anstream::stderr();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }

    fn up(&self) -> String {
        if self.drawn == 0 { String::new() } else { format!("\u{1b}[{}A", self.drawn) }
    }
}

/// The picture makes room for the result.
impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn > 0 {
            let mut err = anstream::stderr();
            let _ = write!(err, "{}\r\u{1b}[J", self.up()).and_then(|()| err.flush());
        }
    }
}

/// As much as fits: a line that breaks, or one too many, would not be found again.
fn picture(
    view: &View,
    events: &[Arc<RunEvent>],
    now: countersign_model::Timestamp,
) -> Vec<String> {
    let size = terminal_size::terminal_size_of(io::stderr());
    let (width, height) = size.map_or((80, 24), |(w, h)| (usize::from(w.0), usize::from(h.0)));
    let status = mirrored(&view.state, &view.children).as_str();
    let begun = view.state.started_at.unwrap_or(now);
    let rest = format!(
        " {}, {} {}",
        inert(&view.summary.workflow),
        duration(now.millis_since(begun)),
        view.summary.run
    );
    let mut lines = vec![fitted(status, status_style(status), &rest, width)];
    let all = rows(view, events, now);
    let room = height.saturating_sub(3).max(1);
    let shown = window(&all, room);
    let longest = shown.iter().map(|row| row.id.chars().count()).max().unwrap_or(0).min(30);
    for row in shown {
        let rest = format!(" {:<longest$} {:>9}  {}", row.id, row.took, row.says);
        lines.push(fitted(&format!("  {:<9}", row.state), row.style, &rest, width));
    }
    if all.len() > room {
        lines.push(paint(DIM, cut(&format!("  {} nodes in all", all.len()), width)));
    }
    lines
}

/// Of many nodes, those around the first that is not done.
fn window(all: &[Row], room: usize) -> &[Row] {
    let busy = all.iter().position(|row| ["running", "waiting", "retrying"].contains(&row.state));
    let from = busy.unwrap_or(0).saturating_sub(room / 3).min(all.len().saturating_sub(room));
    let rest = all.get(from..).unwrap_or_default();
    rest.get(..room).unwrap_or(rest)
}

fn fitted(first: &str, style: anstyle::Style, rest: &str, width: usize) -> String {
    let room = width.saturating_sub(first.chars().count() + 1);
    format!("{}{}", paint(style, cut(first, width)), cut(rest.trim_end(), room))
}

fn cut(text: &str, room: usize) -> String {
    match text.chars().count() > room {
        true => text.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// What an event means to whoever waits, if anything.
fn line(view: &View, events: &[Arc<RunEvent>], event: &RunEvent) -> Option<String> {
    let node = event.event.node_id().map(inert).unwrap_or_default();
    let begun = |id: &str| {
        let is_start = |one: &&Arc<RunEvent>| {
            one.sequence < event.sequence
                && matches!(&one.event, Event::NodeStarted { node_id, .. } if node_id == id)
        };
        let started = events.iter().rfind(is_start);
        started.map(|started| duration(event.at.millis_since(started.at))).unwrap_or_default()
    };
    Some(match &event.event {
        Event::NodeStarted { .. } => format!("{node} started"),
        Event::NodeCompleted { node_id, .. } => format!("{node} completed in {}", begun(node_id)),
        Event::NodeFailed { error, .. } => {
            format!("{node} failed: {} [{}]", inert(&error.message), inert(&error.code))
        }
        Event::NodeRetried { last_error, .. } => {
            format!("{node} is tried again: {}", inert(&last_error.message))
        }
        Event::NodeSkipped { .. } => format!("{node} skipped"),
        Event::NodeCancelled { .. } => format!("{node} cancelled"),
        Event::NodeSuspended { node_id, .. } => {
            let open = view.state.interrupt_of(node_id);
            let asked = open.filter(|_| is_suspended(view, node_id)).map(question);
            format!("{node} waits: {}", asked.map_or("for an answer".to_owned(), |t| inert(&t)))
        }
        Event::NodeDispatched { child_run_id, .. } => {
            format!("{node} began {}", inert(child_run_id))
        }
        Event::RunPaused { .. } => "paused".to_owned(),
        Event::RunResumed { .. } => "resumed".to_owned(),
        _ => return None,
    })
}

fn is_suspended(view: &View, node: &str) -> bool {
    view.state.node(node).is_some_and(|node| node.phase == Phase::Suspended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_windows_show_what_is_at_work() {
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("abc", 4), "abc");
        let row = |state| Row {
            id: String::new(),
            state,
            style: DIM,
            took: String::new(),
            says: String::new(),
        };
        let mut all: Vec<Row> = (0..50).map(|_| row("completed")).collect();
        all.push(row("running"));
        all.extend((0..50).map(|_| row("pending")));
        let shown = window(&all, 10);
        assert_eq!((shown.len(), shown.iter().filter(|r| r.state == "running").count()), (10, 1));
        assert_eq!(window(&all[..3], 10).len(), 3);
    }
}
