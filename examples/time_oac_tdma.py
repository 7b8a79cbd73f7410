"""What superposition buys: the same ten nodes over the air at once, in halves, and one after another."""

import tempfile

import wirelessdl

TARGET = 0.65
WAYS = {
    "over the air, full duplex": [],
    "over the air, half duplex": ["radio.duplex=half"],
    "one after another (tdma)": ["radio.access=tdma"],
}

heads = {
    "slots": 6,
    "ms on air": 11,
    f"s to {TARGET:.0%}": 10,
    "accuracy": 10,
    "own eps": 9,
    "link eps": 10,
    "median": 8,
}
print(" " * 28 + "".join(f"{head:>{width}}" for head, width in heads.items()))
for name, overrides in WAYS.items():
    with tempfile.TemporaryDirectory() as folder:
        run = wirelessdl.simulate(wirelessdl.load_scenario("oac_k10", overrides=overrides), out=folder)
        rounds, later = run.rounds, run.links[run.links["round"] > 1]
        reached = rounds[rounds["accuracy_mean"] >= TARGET]
        seconds = f"{reached['time_s'].iloc[0]:.2f}" if len(reached) else "never"
        print(
            f"{name:28}{rounds['slots'].iloc[0]:6}{1e3 * rounds['airtime_s'].iloc[0]:11.2f}{seconds:>10}"
            f"{rounds['accuracy_mean'].iloc[-1]:10.1%}{run.summary['epsilon_total']:9.3g}"
            f"{later['epsilon'].max():10.3g}{later['epsilon'].median():8.3g}"
        )
