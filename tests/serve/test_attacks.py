"""What the server is sent by those who mean it no good. One test each; none may end it, hold it up or learn anything."""

import base64
import io
import json
import socket
import struct
import time
import zlib
from contextlib import ExitStack, closing

import httpx
import pytest
from PIL import Image
from serving import CLIENT, running, text_model

from glauber.serve import fields, limits
from glauber.serve.gate import Access, require_access
from glauber.serve.pictures import read_png

KEY = "0123456789abcdef"
ASKED = {"model": "text", "text": "a[[2]]b", "seed": 1}


@pytest.fixture(autouse=True)
def unharmed(served):
    """After each attack a plain request has its answer, and nothing is left over."""
    yield
    assert served.post("/v1/infill", **ASKED).status_code == 200
    served.wait(lambda: not any(worker.waiting or worker.running for worker in served.service.workers.values()))


def assert_refused(answer: httpx.Response, status: int, *words: str) -> None:
    """In one sentence, which tells no file and no stack."""
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    for word in words:
        assert word in error["message"]
    for word in ("Traceback", ".py", "/", "\n"):
        assert word not in error["message"].replace("/v1/models", "").replace("/docs", "").replace(
            "application/json", ""
        ).replace("image/png", "")
    assert len(error["message"]) < 600


def raw(served, content: bytes, seconds: float = 15) -> bytes:
    """What comes back for these bytes, until the connection is closed."""
    with closing(socket.create_connection(("127.0.0.1", served.server.servers[0].sockets[0].getsockname()[1]))) as made:
        made.settimeout(seconds)
        found = b""
        try:
            made.sendall(content)
            while part := made.recv(2**16):
                found += part
        except ConnectionError:
            pass
        return found


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil", "", "[::2]", "[", "127.0.0.2"]
)
def test_a_foreign_host_name_is_refused(served, host):
    for path in ("/", "/health", "/v1/models"):
        assert CLIENT.get(served.url + path, headers={"host": host}).status_code in (400, 403)
    answer = CLIENT.post(f"{served.url}/v1/infill", json=ASKED, headers={"host": host})
    assert answer.status_code in (400, 403)
    if answer.status_code == 403:
        assert_refused(answer, 403, "host name")


