"""How samples, fills and variations are printed."""

import json
import sys
from pathlib import Path
from typing import Any


def print_result(result: dict[str, Any], as_json: bool) -> None:
    """As JSON, or as texts, tokens, or the files that hold them."""
    if as_json:
        print(json.dumps(result))
    elif "tokens_file" in result:
        print(f"the filled tokens are in {result['tokens_file']} ({result['seconds']:.1f} s)")
    elif "files" in result:
        files = result["files"]
        print(f"{len(files)} file{'s' * (len(files) > 1)} in {Path(files[0]).parent} ({result['seconds']:.1f} s)")
    elif "texts" in result:
        print(*result["texts"], sep="\n----\n")
    elif "pictures" not in result and "replay" not in result:
        for row in result["tokens"]:
            print(*row)
    if "pictures" in result and not as_json:
        print(*result["pictures"], sep="\n")
    if "replay" in result and not as_json:
        print(f"glauber: the replay is in {result['replay']}; open it in a browser", file=sys.stderr)
