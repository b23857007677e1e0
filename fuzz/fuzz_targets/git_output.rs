//! What git prints for programs: any bytes are read or refused, and cutting them changes nothing.
#![no_main]

use countersign_repository::fuzzing::read_everything;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| read_everything(data));
