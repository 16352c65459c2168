"""The command `play`: the server, and the page opened."""

import os
import signal
import time
from pathlib import Path
from urllib.request import urlopen

from visits import Served


def test_play_opens_the_page_in_the_user_s_browser_and_ends_by_ctrl_c(models: Path, tmp_path: Path):
    note, opener = tmp_path / "opened", tmp_path / "browser"
    opener.write_text(f'#!/bin/sh\necho "$1" > {note}.part && mv {note}.part {note}\n')
    opener.chmod(0o755)
    server = Served(models, opener=f"{opener} %s")
    for _ in range(300):
        if note.exists():
            break
        time.sleep(0.1)
    assert note.read_text().strip() == server.url
    with urlopen(server.url, timeout=20) as answer:
        assert b'<script type="module" src="app.js"></script>' in answer.read()
    os.kill(server.process.pid, signal.SIGINT)
    assert server.process.wait(30) in (0, 130, -signal.SIGINT)
    server.end()
