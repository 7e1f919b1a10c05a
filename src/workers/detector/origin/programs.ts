/**
 * The settings that programs for generating images write into their files: which model, and which prompt. The texts are
 * untrusted: what does not parse gives null, and what is returned is short.
 */
import { isObject } from "../../../lib/json/object.ts";

export type Settings = { model: string | null; prompt: string | null };
/** Text chunks by keyword in small letters; `parameters` is also the comment in EXIF. `note`: a comment in XMP. */
export type Texts = { comments: ReadonlyMap<string, string>; parameters: string; note: string };

const MOST_MODEL = 120;
const MOST_PROMPT = 2_000;
const MOST_HOPS = 8; // of a graph of nodes
const NOTHING: Settings = { model: null, prompt: null };

type Json = { readonly [key: string]: unknown };
type Reader = (texts: Texts) => Settings;

/** By the names of `metadata.ts`. */
const READERS: Readonly<Record<string, Reader>> = {
  "Stable Diffusion web UI": ({ parameters }) => fromParameters(parameters),
  Fooocus: ({ parameters }) => {
    const json = jsonOf(parameters);
    return json ? settings(json["base_model"] ?? json["model"], json["prompt"]) : fromParameters(parameters);
  },
  ComfyUI: ({ comments }) => fromNodes(jsonOf(comments.get("prompt"))),
  InvokeAI: ({ comments }) => fromInvoke(comments),
  NovelAI: ({ comments }) => {
    const prompt = jsonOf(comments.get("comment"))?.["prompt"] ?? comments.get("description");
    return settings(comments.get("source"), prompt);
  },
  "Draw Things": ({ note, parameters }) => {
    const json = jsonOf(note) ?? jsonOf(parameters);
    return settings(json?.["model"], json?.["c"]);
  },
};

/** `program`: its name, as the traces in the file tell it. */
export const readSettings = (program: string | null, texts: Texts): Settings =>
  (program === null ? undefined : READERS[program]?.(texts)) ?? NOTHING;

function jsonOf(text: string | undefined): Json | undefined {
  if (text === undefined || !text.trimStart().startsWith("{")) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined; // damaged, or cut off
  }
}

const settings = (model: unknown, prompt: unknown): Settings => ({
  model: short(model, MOST_MODEL),
  prompt: short(prompt, MOST_PROMPT),
});

function short(value: unknown, most: number): string | null {
  if (typeof value !== "string") return null;
  const clean = value
    .slice(0, 4 * most)
    .replace(/\p{Cc}+/gu, " ")
    .trim();
  return clean === "" ? null : clean.slice(0, most);
}

/** A prompt, a line that begins with "Negative prompt:", and a line of settings. */
function fromParameters(text: string): Settings {
  const ends = ["\nNegative prompt:", "\nSteps:"].map((mark) => text.indexOf(mark)).filter((at) => at >= 0);
  const isBare = text.startsWith("Steps:") || text.startsWith("Negative prompt:");
  const prompt = isBare ? "" : text.slice(0, ends.length > 0 ? Math.min(...ends) : text.length);
  const line = text.slice(Math.max(0, text.lastIndexOf("Steps: ")));
  return settings(/(?:^|, )Model: ([^,\n]{1,200})/.exec(line)?.[1], prompt);
}

type Nodes = Json | undefined;
const LOADERS = ["ckpt_name", "unet_name", "model_name"] as const;

function fromNodes(nodes: Nodes): Settings {
  if (!nodes) return NOTHING;
  const all = Object.values(nodes).filter(isObject);
  const inputsOf = (node: Json): Json => (isObject(node["inputs"]) ? node["inputs"] : {});
  const names = all.flatMap((node) => LOADERS.map((field) => inputsOf(node)[field]));
  const model = names.find((name) => typeof name === "string");
  const follow = (link: unknown, field: string): unknown => {
    let next = link;
    for (let hop = 0; hop < MOST_HOPS; hop++) {
      if (!Array.isArray(next)) return next;
      const node = nodes[String(next[0])];
      if (!isObject(node)) return undefined;
      const inputs = inputsOf(node);
      next = inputs["text"] ?? inputs[field] ?? inputs["conditioning"] ?? inputs["string"] ?? inputs["value"];
    }
    return undefined;
  };
  for (const node of all) {
    const prompt = follow(inputsOf(node)["positive"], "positive");
    if (typeof prompt === "string") return settings(model, prompt);
  }
  const texts = all.map((node) => inputsOf(node)["text"]).filter((text) => typeof text === "string");
  return settings(model, texts.sort((a, b) => b.length - a.length)[0]);
}

function fromInvoke(comments: ReadonlyMap<string, string>): Settings {
  const made = jsonOf(comments.get("invokeai_metadata"));
  if (made) {
    const { model } = made;
    const name = isObject(model) ? (model["name"] ?? model["model_name"]) : model;
    return settings(name, made["positive_prompt"]);
  }
  const old = jsonOf(comments.get("sd-metadata"));
  if (!old) return settings(null, /^"([^"]*)"/.exec(comments.get("dream") ?? "")?.[1]);
  const image = isObject(old["image"]) ? old["image"] : {};
  const [first] = Array.isArray(image["prompt"]) ? image["prompt"] : [image["prompt"]];
  return settings(old["model_weights"], isObject(first) ? first["prompt"] : first);
}
