"""Commands of wirelessdl in children of a process that has loaded it, and what is wrong with how they end.

A child inherits what its parent has loaded (`load_all`), so that a command costs little more than its own work.
"""

import gc
import importlib
import math
import os
import pkgutil
import re
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # for campaigns that are run as scripts
LIMIT_S, LIMIT_BYTES = 60, 4_000_000_000  # seconds of processor time, which other load does not move
PATIENCE = 20  # times as long by the clock: a child that waits for ever
DEFECT = 70  # exit code of a child that a traceback ended
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
# what commands load when they come to it
_LATE = (
    "dp_accounting.pld", "dp_accounting.rdp", "encodings.cp437", "encodings.unicode_escape", "encodings.utf_8_sig",
    "jinja2", "matplotlib",
    "plotly.offline", "pyarrow.pandas_compat", "pyarrow.vendored.version", "rich._emoji_codes", "rich.live",
    "rich.progress", "rich.table", "scipy.integrate", "scipy.optimize", "scipy.stats",
)  # fmt: skip


def load_all():
    """Load every module of wirelessdl and what its commands load late; nothing runs, so no thread is started."""
    import wirelessdl

    for module in pkgutil.walk_packages(wirelessdl.__path__, "wirelessdl."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in _LATE:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a child would copy the pages of all that is here


def limited(arguments, folder, user=None):
    """`wirelessdl` in a child: exit code, both outputs together, processor seconds and the most memory it held, bytes.

    user: number of the user and the group that the child becomes; only root may ask for it.
    """
    output, began = folder / "output.txt", time.monotonic()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
        become(arguments, folder, output, user)
    spent, killed = processor_clock(child), False
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            break
        if not killed and (LIMIT_S < spent() < math.inf or time.monotonic() - began > PATIENCE * LIMIT_S):
            os.kill(child, signal.SIGKILL)
            killed = True
        time.sleep(0.005)
    code, took_s = os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
    return code, output.read_text(errors="replace"), math.inf if killed else took_s, usage.ru_maxrss * 1024


def processor_clock(child):
    """Seconds of processor time that a process has used, which do not depend on what else the machine does."""
    number = (~child << 3) | 2  # clock_getcpuclockid(3), which Python lacks

    def spent():
        try:
            return time.clock_gettime(number)
        except OSError:
            return math.inf  # it has just ended

    return spent


def become(arguments, folder, output, user=None):
    """`wirelessdl` in this process, which is a child: never returns."""
    code = DEFECT
    try:
        handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        os.chdir(folder)
        if user is not None:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        sys.argv = ["wirelessdl", *arguments]
        from wirelessdl.cli.main import main

        main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wrong(command, result, allowed):
    """What is wrong with how a command ended; None where nothing is."""
    code, output, seconds, peak = result
    if code == DEFECT:
        return f"traceback: {output.strip().splitlines()[-1][:300]}"
    if seconds > LIMIT_S:
        return f"took more than {LIMIT_S} s of processor time, or {PATIENCE} times as long"
    if peak > LIMIT_BYTES:
        return f"held {peak / 1e9:.1f} GB"
    if code not in allowed:
        return f"exit code {code}: {output[-300:]!r}"
    errors = [line for line in output.splitlines() if re.match(r"\w+Error: ", line)]
    if len(errors) != (code == 2):
        return f"{len(errors)} lines of errors with exit code {code}: {output[-300:]!r}"
    if CONTROL.search(output):
        return f"control characters in the output of {command}: {output[:300]!r}"
    return None
