"""The sentences of services that pages translate are sentences that services have."""

from __future__ import annotations

import ast

import pytest

from transferapi.config import CHECKOUT
from webui import reasons


def _constants() -> set[str]:
    trees = (ast.parse(path.read_text()) for path in (CHECKOUT / "identity").rglob("*.py"))
    return {node.value for tree in trees for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)}  # fmt: skip


SAID = _constants()


@pytest.mark.parametrize("text", reasons.KNOWN)
def test_a_sentence_that_is_translated_is_one_of_the_services(text: str) -> None:
    assert text in SAID


def test_a_sentence_that_is_not_known_stays_as_it_is() -> None:
    assert reasons.said("Nobody says this.") == "Nobody says this."
    assert reasons.said("") == ""
