"""The picture: six panels of bars."""

from html import escape

from .peers import label
from .report import number, rows

WIDTH, COLUMN, BAR, GAP = 920, 460, 16, 7
# Where bars begin: the names with their languages stand before it.
START = 180

STYLE = """<style>
  .page { fill: #ffffff } .ink { fill: #1f2328 } .soft { fill: #59636e }
  .ours { fill: #0969da } .raw { fill: #8c959f; opacity: .6 } .peer { fill: #8c959f } .tail { opacity: .35 }
  text { font: 12px system-ui, sans-serif } .title { font-size: 17px; font-weight: 600 } .head { font-size: 13px; font-weight: 600 }
  .end { text-anchor: end }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .ink { fill: #f0f6fc } .soft { fill: #9198a1 }
    .ours { fill: #4493f8 } .raw { fill: #656c76; opacity: .6 } .peer { fill: #656c76 }
  }
</style>"""


def picture(data):
    results = data["results"]
    panels = [
        panel("Draining, finished jobs deleted", "jobs a second", rows(results, "drain", "delete")),
        panel("Draining, finished jobs kept", "jobs a second", rows(results, "drain", "keep")),
        panel("One job a call, 50 callers", "jobs a second", rows(results, "submit")),
        panel("Many jobs a call", "jobs a second", rows(results, "bulk")),
        panel("Snapshot held: the last 10,000", "jobs a second", rows(results, "pinned", key="last_10k_per_second"),
              "last_10k_per_second"),
        panel("From submit to start", "ms, p50 and p99", rows(results, "latency", key="p50_ms", largest_first=False), "p50_ms",
              tail="p99_ms"),
    ]
    y, body = 60, []
    for left, right in zip(panels[::2], panels[1::2]):
        for x, (lines, _) in ((0, left), (COLUMN, right)):
            body.append(f'<g transform="translate({x} {y})">\n' + "\n".join(lines) + "\n</g>")
        y += max(left[1], right[1]) + 24
    title = "Turnwise beside its peers on PostgreSQL"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" role="img">',
        f"<title>{title}</title>", STYLE, f'<rect class="page" width="{WIDTH}" height="{y}"/>',
        f'<text class="ink title" x="24" y="34">{title}</text>', *body, "</svg>"]) + "\n"


def panel(title, unit, found, key="per_second", tail=None):
    """The lines of one panel and its height; who has no value is named all the same."""
    longest = max((row.median(tail or key) or row.median(key) or 0 for row in found), default=0) or 1
    start, room = START, COLUMN - START - (110 if tail else 90)
    lines = [f'<text class="ink head" x="24" y="0">{escape(title)}</text>',
             f'<text class="soft end" x="{COLUMN - 20}" y="0">{escape(unit)}</text>']
    for at, row in enumerate(found):
        y = 14 + at * (BAR + GAP)
        kind = {"turnwise": "ours", "raw SQL": "raw"}.get(row.name, "peer")
        text = f'y="{y + 12}"'
        lines.append(f'<text class="{"ink" if kind == "ours" else "soft"} end" x="{start - 8}" {text}>{escape(label(row.name))}</text>')
        value = row.median(key)
        if value is None:
            lines.append(f'<text class="soft" x="{start}" {text}>{"failed" if row.errors else "–"}</text>')
            continue
        long, numbers, end = max(1, room * value / longest), number(value), value
        if tail and row.median(tail) is not None:
            end = row.median(tail)
            numbers += f" – {number(end)}"
            lines.append(f'<rect class="{kind} tail" x="{start}" y="{y}" width="{max(1, room * end / longest):.1f}" height="{BAR}"/>')
        lines.append(f'<rect class="{kind}" x="{start}" y="{y}" width="{long:.1f}" height="{BAR}"/>')
        lines.append(f'<text class="ink" x="{start + max(1, room * end / longest) + 6:.1f}" {text}>{numbers}</text>')
    return lines, 14 + len(found) * (BAR + GAP)