@pytest.mark.parametrize("host", ["localhost:1", "LOCALHOST", "[::1]:8000", "127.0.0.1"])
def test_this_machines_own_names_are_served(served, host):
    assert CLIENT.get(f"{served.url}/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "file://", "http://localhost", ""])
def test_a_page_of_a_foreign_origin_is_refused(served, origin):
    for method in ("GET", "POST", "OPTIONS"):
        answer = CLIENT.request(method, f"{served.url}/v1/models", headers={"origin": origin})
        assert_refused(answer, 403, "origin")
        assert "access-control-allow-origin" not in answer.headers
    assert CLIENT.get(f"{served.url}/v1/models", headers={"origin": served.url}).status_code == 200


def test_a_form_of_a_foreign_page_sends_no_json(served):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/jsonp"):
        answer = CLIENT.post(f"{served.url}/v1/infill", content=json.dumps(ASKED), headers={"content-type": kind})
        assert_refused(answer, 415, "JSON")


def test_headers_that_are_said_twice_are_refused(served):
    port = served.url.rpartition(":")[2].encode()
    head = b"GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1:" + port + b"\r\n"
    for more in (b"host: evil.example\r\n", b"origin: a\r\norigin: " + served.url.encode() + b"\r\n"):
        assert raw(served, head + more + b"connection: close\r\n\r\n").startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org"])
def test_nobody_else_is_served_without_a_key(host):
    with pytest.raises(ValueError, match="give a --key"):
        require_access(host, None)
    assert require_access(host, KEY) == Access(host, KEY)


@pytest.mark.parametrize("key", ["", "short", "0123456789 abcdef", "0123456789abcdé", "0123456789abcdef\n"])
def test_a_key_that_is_weak_or_cannot_be_sent_is_refused(key):
    with pytest.raises(ValueError, match="a key has at least 16"):
        require_access("127.0.0.1", key)


def test_a_wrong_key_opens_nothing():
    with running({"text": text_model}, Access("0.0.0.0", KEY)) as keyed:
        for said in (None, "", KEY, f"Bearer {KEY[:-1]}", f"Bearer {KEY}0", f"bearer {KEY}", f"Basic {KEY}", "Bearer \xff"):
            headers = {} if said is None else {"authorization": said.encode("latin-1")}
            for path in ("/v1/models", "/metrics", "/v1/nothing", "/v1/../v1/models"):
                assert_refused(CLIENT.get(keyed.url + path, headers=headers), 401, "key")
            assert_refused(CLIENT.post(f"{keyed.url}/v1/infill", json=ASKED, headers=headers), 401)
        right = {"authorization": f"Bearer {KEY}"}
        assert CLIENT.post(f"{keyed.url}/v1/infill", json=ASKED, headers=right).status_code == 200
        assert CLIENT.get(f"{keyed.url}/v1/models", headers={**right, "host": "my.example"}).status_code == 200
        assert CLIENT.get(f"{keyed.url}/v1/models", headers={**right, "origin": "http://evil.example"}).status_code == 403
        assert CLIENT.get(f"{keyed.url}/health").status_code == 200


def numbers() -> list[tuple[str, str]]:
    """Every field of every request that takes a number, alone or in a list."""
    paths = {
        "/v1/completions": fields.Completion,
        "/v1/infill": fields.Infill,
        "/v1/vary": fields.Vary,
        "/v1/score": fields.Score,
        "/v1/token": fields.OneSite,
        "/v1/images/sample": fields.Images,
        "/v1/images/inpaint": fields.Inpaint,
    }
    found = []
    for path, model in paths.items():
        for name, part in model.model_json_schema(by_alias=True)["properties"].items():
            if '"integer"' in json.dumps(part) or '"number"' in json.dumps(part):
                found.append((path, name))
    return found


WHOLE = {
    "/v1/completions": {"model": "text", "prompt": "a"},
    "/v1/infill": ASKED,
    "/v1/vary": {"model": "text", "text": "ab"},
    "/v1/score": {"model": "text", "texts": ["ab"]},
    "/v1/token": {"model": "text", "text": "ab", "site": 1},
    "/v1/images/sample": {"model": "image"},
    "/v1/images/inpaint": {"model": "image", "image": "", "mask": ""},
}
SEEDS = ("seed",)


@pytest.mark.parametrize(("path", "name"), numbers())
def test_a_thousand_million_is_refused_for_every_number(served, path, name):
    for value in (10**9, -(10**9), 10.0**300, [10**9], [10**9] * 10**5):
        if name == "seed" and value == 10**9:
            continue  # a seed may be any
        began = time.monotonic()
        answer = served.post(path, **{**WHOLE[path], name: value})
        assert_refused(answer, 400)
        assert answer.json()["error"]["param"] == name
        assert time.monotonic() - began < 5


def test_so_many_numbers_are_looked_at():
    assert len(numbers()) > 60


@pytest.mark.parametrize("written", ["NaN", "Infinity", "1e999", "1" + "0" * 5000, "true", '"3"'])
def test_a_number_is_a_number(served, written):
    content = json.dumps(ASKED)[:-1] + f', "temperature": {written}}}'
    answer = CLIENT.post(f"{served.url}/v1/infill", content=content, headers={"content-type": "application/json"})
    assert_refused(answer, 400)


def test_results_times_calls_have_a_bound(served):
    assert_refused(served.post("/v1/infill", model="chain", text="[[9]]" + "x" * 40 + "[[9]]", n=16, sweeps=64), 400, "16,384")
    assert_refused(served.post("/v1/infill", model="chain", text=("x" * 50 + "[[1]]") * 400, n=1), 400, "network calls")
    assert_refused(served.post("/v1/score", model="text", texts=["x" * 60000], draws=64), 400, "1,024")
    assert_refused(served.post("/v1/vary", model="chain", text="[[9]]", n=16, sweeps=64), 400, "network calls")
    assert_refused(served.post("/v1/infill", model="text", text="a[[1000000000]]"), 400, "at most 48")
    assert_refused(served.post("/v1/infill", model="text", text="a[[1-4]]b", n=16, draws=17), 400, "272 fills")
    windows = {"model": "text", "n": 16, "block": 48, "probabilities": True, "seed": 1}
    assert_refused(served.post("/v1/infill", text=("x" * 48 + "[[48]]") * 30, **windows), 400, "23,520")
    assert served.post("/v1/infill", text="x" * 48 + "[[48]]", **windows).status_code == 200


@pytest.mark.parametrize("opened", ["[", '{"a":', "[{"])
def test_deep_json_is_refused(served, opened):
    content = opened * 200_000
    answer = CLIENT.post(f"{served.url}/v1/infill", content=content, headers={"content-type": "application/json"})
    assert_refused(answer, 400)
    field = json.dumps(ASKED)[:-1] + ', "order": ' + "[" * 900 + "]" * 900 + "}"
    assert_refused(CLIENT.post(f"{served.url}/v1/infill", content=field, headers={"content-type": "application/json"}), 400)


def head_of(served, more: bytes) -> bytes:
    host = served.url.removeprefix("http://").encode()
    return b"POST /v1/infill HTTP/1.1\r\nhost: " + host + b"\r\ncontent-type: application/json\r\n" + more + b"\r\n"


def test_a_body_of_100_mb_is_refused_before_it_is_sent(served):
    answer = raw(served, head_of(served, b"content-length: 100000000\r\n"))
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"4,194,304 bytes" in answer


def test_a_body_of_100_mb_in_chunks_is_refused_when_it_is_too_long(served):
    chunk = b"100000\r\n" + b" " * 2**20 + b"\r\n"
    answer = raw(served, head_of(served, b"transfer-encoding: chunked\r\n") + chunk * 100)
    assert answer.startswith(b"HTTP/1.1 413") or answer == b"", answer[:100]


def test_a_body_of_almost_4_mb_is_read(served):
    assert_refused(served.post("/v1/infill", **{**ASKED, "text": "x" * (limits.BODY - 100)}), 400, "65536")


@pytest.mark.parametrize("length", [b"-1", b"1e3", b"0x10", b"99999999999999999999"])
def test_a_length_that_is_none_is_refused(served, length):
    assert raw(served, head_of(served, b"content-length: " + length + b"\r\n")).startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize("sent", [b"", b"GET /health HTT", b"GET /health HTTP/1.1\r\nhost: local"])
def test_who_sends_a_head_slowly_is_cut_off(served, monkeypatch, sent):
    monkeypatch.setattr(limits, "SLOW", 0.5)
    began = time.monotonic()
    assert raw(served, sent) == b""
    assert time.monotonic() - began < 5


def test_who_sends_a_body_slowly_is_cut_off(served, monkeypatch):
    monkeypatch.setattr(limits, "SLOW", 0.5)
    answer = raw(served, head_of(served, b"content-length: 100\r\n") + b'{"model"')
    assert answer.startswith(b"HTTP/1.1 408")


def test_who_does_not_take_an_answer_is_cut_off(monkeypatch):
    monkeypatch.setattr(limits, "SLOW", 0.5)
    asked = json.dumps({"model": "text", "text": "x" * limits.TEXT}).encode()
    with running({"text": text_model}) as served, closing(socket.socket()) as made:
        listens = served.server.servers[0].sockets[0]
        listens.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.connect(listens.getsockname()[:2])
        made.sendall(head_of(served, b"content-length: %d\r\n" % len(asked)).replace(b"/v1/infill", b"/v1/tokenize") + asked)
        served.wait(lambda: bool(served.server.server_state.connections))
        served.wait(lambda: not served.server.server_state.connections, 5)


def test_a_head_without_an_end_is_refused(served):
    assert raw(served, b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: " + b"x" * 10**6).startswith(b"HTTP/1.1 4")


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_head(width: int, height: int) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))


