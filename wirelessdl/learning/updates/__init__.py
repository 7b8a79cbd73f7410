"""Updates: what a node does between receptions, in one of three kinds. The kind decides what is proven.

    base     base, point, state <- base(s, state, round)                 sees no data
             x <- Proj(base - gamma mult g(point))                       one clipped gradient: the engine's part
    change   change, state <- change(s, state, gradient, round)          gradients as it likes
             x <- Proj(s + gamma mult clip_C(change))                    the whole change clipped: the engine's part
    step     x, state <- step(s, state, gradient, round)                 gradients as it likes
             x <- Proj(x)                                                nothing but the ball

**Statement.** Totals of `base` are those of plain SGD, amplification by sampling included, whatever it makes of what
it is given. Under `change` a release moves by 2C gamma mult at most, for one sample as for all data of a node, whatever
it makes of that and remembers; nothing amplifies. Of `step` nothing is proven: it declares `moves`, times 2C/B per
gamma mult. Condition: your class knows what it is given, and nothing else (globals, files, a model that shares).
What it keeps in self ends the run; all else (globals, default arguments, what it holds of an object in self that cannot
be written down) is tried by `wirelessdl audit`, not proven.

**Proof.** base: base, point and state are functions of what was received: of released values, and of receiver noise.
Given the past they are known to the adversary, as s is. One record enters x only by the one clipped gradient at a known
point, so it moves x by at most sens gamma mult: the release is the same Gaussian about a known centre, and mu of the
whole transcript that of plain SGD (exactly: `tests/round/test_update_transcripts.py`). This covers
s + b (s - s_before), Nesterov's point, weight decay, averages of received models. It does not cover memory of own
gradients. change: s is known, and two changes of norm C or less are 2C apart; Proj is 1-Lipschitz. Whatever went into
them may have been there before, so a release counts whole in every round. A user's class is called node by node, with
what that node received, its own state and an oracle of its own data: no other node's data enter. step: twins that
receive the same are tried before the run (`running.py`) and by `wirelessdl audit`; they refute, and never prove.

To add one: a module here with `Member`, `Keys` and `refuse` (see `wirelessdl/families.py`), and `READS` where it reads
another's keys, a line in `families.MEMBERS`, a test, a section of docs/learning.md. Your class,
`learning.update = "mine.py:Mine"`:

    class Mine:
        def initial(self, received):                    # optional: state before the first round, tensors [K, ...]
            return {"before": received}

        def base(self, received, state, round):         # received: [K, m], a copy
            moved = received + 0.5 * (received - state["before"])
            return moved, moved, {"before": received}

    class Local:                                        # change and step: one node at a time, received: [m]
        def change(self, received, state, gradient, round):
            point = received - 0.1 * gradient(received)     # each call draws a new batch
            return (point - received) / 0.1 - gradient(point), state

The state is part of checkpoints, and never sent. One number per node of a `base` may be mixed by A as models are:
`mixed = "weight"` names it; no data are in it.
"""
