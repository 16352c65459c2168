"""Recipes and the training loop."""

from glauber.recipe import ProcessSpec, Recipe, TrainSpec
from glauber.train.fitting import fit
from glauber.train.in_memory import Trained, train
from glauber.train.recipes import RECIPES, recipe
from glauber.train.trainer import Trainer, learning_rate

__all__ = ["RECIPES", "ProcessSpec", "Recipe", "TrainSpec", "Trained", "Trainer", "fit", "learning_rate", "recipe", "train"]
