"""Pixels of image files, their compression history, and how two images get the same history."""
import io

import numpy as np
from PIL import Image, ImageCms, ImageOps, JpegImagePlugin

Image.MAX_IMAGE_PIXELS = 60_000_000
SRGB = ImageCms.createProfile("sRGB")
STANDARD_SUM = 3688  # of the standard luminance table at quality 50
UNTOUCHED = 101  # a quality above every JPEG's


def quality_of(tables):
    """The quality whose scaled standard luminance table has this sum."""
    scale = 100 * sum(tables[0]) / STANDARD_SUM
    return round(max(1, min(100, (200 - scale) / 2 if scale <= 100 else 5000 / scale)))


def history_of(image, data):
    """(codec, quality, chroma): chroma 0 is 4:4:4, 1 is 4:2:2, 2 is 4:2:0."""
    if image.format in ("JPEG", "MPO"):
        return ("jpeg", quality_of(image.quantization), max(0, JpegImagePlugin.get_sampling(image)))
    if image.format == "WEBP" and b"VP8L" not in data[:64]:
        return ("webp", UNTOUCHED, 0)
    return ("none", UNTOUCHED, 0)


def rgb(image, rng):
    """8-bit RGB in sRGB, upright; transparency over a plain colour drawn from rng."""
    profile = image.info.get("icc_profile")
    image = ImageOps.exif_transpose(image)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        colours = [(255, 255, 255), (0, 0, 0), (128, 128, 128), tuple(int(c) for c in rng.integers(0, 256, 3))]
        below = Image.new("RGBA", image.size, (*colours[int(rng.integers(4))], 255))
        image, profile = Image.alpha_composite(below, image), None
    if image.mode.startswith("I"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if profile and image.mode in ("RGB", "L", "CMYK"):
        try:
            image = ImageCms.profileToProfile(image, ImageCms.ImageCmsProfile(io.BytesIO(profile)), SRGB, outputMode="RGB")
        except (ImageCms.PyCMSError, OSError):
            pass  # a broken profile is ignored, as decoders do
    return image.convert("RGB")


def decoded(source):
    """Bytes or a path → 8-bit RGB as the product decodes it: EXIF orientation, alpha over grey 128."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(source) if isinstance(source, bytes) else source))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (128, 128, 128, 255)), image)
    return np.asarray(image.convert("RGB"))


def encode(image, codec, quality, chroma=0):
    out = io.BytesIO()
    if codec == "jpeg":
        image.save(out, "JPEG", quality=int(quality), subsampling=int(chroma))
    elif codec == "webp":
        image.save(out, "WEBP", quality=int(quality), method=2)
    else:
        image.save(out, "PNG", compress_level=1)
    return out.getvalue()


def recompressed(image, codec, quality, chroma=0):
    return Image.open(io.BytesIO(encode(image, codec, quality, chroma))).convert("RGB")


def common_history(a, b, rng):
    """What must be done to each of two images so that both have been through the same: two lists of steps.

    The lower JPEG quality of the two, and WebP where one has been through it.
    """
    steps = ([], [])
    low = min(a, b, key=lambda h: h[1])
    for mine, todo in zip((a, b), steps):
        if mine[1] > low[1] + 2:
            todo.append(("jpeg", low[1], low[2]))
    if "webp" in (a[0], b[0]):
        quality = int(rng.integers(78, 93))
        for mine, todo in zip((a, b), steps):
            if mine[0] != "webp":
                todo.append(("webp", quality, 0))
    return steps


def cut(image, box, steps, out):
    """The box of the image after the steps, which are done on the image's own 8×8 grid, resized to `out` (w, h)."""
    x, y, w, h = box
    if steps:
        x0, y0 = x - x % 16, y - y % 16
        part = image.crop((x0, y0, min(image.width, x + w + 16), min(image.height, y + h + 16)))
        for step in steps:
            part = recompressed(part, *step)
        part = part.crop((x - x0, y - y0, x - x0 + w, y - y0 + h))
    else:
        part = image.crop((x, y, x + w, y + h))
    return part if part.size == tuple(out) else part.resize(out, Image.Resampling.LANCZOS)


def free_offset(room, rng):
    """An offset up to `room` that is no multiple of 8, where there is one."""
    if room < 1:
        return 0
    at = int(rng.integers(1, room + 1))
    return at if at % 8 else at - 1
