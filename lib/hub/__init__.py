"""The Hub's side: models read from it, suggestions, prices; the only place that talks to huggingface.co for a visitor."""
