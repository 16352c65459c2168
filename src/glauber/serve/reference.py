"""The OpenAPI description as a page that needs nothing from other hosts, and no script."""

from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color-scheme: light dark; }
table { border-collapse: collapse; width: 100%; margin: 0.5rem 0 2rem; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.75rem 0.25rem 0; border-bottom: 1px solid #8884; }
code { font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
"""
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/docs.css"></head>
<body><h1>{title}</h1><p>For programs: <a href="/openapi.json">openapi.json</a>.</p>{body}</body></html>"""


def add(app: FastAPI) -> None:
    """/docs and its style. FastAPI says 422 of what we refuse by 400."""
    said = app.openapi()
    for call in (call for calls in said["paths"].values() for call in calls.values()):
        if call["responses"].pop("422", None) is not None:
            call["responses"]["400"] = {"description": "One sentence that says what is wrong"}
    app.openapi = lambda: said  # type: ignore[method-assign]

    @app.get("/docs", include_in_schema=False)
    async def page() -> HTMLResponse:
        parts = [_path(path, method, call, said) for path, calls in said["paths"].items() for method, call in calls.items()]
        title = escape(f"{said['info']['title']} {said['info']['version']}")
        return HTMLResponse(PAGE.format(title=title, body="".join(parts)))

    @app.get("/docs.css", include_in_schema=False)
    async def style() -> Response:
        return Response(STYLE, media_type="text/css")


def _path(path: str, method: str, call: dict[str, Any], said: dict[str, Any]) -> str:
    head = f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2><p>{escape(call.get('summary', ''))}</p>"
    body = call.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    schema = said["components"]["schemas"].get(body.get("$ref", "").rpartition("/")[2], {})
    needed = schema.get("required", [])
    rows = "".join(_row(name, part, name in needed) for name, part in schema.get("properties", {}).items())
    return head + (f"<table><tr><th>Field<th>Value<th>Meaning</tr>{rows}</table>" if rows else "")


def _row(name: str, part: dict[str, Any], needed: bool) -> str:
    said = ("needed. " if needed else "") + part.get("description", "")
    return f"<tr><td><code>{escape(name)}</code><td>{escape(_kind(part))}<td>{escape(said)}</tr>"


def _kind(part: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "anyOf" in part:
        return " or ".join(kind for each in part["anyOf"] if (kind := _kind(each)) != "null")
    if "enum" in part or "const" in part:
        return ", ".join(map(str, part.get("enum", [part.get("const")])))
    kind = str(part.get("type", "object"))
    least, most = (part.get(f"{word}imum", part.get(f"exclusive{word.title()}imum")) for word in ("min", "max"))
    if kind in ("integer", "number") and most is not None:
        return f"{kind}, {_number(least)} to {_number(most)}"
    if kind == "array":
        return f"list of {_kind(part.get('items', {}))}, at most {part.get('maxItems', '∞')}"
    return f"{kind}, at most {part['maxLength']:,} characters" if "maxLength" in part else kind


def _number(value: Any) -> str:
    """As people write it."""
    return f"{int(value):,}" if value < 2**53 and value == int(value) else "2^63" if value == 2**63 else f"{value:g}"
