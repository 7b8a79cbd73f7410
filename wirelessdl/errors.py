"""The errors that users can cause.

Each message is one line: where, which key, its value, the rule, the remedy. The command line prints
it without a traceback and exits with 2. Any other exception is a defect of wirelessdl and shows its traceback.
"""

from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST, _LONGEST_PATH = 255, 4095  # bytes between two slashes, and in all


class WirelessdlError(Exception):
    """An error that a user can correct; its message is one line."""


class ScenarioError(WirelessdlError):
    """A scenario that cannot be run as written."""


class ContractError(WirelessdlError):
    """A user's model that returned what its protocol does not allow."""


class InfeasiblePowerError(WirelessdlError):
    """No power split meets the privacy target."""


class TraceError(WirelessdlError):
    """A run directory that cannot be written or read."""


class StudyError(WirelessdlError):
    """A study that cannot be made, or gone on with, as asked for."""


class DataError(WirelessdlError):
    """A data set that cannot be fetched."""


class UnsoundError(WirelessdlError):
    """An epsilon requested from an accountant that cannot prove it."""


class TrainingError(WirelessdlError):
    """Training with a loss or model that is not finite."""


class RunInterrupted(Exception):
    """A run that stopped on request, after a complete round and with its state saved."""

    def __init__(self, folder: str, round: int):
        super().__init__(f"stopped after round {round}; resume with: wirelessdl run --resume {folder}")
        self.folder, self.round = folder, round


NOT_UTF8 = "holds bytes that are not UTF-8, which no file of a run can hold; write it in UTF-8"


def is_utf8(text: str) -> bool:
    """Whether a text can be written down: Python reads bytes of the outside that are not UTF-8 as half characters."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def require_name(path: object, kind: type[WirelessdlError]) -> None:
    """Raise unless a file could have this name: even a look at whether it is there fails otherwise."""
    text = str(path)
    if not is_utf8(text):
        raise kind(f"{quote(text)}: {NOT_UTF8}")
    longest = max(len(part.encode(errors="replace")) for part in text.split("/"))
    if "\0" in text or longest > _LONGEST or len(text.encode(errors="replace")) > _LONGEST_PATH:
        raise kind(f"{quote(text)}: no file has such a name; it has at most {_LONGEST} bytes, none of them zero")


def nearest(name: str, known: Iterable[str]) -> str:
    """'; did you mean x?' where a known name is close, else '; known: a, b, c'."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known: {', '.join(names)}" if names else ""


def quote(value: object, most: int = 200) -> str:
    """A value in a message: control characters escaped, long values shortened in the middle."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value))
    if len(text) <= most:
        return text
    end = most // 3
    return f"{text[: most - end - 3]}...{text[-end:]}"
