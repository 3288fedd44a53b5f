"""The commands of docs/operate that the rehearsal runs: they are found, exist, and each is in the plan."""

from __future__ import annotations

import fnmatch
import re
import shlex
import shutil
import subprocess

import pytest

from bench.install.deeds import Deeds
from bench.install.pages import MARK, PageError, all_pages, blocks_of
from bench.install.plan import HOSTS, PLAN, Act, Run
from bench.install.releases import next_version
from bench.install.system import named_packages
from deploy import cli
from deploy.release import debian
from transferapi.config import CHECKOUT

PAGES = all_pages()
BLOCKS = [block for blocks in PAGES.values() for block in blocks.values()]
UNITS = {path.name for path in (CHECKOUT / "deploy" / "systemd").iterdir()}


def test_a_block_is_what_stands_between_its_fences() -> None:
    page = "# A\n\n<!-- rehearsed: one on web, worker -->\n```sh\na\nb \\\n  c\n```\n\n```sh\nnot marked\n```\n"
    [block] = blocks_of("a.md", page).values()
    assert (block.name, block.hosts, block.text, block.line) == ("one", ("web", "worker"), "a\nb \\\n  c\n", 3)


@pytest.mark.parametrize(
    "page",
    [
        "<!-- rehearsed: one on web -->\n\n```sh\na\n```\n",
        "<!-- rehearsed: one on web -->\n```yaml\na\n```\n",
        "<!-- rehearsed: one on web -->\n```sh\na\n",
        "<!-- rehearsed: one -->\n```sh\na\n```\n",
        "text <!-- rehearsed: one on web -->\n```sh\na\n```\n",
        "<!-- rehearsed: one on web -->\n```sh\na\n```\n<!-- rehearsed: one on web -->\n```sh\na\n```\n",
    ],
    ids=["space", "language", "open", "host", "line", "twice"],
)
def test_a_mark_that_would_be_passed_over_is_an_error(page: str) -> None:
    with pytest.raises(PageError, match=r"a\.md:\d+"):
        blocks_of("a.md", page)


def test_only_the_file_of_the_package_gets_the_version() -> None:
    page = "<!-- rehearsed: one on web -->\n```sh\napt-get install ./waybill_VERSION_amd64.deb $VERSION\n```\n"
    [block] = blocks_of("a.md", page).values()
    assert block.commands("1.2.3") == "apt-get install ./waybill_1.2.3_amd64.deb $VERSION\n"


def test_each_marked_block_is_run_on_each_of_its_hosts_and_no_other() -> None:
    marked = {(block.page.removesuffix(".md"), block.name, host) for block in BLOCKS for host in block.hosts}
    assert marked == {(step.page, step.block, step.host) for step in PLAN if isinstance(step, Run)}
    assert {host for _, _, host in marked} == HOSTS.keys()


def test_each_act_of_the_plan_is_there() -> None:
    acts = {step.name for step in PLAN if isinstance(step, Act)}
    assert acts <= {name for name in vars(Deeds) if not name.startswith("_")} - {"act", "end"}
    assert len(acts) == len([step for step in PLAN if isinstance(step, Act)])


def test_steps_of_one_page_on_one_host_are_in_the_order_of_the_page() -> None:
    """Except that pages of several journeys, such as a backup before an upgrade, begin again."""
    for page in ("install", "several-hosts", "external-servers", "upgrade"):
        for host in HOSTS:
            lines = [
                PAGES[page][step.block].line
                for step in PLAN
                if isinstance(step, Run) and (step.page, step.host) == (page, host)
            ]
            assert lines == sorted(lines), (page, host)


def test_the_newer_package_comes_only_after_the_older_one() -> None:
    for host in {step.host for step in PLAN if isinstance(step, Run) and step.newer}:
        steps = [
            step
            for step in PLAN
            if isinstance(step, Run) and step.host == host and "waybill_VERSION_" in PAGES[step.page][step.block].text
        ]
        assert [step.newer for step in steps] == [False, True], host


def commands_of(text: str, program: str) -> list[list[str]]:
    """The words of each command line that begins with this program, also within another one's quotes."""
    found = re.findall(rf"(?:^|until |; )(?:/opt/waybill/bin/)?{program} ([^;>|\n]*)", text, re.MULTILINE)
    return [shlex.split(words) for words in found]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}-{block.name}")
def test_commands_of_the_service_are_accepted_by_its_parser(block: object) -> None:
    text = next(one.text for one in BLOCKS if one is block)
    for words in commands_of(text, "waybill"):
        assert callable(cli.parser().parse_args(words).run)


def test_many_commands_of_the_service_are_rehearsed() -> None:
    """So that the test above says something."""
    named = {words[0] for block in BLOCKS for words in commands_of(block.text, "waybill")}
    assert named >= {"backup", "check", "doctor", "password", "restore", "task", "upgrade", "user", "vault"}


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}-{block.name}")
def test_commands_are_shell_without_mistakes_of_syntax(block: object) -> None:
    text = next(one.text for one in BLOCKS if one is block)
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run([bash, "-n"], input=text, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_units_and_files_of_the_commands_are_in_the_package() -> None:
    for block in BLOCKS:
        for words in re.findall(r"^systemctl (?:enable|start|stop) (.*)$", block.text, re.MULTILINE):
            units = {re.sub(r"@\d+", "@", unit) for unit in shlex.split(words)}
            for unit in units:
                pattern = unit if "." in unit or "*" in unit else f"{unit}.service"
                assert fnmatch.filter(UNITS, pattern), (block.name, unit)
        for path in re.findall(rf"/{debian.SHARED}/([\w./-]+)", block.text):
            assert path.split("/")[0] in debian.SHARED_FOLDERS
            assert (CHECKOUT / "deploy" / path).is_file(), path


def test_packages_of_debian_are_those_of_the_commands() -> None:
    found = named_packages(
        ["apt-get install nginx-light ./waybill_VERSION_amd64.deb\n", "apt-get install --yes curl\n"]
    )
    assert found == ["curl", "nginx-light"]
    assert {"postgresql", "redis-server", "nginx-light"} <= {*named_packages(block.text for block in BLOCKS)}


def test_marks_are_not_seen_in_a_page() -> None:
    assert MARK.pattern.startswith("<!--")
    assert MARK.pattern.endswith("-->")


def test_the_next_version_is_newer() -> None:
    assert next_version("0.1.9") == "0.1.10"
