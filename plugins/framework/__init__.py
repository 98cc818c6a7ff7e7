"""The runtime framework: one TrainJob resolved, and every point where a plugin may take part."""
