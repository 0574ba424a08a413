"""What is measured. Everybody takes turns, so that a machine that grows slower is slower for all of them."""

import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .peers import OURS, RAW
from .run import Failed, answer, complaint, run, start, stop

#: Jobs of ours are spread over so many groups, which take turns; the others know no groups, or no turns.
GROUPS = 1_000
SLOTS = 8


@dataclass(frozen=True)
class Size:
    drain: int = 100_000
    bulk: int = 100_000
    submit: int = 10_000
    callers: int = 50
    latency: int = 100
    pinned: int = 300_000
    long: int = 1_000_000  # the longest backlog of ours
    drain_seconds: int = 60  # a drain that is not done then is told as far as it came
    pinned_seconds: int = 15
    idle_seconds: int = 10


FULL = Size()
QUICK = Size(drain=200, bulk=200, submit=40, callers=4, latency=5, pinned=200, long=400, idle_seconds=1)


class Bench:
    def __init__(self, cluster, programs, size, folder, say):
        self.cluster, self.programs, self.size, self.folder, self.say = cluster, programs, size, Path(folder), say
        self.results = []

    def measure(self, step, peers, rounds, part):
        """One step, everybody in turn, so many times. `part` names what is told apart within a step."""
        for round in range(1, rounds + 1):
            for peer in peers:
                begun = time.monotonic()
                try:
                    if peer.name in self.programs.errors:
                        raise Failed(self.programs.errors[peer.name])
                    told = STEPS[step](self, peer, part)
                except Failed as error:
                    told = {"error": str(error)}
                result = {"step": step, "part": part, "peer": peer.name, "round": round, **told}
                self.results.append(result)
                self.say(f"{step:8} {part:14} {round}/{rounds} {peer.name:16} {summary(told)}"
                         f"  [{time.monotonic() - begun:.0f} s]")

    def jobs(self, step, peer):
        usual = getattr(self.size, step)
        return min(usual, peer.jobs.get(step, usual))

    def driver(self, peer, url, *words, timeout, history="delete"):
        program, folder = self.programs.drivers[peer.name]
        return answer([*program, *words], timeout, {**self.environment(url), "HISTORY": history}, folder)

    def environment(self, url):
        """What every driver is told; that of a client of ours starts a server."""
        return {"DATABASE_URL": url, "TURNWISE": str(self.programs.turnwise)}

    def turnwise(self, url, mode, jobs, *more, groups=GROUPS, timeout=180):
        words = [self.programs.turnwise, "bench", "--database", url, "--mode", mode, "--jobs", jobs, "--groups", groups,
                 "--slots", SLOTS, "--json", *more]
        return {"settings": f"{SLOTS} slots, {groups:,} groups", **answer(words, timeout)}

    def database(self, peer):
        """A new database with the tables of this peer."""
        def setup(url):
            if peer is OURS:
                run([self.programs.turnwise, "--database", url, "migrate"], 120)
            else:
                self.driver(peer, url, "setup", timeout=120)

        try:
            template = self.cluster.template(peer.name, setup)
        except Failed as error:
            # It would fail for every other measurement too, and take its time each time.
            self.programs.errors[peer.name] = f"not set up: {error}"
            raise
        return self.cluster.database(template)

    @contextmanager
    def sqlite(self):
        """A SQLite database on the disk the project is on: a folder in memory would flatter it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            yield f"sqlite:{folder}/jobs.db"


def summary(told):
    if "error" in told:
        return f"FAILED: {told['error']}"
    if "p50_ms" in told and "p99_ms" in told and told["p50_ms"] is not None and told.get("mode", "latency") == "latency":
        return f"p50 {told['p50_ms']:.2f} ms, p99 {told['p99_ms']:.2f} ms"
    text = f"{told['per_second']:,.1f}/s"
    if told.get("last_10k_per_second"):
        text += f" (first 10k {told['first_10k_per_second']:,.0f}/s, last 10k {told['last_10k_per_second']:,.0f}/s)"
    return text + (" CUT" if told.get("cut") else "")


def filled(bench, peer, url, jobs):
    bench.driver(peer, url, "fill", jobs, timeout=120)
    # A table that was filled in one go has no statistics yet, and the planner of some peers depends on them.
    bench.cluster.psql("vacuum analyze", url)


def drain(bench, peer, history):
    with bench.database(peer) as url:
        jobs = bench.jobs("drain", peer)
        if peer is OURS:
            return bench.turnwise(url, "drain", jobs, "--history", history)
        filled(bench, peer, url, jobs)
        limit = bench.size.drain_seconds
        return bench.driver(peer, url, "drain", jobs, limit, timeout=limit + 30, history=history)


def bulk(bench, peer, how):
    with bench.database(peer) as url:
        jobs = bench.jobs("bulk", peer)
        if peer is OURS:
            return bench.turnwise(url, "bulk", jobs)
        return bench.driver(peer, url, "bulk", jobs, *([how] if how else []), timeout=120)


def submit(bench, peer, _):
    with bench.database(peer) as url:
        jobs, callers = bench.jobs("submit", peer), bench.size.callers
        if peer is OURS:
            return bench.turnwise(url, "submit", jobs, "--callers", callers)
        return bench.driver(peer, url, "submit", jobs, callers, timeout=120)


def latency(bench, peer, where):
    with bench.database(peer) as url:
        jobs = bench.jobs("latency", peer)
        if peer is OURS:
            return bench.turnwise(url, "latency", jobs, *(["--other-node"] if where else []))
        return bench.driver(peer, url, "latency", jobs, timeout=60)


def pinned(bench, peer, _):
    """The snapshot is taken before the jobs come: nothing that is deleted afterwards can be cleaned away."""
    with bench.database(peer) as url:
        jobs, limit = bench.jobs("pinned", peer), bench.size.pinned_seconds
        if peer is OURS:
            return bench.turnwise(url, "pinned", jobs)
        with bench.cluster.snapshot(url):
            bench.driver(peer, url, "fill", jobs, timeout=120)
            bench.cluster.psql("vacuum analyze", url)
            history = peer.histories[0]
            return bench.driver(peer, url, "drain", jobs, limit, timeout=limit + 30, history=history)


def idle(bench, peer, _):
    with bench.database(peer) as url:
        # Ours does some things only every few seconds: a short window would count them, or not, by chance.
        warm, seconds = 5, bench.size.idle_seconds * (3 if peer is OURS else 1)
        if peer is OURS:
            # It sets its tables up itself; more seconds than are counted, so that neither its beginning nor its end is.
            words = [bench.programs.turnwise, "bench", "--database", url, "--mode", "idle", "--slots", SLOTS,
                     "--seconds", warm + seconds + 30, "--json"]
            settings, program, folder = f"{SLOTS} slots", words, None
        else:
            program, folder = bench.programs.drivers[peer.name]
            program, settings = [*program, "idle", warm + seconds + 30], None
        bench.cluster.count_in(url)
        idler = start(program, bench.environment(url), folder)
        try:
            time.sleep(warm)
            began, before = time.monotonic(), bench.cluster.statements(url)
            time.sleep(seconds)
            after, ended = bench.cluster.statements(url), time.monotonic()
            if idler.poll() is not None:
                raise Failed(complaint(idler.stderr.read()) or "it ended by itself")
            return {"per_second": (after - before) / (ended - began), "settings": settings}
        finally:
            stop(idler)


#: Ours alone, held against itself: backlogs and groups in orders of magnitude.
SHAPES = {
    "10,000 jobs waiting": lambda size: (min(10_000, size.long), GROUPS),
    "1,000,000 jobs waiting": lambda size: (size.long, GROUPS),
    "10 groups": lambda size: (size.drain, 10),
    "100,000 groups": lambda size: (size.drain, 100_000),
}


def shape(bench, peer, name):
    with bench.database(peer) as url:
        jobs, groups = SHAPES[name](bench.size)
        return bench.turnwise(url, "drain", jobs, "--history", "delete", groups=groups)


def sqlite(bench, peer, verb):
    with bench.sqlite() as url:
        jobs = bench.jobs(verb, peer)
        if peer is OURS:
            return bench.turnwise(url, verb, jobs, "--history", "delete")
        bench.driver(peer, url, "setup", timeout=60)
        if verb == "drain":
            bench.driver(peer, url, "fill", jobs, timeout=60)
        return bench.driver(peer, url, verb, jobs, timeout=120)


STEPS = {"drain": drain, "bulk": bulk, "submit": submit, "latency": latency, "pinned": pinned, "idle": idle,
         "shape": shape, "sqlite": sqlite}


def all_steps(bench, peers, runs, slow_runs):
    """The whole programme."""
    can = lambda step: [peer for peer in peers if step in peer.steps]
    for history in ("delete", "keep"):
        bench.measure("drain", [peer for peer in can("drain") if history in peer.histories], runs, history)
    bench.measure("bulk", can("bulk"), runs, "")
    bench.measure("bulk", [RAW], runs, "unnest")
    bench.measure("submit", can("submit"), runs, "")
    bench.measure("latency", can("latency"), runs, "")
    bench.measure("latency", [OURS], runs, "other node")
    # These take half a minute for each: the two that are compared first are run as often as everything else.
    ours = [peer for peer in can("pinned") if peer in (OURS, RAW)]
    others = [peer for peer in can("pinned") if peer not in ours]
    bench.measure("pinned", ours, runs, "")
    bench.measure("pinned", others, slow_runs, "")
    bench.measure("idle", can("idle"), slow_runs, "")
    for name in SHAPES:
        bench.measure("shape", [OURS], runs, name)
    for verb in ("drain", "bulk"):
        bench.measure("sqlite", [OURS, RAW], runs, verb)
