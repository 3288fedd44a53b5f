"""docs/rest-api.md says what is there: its tables against the router, the errors and the options."""

from __future__ import annotations

import re

import pytest

from tests.integration.rest import routes
from transferapi.config import CHECKOUT
from transferapi.tasks import options

PAGE = (CHECKOUT / "docs" / "rest-api.md").read_text()


#: The letter for a part of a path on the page, if it is not the first letter of its name.
_LETTERS = {"server": "N"}


def _told(route: str) -> str:
    """The route as the page writes it: without the prefix v0.10, and a capital letter for each variable part."""
    name = route.removeprefix("v0.10/") if route.startswith("v0.10/") else f"/{route}"
    return re.sub(r"<\w+:(\w+)>", lambda part: _LETTERS.get(part[1], part[1][0].upper()), name)


def test_the_page_has_every_route_and_no_other() -> None:
    told = set(re.findall(r"^\| (GET|POST|PUT|PATCH|DELETE) `([^`]+)` \|", PAGE, re.MULTILINE))
    assert told == {(method, _told(route)) for method, route in routes() if route}


def test_the_page_names_everything_that_is_refused_for_now() -> None:
    section = PAGE.partition("## Not supported yet")[2]
    assert {name for name in options.NOT_YET if f"`{name}`" not in section} == set()


def test_the_page_has_every_code_of_our_errors() -> None:
    source = (CHECKOUT / "transferapi" / "rest" / "http" / "errors.py").read_text()
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
