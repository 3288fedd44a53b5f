"""The base of all pages: files and their bounds, languages, colours, names that are escaped, and components."""

from __future__ import annotations

import gzip
import hashlib
import re
from ast import literal_eval
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.contrib.auth.models import AnonymousUser
from django.template import Context, Template
from django.test import RequestFactory

import webui
from identity.languages import Key
from identity.models import User
from tests.integration.pages import Browser
from webui import assets, language, style
from webui.templatetags import waybill

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
SOURCES = Path(webui.__file__).parent
#: They write the mails.
#: Folders of services whose sentences pages and mails show.
SERVICES = [
    SOURCES.parent / place
    for place in ("identity", "transferapi/tasks", "workers/engine", "workers/ways", "endpoints/gridftp")
]
#: CSS and scripts of a page, in octets as they are sent (gzip).
MOST_OCTETS = 60_000


def sources(*patterns: str) -> list[Path]:
    return [path for pattern in patterns for path in sorted(SOURCES.rglob(pattern))]


# ---- files


def test_the_files_of_pages_are_kept_for_ever_and_change_their_names() -> None:
    browser = Browser()
    browser.get("/signin")
    for address in re.findall(r'(?:href|src)="(/static/[^"]+)"', browser.page):
        answer = browser.client.get(address)
        assert answer.status_code == 200, address
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert "set-cookie" not in answer.headers
        assert browser.client.get(re.sub(r"\.[0-9a-f]{16}\.", ".0123456789abcdef.", address)).status_code == 404
    assert browser.client.get("/static/webui/..%2f..%2fmanage.py").status_code == 404


@pytest.mark.parametrize(
    ("accepts", "compressed"),
    [
        ("gzip, deflate, br", True), ("br;q=1.0, GZIP;q=0.5", True), ("", False), ("br", False), ("gzip;q=0", False),
        ("gzip; q=0.000", False), ("x-gzip-not", False),
    ],
)  # fmt: skip
def test_files_are_compressed_for_who_takes_gzip_and_answers_with_secrets_never(
    accepts: str, compressed: bool, alice: User
) -> None:
    browser = Browser(HTTP_ACCEPT_ENCODING=accepts)
    for asset in assets.all_assets().values():
        answer = browser.client.get(f"/static/webui/{asset.served_as}")
        found = answer.content
        if compressed:
            assert answer.headers["Content-Encoding"] == "gzip"
            found = gzip.decompress(found)
        else:
            assert "Content-Encoding" not in answer.headers
        assert found == asset.content
        assert "Accept-Encoding" in answer.headers["Vary"]
    browser.sign_in(alice)
    for path in ("/account", "/v0.10/task_list"):
        assert "Content-Encoding" not in browser.client.get(path).headers


def test_styles_and_scripts_of_each_page_stay_in_their_bound() -> None:
    everything = {asset.served_as: asset.content for asset in assets.all_assets().values()}
    sent = {asset.served_as: len(asset.compressed) for asset in assets.all_assets().values()}
    styles = sum(octets for name, octets in sent.items() if name.endswith(".css"))

    def loaded(served: str, known: set[str]) -> set[str]:
        """The script, and all that it imports."""
        if served not in known:
            known.add(served)
            for target in re.findall(rb"""(?:from|import)\s*\(?\s*["']\./([^"']+)["']""", everything[served]):
                loaded(target.decode(), known)
        return known

    base = assets.all_assets()["base.js"].served_as
    pages = [asset.served_as for name, asset in assets.all_assets().items() if name.endswith(".js")]
    octets = [styles + sum(sent[name] for name in loaded(base, loaded(page, set()))) for page in pages]
    assert 30_000 < max(octets) < MOST_OCTETS


def test_modules_import_each_other_by_served_names_only() -> None:
    served = {asset.served_as for asset in assets.all_assets().values()}
    modules = {name: asset for name, asset in assets.all_assets().items() if name.endswith(".js")}
    imported = [
        target
        for asset in modules.values()
        for target in re.findall(r"""(?:from|import)\s*\(?\s*["']([^"']+)["']""", asset.content.decode())
    ]
    assert imported
    assert {target.removeprefix("./") for target in imported} <= served
    assert modules["base.js"].content_type == "text/javascript; charset=utf-8"


#: A module of others: the SHA-256 of the file that they have published.
IDIOMORPH = "4cbd535caf7663a51eda9bce6595371c384fc430d54b8d414e29a61167f19f96"


def test_a_module_of_others_is_as_published() -> None:
    comment, published, export = (SOURCES / "assets/js/idiomorph.js").read_text().splitlines()
    assert hashlib.sha256(published.encode()).hexdigest() == IDIOMORPH
    assert (comment[:3], export) == ("// ", "export { Idiomorph };")


