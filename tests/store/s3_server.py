"""An S3 service on 127.0.0.1, as a process of its own: prints its port, then serves until it is killed.

moto looks whether a key is there and then stores it, without holding anything in between. One request at a
time makes its conditional writes what they are in a real service: atomic.
"""

import sys
import threading
from collections.abc import Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

_APP = DomainDispatcherApplication(create_backend_app)
_LOCK = threading.Lock()


def one_at_a_time(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    with _LOCK:
        return list(_APP(environ, start_response))


class QuietHandler(MotoRequestHandler):
    def log(self, *said: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    app = _APP if "--concurrent" in sys.argv else one_at_a_time
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=QuietHandler)
    print(server.server_port, flush=True)
    server.serve_forever()
