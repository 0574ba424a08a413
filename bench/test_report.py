"""The report tells of everybody, also of those who failed. Run by `bench/run --quick`."""

import unittest
import xml.etree.ElementTree as xml

from harness import peers, plot, report
from harness.run import Failed, complaint, run


def result(step, peer, part="", round=1, **told):
    return {"step": step, "part": part, "peer": peer, "round": round, **told}


def data(*results):
    meta = {"command": "bench/run", "date": "2026-01-01", "machine": "Machine: one", "runs": 3, "postgres": {"fsync": "on"},
            "pinned_seconds": 15, "idle_counts": "statements",
            "peers": [{"name": "turnwise", "about": "Rust", "version": "1"}]}
    return {"meta": meta, "results": list(results)}


# Those that came after the committed page was written.
NOT_ON_THE_PAGE = {"turnwise-python"}


class Report(unittest.TestCase):
    def test_a_median_stands_with_the_least_and_the_most(self):
        row = report.rows([result("drain", "a", "delete", n, per_second=rate)
                           for n, rate in enumerate((3_000, 1_000, 2_500))], "drain", "delete")[0]
        self.assertEqual(report.spread(row, "per_second"), "**2,500** (1,000–3,000)")

    def test_one_run_is_called_one_run(self):
        row = report.rows([result("drain", "a", per_second=5.5)], "drain")[0]
        self.assertEqual(report.spread(row, "per_second"), "**5.50**; 1 run")

    def test_a_peer_that_failed_is_in_the_table_with_what_it_said(self):
        told = data(result("drain", "broken", "delete", error="error: no | such thing"),
                    result("drain", "turnwise", "delete", per_second=10.0, jobs=10))
        self.assertIn("| broken | failed: error: no \\| such thing | – | – |", report.page(told, "x.svg"))
        self.assertIn(">broken</text>", plot.picture(told))

    def test_a_run_that_failed_among_others_is_told(self):
        row = report.rows([result("drain", "a", per_second=7.0), result("drain", "a", round=2, error="boom")], "drain")[0]
        self.assertEqual(report.spread(row, "per_second"), "**7.00**; 1 of 2 runs failed: boom")

    def test_the_quickest_is_first_and_the_failed_last(self):
        found = report.rows([result("drain", "failed", error="x"), result("drain", "slow", per_second=1.0),
                             result("drain", "quick", per_second=9.0)], "drain")
        self.assertEqual([row.name for row in found], ["quick", "slow", "failed"])

    def test_the_share_of_the_limit_is_of_its_median(self):
        table = report.rate_table(report.rows(
            [result("drain", "a", per_second=50.0), result("drain", "raw SQL", per_second=200.0)], "drain"))
        self.assertIn("| a | **50.0**; 1 run | 0.25 | – |", table)

    def test_a_drain_that_was_cut_off_says_so(self):
        table = report.rate_table(report.rows([result("drain", "a", per_second=50.0, jobs=7, cut=True)], "drain"))
        self.assertIn("cut off", table)

    def test_every_row_and_bar_has_the_language_of_its_peer(self):
        told = data(result("drain", "pg-boss", "delete", per_second=10.0), result("drain", "raw SQL", "delete", per_second=20.0),
                    result("latency", "turnwise", "other node", p50_ms=1.0, p99_ms=2.0), result("latency", "pg-boss", p50_ms=2.0))
        page = report.page(told, "x.svg")
        for row in ("| pg-boss (Node) | **10.0**", "| raw SQL | **20.0**", "| turnwise, other node (Rust) | **1.00**"):
            self.assertIn(row, page)
        self.assertIn(">pg-boss (Node)</text>", plot.picture(told))

    def test_the_committed_page_and_picture_name_languages(self):
        page, measured = (peers.ROOT / "docs/benchmarks.md").read_text().split("## Versions and settings")
        picture = (peers.ROOT / "docs/benchmarks.svg").read_text()
        self.assertIn(f"| {peers.OURS.name} |", measured)
        for peer in peers.PEERS:
            if peer.name in NOT_ON_THE_PAGE:
                self.assertNotIn(f"| {peer.name} |", measured, "it was measured: take it from this list")
                continue
            if peer.language:
                self.assertIn(peers.label(peer.name), page)
                self.assertIn(f">{peers.label(peer.name)}</text>", picture)
            for bare in (f"| {peer.name} |", f"| **{peer.name}** |"):
                self.assertEqual(bare in page, peer.language is None and "**" not in bare, bare)

    def test_the_picture_is_xml(self):
        xml.fromstring(plot.picture(data(result("latency", "a<b", p50_ms=1.0, p99_ms=2.0))))


class Run(unittest.TestCase):
    def test_a_program_that_takes_too_long_is_ended_and_said_so(self):
        with self.assertRaisesRegex(Failed, "not done after 0 s"):
            run(["sleep", "60"], 0.01)

    def test_a_program_that_fails_is_quoted(self):
        with self.assertRaisesRegex(Failed, "Error: no table"):
            run(["sh", "-c", "echo 'Error: no table' >&2; echo 'at line 7' >&2; exit 3"], 20)

    def test_the_line_that_names_an_error_says_most(self):
        self.assertEqual(complaint("warning: x\nerror[E1]: y\n  --> z\n"), "error[E1]: y")
        self.assertEqual(complaint("one\ntwo\n"), "two")


if __name__ == "__main__":
    unittest.main()
