"""The table of a drill, with the bars beside the figures."""

from __future__ import annotations

from collections.abc import Sequence

from bench.drill.faults import Fault
from bench.drill.run import Outcome
from bench.table import machine

#: Letters of a problem that are shown.
MOST_SAID = 400
#: The part of the requests that may fail.
MOST_FAILED = 0.05
HEAD = ("fault", "longest stall", "API away (GET, POST)", "requests failed", "takeover", "bars", "result")


def table(title: str, outcomes: Sequence[Outcome]) -> str:
    """Markdown."""
    lines = [f"{title} ({machine()}). Times in seconds.", "", _line(HEAD), _line(["---"] * len(HEAD))]
    lines += [_line(_cells(one)) for one in outcomes]
    problems = [f"- **{one.fault.name}**: {_one_line(words)}" for one in outcomes for words in one.problems[:10]]
    return "\n".join([*lines, *([""] if problems else []), *problems, ""])


def _one_line(words: str) -> str:
    """The end of the output of a program has the cause."""
    text = " ".join(words.split())
    return text if len(text) <= MOST_SAID else f"... {text[-MOST_SAID:]}"


def missed(outcome: Outcome) -> list[str]:
    """The bars that were missed, in words. Where no task was taken over, the bar of a takeover is not proven."""
    fault = outcome.fault
    if fault.look:
        return []
    found = (
        ("stall", outcome.stall, fault.stall),
        ("API", max(outcome.get_away, outcome.post_away), fault.away),
        ("takeover", outcome.takeover or 0.0, fault.takeover),
    )
    words = [name for name, value, bar in found if bar is not None and value > bar]
    if fault.takeover is not None and outcome.takeover is None:
        words.append("no takeover")
    return words + (["failed requests"] if _fails_too_often(outcome) else [])


def _fails_too_often(outcome: Outcome) -> bool:
    """All requests count; where the fault takes the API away, those outside of the time for which it was away."""
    if outcome.fault.all_served:
        return outcome.failed > 0
    if _api_goes(outcome.fault):
        return outcome.scattered > MOST_FAILED * outcome.outside
    return outcome.failed > MOST_FAILED * outcome.requests


def _api_goes(fault: Fault) -> bool:
    return fault.api_goes or fault.away is None


def _cells(outcome: Outcome) -> list[str]:
    words = outcome.words + "".join(f"; {note}" for note in outcome.notes)
    result = outcome.found or f"{outcome.files} files right"
    result = "wrong, see below" if outcome.problems else result
    if outcome.fault.look:
        return [words, "", "", "", "", "", result]
    if over := missed(outcome):
        result += f"; over the bar: {', '.join(over)}"
    return [
        words,
        f"{outcome.stall:.1f}",
        f"{outcome.get_away:.1f}, {outcome.post_away:.1f}",
        f"{outcome.failed} of {outcome.requests}",
        "" if outcome.takeover is None else f"{outcome.takeover:.1f}",
        _bars(outcome),
        result,
    ]


def _bars(outcome: Outcome) -> str:
    fault = outcome.fault
    named = (("stall", fault.stall), ("API", fault.away), ("takeover", fault.takeover))
    words = [f"{name} {bar:g}" for name, bar in named if bar is not None]
    where = " at other times" if _api_goes(fault) else ""
    return ", ".join([*words, "no request failed" if fault.all_served else f"{MOST_FAILED:.0%} failed{where}"])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
