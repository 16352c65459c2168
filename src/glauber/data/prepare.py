"""Documents and images → token shards: streamed, and able to go on after any interruption."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from glauber.data.job import JOURNAL, Job, read_journal
from glauber.data.plan import Plan
from glauber.data.shards import HEADER, Shards, open_shards
from glauber.runtime.files import disk_full_said
from glauber.runtime.locks import locked

UNFINISHED, REPLACED = ".unfinished", ".replaced"


def prepare(
    sources: Sequence[str | Path],
    out: str | Path,
    tokenizer: str | Path = "char",
    length: int | None = None,
    valid: float | Sequence[str | Path] = 0.01,
    field: str = "text",
    vocab: int | None = None,
    size: int | None = None,
    grey: bool = False,
    shard_tokens: int = 2**24,
    progress: bool = True,
    force: bool = False,
    classes: bool = False,
) -> Shards:
    """Pack all documents into rows of L tokens, each document followed by the end-of-text token. An image is a row by itself.

    The work is done in the folder `out`.unfinished, which becomes `out` when it is whole. Called again after an interruption
    with the same settings, it goes on from where it was. The same input gives the same bytes either way.

    Args:
        sources: what to read, see `Sources`.
        out: the folder to make.
        tokenizer: of texts, see `text_codec`; or of images, see `ImageSpec`.
        length: L; 256 if None, or the length of the rows of an .npy. That of images is their number of tokens.
        valid: the share kept for validation; a document (of a long one, a section) goes there whenever validation has less than
            its share so far, and where nothing went there, the last rows do. Or the sources to validate on.
        field: of a .jsonl line or hub row, where its text is.
        vocab: V of .npy tokens; these get no end-of-text token.
        size: the middle square of every image is resized to size × size; if None, all must be of the same size.
        grey: make images grey; as pixels they always are.
        shard_tokens: how many tokens a file holds, at most.
        progress: show a bar, and say it when the tokenizer is lossy.
        force: replace finished data in `out`, and start anew where other settings were used before.
        classes: keep the class of each image, which is the name of the sub-folder of the source that it lies in.
    """
    out = Path(out)
    if not (out / JOURNAL).is_file():  # of a last step that was cut off
        require_free(out, force)
    plan = Plan.make(sources, tokenizer, length, valid, field, vocab, size, grey, shard_tokens, classes)
    work = out.with_name(out.name + UNFINISHED)
    if _just_finished(out, plan):
        return open_shards(out)
    with disk_full_said(work, "repeat the command, which then goes on"), _claimed(work, out):
        require_free(out, force)
        job = Job.begin(plan, work, progress, force)
        try:
            job.run(progress)
            job.finish()
        except ValueError:
            if not job.packers["train"].shards:
                shutil.rmtree(work)
            raise
        move(work, out)
    return open_shards(out)


def require_free(out: Path, force: bool) -> None:
    """Refuse a folder that holds something, but prepared data by force."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; name a folder")
    if Path.cwd().is_relative_to(out.resolve()):
        raise ValueError(f"{out} is the folder that you are in, or above it; name another folder")
    ours = (out / HEADER).is_file()
    if ours and not force:
        raise ValueError(f"{out} holds prepared data already; choose another folder, or replace it with --force")
    if not ours and out.is_dir() and any(out.iterdir()):
        raise ValueError(f"{out} holds other files; choose another folder")


@contextmanager
def _claimed(work: Path, out: Path) -> Iterator[None]:
    """No other process works there; a folder that was made in vain goes away."""
    made = [folder for folder in (work, *work.parents) if not folder.exists()]
    work.mkdir(parents=True, exist_ok=True)
    with locked(work, f"another process prepares {out} at this moment; wait until it ends, or name another folder"):
        try:
            yield
        finally:
            for folder in made:
                with suppress(OSError):
                    folder.rmdir()


def _just_finished(out: Path, plan: Plan) -> bool:
    """Whether the very last step of this same work was cut off; it is made up for."""
    if not (out / HEADER).is_file() or not (out / JOURNAL).is_file():
        return False
    journal = read_journal(out)
    (out / JOURNAL).unlink()
    return journal is not None and journal[0]["settings"] == plan.settings()


def move(work: Path, out: Path) -> None:
    """The finished folder takes its name; what it replaces is there until then."""
    replaced = out.with_name(out.name + REPLACED)
    shutil.rmtree(replaced, ignore_errors=True)
    if out.exists():
        out.rename(replaced)
    work.rename(out)
    (out / JOURNAL).unlink(missing_ok=True)  # another process may have looked for finished work just now
    shutil.rmtree(replaced, ignore_errors=True)
