"""The registry's tables, by number."""