def test_no_file_names_another_origin_or_runs_text() -> None:
    for path in sources("*.js", "*.css", "*.html"):
        # It gets elements, and no text: "innerHTML" is the name of one of its options.
        text = "" if path.name == "idiomorph.js" else path.read_text()
        assert not re.search(r"""(?:src|href|url\(|from|action)=?\s*["']?(?:https?:)?//""", text), path
        assert not re.search(r"\beval\(|new Function|innerHTML|insertAdjacentHTML|document\.write", text), path


# ---- languages


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("de", "de"),
        ("de-AT,de;q=0.9,en;q=0.5", "de"),
        ("fr,de;q=0.4,en;q=0.8", "en"),
        ("fr", "en"),
        ("", "en"),
        ("de;q=x" * 1000, "en"),
    ],
)
def test_the_language_is_what_the_browser_asks_for(header: str, found: str) -> None:
    browser = Browser(HTTP_ACCEPT_LANGUAGE=header)
    browser.get("/signin")
    assert f'<html lang="{found}"' in browser.page


def test_a_choice_of_language_and_colours_is_kept_without_an_account() -> None:
    browser = Browser(HTTP_ACCEPT_LANGUAGE="en")
    browser.get("/signin?next=/account")
    answer = browser.post("/preferences", language="de", next="/signin?next=/account")
    assert answer.headers["Location"] == "/signin?next=/account"
    browser.get("/signin")
    assert '<html lang="de"' in browser.page
    assert "Anmelden" in browser.text
    browser.post("/preferences", theme="dark")
    browser.get("/signin")
    assert 'data-theme="dark"' in browser.page
    browser.post("/preferences", theme="system")
    browser.get("/signin")
    assert "data-theme" not in browser.page


@pytest.mark.parametrize("fields", [{"language": "xx"}, {"theme": '"><script>'}, {"next": "//evil.example/"}])
def test_a_choice_that_is_none_changes_nothing_and_leads_nowhere_else(fields: dict[str, str]) -> None:
    browser = Browser()
    browser.get("/signin")
    answer = browser.post("/preferences", **fields)
    assert answer.headers["Location"].startswith("/")
    assert not answer.headers["Location"].startswith("//")
    browser.get("/signin")
    assert '<html lang="en">' in browser.page


def test_the_api_speaks_english_whatever_the_reader_has_chosen(alice: User) -> None:
    browser = Browser(HTTP_ACCEPT_LANGUAGE="de")
    browser.sign_in(alice)
    browser.get("/account")
    assert "Abmelden" in browser.text
    answer = browser.client.get("/v0.10/task/nonsense", HTTP_ACCEPT="application/json")
    assert "No such task" in answer.content.decode()


_IN_TEMPLATES = re.compile(r'{%\s*translate\s+"((?:[^"\\]|\\.)*)"')
_BLOCKS = re.compile(r"{%\s*blocktranslate[^%]*%}(.*?){%\s*endblocktranslate\s*%}", re.DOTALL)
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_IN_CODE = re.compile(rf"\b(?:_|gettext|gettext_lazy|translatable)\(\s*((?:{_STRING}\s*)+)\)")
#: `Sentence` has values behind the text.
_SENTENCES = re.compile(rf"\bSentence\(\s*((?:{_STRING}\s*)+)[,)]")
_PLURALS = re.compile(rf"\b(?:ngettext|Sentence\.counted)\(\s*({_STRING}),\s*{_STRING},")
_IN_SCRIPTS = re.compile(rf"\bt\(\s*({_STRING})")
_PLURALS_IN_SCRIPTS = re.compile(rf"\btn\(\s*({_STRING}),\s*{_STRING},")


def _texts() -> Iterator[tuple[Key, Path]]:
    """Every text of the pages that is to be translated, with its file; a text with a plural as its second form."""
    for path in sources("*.html"):
        text = path.read_text()
        yield from ((found, path) for found in _IN_TEMPLATES.findall(text))
        for block in _BLOCKS.findall(text):
            first, *others = re.split(r"{%\s*plural\s*%}", block)
            words = re.sub(r"{{\s*(\w+)\s*}}", r"%(\1)s", " ".join(first.split()))
            yield (words, 1) if others else words, path
    for path in [*sources("*.py"), *(path for folder in SERVICES for path in folder.rglob("*.py"))]:
        text = path.read_text()
        groups = [*_IN_CODE.findall(text), *_SENTENCES.findall(text)]
        yield from (("".join(map(literal_eval, re.findall(_STRING, group))), path) for group in groups)
        yield from (((literal_eval(found), 1), path) for found in _PLURALS.findall(text))
    for path in sources("*.js"):
        yield from ((literal_eval(found), path) for found in _IN_SCRIPTS.findall(path.read_text()))
        yield from (((literal_eval(found), 1), path) for found in _PLURALS_IN_SCRIPTS.findall(path.read_text()))


