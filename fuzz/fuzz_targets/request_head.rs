//! Heads of HTTP requests: any bytes are read or refused, and what was read is what a strict server
//! reads as well.
#![no_main]

use countersign_egress::request_head;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(Some(head)) = request_head(data) else { return };
    let own = data.get(..head.length).unwrap_or_default();
    assert!(own.ends_with(b"\r\n\r\n"));
    assert_eq!(request_head(own).as_ref(), Ok(&Some(head.clone())), "the body changes the head");
    let lines = own.windows(2).filter(|two| *two == b"\r\n").count();
    assert_eq!(lines, head.headers.len() + 2, "a line is hidden in another");
    for header in &head.headers {
        assert!(!header.value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)));
    }
});
