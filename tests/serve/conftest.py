from pathlib import Path

import pytest
from serving import image_model, running, slow_model, text_model

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def served():
    models = {"text": text_model, "chain": lambda: text_model(3), "image": image_model, "slow": slow_model}
    with running(models) as server:
        yield server
