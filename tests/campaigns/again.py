"""Figures of a run worked out again from others of its tables: one line for every one that does not follow.

What `wirelessdl verify` computes again shares code with the run; here formulas are written down anew where they are
short.
"""

import numpy as np

from wirelessdl.analysis.releases import data_split, releases_of
from wirelessdl.errors import WirelessdlError
from wirelessdl.gaussian import analytic_epsilon, slot_epsilon
from wirelessdl.privacy.pld import BEYOND, compose
from wirelessdl.privacy.terms import profile_of


def differing(run):
    """Lines for figures of a finished run that do not follow from others."""
    scenario, rounds, nodes = run.scenario, run.rounds, run.nodes
    yield from _sensitivity(scenario, run.clients)
    yield from _epsilon(run)
    yield from _pending(run, rounds, nodes)
    yield from _energy(scenario, rounds, nodes)
    yield from _ball(run, scenario, rounds, nodes)
    if scenario["trace"]["links"] == "all" and _one_symbol(scenario, rounds):
        yield from _on_links(run, scenario, rounds, nodes)
        yield from _noise(run, scenario, rounds, nodes)


def _sensitivity(scenario, clients):
    """2C over the divisor of a batch; 2C of a whole batch, and of all data of a node. C where samples are zeroed."""
    privacy, learning = scenario["privacy"], scenario["learning"]
    whole = privacy["unit"] == "node" or privacy["clipping"] == "batch"
    samples = clients["samples"].to_numpy(float)
    if whole:
        divisor = np.ones(len(samples))
    elif learning["sampling"] == "full":
        divisor = samples
    elif learning["sampling"] == "shuffled":
        divisor = samples // clients["epoch_rounds"].to_numpy()  # at least the size of a batch
    else:
        divisor = samples * clients["sampling_rate"].to_numpy()
    apart = 1.0 if (privacy["adjacency"], privacy["clipping"]) == ("zero-out", "per-sample") else 2.0
    stated, least = clients["sensitivity"].to_numpy(), apart * float(privacy["clip_norm"]) / divisor
    if (stated < least * (1 - 1e-9)).any():
        yield f"sensitivity is {stated.tolist()}, {apart:g}C over the divisor is {least.tolist()}"


def _epsilon(run):
    """Of single transmissions, from alpha, beta, shares and gradients; totals, without the ledger's cells of noise."""
    split, rounds = data_split(run), run.rounds
    if not split.terms.sends:
        return
    releases, delta = list(releases_of(run, split)), run.scenario["privacy"]["delta"]
    views = {"own": np.stack([release.own_mu for release in releases])}
    if split.terms.shares_noise:
        views["coalition"] = np.stack([release.coalition_mu for release in releases])
    for column, view in (("epsilon_own_max", "own"), ("epsilon_promised_max", split.terms.promised)):
        largest = slot_epsilon(views[view].max(axis=1), delta)
        if not np.allclose(rounds[column], largest, rtol=1e-6):
            yield f"{column} is {rounds[column].tolist()}, alpha and beta say {largest.tolist()}"
    for view, mu in views.items() if split.terms.amplified else ():
        stated = run.privacy[run.privacy["view"] == view].sort_values("tx")["epsilon_total"].to_numpy()
        least = np.array([_composed(mu[:, node], rate, split.terms) for node, rate in enumerate(split.rate)])
        if (stated < least * (1 - 1e-6)).any():
            yield f"totals of view {view} are {stated.tolist()}, releases compose to {least.tolist()}"


def _composed(mu, rate, terms):
    charged = mu[mu > 0]
    if not len(charged) or np.isinf(charged).any():
        return np.inf if len(charged) else 0.0
    plain = float(analytic_epsilon(np.sqrt((charged**2).sum()), terms.delta))
    if plain > BEYOND:
        return 0.0  # not composed there
    counts = {}
    for value in (terms.factor("pld") / (charged * terms.replaced)).tolist():
        counts[rate, value] = counts.get((rate, value), 0) + 1
    profile = profile_of(terms.sampler, terms.clipping, terms.adjacency)
    return min(plain, compose(counts, terms.delta, sampler=profile))


