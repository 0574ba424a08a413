"""Who is measured: each by one driver that knows the same verbs."""

from dataclasses import dataclass, field
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
ROOT = BENCH.parent


@dataclass(frozen=True)
class Peer:
    name: str
    kind: str  # how it is installed, see install.py
    about: str  # its language and where it comes from
    histories: tuple = ("delete",)  # what it can do with finished jobs: "delete", "keep"
    #: Fewer jobs than the others where it would take minutes; the report tells how many there were.
    jobs: dict = field(default_factory=dict)
    steps: tuple = ("drain", "bulk", "submit", "latency", "pinned", "idle")

    @property
    def language(self):
        return None if self.kind == "raw" else self.about.split(",")[0]


OURS = Peer("turnwise", "turnwise", "Rust, this repository", ("delete", "keep"))
RAW = Peer("raw SQL", "raw", "our own limit, no queue", ("delete", "keep"), steps=("drain", "bulk", "submit", "pinned"))

PEERS = (
    OURS,
    RAW,
    Peer("graphile_worker", "rust", "Rust, crates.io", jobs={"submit": 3_000}),
    Peer("awa", "rust", "Rust, crates.io", ("keep",), jobs={"submit": 2_000}),
    Peer("riverqueue", "rust", "Rust, crates.io", ("keep",), jobs={"bulk": 10_000}),
    Peer("apalis", "rust", "Rust, crates.io", ("keep",)),
    Peer("graphile-worker", "node", "Node, npm", jobs={"submit": 3_000}),
    Peer("pg-boss", "node", "Node, npm", ("keep",)),
    Peer("procrastinate", "python", "Python, PyPI", ("delete", "keep"),
         {"drain": 3_000, "bulk": 20_000, "submit": 3_000, "pinned": 20_000}),
    Peer("pgqueuer", "python", "Python, PyPI"),
    Peer("turnwise-python", "python", "Python, this repository, over HTTP", ("delete", "keep")),
)


def label(name):
    """The name with the peer's language; also of a row like `turnwise, other node`."""
    peer = next((peer for peer in PEERS if peer.name == name.split(",")[0]), None)
    return f"{name} ({peer.language})" if peer and peer.language else name


def named(names):
    """The peers with these names, in the order of the table; Turnwise and the limit are always among them."""
    unknown = set(names) - {peer.name for peer in PEERS} - {"raw"}
    if unknown:
        raise SystemExit(f"bench/run: unknown peer {', '.join(sorted(unknown))}; "
                         f"there are: {', '.join(peer.name for peer in PEERS)}")
    return [peer for peer in PEERS if peer in (OURS, RAW) or peer.name in names]
