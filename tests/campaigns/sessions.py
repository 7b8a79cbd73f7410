"""Many calls in one process, as in a notebook: each gives what it gives in a process of its own.

    python tests/campaigns/sessions.py FOLDER TRIALS [SEED]

A trial is a real process that makes three to six calls of the Python interface or of the command line, drawn with what
a session may have set before them, which stays: torch's default type and device, gradients off, inference mode,
autocast, NumPy's errors, warnings as errors, seeds, another working folder, output that is no file, styles and options
of matplotlib, pandas and logging. Calls are made from the main thread, from another one, or within an event loop.

What must hold: runs, interrupted and resumed ones among them, studies, models and what commands print equal those of
processes that made this one call; what is refused raises `WirelessdlError`; no other error comes out.

Lines that begin with FOUND say what went wrong; the last line has the counts. A trial is drawn from its number; one
campaign that was stopped goes on (`journal`).
"""

import asyncio
import contextlib
import gc
import io
import json
import logging
import os
import random
import shutil
import subprocess
import sys
import threading
import traceback
import warnings
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))

PATIENCE_S = 1800
SMALL = (
    "scenario.rounds=12", "learning.eval_every=4", "learning.batch_size=8", "power.objective=own-noise",
)  # fmt: skip
WORDS = tuple(word for setting in SMALL for word in ("--set", setting))
KINDS = {
    "softmax": (),
    "mlp": ("learning.model={model='mlp',hidden=[16]}",),
    "cnn": ("learning.model={model='cnn',channels=2,hidden=4}",),
    "logistic": ("learning.model=logistic", "learning.sampling=poisson"),
    "double": ("learning.dtype=float64",),
    "pairwise": ("privacy.noise=pairwise",),
    "tdma": ("radio.access=tdma",),
    "digital": ("radio.access=digital",),
    "passes": ("radio.mixing_passes=3",),
    "fading": ("channel.models=[{model='log-distance'},{model='rayleigh'}]", "power.schedule=adaptive"),
}
COMMANDS = {
    "verify": ("verify", "{run}"),
    "list": ("list", "{parent}"),
    "compare": ("compare", "{run}", "--json"),
    "report": ("report", "{run}", "--out", "page.html"),
    "plot": ("plot", "{run}", "--figure", "privacy", "--out", "figure.png"),
    "check": ("check", "quickstart"),
    "plan": ("plan", "urban_er_k20", "--json"),
    "run": (
        "run",
        "quickstart",
        *(word for setting in SMALL for word in ("--set", setting)),
        "--out",
        "from",
        "--quiet",
    ),
}
MANNERS = ("plainly", "plainly", "in a thread", "in a loop")


# --- what a session sets; everything stays until the process ends


def _torch(name, *values):
    import torch

    getattr(torch, name)(*values)


def _for_good(context):
    context.__enter__()
    _HELD.append(context)  # a context that is collected may leave


def _inference():
    import torch

    _for_good(torch.inference_mode())


def _autocast():
    import torch

    _for_good(torch.autocast("cpu", dtype=torch.bfloat16))


def _type(name):
    import torch

    torch.set_default_dtype(getattr(torch, name))


def _errors():
    import numpy as np

    np.seterr(all="raise")


def _printing():
    import numpy as np
    import pandas as pd

    np.set_printoptions(threshold=3, precision=1)
    pd.set_option("display.precision", 1)
    pd.set_option("display.max_columns", 2)


def _style():
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    pyplot.style.use("dark_background")
    pyplot.ion()


def _seeds():
    import numpy as np
    import torch

    random.seed(1)
    np.random.seed(1)  # noqa: NPY002  the old one, which others may still draw from
    torch.manual_seed(1)


def _elsewhere():
    Path("elsewhere").mkdir(exist_ok=True)
    os.chdir("elsewhere")


def _output():
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()


