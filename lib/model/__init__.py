"""What a model is: its parameters, what its layers cache, what it holds while it runs."""
