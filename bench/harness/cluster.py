"""One throw-away PostgreSQL for everybody: a new database for each measurement, snapshots, counted statements."""

import itertools
import subprocess
from contextlib import contextmanager
from pathlib import Path

from .run import Failed, clean_environment, run


class Cluster:
    def __init__(self, testpg, durable):
        # It lives as long as the pipe to it: however we end, it is removed.
        hold = 'echo "$TURNWISE_TEST_PG_URL"; exec cat >/dev/null'
        self.keeper = subprocess.Popen(
            [str(testpg), "with", *(["--durable"] if durable else []), "sh", "-c", hold], env=clean_environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.url = self.keeper.stdout.readline().strip()
        if not self.url:
            raise SystemExit("bench/run: the PostgreSQL cluster did not start")
        own = Path(run([testpg, "where"], 20).strip()) / "psql"
        self.program = own if own.is_file() else "psql"
        self.numbers = itertools.count(1)
        self.templates = {}
        self.counts_statements = self.can_count()

    def close(self):
        self.keeper.stdin.close()
        self.keeper.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def psql(self, sql, url=None):
        words = [self.program, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url or self.url, "-c", sql]
        return run(words, 120).strip()

    def template(self, key, setup):
        """The name of a database that `setup` was called for, once for each key: some take long to set up."""
        if key not in self.templates:
            name = f"template_{next(self.numbers)}"
            self.psql(f"create database {name} template template0")
            setup(self.url_of(name))
            self.templates[key] = name
        name = self.templates[key]
        # A database that somebody is connected to cannot be copied, and not everybody leaves when asked.
        self.psql(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'")
        return name

    @contextmanager
    def database(self, template="template0"):
        """The URL of a new database, dropped afterwards."""
        name = f"bench_{next(self.numbers)}"
        self.psql(f"create database {name} template {template}")
        try:
            yield self.url_of(name)
        finally:
            self.psql(f"drop database {name} with (force)")

    def url_of(self, database):
        return f"{self.url.rpartition('/')[0]}/{database}"

    @contextmanager
    def snapshot(self, url):
        """Holds a snapshot open, as a forgotten transaction or a long report does."""
        begin = "begin isolation level repeatable read; select pg_current_xact_id(); select count(*) from pg_class;"
        holder = subprocess.Popen(
            [str(self.program), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url], env=clean_environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            holder.stdin.write(begin + "\n")
            holder.stdin.flush()
            if not (holder.stdout.readline() and holder.stdout.readline()):
                raise Failed("the snapshot could not be taken")
            yield
            # Without it the measurement would be another one.
            if holder.poll() is not None:
                raise Failed("the snapshot did not last")
        finally:
            holder.kill()
            holder.communicate()

    def can_count(self):
        try:
            self.psql("create extension if not exists pg_stat_statements")
            self.psql("select count(*) from pg_stat_statements")
            return True
        except Failed:
            return False

    def count_in(self, url):
        """From here on the statements of new sessions of this database are counted."""
        if self.counts_statements:
            name = url.rpartition("/")[2]
            self.psql(f"alter database {name} set pg_stat_statements.track = 'top'")

    def statements(self, url):
        """How many statements (or, where the server cannot count them, transactions) this database has seen."""
        name = url.rpartition("/")[2]
        counted = (f"select coalesce(sum(calls), 0) from pg_stat_statements s join pg_database d on d.oid = s.dbid"
                   f" where datname = '{name}'" if self.counts_statements else
                   f"select xact_commit + xact_rollback from pg_stat_database where datname = '{name}'")
        return int(self.psql(counted))

    def settings(self):
        names = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size",
                 "max_connections")
        return {name: self.psql(f"show {name}") for name in names}
