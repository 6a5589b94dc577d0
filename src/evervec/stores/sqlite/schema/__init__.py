"""The store's tables, by number."""
