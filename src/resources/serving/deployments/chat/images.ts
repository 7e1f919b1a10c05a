/** Images of a chat request. A replica gets their pixels, so that no replica decodes a file of a stranger. */
import type { Ctx } from "../../../../context.ts";
import type { ImagePart, PromptMessage } from "../../../../lib/chat/messages.ts";
import { AppError } from "../../../../lib/errors.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import { MIB } from "../../../../lib/units.ts";
import { type PixelImage, pixelHead } from "../../../../lib/vision/pixels.ts";
import { readPicture } from "../../../detection/pictures.ts";

const MOST_IMAGES = 10; // of one request: each becomes up to 17 MB of text on its way to the replica
const SLICE_BYTES = 192 * 1024; // a multiple of 3: base64 of slices can be joined
const SHOWN_URL = 200;
/** Limit for all requests on their way, because a small file can become very many pixels. */
const MOST_HELD_BYTES = 512 * MIB;
const COPIES = 2; // the pixels, and what the socket has not sent of them

type ImageAt = { part: ImagePart; at: string };

function imagesIn(body: object): ImageAt[] {
  const { messages } = body as { messages?: readonly PromptMessage[] };
  if (!Array.isArray(messages)) return [];
  return messages.flatMap(({ content }: PromptMessage, i) =>
    Array.isArray(content)
      ? content.flatMap((part, j) =>
          part.type === "image_url" ? [{ part, at: `/messages/${i}/content/${j}/image_url/url` }] : [],
        )
      : [],
  );
}

/** `release`: call when the replica has the request. */
type Prepared = { body: BodyInit; release: () => void };
type Reader = { ctx: Ctx; workspaceId: string; canSee: boolean; signal: AbortSignal };

/** The body as it is sent, with pixels in place of the URLs of its images. */
export async function withPixels(body: object, { ctx, workspaceId, canSee, signal }: Reader): Promise<Prepared> {
  const imageParts = imagesIn(body);
  const [first] = imageParts;
  if (!first) return { body: JSON.stringify(body), release: () => {} };
  const refuse = (why: string) =>
    new AppError("schema", `${first.at.slice(1).replaceAll("/", ".")}: ${why}`, { param: first.at });
  if (!canSee)
    throw refuse(
      "this model reads no images. Import it together with its projector: verk models import FILE --mmproj FILE",
    );
  if (imageParts.length > MOST_IMAGES)
    throw refuse(`the request has ${imageParts.length} images; the maximum is ${MOST_IMAGES}. Send fewer`);
  const images = new Map<ImagePart, PixelImage>();
  const state = ctx.state.deployments;
  let held = 0;
  const release = () => {
    state.pixelBytes -= held;
    held = 0;
  };
  try {
    for (const { part, at } of imageParts) {
      const { url } = part.image_url;
      const image = await readPicture(ctx, workspaceId, { url, at, signal });
      held += image.pixels.length * COPIES;
      state.pixelBytes += image.pixels.length * COPIES;
      if (state.pixelBytes > MOST_HELD_BYTES) throw full();
      images.set(part, image);
    }
    return { body: streamOf(spliced(body, images)), release };
  } catch (error) {
    release();
    throw error;
  }
}

/** The JSON of the body. The pixels are written in slices: as one text they would hold the event loop. */
async function* spliced(body: object, images: ReadonlyMap<ImagePart, PixelImage>): AsyncGenerator<string> {
  const mark = crypto.randomUUID();
  const texts = JSON.stringify(withUrls(body, () => mark)).split(mark);
  const turn = takingTurns();
  yield texts[0] ?? "";
  for (const [i, { pixels, ...size }] of [...images.values()].entries()) {
    yield pixelHead(size);
    for (let from = 0; from < pixels.length; from += SLICE_BYTES) {
      await turn();
      yield Buffer.from(pixels.buffer, pixels.byteOffset + from, Math.min(SLICE_BYTES, pixels.length - from)).toString(
        "base64",
      );
    }
    yield texts[i + 1] ?? "";
  }
}

const streamOf = (texts: AsyncGenerator<string>) =>
  new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await texts.next();
      if (done) controller.close();
      else controller.enqueue(Buffer.from(value));
    },
    cancel: () => texts.return(undefined).then(() => {}),
  });

const full = () =>
  new AppError("no_capacity", "The server is busy with the images of other requests. Try again in a second", {
    retryAfterSeconds: 1,
  });

/** The body as it is kept in a trace: without the bytes of its images. */
export const withoutBytes = <B extends object>(body: B): B =>
  imagesIn(body).length === 0
    ? body
    : withUrls(body, ({ image_url: { url } }) =>
        url.length <= SHOWN_URL ? url : `${url.slice(0, 40)}… (${url.length} characters)`,
      );

function withUrls<B extends object>(body: B, urlOf: (part: ImagePart) => string): B {
  const { messages } = body as unknown as { messages: readonly PromptMessage[] };
  const replaced = messages.map((message) =>
    Array.isArray(message.content)
      ? {
          ...message,
          content: message.content.map((part) =>
            part.type === "image_url" ? { ...part, image_url: { ...part.image_url, url: urlOf(part) } } : part,
          ),
        }
      : message,
  );
  return { ...body, messages: replaced };
}
