"""From a pre-trained model and labelled rows to a model for a task."""
