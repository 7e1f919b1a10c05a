"""The protocol: which images are tested, what is fitted on answers, and the figures, which are shown once."""
