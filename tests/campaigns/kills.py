"""Processes that are killed at random and gone on with: the tables equal those of the run that nothing happened to.

    python tests/campaigns/kills.py FOLDER KILLS [SEED] [CASE ...]      # cases by name; all of them where none is named

Cases are all bundled scenarios but those that need downloads, with few rounds, and a small one with every kind of
model, noise and access; two are sweeps. A process is killed with SIGKILL after a random share of the processor time
(sweeps: of the time) that the uninterrupted run took, every other time counted from its next checkpoint, then gone on
with, and in two of five cases killed again before it is let finish. Processes are children of this one, which has
loaded the package, so that a kill costs little more than the rounds themselves. Lines that begin with FOUND say what
went wrong; the last line has the counts. Every case is tried three times before one is tried more often, then those
that are quick more often than those that are slow. One that was stopped goes on (`journal`).
"""

import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from children import LIMIT_S, become, limited, load_all, processor_clock
from damage import assert_same_study
from interrupting import HIDDEN_STATE, assert_same_tables
from journal import Journal

import wirelessdl
from wirelessdl.errors import WirelessdlError
from wirelessdl.trace.checkpoint import checkpoint_round
from wirelessdl.trace.files import is_locked

ROOT = Path(__file__).parents[2]
ROUNDS = 45  # checkpoints after 20 and 40, parts after 20, 40 and 45
PARTS = ("--set", "trace.checkpoint_every=20", "--set", "trace.flush_every=20")
SMALL = ("quickstart", "--set", "learning.eval_every=10", "--set", "power.objective=own-noise")
FADING = "channel.models=[{model='log-distance'},{model='rayleigh'}]"
OPTIONS = {
    "mlp": ("learning.model={model='mlp',hidden=[16]}",),
    "cnn": ("learning.model={model='cnn',channels=4,hidden=8}", "learning.batch_size=4"),
    "resnet": ("learning.model=resnet20", "learning.batch_size=1", "learning.eval_samples=4", "network.nodes=2"),
    "logistic-poisson": ("learning.model=logistic", "learning.sampling=poisson"),
    "shuffled": ("learning.sampling=shuffled",),
    "pairwise": ("privacy.noise=pairwise",),
    "pairwise-neighbours": ("privacy.noise=pairwise", "privacy.pairs=neighbours", "network.topology=ring"),
    "tdma": ("radio.access=tdma",),
    "digital": ("radio.access=digital",),
    "digital-outages": ("radio.access=digital", "radio.rate_bps_hz=6", "radio.attempts=2"),
    "passes": ("radio.mixing_passes=3", "learning.closing_passes=5"),
    "total": ("privacy.epsilon_max=inf", "privacy.epsilon_total=4"),
    "budget": ("privacy.budget_total=0.12", "learning.partition={kind='quantity',form='power-law'}"),
    "some-samples": ("learning.eval_samples=100",),
    "float64": ("learning.dtype=float64",),
    "listen": ("faults.crashes={kind='exponential',up_s=0.3,down_s=0.1}", "faults.rejoin=listen"),
    "hidden-state": ("channel.models=[{model='log-distance'},{model='drift.py:Drift'}]",),
    "windowed": ("power.balance=false", "power.multiplier=windowed", "radio.control_failure=0.5", FADING),
    "mean": ("power.balance=false", "power.multiplier=mean", "radio.control_failure=0.1", FADING),
    "violations": ("power.objective=sum", FADING),
    "stopping": ("learning.stop_after=4", "learning.stop_within=1.0", "learning.eval_every=8"),
    "minutes": ("trace.checkpoint_minutes=0.0005", "trace.checkpoint_every=1000"),  # after other rounds every time
    "turns": ("radio.alignment=turns", "radio.truncate_snr_db=3", "radio.subslots=3", FADING),
    "blind": ("radio.alignment=none", "radio.antennas=3", FADING),
    "server-fails": (
        "radio.alignment=server",
        "radio.truncate_snr_db=0",
        "network.server={at='center',antennas=2,down=[[10,30]],without='hubs'}",
        FADING,
    ),
    "gram": (
        "learning.features={kind='random-patches',filters=8,dimensions=16}",
        "privacy.gram_share=0.2",
        "privacy.epsilon_max=inf",
        "privacy.epsilon_total=4",
    ),
    "tracking": ("learning.update=gradient-tracking",),
    "one-bit": ("learning.update=error-feedback", "learning.compression=one-bit"),
    "replayed": ("faults.byzantine={kind='replay',nodes=[1]}",),
    "messages-median": ("radio.access=digital", "learning.robust=median"),
}
SWEEPS = {
    "sweep": ("--vary", "privacy.epsilon_max=1,inf", "--seeds", "2", "--no-local"),
    "sweep-digital": ("--vary", "radio.access=oac,digital", "--baseline", "tdma"),
}


