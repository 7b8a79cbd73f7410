"""Records munich_rt.parquet, munich_walks.csv and munich.poly.xml with Sionna RT: twelve people on foot in Munich.

    pip install wirelessdl[raytracing]          # 1 GB; needs LLVM, on Debian: apt install libllvm19
    python scenarios/traces/record_munich.py

Outlines are cuts of the scene's meshes at 1.5 m. Of 40 places in the streets around the cathedral, twelve are kept that
form one network; each person walks straight on at 1.2 m/s for 20 s. h is traced every second.
"""

from pathlib import Path

import numpy as np

from wirelessdl.channel import SionnaRt
from wirelessdl.channel.replay import write
from wirelessdl.links import Geometry, Links
from wirelessdl.network.streets import SumoPolygons

HERE = Path(__file__).resolve().parent
NODES, SECONDS, SPEED_MPS, HEIGHT_M, REACH_M = 12, 20, 1.2, 1.5, 120.0
HEARD_DB = 100.0  # path loss of a link of the network at most


def main() -> None:
    model = SionnaRt(3.5e9, lambda name: Path(name), scene="munich", samples=100_000, max_depth=3, diffraction=True)
    outlines = cut(model)
    lines = [f'    <poly id="b{n}" type="building" shape="{shape(one)}"/>' for n, one in enumerate(outlines)]
    (HERE / "munich.poly.xml").write_text("\n".join(["<additional>", *lines, "</additional>", ""]), encoding="utf-8")
    streets = SumoPolygons(lambda name: HERE / name, "munich.poly.xml")
    print(f"{len(outlines)} buildings", flush=True)

    rng = np.random.default_rng(7)
    starts, ways = [], []
    while len(starts) < 40:
        start, angle = rng.uniform(-REACH_M + 40, REACH_M - 40, 2), rng.uniform(0, 2 * np.pi)
        way = SPEED_MPS * np.array([np.cos(angle), np.sin(angle)])
        line = start + np.linspace(0, SECONDS, 60)[:, None] * way
        around = (line[:, None] + np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])).reshape(-1, 2)
        if not streets.indoors(around).any():
            starts.append(start)
            ways.append(way)
    chosen = connected(model, np.array(starts))
    place, way = np.array(starts)[chosen], np.array(ways)[chosen]
    rows = [
        f"{t},{node},{x:.2f},{y:.2f},{HEIGHT_M}" for t in (0, SECONDS) for node, (x, y) in enumerate(place + t * way)
    ]
    (HERE / "munich_walks.csv").write_text("\n".join(["time_s,node,x_m,y_m,z_m", *rows, ""]), encoding="utf-8")

    links = Links.from_mask(np.tri(NODES, k=-1, dtype=bool), standing(place))
    found = []
    for second in range(SECONDS + 1):
        found.append(model.response(links.at(standing(place + second * way)), second, np.zeros(1), rng)[0])
        print(f"{second} s: {np.mean(found[-1] != 0):.0%} of pairs have a path", flush=True)
    count = len(links)
    time_s = np.repeat(np.arange(SECONDS + 1.0), count)
    with (HERE / "munich_rt.parquet").open("wb") as file:
        both = (np.tile(one, SECONDS + 1) for one in (links.tx, links.rx))
        write(file, ".parquet", time_s, *both, np.concatenate(found).astype(np.complex64).astype(np.complex128))


def standing(ground_m: np.ndarray) -> Geometry:
    return Geometry.at_rest(np.column_stack([ground_m, np.full(len(ground_m), HEIGHT_M)]))


def connected(model: SionnaRt, ground_m: np.ndarray) -> np.ndarray:
    """Twelve places of one network, beginning with the one that hears most."""
    geometry = standing(ground_m)
    every = Links.from_mask(~np.eye(len(ground_m), dtype=bool), geometry)
    hears = every.matrix(model.loss_db(every), fill=np.inf) < HEARD_DB
    chosen = [int(hears.sum(axis=1).argmax())]
    while len(chosen) < NODES:
        near = hears[:, chosen].sum(axis=1)
        near[chosen] = 0
        if not near.max():
            raise SystemExit("no twelve places are one network")
        # a few that hear only one of them, so that it is no full graph
        wanted = near == (near.max() if len(chosen) % 2 else near[near > 0].min())
        chosen.append(int(np.flatnonzero(wanted)[0]))
    return np.array(chosen)


def cut(model: SionnaRt) -> list[np.ndarray]:
    """Outlines of all buildings near the middle, `[corners, 2]` m: where triangles meet the plane at HEIGHT_M."""
    import sionna.rt as rt

    ends: dict[tuple[float, float], list[tuple[float, float]]] = {}
    for name, thing in model._loaded(rt).objects.items():
        if name == "ground":
            continue
        mesh = thing.mi_mesh
        corner = np.array(mesh.vertex_positions_buffer()).reshape(-1, 3).astype(float)
        for face in np.array(mesh.faces_buffer()).reshape(-1, 3):
            triangle = corner[face]
            if np.abs(triangle[:, :2]).min() > REACH_M + 80:
                continue
            above = triangle[:, 2] > HEIGHT_M
            if above.all() or not above.any():
                continue
            points = []
            for one, other in ((0, 1), (1, 2), (2, 0)):
                if above[one] != above[other]:
                    share = (HEIGHT_M - triangle[one, 2]) / (triangle[other, 2] - triangle[one, 2])
                    point = triangle[one, :2] + share * (triangle[other, :2] - triangle[one, :2])
                    points.append((round(float(point[0]), 2), round(float(point[1]), 2)))
            if points[0] != points[1]:
                ends.setdefault(points[0], []).append(points[1])
                ends.setdefault(points[1], []).append(points[0])
    return [one for one in loops(ends) if np.abs(one).min(axis=0).max() < REACH_M + 40]


def loops(ends: dict[tuple[float, float], list[tuple[float, float]]]) -> list[np.ndarray]:
    """Closed lines of segments that meet at their ends, without corners on a straight wall."""
    found, left = [], {point: list(others) for point, others in ends.items()}
    for begin in ends:
        if not left[begin]:
            continue
        line = [begin]
        while left[line[-1]]:
            here = line[-1]
            there = left[here].pop()
            left[there].remove(here)
            line.append(there)
        corners = np.array(line[:-1] if line[0] == line[-1] else line)
        before, after = corners - np.roll(corners, 1, axis=0), np.roll(corners, -1, axis=0) - corners
        bend = np.abs(before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0])
        corners = corners[bend > 0.05 * np.maximum(np.hypot(*before.T) * np.hypot(*after.T), 1e-9)]
        if len(corners) >= 3 and np.ptp(corners, axis=0).min() > 1.0:
            found.append(corners)
    return found


def shape(corners: np.ndarray) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in corners.round(1))


if __name__ == "__main__":
    main()
