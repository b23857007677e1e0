//! AUTHORIZED: every capability is granted, in scope, unexpired.

use std::sync::Arc;

use countersign_model::event::{self, CallEvent};
use countersign_model::{Authorization, Failure, GrantBook, authorize};

use super::declare::Asked;
use super::{Call, Step, Validated};

/// The call may run. The grants behind that are checked again at the commit.
#[derive(Debug)]
pub struct Authorized<'h> {
    pub(super) call: Call<'h>,
    pub(super) asked: Arc<Asked>,
    pub(super) attempt: u32,
    pub(super) authorization: Authorization,
}

impl<'h> Validated<'h> {
    /// Decides anew for every attempt: what was granted a moment ago may be revoked now.
    pub fn authorize(self) -> Step<'h, Authorized<'h>> {
        let Validated { mut call, asked, attempt } = self;
        // A journal that cannot be read has not said no: the call stops without a verdict.
        let book = book_for(&call, &asked).map_err(|failure| call.broken(failure))?;
        let decision = decide(&call, &asked, &book);
        match decision {
            Ok(authorization) => {
                call.note(CallEvent::Authorized(event::Authorized {
                    attempt,
                    capabilities: authorization.capabilities.clone(),
                    grants: authorization.grants.clone(),
                }))?;
                Ok(Authorized { call, asked, attempt, authorization })
            }
            Err(error) => Err(call.end(CallEvent::Denied { error: error.clone() }, error)),
        }
    }
}

/// Who asks for nothing needs no grant, so there is nothing to look up.
fn book_for(call: &Call<'_>, asked: &Asked) -> Result<Arc<GrantBook>, Failure> {
    let required = &call.tool.declaration.required_capabilities;
    if required.is_empty() && asked.footprint.needs.is_empty() {
        return Ok(Arc::default());
    }
    call.host.grant_book()
}

fn decide(call: &Call<'_>, asked: &Asked, book: &GrantBook) -> Result<Authorization, Failure> {
    let declaration = &call.tool.declaration;
    let principal = &call.recorder.summary().principal;
    authorize(
        &declaration.required_capabilities,
        &asked.footprint.needs,
        principal,
        &declaration.id,
        book,
        call.recorder.now(),
    )
    .map_err(Failure::from)
}
