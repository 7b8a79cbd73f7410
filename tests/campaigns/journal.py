"""What a campaign has tried so far, in `FOLDER/journal.jsonl`: one that was stopped goes on where it was.

A line holds the name of a trial, what it counted and what was found. The file is only added to; a campaign in a folder
that has one skips what is in it, and its counts are those of all lines. A new campaign takes a new folder.
"""

import json
import random
import sys
from collections import Counter
from pathlib import Path


class Journal:
    """Counts of all trials of a campaign, those of earlier processes among them."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self._path, self.counts, self.trials = folder / "journal.jsonl", Counter(), {}
        for line in self._path.read_text().splitlines() if self._path.exists() else []:
            self._take(json.loads(line))
        if self.trials:
            print(f"GOES ON after {len(self.trials)} trials", flush=True)

    def __contains__(self, name):
        return str(name) in self.trials

    def add(self, name, counts, found=()):
        """A trial is over; prints a line, FOUND, for everything that was found."""
        for line in found:
            print(f"FOUND {name} {line}", flush=True)
        entry = {"name": str(name), "counts": {key: value for key, value in counts.items() if value}}
        entry["found"] = list(found)
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        self._take(entry)

    def report(self, line):
        """Print the last line of a campaign, and give how much was found."""
        print(f"{line}; {self.counts['found']} found", flush=True)
        return self.counts["found"]

    def _take(self, entry):
        self.trials[entry["name"]] = entry["counts"]
        self.counts.update(entry["counts"])
        self.counts["found"] += len(entry["found"])


def numbered(folder, count, seed, tried):
    """The journal of trials 0 to count - 1, each drawn from its number, after those that were missing.

    tried(rng, counts): what was tried, in words, and lines for what is wrong; it adds to counts.
    """
    journal = Journal(folder)
    for number in range(count):
        if number not in journal:
            counts = Counter(trials=1)
            what, lines = tried(random.Random(f"{seed}:{number}"), counts)
            journal.add(number, counts, [f"{what}: {line}" for line in lines])
            print(f"TRIED {number} {what}", flush=True)
    return journal


def difference(assert_same, *results):
    """Lines for results that differ, or cannot be read."""
    try:
        assert_same(*results)
    except Exception as error:
        return [f"other results, and no word of it: {str(error)[:300]}"]
    return []


def main(campaign):
    """`python CAMPAIGN.py FOLDER COUNT [SEED]`: exit code 1 where anything was found."""
    place, count, *rest = sys.argv[1:]
    folder = Path(place).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    raise SystemExit(min(campaign(folder, int(count), int(rest[0]) if rest else 0), 1))
