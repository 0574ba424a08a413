//! Style and scripts, which are in the binary. Their addresses change with their contents, so a browser keeps them for good.

use std::{fmt::Write as _, sync::LazyLock};

use turnwise::BodyHash;

use crate::{call::Reply, page::Visit, problem::Problem};

/// The style of all pages.
pub(crate) const CSS: &str = "turnwise.css";
/// The script of all pages but the one that others embed.
pub(crate) const SCRIPT: &str = "turnwise.js";
/// The script of the page that others embed.
pub(crate) const EMBED: &str = "embed.js";

struct Asset {
    name: &'static str,
    kind: &'static str,
    text: String,
    /// Of its contents.
    version: String,
}

const STYLE: &str = "text/css; charset=utf-8";
const MODULE: &str = "text/javascript; charset=utf-8";

/// What both scripts begin with: one file each, so that a browser asks once.
const MORPH: &str = include_str!("assets/morph.js");

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let all = [
        // The charts' palette first: the pages use it, too.
        ("turnwise.css", STYLE, [turnwise_chart::CSS, include_str!("assets/turnwise.css")].concat()),
        ("turnwise.js", MODULE, [MORPH, include_str!("assets/turnwise.js")].concat()),
        (EMBED, MODULE, [MORPH, include_str!("assets/embed.js")].concat()),
        ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg").to_owned()),
    ];
    all.map(|(name, kind, text)| Asset { name, kind, version: version(&text), text }).into()
});

fn version(text: &str) -> String {
    BodyHash::of(text.as_bytes()).0.iter().take(6).fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The address of an asset, from a page whose way to `/` this is.
pub(crate) fn link(root: &str, name: &str) -> String {
    let version = ASSETS.iter().find(|asset| asset.name == name).map_or("", |asset| asset.version.as_str());
    format!("{root}assets/{name}?v={version}")
}

pub(crate) async fn serve(visit: Visit) -> Result<Reply, Problem> {
    let asset = ASSETS.iter().find(|asset| asset.name == visit.name);
    let asset = asset.ok_or_else(|| Problem::not_found("there is no such file"))?;
    let reply = Reply::of(asset.kind, asset.text.as_str());
    // An address of another version is answered with this one, which is not its own for good.
    Ok(if visit.query.get("v") == Some(&asset.version) { reply.lasting() } else { reply })
}
