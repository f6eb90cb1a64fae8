"""Runs of scene images: a few prompts, one image each, made one after another at the pace that a provider allows."""
