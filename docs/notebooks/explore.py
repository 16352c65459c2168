# %% [markdown]
# # Use a model in Python
#
# `glauber.load` takes a model in the box, the folder of a run, or a hub id. What follows works with any model of text.

# %%
import torch

import glauber

model = glauber.load("novels")
print(
    f"{sum(w.numel() for w in model.network.parameters()):,} parameters, rows of {model.process.length} tokens"
)

# %% [markdown]
# ## Sample
#
# Without options the model writes from left to right, each token once:

# %%
print(model.sample(1, seed=0, prompt="It was a dark", top_p=0.9)[0][:300])

# %% [markdown]
# ## Fewer calls
#
# A sampler says what it will do before it does it. Fewer network calls write several parts of the row at once:

# %%
for calls in (16, 64):
    sampler = model.sampler(calls=calls)
    tokens = sampler.run(1, generator=torch.Generator().manual_seed(0))
    print(f"--- {sampler.calls} calls for {tokens.numel()} tokens")
    print(model.decode(tokens)[0][:160])

# %% [markdown]
# ## Watch the chain
#
# `on_step` sees each state. Here one sweep with 8 calls, from noise to text: each call settles a part of the sites, and the rest are still random tokens:

# %%
sampler = model.sampler(calls=8)
shown = {}


def watch(t, x):
    """Keep the states at a few times."""
    shown[t] = x[0].clone()


sampler.run(1, on_step=watch, generator=torch.Generator().manual_seed(1))
times = sorted(shown, reverse=True)
for t in times[:: max(1, len(times) // 4)]:
    print(f"t = {t:4d}", repr(model.decode(shown[t][None])[0][:90]))

# %% [markdown]
# ## Fill gaps
#
# `[[3]]` is a gap of three tokens. What is given comes back to the byte:

# %%
for text in model.infill(
    "“I am very glad to see you,” said Mr. [[2]], and he shook her by the [[1]].",
    num=4,
    seed=0,
):
    print(text)

# %% [markdown]
# ## Score
#
# Bits per character, lower is likelier. `novels` samples from left to right, so this is its exact likelihood:

# %%
for text in ("It was a dark and stormy night.", "Night dark stormy was and a it."):
    print(f"{model.score([text])['bits_per_character']:.2f}  {text}")

# %% [markdown]
# ## Vary
#
# A text is noised for a third of the chain's steps, and brought back another way:

# %%
steps = model.varying().schedule.steps
for text in model.vary("It was a dark and stormy night.", steps // 3, num=3, seed=0):
    print(text)
