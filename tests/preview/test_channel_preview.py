"""`wirelessdl channel` and `plan`: SINR before a run, suspect gains, and what the figure shows."""

import json

import numpy as np
import pytest
import tomli_w
from conftest import tiny, tiny_table

from wirelessdl.preview import channel_figure
from wirelessdl.preview.channel import link_facts, preview_channel, preview_fading
from wirelessdl.preview.plan import preview_plan
from wirelessdl.run.build import build

SMALL = {"dataset": {"kind": "synthetic", "features": 4, "samples": 60, "classes": 2}, "batch_size": 4}
NOISE_W = 1.380649e-23 * 290 * 1e6 * 10**0.7


def stranded(**radio):
    """A ring of seven under physical interference, jammed, without fading; node 3 is loud."""
    return tiny(
        scenario={"rounds": 3},
        network={"nodes": 7, "topology": "ring", "placement": {"kind": "disc", "radius_m": 100}},
        channel={"models": [{"model": "log-distance"}]},
        radio={
            "interference": "physical",
            "thermal_noise": True,
            "power_dbm": [10.0, 10, 10, 23, 10, 10, 10],
            "cancellation_db": 90,
            **radio,
        },
        power={"objective": "own-noise"},
        faults={"jammer": {"kind": "noise", "power_dbm": -95}},
        learning=SMALL,
    )


@pytest.mark.parametrize("radio", [{}, {"duplex": "half"}, {"access": "tdma"}], ids=["full", "half", "tdma"])
def test_sinr_before_a_run_counts_those_who_send_in_the_same_turn(radio):
    """Of every link, written out, in `channel` (mean over frames) and in `plan` (first frame)."""
    world = build(stranded(**radio), device="cpu")
    found = preview_channel(world)
    facts = link_facts(world, found)
    from wirelessdl.run.wiring import make_access

    access = make_access(world)
    power_w = 10 ** (np.array([10.0, 10, 10, 23, 10, 10, 10]) / 10 - 3)
    residual_w = power_w * 1e-9 if not radio else np.zeros(7)
    ring = {(i, j) for i in range(7) for j in ((i + 1) % 7, (i - 1) % 7)}
    expected, carried = {link: [] for link in ring}, {link: [] for link in ring}
    for number, frame in enumerate(found.frames, start=1):
        turn = access.turns(number, frame.links).turn
        received = frame.heard.matrix(frame.slots[0].gain) ** 2 * power_w
        for i, j in ring:
            strange_w = sum(received[i, k] for k in range(7) if k != i and (i, k) not in ring and turn[k] == turn[j])
            sinr = received[i, j] / (NOISE_W + 10 ** (-95 / 10 - 3) + residual_w[i] + strange_w)
            expected[i, j].append(sinr)
            carried[i, j].append(not radio or turn[i] != turn[j])
    for rx, tx, sinr_db in zip(facts.rx.tolist(), facts.tx.tolist(), facts.sinr_db.tolist()):
        assert sinr_db == pytest.approx(10 * np.log10(np.mean(expected[rx, tx])), abs=1e-9)
    first = sorted((i, j) for i, j in ring if carried[i, j][0])  # in order of links
    planned = preview_plan(build(stranded(**radio), device="cpu")).sinr_db
    np.testing.assert_allclose(planned, [10 * np.log10(expected[link][0]) for link in first], atol=1e-9)


DECIBELS = """
import numpy as np

class Decibels:
    def gain(self, links, time_s, rng):
        return np.full(len(links), 80.0 if time_s >= {since} else 0.1)
"""


@pytest.mark.parametrize(("since", "commands"), [("0", ("check", "channel", "run")), ("0.001", ("channel", "run"))])
def test_a_gain_in_decibels_is_a_warning_before_a_run_and_whenever_it_comes(
    since, commands, wirelessdl_command, tmp_path
):
    (tmp_path / "mine.py").write_text(DECIBELS.format(since=since))
    table = tiny_table(channel={"models": [{"model": "mine.py:Decibels"}]}, learning=SMALL, scenario={"rounds": 3})
    (tmp_path / "s.toml").write_text(tomli_w.dumps(table))
    for command in commands:
        said = wirelessdl_command(command, "s.toml", "--json")
        assert said.code == 0, said.err
        assert said.out.count("mine.py:Decibels gives an amplitude of 80") == 1, command


def test_a_gain_that_is_one_is_no_warning(wirelessdl_command, tmp_path):
    (tmp_path / "s.toml").write_text(tomli_w.dumps(tiny_table(learning=SMALL)))
    assert json.loads(wirelessdl_command("channel", "s.toml", "--json").out)["warnings"] == []


@pytest.fixture(scope="module")
def drawn():
    """The figure of a jammed ring on fading links, as matplotlib has it."""
    table = tiny_table(
        scenario={"rounds": 4},
        network={"nodes": 10, "topology": "ring", "placement": {"kind": "disc", "radius_m": 100}},
        channel={"models": [{"model": "log-distance"}, {"model": "rayleigh", "process": "clarke", "speed_mps": 2.0}]},
        radio={"interference": "physical"},
        learning=SMALL,
        power={"objective": "own-noise"},
    )
    from wirelessdl.scenario.loader import parse_scenario

    world = build(parse_scenario(table), device="cpu")
    found = preview_channel(world)
    kept = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(channel_figure, "save", lambda figure, _: (figure.canvas.draw(), kept.append(figure)))
        facts = link_facts(world, found)
        channel_figure.draw_channel(found, facts, preview_fading(world, found), [(0, 1), (1, 2), (2, 3)], "air", None)
    return kept[0]


def test_fades_are_drawn_on_a_logarithmic_axis_beside_theory(drawn):
    axis = drawn.axes[2]
    assert axis.get_yscale() == "log"
    measured, theory = axis.get_lines()
    level_db, share = theory.get_data()
    np.testing.assert_allclose(share, 1 - np.exp(-(10 ** (np.asarray(level_db) / 10))), rtol=1e-6)
    assert measured.get_ydata()[0] < 1e-4  # down to the deepest fade met


def test_legends_lie_inside_and_above_what_is_drawn(drawn):
    for axis in drawn.axes[:4]:
        legend = axis.get_legend()
        box, inside = legend.get_window_extent(), axis.get_window_extent()
        assert inside.x0 <= box.x0
        assert box.x1 <= inside.x1 + 1
        assert inside.y0 <= box.y0
        assert box.y1 <= inside.y1 + 1
    memory = drawn.axes[3]
    assert memory.get_yticks().max() == pytest.approx(1.0)
    peak = memory.transData.transform((0, 1.0))[1]
    assert memory.get_legend().get_window_extent().y0 > peak


def test_strangers_are_on_the_map_and_numbers_lie_apart(drawn):
    axis = drawn.axes[0]
    strange, links = axis.collections[1:3]
    assert (len(strange.get_segments()), len(links.get_segments())) == (10 * 9 - 20, 20)
    assert axis.get_legend().get_texts()[0].get_text() == "strangers"
    numbers = [text.get_window_extent() for text in axis.texts]
    assert len(numbers) == 10
    overlapping = [(a, b) for a in range(10) for b in range(a) if numbers[a].overlaps(numbers[b])]
    assert overlapping == []
