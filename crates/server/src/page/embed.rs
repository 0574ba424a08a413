//! The one page that pages of other origins may embed: a shell without contents, in which a script shows a tenant's view.
//!
//! The shell is the same for everyone. What it shows it reads with the bearer of a ticket, which the page around it has put into the address's
//! fragment. Whose pages may embed it has to be known before that: it is what the server was started with (docs/decisions/0020-embedding.md).

use askama::Template;

use crate::{
    call::Reply,
    limits::EMBEDDERS,
    page::{Visit, assets, visit::render},
    problem::Problem,
};

#[derive(Template)]
#[template(path = "embed.html")]
struct Shell<'a> {
    root: &'a str,
    css: String,
    script: String,
    /// Whose pages may embed it: a ticket for others is not redeemed here.
    origins: String,
}

pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    let named: Vec<&str> = visit.query.all("origin").take(EMBEDDERS + 1).collect();
    if let Some(origin) = named.iter().find(|origin| !visit.service.may_embed(origin)) {
        return Err(Problem::forbidden(format!(
            "pages of {origin:?} may not embed this one; the server is started with --embed-origin and what may"
        )));
    }
    let origins = if named.is_empty() { visit.service.embedders().collect() } else { named };
    if origins.is_empty() || origins.len() > EMBEDDERS {
        let advice = "start it with --embed-origin https://app.example, and give an address like /embed?origin=https://app.example";
        return Err(Problem::not_found(format!("which pages may embed this one is not said; {advice}")));
    }
    let shell = Shell {
        root: &visit.root,
        css: assets::link(&visit.root, assets::CSS),
        script: assets::link(&visit.root, assets::EMBED),
        origins: origins.join(" "),
    };
    Ok(render(&shell)?.framed_by(&origins))
}
