"""Ray-traced gains against Sionna RT's own numbers, where it is installed; and what is said where it is not."""

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import pytest
from in_process import quick_table

import wirelessdl
from wirelessdl.channel import SionnaRt, sionna_rt
from wirelessdl.links import Geometry, Links
from wirelessdl.scenario.loader import parse_scenario

ROOT = Path(__file__).resolve().parent.parent.parent
STREET = {"scene": "simple_street_canyon", "samples": 20_000}
PLACES = np.array([[-30.0, 1.0, 1.5], [5.0, -2.0, 1.5], [28.0, 3.0, 8.0]])


def installed():
    try:
        return version("sionna-rt")
    except PackageNotFoundError:
        return None


needs_package = pytest.mark.skipif(installed() is None, reason="sionna-rt is not installed: pip install sionna-rt")


def every(place):
    return Links.from_mask(~np.eye(len(place), dtype=bool), Geometry.at_rest(place))


def made(**keys):
    return SionnaRt(3.5e9, lambda name: Path(name), **STREET | keys)


def own_numbers(offset_hz):
    """The package alone, as its documentation uses it: rx, tx, subband."""
    import drjit
    import mitsuba
    import sionna.rt as rt

    scene = rt.load_scene(rt.scene.simple_street_canyon)
    scene.frequency = 3.5e9
    scene.tx_array = scene.rx_array = rt.PlanarArray(num_rows=1, num_cols=1, pattern="iso", polarization="V")
    for node, place in enumerate(PLACES.tolist()):
        scene.add(rt.Transmitter(f"t{node}", mitsuba.Point3f(*place)))
        scene.add(rt.Receiver(f"r{node}", mitsuba.Point3f(*place)))
    drjit.set_thread_count(1)
    paths = rt.PathSolver()(scene, max_depth=3, samples_per_src=20_000)
    frequencies = mitsuba.Float(list(offset_hz))
    return paths.cfr(frequencies=frequencies, normalize_delays=False, out_type="numpy")[:, 0, :, 0, 0]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WIRELESSDL_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache" / "raytracing"


@needs_package
def test_gains_are_the_package_s_own_numbers(cache):
    links, offset_hz, rng = every(PLACES), np.array([-4e6, 0.0, 4e6]), np.random.default_rng(1)
    model = made()
    h = model.response(links, 0.0, offset_hz, rng)
    own = own_numbers(offset_hz)
    for n, (rx, tx) in enumerate(zip(links.rx, links.tx)):
        low, high = min(rx, tx), max(rx, tx)
        np.testing.assert_allclose(h[:, n], own[high, low], rtol=1e-6)
    assert model.gain(links, 0.0, rng) == pytest.approx(np.abs(h[1]), rel=1e-6)
    assert model.loss_db(links) == pytest.approx(-20 * np.log10(np.abs(h[1])), abs=1e-5)
    assert np.ptp(np.abs(h), axis=0).max() > 0  # the street is frequency selective
    assert len(list(cache.glob("*.npy"))) == 2

    # a node that has moved by less than every_m keeps its gains; one that has moved further does not
    near, far = (every(PLACES + np.array([[step, 0, 0], [0, 0, 0], [0, 0, 0]])) for step in (0.9, 1.1))
    assert (model.gain(near, 1.0, rng) == model.gain(links, 1.0, rng)).all()
    assert len(list(cache.glob("*.npy"))) == 2
    assert (model.gain(far, 2.0, rng) != np.abs(h[1])).any()

    # what was kept is found again, without tracing
    class NoSolver(SionnaRt):
        def _solve(self, place_m, offset_hz):
            raise AssertionError("traced again")

    again = NoSolver(3.5e9, lambda name: Path(name), **STREET)
    assert (again.response(links, 0.0, offset_hz, rng) == h).all()


@needs_package
@pytest.mark.usefixtures("cache")
def test_a_run_resumes_bit_for_bit_from_what_was_kept(tmp_path):
    from interrupting import assert_resumes

    network = {
        "nodes": 3,
        "placement": {"kind": "line", "spacing_m": 8.0},
        "mobility": {"kind": "track", "path_m": [[-20, 0], [20, 0]], "closed": False, "speed_mps": 5.0},
    }
    channel = {"models": [{"model": "sionna-rt", **STREET, "every_m": 0.5}]}
    table = quick_table(network=network, channel=channel, scenario={"rounds": 12},
                        time={"compute": {"kind": "constant", "seconds": 0.02}})  # fmt: skip
    whole = assert_resumes(parse_scenario(table), tmp_path, 7)
    assert whole.links.groupby(["rx", "tx"])["gain"].nunique().min() > 1


