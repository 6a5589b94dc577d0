"""How this program uses SQLite: one writer thread a file, many readers, SQL in `.sql` files."""
