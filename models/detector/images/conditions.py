"""What happens to images when they are shared, and the same images through several encoders."""
import io

import numpy as np
from PIL import Image

from images.pixels import decoded


def again(pixels, kind, **options):
    """Through an encoder and back."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **options)
    return decoded(out.getvalue())


def halved(pixels):
    h, w = pixels.shape[:2]
    return np.asarray(Image.fromarray(pixels).resize((max(1, w // 2), max(1, h // 2)), Image.LANCZOS))


CONDITIONS = {
    "clean": lambda x: x,
    "jpeg 60": lambda x: again(x, "JPEG", quality=60),
    "half size": halved,
    "webp 70": lambda x: again(x, "WEBP", quality=70),
}
# The same pictures through two encoders: a detector of encoders would tell these apart.
SWAPS = {
    "jpeg 4:2:0": lambda x: again(x, "JPEG", quality=85, subsampling=2),
    "jpeg 4:4:4": lambda x: again(x, "JPEG", quality=85, subsampling=0),
    "webp": lambda x: again(x, "WEBP", quality=88),
}
