//! What is told while a call runs. Nothing depends on whether anybody listens.

use std::fmt;
use std::sync::Arc;

use countersign_sandbox::Stream;

/// Takes what a long call has to say as it goes.
#[derive(Clone, Default)]
pub struct Progress(Option<Listener>);

type Listener = Arc<dyn Fn(News<'_>) + Send + Sync>;

/// One thing to tell.
#[derive(Debug, Clone, Copy)]
pub enum News<'n> {
    /// What is being done now, in a few words.
    Step(&'n str),
    /// What a program says.
    Output(Stream, &'n [u8]),
}

impl Progress {
    pub fn new(listen: impl Fn(News<'_>) + Send + Sync + 'static) -> Self {
        Progress(Some(Arc::new(listen)))
    }

    pub fn tell(&self, news: News<'_>) {
        if let Some(listen) = &self.0 {
            listen(news);
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Progress(heard)" } else { "Progress" })
    }
}
