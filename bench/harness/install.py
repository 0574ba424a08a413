"""How the peers get here: from their registries, at the versions of the lock files, into a folder of their own."""

import hashlib
import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from .peers import BENCH, ROOT
from .run import Failed, run

#: Seconds. Building all of the Rust peers anew takes minutes; everything is there afterwards.
LIMIT = 3_600


@dataclass
class Programs:
    """Where the programs are, and why a peer has none."""

    turnwise: Path
    testpg: Path
    drivers: dict  # name of the peer → (words, folder)
    versions: dict
    errors: dict  # name of the peer → one line


def install(peers, debug, say):
    target = target_folder()
    # A debug build does for a sanity run, and no time is taken of it. Asked for together with the tests it is the very build that
    # the tests have made; the three programs alone have fewer features, and most crates would be built once more.
    profile = "debug" if debug else "release"
    say(f"build turnwise ({profile})")
    which = ["--workspace", "--bins", "--tests"] if debug else [
        "--release", "-p", "turnwise-cli", "-p", "turnwise-testpg", "-p", "turnwise-bench-raw"]
    run(["cargo", "build", "--locked", *which], LIMIT, cwd=ROOT, quiet=False)
    built = target / profile
    programs = Programs(built / "turnwise", built / "turnwise-testpg", {}, {}, {})
    programs.drivers["raw SQL"] = ([built / "turnwise-bench-raw"], ROOT)
    programs.versions["turnwise"] = turnwise_version(programs.turnwise)
    programs.versions["raw SQL"] = ""
    home = target / "bench"
    for kind, bring in (("rust", rust), ("node", node), ("python", python)):
        wanted = [peer for peer in peers if peer.kind == kind]
        if wanted:
            say(f"install {', '.join(peer.name for peer in wanted)}")
            bring(wanted, home / kind, programs)
    return programs


def target_folder():
    metadata = run(["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"], 60, cwd=ROOT)
    return Path(json.loads(metadata)["target_directory"])


def turnwise_version(program):
    version = run([program, "--version"], 20).split()[-1]
    try:
        return f"{version}, {run(['git', 'describe', '--always', '--dirty'], 20, cwd=ROOT).strip()}"
    except (Failed, OSError):
        return version  # a copy without its history


def rust(peers, home, programs):
    folder = BENCH / "peers/rust"
    built = {peer.name: home / "release" / f"peer-{peer.name}" for peer in peers}
    for program in built.values():
        # Cargo puts it back if it is up to date: what is there afterwards was built from what is here now.
        program.unlink(missing_ok=True)
    failure = None
    try:
        # All at once, whoever is wanted: built one by one they would share fewer crates. What one of them needs may not
        # build; the others are measured all the same.
        run(["cargo", "build", "--release", "--locked", "--keep-going", "--manifest-path", folder / "Cargo.toml",
             "--target-dir", home], LIMIT, cwd=folder)
    except (Failed, OSError) as error:
        failure = error
    for peer in peers:
        if built[peer.name].exists():
            programs.drivers[peer.name] = ([built[peer.name]], home)
            programs.versions[peer.name] = locked_crate(folder / "Cargo.lock", peer.name)
        else:
            programs.errors[peer.name] = f"not installed: {failure}"


def locked_crate(lock, name):
    lines = lock.read_text().splitlines()
    at = lines.index(f'name = "{name}"')
    return lines[at + 1].split('"')[1]


def node(peers, home, programs):
    folder = BENCH / "peers/node"
    try:
        once(home, [folder / "package-lock.json"], lambda: (
            shutil.copy(folder / "package.json", home), shutil.copy(folder / "package-lock.json", home),
            run(["npm", "ci", "--no-audit", "--no-fund"], LIMIT, cwd=home)))
    except (Failed, OSError) as error:
        programs.errors.update({peer.name: f"not installed: {error}" for peer in peers})
        return
    # Beside node_modules, where they find what they import.
    for driver in folder.glob("*.mjs"):
        shutil.copy(driver, home)
    packages = json.loads((folder / "package-lock.json").read_text())["packages"]
    for peer in peers:
        programs.drivers[peer.name] = ([home / "node_modules/node/bin/node", home / f"{peer.name}.mjs"], home)
        programs.versions[peer.name] = packages[f"node_modules/{peer.name}"]["version"]


def python(peers, home, programs):
    folder = BENCH / "peers/python"
    wanted = folder / "requirements.txt"
    interpreter = home / "bin/python"
    try:
        once(home, [wanted], lambda: (
            run([sys.executable, "-m", "venv", "--clear", home], 300),
            run([interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r", wanted], LIMIT)))
    except (Failed, OSError) as error:
        programs.errors.update({peer.name: f"not installed: {error}" for peer in peers})
        return
    versions = dict(line.split("==") for line in wanted.read_text().splitlines() if "==" in line)
    for peer in peers:
        programs.drivers[peer.name] = ([interpreter, folder / f"peer_{peer.name}.py"], home)
        # Our own client is no package of a registry.
        programs.versions[peer.name] = versions.get(peer.name) or programs.versions["turnwise"]


def once(home, locks, bring):
    """Calls `bring` unless what these lock files name is already in `home`."""
    digest = hashlib.sha256(b"".join(lock.read_bytes() for lock in locks)).hexdigest()
    stamp = home / "installed"
    if stamp.exists() and stamp.read_text() == digest:
        return
    os.makedirs(home, exist_ok=True)
    bring()
    stamp.write_text(digest)
