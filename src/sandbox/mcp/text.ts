/** The result of a tool as a text for the model. */
import type { Result } from "./forms.ts";

const MAX_CHARACTERS = 64 * 1024;

type Part = Result["content"][number];

/** Pictures and sounds are named, because the model reads text alone. */
export function textOf({ content, structuredContent }: Result): string {
  const parts = content.map(partText);
  const isEmpty = parts.every((text) => text === "");
  const text = isEmpty && structuredContent !== undefined ? JSON.stringify(structuredContent) : parts.join("\n");
  if (text.length <= MAX_CHARACTERS) return text;
  const cut = text.slice(0, MAX_CHARACTERS).toWellFormed();
  return `${cut}\n[cut: the result has ${text.length} characters, and the first ${MAX_CHARACTERS} are shown]`;
}

function partText({ type, text, mimeType, uri, resource }: Part): string {
  if (type === "text") return text ?? "";
  if (resource) return resource.text ?? `[resource ${resource.uri}]`;
  return `[${type}${mimeType ? ` ${mimeType}` : ""}${uri ? ` ${uri}` : ""}]`;
}