def _pending(run, rounds, nodes):
    """What is sent is the newest gradient that was not: a late one, too, is charged when it comes."""
    count = len(run.clients)
    stepped, present, sent, multiplier, factor, gamma = (
        nodes[name].to_numpy().reshape(-1, count)
        for name in ("loss", "present", "transmitted", "multiplier", "sent_multiplier", "sent_learning_rate")
    )
    stepped = ~np.isnan(stepped.astype(float))
    events = run.events
    lost = events.loc[events["kind"].isin(["crash", "rejoin", "budget", "battery"]), "node"].dropna().to_numpy(int)
    sure = ~np.isin(np.arange(count), lost)
    rate, held = np.zeros(count), np.zeros(count)
    for row, learning_rate in enumerate(rounds["learning_rate"]):
        told = sent[row] & sure
        if not np.allclose(np.where(told, gamma[row] - rate, 0), 0) or not np.allclose(
            np.where(told, factor[row] - held, 0), 0, atol=1e-9
        ):
            yield f"round {row + 1} sends other gradients than were computed: {factor[row].tolist()}, {held.tolist()}"
        rate = np.where(stepped[row], learning_rate, np.where(present[row], 0.0, rate))
        held = np.where(stepped[row], multiplier[row], np.where(present[row], 0.0, held))


def _energy(scenario, rounds, nodes):
    energy, by_round = scenario["energy"], rounds.set_index("round")
    if scenario["radio"]["access"] != "digital":
        of = by_round.loc[nodes["round"]].reset_index()
        passes, again = of["passes"].to_numpy(), nodes["pass_power_w"].fillna(0.0).to_numpy(float)
        mean_w = (nodes["power_w"].to_numpy() + passes * again) / (1 + passes)
        sending_s = (of["payload_slots"] * (1 + of["passes"]) * of["payload_s"]).to_numpy()
        took_j = mean_w * sending_s / float(energy["efficiency"])
        if _announced(scenario):  # a node sends in some of the turns, and in sub-slots of them
            if (nodes["energy_tx_j"] > took_j * of["slots"].to_numpy() * (1 + 1e-6)).any():
                yield "energy_tx_j is more than power over efficiency times how long payloads took"
        elif not np.allclose(nodes["energy_tx_j"], took_j, rtol=1e-6):
            yield "energy_tx_j is not power over efficiency times how long it was radiated"
    if float(energy["compute_w"]) > 0 and (nodes["energy_compute_j"][nodes["loss"].notna()] <= 0).any():
        yield "a gradient took no energy"
    if nodes["battery_j"].notna().any():
        left = nodes.pivot(index="round", columns="node", values="battery_j").to_numpy(float)
        used = nodes.pivot(index="round", columns="node", values="energy_j").to_numpy()
        if (np.diff(left, axis=0) > -np.minimum(used, left)[:-1] * (1 - 1e-6)).any():
            yield f"batteries fall by less than was used: {left.tolist()}, {used.tolist()}"
    took = (rounds["time_s"] - rounds["opened_s"]).to_numpy()
    if (rounds["airtime_s"].to_numpy() < took - 1e-9).any():
        yield f"frames last {took.tolist()}, airtime_s is {rounds['airtime_s'].tolist()}"


def _announced(scenario):
    """Whether power follows from announced sizes and gains: senders invert their channels."""
    return scenario["radio"]["access"] == "oac" and scenario["radio"]["alignment"] in ("turns", "hubs", "server")


def _sigma(scenario, rounds, nodes):
    """Deviation of eta in every row of nodes: of the gradient that is sent, or of the round."""
    rate = rounds.set_index("round")["learning_rate"].loc[nodes["round"]].to_numpy()
    sent = nodes["sent_learning_rate"].to_numpy()
    aligned = scenario["privacy"]["protocol"] == "hardened"
    return float(scenario["privacy"]["rho"]) * (np.where(sent > 0, sent, rate) if aligned else rate)


