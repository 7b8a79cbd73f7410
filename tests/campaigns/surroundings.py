"""Commands in processes whose surroundings are odd: the right result or one line, and a run can be gone on with.

    python tests/campaigns/surroundings.py FOLDER TRIALS [SEED]

A trial is a command in a real process of its own, with one or two of: output that is full, closed, or a pipe whose
reader leaves; a working folder that is gone or has an odd name; few open files, small files, a small disk (as root); no
home, no place for temporary files; another encoding, width, time zone or hash seed; Python without assertions or with
all its checks; stopped and continued by signals.

What must hold: no traceback; exit code 0, or one line and 2, or 141 where a pipe lost its reader, or 1 where runs of a
sweep failed. `run` and
`run --resume` that end well have the tables of the run that nothing happened to, and those that do not are gone on with
in usual surroundings to the same tables. `verify` of a whole run does not find it wrong.

Lines that begin with FOUND say what went wrong; the last line has the counts. A trial is drawn from its number; one
campaign that was stopped goes on (`journal`).
"""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import children  # noqa: F401  who finds the tests' own modules
from interrupting import StopAt, assert_same_tables
from journal import difference, main, numbered

import wirelessdl

PATIENCE_S = 900
BROKEN_PIPE = 128 + signal.SIGPIPE
SETTINGS = (
    "power.objective=own-noise", "learning.eval_every=5", "trace.checkpoint_every=20", "trace.flush_every=20",
    "scenario.rounds=45", "learning.batch_size=8",
    "learning.dataset={kind='synthetic',samples=400,test_samples=100}",
)  # fmt: skip
WORDS = tuple(word for setting in SETTINGS for word in ("--set", setting))
ENVIRONMENTS = {
    "no home": {"HOME": None},
    "home is nowhere": {"HOME": "/nowhere/at/all", "XDG_CACHE_HOME": "/nowhere/else", "MPLCONFIGDIR": "/nowhere/too"},
    "no place for temporary files": {"TMPDIR": "/nowhere/at/all"},
    "ascii": {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "latin": {"PYTHONIOENCODING": "latin-1"},
    "narrow": {"COLUMNS": "1", "LINES": "1"},
    "wide": {"COLUMNS": "100000"},
    "no terminal": {"TERM": "dumb"},
    "colours": {"FORCE_COLOR": "1"},
    "time zone": {"TZ": "Pacific/Kiritimati"},
    "hash seed": {"PYTHONHASHSEED": "4242"},
    "without assertions": {"PYTHONOPTIMIZE": "2"},
    "developer": {"PYTHONDEVMODE": "1"},
}
FOLDERS = {
    "blanks": b" two  words ",
    "line end": b"two\nlines",
    "letters": "Zürich 雪".encode(),
    "no text": b"caf\xe9",
    "option": b"--help",
    "percent": b"100%[bold]{x}",
    "long": b"n" * 120,
}
OUTPUTS = ("stdout full", "stderr full", "both full", "closed", "all closed", "no reader", "reader leaves")
LIMITS = ("few files", "small files", "stopped", "umask", "small disk", "no folder")
COMMANDS = ("run", "run", "run", "resume", "resume", "report", "verify", "list", "compare", "plot", "check", "sweep")


def make(folder):
    """A finished and an interrupted run, unless they are there."""
    if not (folder / "made").exists():
        for name in ("whole", "part"):
            shutil.rmtree(folder / name, ignore_errors=True)
        scenario, stop = wirelessdl.load_scenario("quickstart", overrides=SETTINGS), StopAt(30)
        wirelessdl.simulate(scenario, out=folder / "whole")
        wirelessdl.simulate(scenario, out=folder / "part", on_round=stop.on_round, should_stop=stop.should_stop)
        (folder / "made").touch()
    return next((folder / "whole").iterdir()), next((folder / "part").iterdir())


def drawn(rng):
    """One or two surroundings of different kinds, by name."""
    kinds = [sorted(ENVIRONMENTS), [f"folder {name}" for name in sorted(FOLDERS)], OUTPUTS, LIMITS]
    return tuple(rng.choice(kind) for kind in rng.sample(kinds, rng.choice([1, 1, 2])))


class Trial:
    """One command in its surroundings."""

    def __init__(self, folder, rng, part_kb):
        """part_kb: what the interrupted run takes on a disk."""
        self.rng, self.names, self.command = rng, drawn(rng), rng.choice(COMMANDS)
        odd = next((FOLDERS[name.removeprefix("folder ")] for name in self.names if name.startswith("folder ")), b"w")
        self.home = folder / "trial"
        self.place = Path(os.fsdecode(os.path.join(os.fsencode(self.home), odd)))
        self.part_kb, self.mounted = part_kb, False

    def __enter__(self):
        shutil.rmtree(self.home, ignore_errors=True)
        self.place.mkdir(parents=True)
        self.work = self.home / "gone" if "no folder" in self.names else self.place
        self.work.mkdir(exist_ok=True)
        if "small disk" in self.names:
            (self.place / "out").mkdir()
            size = self.rng.choice([40, 80, 160, 320, 640]) + (self.part_kb if self.command == "resume" else 0)
            words = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(self.place / "out")]
            self.mounted = subprocess.run(words, capture_output=True, check=False).returncode == 0
        return self

    def __exit__(self, *_):
        if self.mounted:
            subprocess.run(["umount", str(self.place / "out")], check=True)
        shutil.rmtree(self.home, ignore_errors=True)

    def words(self, whole, part):
        if self.command == "resume":
            return ["run", "--resume", str(shutil.copytree(part, self.place / "out" / part.name))]
        return {
            "run": ["run", "quickstart", *WORDS, "--out", "out"],
            "report": ["report", str(whole), "--out", str(self.place / "page.html")],
            "verify": ["verify", str(whole)],
            "list": ["list", str(whole.parent)],
            "compare": ["compare", str(whole), str(part)],
            "plot": ["plot", str(whole), "--figure", "accuracy", "--out", str(self.place / "figure.png")],
            "check": ["check", "quickstart"],
            "sweep": ["sweep", "quickstart", *WORDS, "--rounds=2", "--jobs=1", "--no-local", "--out=out/study"],
        }[self.command]

    def _enter(self):
        """In the child, before the command: what environments cannot say."""
        for name in self.names:
            if name == "few files":
                resource.setrlimit(resource.RLIMIT_NOFILE, (self.limit, self.limit))
            elif name == "small files":
                resource.setrlimit(resource.RLIMIT_FSIZE, (self.limit, self.limit))
            elif name == "umask":
                os.umask(0o777)
            elif name == "no folder":
                os.rmdir(self.work)
            elif name in ("closed", "all closed"):
                for descriptor in (0, 1, 2) if name == "all closed" else (1,):
                    with suppress(OSError):
                        os.close(descriptor)

    def run(self, whole, part):
        """Exit code and output of the command."""
        words = [sys.executable, "-m", "wirelessdl", *self.words(whole, part)]
        environment = dict(os.environ)
        for name in self.names:
            for key, value in ENVIRONMENTS.get(name, {}).items():
                environment.pop(key, None)
                if value is not None:
                    environment[key] = value
        self.limit = self.rng.choice([48, 64, 96] if "few files" in self.names else [2_000, 20_000, 100_000, 400_000])
        said, full = self.home / "said.txt", os.open("/dev/full", os.O_WRONLY)
        reading, writing = os.pipe()
        with said.open("wb") as file:
            out = err = file
            if any(name in self.names for name in ("stdout full", "both full")):
                out = full
            if any(name in self.names for name in ("stderr full", "both full")):
                err = full
            if "no reader" in self.names or "reader leaves" in self.names:
                out = writing
            process = subprocess.Popen(
                words, cwd=self.work, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                preexec_fn=self._enter, pass_fds=(),
            )  # fmt: skip
            os.close(writing)
            if "reader leaves" in self.names:
                os.read(reading, 1)
            os.close(reading)
            os.close(full)
            if "stopped" in self.names:
                time.sleep(self.rng.random() * 6)
                process.send_signal(signal.SIGSTOP)
                time.sleep(0.5)
                process.send_signal(signal.SIGCONT)
            try:
                code = process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
        return code, said.read_text(errors="replace")

    def wrong(self, code, output, whole):
        """Lines for what is wrong with how it ended."""
        pipe = "no reader" in self.names or "reader leaves" in self.names
        if "Traceback (most recent" in output:
            return [f"traceback: {output.strip().splitlines()[-1][:300]}"]
        allowed = {
            0,
            2,
            *([BROKEN_PIPE, 1] if pipe else ()),
            *([1] if "runs failed" in output else ()),
        }  # said by a sweep
        if code not in allowed:
            return [f"exit code {code}: {output[-300:]!r}"]
        if code == 2 and not any(name in self.names for name in ("stderr full", "both full", "all closed")):
            errors = [line for line in output.splitlines() if "Error: " in line]
            if len(errors) != 1:
                return [f"{len(errors)} lines of errors: {output[-300:]!r}"]
        if self.command not in ("run", "resume"):
            return []
        run = next(iter(self.place.glob("out/[!.]*")), None)
        if run is not None and "folder no text" in self.names:  # where a path that is text leads to it
            run = shutil.copytree(run, self.home / "text" / run.name)
        if code == 0:
            return difference(assert_same_tables, run, whole) if run is not None else ["no run directory"]
        return self._gone_on_with(run, whole) if run is not None else []

    def _gone_on_with(self, run, whole):
        if self.mounted:  # more room than that disk has
            run = shutil.copytree(run, self.home / "rescued" / run.name)
        done = subprocess.run(
            [sys.executable, "-m", "wirelessdl", "run", "--resume", str(run), "--quiet"],
            capture_output=True, text=True, check=False, errors="replace",
        )  # fmt: skip
        if done.returncode:
            return [f"resume: exit code {done.returncode}: {done.stderr[-300:]!r}"]
        return [f"resume: {line}" for line in difference(assert_same_tables, run, whole)]


def campaign(folder, count, seed):
    whole, part = make(folder)
    part_kb = sum(-(-path.stat().st_size // 4096) * 4 for path in part.rglob("*"))

    def tried(rng, counts):
        with Trial(folder, rng, part_kb) as trial:
            code, output = trial.run(whole, part)
            lines = trial.wrong(code, output, whole)
        counts[{0: "done", 2: "refused"}.get(code, "ended")] += 1
        return f"{trial.command}, {' and '.join(trial.names)}: {code}", lines

    journal = numbered(folder, count, seed, tried)
    counts = journal.counts
    return journal.report(
        f"surroundings: {counts['trials']} trials, {counts['done']} done, {counts['refused']} refused with one line, "
        f"{counts['ended']} ended for want of a reader"
    )


if __name__ == "__main__":
    main(campaign)
