/** A decoded image on its way from the server to a replica: a data: URL of raw pixels. No client can send one. */

/** Tightly packed RGB. */
export type PixelImage = { width: number; height: number; pixels: Uint8Array };

const PATTERN = /^data:image\/x-rgb;width=(\d{1,5});height=(\d{1,5});base64,/;

/** The beginning of the URL. The pixels in base64 follow. */
export const pixelHead = ({ width, height }: Omit<PixelImage, "pixels">): string =>
  `data:image/x-rgb;width=${width};height=${height};base64,`;

/** Undefined: the URL is not one of raw pixels. */
export function readPixelUrl(url: string): PixelImage | undefined {
  const [prefix = "", width, height] = PATTERN.exec(url) ?? [];
  if (prefix === "") return undefined;
  const size = { width: Number(width), height: Number(height) };
  const pixels = new Uint8Array(Buffer.from(url.slice(prefix.length), "base64"));
  return size.width > 0 && pixels.length === size.width * size.height * 3 ? { ...size, pixels } : undefined;
}
