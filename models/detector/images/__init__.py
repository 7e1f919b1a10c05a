"""Images on their way to training: packs, decoded pixels, fakes, and what happens to a view."""
