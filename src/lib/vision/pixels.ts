/** A decoded image on its way from the server to a replica: a data: URL of raw pixels. No client can send one. */

/** Tightly packed RGB. */
export type PixelImage = { width: number; height: number; pixels: Uint8Array };

const PATTERN = /^data:image\/x-rgb;width=(\d{1,5});height=(\d{1,5});base64,/;

export const pixelUrl = ({ width, height, pixels }: PixelImage): string =>
  `data:image/x-rgb;width=${width};height=${height};base64,${Buffer.from(pixels).toString("base64")}`;

/** Undefined: the URL is not one of `pixelUrl`. */
export function readPixelUrl(url: string): PixelImage | undefined {
  const [prefix = "", width, height] = PATTERN.exec(url) ?? [];
  if (prefix === "") return undefined;
  const size = { width: Number(width), height: Number(height) };
  const pixels = new Uint8Array(Buffer.from(url.slice(prefix.length), "base64"));
  return size.width > 0 && pixels.length === size.width * size.height * 3 ? { ...size, pixels } : undefined;
}
