#!/usr/bin/env python3
"""A registry of container images that has one, `hello`, with the file `/hello`: `registry LOG`

Prints its port, on this machine's loopback, once it listens. LOG gets a line for each connection.
"""

import hashlib
import http.server
import io
import json
import socket
import sys
import tarfile

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def part(kind, content):
    return {"mediaType": kind, "digest": digest(content), "size": len(content)}


def layer_of(name, content):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def answers():
    layer = layer_of("hello", b"pulled")
    rootfs = {"type": "layers", "diff_ids": [digest(layer)]}
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": rootfs}).encode()
    parts = {"config": part(CONFIG, config), "layers": [part(LAYER, layer)]}
    manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, **parts}).encode()
    return {
        "/v2/": ("application/json", b"{}"),
        "/v2/hello/manifests/latest": (MANIFEST, manifest),
        f"/v2/hello/manifests/{digest(manifest)}": (MANIFEST, manifest),
        f"/v2/hello/blobs/{digest(config)}": (CONFIG, config),
        f"/v2/hello/blobs/{digest(layer)}": (LAYER, layer),
    }


class Registry(http.server.BaseHTTPRequestHandler):
    known = answers()

    def setup(self):
        super().setup()
        with open(sys.argv[1], "a") as log:
            log.write("a connection\n")

    def handle(self):
        # Whoever tries TLS first is told at once that there is none.
        if self.connection.recv(1, socket.MSG_PEEK) != b"\x16":
            super().handle()

    def do_GET(self):
        kind, content = self.known.get(self.path, ("text/plain", b""))
        self.send_response(200 if self.path in self.known else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Docker-Content-Digest", digest(content))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
print(server.server_address[1], flush=True)
server.serve_forever()
