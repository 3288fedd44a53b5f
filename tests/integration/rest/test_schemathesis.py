"""Schemathesis sends each route of the OpenAPI description whatever the description allows, and some that it does not:
never a 500, and every answer is as it is described (`rest.Api` looks at that)."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.core import NotSet

from tests.integration.described import description
from tests.integration.expectations import Things, World
from transferapi.rest.openapi.description import FORM

pytestmark = pytest.mark.django_db

EXAMPLES = 8
#: Answers that have no end.
_STREAM = "text/event-stream"


def _operations() -> list[tuple[str, str]]:
    return [
        (method.upper(), path)
        for path, methods in description()["paths"].items()
        for method, described in methods.items()
        if _STREAM not in str(described["responses"]) and FORM not in str(described.get("requestBody"))
    ]


@pytest.fixture
def things(world: World, db: None) -> Things:
    """One of each, alice's."""
    return world.stage.private


@pytest.fixture(scope="module")
def schema() -> Any:
    return schemathesis.openapi.from_dict(description())


@pytest.mark.parametrize("key", _operations(), ids=" ".join)
def test_no_document_of_a_client_makes_the_service_fail(
    schema: Any, world: World, things: Things, key: tuple[str, str]
) -> None:
    method, path = key
    api = world.apis["alice"]

    @settings(
        max_examples=EXAMPLES, derandomize=True, deadline=None, database=None, phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=schema[path][method].as_strategy(), real=st.integers(0, 3))
    def send(case: Any, real: int) -> None:
        if real:
            case.path_parameters = {name: things.get(name, one) for name, one in (case.path_parameters or {}).items()}
        body = None if isinstance(case.body, NotSet) else _about(case.body, things) if real > 1 else case.body
        if isinstance(body, bytes):
            return
        query = {name: value for name, value in (case.query or {}).items() if value is not None}
        answer = api.call(method, case.formatted_path, body, query=query)
        assert answer.status != 500, (case.formatted_path, query, body)

    send()


def _about(body: Any, things: Things) -> Any:
    """With what there is in place of names that there are not, so that more is looked at than a name."""
    if isinstance(body, dict):
        return {
            name: things["endpoint"] if name.endswith("endpoint") else _about(one, things) for name, one in body.items()
        }
    return [_about(one, things) for one in body] if isinstance(body, list) else body
