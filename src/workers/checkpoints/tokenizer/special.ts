/** Special tokens, the chat template and sampling defaults, from the small JSON files of the folder. */

import { CheckpointError } from "../../../lib/checkpoints/families.ts";
import { isObject } from "../../../lib/json/object.ts";
import type { AddedToken } from "./vocabulary.ts";

type Json = Readonly<Record<string, unknown>>;
const object = (value: unknown): Json => (isObject(value) ? value : {});

export type SmallFiles = {
  config: Json;
  tokenizer: unknown;
  tokenizerConfig: unknown;
  addedTokens: unknown;
  specialTokensMap: unknown;
  generationConfig: unknown;
  chatTemplate: string | undefined;
  /** modules.json and 1_Pooling/config.json of sentence-transformers. */
  modules: unknown;
  pooling: unknown;
};

export type Specials = {
  ids: Map<"bos" | "eos" | "unknown" | "padding" | "eot", number>;
  addBos: boolean | undefined;
  addEos: boolean | undefined;
  template: string | undefined;
};

/** Tokens of tokenizer_config.json and added_tokens.json: older folders name them only there. */
export function otherAddedTokens({ tokenizerConfig, addedTokens }: SmallFiles): AddedToken[] {
  const added: AddedToken[] = [];
  for (const [content, id] of Object.entries(object(addedTokens)))
    if (typeof id === "number") added.push({ id, content, special: false });
  for (const [id, each] of Object.entries(object(object(tokenizerConfig).added_tokens_decoder))) {
    const { content, special } = object(each);
    if (typeof content === "string") added.push({ id: Number(id), content, special: special === true });
  }
  return added;
}

export function specialsOf(files: SmallFiles, tokens: readonly string[]): Specials {
  const settings = object(files.tokenizerConfig);
  const idOf = new Map(tokens.map((text, id) => [text, id]));
  const ids: Specials["ids"] = new Map();
  for (const [kind, name] of [
    ["bos", "bos_token"],
    ["eos", "eos_token"],
    ["unknown", "unk_token"],
    ["padding", "pad_token"],
  ] as const) {
    const token = settings[name] ?? object(files.specialTokensMap)[name];
    const text = typeof token === "string" ? token : object(token).content;
    const byText = typeof text === "string" ? idOf.get(text) : undefined;
    const id = byText ?? firstId(files.config[`${name}_id`]) ?? firstId(object(files.generationConfig)[`${name}_id`]);
    if (id === undefined) continue;
    if (id >= tokens.length)
      throw new CheckpointError(`The ${name} is token ${id}, but the vocabulary has ${tokens.length} tokens`);
    ids.set(kind, id);
  }
  const ends = object(files.generationConfig).eos_token_id;
  const turn = (Array.isArray(ends) ? ends : [ends]).find((id) => Number.isSafeInteger(id) && id !== ids.get("eos"));
  if (typeof turn === "number" && turn >= 0 && turn < tokens.length) ids.set("eot", turn);
  return { ids, ...addedAround(files, settings, idOf, ids), template: templateOf(files, settings) };
}

const firstId = (value: unknown): number | undefined => {
  const id = Array.isArray(value) ? value[0] : value;
  return Number.isSafeInteger(id) && (id as number) >= 0 ? (id as number) : undefined;
};

/** The post-processor of tokenizer.json decides; tokenizer_config.json serves where there is none. */
function addedAround(files: SmallFiles, settings: Json, idOf: ReadonlyMap<string, number>, ids: Specials["ids"]) {
  const single = templatesOf(object(files.tokenizer).post_processor);
  const flag = (name: string) => (typeof settings[name] === "boolean" ? (settings[name] as boolean) : undefined);
  if (single === undefined) return { addBos: flag("add_bos_token"), addEos: flag("add_eos_token") };
  const at = (index: number, kind: "bos" | "eos") => {
    const { id } = object(object(single.at(index)).SpecialToken);
    return typeof id === "string" && idOf.get(id) === ids.get(kind) && ids.has(kind);
  };
  return { addBos: at(0, "bos"), addEos: at(-1, "eos") };
}

function templatesOf(processor: unknown): unknown[] | undefined {
  const { type, single, processors } = object(processor);
  if (type === "TemplateProcessing" && Array.isArray(single)) return single;
  if (type !== "Sequence" || !Array.isArray(processors)) return undefined;
  return processors.map(templatesOf).find((each) => each !== undefined);
}

/** A file of its own wins over tokenizer_config.json, as in transformers. */
function templateOf({ chatTemplate }: SmallFiles, { chat_template: template }: Json): string | undefined {
  if (chatTemplate !== undefined) return chatTemplate;
  if (typeof template === "string") return template;
  if (!Array.isArray(template)) return undefined;
  const named = template.map(object).find(({ name }) => name === "default") ?? object(template[0]);
  return typeof named.template === "string" ? named.template : undefined;
}
