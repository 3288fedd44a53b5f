"""The forms of activation: whatever a client sends back, it is one form filled in, or an error that shows no value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.activation.forms import LONGEST_FILE, FilledForm, Form, GivenField, read, rows
from endpoints.errors import RequirementError
from identity.hidden import Secret

_ROWS = [(str(form), row.name) for form in Form for row in rows(form, {})]
_SECRET = "s3cr3t-v4lu3"
_VALUES = st.none() | st.just("") | st.text(max_size=20).map(lambda text: f"{text}{_SECRET}{text}")
_GIVEN = st.tuples(st.sampled_from([*_ROWS, ("nothing", "name"), ("proxy", "nothing")]), _VALUES).map(
    lambda pair: GivenField(*pair[0], None if pair[1] is None else Secret(pair[1]))
)


@given(st.lists(_GIVEN, max_size=6), st.sets(st.sampled_from(list(Form))))
def test_any_rows_are_one_form_or_an_error_without_values(sent: list[GivenField], offered: set[Form]) -> None:
    refused, filled = None, None
    try:
        filled = read(sent, offered)
    except RequirementError as error:
        refused = error
    assert refused is None or refused.reason.endswith(".")
    assert _SECRET not in f"{filled!r}{refused!r}{refused and refused.field}"
    if filled is None:
        return
    assert filled.form in offered
    assert {one.name for one in sent if one.type == filled.form and one.value and one.value.value} == set(filled.values)
    assert all(filled[row.name] for row in rows(filled.form, {}) if row.required and row.name != "hostname")


@pytest.mark.parametrize("form", list(Form))
def test_each_form_has_a_mark_that_the_others_lack(form: Form) -> None:
    found = list(rows(form, {}))
    assert any(row.decisive for row in found)
    assert all(row.ui_name and row.description for row in found)
    assert not any(row.value for row in found)


def test_what_the_service_wrote_does_not_choose_a_form() -> None:
    """A client sends back the whole list, with one form filled in."""
    written = {"hostname": "myproxy.example.org:7512", "server_dn": "/CN=x", "public_key": "-----BEGIN\nkey\n"}
    sent = [
        GivenField(str(form), row.name, Secret(row.value) if row.value else None)
        for form in (Form.MYPROXY, Form.DELEGATE_PROXY, Form.PROXY)
        for row in rows(form, written)
    ]
    assert read(sent, list(Form)) is None
    filled = read(
        [*(one for one in sent if one.name != "proxy"), GivenField("proxy", "proxy", Secret("PEM"))], list(Form)
    )
    assert filled is not None
    assert (filled.form, filled["proxy"]) == (Form.PROXY, "PEM")


def test_a_file_has_lines_and_an_end() -> None:
    def proxy(text: str) -> FilledForm | None:
        return read([GivenField("proxy", "proxy", Secret(text))], [Form.PROXY])

    for text in ("a\nb", "a\r\nb\t", "x" * LONGEST_FILE):
        assert proxy(text) is not None
    for text in ("a\0b", "a\x0bb", "a\x1bb", "\x7f", "ü", "\udcff", "x" * (LONGEST_FILE + 1)):
        with pytest.raises(RequirementError):
            proxy(text)
