/**
 * Prompts with images. An image passes through the chat template as a mark of private-use characters. The mark then becomes
 * the image's rows, with the control tokens of the model around them.
 */
import type { ChatMessage, PromptMessage } from "../../../lib/chat/messages.ts";
import { AppError } from "../../../lib/errors.ts";
import { readPixelUrl } from "../../../lib/vision/pixels.ts";
import type { PromptRows } from "../engine/types.ts";
import { joined, type Quotes } from "../prompt.ts";
import type { Served } from "../request.ts";
import type { SeenPiece } from "./messages.ts";
import type { Picture } from "./resize.ts";

const OPEN = "\uE0F3";
const CLOSE = "\uE0F4";
const MARKS = /[\uE0F3\uE0F4]/gu;
const MARK = /\uE0F3(\d+)\uE0F4/u;

type Taken = { messages: ChatMessage[]; pictures: Picture[] };

/** Puts a mark in place of each image. Marks that a client wrote are removed. */
export function takePictures(prompt: readonly PromptMessage[], canSee: boolean): Taken {
  const pictures: Picture[] = [];
  const hasImages = prompt.some(({ content }) => Array.isArray(content) && content.some(({ type }) => type !== "text"));
  if (!hasImages) return { messages: prompt as ChatMessage[], pictures };
  const clean = (text: string) => text.replaceAll(MARKS, "");
  const messages = prompt.map((message, i): ChatMessage => {
    if (typeof message.content === "string") return { ...message, content: clean(message.content) };
    if (!message.content) return message as ChatMessage;
    const content = message.content.map((part, j) => {
      if (part.type === "text") return { ...part, text: clean(part.text) };
      const at = `/messages/${i}/content/${j}`;
      if (!canSee) throw noImages(at);
      const picture = readPixelUrl(part.image_url.url);
      if (!picture) throw new AppError("schema", `${at.slice(1).replaceAll("/", ".")}: is not decoded`, { param: at });
      return { type: "text" as const, text: `${OPEN}${pictures.push(picture) - 1}${CLOSE}` };
    });
    return { ...message, content } as ChatMessage;
  });
  return { messages, pictures };
}

const noImages = (at: string) =>
  new AppError("schema", `${at.slice(1).replaceAll("/", ".")}: this model reads no images`, { param: at });

type Reading = { pictures: readonly Picture[]; tokenize: Quotes["tokenize"]; signal: AbortSignal };

/** The tokens and the rows of a rendered prompt, and its text as a person reads it. */
export async function withPictures(
  { engine, vision }: Served,
  rendered: string,
  { pictures, tokenize, signal }: Reading,
): Promise<{ text: string; prompt: Int32Array; images: PromptRows[] }> {
  const seen: (readonly SeenPiece[])[] = [];
  for (const picture of pictures) {
    signal.throwIfAborted(); // the other images of a client that left are not read
    seen.push((await vision?.read(picture)) ?? []);
  }
  const parts: Int32Array[] = [];
  const images: PromptRows[] = [];
  let length = 0;
  const add = (tokens: Int32Array) => {
    parts.push(tokens);
    length += tokens.length;
  };
  for (const [i, text] of rendered.split(MARK).entries()) {
    if (i % 2 === 0) {
      add(tokenize(text, i > 0));
      continue;
    }
    for (const piece of seen[Number(text)] ?? []) {
      if (typeof piece === "string") {
        add(engine.tokenize(piece, { addBos: false, special: true }));
        continue;
      }
      const { rows, embeddings, key } = piece;
      images.push({ at: length, rows, embeddings, together: vision?.projector.kind === "gemma3" });
      add(Int32Array.from({ length: rows }, (_, row) => key[row % key.length]! | NEGATIVE));
    }
  }
  if ((parts.at(-1)?.length ?? 0) === 0)
    throw new AppError("invalid_request", "The model's chat template ends with an image. Add text after it", {
      param: "/messages",
    });
  return { text: rendered.replaceAll(/\uE0F3\d+\uE0F4/gu, "<image>"), prompt: joined(parts), images };
}

const NEGATIVE = 1 << 31;
