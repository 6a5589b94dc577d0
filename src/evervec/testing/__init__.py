"""What tests of this program, and of adapters others write, are built from."""