_HELD: list = []
SETTINGS = {
    "double": lambda: _type("float64"),
    "half": lambda: _type("bfloat16"),
    "another device": lambda: _torch("set_default_device", "meta"),
    "no gradients": lambda: _torch("set_grad_enabled", False),
    "inference": _inference,
    "autocast": _autocast,
    "deterministic": lambda: _torch("use_deterministic_algorithms", True),
    "NumPy's errors": _errors,
    "warnings": lambda: warnings.simplefilter("error"),
    "seeds": _seeds,
    "printing": _printing,
    "style": _style,
    "elsewhere": _elsewhere,
    "output": _output,
    "log": lambda: logging.basicConfig(level=logging.DEBUG),
    "garbage": gc.disable,
    "recursion": lambda: sys.setrecursionlimit(400),
    "environment": lambda: os.environ.clear(),
}


# --- what a session does; `place` is a folder for this step alone


def _scenario(kind):
    import wirelessdl

    return wirelessdl.load_scenario("quickstart", overrides=[*SMALL, *KINDS[kind]])


def simulate(kind, place, _made):
    import wirelessdl

    return {"run": str(wirelessdl.simulate(_scenario(kind), out=place).path)}


def resumed(kind, place, _made):
    import wirelessdl

    rounds = []
    part = wirelessdl.simulate(_scenario(kind), out=place, on_round=rounds.append, should_stop=lambda: len(rounds) == 7)
    assert part.state == "interrupted", part.state
    return {"run": str(wirelessdl.resume(part).path)}


def sweep(kind, place, _made):
    import wirelessdl

    study = wirelessdl.sweep(_scenario(kind), vary={"privacy.delta": [1e-6]}, jobs=1, local=False, out=place / "study")
    study.plot(curves="round")
    return {"study": str(study.path)}


def models(kind, _place, made):
    """Accuracies of a run that is there, and a figure of it."""
    import wirelessdl

    run = wirelessdl.open_run(made / kind)
    run.plot("accuracy")
    run.plot("map")
    return {"text": repr([float(value) for value in run.learner().accuracy(run.final_models())])}


def refused(kind, place, _made):
    import wirelessdl

    try:
        wirelessdl.simulate(_scenario(kind), overrides={"privacy.delta": 2.0}, out=place)
    except wirelessdl.WirelessdlError as error:
        return {"text": str(error)}
    raise AssertionError("delta = 2 was taken")


def fails(kind, place, _made):
    import wirelessdl

    def end(round):
        raise KeyError(round)

    try:
        wirelessdl.simulate(_scenario(kind), out=place, on_round=end)
    except KeyError as error:
        return {"text": repr(error)}
    raise AssertionError("the callback's error was lost")


def command(name, place, made):
    import numpy as np

    from wirelessdl.arrays import USUAL_ERRORS
    from wirelessdl.cli.main import main

    run = made / "softmax"
    words = [word.format(run=run, parent=run.parent) for word in COMMANDS[name]]
    before, out, code = sys.argv, io.StringIO(), 0
    sys.argv = ["wirelessdl", *words]
    try:
        # commands are for processes of their own: NumPy's errors are theirs
        with contextlib.chdir(place), contextlib.redirect_stdout(out), np.errstate(**USUAL_ERRORS):
            main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.argv = before
    said = (
        {"text": f"{code}\n{out.getvalue()}"} if name in ("verify", "compare", "check", "plan") else {"text": str(code)}
    )
    return {**said, **({"run": str(next((place / "from").iterdir()))} if name == "run" and not code else {})}


STEPS = {
    function.__name__: function for function in (simulate, resumed, sweep, models, refused, fails, command)
}  # fmt: skip


def drawn(rng):
    """A session: settings (None where nothing is set), step, what it is about, and how it is called."""
    steps = []
    for _ in range(rng.randint(3, 6)):
        name = rng.choice(
            ["simulate", "simulate", "simulate", "resumed", "sweep", "models", "refused", "fails", "command"]
        )
        about = rng.choice(sorted(COMMANDS if name == "command" else KINDS))
        manner = "plainly" if name == "command" else rng.choice(MANNERS)  # signals are for the main thread
        steps.append((rng.choice([None, *sorted(SETTINGS)]), name, about, manner))
    return steps


