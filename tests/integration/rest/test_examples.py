"""The canned documents: one for each shape, complete, and what the service sends and takes."""

from __future__ import annotations

import pytest

from tests.integration.described import assert_valid
from transferapi.rest.openapi import components
from transferapi.rest.openapi.components import REQUESTS, RESPONSES


def test_every_shape_has_its_document_and_no_document_is_without_a_shape() -> None:
    assert set(components.RESPONSE_EXAMPLES) == set(RESPONSES)
    assert set(components.REQUEST_EXAMPLES) == set(REQUESTS)


@pytest.mark.parametrize("name", sorted(RESPONSES))
def test_a_document_that_goes_out_is_complete_and_as_it_is_described(name: str) -> None:
    assert_valid(RESPONSES[name], components.RESPONSE_EXAMPLES[name], whole=True)


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_a_document_that_comes_in_is_as_it_is_described(name: str) -> None:
    assert_valid(REQUESTS[name], components.REQUEST_EXAMPLES[name])


@pytest.mark.parametrize("name", sorted(RESPONSES))
def test_a_field_that_is_missing_or_that_nobody_described_is_seen(name: str) -> None:
    document = components.RESPONSE_EXAMPLES[name]
    always = sorted(set(RESPONSES[name]["properties"]) & set(document) - set(RESPONSES[name].get("x-sometimes", ())))
    for field in always:
        with pytest.raises(AssertionError):
            assert_valid(RESPONSES[name], {one: document[one] for one in document if one != field}, whole=True)
    with pytest.raises(AssertionError):
        assert_valid(RESPONSES[name], {**document, "unheard_of": 1})
