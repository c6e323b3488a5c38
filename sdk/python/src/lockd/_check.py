"""What an argument may be. What cannot be is refused before anything is asked: TypeError for a wrong type, Invalid for
a wrong value. Both name the argument and say what is allowed."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from lockd.errors import Invalid

from ._clock import NEVER, now

_MOST_SECONDS = 315_576_000_000.0  # a message can say no more
_MOST = 2**31 - 1


def seconds(what: str, value: Any, *, positive: bool = False) -> None:
    """A length of time."""
    _real(what, value)
    if not 0 <= value <= _MOST_SECONDS or (positive and value == 0):
        allowed = "more than 0" if positive else "at least 0"
        raise Invalid(
            f"{what} must be {allowed} s and no more than 10,000 years, not {value}", reason="INVALID_DURATION"
        )


def end_of(timeout: float | None) -> float:
    """When a timeout ends that begins now. None is never; one below 0 has passed."""
    if timeout is None:
        return NEVER
    _real("timeout", timeout)
    if math.isnan(timeout):
        raise Invalid("timeout must be a number of seconds, not nan", reason="INVALID_DURATION")
    return now() + float(timeout)


def _real(what: str, value: Any) -> None:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise _wrong(what, "a number of seconds", value)


def count(what: str, value: Any, *, least: int = 1) -> None:
    """A number of permits."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise _wrong(what, "an int", value)
    if not least <= int(value) <= _MOST:
        raise Invalid(f"{what} must be between {least} and {_MOST}, not {value}", reason="INVALID_PERMITS")


def name(what: str, value: Any) -> None:
    """The name of a lock."""
    text("INVALID_NAME", what, value)
    if not value:
        raise Invalid(f"{what} must not be empty", reason="INVALID_NAME")


def text(reason: str, what: str, value: Any, limit: int = 0) -> None:
    """What a message can have, and what the server is known to take; 0 is no limit."""
    if not isinstance(value, str):
        raise _wrong(what, "a str", value)
    size = len(value) if value.isascii() else _bytes_of(reason, what, value)
    if limit and size > limit:
        raise Invalid(f"{what} must have at most {limit} bytes, not {size}", reason=reason)


def _bytes_of(reason: str, what: str, value: str) -> int:
    try:
        return len(value.encode())
    except UnicodeEncodeError:
        raise Invalid(f"{what} must be valid Unicode", reason=reason) from None


def one_of(reason: str, what: str, value: Any, allowed: Iterable[str]) -> None:
    """One of a few words."""
    allowed = list(allowed)
    if value not in allowed:
        raise Invalid(f"{what} must be one of {', '.join(allowed)}, not {value!r}", reason=reason)


def function(what: str, value: Any) -> None:
    """What is called."""
    if not callable(value):
        raise _wrong(what, "a function", value)


def flag(what: str, value: Any) -> None:
    """Yes or no."""
    if not isinstance(value, bool):
        raise _wrong(what, "a bool", value)


def options(what: str, given: Mapping[str, object], known: Container[str]) -> None:
    """Refuses options that are not known: else a slip of the pen would be passed over."""
    for key in given:
        if key not in known:
            raise TypeError(f"{what} has no option {key!r}")


def _wrong(what: str, allowed: str, value: object) -> TypeError:
    return TypeError(f"{what} must be {allowed}, not {type(value).__name__}")
