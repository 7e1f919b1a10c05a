"""The networks for crops and for the whole image: what they see, how they learn, and their files."""
