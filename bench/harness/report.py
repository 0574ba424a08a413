"""The page: what was measured, as tables. Nobody is left out: who failed is there with what it said."""

from statistics import median

from .peers import label


class Row:
    """One peer in one step: the values of its runs, and what went wrong."""

    def __init__(self, name, results):
        self.name, self.results = name, results
        self.good = [result for result in results if "error" not in result]
        self.errors = [result["error"] for result in results if "error" in result]

    def values(self, key):
        return [result[key] for result in self.good if result.get(key) is not None]

    def median(self, key):
        values = self.values(key)
        return median(values) if values else None

    def jobs(self):
        return max((result["jobs"] for result in self.good if result.get("jobs")), default=None)

    def cut(self):
        return any(result.get("cut") for result in self.good)


def rows(results, step, part="", key="per_second", largest_first=True):
    """The rows of a step, the best first, those without any value last."""
    wanted = [result for result in results if result["step"] == step and result["part"] == part]
    names = list(dict.fromkeys(result["peer"] for result in wanted))
    found = [Row(name, [result for result in wanted if result["peer"] == name]) for name in names]
    sign = -1 if largest_first else 1
    return sorted(found, key=lambda row: (row.median(key) is None, sign * (row.median(key) or 0)))


def number(value, digits=None):
    if digits is None:
        digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"


def spread(row, key, digits=None):
    """`median (least–most)`, and what went wrong in place of it or beside it."""
    values = row.values(key)
    if not values:
        return f"failed: {cell(row.errors[0])}" if row.errors else "–"
    text = f"**{number(median(values), digits)}**"
    if len(values) > 1:
        text += f" ({number(min(values), digits)}–{number(max(values), digits)})"
    notes = [] if len(row.results) > 1 else ["1 run"]
    if row.errors:
        notes.append(f"{len(row.errors)} of {len(row.results)} runs failed: {cell(row.errors[0])}")
    return "; ".join([text, *notes])


def cell(text):
    return " ".join(str(text).split()).replace("|", "\\|")


def table(head, lines):
    out = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join(out + [f"| {' | '.join(line)} |" for line in lines])


def share(row, limit, key):
    mine, whole = row.median(key), limit.median(key) if limit else None
    return f"{mine / whole:.2f}" if mine and whole else "–"


def rate_table(found, *, key="per_second"):
    limit = next((row for row in found if row.name == "raw SQL"), None)
    return table(["", "jobs a second", "of raw SQL", "jobs"], [
        [name(row), spread(row, key) + ("; cut off" if row.cut() else ""), share(row, limit, key), count(row)]
        for row in found])


def name(row):
    return f"**{label(row.name)}**" if row.name == "turnwise" else label(row.name)


def count(row):
    return number(row.jobs(), 0) if row.jobs() else "–"


def page(data, picture):
    results, meta = data["results"], data["meta"]
    get = lambda *args, **more: rows(results, *args, **more)
    parts = [
        "# Benchmarks",
        f"Written by `{meta['command']}` ([how](../bench/README.md)) on {meta['date']}; do not edit. {meta['machine']}. Load and "
        "database share the machine. Jobs do nothing and carry about a hundred bytes of arguments. "
        "Everybody was measured in the same run, taking turns, each measurement in a new database of one throw-away cluster; "
        f"numbers are the median of {meta['runs']} runs (least–most), where nothing else is said.",
        f"PostgreSQL: {', '.join(f'{key} {value}' for key, value in meta['postgres'].items())}. Commits reach the disk before they "
        "are acknowledged, for everybody.",
        f"![Turnwise beside its peers: drained jobs, submitted jobs, latency]({picture})",
        "## Draining a backlog",
        "From the start of the worker on a full table to the last stored end; reading the backlog is counted in. Turnwise gives "
        "1,000 groups their turns meanwhile; the others go by the order of arrival. *raw SQL* is what the database can do without "
        "any queue: `skip locked` claims of 1,000, two connections.",
        "### Finished jobs deleted", rate_table(get("drain", "delete")),
        "### Finished jobs kept", rate_table(get("drain", "keep")),
        "## Submitting",
        "### One job a call, 50 callers", "Each is on disk when its call returns.", rate_table(get("submit")),
        "### Many jobs a call", "By the library's own call for that; *unnest* is raw SQL without COPY.",
        rate_table(sorted(get("bulk") + [as_named(row, "raw SQL, unnest") for row in get("bulk", "unnest")],
                          key=lambda row: -(row.median("per_second") or 0))),
        "## From submit to start",
        "One job every 50 ms on an idle system: from the acknowledged submit to the start of the handler, in milliseconds. Who "
        "submits and who runs are one process, except where it says *other node*: there they have only the database in common.",
        table(["", "p50", "p99", "jobs a run"], [
            [name(row), spread(row, "p50_ms", 2), spread(row, "p99_ms", 2) if row.good else "–", count(row)]
            for row in sorted(get("latency", key="p50_ms") + [as_named(row, "turnwise, other node") for row in get("latency", "other node")],
                              key=lambda row: (row.median("p50_ms") is None, row.median("p50_ms") or 0))]),
        "## While another session holds a snapshot",
        "A transaction stays open from before the jobs come, as a long report or a forgotten session does, so that nothing deleted "
        "or updated can be cleaned away. Rates of the first and of the last 10,000 jobs; who is not done after "
        f"{meta['pinned_seconds']} s is cut off, and its last are those before.",
        table(["", "first 10,000, a second", "last 10,000, a second", "all, a second", "jobs"], [
            [name(row), spread(row, "first_10k_per_second"), spread(row, "last_10k_per_second") if row.good else "–",
             spread(row, "per_second") + ("; cut off" if row.cut() else "") if row.good else "–", count(row)]
            for row in get("pinned", key="last_10k_per_second")]),
        "## Doing nothing",
        f"{meta['idle_counts'].capitalize()} a second of one idle worker, with the settings used for latency.",
        table(["", f"{meta['idle_counts']} a second"], [
            [name(row), spread(row, "per_second")] for row in get("idle", largest_first=False)]),
        "## Turnwise beside itself",
        "Drains as above, finished jobs deleted.",
        table(["", "jobs a second", "jobs", "memory, MB"], shape_lines(results)),
        "## SQLite",
        "`synchronous = full`; raw SQL is one connection with transactions of 1,000.",
        "### Draining", rate_table(get("sqlite", "drain")),
        "### Many jobs a call", rate_table(get("sqlite", "bulk")),
        "## Versions and settings",
        "The best settings that were found or are published for each, one set for throughput and one for waiting, where no one set "
        "is best at both.",
        table(["", "version", "what", "to drain", "to wait"], setting_lines(data)),
    ]
    return "\n\n".join(parts) + "\n"


def as_named(row, name):
    return Row(name, row.results)


def shape_lines(results):
    parts = list(dict.fromkeys(result["part"] for result in results if result["step"] == "shape"))
    return [[part, spread(row, "per_second"), count(row), number(row.median("rss_mb"), 0) if row.median("rss_mb") else "–"]
            for part in parts for row in rows(results, "shape", part)]


def setting_lines(data):
    def used(peer, *steps):
        return next((cell(result["settings"]) for step in steps for result in data["results"]
                     if result["peer"] == peer and result["step"] == step and result.get("settings")), "–")
    return [[peer["name"], peer["version"] or "–", peer["about"], used(peer["name"], "drain", "bulk"), used(peer["name"], "latency")]
            for peer in data["meta"]["peers"]]
