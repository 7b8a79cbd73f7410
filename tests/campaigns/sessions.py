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
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import children  # noqa: F401  who finds the tests' own modules
import numpy as np
import pandas as pd
import torch
from journal import difference, main, numbered

import wirelessdl  # which loads nothing before it is asked to
from wirelessdl.arrays import USUAL_ERRORS

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
    "hubs": (
        "radio.alignment=hubs",
        "radio.truncate_snr_db=0",
        "channel.models=[{model='log-distance'},{model='rayleigh'}]",
    ),
    "tracking": ("learning.update=gradient-tracking",),
}
COMMANDS = {
    "verify": ("verify", "{run}"),
    "list": ("list", "{parent}"),
    "compare": ("compare", "{run}", "--json"),
    "report": ("report", "{run}", "--out", "page.html"),
    "plot": ("plot", "{run}", "--figure", "privacy", "--out", "figure.png"),
    "check": ("check", "quickstart"),
    "plan": ("plan", "urban_er_k20", "--json"),
    "run": ("run", "quickstart", *WORDS, "--out", "from", "--quiet"),
}
MANNERS = ("plainly", "plainly", "in a thread", "in a loop")


# --- what a session sets; everything stays until the process ends

_HELD: list = []


def _for_good(context):
    context.__enter__()
    _HELD.append(context)  # a context that is collected may leave


def _printing():
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
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002  the old one, which others may still draw from
    torch.manual_seed(1)


def _elsewhere():
    Path("elsewhere").mkdir(exist_ok=True)
    os.chdir("elsewhere")


def _no_environment():
    """Nothing in it but what chooses kernels of BLAS: with others, last digits are others."""
    for name in set(os.environ) - {name for name in os.environ if "BLAS" in name or name.startswith(("MKL_", "OMP_"))}:
        del os.environ[name]


def _output():
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()


SETTINGS = {
    "double": lambda: torch.set_default_dtype(torch.float64),
    "half": lambda: torch.set_default_dtype(torch.bfloat16),
    "another device": lambda: torch.set_default_device("meta"),
    "no gradients": lambda: torch.set_grad_enabled(False),
    "inference": lambda: _for_good(torch.inference_mode()),
    "autocast": lambda: _for_good(torch.autocast("cpu", dtype=torch.bfloat16)),
    "deterministic": lambda: torch.use_deterministic_algorithms(True),
    "NumPy's errors": lambda: np.seterr(all="raise"),
    "warnings": lambda: warnings.simplefilter("error"),
    "seeds": _seeds,
    "printing": _printing,
    "style": _style,
    "elsewhere": _elsewhere,
    "output": _output,
    "log": lambda: logging.basicConfig(level=logging.DEBUG),
    "garbage": gc.disable,
    "recursion": lambda: sys.setrecursionlimit(400),
    "environment": _no_environment,
}


# --- what a session does; `place` is a folder for this step alone


def _scenario(kind):
    return wirelessdl.load_scenario("quickstart", overrides=[*SMALL, *KINDS[kind]])


def simulate(kind, place, _made):
    return {"run": str(wirelessdl.simulate(_scenario(kind), out=place).path)}


def resumed(kind, place, _made):
    rounds = []
    part = wirelessdl.simulate(_scenario(kind), out=place, on_round=rounds.append, should_stop=lambda: len(rounds) == 7)
    assert part.state == "interrupted", part.state
    return {"run": str(wirelessdl.resume(part).path)}


def sweep(kind, place, _made):
    study = wirelessdl.sweep(_scenario(kind), vary={"privacy.delta": [1e-6]}, jobs=1, local=False, out=place / "study")
    study.plot(curves="round")
    return {"study": str(study.path)}


def models(kind, _place, made):
    """Accuracies of a run that is there, and a figure of it."""
    run = wirelessdl.open_run(made / kind)
    run.plot("accuracy")
    run.plot("map")
    return {"text": repr([float(value) for value in run.learner().accuracy(run.final_models())])}


def refused(kind, place, _made):
    try:
        wirelessdl.simulate(_scenario(kind), overrides={"privacy.delta": 2.0}, out=place)
    except wirelessdl.WirelessdlError as error:
        return {"text": str(error)}
    raise AssertionError("delta = 2 was taken")


def fails(kind, place, _made):
    def end(round):
        raise KeyError(round)

    try:
        wirelessdl.simulate(_scenario(kind), out=place, on_round=end)
    except KeyError as error:
        return {"text": repr(error)}
    raise AssertionError("the callback's error was lost")


def command(name, place, made):
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
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *given).result()


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
    expected, lines = alone.of(name, about), []
    if "run" in found:
        kept = alone.made / (about if name != "command" else "softmax")
        lines += difference(assert_same_tables, Path(found["run"]), kept)
    if "study" in found:
        lines += difference(assert_same_study, Path(found["study"]), Path(expected["study"]))
    if lines:
        return lines[0]
    if found.get("text") != expected.get("text"):
        return f"other words: {found['text'][:200]!r} instead of {expected['text'][:200]!r}"
    return None


def campaign(folder, count, seed):
    alone = Alone(folder)

    def tried(rng, counts):
        steps, lines, set_before = drawn(rng), [], []
        for step, found in zip(steps, in_a_process(steps, folder / "session", alone.made), strict=True):
            set_before += [step[0]] if step[0] else []
            if line := wrong(step, found, alone):
                lines.append(f"{step[1]} {step[2]} {step[3]} after {', '.join(set_before) or 'nothing'}: {line}")
        counts.update([name for _, name, _, _ in steps], calls=len(steps), settings=len(set_before))
        return "; ".join(" ".join(filter(None, step)) for step in steps), lines

    journal = numbered(folder, count, seed, tried)
    counts = journal.counts
    return journal.report(
        f"sessions: {counts['trials']} sessions, {counts['calls']} calls after {counts['settings']} settings: "
        f"{', '.join(f'{counts[name]} {name}' for name in STEPS)}"
    )


if __name__ == "__main__":
    if sys.argv[1] == "--session":
        session(json.loads(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
    else:
        main(campaign)
