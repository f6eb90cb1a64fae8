"""Media files that we keep: results copied from providers, reference images of users, and how both are served."""
