"""Recipes and the training loop."""

from glauber.train.loop import Trained, learning_rate, train
from glauber.train.recipe import RECIPES, ProcessSpec, Recipe, TrainSpec, recipe

__all__ = ["RECIPES", "ProcessSpec", "Recipe", "TrainSpec", "Trained", "learning_rate", "recipe", "train"]
