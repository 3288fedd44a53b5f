"""Expecting a refusal, as `pytest.raises` expects a class."""

from __future__ import annotations

from typing import Any

import pytest

from identity.error_categories import Refusal, RefusedError


def raises_refusal(expected: Refusal | type[Exception], *, match: str | None = None) -> pytest.RaisesExc[Any]:
    """The context expects a RefusedError of this value, or an error of this class."""
    if isinstance(expected, Refusal):
        return pytest.raises(RefusedError, match=match, check=lambda error: error.refusal is expected)
    return pytest.raises(expected, match=match)


def kind_of(result: object) -> object:
    """The value of a refusal; the class of anything else."""
    return result.refusal if isinstance(result, RefusedError) else type(result)
