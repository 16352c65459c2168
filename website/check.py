"""Whether a built site stands by itself: every link inside it leads somewhere, and nothing is fetched from another host."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src"), ("video", "src")}
NAMED = ("canonical", "prev", "next", "author", "license")
"""Relations of <link> that a browser does not fetch."""


class Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[tuple[str, bool]] = []  # what is pointed to, and whether a browser fetches it by itself
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        self.anchors |= {str(held[name]) for name in ("id", "name") if held.get(name)}
        for name in ("href", "src"):
            if held.get(name):
                fetched = (tag, name) in FETCHED and held.get("rel") not in NAMED
                self.links.append((str(held[name]), fetched))


def faults(site: Path) -> list[str]:
    """A sentence for each link that is not good."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        where = path.relative_to(site.resolve())
        for link, fetched in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if fetched and parts.scheme != "data":
                    found.append(f"{where} fetches {link}")
                continue
            if where.name == "404.html":  # which may be shown at any depth
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                found.append(f"{where} links to {link}, which is not there")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{where} links to {link}, which has no such anchor")
    return sorted(set(found))
