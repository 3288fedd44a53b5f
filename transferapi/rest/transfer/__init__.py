"""The Transfer API v0.10, and its routes below `/v2/`. A resource is two modules: its views and its documents."""

VERSION = "v0.10"
