"""One program, run to its end or to its time limit."""

import json
import os
import signal
import subprocess


class Failed(Exception):
    """What a program said when it failed: one line, for the report."""


def run(words, timeout, env=None, cwd=None, quiet=True):
    """What the program prints; raises Failed when it fails or takes longer than `timeout` seconds."""
    program = subprocess.Popen(
        [str(word) for word in words], env={**clean_environment(), **(env or {})}, cwd=cwd, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE if quiet else None,
        start_new_session=True)
    try:
        out, err = program.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        stop(program)
        raise Failed(f"not done after {timeout:.0f} s") from None
    except BaseException:
        stop(program)
        raise
    if program.returncode:
        raise Failed(complaint(err or out) or f"exit status {program.returncode}")
    return out


def answer(words, timeout, env=None, cwd=None):
    """The JSON the program prints: all of it, or, where a library talks as well, its last line."""
    printed = run(words, timeout, env, cwd).strip()
    last = printed.rpartition("\n")[2]
    for text in (printed, last):
        try:
            return json.loads(text)
        except ValueError:
            pass
    raise Failed(f"no answer: {last or 'it printed nothing'}")


def start(words, env=None, cwd=None):
    """A program that goes on beside us; to be ended with `stop`."""
    return subprocess.Popen(
        [str(word) for word in words], env={**clean_environment(), **(env or {})}, cwd=cwd,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)


def stop(program):
    """Ends a program and whatever it started: some catch the gentler signals and go on."""
    try:
        os.killpg(program.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    program.wait()
    for pipe in (program.stdout, program.stderr):
        if pipe:
            pipe.close()


def complaint(text):
    """The one line of an error output that says most: the first that names an error, else the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() or "panicked" in line]
    return (telling or lines or [""])[0 if telling else -1][:300]


def clean_environment():
    """Without what would lead PostgreSQL's programs, or a driver, to another server."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith("PG") and name not in ("DATABASE_URL", "TURNWISE_DATABASE_URL", "TURNWISE_TEST_PG_URL")}
