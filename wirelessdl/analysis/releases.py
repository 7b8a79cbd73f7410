"""Releases of a run, recounted from its scenario and traces alone: terms, data split, every frame.

    mu[t, j] = sens gamma mult / (sqrt(share beta/alpha) sigma),   gamma and mult of the gradient that was sent

share: of the noise that is sent, what hides the sender in each view; 1 where no pairs share noise.
Hardened: sigma = rho gamma, so gamma cancels. Paper protocol: sigma = rho gamma_t, the rate of the round itself.

A second witness of what the ledger wrote down: no data set is loaded and no file of the user's is imported. A new
ledger records the same releases once more and arrives at the stored totals, or the larger of both is shown with a note;
the other accountants that are valid count them too (`promised_totals`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.errors import TraceError, quote
from wirelessdl.families import MEMBERS, member, stored_kind
from wirelessdl.gaussian import analytic_epsilon, slot_epsilon
from wirelessdl.privacy.counts import GRID, ReleaseCounts
from wirelessdl.privacy.ledger import FrameRelease, Ledger, SenderTotals, add_to_stage
from wirelessdl.privacy.terms import SAMPLERS, Clipping, PrivacyAssumptions, Unit, noise_factor, valid_accountants
from wirelessdl.privacy.totals import total_epsilon
from wirelessdl.trace.checkpoint import Checkpoint, array_problem, arrays_of
from wirelessdl.trace.run import Run
from wirelessdl.trace.soundness import is_count, require_sound

_COLUMNS = ("round", "transmitted", "alpha", "beta", "sent_multiplier", "sent_learning_rate")
_SHARES = ("own_share", "coalition_share")
_MAX_RDP_SENDERS = 40  # senders whose Renyi totals are computed: a fifth of a second each
_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class DataSplit:
    """Of K nodes: samples of each class, sampling rate q, sensitivity of the gradient, and terms of the totals."""

    counts: IntArray  # [K, classes]; of a regression [K, 1], all samples
    rate: FloatArray  # [K]
    sensitivity: FloatArray  # [K]
    terms: PrivacyAssumptions


def data_split(run: Run) -> DataSplit:
    """The split of a run by its clients table. Raises TraceError where table or scenario do not hold it."""
    table = require_sound(run, ("clients",)).clients
    return DataSplit(
        counts=np.array(table["class_counts"].tolist(), dtype=np.int64),
        rate=table["sampling_rate"].to_numpy(),
        sensitivity=table["sensitivity"].to_numpy(),
        terms=terms_of(run),
    )


def terms_of(run: Run) -> PrivacyAssumptions:
    """The terms under which totals of a run are stated, by its scenario. Raises TraceError where it was edited."""
    scenario, mechanism = run.scenario, _mechanism(run)
    module, coalition = member("mechanism", mechanism), 0
    if module is not None and module.COALITION:
        coalition = _stored(run, "privacy.coalition")
        if not is_count(coalition) or coalition < 1:
            raise _edited(run, "privacy.coalition", coalition, ">= 1 where nodes share noise")
    everyone = _stored(run, "privacy.against", ("auto", "everyone", "coalition")) == "everyone"
    try:
        update, kind = stored_kind(scenario["learning"])
    except ValueError as error:
        raise TraceError(f"{quote(run.path)}/scenario.toml: learning.{error}") from None
    sampling, topology = _stored(run, "learning.sampling", tuple(SAMPLERS)), scenario["network"].get("topology")
    robust = scenario["learning"].get("robust")
    grouped = isinstance(robust, dict) and robust.get("groups", 1) != 1  # what a turn hides is not the slot's noise
    access, radio = scenario["radio"]["access"], scenario["radio"]
    published = access in ("published", {"kind": "published"})
    # not with one node alone, nor on a graph without links, unless it publishes
    alone = scenario["network"]["nodes"] == 1 or (isinstance(topology, dict) and topology.get("kind") == "none")
    sends = published or not alone
    # a gradient is heard again
    in_turn = sends and access in ("oac", {"kind": "oac"}) and radio.get("alignment", "all") != "all"
    return PrivacyAssumptions(
        protocol=_stored(run, "privacy.protocol", ("hardened", "paper")),
        sampler=SAMPLERS[sampling],
        clipping=_stored(run, "privacy.clipping", get_args(Clipping)),
        delta=scenario["privacy"]["delta_total"],
        unit=_stored(run, "privacy.unit", get_args(Unit)),
        epoch_rounds=tuple(run.clients["epoch_rounds"].tolist()) if sampling == "shuffled" else (),
        coalition=coalition,
        declared=mechanism if ":" in mechanism else "",
        kind=kind,
        update=update if kind == "step" else "",
        promised="own" if everyone or not coalition else "coalition",
        passes=bool(scenario["radio"]["mixing_passes"] or scenario["learning"]["closing_passes"]),
        adjacency=_stored(run, "privacy.adjacency", ("replace-one", "zero-out")),
        gram=bool(scenario["privacy"].get("gram_share")),
        one_slot=not (":" in str(access) or published or grouped or in_turn),
        sends=sends,
    )


def _mechanism(run: Run) -> str:
    """The mechanism that hid senders: a name of ours, or a class of the user's, `file.py:Class`."""
    stored = _stored(run, "privacy.noise")
    name = stored.get("kind") if isinstance(stored, dict) else stored
    if not isinstance(name, str) or (name not in MEMBERS["mechanism"] and ":" not in name):
        raise _edited(run, "privacy.noise", name, f"one of {', '.join(MEMBERS['mechanism'])}, or file.py:Class")
    return name