def test_german_is_complete_and_has_nothing_that_no_page_says() -> None:
    known, wanted = language.messages("de"), dict(_texts())
    assert {text: path.name for text, path in wanted.items() if text not in known} == {}
    said = {*wanted, *((text[0], 0) for text in wanted if isinstance(text, tuple))}
    assert {text for text in known if text not in said} == set()


def test_a_translation_has_the_values_of_its_text() -> None:
    for key, words in language.messages("de").items():
        text = key if isinstance(key, str) else key[0]
        for value in re.findall(r"%\(\w+\)[sd]|\{\w+\}", text):
            assert value in words or isinstance(key, tuple), text


def test_german_says_sie() -> None:
    familiar = re.compile(r"\b([Dd]u|[Dd]ein(e[mnrs]?)?|[Dd]ir|[Dd]ich)\b")
    assert [words for words in language.messages("de").values() if familiar.search(words)] == []


# ---- names, amounts and times


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain.txt", "plain.txt"),
        ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"),
        ("a\u202egpj.exe", 'a<span class="esc">\\u202e</span>gpj.exe'),
        ("a\nb\x1b", 'a<span class="esc">\\n</span>b<span class="esc">\\x1b</span>'),
        ("caf\udce9", 'caf<span class="esc">\\xe9</span>'),
        ("zero\u200bwidth", 'zero<span class="esc">\\u200b</span>width'),
    ],
)
def test_a_name_from_an_endpoint_is_isolated_and_hides_nothing(text: str, shown: str) -> None:
    assert waybill.name(text) == f'<bdi class="name">{shown}</bdi>'


def test_amounts_and_times_read_as_people_write_them() -> None:
    assert [waybill.octets(size) for size in (0, 1023, 1536, 5 * 2**30, None)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "5.0 GiB",
        "–",
    ]
    assert [waybill.duration(span) for span in (0.2, 59, 61, 7322, 200_000)] == [
        "0 s",
        "59 s",
        "1 min 1 s",
        "2 h 2 min",
        "2 d 7 h",
    ]
    assert waybill.count(1234567) == "1\u202f234\u202f567"
    shown = waybill.when(datetime(2026, 1, 15, 12, 0, tzinfo=UTC))
    assert 'datetime="2026-01-15T12:00:00+00:00"' in shown
    assert "2026-01-15 12:00 UTC" in shown


# ---- components


def test_every_icon_is_a_drawing_of_its_own() -> None:
    for name in assets.drawings():
        assert "<script" not in assets.svg(name)
        assert 'aria-hidden="true"' in assets.svg(name)
    assert len(set(assets.drawings().values())) == len(assets.drawings()) > 40
    assert 'aria-label="Home &amp; away"' in assets.svg("home", label="Home & away")


def test_a_field_says_what_is_wrong_to_those_who_cannot_see_it() -> None:
    text = (
        '{% load waybill %}{% field "n" "Name" value=v hint="Help." wrong="Wrong." autocomplete="off" required=True %}'
    )
    shown = Template(text).render(Context({"v": '"><b>'}))
    assert 'aria-describedby="n-hint n-wrong"' in shown
    assert 'aria-invalid="true"' in shown
    assert 'value="&quot;&gt;&lt;b&gt;"' in shown
    assert ' required=""' in shown


def test_the_page_of_components_shows_all_and_exists_in_a_debug_run_only() -> None:
    browser = Browser()
    assert browser.client.get("/style").status_code == 404
    request = RequestFactory().get("/style")
    request.user = AnonymousUser()
    page = style.style(request).content.decode()
    for word in ("Queued", "Active", "Needs you", "Paused", "Done", "Done with skips", "Failed", "Canceled"):
        assert f"</svg>{word}</span>" in page
    assert "<img src=x" not in page


# ---- the first address


def test_a_browser_gets_the_front_page_and_a_program_the_landing_document(alice: User) -> None:
    browser = Browser(HTTP_ACCEPT="text/html,application/xhtml+xml,*/*;q=0.8")
    answer = browser.get("/")
    assert answer.status_code == 200
    assert "Accept" in answer.headers["Vary"]
    assert 'href="/signin' in browser.page
    for accept in ("application/json", "*/*"):
        found = browser.client.get("/", HTTP_ACCEPT=accept)
        assert found.json()["service"] == "Waybill"
    browser.sign_in(alice)
    assert browser.get("/").headers["Location"] in ("/transfer", "/activity", "/endpoints", "/account")