def cases():
    """Name and arguments of `wirelessdl run` or `sweep`, without where it writes."""
    for path in sorted((ROOT / "scenarios").glob("*.toml")):
        if not path.stem.startswith(("cifar", "fashion")):
            yield path.stem, ("run", path.stem, "--rounds", str(ROUNDS), "--set", "learning.eval_every=15", *PARTS)
    for name, overrides in OPTIONS.items():
        settings = [word for override in overrides for word in ("--set", override)]
        rounds = 25 if name == "resnet" else ROUNDS
        yield name, ("run", *SMALL, "--rounds", str(rounds), *PARTS, *settings)
    for name, arguments in SWEEPS.items():
        yield name, ("sweep", *SMALL, "--rounds", "25", *PARTS, "--jobs", "1", *arguments)


def start(arguments, folder, output):
    """`wirelessdl` in a child that leads a group of its own; returns its process id."""
    child = os.fork()
    if child:
        with suppress(OSError):
            os.setpgid(child, child)  # whoever comes first
        return child
    os.setpgid(0, 0)
    return become(arguments, folder, output)


def wait(child, seconds, spent=time.monotonic, after=None):
    """Exit code before `spent` has grown by so many seconds, or None: the child, and all it started, was killed.

    after: the seconds count from when this holds.
    """
    began = spent()
    while after is not None or spent() - began < seconds:
        if after is not None and after():
            began, after = spent(), None
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return None if code == -signal.SIGKILL else code


