"""Ray tracing by NVIDIA's Sionna RT: complex h of every link, per subband, from the paths in a scene.

    h(f) = sum over paths of a_i exp(-2 pi j (f - f_c) tau_i)

Line of sight, specular reflection and refraction up to `max_depth`, and diffraction if asked for; isotropic antennas,
vertically polarised, at the nodes' places. h holds until a node has moved further than `every_m`, then all links are
traced anew. Of a pair of nodes one direction is traced, from the lower number to the higher, and stands for both.

Results are kept on disk, by scene, places and settings ($WIRELESSDL_DATA, else the user's cache folder): a run that is
resumed, or run again, finds what it had. One thread traces: with several, Sionna RT's numbers differ from call to call.

A scene of the user's is kept with the run, and so are the meshes that it names: a mesh that has changed is traced anew.

Scope and limitations: places and materials are the scene's; the phase holds like the gain between two traces, so there
is no Doppler within `every_m`. A link without a path has h = 0.
"""

import ctypes.util
import glob
import hashlib
import importlib.util
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePath
from typing import Annotated, Any
from xml.etree import ElementTree

import numpy as np
from annotated_types import Ge, Interval
from numpy.typing import NDArray

from wirelessdl.arrays import FloatArray
from wirelessdl.channel.model import Composable
from wirelessdl.errors import nearest
from wirelessdl.links import Links
from wirelessdl.units import to_db

_LLVM = 16  # the oldest that Dr.Jit's code compiles with; older ones end the process
_PLACES = ("/usr/lib/*/libLLVM*.so*", "/usr/lib64/libLLVM*.so*", "/opt/homebrew/opt/llvm*/lib/libLLVM.dylib")
_REMEDY = "install it (apt install libllvm19; brew install llvm@19) and set DRJIT_LIBLLVM_PATH to its libLLVM file"
_scenes: dict[tuple[str, float], Any] = {}  # loaded by this process
Complex = NDArray[np.complex128]


class SionnaRt(Composable):
    """Ray-traced gains by Sionna RT.

    scene: the name of one of the package's, or an XML file of Mitsuba. samples: rays of each node.
    """

    reciprocal = True

    def __init__(
        self,
        frequency_hz: float,
        find_file: Callable[[str], Path],
        scene: str = "munich",
        samples: Annotated[int, Interval(ge=1000, le=10**8)] = 100_000,
        max_depth: Annotated[int, Interval(ge=0, le=10)] = 3,
        every_m: Annotated[float, Ge(0)] = 1.0,
        diffraction: bool = False,
    ):
        try:
            self._version = version("sionna-rt")
        except PackageNotFoundError:
            raise ValueError(
                f'scene is "{scene}"; sionna-rt needs a package that is not installed: pip install '
                "wirelessdl[raytracing] (1 GB), or replay a recording (docs/channels.md)"
            ) from None
        require_llvm()
        self._file, self._xml = _scene_file(scene, find_file), ""
        content = hashlib.sha256(self._file.read_bytes())
        if scene.endswith(".xml"):
            self._xml, parts = _own_scene(scene, self._file, find_file)
            for part in parts:
                content.update(hashlib.sha256(part.read_bytes()).digest())
        self._content = content.hexdigest()
        self.scene, self.samples, self.max_depth, self.every_m = scene, samples, max_depth, every_m
        self.frequency_hz, self.diffraction = frequency_hz, diffraction
        self._at: FloatArray | None = None
        self._h: dict[bytes, Complex] = {}  # of these places, by subbands

    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
        return np.asarray(np.abs(self.response(links, time_s, np.zeros(1), rng)[0]))

    def response(self, links: Links, time_s: float, offset_hz: FloatArray, rng: np.random.Generator) -> Complex:
        """h of every subband, `[subbands, links]` complex."""
        return self._traced(links.geometry.position_m, offset_hz)[:, links.rx, links.tx]

    def loss_db(self, links: Links) -> FloatArray:
        """Path loss, `[links]` dB; inf without a path."""
        h = self._traced(links.geometry.position_m, np.zeros(1))[0]
        with np.errstate(divide="ignore"):
            return np.asarray(-to_db(np.abs(h[links.rx, links.tx]) ** 2))

    def _traced(self, place_m: FloatArray, offset_hz: FloatArray) -> Complex:
        """h of all pairs, `[subbands, rx, tx]`, as of the places that hold."""
        at = self._at
        if at is None or at.shape != place_m.shape or np.linalg.norm(place_m - at, axis=1).max() > self.every_m:
            self._at, self._h = place_m.copy(), {}
        assert self._at is not None
        wanted = offset_hz.tobytes()
        if wanted not in self._h:
            self._h[wanted] = self._kept(self._at, offset_hz)
        return self._h[wanted]

    def _kept(self, place_m: FloatArray, offset_hz: FloatArray) -> Complex:
        """The same, from the disk if it was traced before."""
        from wirelessdl.scenario.loader import cache_folder

        settings = (self._version, self._content, self.frequency_hz, self.samples, self.max_depth, self.diffraction)
        digest = hashlib.sha256(repr(settings).encode() + place_m.tobytes() + offset_hz.tobytes()).hexdigest()
        path, shape = cache_folder() / "raytracing" / f"{digest}.npy", (len(offset_hz), len(place_m), len(place_m))
        try:
            found: Complex = np.load(path, allow_pickle=False)
            if found.shape == shape and found.dtype == np.complex128 and np.isfinite(found).all():
                return found
        except (OSError, ValueError, EOFError):  # not there, or cut off
            pass
        began = time.monotonic()
        found = self._solve(place_m, offset_hz)
        if sys.stderr.isatty():
            print(f"sionna-rt: {self.scene}, {len(place_m)} nodes in {time.monotonic() - began:.1f} s", file=sys.stderr)
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(f".{os.getpid()}.npy")
        np.save(half, found)
        half.replace(path)
        return found

    def _solve(self, place_m: FloatArray, offset_hz: FloatArray) -> Complex:
        """One call of the solver, with all nodes as transmitters and receivers."""
        try:
            import drjit
            import mitsuba
            import sionna.rt as rt
        except ImportError as error:  # a library that is no LLVM, in spite of its name
            raise ValueError(f"scene needs Sionna RT, which cannot be loaded: {_line(error)}: {_REMEDY}") from None

        scene = self._loaded(rt)
        for node, place in enumerate(place_m.tolist()):
            scene.add(rt.Transmitter(f"tx{node}", mitsuba.Point3f(*place)))
            scene.add(rt.Receiver(f"rx{node}", mitsuba.Point3f(*place)))
        threads = drjit.thread_count()
        try:
            drjit.set_thread_count(1)
            paths = rt.PathSolver()(
                scene, max_depth=self.max_depth, samples_per_src=self.samples, diffraction=self.diffraction
            )
            h = paths.cfr(frequencies=mitsuba.Float(offset_hz.tolist()), normalize_delays=False, out_type="numpy")
        finally:
            drjit.set_thread_count(threads)
            for node in range(len(place_m)):
                scene.remove(f"tx{node}")
                scene.remove(f"rx{node}")
        low = np.tril(h[:, 0, :, 0, 0, :].transpose(2, 0, 1).astype(np.complex128), -1)  # higher number receives
        return np.asarray(low + low.transpose(0, 2, 1))

    def _loaded(self, rt: Any) -> Any:
        key = (self._content, self.frequency_hz)
        if key not in _scenes:
            try:
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder, "scene.xml") if self._xml else self._file
                    if self._xml:
                        path.write_text(self._xml, encoding="utf-8")
                    scene = rt.load_scene(str(path))
                scene.frequency = self.frequency_hz
            except Exception as error:  # of Mitsuba's parser, or of a material without this frequency
                raise ValueError(f'scene is "{self.scene}"; cannot be used: {_line(error)}') from None
            scene.tx_array = scene.rx_array = rt.PlanarArray(num_rows=1, num_cols=1, pattern="iso", polarization="V")
            _scenes[key] = scene
        return _scenes[key]


