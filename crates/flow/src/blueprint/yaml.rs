//! YAML as far as blueprints need it: texts, lists and maps, each with its line. Anchors, tags and
//! second documents are refused, because two readers could make different things of them.

use granit_parser::{Event, Parser, ScalarStyle, Span};

use crate::problem::{Report, shorten};

const MOST_BYTES: usize = 256 * 1024;
const MOST_DEPTH: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spot {
    pub line: usize,
    pub value: Yaml,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Yaml {
    /// A text, and whether it was written without quotes.
    Text(String, bool),
    List(Vec<Spot>),
    Map(Vec<(String, Spot)>),
}

/// A list or map that is not closed yet.
enum Open {
    List(usize, Vec<Spot>),
    Map(usize, Vec<(String, Spot)>, Option<String>),
}

/// The one document in `text`.
pub(super) fn read(text: &str, report: &mut Report) -> Option<Spot> {
    if text.len() > MOST_BYTES {
        report.add("BLUEPRINT_TOO_LARGE", "", format!("there are more than {MOST_BYTES} bytes"));
        return None;
    }
    let mut open: Vec<Open> = Vec::new();
    let mut root = None;
    for event in Parser::new_from_str(text) {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) => {
                let line = error.marker().line();
                report.at_line(line).add("BLUEPRINT_NOT_YAML", "", shorten(&error.info(), 200));
                return None;
            }
        };
        if let Err((code, message)) = take(event, &span, &mut open, &mut root) {
            report.at_line(span.start.line()).add(code, "", message);
            return None;
        }
    }
    if root.is_none() {
        report.add("BLUEPRINT_EMPTY", "", "there is no document");
    }
    root
}

type Taken = Result<(), (&'static str, String)>;

fn refuse(message: &str) -> Taken {
    Err(("BLUEPRINT_YAML_REFUSED", message.to_owned()))
}

fn take(event: Event<'_>, span: &Span, open: &mut Vec<Open>, root: &mut Option<Spot>) -> Taken {
    let line = span.start.line();
    match event {
        Event::Scalar(_, _, anchor, tag) if anchor != 0 || tag.is_some() => {
            refuse("anchors and tags are not for blueprints")
        }
        Event::SequenceStart(_, anchor, tag) | Event::MappingStart(_, anchor, tag)
            if anchor != 0 || tag.is_some() =>
        {
            refuse("anchors and tags are not for blueprints")
        }
        Event::Alias(_) | Event::UnresolvedAlias(_) => refuse("aliases are not for blueprints"),
        Event::DocumentStart(..) if root.is_some() => refuse("there is a second document"),
        Event::Scalar(text, style, ..) => {
            let plain = style == ScalarStyle::Plain;
            put(Spot { line, value: Yaml::Text(text.into_owned(), plain) }, open, root)
        }
        Event::SequenceStart(..) | Event::MappingStart(..) if open.len() >= MOST_DEPTH => {
            refuse("the document nests too deep")
        }
        Event::SequenceStart(..) => {
            open.push(Open::List(line, Vec::new()));
            Ok(())
        }
        Event::MappingStart(..) => {
            open.push(Open::Map(line, Vec::new(), None));
            Ok(())
        }
        Event::SequenceEnd | Event::MappingEnd => match open.pop() {
            Some(Open::List(line, items)) => {
                put(Spot { line, value: Yaml::List(items) }, open, root)
            }
            Some(Open::Map(line, items, _)) => {
                put(Spot { line, value: Yaml::Map(items) }, open, root)
            }
            None => refuse("the document is not balanced"),
        },
        _ => Ok(()),
    }
}

fn put(spot: Spot, open: &mut [Open], root: &mut Option<Spot>) -> Taken {
    match (open.last_mut(), spot.value) {
        (None, value) => {
            *root = Some(Spot { line: spot.line, value });
            Ok(())
        }
        (Some(Open::List(_, items)), value) => {
            items.push(Spot { line: spot.line, value });
            Ok(())
        }
        (Some(Open::Map(_, items, key @ None)), Yaml::Text(name, _)) => {
            if items.iter().any(|(known, _)| *known == name) {
                let message = format!("`{}` stands here twice", shorten(&name, 60));
                return Err(("BLUEPRINT_KEY_TWICE", message));
            }
            *key = Some(name);
            Ok(())
        }
        (Some(Open::Map(_, _, None)), _) => refuse("a key is a text"),
        (Some(Open::Map(_, items, key)), value) => {
            items.extend(key.take().map(|name| (name, Spot { line: spot.line, value })));
            Ok(())
        }
    }
}
