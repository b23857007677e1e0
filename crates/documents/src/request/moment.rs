//! Times as the schema writes them, and ids that carry one.

use countersign_model::Timestamp;

/// `YYYY-MM-DDTHH:MM:SSZ`, if it is a real moment.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let moment: Timestamp = text.parse().ok()?;
    // Readers of times are lenient about leap seconds, offsets and fractions; one spelling is ours.
    (second(moment) == text).then_some(moment)
}

/// A moment to the second, as the schema writes it.
pub fn second(moment: Timestamp) -> String {
    let text = moment.to_string();
    let seconds = text.split('.').next().unwrap_or(&text);
    format!("{seconds}Z")
}

/// The moment in `TR-YYYYMMDD-HHMMSSZ-slug`, if the id is one.
pub fn of_id(id: &str) -> Option<Timestamp> {
    let rest = id.strip_prefix("TR-")?;
    let (stamp, slug) = (rest.get(..16)?, rest.get(16..)?.strip_prefix('-')?);
    let field = |from: usize, to: usize| stamp.get(from..to);
    let spelled = format!(
        "{}-{}-{}T{}:{}:{}",
        field(0, 4)?,
        field(4, 6)?,
        field(6, 8)?,
        field(9, 11)?,
        field(11, 13)?,
        field(13, 16)?
    );
    let moment = parse(&spelled)?;
    (field(8, 9) == Some("-") && is_slug(slug)).then_some(moment)
}

pub(super) fn is_slug(slug: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=64).contains(&slug.len()) && slug.bytes().all(allowed) && !slug.starts_with('-')
}

/// The id of a request that is created at a moment, with a slug for people.
pub fn request_id(created: Timestamp, slug: &str) -> String {
    let stamp: String = second(created).chars().filter(|c| c.is_ascii_digit()).collect();
    let (day, time) = stamp.split_at_checked(8).unwrap_or((&stamp, ""));
    format!("TR-{day}-{time}Z-{slug}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_spelling_is_a_time() {
        let moment = parse("2026-02-09T16:05:01Z").unwrap();
        assert_eq!(second(moment), "2026-02-09T16:05:01Z");
        for bad in [
            "",
            "2026-02-09",
            "2026-02-30T16:05:01Z",
            "2026-02-09T24:00:00Z",
            "2026-02-09T16:05:60Z",
            "2026-02-09T16:05:01.000Z",
            "2026-02-09T16:05:01+00:00",
            "2026-02-09 16:05:01Z",
            "2026-02-09t16:05:01z",
            "2026-02-09T16:05Z",
            "tomorrow",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn ids_carry_their_time() {
        let created = parse("2026-02-09T16:05:01Z").unwrap();
        let id = request_id(created, "python-stats");
        assert_eq!(id, "TR-20260209-160501Z-python-stats");
        assert_eq!(of_id(&id), Some(created));
        for bad in [
            "TR-20260209-160501Z",
            "TR-20260209-160501Z-",
            "TR-20260209-160501Z-A",
            "TR-20260209-160501Z--a",
            "TR-20260230-160501Z-a",
            "TR-20260209-250501Z-a",
            "TR-20260209160501Z-a",
            "TS-20260209-160501Z-a",
            "TR-20260209-160501Z-a/b",
            "TR-20260209-160501-a",
            "TR-2026020é-160501Z-a",
        ] {
            assert_eq!(of_id(bad), None, "{bad}");
        }
    }
}
