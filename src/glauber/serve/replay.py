"""A recording as one HTML file that needs nothing else: no server, no network.

The page's own modules are put into it as one script. The policy in its head allows that script and that style by their hashes
and nothing else, so that whatever a text holds, none of it runs; and the recording is data, in which no tag can begin or end.
"""

import base64
import hashlib
import html
import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("page")
IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=async function|function|const|class)", re.MULTILINE)


def replay_page(recording: dict[str, Any], title: str) -> str:
    """The file's content."""
    style, script = _read("style.css"), bundled("replay.js")
    policy = f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'"
    texts = (recording.get("done") or {}).get("texts", [])
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>{style}</style>
</head>
<body>
<main id="root"><noscript>{"".join(f"<pre>{html.escape(text)}</pre>" for text in texts)}</noscript></main>
<script type="application/json" id="recording">{as_data(recording)}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def as_data(value: Any) -> str:
    """JSON that can stand in a page: no tag and no comment begins or ends in it."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def bundled(entry: str) -> str:
    """A module of the page and all that it imports as one script: each once, after those that it imports."""
    order: list[str] = []

    def visit(name: str) -> None:
        for needed in IMPORT.findall(_read(name)):
            if needed not in order:
                visit(needed)
        order.append(name)

    visit(entry)
    return "\n".join(EXPORT.sub("", IMPORT.sub("", _read(name))) for name in dict.fromkeys(order))


def _read(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    """As a policy names what it allows."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
