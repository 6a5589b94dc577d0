"""The model of the sync bench: a small server that speaks the wire format of OpenAI's embeddings.

    python -m benches.sync.stub [--milliseconds 50] [--port 0]

It prints its port and serves until it is ended, on loopback only. A request takes 50 ms for each
128 texts begun, so that nobody gains by asking for more at once. Equal texts have equal vectors:
the 384 signs of a text's vector are the bits of its hash. It counts each request and each text,
and has three moods, set with `POST /mood`: `fine`, `limited` (429 to all) and `down` (503 to all).
A request that holds a text with the word poison is refused as a whole with 400, as providers do.
"""

import argparse
import base64
import hashlib
import json
import math
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIMENSION = 384
TEXTS = 128
"""Texts that one request's time is for."""
POISON = "poison"
REFUSALS = {"limited": (429, "rate limit reached"), "down": (503, "the service is unavailable")}

_COORDINATE = 1 / math.sqrt(DIMENSION)
_BYTES = [
    struct.pack(
        "<8f", *(_COORDINATE if byte >> (7 - bit) & 1 else -_COORDINATE for bit in range(8))
    )
    for byte in range(256)
]
_TEXTS = [",".join(f"{each:.7f}" for each in struct.unpack("<8f", eight)) for eight in _BYTES]


def signs(text: str) -> bytes:
    """Return the 384 signs of a text's vector as bits, the first coordinate in the highest."""
    return hashlib.blake2b(text.encode(), digest_size=DIMENSION // 8).digest()


def packed(text: str) -> bytes:
    """Return a text's vector as little-endian float32."""
    return b"".join(_BYTES[byte] for byte in signs(text))


class Server(ThreadingHTTPServer):
    """Counts under a lock; the waiting is done outside of it, in as many threads as ask."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, seconds: float) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.seconds = seconds
        self.mood = "fine"
        self.counts = {"requests": 0, "refused": 0, "asked": 0, "embedded": 0}
        self._lock = threading.Lock()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that was killed over its answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def count(self, **more: int) -> None:
        with self._lock:
            for name, number in more.items():
                self.counts[name] += number


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        self._answer(200, dict(self.server.counts))

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/mood":
            self.server.mood = asked["mood"]
            self._answer(200, {})
        else:
            self._embeddings(asked)

    def _embeddings(self, asked: dict[str, Any]) -> None:
        texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
        self.server.count(requests=1, asked=len(texts))
        time.sleep(self.server.seconds * math.ceil(len(texts) / TEXTS))
        if self.server.mood in REFUSALS:
            status, why = REFUSALS[self.server.mood]
            self._refuse(status, why)
        elif any(POISON in text for text in texts):
            self._refuse(400, "the input holds a text that this model does not take")
        else:
            self._embed(texts, coded=asked.get("encoding_format") == "base64")

    def _embed(self, texts: list[str], *, coded: bool) -> None:
        vectors = (
            f'"{base64.b64encode(packed(text)).decode()}"'
            if coded
            else f"[{','.join(_TEXTS[byte] for byte in signs(text))}]"
            for text in texts
        )
        data = ",".join(
            f'{{"object":"embedding","index":{index},"embedding":{vector}}}'
            for index, vector in enumerate(vectors)
        )
        usage = '"usage":{"prompt_tokens":1,"total_tokens":1}'
        # Counted first: whoever has the answer may ask for the counts at once.
        self.server.count(embedded=len(texts))
        self._send(200, f'{{"object":"list","model":"stub","data":[{data}],{usage}}}'.encode())

    def _refuse(self, status: int, why: str) -> None:
        self.server.count(refused=1)
        self._answer(status, {"error": {"message": why, "type": "stub", "code": status}})

    def _answer(self, status: int, answer: dict[str, Any]) -> None:
        self._send(status, json.dumps(answer).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if status in {429, 503}:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Say nothing: there are thousands of requests."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--milliseconds", type=float, default=50.0)
    parser.add_argument("--port", type=int, default=0)
    wanted = parser.parse_args()
    server = Server(wanted.port, wanted.milliseconds / 1000)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
