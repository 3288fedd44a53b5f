"""The table of the wide-area benchmark says what the runs gave, and never makes a failure look like a figure."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from bench.wan import report
from bench.wan.datasets import DataSet
from bench.wan.report import Result
from bench.wan.tools import grid, paper_plan

BEST = report.EXPERT


def result(
    tool: str, speed: float, options: str = "", *, number: int = 1, search: bool = False, outcome: str = "done"
) -> Result:
    return Result(
        when="2026-01-01",
        set="DS6",
        files=2560,
        total=256_000_000,
        rtt_ms=60,
        loss=0,
        tool=tool,
        options=options,
        round=number,
        search=search,
        outcome=outcome,
        seconds=256 / speed,
        mb_per_s=speed,
        dropped=0,
        lost=0,
        idle=1,
        late=0,
    )


def speed(results: list[Result], tool: str) -> float | None:
    found = report.figure(results, tool)
    assert found is not None
    return found.speed


def test_rounds_count_with_their_median() -> None:
    assert speed([result("guc-paper", value) for value in (10, 50, 20)], "guc-paper") == 20


def test_the_first_run_of_ours_stands_apart() -> None:
    runs = [result("ours-adaptive", 20, number=0), *(result("ours-adaptive", 40, number=n) for n in (1, 2))]
    found = report.figure(runs, "ours-adaptive")
    assert found is not None
    assert (found.speed, found.cold) == (40, 20)


def test_the_better_median_is_the_experts_best_and_a_lucky_search_is_not() -> None:
    runs = [result(BEST, 90, "-cc 1", search=True)]
    runs += [result(BEST, value, "-cc 1") for value in (40, 42)]
    runs += [result(BEST, value, "-cc 2") for value in (50, 52)]
    found = report.figure(runs, BEST)
    assert found is not None
    assert (found.speed, found.options) == (51, "-cc 2")


def test_an_expert_is_never_behind_the_papers_settings() -> None:
    runs = [result("guc-paper", 60, "-cc 2"), result(BEST, 50, "-cc 8"), result("ours-paper", 90)]
    found = report.figure(runs, BEST)
    assert found is not None
    assert (found.speed, found.options) == (60, "-cc 2")
    assert report.figure([result("guc-paper", 60)], BEST) is None


def test_a_wrong_or_failed_run_has_no_figure() -> None:
    runs = [result("ours-paper", 100), result("ours-paper", 100, outcome="wrong: what arrived is not what was sent")]
    assert str(report.figure(runs, "ours-paper")) == "failed"


def test_a_first_run_that_failed_counts_as_a_failure() -> None:
    runs = [result("ours-paper", 100, number=0, outcome="failed: refused"), result("ours-paper", 100)]
    assert str(report.figure(runs, "ours-paper")) == "failed"


def test_a_run_that_was_stopped_is_marked() -> None:
    assert str(report.figure([result("scp", 0.4, outcome="slow")], "scp")) == "0.4 (0.00), > 640 s"


def test_the_table_has_the_ratios_of_the_bar() -> None:
    runs = [result("guc-paper", 20), result(BEST, 50, "-cc 8"), result("ours-paper", 30), result("ours-adaptive", 75)]
    row = report.table(runs).splitlines()[4]
    assert "| 75.0 (0.60) |" in row
    assert row.endswith("| 1.50 | 1.50 | -cc 8 |")


@pytest.mark.parametrize(("idle", "late"), [(0.01, 0.0), (0.5, 0.03)])
def test_a_figure_of_a_busy_machine_is_marked(idle: float, late: float) -> None:
    busy = replace(result("ours-adaptive", 75), idle=idle, late=late)
    table = report.table([result("guc-paper", 20), busy])
    assert "| 20.0 (0.16) | 75.0 (0.60)† |" in table
    assert "† the machine was the limit: under 5% idle or over 1% of packets late" in table
    assert "†" not in report.table([result("ours-adaptive", 75)])


def test_the_plot_is_well_formed_and_has_every_tool() -> None:
    plot = report.plot([result("guc-paper", 20), result("ours-adaptive", 75)])
    texts = [element.text for element in ElementTree.fromstring(plot).iter() if element.text]
    assert set(report.NAMES.values()) <= set(texts)


def test_results_are_read_as_they_were_written(tmp_path) -> None:
    runs = [result("guc-paper", 20), result("scp", 0.4, outcome="slow")]
    for one in runs:
        report.append(tmp_path / "results", one)
    assert report.read(tmp_path / "results") == runs


def test_the_papers_settings_follow_the_papers_rules() -> None:
    plans = [paper_plan(DataSet("", files, total)) for files, total in ((2560, 256 * 10**6), (16, 10**9), (1, 10**9))]
    assert [(plan.concurrency, plan.parallelism) for plan in plans] == [(2, 2), (2, 4), (2, 8)]


def test_an_expert_uses_no_more_lanes_than_there_are_files() -> None:
    tried = grid(DataSet("", 4, 10**6), (1, 2, 4, 8, 16, 32), (1, 2))
    assert sorted(tried) == [(1, 1), (1, 2), (2, 1), (2, 2), (4, 1), (4, 2)]
