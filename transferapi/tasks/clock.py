"""What time it is: see `identity.clock`, which the vault goes by too."""

from __future__ import annotations

from identity.clock import moment

__all__ = ["moment"]
