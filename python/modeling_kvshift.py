"""KV shifting attention for transformers."""
