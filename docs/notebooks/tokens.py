# %% [markdown]
# # Train on your own tokens
#
# Any sequence of whole numbers will do: notes, moves, readings, letters of a protein. Here are made-up chains over 20 tokens, each at most two above the one
# before, round the circle. The rule is known, so it can be seen whether it was learned.

# %%
import numpy as np
import torch

import glauber
from glauber.train import TrainSpec, train


def chains(number, seed):
    """Rows of 16 sites: a token at random, then steps of 0, 1 or 2."""
    random = np.random.default_rng(seed)
    return (
        random.integers(20, size=(number, 1))
        + random.integers(3, size=(number, 16)).cumsum(1)
    ) % 20


rows = chains(4000, seed=0)
print(rows[0])

# %% [markdown]
# ## In Python
#
# A process says how noise falls, a network is any size, `train` does the rest. Tokens are
# equally common here, so noise is uniform; else `NoiseLaw.unigram(counts)` is usual.

# %%
tokens = torch.from_numpy(rows)
noise = glauber.NoiseLaw.uniform(20)
process = glauber.Process(
    glauber.Schedule.round_robin(16, 4 * 16, keep="linear"), noise
)
torch.manual_seed(0)
network = glauber.Transformer(
    glauber.TransformerConfig(vocab=20, length=16, width=64, layers=2, heads=2)
)
trained = train(network, process, tokens, TrainSpec(steps=400, batch=128, lr=4e-3))
model = glauber.Model(trained.network, process)

# %% [markdown]
# Does it keep the rule? Look at how often a step from one token to the next is allowed, before and after training:


# %%
def allowed(x):
    """The share of steps that are 0, 1 or 2."""
    return ((x[:, 1:] - x[:, :-1]) % 20 <= 2).double().mean().item()


samples = model.sample_tokens(64, seed=0)
print(
    f"data {allowed(tokens):.2f}   noise {allowed(noise.sample((64, 16))):.2f}   samples {allowed(samples):.2f}"
)

# %% [markdown]
# ## Fill gaps
#
# `infill_tokens` draws anew where the mask is true, and keeps the rest. Tokens are tensors, arrays or lists, of any type of whole numbers, and so are masks of
# booleans. A fill keeps the rule as well as the network has learned it:

# %%
mask = [5 <= site < 10 for site in range(16)]
fills = model.infill_tokens(rows[0], mask, num=3, seed=0)
print(
    " ".join(
        "__" if hidden else f"{token:2d}"
        for token, hidden in zip(rows[0], mask, strict=True)
    )
)
for fill in fills.tolist():
    print(" ".join(f"{token:2d}" for token in fill))

# %% [markdown]
# ## Score
#
# An upper bound on the negative log-likelihood in bits per token. The entropy of these rows is $(\log_2 20+15\log_2 3)/16\approx1.76$ bits per token:

# %%
for name, x in (
    ("fresh rows", chains(64, seed=1)),
    ("tokens at random", noise.sample((64, 16))),
):
    print(f"{name}: {model.score(x)['bits_per_token']:.2f}")

# %% [markdown]
# ## The same on the command line
#
# Write the tokens as an `.npy` of shape (rows, L):
#
# ```sh
# python -c "import numpy as np; np.save('chains.npy', np.random.default_rng(0).integers(3, size=(2000, 64)).cumsum(1) % 20)"
# glauber prepare chains.npy --vocab 20 --out chains
# glauber info chains                                    # what is in prepared data, or in an .npy
# glauber train --recipe tiny --data chains --out chains-run --set train.steps=2000
# glauber sample chains-run -n 4
# glauber sample chains-run -n 256 --out chains-samples
# glauber evaluate chains-samples --reference chains --train chains    # entropy, n-grams, the longest run that was copied
# glauber score chains-run chains.npy                    # prepared data, or an .npy of the same tokens
# ```
#
# `glauber infill chains-run --tokens x.npy --mask m.npy --out filled.npy` fills gaps; with `--json` in place of `--out` the tokens are printed. What
# `--resume`, `--set` and the recipes do is the same as for text: [Training in detail](training.md).
#
# ## Shapes
#
# Tokens may have the shape (n,) or (rows, n) with n up to L. For a network on a grid also (rows of the grid, columns), or several of these; what comes back
# has the same shape. The mask has the shape of the tokens or of one row.
