"""Data sets as arrays, and as token shards on the disk."""

from glauber.data.digits import Digits, load_digits
from glauber.data.named import prepare_named
from glauber.data.prepare import prepare
from glauber.data.shards import Rows, Shards, open_shards
from glauber.data.sources import Sources, open_tokens

__all__ = ["Digits", "Rows", "Shards", "Sources", "load_digits", "open_shards", "open_tokens", "prepare", "prepare_named"]
