"""The settings of traces, and identifiers of spans."""

from __future__ import annotations

from pathlib import Path

import pytest

from transferapi.config import ConfigError, load
from transferapi.traces import settings
from transferapi.traces.trace_context import SpanId, derived_span, new_trace, parse


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("", ""),
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("https://otel.example.org/", "https://otel.example.org/v1/traces"),
        ("https://otel.example.org/tenant/v1/traces", "https://otel.example.org/tenant/v1/traces"),
        ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
    ],
)
def test_an_address(given: str, read: str) -> None:
    assert settings.collector(given) == read


@pytest.mark.parametrize(
    "wrong",
    ["otel:4318", "ftp://otel", "http://", "http://u:p@otel", "http://otel?key=1", "http://otel#x", "http://o tel",
     "http://otel:99999", "http://otel:x", "http://ötel", "http://otel\r\nX: y", "file:///etc/passwd"],
)  # fmt: skip
def test_a_wrong_address_is_refused_at_the_start(wrong: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load({"WAYBILL_TRACES": wrong})
    assert "WAYBILL_TRACES" in str(caught.value)


def test_headers_come_from_a_file_and_no_error_shows_them(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("Authorization: Bearer abc:def\n\nX-Scope: 1\n")
    file.chmod(0o600)
    given = {"WAYBILL_TRACES": "https://otel.example.org", "WAYBILL_TRACES_HEADERS_FILE": str(file)}
    config = load(given)
    assert config.traces_headers is not None
    assert settings.headers(config.traces_headers.value) == {"Authorization": "Bearer abc:def", "X-Scope": "1"}
    assert "abc" not in repr(config)
    for wrong in ("secret-word", "a b: secret-word", "Host: secret-word", "X: secret-word\x7f", "X: secret-wörd"):
        with pytest.raises(ConfigError) as caught:
            load({"WAYBILL_TRACES": "https://otel.example.org", "WAYBILL_TRACES_HEADERS": wrong})
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("address", ["", "http://otel.example.org", "http://10.0.0.1:4318"])
def test_headers_are_not_sent_in_clear(address: str) -> None:
    with pytest.raises(ConfigError, match="WAYBILL_TRACES_HEADERS"):
        load({"WAYBILL_TRACES": address, "WAYBILL_TRACES_HEADERS": "X: y"})
    load({"WAYBILL_TRACES": "http://127.0.0.1:4318", "WAYBILL_TRACES_HEADERS": "X: y"})


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("1", 1.0), ("1.0", 1.0), ("0.05", 0.05), (".5", 0.5)])
def test_a_ratio(text: str, value: float) -> None:
    assert settings.ratio(text) == value


@pytest.mark.parametrize("text", ["2", "-1", "nan", "1e-3", "1.5", "٠", "0.", "50%"])
def test_a_wrong_ratio(text: str) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        settings.ratio(text)


def test_identifiers() -> None:
    one = new_trace()
    assert parse(one.text) == one
    assert len(one.text) == 55
    # A later version may have more parts (W3C Trace Context, 4.3).
    assert parse("01" + one.text[2:] + "-more") == one
    assert parse(SpanId(1, 2).text) == SpanId(1, 2)
    assert parse(None) is None
    assert derived_span("task", 1) == derived_span("task", 1) != derived_span("task", 11)
    assert 0 < derived_span("task", 1) < 2**64