class Case:
    """One command, the result that nothing happened to, and how long it took."""

    def __init__(self, name, arguments, folder):
        self.name, self.arguments, self.folder = name, arguments, folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "drift.py").write_text(HIDDEN_STATE)
        self.output = folder / "output.txt"
        if not (folder / "took_s").exists():
            self.make()
        self.took_s, self.whole = float((folder / "took_s").read_text()), self.result("whole")

    def make(self):
        """The run that nothing happened to."""
        shutil.rmtree(self.folder / "whole", ignore_errors=True)
        began = time.monotonic()
        child = start([*self.arguments, "--quiet", *self.out("whole")], self.folder, self.output)
        _, status, usage = os.wait4(child, 0)
        if status:
            raise RuntimeError(f"{self.name}: status {status}: {self.said()}")
        sweep = self.arguments[0] == "sweep"  # its workers do the work
        took_s = time.monotonic() - began if sweep else usage.ru_utime + usage.ru_stime
        (self.folder / "took_s").write_text(str(took_s))

    def out(self, place):
        return ("--out", str(self.folder / place))

    def said(self):
        return self.output.read_text(errors="replace").strip()[-600:]

    def result(self, place):
        """The run directory, or the study's; None where a killed process left none."""
        if self.arguments[0] == "sweep":
            path = self.folder / place
            return path if (path / "study.json").exists() else None
        return next(iter(sorted((self.folder / place).glob("[!.]*"))), None)

    def killed(self, rng, counts):
        """Kill and go on until it is done; lines for what is wrong."""
        place = "killed"
        shutil.rmtree(self.folder / place, ignore_errors=True)
        left, code = rng.choice([1, 1, 1, 2, 2]), None
        while code is None:
            found = self.result(place)
            fresh = [*self.arguments, *self.out(place)]
            arguments = fresh if found is None else [self.arguments[0], "--resume", str(found)]
            child = start([*arguments, "--quiet"], self.folder, self.output)
            if left:
                late = self.arguments[0] == "run" and rng.random() < 0.5  # after a checkpoint, however long that takes
                clock = time.monotonic if self.arguments[0] == "sweep" else processor_clock(child)
                seconds, after = rng.random() * self.took_s, None
                if late:
                    seconds, after = seconds / 4, self._new_checkpoint(place)
                code = wait(child, seconds, clock, after)
            else:
                code = wait(child, 20 * LIMIT_S)
            if code is None:
                counts["kills"] += 1
                counts["early"] += found is None and self.result(place) is None
                counts["kept"] += self._checkpoints(place) > 0
                left -= 1
                if left < 0:
                    return ["took 20 times as long as is allowed"]
                problem = self.readable(place)
                if problem:
                    return [problem]
            elif code:
                return [f"exit code {code}: {self.said()}"]
            elif left:
                counts["over"] += 1  # it was done before its time came
        return self.differs(self.result(place))

    def _checkpoints(self, place):
        """Round of the newest checkpoint of a run; 0 where there is none."""
        found = self.result(place)
        return 0 if found is None else checkpoint_round(found)

    def _new_checkpoint(self, place):
        """Whether there is one that was not there before."""
        before = self._checkpoints(place)
        return lambda: self._checkpoints(place) > before

    def readable(self, place):
        """What is wrong with what a killed run left."""
        found = self.result(place)
        if found is None or self.arguments[0] == "sweep":
            return None
        try:
            if is_locked(found):
                return "the lock outlives its process"
            _ = wirelessdl.open_run(found).rounds
        except WirelessdlError as error:
            if "no rounds" not in str(error):
                return f"what was left cannot be read: {error}"
        return None

    def differs(self, found):
        try:
            if self.arguments[0] == "run":
                assert_same_tables(found, self.whole)
                code, output, *_ = limited(["verify", str(found)], self.folder)
                return [f"verify: exit code {code}: {output[-600:]}"] if code else []
            names = sorted(path.name for path in (self.whole / "runs").iterdir())
            assert sorted(path.name for path in (found / "runs").iterdir()) == names, "other runs"
            assert_same_study(found, self.whole)
            index = wirelessdl.open_study(found).index.set_index("path")
            assert sorted(index.index) == [f"runs/{name}" for name in names], "runs that the index does not have"
            for path in index.index:
                stated = wirelessdl.open_run(found / path).summary["epsilon_total"]
                assert index.get("epsilon_total", {}).get(path) == float(stated), "other figures in the index"
        except (AssertionError, WirelessdlError) as error:
            return [f"differs from the uninterrupted one: {str(error)[:600]}"]
        return []


def _turn(tries, case):
    """What decides whose turn it is: three tries each, then as many seconds each."""
    return min(tries, 3), tries * case.took_s if tries >= 3 and case is not None else 0


def campaign(folder, kills, seed, names):
    every, journal, ready, tries = dict(cases()), Journal(folder), {}, Counter()
    chosen = names or list(every)
    random.Random(seed).shuffle(chosen)
    for trial in journal.trials:
        tries[trial.partition(" ")[2]] += 1
    while journal.counts["kills"] < kills:
        name = min(chosen, key=lambda name: _turn(tries[name], ready.get(name)))
        if name not in ready:
            ready[name] = Case(name, every[name], folder / name)
        tries[name] += 1
        counts, trial = Counter(results=1), f"{seed}:{tries[name]} {name}"
        found = ready[name].killed(random.Random(trial), counts)
        journal.add(trial, counts, found)
        print(f"TRIED {trial} {counts['kills']} kills, whole run {ready[name].took_s:.1f} s", flush=True)
    counts, by_case = journal.counts, Counter()
    for trial, counted in journal.trials.items():
        by_case[trial.partition(" ")[2]] += counted.get("kills", 0)
    print(", ".join(f"{name} {count}" for name, count in sorted(by_case.items())))
    return journal.report(
        f"kills: {counts['kills']} kills of {counts['results']} results in {len(by_case)} cases, {counts['early']} "
        f"before a run directory was there, {counts['kept']} after a checkpoint, {counts['over']} processes done "
        "before their time"
    )


if __name__ == "__main__":
    load_all()
    place, kills, *rest = sys.argv[1:]
    raise SystemExit(min(campaign(Path(place).resolve(), int(kills), int(rest[0]) if rest else 0, rest[1:]), 1))
