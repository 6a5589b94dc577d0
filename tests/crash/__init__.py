"""Promises under `kill -9`: real processes, real files, many short histories."""
