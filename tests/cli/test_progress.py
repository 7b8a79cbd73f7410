"""What a run shows on the way: a bar for people, plain lines for files, objects for machines."""

import io
import json
import re
import time

from rich.console import Console

from wirelessdl.cli.progress import listener
from wirelessdl.run.recorder import Progress


def evaluation(round: int, coalition: int | None = None) -> Progress:
    return Progress(
        round=round,
        rounds=40,
        time_s=0.25 * round,
        accuracy_mean=0.615,
        accuracy_min=0.5,
        accuracy_max=0.7,
        loss_mean=1.2,
        epsilon_total=2.34,
        epsilon_bound=2.5,
        coalition=coalition,
        epsilon_own_total=3.45,
        epsilon_own_bound=3.6,
    )


def shown(*, terminal: bool, as_json: bool = False, width: int = 120, coalition: int | None = None) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=width, highlight=False)
    with listener(console, done=0, rounds=40, as_json=as_json) as listen:
        for round in range(1, 21):
            listen.on_round(round)
            time.sleep(0.01)
            if round % 10 == 0:
                listen.on_evaluation(evaluation(round, coalition))
    return console.file.getvalue()


def test_the_bar_shows_round_accuracy_epsilon_time_rate_and_what_remains():
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown(terminal=True)).rstrip().splitlines()[-1]
    for words in ("20/40", "accuracy 61.5%", "epsilon 2.34 against everyone", "5.00 s simulated"):
        assert words in last
    assert re.search(r"\d rounds/s", last)
    assert re.search(r"\d\d:\d\d$", last.strip())


def test_the_bar_keeps_to_one_line_of_a_narrow_terminal():
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown(terminal=True, width=80))
    assert all(len(line) <= 80 for line in re.split(r"[\r\n]", plain))
    assert "accuracy 61.5%" in plain


def test_elsewhere_there_is_a_plain_line_for_each_evaluation():
    assert shown(terminal=False).splitlines() == [
        "round 10/40  accuracy 61.5%, epsilon 2.34 against everyone  2.50 s simulated",
        "round 20/40  accuracy 61.5%, epsilon 2.34 against everyone  5.00 s simulated",
    ]


def test_under_pairwise_noise_the_promised_epsilon_is_shown_with_its_coalition():
    lines = shown(terminal=False, coalition=5).splitlines()
    assert lines[0] == "round 10/40  accuracy 61.5%, epsilon 2.34 against any 5 nodes  2.50 s simulated"
    assert "against any one node " in shown(terminal=False, coalition=1)


def test_json_is_one_object_for_each_evaluation(capsys):
    shown(terminal=True, as_json=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["round"] for line in lines] == [10, 20]
    assert lines[0]["event"] == "evaluation"
    assert (lines[0]["epsilon_total"], lines[0]["coalition"], lines[0]["epsilon_own_total"]) == (2.34, None, 3.45)
