"""The manifests that Helm makes of the chart for the values in tests/charts, written beside them:

    python -m tests.chart

The files are kept, so that the tests of the chart run where there is no Helm; with Helm they are compared with what it
makes.
Needs Helm 4.3 on the PATH or in ~/go/bin (`go install helm.sh/helm/v4/cmd/helm@v4.3.1` takes some minutes).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from transferapi.config import CHECKOUT

CHART = CHECKOUT / "deploy" / "helm" / "waybill"
FOLDER = CHECKOUT / "tests" / "charts"
CASES = ("default", "minimal", "full")
HELM = shutil.which("helm", path=f"{os.environ.get('PATH', os.defpath)}:{Path.home()}/go/bin")


def helm(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run it to its end, without a cluster."""
    assert HELM is not None, __doc__
    return subprocess.run([HELM, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)


def values_of(case: str) -> Path:
    return FOLDER / f"{case}.values.yaml"


def rendered(case: str) -> Path:
    return FOLDER / f"{case}.rendered.yaml"


def stamp(case: str) -> str:
    """The first line of a kept file: a hash of the chart and the values."""
    digest = hashlib.sha256()
    for path in sorted(path for path in CHART.rglob("*") if path.is_file()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(CHART)} {len(content)}\n".encode() + content)
    digest.update(values_of(case).read_bytes())
    return f"# {digest.hexdigest()}\n"


def render(case: str) -> str:
    """All manifests of the release `waybill`, as one text."""
    done = helm("template", "waybill", CHART, "--namespace", "science", "--values", values_of(case))
    assert done.returncode == 0, done.stderr
    return stamp(case) + done.stdout


if __name__ == "__main__":
    for name in CASES:
        rendered(name).write_text(render(name))
