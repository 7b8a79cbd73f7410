"""What holds in every run, read from its traces: one line for everything that does not."""

import math

import numpy as np
from again import differing

_CLOSE = 1e-6  # powers follow from norms of models, which are float32


def broken(run):
    """Lines for everything in a finished run that should not be there; `wirelessdl verify` sees to the rest."""
    scenario, rounds, nodes = run.scenario, run.rounds, run.nodes
    yield from _times(rounds, run.events)
    yield from _power(run, nodes)
    yield from _energy(nodes)
    yield from _epsilon(run, scenario, rounds)
    yield from _mixing(run, scenario, nodes)
    yield from _finite(scenario, rounds, nodes)
    yield from differing(run)
    if scenario["radio"]["access"] == "digital":
        yield from _digital(run, scenario, rounds, nodes)


def _times(rounds, events):
    time, opened = rounds["time_s"].to_numpy(), rounds["opened_s"].to_numpy()
    # a lone holder whose budget is spent waits for nothing
    still = rounds["airtime_s"].eq(0) & rounds["active_nodes"].eq(0)
    if (np.diff(time) < 0).any() or (np.diff(time)[~still[1:]] <= 0).any():
        yield f"time_s does not increase: {time.tolist()}"
    if (opened > time).any() or (opened[1:] < time[:-1] - 1e-12).any():
        yield f"a frame opens after its end, or before the end of the last: {opened.tolist()}, {time.tolist()}"
    if (np.diff(events["time_s"].to_numpy()) < 0).any():
        yield "events are not in the order of time"
    control = rounds["feedback_s"] + rounds["exchange_s"]  # of a frame in which nobody sends
    if (rounds["airtime_s"] < 0).any() or ((rounds["airtime_s"] > control + 1e-12) & (rounds["slots"] < 1)).any():
        yield "airtime without slots"


def _power(run, nodes):
    budget = run.clients["budget_w"].to_numpy()[nodes["node"]]
    if (nodes["power_w"] > budget * (1 + _CLOSE)).any():
        yield f"a node radiates {(nodes['power_w'] / budget).max():.6g} of its budget"
    passed = nodes["pass_power_w"].fillna(0.0)
    if (passed > budget * 10 ** (-nodes["backoff_db"] / 10) * (1 + 10 * _CLOSE)).any():
        yield f"a node radiates {(passed / budget).max():.6g} of its budget in mixing passes"
    if ((nodes["power_w"] + passed)[~nodes["transmitted"]] != 0).any():
        yield "a node that does not transmit radiates"
    alpha, beta = nodes["alpha"], nodes["beta"]
    if ((alpha < 0) | (beta < 0) | (alpha + beta > 1 + 1e-6)).any():
        yield f"alpha + beta is {(alpha + beta).max():.6g}"


def _energy(nodes):
    names = [f"energy_{name}_j" for name in ("tx", "pilot", "rx", "control", "compute")]
    if not np.allclose(nodes[names].sum(axis=1), nodes["energy_j"], rtol=1e-9, atol=0):
        yield "energy_j is not the sum of its parts"
    if (nodes[names] < 0).any().any():
        yield "energy is negative"
    if (nodes["battery_j"].dropna() < 0).any():
        yield "a battery is overdrawn"


def _epsilon(run, scenario, rounds):
    privacy, summary = scenario["privacy"], run.summary
    limit = float(privacy["epsilon_max"]) * (1 + 1e-6)
    own = scenario["power"]["objective"] == "own-noise" and _kind(scenario["power"]["allocator"]) == "lp"
    own = own and privacy["protocol"] == "hardened"  # the printed noise follows the learning rate of the wrong round
    if own and (rounds["epsilon_promised_max"] > limit).any():
        yield f"a transmission leaks {rounds['epsilon_promised_max'].max():.6g}, epsilon_max is {limit:.6g}"
    if own and rounds["violations"].sum():
        yield f"{rounds['violations'].sum()} violations behind senders' own noise"
    total = run.privacy[run.privacy["view"] == summary["promised"]]["epsilon_total"].max()
    for key in ("epsilon_total", "budget_total"):
        if total > float(privacy[key]) * (1 + 1e-6):
            yield f"the promised total is {total:.6g}, privacy.{key} is {privacy[key]}"
    if not np.isclose(float(summary["epsilon_total"]), total, rtol=1e-6):
        yield f"summary.json states {summary['epsilon_total']}, the privacy table {total}"
    if summary["epsilon_own_total"] is not None and float(summary["epsilon_own_total"]) < total * (1 - 1e-6):
        yield "everyone together learns less than a coalition"
    bound = rounds["epsilon_promised_bound"].to_numpy()
    if (bound[1:] < bound[:-1] - 1e-9).any() or bound[-1] < total * (1 - 1e-6):
        yield f"the bound {bound.tolist()} falls, or is below the total {total}"
    sent = run.nodes.groupby("node")["transmitted"].sum().to_numpy()
    charged = run.privacy[run.privacy["view"] == "own"].sort_values("tx")["rounds"].to_numpy()
    if (charged > sent).any():
        yield f"charged {charged.tolist()} releases for {sent.tolist()} transmissions"
    noisy = math.isfinite(float(privacy["epsilon_max"])) or math.isfinite(float(privacy["epsilon_total"]))
    if noisy and own and not math.isfinite(total):
        yield "an infinite total behind own noise"


