"""The event log's tables, by number."""
