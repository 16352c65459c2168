"""Commands as a user runs them, each in a process of its own, but forked from one that has imported torch already.

A thousand imports of torch would take longer than all that the tests do. Commands that are killed, or whose start itself is the
question, are started the long way, by subprocess.
"""

import atexit
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path


class Done(subprocess.CompletedProcess[str]):
    """What became of a command: with the seconds that it took, and the most memory that it held, in MB.

    The memory is what the kernel counted for its process, torch and all that the process was forked with included.
    """

    seconds: float
    peak: float


def glauber(
    *words: object,
    cwd: str | Path | None = None,
    env: dict[str, str] | None = None,
    limit: int | None = None,
    seconds: int = 0,
) -> Done:
    """`python -m glauber WORDS`. With a limit no file may grow beyond it: what a full disk does, without filling one.

    After so many seconds, if any are said, the kernel ends it by SIGALRM.
    """
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    arguments = list(map(str, words))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as readers:
        out, err = Path(folder, "out"), Path(folder, "err")
        for pipe in (out, err):  # no files, which a limit would cut
            os.mkfifo(pipe)
        said = [readers.submit(pipe.read_text) for pipe in (out, err)]
        asked = {"words": arguments, "cwd": str(cwd or Path.cwd()), "env": dict(os.environ if env is None else env)}
        asked |= {"out": str(out), "err": str(err), "limit": limit, "seconds": seconds}
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        told = json.loads(server.stdout.readline())
        done = Done(arguments, told["code"], *(text.result() for text in said))
        done.seconds, done.peak = told["seconds"], told["peak"]
        return done


@cache
def _server() -> "subprocess.Popen[str]":
    """Of this process; it ends when its input does."""
    command = [sys.executable, str(Path(__file__).resolve())]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(_end, server)
    return server


def _end(server: "subprocess.Popen[str]") -> None:
    with server:  # which closes its pipes, and waits
        server.terminate()


def serve() -> None:
    """Fork for each line of the input, and answer with the exit code."""
    from PIL import Image  # noqa: F401
    from safetensors import torch  # noqa: F401

    import glauber.cli
    import glauber.evaluate.text
    import glauber.model
    import glauber.train  # noqa: F401

    for line in sys.stdin:
        began, child = time.monotonic(), os.fork()
        if child == 0:
            _become(**json.loads(line))
        _, status, used = os.wait4(child, 0)
        seconds, peak = time.monotonic() - began, used.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6
        print(json.dumps({"code": os.waitstatus_to_exitcode(status), "seconds": seconds, "peak": peak}), flush=True)


def _become(words: list[str], cwd: str, env: dict[str, str], out: str, err: str, limit: int | None, seconds: int) -> None:
    """The command; never returns."""
    signal.alarm(seconds)
    for number, (path, kind) in enumerate(((os.devnull, os.O_RDONLY), (out, os.O_WRONLY), (err, os.O_WRONLY))):
        opened = os.open(path, kind)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = (open(k, "w", buffering=1, closefd=False) for k in (1, 2))  # noqa: SIM115 (the old ones may think of a file)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    code = 1
    try:
        from glauber.cli import main

        sys.argv = ["glauber", *words]
        main()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 0
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    serve()
