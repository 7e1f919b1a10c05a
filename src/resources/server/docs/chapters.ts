/** The chapters of the reference page. Each is sent by itself, because the whole contract has hundreds of kilobytes. */
import { takingTurns } from "../../../lib/turns.ts";

type Json = Record<string, unknown>;
type Operation = { operationId: string; summary?: string; tags?: readonly string[] };
type Document = {
  info: { version: string };
  paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  components?: Readonly<Record<string, Readonly<Json>>>;
};

export type ChapterEntry = { id: string; method: string; path: string; summary: string };
export type Chapter = { name: string; title: string; operations: readonly ChapterEntry[] };
/** All routes by chapter, without their schemas. */
export type ReferenceIndex = { version: string; chapters: readonly Chapter[] };
export type Reference = { index: ReferenceIndex; contracts: ReadonlyMap<string, Json> };

/** Chapters that a path belongs to before its tag counts, in the order of the page. What most people look for is first. */
const BY_PATH: readonly (readonly [title: string, path: RegExp])[] = [
  ["Chat", /^\/v1\/(chat\/completions|completions|embeddings)(\/|$)|^\/v1\/rerank$/],
  ["Responses", /^\/v1\/(responses|conversations)(\/|$)/],
  ["Messages", /^\/v1\/messages(\/|$)/],
  ["Batches and files", /^\/v1\/(batches|files|uploads)(\/|$)/],
  ["Fine-tuning and evals", /^\/v1\/(fine_tuning|evals)(\/|$)/],
  ["Google", /^\/v1beta\//],
  ["Hugging Face", /^\/models\//],
  ["Ollama and LM Studio", /^\/api\/(?!detect|account)/],
  ["llama.cpp", /^\/(apply-template|completion|detokenize|infill|lora-adapters|props|slots|tokenize)$/],
];
const FIRST = ["Chat", "Models", "Deployments", "Datasets", "Training jobs"];
const LAST = ["System"];

/** The order of the methods of one path: the call that makes a thing comes before the list. */
const METHODS = ["post", "get", "put", "patch", "delete"];

const nameOf = (title: string) => title.toLowerCase().replaceAll(/\W+/g, "-");
const titleOf = (path: string, { tags = [] }: Operation) =>
  BY_PATH.find(([, pattern]) => pattern.test(path))?.[0] ?? tags[0] ?? "System";

const rankOf = (title: string) => {
  if (LAST.includes(title)) return 1_000;
  const [first, byPath] = [FIRST.indexOf(title), BY_PATH.findIndex(([each]) => each === title)];
  return first >= 0 ? first : byPath < 0 ? FIRST.length : 500 + byPath; // formats of other programs come after our own
};

/** `{info, paths, components}` of one chapter each, with the components that its routes use. */
export async function referenceOf(document: Document): Promise<Reference> {
  const { info, paths, components = {}, ...rest } = document;
  const chapters = new Map<string, { path: string; method: string; operation: Operation }[]>();
  for (const [path, item] of Object.entries(paths))
    for (const method of METHODS) {
      const operation = item[method];
      if (!operation) continue;
      const title = titleOf(path, operation);
      chapters.set(title, [...(chapters.get(title) ?? []), { path, method, operation }]);
    }
  const ordered = [...chapters].sort(([a], [b]) => rankOf(a) - rankOf(b) || a.localeCompare(b));
  const contracts = new Map<string, Json>();
  const turn = takingTurns();
  for (const [title, some] of ordered) {
    const own: Record<string, Json> = {};
    for (const { path, method, operation } of some) own[path] = { ...own[path], [method]: operation };
    contracts.set(nameOf(title), { ...rest, info, paths: own, components: usedBy(own, components) });
    await turn();
  }
  const index = ordered.map(([title, some]) => ({
    name: nameOf(title),
    title,
    operations: some.map(({ path, method, operation: { operationId: id, summary = id } }) => ({
      id,
      method,
      path,
      summary,
    })),
  }));
  return { index: { version: info.version, chapters: index }, contracts };
}

/** The components that a part of the document refers to, directly or through others. */
function usedBy(part: Json, components: Readonly<Record<string, Readonly<Json>>>): Record<string, Json> {
  const used: Record<string, Json> = {};
  const waiting: unknown[] = [part];
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    if (typeof at !== "object" || at === null) continue;
    const { $ref } = at as { $ref?: unknown };
    if (typeof $ref === "string") {
      const [, , kind = "", name = ""] = $ref.split("/");
      const target = components[kind]?.[name];
      used[kind] ??= {};
      if (target !== undefined && used[kind][name] === undefined) {
        used[kind][name] = target;
        waiting.push(target);
      }
    }
    waiting.push(...Object.values(at));
  }
  return used;
}
