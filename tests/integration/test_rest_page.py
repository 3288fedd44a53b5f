"""docs/rest-api.md says what is there: its tables against the router, the errors and the options."""

from __future__ import annotations

import re

import pytest

from tests.integration.rest import routes
from transferapi.config import CHECKOUT
from transferapi.tasks import options

PAGE = (CHECKOUT / "docs" / "rest-api.md").read_text()


def test_the_page_has_every_route_and_no_other() -> None:
    told = set(re.findall(r"^\| (GET|POST|PUT|DELETE) `([^`]+)` \|", PAGE, re.MULTILINE))
    letters = {"<str:endpoint>": "E", "<str:task>": "T", "<str:server>": "N", "<str:bookmark>": "B"}
    known = set()
    for method, route in routes():
        for long, short in letters.items():
            route = route.replace(long, short)
        known.add((method, route))
    assert told == known


def test_the_page_names_everything_that_is_refused_for_now() -> None:
    section = PAGE.partition("## What is not there yet")[2]
    assert {name for name in options.NOT_YET if f"`{name}`" not in section} == set()


def test_the_page_has_every_code_of_our_errors() -> None:
    source = (CHECKOUT / "transferapi" / "rest" / "errors.py").read_text()
    codes = set(re.findall(r'"((?:ClientError|ExternalError)\.[A-Za-z.]+|EndpointNotFound|PermissionDenied)"', source))
    assert len(codes) > 5
    table = PAGE.partition("## Errors")[2]
    # 429 is in the table of statuses only: nothing is bounded by rate yet.
    assert {code for code in codes if f"`{code}`" not in table} <= {"ClientError.TooManyRequests"}


@pytest.mark.parametrize("language", ["sh", "python"])
def test_the_page_has_an_example_in_each_language_for_each_call(language: str) -> None:
    code = "".join(re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL))
    for call in ("/endpoint", "/transfer", "/delete", "/submission_id", "/task/", "/mkdir", "/ls"):
        assert call in code
