"""Other methods on the same network, data and trainer: `--set method=ar`, `--set method=mlm`.

Both are corners of the same chain. An autoregressive model is one sweep in reading order with keep 0 (`objective.reading`,
`conditional.Reader`). Gibbs sampling with a masked language model is the heat bath with keep 1, which never becomes noise and
so never forgets its start (`gibbs_process`, `MaskedLM`).
"""

from glauber.baseline.mlm_gibbs import MaskedLM, gibbs_process

__all__ = ["MaskedLM", "gibbs_process"]
