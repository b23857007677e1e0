//! What comes out of judging: the document as it was understood, or every reason against it.

use crate::reason::Reason;

#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Judgement<T> {
    Accept(T),
    /// In the order of their places; never empty.
    Reject(Vec<Reason>),
}

impl<T> Judgement<T> {
    /// What was understood counts only if nothing was found.
    pub fn of(understood: Option<T>, reasons: Vec<Reason>) -> Judgement<T> {
        match understood {
            Some(document) if reasons.is_empty() => Judgement::Accept(document),
            _ => Judgement::Reject(reasons),
        }
    }

    pub fn accepted(self) -> Option<T> {
        match self {
            Judgement::Accept(document) => Some(document),
            Judgement::Reject(_) => None,
        }
    }

    pub fn reasons(&self) -> &[Reason] {
        match self {
            Judgement::Accept(_) => &[],
            Judgement::Reject(reasons) => reasons,
        }
    }
}