def _scene_file(scene: str, find_file: Callable[[str], Path]) -> Path:
    """The XML file of a scene."""
    if scene.endswith(".xml"):
        return find_file(scene).absolute()
    spec = importlib.util.find_spec("sionna")  # found, not imported: that takes seconds
    places = [] if spec is None else [Path(place) / "rt" / "scenes" for place in spec.submodule_search_locations or ()]
    known = {path.parent.name: path for place in places for path in sorted(place.glob("*/*.xml"))}
    if scene not in known:
        raise ValueError(f'scene is "{scene}"; no such scene{nearest(scene, known)}; or name an .xml file')
    return known[scene]


def _own_scene(scene: str, file: Path, find_file: Callable[[str], Path]) -> tuple[str, list[Path]]:
    """A scene of the user's with each file that it names where that lies, and these files."""
    try:
        root = ElementTree.parse(file).getroot()
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise ValueError(f'scene is "{scene}"; no XML: {error}') from None
    parts = []
    for one in root.iter():
        if one.get("name") == "filename":
            parts.append(find_file((PurePath(scene).parent / one.get("value", "")).as_posix()).absolute())
            one.set("value", str(parts[-1]))
    return ElementTree.tostring(root, encoding="unicode"), parts


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def require_llvm() -> None:
    """Raise unless there is an LLVM that Sionna RT can use without a GPU; the newest one is chosen if none is named."""
    own = os.environ.get("DRJIT_LIBLLVM_PATH")
    if ctypes.util.find_library("cuda") and not own:
        return
    if own and not Path(own).is_file():
        raise ValueError(f"scene needs LLVM; DRJIT_LIBLLVM_PATH is {own}, no such file: {_REMEDY}")
    found = {path: _llvm_version(path) for path in ([own] if own else [p for each in _PLACES for p in glob.glob(each)])}
    usable = {path: number for path, number in found.items() if number is None or number >= _LLVM}
    if not usable:
        numbers = ", ".join(sorted({str(number) for number in found.values()}))
        there = f"{own or 'this machine'} has LLVM {numbers}, which would end the process" if found else "none is there"
        raise ValueError(f"scene needs LLVM {_LLVM} to 19; {there}: {_REMEDY}")
    if not own:
        os.environ["DRJIT_LIBLLVM_PATH"] = max(usable, key=lambda path: usable[path] or 0)


def _llvm_version(path: str) -> int | None:
    """The number in the name of a library, or of what it is a link to; None without one."""
    found = re.match(r"libLLVM(?:-|\.so\.)(\d+)", Path(path).resolve().name)
    return None if found is None else int(found[1])
