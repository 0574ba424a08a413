//! What is wrong with the installation, as this process sees it.

use turnwise::wire::Findings;
use turnwise_core::access::Target;

use crate::{
    call::{Call, Reply},
    jobs::in_background,
    limits::COUNTED,
    problem::Problem,
    service::Turn,
};

pub(crate) async fn findings(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Installation)?;
    let found = in_background(&call, Turn::Count, async |turnwise| turnwise.diagnose(COUNTED).await).await?;
    Reply::json(&Findings::new(&found))
}
