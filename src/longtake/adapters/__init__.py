"""The outside world: other servers, storage, and the decoders of media."""
