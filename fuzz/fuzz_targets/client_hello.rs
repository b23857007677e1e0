//! TLS hellos: any bytes are read or refused, and what was decided once stays decided, however much
//! more comes.
#![no_main]

use countersign_egress::client_hello;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let whole = client_hello(data);
    let half = client_hello(data.get(..data.len() / 2).unwrap_or_default());
    if half != Ok(None) {
        assert_eq!(half, whole, "more bytes change what was decided");
    }
    if let Ok(Some(hello)) = whole {
        let plain = |name: &String| !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic());
        assert!(hello.server_name.as_ref().is_none_or(plain));
    }
});
