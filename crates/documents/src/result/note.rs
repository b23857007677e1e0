//! What a host reports as unexpected: a closed list of codes with counts, never a quotation.

use super::Pipe;
use crate::scan::Family;

macro_rules! notes {
    ($($variant:ident $name:literal $meaning:literal)*) => {
        /// Something that a run did besides its work.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Note {
            $(#[doc = $meaning] $variant,)*
        }

        impl Note {
            pub const ALL: &'static [Note] = &[$(Note::$variant,)*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Note::$variant => $name,)* }
            }

            pub const fn meaning(self) -> &'static str {
                match self { $(Note::$variant => $meaning,)* }
            }
        }
    };
}

notes! {
    SecretInStdout "SECRET_IN_STDOUT" "stdout held something that looks like a secret, and is withheld"
    PayloadInStdout "PAYLOAD_IN_STDOUT" "stdout held a program or script, plain or encoded, and is withheld"
    ClaimInStdout "CLAIM_IN_STDOUT" "stdout claimed that policy should change, and is withheld"
    InstructionInStdout "INSTRUCTION_IN_STDOUT" "stdout held instructions to fetch or execute, and is withheld"
    SecretInStderr "SECRET_IN_STDERR" "the same of stderr"
    PayloadInStderr "PAYLOAD_IN_STDERR" "the same of stderr"
    ClaimInStderr "CLAIM_IN_STDERR" "the same of stderr"
    InstructionInStderr "INSTRUCTION_IN_STDERR" "the same of stderr"
    TimedOut "TIMED_OUT" "the run was stopped at its time limit"
    LimitReached "LIMIT_REACHED" "the run was stopped at another limit"
    KilledBySignal "KILLED_BY_SIGNAL" "a signal ended the run"
    Stopped "STOPPED" "the host stopped the run: it was cancelled, or the host itself failed"
    NotStarted "NOT_STARTED" "the command could not be started"
    OutputsRefused "OUTPUTS_REFUSED" "the run ended by itself, and nothing that it left was taken"
    UnexpectedFile "UNEXPECTED_FILE" "files below /out that the request does not expect; they were dropped"
    RefusedFile "REFUSED_FILE" "links or special files below /out; they were dropped"
    MissingOutput "MISSING_OUTPUT" "files that the request expects and the run did not leave"
    ConnectionDenied "CONNECTION_DENIED" "connections that the proxy refused"
    NetworkUnknown "NETWORK_UNKNOWN" "the record of connections was lost; every allowed host is listed as reached"
}

impl Note {
    /// The code for what was found in a stream.
    pub const fn of(pipe: Pipe, family: Family) -> Note {
        match (pipe, family) {
            (Pipe::Stdout, Family::Secret) => Note::SecretInStdout,
            (Pipe::Stdout, Family::Payload) => Note::PayloadInStdout,
            (Pipe::Stdout, Family::Claim) => Note::ClaimInStdout,
            (Pipe::Stdout, Family::Instruction) => Note::InstructionInStdout,
            (Pipe::Stderr, Family::Secret) => Note::SecretInStderr,
            (Pipe::Stderr, Family::Payload) => Note::PayloadInStderr,
            (Pipe::Stderr, Family::Claim) => Note::ClaimInStderr,
            (Pipe::Stderr, Family::Instruction) => Note::InstructionInStderr,
        }
    }

    /// The stream that this note is about, if it is about one.
    pub fn pipe(self) -> Option<Pipe> {
        let of = |pipe: Pipe| Family::ALL.iter().any(|family| Note::of(pipe, *family) == self);
        Pipe::BOTH.into_iter().find(|pipe| of(*pipe))
    }

    pub fn parse(text: &str) -> Option<Note> {
        Note::ALL.iter().copied().find(|note| note.as_str() == text)
    }
}

/// `None observed`, or codes with counts. Nothing when it is neither.
pub(super) fn parse(text: &str) -> Option<Vec<(Note, u64)>> {
    if is_none(text) {
        return Some(Vec::new());
    }
    text.split(';').map(|part| one(part.trim())).collect()
}

fn one(part: &str) -> Option<(Note, u64)> {
    let (code, count) = part.split_once(' ').unwrap_or((part, "1"));
    let plain = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    Some((Note::parse(code)?, count.parse().ok().filter(|count| plain && *count > 0)?))
}

/// The schema's words for nothing, with or without a full stop.
pub(super) fn is_none(text: &str) -> bool {
    let text = text.trim().trim_end_matches('.').to_ascii_lowercase();
    matches!(text.as_str(), "none" | "none observed" | "none used")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_as_they_are_written() {
        assert_eq!(parse("None observed"), Some(vec![]));
        assert_eq!(parse("none observed."), Some(vec![]));
        let two = vec![(Note::SecretInStdout, 2), (Note::TimedOut, 1)];
        assert_eq!(parse("SECRET_IN_STDOUT 2; TIMED_OUT 1"), Some(two));
        assert_eq!(parse("TIMED_OUT"), Some(vec![(Note::TimedOut, 1)]));
        for bad in
            ["", "timed_out 1", "TIMED_OUT 0", "TIMED_OUT x", "TIMED_OUT 1, x", "TIMED_OUT +1"]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn each_kind_of_each_stream_has_a_code_of_its_own() {
        let of_streams = Note::ALL.iter().filter(|note| note.pipe().is_some()).count();
        assert_eq!(of_streams, 8);
        assert_eq!(Note::SecretInStderr.pipe(), Some(Pipe::Stderr));
        assert_eq!(Note::TimedOut.pipe(), None);
    }
}