def _stored(run: Run, key: str, allowed: tuple[str, ...] = ()) -> Any:
    """A value of the resolved scenario, which spells every key out unless somebody edited it."""
    section, name = key.split(".")
    value = run.scenario.get(section, {}).get(name)
    if allowed and value not in allowed:
        raise _edited(run, key, value, f"one of {', '.join(allowed)}")
    return value


def _edited(run: Run, key: str, value: Any, rule: str) -> TraceError:
    return TraceError(
        f"{quote(run.path)}/scenario.toml: {key} is {quote(repr(value), 40)}; must be {rule}: it was edited"
    )


def recounted_ledger(run: Run, split: DataSplit, *, least: bool = False) -> Ledger:
    """A fresh ledger taken through the run's own releases.

    least: every release a billionth smaller than worked out again, so that a last bit never puts it into a cell of less
    noise than the run itself counted; a ledger of the run must charge at least this.
    """
    ledger = Ledger(split.terms, split.rate)
    for release in releases_of(run, split, scale=1.0 - 1e-9 if least else 1.0):
        ledger.record(release)
    return ledger


def share_problems(run: Run, split: DataSplit) -> Iterator[str]:
    """One line for each share of noise that is not what its mechanism gives: shares decide what the ledger charges."""
    module = member("mechanism", _mechanism(run))
    if module is not None:
        terms = split.terms
        yield from module.recount(run, terms.coalition, promised_coalition=terms.promised == "coalition")


def stored_ledger(kept: Checkpoint, split: DataSplit) -> Ledger:
    """The ledger that a checkpoint holds. Raises TraceError where it is not one of these senders."""
    ledger = Ledger(split.terms, split.rate)
    fresh = {f"ledger_{name}": values for name, values in ledger.state().items()}
    stored = {name: values for name, values in kept.arrays.items() if name.startswith("ledger_")}
    state = arrays_of(stored, "ledger")
    if array_problem(fresh, stored) is not None or not ledger.fits(state):
        raise TraceError(f"checkpoint of round {kept.round}: its ledger is not one of this run's senders and links")
    ledger.restore(state)
    return ledger


def traced_links(run: Run, terms: PrivacyAssumptions) -> ReleaseCounts:
    """Releases on links by their one-slot epsilon in the traces, streams numbered rx * K + tx; never too many.

    Only where links are accounted for (`PrivacyAssumptions.counts_links`): elsewhere their epsilon is null.
    Epsilon decides the cell of the noise multiplier. Where several cells have one epsilon (it stays at 1 from the
    classic form to the analytic one), the one of most noise is taken; so is the upper one for a last bit.
    """
    count, delta = run.scenario["network"]["nodes"], run.scenario["privacy"]["delta"]
    falling = slot_epsilon(1.0 / (GRID.nu(np.arange(GRID.cells)) * terms.link_scale), delta)
    counts = ReleaseCounts()
    for frame in run.frames("links", ["rx", "tx", "epsilon"]):
        epsilon = frame["epsilon"].to_numpy()
        cell = np.searchsorted(-falling, -epsilon * (1.0 - 1e-9), side="right") - 1
        inside = GRID.nu(cell) * np.sqrt(GRID.ratio)  # 0 for less noise than the grid holds
        with np.errstate(divide="ignore"):
            counts.record(frame["rx"].to_numpy() * count + frame["tx"].to_numpy(), np.where(epsilon > 0, 1 / inside, 0))
    return counts