def called(manner, function, *given):
    if manner == "in a loop":

        async def call():
            return function(*given)

        return asyncio.run(call())
    if manner == "plainly":
        return function(*given)
    ended = []

    def call():
        try:
            ended.append((function(*given), None))
        except BaseException as error:
            ended.append((None, error))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    result, error = ended[0]
    if error is not None:
        raise error
    return result


def session(steps, place, made):
    """In the child: do it, and write what came of every step."""
    found = []
    os.chdir(place)
    for number, (setting, name, about, manner) in enumerate(steps):
        try:
            if setting is not None:
                SETTINGS[setting]()
            folder = place / str(number)
            folder.mkdir()
            found.append(called(manner, STEPS[name], about, folder, made))
        except BaseException:
            found.append({"error": traceback.format_exc()})
    (place / "found.json").write_text(json.dumps(found))


def in_a_process(steps, place, made):
    """What came of the steps of a session, and what it printed last where it did not end."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    words = [sys.executable, __file__, "--session", json.dumps(steps), str(place), str(made)]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=PATIENCE_S, check=False)
    if not (place / "found.json").exists():
        return [{"error": f"exit code {done.returncode}: {done.stderr[-300:]}"}] * len(steps)
    return json.loads((place / "found.json").read_text())


class Alone:
    """What steps give in processes of their own, which are started when first asked for and kept."""

    def __init__(self, folder):
        self._folder, self.made = folder / "alone", folder / "made"
        self.made.mkdir(parents=True, exist_ok=True)
        for kind in KINDS:
            if not (self.made / kind).exists():
                shutil.move(self.of("simulate", kind)["run"], self.made / kind)

    def of(self, name, about):
        place, answer = self._folder / f"{name}-{about}", self._folder / f"{name}-{about}.json"
        if not answer.exists():
            (found,) = in_a_process([(None, name, about, "plainly")], place, self.made)
            assert "error" not in found, found["error"]
            answer.write_text(json.dumps(found))
        return json.loads(answer.read_text())


def wrong(step, found, alone):
    """What is wrong with what came of a step; None where nothing is."""
    from damage import assert_same_study
    from interrupting import assert_same_tables

    _, name, about, _ = step
    if "error" in found:
        return f"raised: {' | '.join(found['error'].strip().splitlines()[-3:])[:500]}"
    expected = alone.of(name, about)
    try:
        if "run" in found:
            assert_same_tables(Path(found["run"]), alone.made / (about if name != "command" else "softmax"))
        if "study" in found:
            assert_same_study(Path(found["study"]), Path(expected["study"]))
    except AssertionError as error:
        return f"other tables: {str(error)[:300]}"
    if found.get("text") != expected.get("text"):
        return f"other words: {found['text'][:200]!r} instead of {expected['text'][:200]!r}"
    return None


def campaign(folder, count, seed):
    from journal import Journal

    journal, alone = Journal(folder), Alone(folder)
    for number in range(count):
        if number in journal:
            continue
        steps = drawn(random.Random(f"{seed}:{number}"))
        lines, set_before = [], []
        for step, found in zip(steps, in_a_process(steps, folder / "session", alone.made), strict=True):
            set_before += [step[0]] if step[0] else []
            if line := wrong(step, found, alone):
                lines.append(f"{step[1]} {step[2]} {step[3]} after {', '.join(set_before) or 'nothing'}: {line}")
        counts = Counter({"sessions": 1, "calls": len(steps), "settings": len(set_before)})
        counts.update(name for _, name, _, _ in steps)
        journal.add(number, counts, lines)
        print(f"TRIED {number} {'; '.join(' '.join(filter(None, step)) for step in steps)}", flush=True)
    counts = journal.counts
    print(
        f"sessions: {counts['sessions']} sessions, {counts['calls']} calls after {counts['settings']} settings: "
        f"{', '.join(f'{counts[name]} {name}' for name in STEPS)}; {counts['found']} found",
        flush=True,
    )
    return counts["found"]


if __name__ == "__main__":
    if sys.argv[1] == "--session":
        session(json.loads(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
    else:
        place, count, *rest = sys.argv[1:]
        raise SystemExit(min(campaign(Path(place).resolve(), int(count), int(rest[0]) if rest else 0), 1))
