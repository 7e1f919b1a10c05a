"""The speech detector, from clips to its file."""