def releases_of(run: Run, split: DataSplit, scale: float = 1.0) -> Iterator[FrameRelease]:
    """Every round as the ledger recorded it, without links; every mu times `scale`."""
    count = len(split.rate)
    rate: dict[int, float] = dict(run.frame("rounds", ["round", "learning_rate"]).itertuples(index=False))
    nodes = run.frame("nodes", [*_COLUMNS, *_SHARES])
    nodes = nodes[nodes["round"].isin([*rate])]  # of a run that goes on, rounds are written last
    shape = (len(rate), count)
    if len(nodes) != len(rate) * count or nodes["round"].tolist() != np.repeat([*rate], count).tolist():
        raise TraceError(f"{quote(run.path)}: the nodes table does not hold {count} rows for every round")
    on_air: BoolArray = nodes["transmitted"].to_numpy().astype(bool).reshape(shape)
    alpha, beta, sent, gamma = (nodes[name].to_numpy().reshape(shape) for name in _COLUMNS[2:])
    with np.errstate(invalid="ignore"):
        own, coalition = (np.sqrt(nodes[name].to_numpy().reshape(shape)) for name in _SHARES)
    rho, aligned = run.scenario["privacy"]["rho"], split.terms.protocol == "hardened"
    no_links = np.zeros(0, dtype=np.int64)
    stage, charged = stage_rounds(run), dict.fromkeys(("own", "coalition"), np.zeros(count))
    for row, (number, learning_rate) in enumerate(rate.items()):
        lag = 1.0 if aligned else gamma[row] / learning_rate
        with np.errstate(divide="ignore", invalid="ignore"):
            mu = split.sensitivity * sent[row] * lag * np.sqrt(alpha[row] / beta[row]) / rho
        mu = np.where(on_air[row] & (sent[row] > 0), mu, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            own_mu, coalition_mu = scale * (mu / own[row]), scale * (mu / coalition[row])
        if not (mu >= 0).all() or not (own_mu >= 0).all() or not (coalition_mu >= 0).all():
            raise TraceError(
                f"{quote(run.path)}: alpha, beta or shares of the nodes table are no shares of power in round "
                f"{number}: they were edited"
            )
        if row < stage:
            charged["own"], own_mu = add_to_stage(charged["own"], own_mu)
            charged["coalition"], coalition_mu = add_to_stage(charged["coalition"], coalition_mu)
        yield FrameRelease(
            round=int(number),
            on_air=on_air[row],
            gamma=gamma[row],
            multiplier=sent[row],
            own_mu=own_mu,
            coalition_mu=coalition_mu if split.terms.coalition else None,
            link_rx=no_links,
            link_tx=no_links,
            link_mu=np.zeros(0),
            stage=row < stage,
        )


def stage_rounds(run: Run) -> int:
    """Rounds of the Gram stage that were written, the first of the run."""
    return int((run.frame("rounds", ["stage"])["stage"] == "gram").sum())


def pending_gradients(run: Run) -> tuple[FloatArray, FloatArray]:
    """Learning rate and multiplier of each node's newest gradient that it has not sent, `[K]`; 0 for none."""
    count = run.scenario["network"]["nodes"]
    table = run.table("nodes", ["loss", "present", "multiplier", "transmitted"])
    stepped = ~np.asarray(table["loss"].is_null()).reshape(-1, count)  # a gradient was taken where there is a loss
    present, sent, multiplier = (
        table[name].to_numpy().reshape(-1, count) for name in ("present", "transmitted", "multiplier")
    )
    gamma, factor, stage = np.zeros(count), np.zeros(count), stage_rounds(run)
    if stage:  # a triangle is pending all the time
        begun = run.frame("nodes", ["sent_learning_rate", "sent_multiplier"]).to_numpy()[: stage * count]
        gamma, factor = begun.reshape(stage, count, 2).max(axis=0).T
    # training begins with the gradients of the stage's last frame, which a run that is read may not have reached
    training = len(stepped) if stage and not stepped[stage - 1 :].any() else stage - 1
    for row, rate in enumerate(run.rounds["learning_rate"].to_numpy()):
        if row < training:
            continue
        held = ~(present[row] & sent[row]) & (row != training)  # what was not sent stays
        gamma = np.where(stepped[row], rate, np.where(held, gamma, 0.0))
        factor = np.where(stepped[row], multiplier[row], np.where(held, factor, 0.0))
    return gamma, factor


# --- the promised total by every accountant that is valid


@dataclass(frozen=True, eq=False)
class PromisedTotals:
    """Promised totals of each sender, by accountant; note: why something is missing."""

    epsilon: dict[str, FloatArray]
    note: str = ""


def promised_totals(run: Run, *, others: bool = True) -> PromisedTotals:
    """As stored, if the traces lead there. others: also those of the other accountants, which take seconds."""
    stored = run.privacy
    rows = stored[stored["view"] == terms_of(run).promised].sort_values("tx")
    if not len(rows) or not run.summary:
        table = {str(rows["accountant"].iloc[0]): rows["epsilon_total"].to_numpy()} if len(rows) else {}
        return PromisedTotals(table, "the run is not finished")
    name, epsilon = str(rows["accountant"].iloc[0]), rows["epsilon_total"].to_numpy()
    try:
        split = data_split(run)
    except TraceError as error:
        return PromisedTotals({name: epsilon}, str(error))
    if not split.terms.amplified:
        return PromisedTotals({name: epsilon})
    promised = recounted_ledger(run, split).promised
    again = promised.total()
    if again.shape != epsilon.shape or not np.allclose(again, epsilon, rtol=_TOLERANCE, equal_nan=True):
        larger = np.fmax(again, epsilon) if again.shape == epsilon.shape else epsilon
        note = "the traces do not lead to the stored totals, so other accountants are left out"
        return PromisedTotals({name: larger}, note)
    more, note = _other_accountants(promised, split) if others else ({}, "")
    return PromisedTotals({name: epsilon, **more}, note)


def _other_accountants(promised: SenderTotals, split: DataSplit) -> tuple[dict[str, FloatArray], str]:
    """Totals of the same releases by the other accountants that are valid for them."""
    terms = split.terms
    valid = valid_accountants(terms.sampler, terms.adjacency, terms.clipping)
    found = {}
    if "rdp-wang19" in valid:
        found["rdp-wang19"] = promised.bound()
    factor = noise_factor("gdp", terms.sampler, terms.adjacency, terms.clipping)
    plain = zip(promised.cells, promised.whole.tolist())
    found["gdp"] = np.array([_gdp(cells, factor, whole, terms.delta) for cells, whole in plain])
    if "rdp" not in valid or promised.whole.any():  # which counts nothing beside what is amplified
        return found, ""
    alike = all(len(cells) <= 1 and -1 not in cells for cells in promised.cells)
    if not alike or len(promised.cells) > _MAX_RDP_SENDERS:
        why = f"there are more than {_MAX_RDP_SENDERS} senders" if alike else "releases differ from slot to slot"
        return found, f"rdp is left out because {why}; it would take minutes"
    found["rdp"] = np.array([_rdp(cells, q, terms) for cells, q in zip(promised.cells, split.rate.tolist())])
    return found, ""


def _gdp(cells: dict[int, int], factor: float, whole: float, delta: float) -> float:
    """mu adds in squares. whole: mu^2 of what sampling does not amplify."""
    if -1 in cells:
        return math.inf
    nu = factor * GRID.nu(np.array(list(cells), dtype=np.int64))
    return float(analytic_epsilon(float(np.sqrt(whole + np.sum(np.array(list(cells.values())) / nu**2))), delta))


def _rdp(cells: dict[int, int], q: float, terms: PrivacyAssumptions) -> float:
    if not cells:
        return 0.0
    ((cell, rounds),) = cells.items()
    return total_epsilon(
        float(GRID.nu(np.array([cell]))[0]),
        q,
        rounds,
        delta=terms.delta,
        accountant="rdp",
        sampler=terms.sampler,
        adjacency=terms.adjacency,
        clipping=terms.clipping,
    )
