"""Fields to text, text to chunks, files to text. Pure: no I/O, the same answer every time."""
