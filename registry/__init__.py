"""A registry of GPU-memory and training-speed observations of LLM fine-tuning."""
