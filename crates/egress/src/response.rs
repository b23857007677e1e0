//! The head of a server's answer, passed on with as few changes as possible.
//!
//! The client is the one who is not trusted, so nothing is judged here. The connection ends with
//! the answer, and the head must say so.

/// A head that has come as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// What the client is shown.
    pub(crate) shown: Vec<u8>,
    /// How many bytes the server sent for it.
    pub(crate) length: usize,
}

const MAX_HEAD: usize = 64 * 1024;

/// About the connection to the proxy, not to the client.
const NOT_SHOWN: [&str; 5] =
    ["connection", "keep-alive", "proxy-authenticate", "proxy-connection", "upgrade"];

type Flaw = &'static str;

pub(crate) fn answer(bytes: &[u8]) -> Result<Option<Answer>, Flaw> {
    let Some(length) = head_length(bytes) else {
        return if bytes.len() < MAX_HEAD { Ok(None) } else { Err("has a head that is too long") };
    };
    let mut lines = bytes.get(..length).unwrap_or_default().split(|b| *b == b'\n').map(trim_cr);
    let first = lines.next().unwrap_or_default();
    let status = status(first).ok_or("is not HTTP/1")?;
    let mut shown = [first, b"\r\n"].concat();
    headers(lines, &mut shown);
    // An interim answer is not the end of anything.
    shown.extend_from_slice(if status < 200 { b"\r\n" } else { b"Connection: close\r\n\r\n" });
    Ok(Some(Answer { status, shown, length }))
}

fn head_length(bytes: &[u8]) -> Option<usize> {
    let ends = |at: &usize| {
        let before = bytes.get(..=*at).unwrap_or_default();
        before.ends_with(b"\n\r\n") || before.ends_with(b"\n\n")
    };
    let breaks = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at);
    breaks.take_while(|at| *at < MAX_HEAD).find(ends).map(|at| at + 1)
}

fn trim_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn status(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.")?;
    let code = std::str::from_utf8(rest.get(2..5)?).ok()?;
    code.parse().ok().filter(|status| (100..=999).contains(status))
}

fn headers<'a>(lines: impl Iterator<Item = &'a [u8]>, shown: &mut Vec<u8>) {
    let mut showing = true;
    for line in lines.filter(|line| !line.is_empty()) {
        // A folded line shares the fate of the one it continues.
        if !line.starts_with(b" ") && !line.starts_with(b"\t") {
            let name = line.split(|b| *b == b':').next().unwrap_or_default().trim_ascii();
            showing = !NOT_SHOWN.iter().any(|hidden| name.eq_ignore_ascii_case(hidden.as_bytes()));
        }
        if showing {
            shown.extend([line, b"\r\n"].concat());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_connection_is_changed() {
        let bytes = b"HTTP/1.1 200 OK\r\nKeep-Alive: 5,\r\n more\r\nX: y\r\n z\r\nConnection: keep-alive\r\n\r\nbody\n\n";
        let answer = answer(bytes).unwrap().unwrap();
        assert_eq!(answer.status, 200);
        let shown = b"HTTP/1.1 200 OK\r\nX: y\r\n z\r\nConnection: close\r\n\r\n";
        assert_eq!(answer.shown, shown, "{:?}", String::from_utf8_lossy(&answer.shown));
        assert_eq!(&bytes[answer.length..], b"body\n\n");
    }

    #[test]
    fn interim_and_careless_answers_pass() {
        let interim = answer(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap().unwrap();
        assert_eq!(interim.shown, b"HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(answer(b"HTTP/1.0 404\n\n").unwrap().unwrap().status, 404);
        assert_eq!(answer(b"HTTP/1.1 200 OK\r\nX: y\r\n"), Ok(None));
        for bad in
            [&b"SSH-2.0\r\n\r\n"[..], b"HTTP/1.1 20\r\n\r\n", b"\r\n\r\n", b"HTTP/2 200\r\n\r\n"]
        {
            assert!(answer(bad).is_err(), "{bad:?}");
        }
        assert!(answer(&vec![b'a'; MAX_HEAD]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = answer(&bytes);
            if let Ok(Some(answer)) = answer(&[b"HTTP/1.1 200\r\n", &bytes[..], b"\r\n\r\n"].concat()) {
                prop_assert!(answer.shown.ends_with(b"\r\n\r\n"));
            }
        }
    }
}
