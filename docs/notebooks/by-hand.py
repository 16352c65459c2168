# %% [markdown]
# # A chain by hand
#
# Three tokens at three sites make 27 sequences. On so small a space everything can be listed: the law, the noise, and what the chain makes of it.
#
# ## A law, and noise

# %%
import torch

import glauber

torch.manual_seed(0)
table = torch.rand(3, 3, 3, dtype=torch.float64)
table /= table.sum()  # P*(x): any law over 3 tokens at 3 sites

noise = glauber.NoiseLaw.uniform(3)
schedule = glauber.Schedule.round_robin(length=3, steps=12, keep=0.5, last_keep=0.0)
process = glauber.Process(schedule, noise)
print("sites visited:", [int(schedule.site(t)) for t in range(12)])

# %% [markdown]
# Twelve steps visit each site four times. A visit keeps the token with probability ½, and in the last sweep never. The *survival* is the probability that a
# site still carries its clean token. Rows are after 0, 1, 2, 3 and 4 sweeps, columns are sites:

# %%
print(schedule.survival(torch.arange(0, 13, 3)))

# %% [markdown]
# ## The chain
#
# The chain starts from noise and undoes the visits, last one first. It needs one thing: the clean conditional, $P(X_{0,i}\mid\text{the other sites})$. A
# network learns it from data. Here an `Oracle` computes it from the table.

# %%
oracle = glauber.Oracle(table, noise)
counter = glauber.CallCounter(oracle)
generator = torch.Generator().manual_seed(0)
x = glauber.run_chain(counter, process, num=20_000, generator=generator)


def law_of(rows):
    """The share of each of the 27 sequences."""
    index = (rows * torch.tensor([9, 3, 1])).sum(1)
    return index.bincount(minlength=27).double() / len(rows)


def distance(rows, target):
    """Total variation distance of the rows' law from a target."""
    return (law_of(rows) - target.flatten()).abs().sum().item() / 2


straight = torch.multinomial(
    table.flatten(), 20_000, replacement=True, generator=generator
)
chance = torch.stack([straight // 9, straight // 3 % 3, straight % 3], 1)
print(
    f"chain: {distance(x, table):.3f}   drawn from the law itself: {distance(chance, table):.3f}"
)

# %% [markdown]
# The chain's samples are as near to the law as samples of the law itself: the rest is chance. The tests do this without chance, by multiplying the transition
# matrices of all steps.
#
# ## The skip
#
# With probability $1-S$ a step draws from the noise law and needs no answer of the network:

# %%
print(f"{counter.rows / 20_000:.2f} calls a row for {schedule.steps} steps")

# %% [markdown]
# ## Another kernel, and marked noise
#
# The *reversal* kernel keeps the site's own token as evidence. With *marked* noise the chain remembers which sites are noise. Both have the same law in the end:

# %%
for options in ({"kernel": "reversal"}, {"mark_noise": True}):
    x = glauber.run_chain(oracle, process, num=20_000, generator=generator, **options)
    print(options, f"{distance(x, table):.3f}")

# %% [markdown]
# ## A given site
#
# A site that is given is never visited, and its survival is 1. What the chain then draws follows the conditional law, though nothing was trained for that:

# %%
x = glauber.run_chain(oracle, process, num=20_000, generator=generator, clamp={0: 2})
given = torch.zeros_like(table)
given[2] = table[2] / table[2].sum()
print(
    f"first site always 2: {bool((x[:, 0] == 2).all())}   distance from P(x | x_0 = 2): {distance(x, given):.3f}"
)

# %% [markdown]
# ## Blocks are an approximation
#
# Two sites drawn at once do not see each other. That halves the calls and costs exactness:

# %%
apart = torch.zeros(2, 2, dtype=torch.float64)
apart[0, 1] = apart[1, 0] = 0.5  # always different
two = glauber.NoiseLaw.uniform(2)
for block in (1, 2):
    schedule = glauber.Schedule.round_robin(length=2, steps=2, keep=0.0, block=block)
    x = glauber.run_chain(
        glauber.Oracle(apart, two),
        glauber.Process(schedule, two),
        num=10_000,
        generator=generator,
    )
    print(
        f"block {block}: different in {(x[:, 0] != x[:, 1]).double().mean():.2f} of the rows"
    )

# %% [markdown]
# [Concepts](concepts.md) has the same ideas in pictures, [Theory](theory.md) the proofs.
