"""Change a row, a file or a document; its vectors follow."""

__version__ = "0.1.0"
