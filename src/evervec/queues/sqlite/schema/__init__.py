"""The numbered migrations of the queue's tables."""
