"""The canned documents: one for each shape, complete, and what the service sends and takes."""

from __future__ import annotations

import pytest

from tests.integration.described import assert_valid
from transferapi.rest import canned
from transferapi.rest.requests import REQUESTS
from transferapi.rest.shapes import ANSWERS


def test_every_shape_has_its_document_and_no_document_is_without_a_shape() -> None:
    assert set(canned.ANSWERS) == set(ANSWERS)
    assert set(canned.REQUESTS) == set(REQUESTS)


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_a_document_that_goes_out_is_complete_and_as_it_is_described(name: str) -> None:
    assert_valid(ANSWERS[name], canned.ANSWERS[name], whole=True)


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_a_document_that_comes_in_is_as_it_is_described(name: str) -> None:
    assert_valid(REQUESTS[name], canned.REQUESTS[name])


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_a_field_that_is_missing_or_that_nobody_described_is_seen(name: str) -> None:
    document = canned.ANSWERS[name]
    always = sorted(set(ANSWERS[name]["properties"]) & set(document) - set(ANSWERS[name].get("x-sometimes", ())))
    for field in always:
        with pytest.raises(AssertionError):
            assert_valid(ANSWERS[name], {one: document[one] for one in document if one != field}, whole=True)
    with pytest.raises(AssertionError):
        assert_valid(ANSWERS[name], {**document, "unheard_of": 1})
