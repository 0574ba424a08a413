"""The table of pages, and what stands for the names in their paths. A plain page needs no line here."""

import re

# What stands for the name in a path, by where the path begins; a function gets the jobs of `scene.trouble`.
NAMES = {
    "/groups/": lambda jobs: "acme",
    "/jobs/": lambda jobs: jobs["stuck"][0],
    "/queues/": lambda jobs: "slow",
    "/tasks/": lambda jobs: "extract",
    "/schedules/": lambda jobs: "nightly",
    "/nodes/": lambda jobs: "node",
}
# What a page must be asked with.
QUERIES = {
    "/group": "name=acme",
    "/groups/{name}/what-if": "weight=2",
    "/decide": "do=cancel&filter=group:acme",
}
# What is no page for people, or comes from another one, with who tries it.
ELSEWHERE = {
    "/assets/{name}": "every page has them",
    "/decide/{number}": "errands.py: a decision about all jobs of a filter",
    "/embed": "embed.py: it is empty without a ticket",
    "/jobs/suggest": "keys.py: what may be written next in a filter",
}


class Table:
    """What `pages()` of the server lists."""

    def __init__(self, rows, jobs):
        self.rows, self.jobs = rows, jobs

    def shown(self):
        """Path of the table and address of every page that can be opened."""
        found = []
        for row in self.rows:
            if row["verb"] != "GET" or row["path"] in ELSEWHERE:
                continue
            found.append((row["path"], self.address(row["path"])))
        return found

    def address(self, path):
        """Where a page of the table is, without the first slash."""
        named = re.search(r"\{[^}]*\}", path)
        if named:
            names = [name for begin, name in NAMES.items() if path.startswith(begin)]
            if not names:
                raise AssertionError(f"{path}: nothing stands for its name; give it a line in NAMES of table.py")
            path_filled = path.replace(named[0], names[0](self.jobs))
        else:
            path_filled = path
        query = QUERIES.get(path)
        return path_filled[1:] + (f"?{query}" if query else "")

    def forms(self):
        """The routes of the API that forms ask, with where the forms are sent."""
        return {row["errand"]: row["path"] for row in self.rows if row["errand"]}

    def has(self, path):
        return any(row["path"] == path and row["verb"] == "GET" for row in self.rows)
