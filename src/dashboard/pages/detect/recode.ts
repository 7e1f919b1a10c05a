/** Re-encodes an image in the browser, as sites do with uploads, and detects each copy. */
import type { Detection } from "../../../resources/detection/schema.ts";
import { detect } from "./files.ts";

export type Recoding = {
  label: string;
  type: "image/jpeg" | "image/webp" | "image/png";
  quality: number;
  scale: number;
};

const jpeg = (percent: number): Recoding => ({
  label: `JPEG ${percent}`,
  type: "image/jpeg",
  quality: percent / 100,
  scale: 1,
});

export const RECODINGS: readonly Recoding[] = [
  ...[95, 80, 60, 40].map(jpeg),
  { label: "WebP 80", type: "image/webp", quality: 0.8, scale: 1 },
  { label: "WebP 50", type: "image/webp", quality: 0.5, scale: 1 },
  { label: "Three quarters of the size", type: "image/jpeg", quality: 0.9, scale: 0.75 },
  { label: "Half the size", type: "image/jpeg", quality: 0.9, scale: 0.5 },
];

export type Recoded = { label: string; bytes: number; detection: Detection };

/** One after the other, so that a matrix does not fill the queue of the server. */
export async function* recodeAll(file: Blob, signal: AbortSignal): AsyncGenerator<Recoded> {
  const image = await createImageBitmap(file);
  try {
    for (const recoding of RECODINGS) {
      if (signal.aborted) return;
      const copy = await recode(image, recoding);
      yield { label: recoding.label, bytes: copy.size, detection: await detect(copy) };
    }
  } finally {
    image.close();
  }
}

async function recode(image: ImageBitmap, { type, quality, scale }: Recoding): Promise<Blob> {
  const [width, height] = [image.width, image.height].map((side) => Math.max(1, Math.round(side * scale)));
  const canvas = document.createElement("canvas");
  canvas.width = width ?? 1;
  canvas.height = height ?? 1;
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return await new Promise((resolve, reject) =>
    canvas.toBlob(
      (blob) => (blob ? resolve(blob) : reject(new Error("The browser cannot encode this image."))),
      type,
      quality,
    ),
  );
}
