"""Catalogues of languages with other rules than German."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from babel.messages.pofile import PoFileError
from django.utils.translation import gettext, ngettext, pgettext

from identity import languages

POLISH = """
msgid "file"
msgstr "plik"

msgctxt "verb"
msgid "file"
msgstr "odłóż"

#, fuzzy
msgid "folder"
msgstr "a guess of a tool"

msgid "untranslated"
msgstr ""

msgid "%(n)d item"
msgid_plural "%(n)d items"
msgstr[0] "%(n)d plik"
msgstr[1] "%(n)d pliki"
msgstr[2] "%(n)d plików"
"""


@pytest.fixture
def polish(tmp_path: Path, settings: Any) -> Path:
    (tmp_path / "pl").mkdir()
    path = tmp_path / "pl" / "test.po"
    path.write_text(POLISH)
    settings.LOCALE_PATHS = [str(tmp_path)]
    return path


@pytest.mark.usefixtures("polish")
def test_three_plural_forms_a_context_and_no_guess_of_a_tool() -> None:
    with languages.speaking("pl"):
        words = [ngettext("%(n)d item", "%(n)d items", n) % {"n": n} for n in (1, 2, 5, 12, 22)]
        assert words == ["1 plik", "2 pliki", "5 plików", "12 plików", "22 pliki"]
        assert (gettext("file"), pgettext("verb", "file")) == ("plik", "odłóż")
        assert (gettext("folder"), gettext("untranslated")) == ("folder", "untranslated")


def test_a_malformed_file_is_an_error_and_no_absence_of_texts(polish: Path) -> None:
    polish.write_text('msgid "file"\nmsgstr "plik"\n<<<<<<< a merge\n')
    with pytest.raises(PoFileError):
        languages.messages("pl")