def png(width: int, height: int, content: bytes = b"", more: bytes = b"") -> str:
    head = png_head(width, height)
    whole = b"\x89PNG\r\n\x1a\n" + head + more + chunk(b"IDAT", zlib.compress(content, 9)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(whole).decode()


PLAIN = png(4, 4, b"\0\x10\x20\x30\x40" * 2 + b"\0\xff\xff\x30\x40" * 2)


def test_a_png_that_grows_when_it_is_unpacked_is_refused_by_its_size(served):
    for bomb in (png(50_000, 50_000, b"\0" * 10**7), png(2**31 - 1, 2**31 - 1), png(1, 2**31 - 1)):
        for name in ("image", "mask"):
            began = time.monotonic()
            answer = served.post("/v1/images/inpaint", **{"model": "image", "image": PLAIN, "mask": PLAIN, name: bomb})
            assert_refused(answer, 400, name, "pixels")
            assert time.monotonic() - began < 2


def test_a_png_whose_comments_grow_is_refused(served):
    packed = zlib.compress(b"x" * 3 * 10**7, 9)
    whole = png(4, 4, b"\0" * 20, chunk(b"zTXt", b"a\0\0" + packed))
    assert_refused(served.post("/v1/images/inpaint", model="image", image=whole, mask=PLAIN), 400, "damaged")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("side", [5, 2000, 10_000, 50_000])
def test_a_png_whose_second_header_says_another_size_is_refused_before_it_is_unpacked(side, monkeypatch):
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda _: pytest.fail("it was unpacked"))
    with pytest.raises(ValueError, match="the mask is damaged"):
        read_png(png(4, 4, b"\0" * 20, png_head(side, side)), "mask")


def test_a_png_of_few_colours_with_a_transparent_one_is_a_picture():
    content, image = io.BytesIO(), Image.new("P", (4, 4), 1)
    image.putpalette([0, 0, 0, 255, 255, 255])
    image.save(content, "png", transparency=bytes([0, 128]))
    assert (read_png("data:image/png;base64," + base64.b64encode(content.getvalue()).decode(), "mask") == 255).all()


