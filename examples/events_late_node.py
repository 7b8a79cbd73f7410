"""A node that joins late: until then the others train without it, and it comes back by listening first.

python examples/events_late_node.py
"""

import wirelessdl


def joins_late(env, network, rng, node=0, at_s=0.1):
    network.take_down(node)
    yield network.wait(at_s)
    network.bring_up(node)
    network.emit(f"joins with {network.is_up.sum()} nodes up", node=node)


run = wirelessdl.simulate("quickstart", processes=[joins_late], overrides={"faults.rejoin": "listen"})
rounds = run.rounds.query("up_nodes < @run.summary['nodes']")
late = run.nodes.query("node == 0").set_index("round")["accuracy"].dropna()
print(run.events.query("node == 0 and kind in ('crash', 'rejoin', 'process')")[["time_s", "kind", "detail"]])
print(f"node 0 is away in rounds {rounds['round'].min()} to {rounds['round'].max()}, and ends at {late.iloc[-1]:.1%}")
