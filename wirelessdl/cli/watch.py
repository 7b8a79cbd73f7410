"""`wirelessdl watch`: the report of a run, made anew while the run goes on, on this machine alone.

Listens on 127.0.0.1. The address holds a token that is made for this command; other users of the machine, and pages
from elsewhere that are open in the same browser, do not have it. Requests must name the loopback as their host, so that
no name that is made to point to it gets an answer. Nothing of the run is executed, nothing written into its directory.
"""

import secrets
import tempfile
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import click

from wirelessdl.cli.options import PATH, reads_runs
from wirelessdl.errors import WirelessdlError

_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",  # the address holds the token
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Watch:
    """The page of a run, no older than every_s while it runs."""

    def __init__(self, run: Path, every_s: float):
        self.run, self.every_s = run, every_s
        self._made_at, self._page, self.running = -float("inf"), b"", True

    def page(self) -> bytes:
        if self.running and time.monotonic() - self._made_at >= self.every_s:
            from wirelessdl.analysis.report import write_report
            from wirelessdl.trace.run import state_of

            self.running = state_of(self.run) == "running"  # asked first: the last page is of the finished run
            with tempfile.TemporaryDirectory() as folder:
                try:
                    self._page = write_report([self.run], Path(folder) / "report.html").read_bytes()
                except WirelessdlError as error:
                    self._page, self.running = f"{error}\n".encode(), True  # no round is written yet
            self._made_at = time.monotonic()
        return self._page


class WatchServer(HTTPServer):
    """Answers one address and nothing else."""

    def __init__(self, watch: Watch, port: int):
        self.watch, self.token = watch, secrets.token_urlsafe(24)
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: WatchServer
    timeout = 10  # of a connection that says nothing

    def do_GET(self) -> None:
        server, host = self.server, self.headers.get("Host", "")
        known = host in (f"127.0.0.1:{server.server_port}", f"localhost:{server.server_port}")
        if not known or not secrets.compare_digest(self.path.encode(), f"/{server.token}/".encode()):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        page = server.watch.page()
        self.send_response(HTTPStatus.OK)
        kind = "text/html" if page[:1] == b"<" else "text/plain"
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        if server.watch.running:
            self.send_header("Refresh", f"{server.watch.every_s:g}")
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None:
        """Addresses hold the token: none is written anywhere."""


@click.command(epilog="Example: wirelessdl watch outputs/urban_er_k20-s7-r1")
@click.argument("run", type=PATH, metavar="RUN")
@click.option("--every", default=10.0, type=click.FloatRange(1, 3600), help="Seconds between pages (default: 10).")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port to listen on; default: any that is free.")
@reads_runs
def command(run: Path, every: float, port: int) -> None:
    """Serve the report of RUN to this machine's browser, made anew while the run goes on. Ctrl-C stops it.

    The address holds a token; only who has it gets an answer, and only on this machine. The run itself is not touched.
    """
    from wirelessdl.trace.run import open_run

    open_run(run)
    try:
        server = WatchServer(Watch(run, every), port)
    except OSError as error:
        raise click.UsageError(f"--port is {port}; cannot be listened on: {error.strerror}") from None
    try:
        with server:
            click.echo(f"watch {server.address}\nCtrl-C stops it")
            server.serve_forever()
    except KeyboardInterrupt:
        click.echo("stopped; the run goes on by itself")
