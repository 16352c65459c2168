"""A stand-in for the Hugging Face hub on this machine: what the real client says over HTTP, kept in memory."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

API = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)/(?P<what>preupload|commit|branch|revision)/(?P<revision>[^/?]+)")
FILE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>[^?]+)")


@dataclass
class Repo:
    """A model's files at each commit, and what each branch points to."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=lambda: {"0" * 40: {}})
    branches: dict[str, str] = field(default_factory=lambda: {"main": "0" * 40})

    def at(self, revision: str) -> str | None:
        """The commit that a branch or a commit's own name stands for."""
        return self.branches.get(revision, revision if revision in self.commits else None)


class Hub(ThreadingHTTPServer):
    """`repos` by id, and all that was asked: (method, path, token, what was sent)."""

    TOKEN = "hf_of_someone"  # the only one that may write

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repos: dict[str, Repo] = {}
        self.asked: list[tuple[str, str, str | None, Any]] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def sent(self, part: str) -> list[Any]:
        """What was sent to paths that hold this."""
        return [body for _, path, _, body in self.asked if part in path]


@contextmanager
def hub() -> Iterator[Hub]:
    """One that answers until the end of the block."""
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Handler(BaseHTTPRequestHandler):
    """What the client asks of the hub."""

    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Quietly."""

    def answer(self, code: int, body: Any = None, **headers: str) -> None:
        content = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
        self.send_response(code)
        for name, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def heard(self) -> bytes:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        lines = [json.loads(line) for line in content.splitlines()]
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
        self.server.asked.append((self.command, self.path, token, lines[0] if len(lines) == 1 else lines))
        self.token, self.lines = token, lines
        return content

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.heard()
        asked = FILE.match(self.path) or API.match(self.path)
        if asked is None or (repo := self.server.repos.get(asked["repo"])) is None:
            return self.answer(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
        if (commit := repo.at(unquote(asked["revision"]))) is None:
            return self.answer(404, {"error": "Invalid rev id"}, X_Error_Code="RevisionNotFound")
        content = repo.commits[commit].get(asked["file"])
        if content is None:
            return self.answer(404, {"error": "Entry not found"}, X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
        return self.answer(200, content, ETag=f'"{hashlib.sha1(content).hexdigest()}"', X_Repo_Commit=commit)

    def do_POST(self) -> None:
        self.heard()
        if self.path == "/api/validate-yaml":
            return self.answer(200, {"errors": [], "warnings": []})
        if self.token != Hub.TOKEN:
            return self.answer(401, {"error": "Invalid username or password."})
        said = self.lines[0]
        if self.path == "/api/repos/create":
            repo_id = f"{said.get('organization') or 'someone'}/{said['name']}"
            code = 409 if repo_id in self.server.repos else 200
            self.server.repos.setdefault(repo_id, Repo())
            return self.answer(code, {"url": f"{self.server.endpoint}/{repo_id}", "name": repo_id})
        asked = API.match(self.path)
        if asked is None:
            return self.answer(404, {"error": self.path})
        repo, revision = self.server.repos[asked["repo"]], unquote(asked["revision"])
        if asked["what"] == "branch":
            return self.answer(200 if repo.branches.setdefault(revision, repo.branches["main"]) else 409)
        if revision not in repo.branches:
            return self.answer(404, {"error": "Invalid rev id"}, X_Error_Code="RevisionNotFound")
        if asked["what"] == "preupload":
            files = [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in said["files"]]
            return self.answer(200, {"files": files})
        return self.commit(repo, revision, asked["repo"])

    def commit(self, repo: Repo, branch: str, repo_id: str) -> None:
        files = dict(repo.commits[repo.branches[branch]])
        for line in self.lines:
            if line["key"] == "file":
                files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        made = hashlib.sha1(f"{len(repo.commits)}".encode()).hexdigest()
        repo.commits[made], repo.branches[branch] = files, made
        return self.answer(200, {"commitOid": made, "commitUrl": f"{self.server.endpoint}/{repo_id}/commit/{made}"})
