"""An ambulance drives through a town. Cars near it keep quiet: their links are blocked while it passes.

python examples/events_ambulance.py
"""

import numpy as np

import wirelessdl

STEP_S = 0.05


def ambulance(env, network, rng, start_m=(-250.0, 0.0), speed_mps=25.0, reach_m=60.0):
    """Along the street that lies on y = start_m[1]; every STEP_S it silences the cars that are near it by then."""
    quiet: set[tuple[int, int]] = set()
    while True:
        place = np.array([start_m[0] + speed_mps * network.now_s, start_m[1]])
        near = np.flatnonzero(np.hypot(*(network.position_m[:, :2] - place).T) < reach_m).tolist()
        now = {(min(a, b), max(a, b)) for a in near for b in range(network.nodes) if a != b}
        for link in sorted(now - quiet):
            network.block(*link)
        for link in sorted(quiet - now):
            network.unblock(*link)
        if now != quiet:
            network.emit(f"ambulance at x = {place[0]:.0f} m silences cars {near}")
        quiet = now
        yield network.wait(STEP_S)


overrides = {"scenario.rounds": 60, "learning.eval_every": 20, "time.compute": {"kind": "constant", "seconds": 0.3}}
run = wirelessdl.simulate("manhattan_v2v_k16", processes=[ambulance], overrides=overrides)
told = run.events[run.events["detail"].str.startswith("ambulance", na=False)]
print(told[["time_s", "detail"]].to_string(index=False))
heard = run.links.groupby("round").size()
accuracy = f"accuracy {run.summary['accuracy_mean']:.1%}"
print(f"{heard.max()} links carry without it, {heard.min()} at its worst; {accuracy}")
