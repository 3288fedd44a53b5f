"""The archive of the chart of Helm, as `helm package` makes it, but with the same octets each time."""

from __future__ import annotations

from pathlib import Path

import yaml

from .archives import file_member, write_tar
from .errors import ReleaseError
from .source import SourceCopy


def build(source: SourceCopy, out: Path) -> Path:
    """Write the archive into the folder. Raises ReleaseError."""
    return pack(source.folder / "deploy" / "helm" / "waybill", source.version, out, source.moment)


def pack(chart: Path, version: str, out: Path, moment: int) -> Path:
    """Write the archive of this chart, whose files get the time of the release. Raises ReleaseError.

    Args:
        version: that of the release, which the chart must have.
        moment: seconds since 1970.
    """
    described = yaml.safe_load((chart / "Chart.yaml").read_text())
    if not described["version"] == described["appVersion"] == version:
        raise ReleaseError(f"the chart has the version {described['version']}, and the release {version}")
    files = sorted(path for path in chart.rglob("*") if path.is_file())
    members = [file_member(f"{chart.name}/{path.relative_to(chart)}", path.read_bytes()) for path in files]
    archive = out / f"{chart.name}-{version}.tgz"
    write_tar(members, archive, moment)
    return archive
