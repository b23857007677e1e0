//! The desk: where request documents come in and result documents go out.
//!
//! A draft is judged, shown to people and approved; only then does it stand in `requests/`, and
//! only what the journal knows to be approved runs. What became of it is told by the journal
//! alone, so a result can be written again after any crash, byte for byte the same.

mod draft;
mod files;
mod folders;
mod inbox;
mod order;
mod promote;
mod run;
mod story;
mod tell;

use countersign_documents::request::{Ceilings, Given, Stage};
use countersign_host::Host;

pub use draft::{Draft, judge_request};
pub use folders::{Folder, put as write_new, read};
pub use inbox::{Delivered, judge_result};
pub use promote::Brought;
pub use run::Ran;

/// The desk of one home.
#[derive(Debug, Clone, Copy)]
pub struct Desk<'h> {
    pub host: &'h Host,
}

impl<'h> Desk<'h> {
    pub fn at(host: &'h Host) -> Self {
        Desk { host }
    }

    /// What a request is judged against at this desk.
    pub fn given<'g>(&self, file_name: Option<&'g str>, stage: Stage) -> Given<'g> {
        let asked = self.host.home().config.requests;
        let ceilings = Ceilings {
            cpu: asked.max_cpu,
            memory_mb: asked.max_memory_mb,
            time_sec: asked.max_time_sec,
        };
        Given { file_name, now: self.host.clock().now(), ceilings, stage }
    }
}
