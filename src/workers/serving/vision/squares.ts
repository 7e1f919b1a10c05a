/** Cuts an image into the squares that the encoder reads, with the words of the prompt around them. Pure. */
import type { Projector } from "../../../lib/vision/projector.ts";
import { crop, type Picture, resize, resizeInto, type Size } from "./resize.ts";

/** Text with control tokens, or a square. */
export type Piece = string | Picture;
type Of = Pick<Projector, "kind" | "imageSize" | "longestEdge">;

const BLACK = [0, 0, 0];
const LLAVA_GREY = [122, 116, 104]; // the mean colour of its training images
const MOST_SQUARES = 256;
const FAKE = "<fake_token_around_image>";

export function piecesOf(picture: Picture, of: Of): Piece[] {
  const square = { width: of.imageSize, height: of.imageSize };
  if (of.kind === "mlp") return [resizeInto(picture, square, "bicubic", LLAVA_GREY)];
  if (of.kind === "gemma3")
    return ["<start_of_image>", resizeInto(picture, square, "bilinear", BLACK), "<end_of_image>"];
  const { whole, overview } = of.longestEdge > 0 ? twoSteps(picture, of) : oneStep(picture, of);
  const pieces: Piece[] = [];
  const [columns, rows] = [whole.width / of.imageSize, whole.height / of.imageSize];
  if (rows * columns > MOST_SQUARES)
    throw new RangeError(`the image becomes ${rows * columns} squares; the maximum is ${MOST_SQUARES}`);
  for (let y = 0; y < rows; y++) {
    for (let x = 0; x < columns; x++)
      pieces.push(
        `${FAKE}<row_${y + 1}_col_${x + 1}>`,
        crop(whole, { x: x * of.imageSize, y: y * of.imageSize }, square),
      );
    if (y < rows - 1) pieces.push("\n");
  }
  return [...pieces, `\n\n${FAKE}<global-img>`, overview, FAKE];
}

type Whole = { whole: Picture; overview: Picture };

/** The image is resized to its longest edge, then stretched to whole squares, and the overview is made of that. */
function twoSteps(picture: Picture, { imageSize, longestEdge }: Of): Whole {
  const ratio = picture.width / picture.height;
  const even = (side: number) => Math.max(1, Math.trunc(side)) + (Math.max(1, Math.trunc(side)) % 2);
  const first: Size =
    picture.width >= picture.height
      ? { width: longestEdge, height: even(longestEdge / ratio) }
      : { width: even(longestEdge * ratio), height: longestEdge };
  const up = (side: number) => Math.ceil(side / imageSize) * imageSize;
  const resized = resize(picture, first, "lanczos");
  const whole = resize(resized, { width: up(first.width), height: up(first.height) }, "lanczos");
  return { whole, overview: resize(whole, { width: imageSize, height: imageSize }, "lanczos") };
}

/** For files that do not name the longest edge. */
function oneStep(picture: Picture, { imageSize }: Of): Whole {
  const near = (side: number) => Math.max(imageSize, Math.round(side / imageSize) * imageSize);
  const size = { width: near(picture.width), height: near(picture.height) };
  return {
    whole: resizeInto(picture, size, "bicubic", BLACK),
    overview: resize(picture, { width: imageSize, height: imageSize }, "bicubic"),
  };
}

/** The patches of a square, normalised: for each patch its red, then its green, then its blue values, row by row. */
export function patchesOf(
  { pixels, width, height }: Picture,
  { patchSize: side, mean, deviation }: Pick<Projector, "patchSize" | "mean" | "deviation">,
): Float32Array {
  const f = Math.fround;
  const values = mean.map((m, c) =>
    Float32Array.from({ length: 256 }, (_, byte) => f(f(f(byte / 255) - f(m)) / f(deviation[c]!))),
  );
  const across = width / side;
  const length = side * side * 3;
  const out = new Float32Array(across * (height / side) * length);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const patch = Math.floor(y / side) * across + Math.floor(x / side);
      const within = (y % side) * side + (x % side);
      for (let c = 0; c < 3; c++)
        out[patch * length + c * side * side + within] = values[c]![pixels[(y * width + x) * 3 + c]!]!;
    }
  return out;
}