def _mixing(run, scenario, nodes):
    radio = scenario["radio"]
    plain = (
        _kind(radio["csi"]) == "perfect"
        and radio["interference"] == "none"
        and not radio["phase_error_rad"]
        and radio["cfo_hz"] == radio["timing_offset_s"] == radio["timing_error_s"] == 0.0
        and not radio["flight_time"]
        # who aligns by turns pilots once, and by its payloads who moves is elsewhere
        and (radio["alignment"] == "all" or _kind(scenario["network"]["mobility"]) == "static")
    )
    present = nodes[nodes["present"]]
    if plain and not np.allclose(present["row_sum"], 1.0, atol=1e-6):
        yield f"rows of the mixing matrix sum to {present['row_sum'].min():.9g} to {present['row_sum'].max():.9g}"
    if scenario["trace"]["links"] == "all":
        links = run.links
        if plain and (links["weight"] < -1e-12).any():
            yield f"a weight is {links['weight'].min():.3g}"
        if plain and not (links["gain"] == links["gain_est"]).all():
            yield "estimates of gains differ though receivers know them"


def _kind(part):
    return part if isinstance(part, str) else part.get("kind", part.get("model"))


def _finite(scenario, rounds, nodes):
    """Documented: weights stay in a ball, so nothing that follows from them overflows."""
    for frame, names in (
        (rounds, ("consensus_distance", "loss_mean", "accuracy_mean")),
        (nodes, ("loss", "grad_norm", "accuracy", "excess_loss")),
    ):
        for name in names:
            values = frame[name].dropna().to_numpy(float)
            if not np.isfinite(values).all():
                yield f"{name} is not finite"
    if _kind(scenario["learning"]["model"]) != "ridge" and not nodes["accuracy"].dropna().between(0, 1).all():
        yield "accuracy is no share"
    if rounds["accuracy_mean"].isna().iloc[-1]:
        yield "the last round is not evaluated"
    penalised = _kind(scenario["learning"]["model"]) in ("ridge", "logistic")  # clipping does not bound a penalty
    # a Poisson batch is divided by the size that it has on average, and may be larger
    bounded = not penalised and _kind(scenario["learning"]["sampling"]) != "poisson"
    # steps that updates make themselves are not clipped: these declare how far a sample moves them
    bounded = bounded and _kind(scenario["learning"]["update"]) not in ("gradient-tracking", "heavy-ball")
    if bounded and (nodes["grad_norm"].dropna() > float(scenario["privacy"]["clip_norm"]) * (1 + 1e-5)).any():
        yield f"a clipped gradient has norm {nodes['grad_norm'].max():.6g}"


def _digital(run, scenario, rounds, nodes):
    sent, most = nodes[nodes["transmitted"]], scenario["radio"]["attempts"]
    if not sent["attempts"].between(1, most).all() or nodes[~nodes["transmitted"]]["attempts"].notna().any():
        yield f"attempts are {sent['attempts'].min()} to {sent['attempts'].max()} of {most}"
    if not (rounds["outage_rate"].dropna().between(0, 1)).all():
        yield "the outage rate is no share"
    if scenario["trace"]["links"] == "all" and len(run.links):
        links = run.links
        near = links[links["neighbour"]]
        share = near.groupby("round")["outage"].mean()
        stated = rounds.set_index("round")["outage_rate"].reindex(share.index)
        if not np.allclose(share.to_numpy(float), stated.to_numpy(float), equal_nan=True):
            yield f"outage_rate {stated.tolist()} does not follow from links {share.tolist()}"
        if (near["decoded_in"].notna() & near["outage"].astype(bool)).any():
            yield "a link in outage decoded"
        if (near["outage"].astype(bool) & (near["weight"] != 0)).any():
            yield "a link in outage has a weight"