def _ball(run, scenario, rounds, nodes):
    """power = P (alpha ||x||^2 / m + beta sigma^2): x stays within the projection radius."""
    if scenario["radio"]["use_full_power"] or scenario["radio"]["access"] == "digital" or _announced(scenario):
        return
    sent = nodes[nodes["transmitted"] & ~nodes["attacks"]]  # attackers use all of their power
    budget = run.clients["budget_w"].to_numpy()[sent["node"]] * 10 ** (-sent["backoff_db"].to_numpy() / 10)
    noise = sent["beta"] * _sigma(scenario, rounds, sent) ** 2
    square = (sent["power_w"] / budget - noise) / sent["alpha"]
    most = float(scenario["learning"]["projection_radius"]) ** 2
    if (square > most * (1 + 1e-4) + 1e-4 * noise / sent["alpha"]).any():
        yield f"a model has a mean square of {square.max():.6g}, the ball {most:.6g}"


def _one_symbol(scenario, rounds):
    """Whether a frame is one block of one superposition, and nothing turns, leaks or adds to it."""
    radio = scenario["radio"]
    return (
        radio["access"] == "oac"
        and radio["csi"] in ("perfect", {"kind": "perfect"})
        and radio["interference"] == "none"
        and not radio["phase_error_rad"]
        and radio["cfo_hz"] == radio["timing_offset_s"] == radio["timing_error_s"] == 0.0
        and not radio["flight_time"]
        and radio["subbands"] == 1
        and (rounds["payload_slots"] <= 1).all()
        and (rounds["passes"] == 0).all()
        and scenario["privacy"]["noise"] == "independent"
    )


def _on_links(run, scenario, rounds, nodes):
    """Theorem 1 of the paper, hardened: sens gamma mult |h| sqrt(alpha P) over all noise that arrives."""
    if scenario["privacy"]["protocol"] != "hardened" or scenario["privacy"]["credit_thermal"]:
        return
    links = run.links
    if not len(links) or links["epsilon"].isna().any():
        return
    budget = run.clients["budget_w"].to_numpy()[nodes["node"]] * 10 ** (-nodes["backoff_db"].to_numpy() / 10)
    of = nodes.assign(
        shift=run.clients["sensitivity"].to_numpy()[nodes["node"]]
        * nodes["sent_learning_rate"] * nodes["sent_multiplier"] * np.sqrt(nodes["alpha"] * budget),
        noise=nodes["beta"] * budget * _sigma(scenario, rounds, nodes) ** 2,
    ).set_index(["round", "node"])[["shift", "noise"]]  # fmt: skip
    of = of.loc[list(zip(links["round"], links["tx"]))].reset_index(drop=True)
    gain = links["gain"].to_numpy()
    masking = (of["noise"] * gain**2).groupby([links["round"], links["rx"]]).transform("sum")
    with np.errstate(divide="ignore", invalid="ignore"):
        mu = np.where(of["shift"] > 0, of["shift"] * gain / np.sqrt(masking), 0.0)
    epsilon = slot_epsilon(mu, scenario["privacy"]["delta"])
    if not np.allclose(links["epsilon"], epsilon, rtol=1e-4):
        worst = int(np.argmax(np.abs(links["epsilon"] - epsilon)))
        yield f"epsilon of a link is {links['epsilon'][worst]:.6g}, gains and noise say {epsilon[worst]:.6g}"


def _noise(run, scenario, rounds, nodes):
    """In the first round all models are the same one: what lies between them afterwards is noise, as it was mixed."""
    first, links = nodes[nodes["round"] == 1], run.links[run.links["round"] == 1]
    if scenario["privacy"]["protocol"] != "hardened" or not first["transmitted"].all() or not len(links):
        return
    count, size = len(first), _parameters(run)
    if size is None or size < 200:
        return
    weights = np.zeros((count, count))
    weights[links["rx"], links["tx"]] = links["weight"]
    weights[np.diag_indices(count)] = first["row_sum"].to_numpy() - weights.sum(axis=1)
    apart = weights - weights.mean(axis=0)
    deviation2 = (first["beta"] / first["alpha"]).to_numpy() * _sigma(scenario, rounds, first) ** 2
    least = np.sqrt(size * (apart**2 @ deviation2).sum() / count)
    if rounds["consensus_distance"].iloc[0] < 0.8 * least:
        yield f"models are {rounds['consensus_distance'].iloc[0]:.6g} apart after one round, their noise {least:.6g}"


def _parameters(run):
    """Coordinates of a model, where models were kept."""
    try:
        return sum(values.numel() for values in run.models(int(run.rounds["round"].max()))[0].values())
    except WirelessdlError:
        return None
