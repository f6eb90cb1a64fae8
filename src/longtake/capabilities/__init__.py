"""What the product does. Capabilities never import each other."""
