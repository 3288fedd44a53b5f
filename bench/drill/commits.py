"""The older commit from which the drill upgrades: chosen by its migrations, run under today's docker-compose.yml."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
#: The most commits that are looked at.
COMMITS = 200
#: A version with this folder knows of expansions: it goes on where a later one has run them.
EXPANDS = "deploy/upgrade"
MIGRATIONS = ":(glob)**/migrations/*.py"
COMPOSE = "docker-compose.yml"
_EXPANSION = re.compile(r'^    effect = "expand"$', re.MULTILINE)
_COMMAND = re.compile(r"^    command: (waybill run \w+)$", re.MULTILINE)


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True).stdout.strip()


def older(repository: Path = CHECKOUT) -> str:
    """The oldest of the last commits from which one step leads to HEAD: all migrations between are expansions.

    "" if there is none.
    """
    found = ""
    for commit in git(repository, "rev-list", "--first-parent", f"--max-count={COMMITS}", "HEAD~1").split():
        if not _is_one_step(repository, commit):
            break
        found = commit
    return found


def _is_one_step(repository: Path, commit: str) -> bool:
    if not git(repository, "ls-tree", commit, EXPANDS) or _roles(repository, commit) != _roles(repository, "HEAD"):
        return False
    rows = git(repository, "diff", "--no-renames", "--name-status", commit, "HEAD", "--", MIGRATIONS).splitlines()
    return all(_is_expansion(repository, *row.split("\t", 1)) for row in rows)


def _is_expansion(repository: Path, status: str, path: str) -> bool:
    return status == "A" and bool(_EXPANSION.search(git(repository, "show", f"HEAD:{path}")))


def _roles(repository: Path, commit: str) -> set[str]:
    return set(_COMMAND.findall(git(repository, "show", f"{commit}:{COMPOSE}")))


def migrations_since(old: str, repository: Path = CHECKOUT) -> list[str]:
    """The names of those that HEAD has, and this commit has not."""
    rows = git(repository, "diff", "--no-renames", "--diff-filter=A", "--name-only", old, "HEAD", "--", MIGRATIONS)
    return [Path(row).stem for row in rows.splitlines()]


def without_new_variables(new: str, old: str, repository: Path = CHECKOUT) -> str:
    """A file for Compose that takes away the variables of `new` that `old` refuses as unknown."""
    before, now = (_environment(repository, commit) for commit in (old, new))
    lines = []
    for service, names in now.items():
        if unknown := sorted(names - set().union(*before.values())):
            lines += [f"  {service}:", "    environment:", *(f"      {name}: !reset null" for name in unknown)]
    return "\n".join(["services:", *lines] if lines else ["{}"]) + "\n"


def _environment(repository: Path, commit: str) -> dict[str, set[str]]:
    """The variables of our own services."""
    document = yaml.safe_load(git(repository, "show", f"{commit}:{COMPOSE}"))
    services = {name: one for name, one in document["services"].items() if one.get("image") == "waybill"}
    return {name: set(one["environment"]) for name, one in services.items()}
