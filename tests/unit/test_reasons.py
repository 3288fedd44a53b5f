"""The sentences of services that pages and mails translate are sentences that services have."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from transferapi.config import CHECKOUT
from transferapi.tasks.notify import reasons as mail_reasons
from webui import reasons


@cache
def said() -> set[str]:
    """All texts in the code of the services."""
    places = [CHECKOUT / place for place in ("identity", "transferapi/tasks", "workers/engine", "endpoints/gridftp")]
    paths = {path for place in places for path in place.rglob("*.py")} - {Path(mail_reasons.__file__)}
    trees = (ast.parse(path.read_text()) for path in paths)
    return {node.value for tree in trees for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)}  # fmt: skip


@pytest.mark.parametrize("text", [*reasons.KNOWN, *mail_reasons.KNOWN])
def test_a_sentence_that_is_translated_is_one_of_the_services(text: str) -> None:
    assert text in said()


def test_a_sentence_that_is_not_known_stays_as_it_is() -> None:
    assert reasons.said("Nobody says this.") == "Nobody says this."
    assert reasons.said("") == ""