@pytest.mark.parametrize(
    "picture",
    [
        "",
        "data:image/png;base64,",
        "data:image/png;base64,!!!!",
        "data:image/svg+xml;base64,PHN2Zz4=",
        "http://127.0.0.1/a.png",
        "file:///etc/passwd",
        "/etc/passwd",
        "data:image/png;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7" + "A" * 40,
        PLAIN.replace("png", "gif", 1),
        PLAIN[:-40],
        PLAIN[:60] + "AAAA" + PLAIN[64:],
        png(0, 4),
        png(5, 4, b"\0" * 24),
    ],
)
def test_only_a_whole_png_of_the_models_size_is_a_picture(served, picture):
    assert_refused(served.post("/v1/images/inpaint", model="image", image=picture, mask=PLAIN), 400)


def test_the_plain_png_of_these_tests_is_one(served):
    assert served.post("/v1/images/inpaint", model="image", image=PLAIN, mask=PLAIN, seed=1).status_code == 200


def test_a_script_in_a_text_comes_back_as_text_that_no_browser_runs(served):
    script = "<script>alert(1)</script>"
    for path, more in (("/v1/infill", {"text": script + "[[1]]"}), ("/v1/infill", {"text": script}), (f"/{script}", {})):
        answer = served.post(path, model="text", **more)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
    shown = served.post("/v1/infill", model="text", text=script + "[[1]]", stream=True)
    assert shown.headers["content-type"].startswith("text/event-stream")
    assert shown.headers["x-content-type-options"] == "nosniff"
    for path in ("/", "/docs", "/openapi.json", "/nothing", "/health", "/metrics"):
        assert "content-security-policy" in CLIENT.get(served.url + path).headers


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "text/../text",
        "./text",
        "text\0",
        "http://evil.example/m",
        "owner/name",
        "",
        "\ud800",
    ],
)
def test_a_path_is_no_name_of_a_model(served, name):
    content = json.dumps({**ASKED, "model": name})
    answer = CLIENT.post(f"{served.url}/v1/infill", content=content, headers={"content-type": "application/json"})
    assert_refused(answer, 404 if len(name) > 1 else 400)
    if name.isascii() and name.isprintable():
        port = served.url.rpartition(":")[2]
        head = f"GET /v1/models/{name} HTTP/1.1\r\nhost: localhost:{port}\r\nconnection: close\r\n\r\n"
        assert raw(served, head.encode()).startswith(b"HTTP/1.1 404")


@pytest.mark.parametrize(
    "path", ["/../app.py", "/..%2f..%2fapp.py", "/%2e%2e/app.py", "//etc/passwd", "/page/../../gate.py", "/.\\..\\app.py"]
)
def test_no_file_but_those_of_the_page_is_served(served, path):
    port = served.url.rpartition(":")[2].encode()
    answer = raw(served, b"GET " + path.encode() + b" HTTP/1.1\r\nhost: localhost:" + port + b"\r\nconnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 404"), answer[:200]


def test_half_a_character_is_refused(served):
    content = json.dumps({**ASKED, "text": "a\ud800[[2]]"})
    answer = CLIENT.post(f"{served.url}/v1/infill", content=content, headers={"content-type": "application/json"})
    assert_refused(answer, 400, "valid string")


def test_a_thousand_idle_connections_keep_nobody_out(served):
    port = served.server.servers[0].sockets[0].getsockname()[1]
    with ExitStack() as opened:
        for _ in range(1000):
            opened.enter_context(closing(socket.create_connection(("127.0.0.1", port))))
        began = time.monotonic()
        assert CLIENT.get(f"{served.url}/health").status_code == 200
        assert served.post("/v1/infill", **ASKED).status_code == 200
        assert time.monotonic() - began < 5
        assert len(served.server.server_state.connections) <= limits.CONNECTIONS
    served.wait(lambda: not served.server.server_state.connections)


def test_a_failure_before_the_work_begins_tells_nothing_of_itself(served, monkeypatch):
    def broken(*_):
        raise RuntimeError("/secret/place/model.py is gone")

    monkeypatch.setattr("glauber.serve.tasks.tokenize", broken)
    assert_refused(served.post("/v1/tokenize", model="text", text="a"), 500, "its log says more")


def test_a_failure_of_ours_tells_nothing_of_itself_but_in_the_log(served, monkeypatch, caplog):
    def broken(*_):
        raise OSError("/secret/place/model.py is gone")

    monkeypatch.setattr("glauber.serve.tasks.filling", broken)
    for more in ({}, {"stream": True}):
        assert_refused(served.post("/v1/infill", **ASKED, **more), 500, "its log says more")
    monkeypatch.undo()
    assert "secret" in caplog.text