@needs_package
def test_wrong_scenes_are_one_line(tmp_path):
    with pytest.raises(ValueError, match=r'scene is "munic"; no such scene; did you mean munich\?'):
        made(scene="munic")
    (tmp_path / "broken.xml").write_text("<scene version='2.1.0'><shape type='nonsense'/></scene>")
    with pytest.raises(ValueError, match=r"broken\.xml\"; cannot be used: ") as error:
        made(scene=str(tmp_path / "broken.xml")).loss_db(every(PLACES))
    assert "\n" not in str(error.value)
    (tmp_path / "cut.xml").write_text("<scene>")
    with pytest.raises(ValueError, match=r"cut\.xml\"; no XML: no element found: line 1"):
        made(scene=str(tmp_path / "cut.xml"))


@needs_package
@pytest.mark.usefixtures("cache")
def test_a_library_that_is_no_llvm_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "drjit", None)  # it raises when it is imported
    with pytest.raises(ValueError, match=r"scene needs Sionna RT, which cannot be loaded: .*: install it"):
        made().loss_db(every(PLACES))


@needs_package
@pytest.mark.usefixtures("cache")
def test_meshes_of_a_scene_of_the_user_are_found_as_its_file_is_and_traced_anew_where_they_change(tmp_path):
    asked = []

    def find_file(name):
        asked.append(name)
        return tmp_path / name

    def mine():
        return SionnaRt(3.5e9, find_file, **STREET | {"scene": "mine/simple_street_canyon.xml"})

    shutil.copytree(sionna_rt._scene_file("simple_street_canyon", Path).parent, tmp_path / "mine")
    before = mine().loss_db(every(PLACES))
    assert (before == made().loss_db(every(PLACES))).all()
    assert "mine/meshes/building_1.ply" in asked  # a run keeps what is asked for, and finds it where it is resumed
    for wall in (tmp_path / "mine" / "meshes").glob("building_*.ply"):
        shutil.copy(wall.with_name("floor.ply"), wall)
    assert (mine().loss_db(every(PLACES)) > before).any()


def test_a_missing_package_is_one_line(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(sionna_rt, "version", missing)
    table = quick_table(channel={"models": [{"model": "sionna-rt"}]})
    words = (
        r"channel\.models\[0\]\.scene is \"munich\"; sionna-rt needs a package .* pip install wirelessdl\[raytracing\]"
    )
    with pytest.raises(wirelessdl.ScenarioError, match=words):
        wirelessdl.simulate(parse_scenario(table), out=None)


def test_an_llvm_that_would_end_the_process_is_one_line(monkeypatch, tmp_path):
    old, new = tmp_path / "libLLVM-15.so.1", tmp_path / "libLLVM.so.19.1"
    old.touch()
    monkeypatch.setattr(sionna_rt.ctypes.util, "find_library", lambda _: None)
    monkeypatch.setattr(sionna_rt, "_PLACES", (str(tmp_path / "libLLVM*"),))
    monkeypatch.setenv("DRJIT_LIBLLVM_PATH", str(old))
    with pytest.raises(ValueError, match=r"libLLVM-15\.so\.1 has LLVM 15, which would end the process: install it"):
        sionna_rt.require_llvm()
    monkeypatch.setenv("DRJIT_LIBLLVM_PATH", str(tmp_path / "gone.so"))
    with pytest.raises(ValueError, match=r"gone\.so, no such file"):
        sionna_rt.require_llvm()
    monkeypatch.delenv("DRJIT_LIBLLVM_PATH")
    with pytest.raises(ValueError, match="this machine has LLVM 15"):
        sionna_rt.require_llvm()
    old.unlink()
    with pytest.raises(ValueError, match="none is there"):
        sionna_rt.require_llvm()
    new.touch()
    sionna_rt.require_llvm()
    assert os.environ["DRJIT_LIBLLVM_PATH"] == str(new)
    monkeypatch.delenv("DRJIT_LIBLLVM_PATH")


def test_munich_runs_without_the_package():
    """What is shipped is a recording; nothing of Sionna RT is loaded."""
    run = "run = wirelessdl.simulate('munich_rt_k12', overrides=['scenario.rounds=3'], out=None)"
    code = f"import sys, wirelessdl; {run}; assert 'sionna' not in sys.modules; print(len(run.links))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\d+", done.stdout.strip())
