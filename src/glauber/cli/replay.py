"""What `--html` keeps of a chain, and the file that it writes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from glauber.chain.driver import OnStep
from glauber.codec import TextCodec, is_image_codec
from glauber.model import Model
from glauber.runtime.files import write
from glauber.sampler import Sampler
from glauber.serve.recording import TextRecorder, image_recording
from glauber.serve.replay import replay_page
from glauber.tasks.template import read_pattern
from glauber.tasks.windows import Watch

if TYPE_CHECKING:
    from glauber.pictures import Film


class Replay:
    """Records what a sampler does for a model of texts or images, and writes it to a file.

    Attributes:
        film: the `on_step` of a chain of images; None for texts.
        watch: of a chain of texts; None for images.
    """

    def __init__(self, model: Model, sampler: Sampler, file: Path, name: str, seed: int | None, text: str | None = None):
        self.codec, self.schedule, self.file = model.codec, sampler.schedule, file
        self.about = {"model": Path(name).name, "seed": seed}
        self.film: Film | None = None
        self.watch: TextRecorder | None = None
        if is_image_codec(model.codec):
            from glauber import pictures

            self.film = pictures.Film(pictures.film_times(self.schedule))
        elif model.text_codec is None:
            raise ValueError("a replay shows texts and images, and this model has no codec of either; leave --html out")
        else:
            self.watch = _recorder(model.text_codec, sampler, text)

    def save(self, done: dict[str, Any]) -> str:
        """The file's name."""
        if self.watch is not None:
            recording = self.watch.recording(self.about, done)
        elif is_image_codec(self.codec) and self.film is not None:
            recording = image_recording(self.codec, self.film.states, self.schedule.steps, self.about, done)
        write(self.file, replay_page(recording, f"glauber: {self.about['model']}").encode())
        return str(self.file)


def _recorder(codec: TextCodec, sampler: Sampler, text: str | None) -> TextRecorder:
    """Of samples, or of a text with gaps, which may be longer than a row."""
    if text is None:
        return TextRecorder(codec, sampler.schedule)
    pattern = read_pattern(text, codec, sampler.length)
    template = pattern.template([size.start for size in pattern.sizes])
    return TextRecorder(codec, sampler.schedule, template.tokens, template.given)


def all_watches(watches: Sequence[Watch | None]) -> Watch | None:
    """One that shows a chain to each of them; None for none."""
    wanted = [watch for watch in watches if watch is not None]

    def watch(given: Tensor, shown: int, stop: int, **window: Any) -> OnStep:
        return all_steps([each(given, shown, stop, **window) for each in wanted])

    return watch if wanted else None


def all_steps(seen: Sequence[OnStep]) -> OnStep:
    """One `on_step` that calls each of them."""

    def on_step(t: int, x: Tensor) -> None:
        for see in seen:
            see(t, x)

    return on_step
