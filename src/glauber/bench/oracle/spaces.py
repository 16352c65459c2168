"""Laws whose conditionals are exact: a small table, and a hidden Markov chain.

Each knows P(X_0[site] = a | x) for any state x: noised, masked or clean. It can therefore drive every sampler. Each also says
how far samples are from it, in total variation of one or more statistics.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from glauber.process import NoiseLaw
from glauber.process.draws import categorical, uniform

BINS = 20
"""Of the log-likelihood of a row, equally likely under the true law."""
REAL = 2**16
"""Rows of the hidden Markov chain that say where the bins end."""


class Space(ABC):
    """A law over rows of `length` tokens, with noise that is uniform. Shapes: x (B, L) int64, survival (B, L)."""

    name: str
    length: int
    noise: NoiseLaw

    @property
    def vocab(self) -> int:
        return self.noise.vocab

    def evidence(self, x: Tensor, survival: Tensor) -> Tensor:
        """(B, L, V) P(x_j | X_0[j] = a); 1 where x is the mask, which tells nothing."""
        token = torch.nn.functional.one_hot(x, self.vocab + 1)[..., : self.vocab]
        noised = survival[..., None] * token + (1 - survival[..., None]) * self.noise.probs[x.clamp_max(self.vocab - 1), None]
        return torch.where((x == self.noise.mask)[..., None], 1.0, noised)

    def __call__(self, x: Tensor, t: Tensor, survival: Tensor, sites: Tensor) -> Tensor:
        """As `Conditional`."""
        told = self.posterior(self.evidence(x.scatter(1, sites, self.noise.mask), survival))
        return told.gather(1, sites[..., None].expand(*sites.shape, self.vocab)).log()

    def given_others(self, x: Tensor, survival: Tensor) -> Tensor:
        """(B, L, V) P(X_0[j] = a | x at the other sites). Where a token is surely clean, nothing is known of it."""
        evidence = self.evidence(x, survival)
        law = self.posterior(evidence) / evidence.clamp_min(1e-300)
        return law / law.sum(-1, keepdim=True)

    @abstractmethod
    def posterior(self, evidence: Tensor) -> Tensor:
        """(B, L, V) P(X_0[j] = a | what all sites tell), that of site j included."""

    @abstractmethod
    def sample(self, num: int, generator: torch.Generator) -> Tensor:
        """Rows of the law itself."""

    @abstractmethod
    def distance(self, x: Tensor) -> float:
        """Total variation between the rows x and the law, as far as the statistics of this space tell."""


class Table(Space):
    """Any law over V^L rows. The distance is that of the rows themselves."""

    def __init__(self, table: Tensor):
        self.table = table.double() / table.double().sum()
        self.length, self.noise = table.dim(), NoiseLaw.uniform(table.shape[0])
        self.name = f"table of {self.vocab}^{self.length} rows"
        self.states = torch.cartesian_prod(*[torch.arange(self.vocab)] * self.length).view(-1, self.length)

    def posterior(self, evidence: Tensor) -> Tensor:
        weight = self.table.flatten().expand(len(evidence), -1)
        for site in range(self.length):
            weight = weight * evidence[:, site, self.states[:, site]]
        tokens = torch.nn.functional.one_hot(self.states, self.vocab).double()  # (N, L, V)
        law = (weight @ tokens.flatten(1)).view(-1, self.length, self.vocab)
        return law / law.sum(-1, keepdim=True)

    def sample(self, num: int, generator: torch.Generator) -> Tensor:
        u = uniform((num,), generator, self.table.device)
        return self.states[categorical(self.table.flatten().expand(num, -1), u)]

    def distance(self, x: Tensor) -> float:
        return total_variation(_number(x, self.vocab), self.table.flatten())


class HiddenMarkov(Space):
    """A stationary hidden Markov chain; its conditionals come from the forward-backward algorithm.

    Rows are too many to be counted. So the distance is the larger one of two statistics, and a lower bound: the law of `window`
    adjacent tokens, and that of the log-likelihood of a row.

    Args:
        move: (H, H) the law of the next hidden state.
        emit: (H, V) the law of a token.
    """

    window = 3

    def __init__(self, move: Tensor, emit: Tensor, length: int):
        self.move, self.emit, self.length = move.double(), emit.double(), length
        self.noise, self.name = NoiseLaw.uniform(emit.shape[1]), f"hidden Markov chain of length {length}"
        self.begin = torch.linalg.matrix_power(self.move, 1 << 20)[0]
        real = self.sample(REAL, torch.Generator().manual_seed(0))
        self.edges = self.log_prob(real).quantile(torch.linspace(0, 1, BINS + 1, dtype=torch.float64)[1:-1])
        self.windows = self._window_law()

    def messages(self, evidence: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of evidence (B, L, V): the likelihood of each hidden state (B, L, H), what the left says, and what the right says."""
        seen = evidence @ self.emit.T
        left, right = torch.empty_like(seen), torch.ones_like(seen)
        left[:, 0] = self.begin
        for j in range(1, self.length):
            left[:, j] = _shares(left[:, j - 1] * seen[:, j - 1]) @ self.move
        for j in range(self.length - 2, -1, -1):
            right[:, j] = _shares((right[:, j + 1] * seen[:, j + 1]) @ self.move.T)
        return seen, left, right

    def posterior(self, evidence: Tensor) -> Tensor:
        _, left, right = self.messages(evidence)
        return _shares(((left * right) @ self.emit) * evidence)

    def log_prob(self, x: Tensor) -> Tensor:
        """(B,) of clean rows."""
        seen, left, _ = self.messages(torch.nn.functional.one_hot(x, self.vocab).double())
        return (left * seen).sum(-1).log().sum(-1)

    def sample(self, num: int, generator: torch.Generator) -> Tensor:
        u = uniform((2, self.length, num), generator, self.move.device)
        hidden, x = categorical(self.begin.expand(num, -1), u[0, 0]), torch.empty(num, self.length, dtype=torch.int64)
        for j in range(self.length):
            hidden = hidden if j == 0 else categorical(self.move[hidden], u[0, j])
            x[:, j] = categorical(self.emit[hidden], u[1, j])
        return x

    def distance(self, x: Tensor) -> float:
        windows = _number(x.unfold(1, self.window, 1).flatten(0, 1), self.vocab)
        bins = torch.bucketize(self.log_prob(x), self.edges)
        alike = torch.full((BINS,), 1 / BINS, dtype=torch.float64)
        return max(total_variation(windows, self.windows), total_variation(bins, alike))

    def _window_law(self) -> Tensor:
        """(V^window,), the same at every place."""
        law, hidden = torch.ones(1, dtype=torch.float64), self.begin[None]  # (rows so far,) and (rows so far, H)
        for _ in range(self.window):
            joint = (hidden[:, None] * self.emit.T).flatten(0, 1)  # (rows · V, H)
            law, hidden = joint.sum(-1), joint @ self.move
        return law


def total_variation(found: Tensor, law: Tensor) -> float:
    """Between numbers that were drawn and the law that they should have."""
    share = found.bincount(minlength=len(law)).double() / len(found)
    return float((share - law).abs().sum() / 2)


def small_table(vocab: int = 3, length: int = 4, seed: int = 0) -> Table:
    """A law with few likely rows, so that sites depend on each other strongly."""
    weights = torch.distributions.Gamma(torch.tensor(0.15, dtype=torch.float64), 1.0)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Table(weights.sample((vocab,) * length) + 1e-4)


def hidden_markov(length: int = 32) -> HiddenMarkov:
    """Four hidden states that go round, rarely stay and never turn back; each prefers one of four tokens."""
    move = 0.8 * torch.eye(4).roll(1, 1) + 0.15 * torch.eye(4) + 0.05 * torch.eye(4).roll(2, 1)
    return HiddenMarkov(move, 0.85 * torch.eye(4) + 0.15 / 4, length)


def _number(x: Tensor, vocab: int) -> Tensor:
    """Rows (N, n) of tokens as whole numbers, the last site running fastest."""
    return (x * vocab ** torch.arange(x.shape[1] - 1, -1, -1)).sum(1)


def _shares(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True)
