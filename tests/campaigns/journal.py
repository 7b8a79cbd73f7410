"""What a campaign has tried so far, in `FOLDER/journal.jsonl`: one that was stopped goes on where it was.

A line holds the name of a trial, what it counted and what was found. The file is only added to; a campaign in a folder
that has one skips what is in it, and its counts are those of all lines. A new campaign takes a new folder.
"""

import json
from collections import Counter


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

    def _take(self, entry):
        self.trials[entry["name"]] = entry["counts"]
        self.counts.update(entry["counts"])
        self.counts["found"] += len(entry["found"])
