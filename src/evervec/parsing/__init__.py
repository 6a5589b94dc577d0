"""Reads files that strangers wrote in a process of its own, which may fail and harm nobody."""

from evervec.parsing.limits import Limits
from evervec.parsing.process import ParserProcess

__all__ = ["Limits", "ParserProcess"]
