"""What a model is used for besides whole samples: infill, inpaint, vary, score."""
