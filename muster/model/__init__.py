"""The model: frozen data that every other part speaks in; no behaviour beyond arithmetic and reading."""
