"""Recipes and the training loop."""

from glauber.train.loop import Trained, train
from glauber.train.recipe import RECIPES, ProcessSpec, Recipe, TrainSpec, recipe
from glauber.train.trainer import Trainer, learning_rate

__all__ = ["RECIPES", "ProcessSpec", "Recipe", "TrainSpec", "Trained", "Trainer", "learning_rate", "recipe", "train"]
