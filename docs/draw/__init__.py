"""The pictures and the tables of docs/architecture.md, made from the code: `python -m docs.draw` writes them."""
