/** Images of a message that is not sent yet. */
import { plural } from "../../data/format.ts";
import { IconButton } from "../../kit/button.tsx";

type ImagesProps = { of: readonly string[]; onChange: (images: readonly string[]) => void };

export const Images = ({ of, onChange }: ImagesProps) =>
  of.length === 0 ? null : (
    <ul class="playground-images" aria-label={plural(of.length, "attached image")}>
      {of.map((url, i) => (
        <li key={i}>
          <img src={url} alt={`Attached ${i + 1}`} />
          <IconButton
            icon="close"
            label={`Remove image ${i + 1}`}
            onClick={() => onChange(of.filter((_, at) => at !== i))}
          />
        </li>
      ))}
    </ul>
  );

/** A chat request takes this many at most. */
export const MOST_IMAGES = 10;
/** Models scale images down themselves: a larger one only fills the request. */
const MOST_PIXELS = 1_568; // of a side
const QUALITY = 0.9;

/** The files that are images, as data URLs. Large ones are scaled down. A file that is no image is left out. */
export async function readImages(files: Iterable<File>): Promise<string[]> {
  const images = [...files].filter(({ type }) => type.startsWith("image/"));
  const read = await Promise.all(images.map((file) => readImage(file).catch(() => undefined)));
  return read.flatMap((url) => (url === undefined ? [] : [url]));
}

async function readImage(file: Blob): Promise<string> {
  const image = await createImageBitmap(file);
  try {
    const scale = Math.min(1, MOST_PIXELS / Math.max(image.width, image.height));
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(image.width * scale));
    canvas.height = Math.max(1, Math.round(image.height * scale));
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return canvas.toDataURL(file.type === "image/png" ? "image/png" : "image/jpeg", QUALITY);
  } finally {
    image.close();
  }
}
