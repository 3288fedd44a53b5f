"""The grammar of scopes: `scope[dependency *optional[deeper]] scope`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from identity.provider import scopes
from identity.provider.errors import ScopeSyntaxError

NAMES = st.sampled_from([*scopes.KNOWN, "https://auth.globus.org/scopes/x/data_access", "a"])


def trees(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return NAMES
    inner = st.lists(st.tuples(st.sampled_from(["", "*"]), trees(depth - 1)), min_size=1, max_size=3)
    return st.builds(
        lambda name, within: f"{name}[{' '.join(star + one for star, one in within)}]" if within else name,
        NAMES,
        st.one_of(st.just([]), inner),
    )


@given(st.lists(trees(2), max_size=5))
def test_what_is_asked_for_is_what_stands_outside_of_brackets(asked: list[str]) -> None:
    roots = list(dict.fromkeys(one.partition("[")[0] for one in asked))
    assert scopes.roots("  ".join(asked)) == roots


@given(st.text(alphabet="ab[]* \n", max_size=12))
def test_whatever_comes_is_read_or_refused(text: str) -> None:
    try:
        found = scopes.roots(text)
    except ScopeSyntaxError:
        return
    assert text.count("[") == text.count("]")
    assert not any(set(name) & set("[]* \n") for name in found)


@pytest.mark.parametrize(
    "text",
    ["[", "]", "a[", "a]", "a[]", "[a]", "a [b]", "*a", "a[*]", "a[**b]", "a[* b]", "a[b*]", "a[b]c", "a" * 9000],
)
def test_what_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(ScopeSyntaxError):
        scopes.roots(text)


def test_every_scope_is_of_one_service_and_has_words_for_people() -> None:
    for name, scope in scopes.KNOWN.items():
        assert scope.name == name
        assert scopes.resource_server(f"{name} x") == scope.resource_server
        assert scope.words[0].islower()
    assert scopes.resource_server("unknown") == scopes.AUTH


def test_some_scopes_are_good_for_more() -> None:
    assert scopes.covered(f"openid {scopes.GROUPS_ALL}") == {"openid", scopes.GROUPS_ALL, scopes.VIEW_MY_GROUPS}
    assert scopes.covered(scopes.VIEW_MY_GROUPS) == {scopes.VIEW_MY_GROUPS}
