/** Images of a chat request. A replica gets their pixels, so that no replica decodes a file of a stranger. */
import type { Ctx } from "../../../context.ts";
import type { ImagePart, PromptMessage } from "../../../lib/chat/messages.ts";
import { pixelUrl } from "../../../lib/chat/pixels.ts";
import { AppError } from "../../../lib/errors.ts";
import { readPicture } from "../../detection/pictures.ts";

const MOST_IMAGES = 10; // of one request: each becomes up to 17 MB of text on its way to the replica
const SHOWN_URL = 200;

type Found = { part: ImagePart; at: string };

function imagesIn(body: object): Found[] {
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

type Reader = { ctx: Ctx; workspaceId: string; canSee: boolean; signal: AbortSignal };

/** The body with pixels in place of the URLs of its images. */
export async function withPixels<B extends object>(body: B, { ctx, workspaceId, canSee, signal }: Reader): Promise<B> {
  const found = imagesIn(body);
  const [first] = found;
  if (!first) return body;
  const refuse = (why: string) =>
    new AppError("schema", `${first.at.slice(1).replaceAll("/", ".")}: ${why}`, { param: first.at });
  if (!canSee)
    throw refuse("this model reads no images. Import it together with its projector: verk models import FILE --mmproj FILE");
  if (found.length > MOST_IMAGES)
    throw refuse(`the request has ${found.length} images; the maximum is ${MOST_IMAGES}. Send fewer`);
  const urls = new Map<ImagePart, string>();
  for (const { part, at } of found) {
    const { url } = part.image_url;
    urls.set(part, pixelUrl(await readPicture(ctx, workspaceId, { url, at, signal })));
  }
  return withUrls(body, (part) => urls.get(part) ?? "");
}

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
