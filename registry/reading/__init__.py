"""Read what somebody else wrote: files within limits, JSON and YAML without surprises."""

from __future__ import annotations

from registry.reading.bounded_file import (
    ReadingError,
    decode_text,
    read_bytes,
    read_stream,
    read_text,
)

__all__ = ["ReadingError", "decode_text", "read_bytes", "read_stream", "read_text"]
