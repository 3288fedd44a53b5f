"""Amounts of data as pages write them: by templates and by scripts alike."""

from __future__ import annotations

import pytest

from webui.templatetags.waybill import octets


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (None, "–"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (6_000_000_000, "5.6 GiB"),
        (1_610_612_736, "1.5 GiB"),
        (102_399, "100.0 KiB"),
        (107_374_182_399, "100.0 GiB"),
    ],
)
def test_an_amount_is_rounded_as_scripts_round_it(amount: float | None, words: str) -> None:
    assert octets(amount) == words
